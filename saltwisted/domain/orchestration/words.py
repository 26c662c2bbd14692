"""
A run of an orchestration as data: its records, line by line, and their meaning.

A line is a plain map with C{what} and C{at} (time of day, by its writer). The first one has
everything with which the run was begun, above all the compiled chunks: nothing is ever rendered
again. Each step has a line before it has any effect, and one with its result. L{Run} is the lines
read from first to last; the life of a run and of a step are tables
(L{saltwisted.domain.orchestration.life}).

L{saltwisted.domain.orchestration.copies} brings lines to several disks;
L{saltwisted.domain.orchestration.takeover} decides how a run whose node died continues.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import define, field

from saltwisted.domain.orchestration.life import RunState, Said, StepState, run_step, step_step
from saltwisted.errors import WireError
from saltwisted.wire.msgpack import pack_bin, unpack_bin

MAX_BEGUN = 4 * 1024 * 1024
"""Bytes of the first line: who has more chunks than that has a program, not a plan."""
MAX_LINE = 64 * 1024
"""Bytes of a result; of a larger one the outcome is kept, and the jid by which it is found."""
MAX_LINES = 12 * 1024 * 1024
"""Bytes of all lines: from here on results are kept by their outcome alone."""
MOST_STEPS = 100_000
AS_JOB = "state.sls"
"""The function as which a run reads files, for whoever asks on which generation it runs."""
FULL = ("name", "result", "comment", "changes", "__jid__", "duration", "start_time")


@define
class Parts:
    """
    A step that is published in parts, one after another (C{batch}), or to some of the matching
    minions (C{subset}). The parts are decided once: a node that takes over uses the same minions in
    the same order.

    @ivar turns: the minions of each part.
    @ivar lost: which minions did not answer before the first part, and a text about each.
    @ivar begun: the time of day for each part that was about to be published.
    """

    turns: list[list[str]]
    lost: Mapping[str, Any] = field(factory=dict)
    begun: list[float] = field(factory=list)

    @property
    def latest(self) -> list[str]:
        """The minions of the part that may be under way. All before it has come to its end."""
        return self.turns[len(self.begun) - 1] if self.begun else []

    def shown(self) -> dict[str, Any]:
        """As plain data, for the node that continues it."""
        return {"turns": self.turns, "lost": dict(self.lost), "begun": len(self.begun)}


@define
class Step:
    """
    One chunk of a run.

    @ivar number: its place in the order of the chunks, from 0.
    @ivar low: the chunk.
    @ivar jid: the jid of its job on minions, or C{""}.
    @ivar node: where it was begun last.
    @ivar begun: time of day, or C{None}.
    @ivar why: the reason why it was interrupted or skipped.
    @ivar parts: the parts, once these are known.
    """

    number: int
    low: Mapping[str, Any]
    state: StepState = StepState.WAITING
    jid: str = ""
    node: str = ""
    begun: float | None = None
    ended: float | None = None
    result: Mapping[str, Any] | None = None
    why: str = ""
    parts: Parts | None = None

    @property
    def name(self) -> str:
        """As the operator knows it."""
        return str(self.low.get("__id__") or self.low.get("name") or self.number)

    @property
    def function(self) -> str:
        """As C{salt.state}."""
        return f"{self.low.get('state', '')}.{self.low.get('fun', '')}"

    @property
    def is_over(self) -> bool:
        """Whether it has a result that counts in this attempt, be it a bad one."""
        return self.state in (StepState.DONE, StepState.FAILED, StepState.SKIPPED)

    def shown(self, results: bool = True) -> dict[str, Any]:
        """As plain data."""
        begun, ended = self.begun, self.ended
        shown: dict[str, Any] = {
            "step": self.number + 1,
            "id": self.name,
            "function": self.function,
            "state": self.state.value,
            "jid": self.jid,
            "node": self.node,
            "begun": begun,
            "duration": round(max(0.0, ended - begun), 3) if begun and ended else None,
            "why": self.why,
        }
        if self.parts is not None and self.state is StepState.RUNNING:
            shown["part"] = [len(self.parts.begun), len(self.parts.turns)]
        if results:
            shown["result"] = self.result
        return shown


@define
class Run:
    """
    What is known of one run.

    @ivar attempt: 1, and one more with each resumption by an operator.
    @ivar node: where it runs, or ran last.
    @ivar about: the contents of the first line; empty if they are unknown.
    @ivar counted: how many lines were read.
    @ivar wishes: by id, where it must halt or end (C{state.pause}, C{state.soft_kill}).
    """

    jid: str
    about: Mapping[str, Any] = field(factory=dict)
    state: RunState = RunState.RUNNING
    steps: list[Step] = field(factory=list)
    node: str = ""
    attempt: int = 1
    at: float = 0.0
    ended: float | None = None
    why: str = ""
    counted: int = 0
    wishes: Mapping[str, Any] = field(factory=dict)

    @property
    def name(self) -> str:
        """
        The jid by which others refer to it: its own, or the one of the option orchestration_jid.
        """
        options = self.about.get("options")
        kwarg = options.get("kwarg") if isinstance(options, Mapping) else None
        name = kwarg.get("__pub_jid") if isinstance(kwarg, Mapping) else None
        return str(name or self.jid)

    @property
    def what(self) -> str:
        """What was called, for people: C{state.orchestrate deploy}."""
        options = self.about.get("options")
        arg = options.get("arg") if isinstance(options, Mapping) else None
        words = [str(self.about.get("fun", "")), *(map(str, arg) if arg else ())]
        return " ".join(word for word in words if word)[:200]

    def running(self) -> list[Step]:
        """Steps that were begun and not ended."""
        return [step for step in self.steps if step.state is StepState.RUNNING]

    def results(self) -> dict[int, Mapping[str, Any]]:
        """The results of finished steps, as the node that continues the run needs them."""
        return {
            step.number: step.result
            for step in self.steps
            if step.result is not None and step.is_over
        }

    def find(self, name: str) -> Step | None:
        """The step of a number as an operator counts, or of an id."""
        if name.isdigit() and 0 < int(name) <= len(self.steps):
            return self.steps[int(name) - 1]
        return next((step for step in self.steps if step.name == name), None)

    def shown(self, steps: bool = True, results: bool = True) -> dict[str, Any]:
        """As plain data."""
        over = (StepState.DONE, StepState.SKIPPED)
        shown: dict[str, Any] = {
            "jid": self.jid,
            "state": self.state.value,
            "what": self.what,
            "user": self.about.get("user", ""),
            "node": self.node,
            "attempt": self.attempt,
            "begun": self.at,
            "ended": self.ended,
            "steps_done": sum(step.state in over for step in self.steps),
            "steps_all": len(self.steps),
            "why": self.why,
        }
        if steps:
            shown["pillar"] = self.about.get("pillar", "")
            shown["generation"] = self.about.get("generation", "")
            shown["wishes"] = dict(self.wishes)
            shown["steps"] = [step.shown(results) for step in self.steps]
        return shown

    # -- reading

    def read(self, line: Mapping[str, Any]) -> None:
        """One line more; one of a later release that is not known changes nothing."""
        self.counted += 1
        reader = _READERS.get(str(line.get("what")))
        if reader is not None:
            reader(self, line)

    def _say(self, said: Said) -> bool:
        state = run_step(self.state, said)
        if state is None:
            return False
        self.state = state
        return True


def _begun(run: Run, line: Mapping[str, Any]) -> None:
    if run.about:
        return
    run.node, run.at = str(line.get("node", "")), float(line.get("at", 0.0))
    found = line.get("run")
    run.about = found if isinstance(found, Mapping) else {}
    chunks = run.about.get("chunks") or ()
    run.steps = [Step(number, low) for number, low in enumerate(chunks)]


def _step(run: Run, line: Mapping[str, Any]) -> Step | None:
    number = line.get("n")
    if type(number) is not int or not 0 <= number < MOST_STEPS:
        return None
    while number >= len(run.steps):
        # What listens to others is no chunk: it follows from what they have come to
        run.steps.append(Step(len(run.steps), {}))
    step, low = run.steps[number], line.get("low")
    if isinstance(low, Mapping):
        step.low = low
    return step


def _taken(run: Run, line: Mapping[str, Any]) -> None:
    if run._say(Said.TAKEN):
        run.node = str(line.get("node", ""))


def _step_begun(run: Run, line: Mapping[str, Any]) -> None:
    step = _step(run, line)
    state = None if step is None else step_step(step.state, Said.BEGUN)
    if step is not None and state is not None:
        step.state, step.jid = state, str(line.get("jid", ""))
        step.node, step.begun = str(line.get("node", "")), float(line.get("at", 0.0))
        step.ended, step.result, step.why, step.parts = None, None, "", None


def _parts(run: Run, line: Mapping[str, Any]) -> None:
    step, turns, lost = _step(run, line), line.get("turns"), line.get("lost")
    if step is None or step.state is not StepState.RUNNING or not isinstance(turns, list):
        return
    names = [[str(name) for name in turn] for turn in turns if isinstance(turn, list)]
    step.parts = Parts(names, lost if isinstance(lost, Mapping) else {})


def _part_begun(run: Run, line: Mapping[str, Any]) -> None:
    step = _step(run, line)
    parts = step.parts if step is not None and step.state is StepState.RUNNING else None
    if parts is not None and line.get("part") == len(parts.begun) < len(parts.turns):
        parts.begun.append(float(line.get("at", 0.0)))


def _step_ended(run: Run, line: Mapping[str, Any]) -> None:
    step, result = _step(run, line), line.get("result")
    if step is None or not isinstance(result, Mapping):
        return
    said = Said.FAILED if result.get("result") is False else Said.DONE
    state = step_step(step.state, said)
    if state is not None:
        step.state, step.result = state, result
        step.ended = float(line.get("at", 0.0))
        step.node = step.node or str(line.get("node", ""))


def _step_interrupted(run: Run, line: Mapping[str, Any]) -> None:
    step = _step(run, line)
    state = None if step is None else step_step(step.state, Said.INTERRUPTED)
    if step is not None and state is not None:
        step.state, step.why = state, str(line.get("why", ""))
        step.ended = float(line.get("at", 0.0))


def _ended(run: Run, line: Mapping[str, Any]) -> None:
    said = _ENDS.get(str(line.get("how")))
    if said is not None and run._say(said):
        run.ended, run.why = float(line.get("at", 0.0)), str(line.get("why", ""))


def _wished(run: Run, line: Mapping[str, Any]) -> None:
    wishes = line.get("wishes")
    if isinstance(wishes, Mapping):
        run.wishes = {str(name): wish for name, wish in wishes.items() if isinstance(wish, Mapping)}


def _resumed(run: Run, line: Mapping[str, Any]) -> None:
    if not run._say(Said.RESUMED):
        return
    run.wishes = {}
    if isinstance(line.get("generation"), str):
        run.about = {**run.about, "generation": line["generation"], "trees": line.get("trees", {})}
    run.node, run.ended, run.why = str(line.get("node", "")), None, ""
    run.attempt = max(run.attempt + 1, int(line.get("attempt", 0)))
    first = line.get("from")
    for step in run.steps:
        skipped = type(first) is int and step.number < first
        state = step_step(step.state, Said.SKIPPED if skipped else Said.RESUMED)
        if state is None or state is step.state:
            continue
        step.state, step.jid, step.begun, step.ended = state, "", None, None
        step.result, step.why, step.parts = None, "", None
        if skipped:
            step.why = f"{line.get('user', '')} went on behind it"
            step.result = {
                "name": str(step.low.get("name", "")),
                "result": True,
                "changes": {},
                "comment": f"Skipped: {step.why}",
            }


_READERS = {
    "begun": _begun,
    "taken": _taken,
    "step": _step_begun,
    "parts": _parts,
    "part": _part_begun,
    "result": _step_ended,
    "interrupted": _step_interrupted,
    "wished": _wished,
    "ended": _ended,
    "resumed": _resumed,
}
_ENDS = {
    "done": Said.DONE,
    "failed": Said.FAILED,
    "interrupted": Said.INTERRUPTED,
    "stopped": Said.STOPPED,
}


# -- lines


def begun_line(node: str, at: float, run: Mapping[str, Any]) -> dict[str, Any]:
    """
    The first line.

    @param run: plain data: all that is needed to go on without compiling anything again:
        C{chunks}, C{pillar} (its digest), C{generation} (of the roots) and the C{trees} that this
        is (by their shares, in hexadecimal digits), C{user} and C{eauth}, C{fun},
        C{options}, C{parent} (the run that it is a step of), C{secret} (whether nobody may see what
        it was given).
    """
    return {"what": "begun", "node": node, "at": at, "run": dict(run)}


def step_line(
    number: int, jid: str, node: str, at: float, low: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """
    Written before a step has any effect.

    @param low: its chunk, if it is not among the chunks of the run.
    """
    line = {"what": "step", "n": number, "jid": jid, "node": node, "at": at}
    return line if low is None else {**line, "low": dict(low)}


def parts_line(
    number: int, turns: Sequence[Sequence[str]], lost: Mapping[str, Any], at: float
) -> dict[str, Any]:
    """
    Before the first part of a step goes out.

    @param turns: the minions of each part, and C{lost}: see L{Parts}.
    """
    minions = [list(turn) for turn in turns]
    return {"what": "parts", "n": number, "turns": minions, "lost": dict(lost), "at": at}


def part_line(number: int, part: int, at: float) -> dict[str, Any]:
    """Before one part of a step goes out; they are counted from 0."""
    return {"what": "part", "n": number, "part": part, "at": at}


def result_line(number: int, result: Mapping[str, Any], node: str, at: float) -> dict[str, Any]:
    """When it has ended."""
    return {"what": "result", "n": number, "result": dict(result), "node": node, "at": at}


def interrupted_line(number: int, why: str, at: float) -> dict[str, Any]:
    """Nobody can know what it did."""
    return {"what": "interrupted", "n": number, "why": why, "at": at}


def wished_line(wishes: Mapping[str, Any], user: str, at: float) -> dict[str, Any]:
    """Somebody wants it to halt, to go on or to end: all that is wished of it now."""
    return {"what": "wished", "wishes": dict(wishes), "user": user, "at": at}


def taken_line(node: str, at: float) -> dict[str, Any]:
    """Another node, or another life, continues."""
    return {"what": "taken", "node": node, "at": at}


def ended_line(how: str, at: float, why: str = "") -> dict[str, Any]:
    """The run is over: C{done}, C{failed}, C{interrupted} or C{stopped}."""
    return {"what": "ended", "how": how, "why": why, "at": at}


def resumed_line(
    attempt: int,
    first: int | None,
    user: str,
    node: str,
    at: float,
    reads: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """
    An operator lets it continue.

    @param first: the number of the step from which it continues: those before it count as done.
    @param reads: the C{generation} and C{trees} that it uses from now on: a push may have fixed the
        cause of its failure.
    """
    return {
        "what": "resumed",
        "attempt": attempt,
        "from": first,
        "user": user,
        "node": node,
        "at": at,
        **(reads or {}),
    }


def pack_line(line: Mapping[str, Any], size: int = 0) -> bytes:
    """
    A line in its stored form.

    @param size: bytes of those before it.
    @raises WireError: the first line is too large.
    """
    packed = pack_bin(dict(line))
    if line.get("what") == "begun":
        if len(packed) > MAX_BEGUN:
            raise WireError(
                f"its chunks are {len(packed)} bytes; more than {MAX_BEGUN} cannot be written down"
            )
        return packed
    if line.get("what") == "result" and (len(packed) > MAX_LINE or size + len(packed) > MAX_LINES):
        packed = pack_bin({**line, "result": outcome(line["result"])})
    return packed


def outcome(result: Mapping[str, Any]) -> dict[str, Any]:
    """
    What others have to know of a result that is too large: requisites ask how it ended and whether
    anything changed.
    """
    short = {key: result[key] for key in FULL if key in result}
    comment = str(short.get("comment", ""))
    if len(comment) > 2000:
        short["comment"] = comment[:2000] + " ..."
    changes = result.get("changes")
    if changes:
        short["changes"] = {
            "saltwisted": "too large to be kept here; the returns of its job have it"
        }
    return short


def unpack_line(packed: bytes) -> Mapping[str, Any]:
    """
    @raises WireError: it is none.
    """
    line = unpack_bin(packed)
    if not isinstance(line, dict):
        raise WireError("orchestration-line")
    return line


def read_run(jid: str, lines: Iterable[bytes]) -> Run:
    """
    What all lines come to.

    @raises WireError: one of them is none.
    """
    run = Run(jid)
    for packed in lines:
        run.read(unpack_line(packed))
    return run


Reads = tuple[str, Mapping[str, str]]
"""The name of a generation, and its trees by their shares, in hexadecimal digits."""
Standing = tuple[str | None, Reads]
"""The node on which a run goes on, or went on when it died, and what it reads."""
ENDED: Standing = (None, ("", {}))


def standing_of(lines: Sequence[bytes], before: Standing = ENDED) -> Standing:
    """
    Who goes on with a run that has not ended, and what it reads; L{ENDED} if it has. Each line is
    read once, the newest first, and no more of them than are needed. Invalid lines belong to
    nobody.

    @param before: the result of the lines before these.
    """
    holder, reads = before
    is_found = False
    for packed in reversed(lines):
        try:
            line = unpack_line(packed)
        except WireError:
            if is_found:
                continue
            return ENDED
        what = line.get("what")
        if what == "ended" and not is_found:
            return ENDED
        if what in ("begun", "taken", "resumed") and not is_found:
            holder, is_found = str(line.get("node", "")), True
        found = line.get("run") if what == "begun" else line
        said: Mapping[str, Any] = found if isinstance(found, Mapping) else {}
        name, trees = said.get("generation"), said.get("trees")
        # One that was resumed without a word about it reads what it read before
        if what == "begun" or (what == "resumed" and isinstance(name, str)):
            return holder, (str(name or ""), trees if isinstance(trees, Mapping) else {})
    return holder, reads


def holder_of(lines: Sequence[bytes]) -> str | None:
    """The node on which a run goes on, or went on when it died; C{None} if it has ended."""
    return standing_of(lines)[0]
