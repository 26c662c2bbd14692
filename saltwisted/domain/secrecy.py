"""
Jobs whose arguments and results only the participants may see.

A step of an orchestration with C{no_log: True} gives minions a secret. Its job says so in its
C{metadata}, which each minion, including stock's, sends back with its return. So each node knows
it, whatever it has heard of the job before. Stars replace texts, numbers and C{True} before
anything of it is stored or shown. A step is judged by what stays: shapes, what is empty, zero or
C{False}, and of the result of a state whether it is true, and its place and time.

What a minion sends while it works has no such metadata, but names the job: in its tag (the progress
of its states), or in its data (C{event.send} and similar functions). A node knows the jobs that it
published, and looks up the others in the job cache.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Generator, Mapping
from typing import Any, TypeAlias

from saltwisted.domain.jid import is_jid
from saltwisted.wire.decoding import at_once

MARK = "no_log"
STARS = "**********"
ASKED = ("saltutil.find_job", "saltutil.find_cached_job", "saltutil.running", "saltutil.is_running")
"""Functions whose answers have jobs in them."""
TOLD = ("arg", "fun_args", "return")
"""What there is to hide in a job, and in a return."""
OF_JOBS = ("job", "state_result")
"""C{salt/<one of these>/<jid>/...}: what minions say of a job while they work."""
SAID = frozenset(
    (
        "cmd", "id", "tag", "pretag", "jid", "__pub_jid", "fun", "tgt", "tgt_type", "user",
        "master_id", "metadata", "_stamp",
    )
)  # fmt: skip
"""What of such an event tells of no secret: who says it, and of which job."""
OF_JOB = frozenset(
    (
        "__pub_jid", "__pub_fun", "__pub_tgt", "__pub_tgt_type", "__pub_user", "__pub_ret",
        "__pub_pid", "_stamp",
    )
)  # fmt: skip
"""What an event of somebody's own making has of the job that fires it; no argument."""
_TAG = "_|-"
"""Divides the words of a state's tag: state, id, name, function."""
_JUDGED: Mapping[str, tuple[type, ...]] = {
    "result": (bool,),
    "__state_ran__": (bool,),
    "__run_num__": (int,),
    "duration": (int, float),
}
"""What of the result of a state tells nothing of its arguments, if it is of such a type."""
REQUESTED = "_minion_event"
"""The C{cmd} by which an event has the whole request around its data."""
MOST_KNOWN = 4096
"""Jobs of either kind; who asks for an older one reads its record."""
STEP = 500
"""Values between two steps, well under a millisecond."""
Steps: TypeAlias = Generator[None, None, Any]
"""Something that takes long for megabytes, in steps; its value is what becomes of them."""


def redact(value: Any) -> Any:
    """
    A copy of a value of a pillar with stars for each text, number and C{True} in it, as in Salt.

    Shapes, keys and what is empty, zero, C{False} or C{None} stay.
    """
    return at_once(hiding(value, of_job=False))


def hide(value: Any) -> Any:
    """As L{redact}, of what a job is given or answers: results of states can still be judged."""
    return at_once(hiding(value))


def hiding(value: Any, of_job: bool = True, is_result: bool = False) -> Steps:
    """
    The same in steps; it costs in proportion to what is in there, however deep.

    @param of_job: a map's keys may be tags of states. They lose the names of these, which are often
        commands, and their values keep what a step is judged by.
    @param is_result: the value is the result of a state.
    """
    waiting: list[_Container] = []
    hidden = _copy(value, waiting, is_result)
    count = 0
    while waiting:
        source, made, is_result = waiting.pop()
        if isinstance(made, list):
            for item in source:
                made.append(_copy(item, waiting))
                count += 1
                if count % STEP == 0:
                    yield
            continue
        names = _Names(made) if of_job else None
        for key, item in source.items():
            count += 1
            if count % STEP == 0:
                yield
            if is_result and type(item) in _JUDGED.get(key, ()):
                made[key] = item
            elif names is not None and isinstance(key, str) and key.count(_TAG) >= 3:
                made[names.told(key)] = _copy(item, waiting, True)
            else:
                made[key] = _copy(item, waiting)
    return hidden


