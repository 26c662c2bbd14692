"""
What is special about a master's schedule: what an entry calls, and what is known of it elsewhere.

An entry of a master runs a runner; with C{client: wheel} a wheel function, with C{client: local} a
function on minions. Errors of an entry are reported when it is read, because nobody watches when it
runs. Changes at run time, and what has run, are stored by key:

 - C{job/NAME}: the entry as it was changed, or that it was deleted (C{data} is C{None});
 - C{ran/NAME}: when it ran last, where, and the result;
 - C{pause} and C{pause/NAME}: who has paused the schedule, or one entry;
 - C{automation}: who has paused all automation, including the reactor.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import date, datetime
from difflib import get_close_matches
from typing import Any, Protocol

from attrs import frozen

from saltwisted.domain.schedule import GLOBALS, TIME_FORMAT, ScheduleError
from saltwisted.domain.schedulebook import timing

AUTOMATION = "automation"
CLIENTS = ("runner", "wheel", "local")
OPTIONS = frozenset(
    """
    name function func fun args kwargs seconds minutes hours days when cron once once_fmt splay
    range skip_during_range run_after_skip_range run_explicit skip_explicit until after enabled
    run_on_start dry_run maxrunning jid_include return_job returner return_config return_kwargs
    metadata client tgt tgt_type run_missed
    """.split()  # noqa: SIM905 - read as a list of words
)
"""What an entry may say."""
FLAGS = ("enabled", "run_on_start", "dry_run", "jid_include", "run_missed", "run_after_skip_range")
CLAIMED = 60
"""Seconds: each run of an interval of at least so many is claimed by itself."""
LATE = 15.0
"""Seconds that a run at a time of day may be late, at least: a takeover takes ten."""

Judge = Callable[[str, str, list[Any], dict[str, Any]], str]
"""C{judge(client, function, args, kwargs)}: why a function cannot be called so, or C{""}."""


class IScheduleFacts(Protocol):
    """
    What is known of the master's schedule besides its configuration; the keys are those of this
    module. Reactor thread only.
    """

    @property
    def alone(self) -> bool:
        """Whether nobody else can have run an entry while this master did not."""

    def items(self) -> Mapping[str, Mapping[str, Any]]:
        """All of it, by key."""

    def put(self, key: str, body: Mapping[str, Any] | None) -> Awaitable[None]:
        """
        Store plain data under a key, or delete it (C{None}). It is in L{items} at once; fires when
        it is on this node's disk, or fails with a C{StoreError}.
        """

    def settled(self) -> Awaitable[Sequence[str]]:
        """Awaited after a change; the members that have not confirmed it by then."""

    def listen(self, receiver: Callable[[Sequence[str]], None]) -> None:
        """Call C{receiver(keys)} when another node has changed something."""


@frozen(kw_only=True)
class Act:
    """
    What an entry calls.

    @ivar client: C{runner}, C{wheel} or C{local}.
    @ivar each: whether each node runs it for itself (C{once: false}).
    @ivar tgt: the target of a C{local}.
    """

    client: str = "runner"
    each: bool = False
    tgt: Any = None
    tgt_type: str = "glob"


def act_of(name: str, data: Mapping[str, Any]) -> Act:
    """
    Read it.

    @raises ScheduleError: naming option and entry.
    """
    client = data.get("client", "runner")
    if client not in CLIENTS:
        raise _wrong(name, "client", f"{client!r} is none of {', '.join(CLIENTS)}")
    tgt, tgt_type = data.get("tgt"), data.get("tgt_type", "glob")
    if client == "local" and not isinstance(tgt, (str, list)):
        raise _wrong(name, "tgt", "client: local needs a target")
    if client != "local" and tgt is not None:
        raise _wrong(name, "tgt", f"a {client} function has no target; client: local has one")
    if not isinstance(tgt_type, str):
        raise _wrong(name, "tgt_type", f"{tgt_type!r} is not text")
    return Act(client=client, each=data.get("once") is False, tgt=tgt, tgt_type=tgt_type)


def _wrong(name: str, option: str, why: str) -> ScheduleError:
    return ScheduleError(f"{option}: {why}. Ignoring job {name}.")


def prepared(name: str, data: Any, judge: Judge) -> Any:
    """
    An entry in the form that minions have, after the master's own parts were checked.

    C{once} means two things: a date, as in stock, and with true or false, whether the run happens
    once in a cluster.

    @raises ScheduleError: naming option and entry.
    """
    if not isinstance(data, Mapping):
        return data
    act = act_of(name, data)
    for option in FLAGS:
        value = data.get(option)
        if value is not None and not isinstance(value, (bool, str)):
            raise _wrong(name, option, f"{value!r} is neither true nor false")
    ours = dict(data)
    if isinstance(data.get("once"), bool):
        del ours["once"]
    function = data.get("function") or data.get("func") or data.get("fun")
    args, kwargs = data.get("args") or [], data.get("kwargs") or {}
    if isinstance(function, str) and isinstance(args, list) and isinstance(kwargs, Mapping):
        why = judge(act.client, function, args, dict(kwargs))
        if why:
            raise _wrong(name, "function", why)
    return ours


def remarks(schedule: Mapping[str, Any]) -> Iterator[str]:
    """
    Settings of entries without effect; the entries run nevertheless.

    It works in steps: C{""} stands for an entry without further remarks.
    """
    for name, data in schedule.items():
        yield ""
        if name in GLOBALS or not isinstance(data, Mapping):
            continue
        for option in data:
            if str(option) not in OPTIONS and not str(option).startswith("_"):
                near = get_close_matches(str(option)[:64], OPTIONS, 1, 0.7)
                hint = f"; did you mean {near[0]}?" if near else "."
                yield f"{option}: no option of an entry{hint} It is ignored in job {name}."
        if data.get("returner"):
            yield f"returner: a master has no returners. It is ignored in job {name}."


def plain(value: Any) -> Any:
    """Configuration as it can be kept and sent: times as text."""
    if isinstance(value, datetime):
        return value.strftime(TIME_FORMAT)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


def digest(data: Any, settings: Mapping[str, Any]) -> str:
    """What is equal as long as an entry means the same times."""
    text = json.dumps(plain(timing(data, settings, None)), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def effective(
    configured: Mapping[str, Any], known: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """The schedule of the configuration with the changes made at run time."""
    schedule = dict(configured)
    for key, body in known.items():
        kind, _, name = key.partition("/")
        if kind != "job" or not name:
            continue
        if body.get("data") is None:
            schedule.pop(name, None)
        else:
            schedule[name] = body["data"]
    return schedule


def paused(known: Mapping[str, Mapping[str, Any]], name: str = "") -> Mapping[str, Any] | None:
    """Who has stopped an entry, or the whole schedule, and when; C{None} if nobody has."""
    whole = known.get("pause")
    return whole or (known.get(f"pause/{name}") if name else None)
