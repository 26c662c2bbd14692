"""
The orchestrations that run here, and their records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from attrs import define, field
from twisted.logger import Logger

from saltwisted.domain.orchestration.life import StepState
from saltwisted.domain.orchestration.words import Run, ended_line, interrupted_line, unpack_line
from saltwisted.errors import SaltwistedError, StoreError, TakenOver
from saltwisted.master.orchestration.progress import TAG
from saltwisted.master.orchestration.protocols import IRunWriter
from saltwisted.transports.deferreds import to_its_end

Fire = Callable[[str, dict[str, Any]], None]


@define(eq=False)
class Going:
    """
    A run in progress on this node.

    @ivar attach: steps whose job has a jid from another node, or another life.
    @ivar coming: lines that are written and do not count yet.
    @ivar ending: its last lines are being written.
    """

    run: Run
    writer: IRunWriter
    attach: dict[int, str] = field(factory=dict)
    stopping: str = ""
    ending: bool = False
    coming: list[Mapping[str, Any]] = field(factory=list)

    def running(self) -> dict[int, str]:
        """
        The steps that have begun and not ended, and the jids of their jobs; also those of which
        that does not count yet: it will, with whatever is written after it.
        """
        found = {step.number: step.jid for step in self.run.running()}
        begun = [line for line in self.coming if line.get("what") == "step"]
        return {**found, **{line["n"]: str(line["jid"]) for line in begun}}

    async def write(self, line: Mapping[str, Any]) -> None:
        """Returns when it counts."""
        number = len(self.writer.lines)
        self.coming.append(line)
        try:
            await self.writer.add(line)
        finally:
            self.coming.remove(line)
        # As it is kept: whoever takes over knows no more
        self.run.read(unpack_line(self.writer.lines[number]))

    def stop(self, user: str) -> str:
        """Begin nothing more of it; returns the reason, in words."""
        self.stopping = user or "somebody"
        return f"{self.stopping} stopped it"


class Goings:
    """
    The runs of one node. Reactor thread only.

    @param kill: ends the process of a run here at once; whether there was one.
    @ivar beginning: runs whose first line does not count yet.
    @ivar stops: whether this node stops: its runs continue elsewhere.
    """

    log = Logger()

    def __init__(
        self, now: Callable[[], float], kill: Callable[[str, str], Any], fire: Fire
    ) -> None:
        self.now, self.kill, self._fire = now, kill, fire
        self.beginning: set[str] = set()
        self.stops = False
        self._going: dict[str, Going] = {}

    def open(self, serves: bool) -> None:
        """Whether this node continues any run."""
        self.stops = not serves

    def __contains__(self, jid: str) -> bool:
        return jid in self._going or jid in self.beginning

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._going))

    def find(self, jid: str) -> Going | None:
        """One of them."""
        return self._going.get(jid)

    def add(self, going: Going) -> Going:
        """It runs here from now on."""
        self._going[going.run.jid] = going
        return going

    def of(self, jid: str) -> Going:
        """
        @raises TakenOver: it does not go on here, was stopped, or is just ending.
        """
        going = self._going.get(jid)
        if going is None:
            raise TakenOver(f"orchestration {jid} no longer runs on this node")
        if going.stopping:
            raise TakenOver(f"orchestration {jid} was stopped by {going.stopping}")
        if going.ending:
            raise TakenOver(f"orchestration {jid} is just ending")
        return going

    async def write(self, going: Going, line: Mapping[str, Any]) -> None:
        """
        Returns when it counts. Whether it counts does not depend on the caller, who may go away.

        @raises TakenOver: it never will count here.
        @raises StoreError: the disk refuses.
        """
        written = self._written(going, line)
        await to_its_end(written, self.log, "orchestration {jid}", jid=going.run.jid)

    async def _written(self, going: Going, line: Mapping[str, Any]) -> None:
        try:
            await going.write(line)
        except SaltwistedError as error:
            # Whether it will count is not known. What there is then is gone on with, by whoever may
            if self._going.get(going.run.jid) is going:
                self.lost(going.run.jid)
                self.kill(going.run.jid, str(error))
            raise

    async def over(self, jid: str, outcome: Mapping[str, Any]) -> None:
        """Its process has ended."""
        going = self._going.get(jid)
        if going is None or going.stopping or going.ending or self.stops:
            return
        lines: list[Mapping[str, Any]] = []
        why = str(outcome.get("why", ""))
        for number in going.running():
            lines.append(interrupted_line(number, why or "its process ended", self.now()))
        states = {step.state for step in going.run.steps}
        how = "done" if states <= {StepState.DONE, StepState.SKIPPED} else "failed"
        how = "interrupted" if lines else how
        try:
            await self.end(going, [*lines, ended_line(how, self.now(), why)])
        except (TakenOver, StoreError) as error:
            self.log.warn("orchestration {jid}: {error}", jid=jid, error=str(error))

    async def end(self, going: Going, lines: Sequence[Mapping[str, Any]]) -> None:
        """
        Write the last lines of the run. This does not depend on the caller, who may go away.

        @raises TakenOver: they do not count.
        @raises StoreError: the disk refuses.
        """
        ended = self._end(going, lines)
        await to_its_end(ended, self.log, "orchestration {jid}", jid=going.run.jid)

    async def _end(self, going: Going, lines: Sequence[Mapping[str, Any]]) -> None:
        going.ending = True
        try:
            for line in lines:
                await going.write(line)
        except Exception:
            if self._going.get(going.run.jid) is going:
                self.lost(going.run.jid)
            raise
        self.lost(going.run.jid)
        run = going.run
        self.tell(run.jid, "end", {"state": run.state.value, "why": run.why})

    def lost(self, jid: str) -> None:
        """It no longer runs here: another node has it, or will."""
        going = self._going.pop(jid, None)
        if going is not None:
            going.writer.close()

    def all_lost(self, why: str) -> None:
        """None may go on here."""
        for jid in list(self._going):
            self.lost(jid)
            self.kill(jid, why)

    def tell(self, jid: str, what: str, data: dict[str, Any]) -> None:
        """Whoever listens to events."""
        self._fire(f"{TAG}/{jid}/{what}", {"jid": jid, **data})