_Container: TypeAlias = tuple[Any, Any, bool]
"""A map or list, its copy that waits to be filled, and whether it is the result of a state."""


def _copy(value: Any, waiting: list[_Container], is_result: bool = False) -> Any:
    """What stands for a value; of a container, an empty one that waits to be filled."""
    made: Any
    if isinstance(value, Mapping):
        made = {}
    elif isinstance(value, (list, tuple)):
        made = []
    elif not value:
        return value
    else:
        return STARS.encode() if isinstance(value, (bytes, bytearray)) else STARS
    waiting.append((value, made, is_result))
    return made


class _Names:
    """
    Tags of states with the ids of these in place of their names.

    @param found: the map in which they are, as far as it is filled.
    """

    def __init__(self, found: Mapping[Any, Any]) -> None:
        self._found = found
        # Numbers that are taken, by what they follow: a thousand states may have one ID
        self._numbers: dict[tuple[str, ...], int] = {}

    def told(self, tag: str) -> str:
        """The tag of a state, as nobody else in the map has it."""
        words = tag.split(_TAG)
        same = (words[0], words[1], words[-1])
        name = _TAG.join((words[0], words[1], words[1], words[-1]))
        number = self._numbers.get(same, 1)
        while name in self._found:
            number += 1
            name = _TAG.join((words[0], words[1], f"{words[1]} {number}", words[-1]))
        self._numbers[same] = number
        return name


def marked(kwargs: Mapping[str, Any] | None) -> dict[str, Any]:
    """The C{kwargs} of a publish load, of a job that is secret."""
    kwargs = kwargs or {}
    metadata = kwargs.get("metadata")
    known = metadata if isinstance(metadata, Mapping) else {}
    return {**kwargs, "metadata": {**known, MARK: True}}


def is_secret(job: Mapping[str, Any]) -> bool:
    """Whether a job, or a return, is of those."""
    metadata = job.get("metadata")
    return isinstance(metadata, Mapping) and metadata.get(MARK) is True


def told(job: Mapping[str, Any]) -> Mapping[str, Any]:
    """A job or a return in the form in which it may be stored and shown."""
    return job if is_open(job) else at_once(telling(job))


def is_open(job: Mapping[str, Any]) -> bool:
    """Whether there is nothing to hide in a job or a return."""
    if is_secret(job):
        return False
    fun = job.get("fun")
    if isinstance(fun, (list, tuple)):
        return not any(each in ASKED for each in fun)
    return fun not in ASKED


def telling(job: Mapping[str, Any]) -> Steps:
    """As L{told}, in steps."""
    if is_secret(job):
        shown = dict(job)
        for word in TOLD:
            if word in job:
                shown[word] = yield from hiding(job[word])
        return shown
    if is_open(job):
        return job
    found = job.get("return")
    if isinstance(job.get("fun"), (list, tuple)) and isinstance(found, Mapping):
        # A map of the functions' names, or a list
        answers = {}
        for name, part in found.items():
            answers[name] = yield from _within(part)
        return {**job, "return": (yield from _within(answers))}
    return {**job, "return": (yield from _within(found))}


def named_job(tag: str) -> str:
    """The job that the tag of a minion's event names; C{""}: none."""
    words = tag.split("/", 3)
    if len(words) < 4 or words[0] != "salt" or words[1] not in OF_JOBS or not is_jid(words[2]):
        return ""
    return words[2]


def firing_job(tag: str, data: Mapping[str, Any]) -> str:
    """The job that an event comes from, by its tag or by what its sender says; C{""}: none."""
    if about := named_job(tag):
        return about
    for each in (data.get("data"), data):
        jid = each.get("__pub_jid") if isinstance(each, Mapping) else None
        if isinstance(jid, str) and is_jid(jid):
            return jid
    return ""


