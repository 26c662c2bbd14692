"""
The C{reactor} option: tags, and the SLS that react to their events.

An entry is C{{tag: sls}} or C{{tag: [sls, ...]}}, as in Salt. Ours may be a map too, with C{sls}
and options beside it::

    reactor:
      - 'salt/minion/*/start':
          - /srv/reactor/start.sls
      - 'backup/wanted':
          sls: salt://reactor/backup.sls
          throttle: {seconds: 60, by: [id]}

An entry that means nothing is named and left out; the others count.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from saltwisted.words import listed

AT_MOST, AT_LEAST = "at_most", "at_least"
OPTIONS = ("sls", "saltenv", "once", "throttle", "debounce", "batch", "sample")
LONGEST = 86400.0
"""Seconds of a throttle or a debounce at most."""


@frozen
class Interval:
    """
    A length of time, separately for each kind of event.

    @ivar by: paths into an event's data (C{id}, C{data:disk}) or C{tag}: events with the same
        values of these are of one kind; empty for all events of the entry together.
    """

    seconds: float
    by: tuple[str, ...] = ()


@frozen(kw_only=True)
class Entry:
    """
    One entry of C{reactor}.

    @ivar number: its place, from 1, for messages.
    @ivar tag: shell wild cards that the whole tag has to match.
    @ivar sls: paths, C{salt://} addresses, or wild cards of paths.
    @ivar once: what happens to a runner whose node died in it: C{at_most} or C{at_least}.
    @ivar throttle: the first event of a kind triggers a reaction, the others within this time do
        not.
    @ivar debounce: when a kind has been quiet for this time, its last event triggers a reaction.
    @ivar batch: how many reactions of this entry may be unfinished at the same time; 0 is no limit.
    @ivar sample: C{{"tag", "data"}} with which its SLS files are tried when they are checked.
    """

    number: int
    tag: str
    sls: tuple[str, ...]
    saltenv: str = "base"
    once: str = AT_MOST
    throttle: Interval | None = None
    debounce: Interval | None = None
    batch: int = 0
    sample: Mapping[str, Any] | None = None


class _Wrong(Exception):
    """Why an entry means nothing."""


def parse(value: Any) -> tuple[list[Entry], list[str]]:
    """
    The entries of a C{reactor} option, and a sentence for each invalid one.

    @param value: the list; none at all is no entries.
    """
    found = list(reading(value))
    entries = [each for each in found if isinstance(each, Entry)]
    return entries, [each for each in found if isinstance(each, str)]


def reading(value: Any) -> Iterator[Entry | str]:
    """The same one by one, for callers without time for thousands: an entry, or a sentence."""
    if value in (None, "", [], {}):
        return
    if not isinstance(value, (list, tuple)):
        yield f"reactor must be a list of maps (tag: sls) or a path, not {_kind(value)}"
        return
    for number, item in enumerate(value, 1):
        try:
            found: Entry | str = _entry(number, item)
        except _Wrong as wrong:
            name = f" ({next(iter(item))})" if isinstance(item, Mapping) and item else ""
            found = f"reactor, entry {number}{name}: {wrong}"
        yield found


def _entry(number: int, item: Any) -> Entry:
    if not isinstance(item, Mapping):
        raise _Wrong(f"must be a map of one tag to its SLS, not {_kind(item)}")
    if len(item) != 1:
        tags = listed([repr(tag) for tag in item])
        raise _Wrong(f"must have one tag, and has {tags or 'none'}; give each an entry of its own")
    tag, body = next(iter(item.items()))
    if not isinstance(tag, str) or not tag:
        raise _Wrong(f"the tag must be text, not {_kind(tag)}")
    if not isinstance(body, Mapping):
        return Entry(number=number, tag=tag, sls=_sls(body))
    strange = [str(name) for name in body if name not in OPTIONS]
    if strange:
        raise _Wrong(f"there is no option {listed(strange)}; there are {listed(OPTIONS)}")
    if "sls" not in body:
        raise _Wrong("needs sls: what reacts")
    once = body.get("once", AT_MOST)
    if once not in (AT_MOST, AT_LEAST):
        raise _Wrong(f"once must be {AT_MOST} or {AT_LEAST}, not {once!r}")
    saltenv = body.get("saltenv", "base")
    if not isinstance(saltenv, str) or not saltenv:
        raise _Wrong(f"saltenv must be the name of an environment, not {_kind(saltenv)}")
    batch = body.get("batch", 0)
    if isinstance(batch, bool) or not isinstance(batch, int) or batch < 0:
        raise _Wrong(f"batch must be a whole number of reactions, not {batch!r}")
    if body.get("throttle") is not None and body.get("debounce") is not None:
        raise _Wrong("throttle and debounce exclude one another")
    return Entry(
        number=number,
        tag=tag,
        sls=_sls(body["sls"]),
        saltenv=saltenv,
        once=once,
        throttle=_interval("throttle", body.get("throttle")),
        debounce=_interval("debounce", body.get("debounce")),
        batch=batch,
        sample=_sample(body.get("sample")),
    )


def _sls(body: Any) -> tuple[str, ...]:
    found = [body] if isinstance(body, str) else body
    if not isinstance(found, (list, tuple)) or not found:
        raise _Wrong(f"needs a path of an SLS or a list of them, not {_kind(body)}")
    for one in found:
        if not isinstance(one, str) or not one.strip():
            raise _Wrong(f"an SLS must be a path or a salt:// address, not {_kind(one)}")
        if not one.startswith(("/", "salt://")):
            raise _Wrong(
                f"{one!r} is neither an absolute path nor a salt:// address: a daemon has no "
                "working directory"
            )
    return tuple(found)


def _interval(name: str, value: Any) -> Interval | None:
    if value is None:
        return None
    by: Sequence[Any] = ()
    seconds = value
    if isinstance(value, Mapping):
        strange = [str(key) for key in value if key not in ("seconds", "by")]
        if strange:
            raise _Wrong(f"{name} has seconds and by, and no {listed(strange)}")
        seconds = value.get("seconds")
        by = value.get("by") or ()
        by = [by] if isinstance(by, str) else by
        if not isinstance(by, (list, tuple)) or not all(isinstance(one, str) for one in by):
            raise _Wrong(f"by of {name} must be names in the event's data, such as id")
    number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    if not number or not 0 < float(seconds) <= LONGEST:
        raise _Wrong(f"{name} needs a number of seconds from above 0 to {LONGEST:.0f}")
    return Interval(float(seconds), tuple(by))


def _sample(value: Any) -> Mapping[str, Any] | None:
    if value is None:
        return None
    if not isinstance(value, Mapping) or not isinstance(value.get("data"), Mapping):
        raise _Wrong("sample must be a map with data, and a tag if the entry's has wild cards")
    return value


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, str):
        return repr(value[:100])
    if isinstance(value, Mapping):
        return "a map"
    return "a list" if isinstance(value, (list, tuple)) else repr(value)[:100]


Fits = Callable[[str], object]
"""Whether a tag fits a pattern, if it begins as the pattern does before its first wild card."""
_WILD = re.compile(r"[*?[]")


class Matcher:
    """
    Which entries match an event's tag: shell wild cards also match line ends, and the whole tag has
    to match, as with C{fnmatch} in stock.

    Most events match none. So a tag is looked up as a whole, and by each length that patterns have
    before their first wild card; only patterns with the same beginning are tried.
    """

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._plain: dict[str, list[Entry]] = {}
        self._wild: dict[str, dict[str, tuple[Fits, list[Entry]]]] = {}
        self._lengths: tuple[int, ...] = ()
        for entry in entries:
            self.add(entry)

    def add(self, entry: Entry) -> None:
        """One more, behind the others."""
        wild = _WILD.search(entry.tag)
        if wild is None:
            self._plain.setdefault(entry.tag, []).append(entry)
            return
        head = entry.tag[: wild.start()]
        if head not in self._wild:
            self._wild[head] = {}
            self._lengths = tuple(sorted({*self._lengths, len(head)}))
        same = self._wild[head]
        if entry.tag not in same:
            same[entry.tag] = (_fits(entry.tag), [])
        same[entry.tag][1].append(entry)

    def matching(self, tag: str) -> list[Entry]:
        """The entries, in their order."""
        found = list(self._plain.get(tag, ()))
        for length in self._lengths:
            if length > len(tag):
                break
            for fits, entries in self._wild.get(tag[:length], {}).values():
                if fits(tag):
                    found += entries
        if len(found) > 1:
            found.sort(key=_number)
        return found


def _number(entry: Entry) -> int:
    return entry.number


def _fits(pattern: str) -> Fits:
    if "?" in pattern or "[" in pattern:
        return re.compile(fnmatch.translate(pattern)).match
    head, *middle, last = pattern.split("*")

    def fits(tag: str) -> bool:
        """Stars alone need no expression, which would take long to make."""
        at, end = len(head), len(tag) - len(last)
        if at > end or not tag.endswith(last):
            return False
        for part in middle:
            at = tag.find(part, at, end)
            if at < 0:
                return False
            at += len(part)
        return True

    return fits
