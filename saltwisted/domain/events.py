"""
Event tags: how they are built, and which a minion may fire on its master.

Tags are words between slashes, C{salt/job/<jid>/ret/<id>}. Below C{salt/} a minion fires what
stock's minions fire, about itself, and nothing else (T-EVT-1, T-EVT-4): the rest of these tags are
words of a master, and start reactions that nobody but a master should start. C{minion_events} may
open more of them (L{saltwisted.domain.minionevents}), but never those in the name of a master, a
job or another minion. Elsewhere a minion fires what its site makes up.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from fnmatch import fnmatchcase, translate
from re import compile as compile_pattern
from typing import Any

from saltwisted.wire.text import is_text

TRIMMED = "VALUE_TRIMMED"
"""What Salt puts in the place of a value that makes an event too large."""

_MASTERS = (
    "salt/auth",
    "salt/auth/*",
    "salt/batch/*",
    "salt/cloud/*",
    "salt/cluster/*",
    "salt/key*",
    "salt/presence/*",
    "salt/reactors/*",
    "salt/roots/*",
    "salt/run/*",
    "salt/scheduler/*",
    "salt/wheel/*",
    "cluster/*",
    "saltwisted/*",
)
"""Tags in which a master speaks of itself; nothing lets a minion fire them."""
_FORBIDDEN = compile_pattern("|".join(translate(pattern) for pattern in _MASTERS))
_ABOUT = {
    ("salt", "minion"): 2,
    ("salt", "beacon"): 2,
    ("salt", "state_result"): 3,
    ("salt", "job"): 4,
    ("minion", "refresh"): 2,
    ("resource", "refresh"): 2,
}
"""The first two words of tags about one minion, to the place of its id."""
_OF_A_JOB = frozenset(("prog", "ret", "start", "sub"))
"""
What is said about a minion's part of a job: its start and its progress by the minion, the others by
the master after a return, which is the minion's word as well.
"""
_ENGINES = ("salt/engines/", "salt/engine/")
"""
Where stock's engines fire what comes from outside, on minions too: C{hook}, C{slack}, C{ircbot},
C{docker_events}, C{libvirt_events}; C{sqs} and C{redis_sentinel} leave out the C{s}.
"""
_OTHERS = frozenset(("salt/deltaproxy/start",))
_SALT = "salt/"
_JUDGED = (_SALT, "cluster/", "saltwisted/", "minion/", "resource/")
MAX_TAG = 4096
"""Characters of a tag."""


class Standing(Enum):
    """
    How a tag stands to the minion that fires it.

    @cvar FREE: the minion may fire it, unless C{minion_events} names others.
    @cvar CLOSED: the minion may fire it if C{minion_events} opens it.
    @cvar NEVER: no option lets the minion fire it.
    """

    FREE = "free"
    CLOSED = "closed"
    NEVER = "never"


def standing(minion_id: str, tag: object) -> Standing:
    """
    Whether a minion may fire this tag, alone or in a list, in one of three words.

    Never: what names a master, a job or another minion, and what cannot be a tag (the packed form
    of events ends it at two newlines, and UTF-8 has no halves of characters).
    """
    if not isinstance(tag, str) or not tag or len(tag) > MAX_TAG or "\n\n" in tag:
        return Standing.NEVER
    if not tag.isascii() and not is_text(tag):
        return Standing.NEVER
    if not tag.startswith(_JUDGED):
        return Standing.FREE
    if _FORBIDDEN.match(tag) is not None:
        return Standing.NEVER
    words = tag.split("/", 5)
    place = _ABOUT.get((words[0], words[1]))
    if place is None:
        free = words[0] != "salt" or tag.startswith(_ENGINES) or tag in _OTHERS
        return Standing.FREE if free else Standing.CLOSED
    if words[:2] == ["salt", "job"] and (len(words) <= place or words[3] not in _OF_A_JOB):
        return Standing.NEVER
    if words[0] != "salt" and len(words) <= place:
        return Standing.FREE
    return Standing.FREE if len(words) > place and words[place] == minion_id else Standing.NEVER


def minion_may_fire(minion_id: str, tag: object) -> bool:
    """Whether a minion may fire this tag where C{minion_events} says nothing."""
    return standing(minion_id, tag) is Standing.FREE


_KNOWN = (
    *(pattern.split("/")[1] for pattern in _MASTERS if pattern.startswith(_SALT)),
    *(second for first, second in _ABOUT if first == "salt"),
    "deltaproxy",
    "engine",
    "engines",
)
"""The second words below C{salt/} of what minions fire, and of what they never do."""
OF_THE_MASTER = ("salt/netapi/", "salt/fileserver/")
"""Where a master fires what it is told from outside; stock lets minions do so, too."""


def closed_to_minions(pattern: str) -> bool:
    """
    Whether a reaction to tags of this pattern waits below C{salt/} for what a stock master takes
    from its minions, and this one takes only where C{minion_events} opens it.
    """
    if not pattern.startswith(_SALT):
        return False
    second = pattern[len(_SALT) :].partition("/")[0]
    return not any(fnmatchcase(known, second) or fnmatchcase(second, known) for known in _KNOWN)


def trimmed(data: Mapping[str, Any], limit: int) -> Mapping[str, Any]:
    """
    The event's data with its largest values replaced until it weighs at most C{limit} bytes.

    As in Salt, values go whole. The weight is an estimate of the packed size.
    """
    sizes = {key: weight(value) for key, value in data.items()}
    total = sum(sizes.values()) + sum(len(str(key)) + 1 for key in sizes)
    if total <= limit:
        return data
    small = dict(data)
    for key in sorted(sizes, key=sizes.__getitem__, reverse=True):
        if total <= limit:
            break
        value = data[key]
        if isinstance(value, dict) and value:
            inner = trimmed(value, max(limit - (total - sizes[key]), 0))
            small[key] = inner
            total -= sizes[key] - weight(inner)
        elif sizes[key] > len(TRIMMED):
            small[key] = TRIMMED
            total -= sizes[key] - len(TRIMMED) - 1
    return small


def weight(value: Any, depth: int = 64) -> int:
    """Roughly the bytes that a value takes when packed."""
    kind = type(value)
    if kind is str or kind is bytes:
        return len(value) + 2
    if depth and kind is dict:
        total = 2
        for key, item in value.items():
            # Nearly all that is fired is flat: no call for each text
            total += len(key) + 2 if type(key) is str else weight(key, 0)
            total += len(item) + 2 if type(item) is str else weight(item, depth - 1)
        return total
    if depth and (kind is list or kind is tuple):
        total = 2
        for item in value:
            # An event may name ten thousand minions: no call for each
            total += len(item) + 2 if type(item) is str else weight(item, depth - 1)
        return total
    return 9


WALK = 30_000
"""Values of an event that are looked at one by one: one or two milliseconds."""
BEYOND = 80
"""Bytes for which each value counts of an event that has more: about what it takes in memory."""


def rough_weight(value: Any) -> int:
    """
    As L{weight}, but of what has more than L{WALK} values only the first are looked at: it counts
    for L{BEYOND} bytes for each value that is known to be in there, and so for megabytes.
    """
    total, count = 0, 1
    waiting: list[Any] = [(value,)]
    while waiting:
        for item in waiting.pop():
            kind = type(item)
            if kind is str or kind is bytes:
                total += len(item) + 2
            elif kind is dict:
                total += 2
                if item:
                    count += len(item)
                    waiting.append(item)
                    waiting.append(item.values())
            elif kind is list or kind is tuple:
                total += 2
                if item:
                    count += len(item)
                    waiting.append(item)
            else:
                total += 9
        if count > WALK:
            return max(total, count * BEYOND)
    return total