def told_event(tag: str, data: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """
    What a minion says about a secret job, or in one, in the form in which it may be stored and
    shown.

    C{fire_event: True} has the name of the state in the tag, too, and that is often a command. A
    tag that the site has chosen stays, because somebody waits for it.
    """
    told_in_it: tuple[str, dict[str, Any]] = at_once(telling_event(tag, data))
    return told_in_it


def telling_event(tag: str, data: Mapping[str, Any]) -> Steps:
    """As L{told_event}, in steps."""
    if not named_job(tag):
        return tag, (yield from (_around if data.get("cmd") == REQUESTED else _own)(data))
    words = tag.split("/", 4)
    if words[1] == "state_result" and words[4:] == [_name_in(data)]:
        shown = "/".join((*words[:4], STARS))
        return shown, (yield from _said(data, shown))
    return tag, (yield from _said(data, tag))


def _name_in(data: Mapping[str, Any]) -> Any:
    """The name of the state whose result an event has, plain or in a request's C{data}."""
    for each in (data, data.get("data")):
        result = each.get("ret") if isinstance(each, Mapping) else None
        if isinstance(result, Mapping):
            return result.get("name")
    return None


def _said(data: Mapping[str, Any], tag: str) -> Steps:
    shown: dict[str, Any] = {}
    for key, value in data.items():
        if key == "tag":
            shown[key] = tag
        elif key in SAID:
            shown[key] = value
        elif key == "data" and isinstance(value, Mapping):
            shown[key] = yield from _said(value, tag)
        elif key == "len" and type(value) is int:
            shown[key] = value
        elif key == "ret" and isinstance(value, Mapping):
            shown[key] = yield from hiding(value, is_result=True)
        else:
            shown[key] = yield from hiding(value)
    return shown


def _around(load: Mapping[str, Any]) -> Steps:
    """A whole request whose C{data} are of the sender's own making."""
    shown: dict[str, Any] = {}
    for key, value in load.items():
        if key == "data" and isinstance(value, Mapping):
            shown[key] = yield from _own(value)
        else:
            shown[key] = value if key in SAID else (yield from hiding(value))
    return shown


def _own(data: Mapping[str, Any]) -> Steps:
    shown: dict[str, Any] = {}
    for key, value in data.items():
        shown[key] = value if key in OF_JOB else (yield from hiding(value))
        yield
    return shown


def discreet(load: Mapping[str, Any]) -> Mapping[str, Any]:
    """A request to the master by somebody who does something secret: no event mentions it."""
    if load.get("cmd") != REQUESTED:
        return load
    events = load.get("events")
    if not isinstance(events, list):
        return told_event(str(load.get("tag", "")), load)[1]
    return {**load, "events": [_said_event(each) for each in events]}


def _said_event(event: Any) -> Any:
    if not isinstance(event, Mapping):
        return at_once(hiding(event))
    tag, data = str(event.get("tag", "")), event.get("data")
    if not isinstance(data, Mapping):
        return {**at_once(_own(event)), "tag": tag}
    shown, said = told_event(tag, data)
    return {**at_once(_own(event)), "tag": shown, "data": said}


class SecretJobs:
    """Which of the latest jobs are secret; secret ones are remembered for longer."""

    def __init__(self) -> None:
        self._secret: OrderedDict[str, None] = OrderedDict()
        self._open: OrderedDict[str, None] = OrderedDict()

    def note(self, jid: str, secret: bool) -> None:
        """This is a job; one of which a part is secret stays so."""
        if jid in self._secret:
            return
        if secret:
            self._open.pop(jid, None)
        known = self._secret if secret else self._open
        known[jid] = None
        while len(known) > MOST_KNOWN:
            known.popitem(last=False)

    def find(self, jid: str) -> bool | None:
        """Whether it is secret; C{None}: unknown."""
        if jid in self._secret:
            return True
        return False if jid in self._open else None


def _within(value: Any) -> Steps:
    """An answer that has jobs in it, or returns."""
    if isinstance(value, Mapping):
        yield
        return (yield from telling(value))
    if isinstance(value, list):
        answers = []
        for each in value:
            answers.append((yield from _within(each)))
        return answers
    return value
