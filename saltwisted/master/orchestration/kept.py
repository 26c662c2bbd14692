"""
Orchestrations of this master, and those that it takes over: what is begun, written down, ended.

This is C{IOrchestrations}. What a node orchestrates goes on under its duty
(L{saltwisted.master.orchestration.leases}); who gets that when the node has died goes on. Before a
step has any effect its line counts (C{seams.runs}), and so does its result before the next one
begins. The steps themselves are done elsewhere, by whoever asks here at each one. What a takeover
means for each kind of step is decided in L{saltwisted.domain.orchestration.takeover}.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from attrs import define, field
from twisted.internet.defer import TimeoutError as TwistedTimeout
from twisted.internet.defer import maybeDeferred
from twisted.internet.task import LoopingCall, deferLater
from twisted.logger import Logger

from saltwisted.domain.claims.words import Claim, Taken
from saltwisted.domain.orchestration.life import RunState, StepState
from saltwisted.domain.orchestration.takeover import OFF, Known, plan
from saltwisted.domain.orchestration.words import (
    Run,
    Step,
    begun_line,
    ended_line,
    interrupted_line,
    read_run,
    result_line,
    resumed_line,
    step_line,
    taken_line,
    unpack_line,
)
from saltwisted.errors import DeniedError, SaltwistedError, StoreError, TakenOver, WireError
from saltwisted.interfaces import IClaims, IRunRecords, IRunWriter
from saltwisted.master.orchestration.leases import Leases
from saltwisted.transports.deferreds import awaited, let_go

RESUME = "orchresume"
PATIENCE = 10.0
"""Seconds that a run waits to be begun while this node has just started, or hears no majority."""
LOOK_EVERY = 1.0
AGAIN = 2.0
"""Seconds after which it is tried again to take over what could not be."""


@define(eq=False)
class Going:
    """
    A run that goes on here.

    @ivar attach: steps whose job has a jid from another node, or another life.
    """

    run: Run
    writer: IRunWriter
    attach: dict[int, str] = field(factory=dict)
    stopping: str = ""

    async def write(self, line: Mapping[str, Any]) -> None:
        """Returns when it counts."""
        number = len(self.writer.lines)
        await self.writer.add(line)
        # As it is kept: whoever takes over knows no more
        self.run.read(unpack_line(self.writer.lines[number]))


Resume = Callable[[str, Mapping[str, Any], Mapping[str, Mapping[str, Any]]], Any]
"""C{IOrchestrating.resume}."""


class KeptOrchestrations:
    """
    Those of one node. Reactor thread only.

    @param resume: has a run go on here that was compiled before: C{IOrchestrating.resume}.
    @param kill: ends the process of a run here at once: C{IOrchestrating.stop}.
    @param mode: C{orchestrate_takeover}.
    @param window: C{publish_window}.
    @param known: what is known of the job of a step; waits until the log has been heard.
    """

    log = Logger()

    def __init__(
        self,
        clock: Any,
        node: str,
        claims: IClaims,
        records: IRunRecords,
        now: Callable[[], float],
        resume: Resume,
        kill: Callable[[str, str], Any],
        known: Callable[[Step], Awaitable[Known]],
        mode: Callable[[], str],
        window: Callable[[], float],
        fire: Callable[[str, dict[str, Any]], None] = lambda tag, data: None,
    ) -> None:
        self._clock, self._node, self._claims, self._records = clock, node, claims, records
        self._now, self._resume, self._kill, self._known = now, resume, kill, known
        self._mode, self._window, self._fire = mode, window, fire
        self._going: dict[str, Going] = {}
        self._leases = Leases(clock, node, claims, self._left, self._all_lost)
        self._looking = LoopingCall(self._look)
        self._looking.clock = clock
        self._stops = False

    # -- the service

    def startService(self) -> None:
        """Go on with what an earlier life has left, and look for what others leave."""
        self._stops = False
        self._leases.start()
        self._records.on_change(lambda jid: self._look())
        let_go(
            self._looking.start(LOOK_EVERY, now=False), self.log, "nothing is taken over any more"
        )

    async def stopService(self) -> None:
        """What goes on here goes on elsewhere, or here after the next start."""
        self._stops = True
        if self._looking.running:
            self._looking.stop()
        await self._leases.stop()

    def _look(self) -> None:
        if not self._stops:
            self._leases.want(set(self._records.unfinished().values()))

    # -- what goes on here

    def going(self) -> Sequence[str]:
        """The jids of runs that go on here."""
        return list(self._going)

    def attempt(self, jid: str) -> int:
        """Which attempt goes on here; 0 if none does."""
        going = self._going.get(jid)
        return 0 if going is None else going.run.attempt

    def holds(self, jid: str) -> bool:
        """Whether a run still goes on here: ask in the same turn, just before each effect."""
        going = self._going.get(jid)
        return going is not None and not going.stopping and self._leases.holds()

    def _of(self, jid: str) -> Going:
        going = self._going.get(jid)
        if going is None:
            raise TakenOver(f"orchestration {jid} does not go on here any more")
        if going.stopping:
            raise TakenOver(f"orchestration {jid} was stopped by {going.stopping}")
        return going

    async def run_begin(self, jid: str, run: Mapping[str, Any]) -> None:
        """
        Returns when what is to be done counts, so that the steps may begin.

        @raises DeniedError: it may not begin: nobody grants the claim, or it has begun before.
        @raises TakenOver: the claim is lost.
        @raises StoreError: the disk refuses.
        @raises WireError: the chunks are too large to be written down.
        """
        if jid in self._going:
            # It goes on here, and was written down when it began
            return
        if self._mode() == OFF:
            return
        await self._may_begin(jid)
        line = begun_line(self._node, self._now(), run)
        writer = await self._records.begin(jid, self._leases.term, line, self._leases.holds)
        self._going[jid] = Going(read_run(jid, writer.lines), writer)

    async def _may_begin(self, jid: str) -> None:
        try:
            await self._leases.held(PATIENCE)
        except TwistedTimeout as error:
            why = self._claims.problem() or "this node has not got its duty yet"
            raise DeniedError(f"orchestration {jid} may not begin: {why}") from error

    async def step_begin(
        self, jid: str, number: int, low: Mapping[str, Any], proposed: str
    ) -> Mapping[str, Any]:
        """
        Returns when it counts that the step begins.

        @raises TakenOver: it must not be done: the run is stopped, or goes on elsewhere.
        @raises StoreError: the disk refuses.
        """
        if jid not in self._going and self._mode() == OFF:
            return {"jid": proposed, "result": None}
        going = self._of(jid)
        step = going.run.steps[number] if number < len(going.run.steps) else None
        if step is not None and step.state in (StepState.DONE, StepState.SKIPPED):
            return {"jid": step.jid, "result": step.result}
        known = going.attach.pop(number, "")
        if not known:
            known = proposed
            more = None if step is not None and step.low else low
            await going.write(step_line(number, known, self._node, self._now(), more))
        if not self.holds(jid):
            raise TakenOver(f"orchestration {jid} does not go on here any more")
        self._tell(jid, "step", {"step": number + 1, "job": known})
        return {"jid": known, "result": None}

    async def step_end(self, jid: str, number: int, result: Mapping[str, Any]) -> None:
        """
        Returns when the result counts.

        @raises TakenOver: the run is stopped, or goes on elsewhere.
        @raises StoreError: the disk refuses.
        """
        if jid not in self._going and self._mode() == OFF:
            return
        going = self._of(jid)
        steps = going.run.steps
        if number < len(steps) and steps[number].state in (StepState.DONE, StepState.SKIPPED):
            return
        await going.write(result_line(number, result, self._node, self._now()))
        self._tell(jid, "result", {"step": number + 1, "result": result.get("result")})

    async def run_end(self, jid: str, outcome: Mapping[str, Any]) -> None:
        """
        It is over; unless this node stops: then it goes on elsewhere, or here after the next start.
        """
        going = self._going.get(jid)
        if going is None or going.stopping or self._stops:
            return
        lines: list[Mapping[str, Any]] = []
        why = str(outcome.get("why", ""))
        for step in going.run.running():
            lines.append(interrupted_line(step.number, why or "its process ended", self._now()))
        states = {step.state for step in going.run.steps}
        how = "done" if states <= {StepState.DONE, StepState.SKIPPED} else "failed"
        how = "interrupted" if lines else how
        try:
            await self._end(going, [*lines, ended_line(how, self._now(), why)])
        except TakenOver as error:
            self.log.warn("orchestration {jid}: {error}", jid=jid, error=str(error))

    async def _end(self, going: Going, lines: Sequence[Mapping[str, Any]]) -> None:
        jid = going.run.jid
        try:
            for line in lines:
                await going.write(line)
        finally:
            self.lost(jid)
        self._tell(jid, "end", {"state": going.run.state.value, "why": going.run.why})

    def lost(self, jid: str) -> None:
        """It does not go on here any more: another node has it, or will."""
        going = self._going.pop(jid, None)
        if going is not None:
            going.writer.close()

    def _all_lost(self, why: str) -> None:
        for jid in list(self._going):
            self.lost(jid)
            self._kill(jid, why)

    async def stop(self, jid: str, user: str) -> Run:
        """
        End a run that goes on here: no step begins any more. What runs on minions goes on there.

        @raises TakenOver: it does not go on here.
        """
        going = self._of(jid)
        going.stopping = user or "somebody"
        why = f"{going.stopping} stopped it"
        lines: list[Mapping[str, Any]] = []
        for step in going.run.running():
            left = f"{why}; job {step.jid} was not waited for" if step.jid else why
            lines.append(interrupted_line(step.number, left, self._now()))
        self._kill(jid, why)
        await self._end(going, [*lines, ended_line("stopped", self._now(), why)])
        return going.run

    # -- what goes on after somebody

    async def _left(self, node: str, holds: Callable[[], bool]) -> None:
        """This node may go on with what another one, or an earlier life, has left."""
        while holds() and not self._stops:
            left = [
                jid
                for jid, whose in (await self._records.all_unfinished()).items()
                if whose == node and jid not in self._going
            ]
            if not left:
                self._look()
                return
            for jid in left:
                self.log.info("orchestration {jid} of {node} is taken over", jid=jid, node=node)
                try:
                    await self._take(jid, node, holds)
                except (TakenOver, StoreError, WireError) as error:
                    self.log.warn("orchestration {jid}: {error}", jid=jid, error=str(error))
                    self.lost(jid)
                    await deferLater(self._clock, AGAIN)

    async def _take(self, jid: str, node: str, holds: Callable[[], bool]) -> None:
        known = read_run(jid, await self._records.read(jid))
        writer = await self._records.take(jid, known.attempt, self._leases.term, holds)
        run = read_run(jid, writer.lines)
        going = self._going[jid] = Going(run, writer)
        if run.state is not RunState.RUNNING or run.node != node:
            # What is known now is newer
            self.lost(jid)
            return
        await self._plan(going, node)

    async def _plan(self, going: Going, node: str) -> None:
        run = going.run
        known = {step.number: await self._known(step) for step in run.running()}
        found = plan(
            run,
            self._mode(),
            lambda step: known[step.number],
            self._window(),
            node,
            self._now(),
        )
        if not found.goes_on:
            await self._end(going, found.lines)
            return
        await going.write(taken_line(self._node, self._now()))
        # Whether it is published or waited for is told by whether there is a record of the job
        going.attach = {**found.attach, **found.publish}
        self._tell(run.jid, "taken", {"node": self._node, "of": node})
        done = {str(number): result for number, result in run.results().items()}
        resumed: Any = maybeDeferred(self._resume, run.jid, run.about, done).addCallback(awaited)
        let_go(resumed, self.log, "orchestration {jid} did not go on", jid=run.jid)

    async def go_on(self, jid: str, first: str, user: str) -> Run:
        """
        An operator has looked, and has a run go on that failed, was interrupted or stopped.

        @param first: the number or id of the step to go on from: those before it count as
            done. C{""}: from the first one that is not done.
        @raises DeniedError: it cannot go on.
        @raises TakenOver: the claim is lost.
        """
        run = await self.show(jid)
        number = judged_resumption(run, first)
        await self._may_begin(jid)
        claim = await self._resumption(run, user)
        attempt = int(claim.key.rpartition("/")[2])
        try:
            writer = await self._records.take(
                jid, attempt, self._leases.term, self._leases.holds
            )
            run = read_run(jid, writer.lines)
            judged_resumption(run, first)
            node = run.node
            going = self._going[jid] = Going(run, writer)
            await going.write(resumed_line(attempt, number, user, self._node, self._now()))
        except SaltwistedError:
            self.lost(jid)
            raise
        finally:
            await self._claims.end(claim, "done")
        await self._plan(going, node)
        return run

    async def _resumption(self, run: Run, user: str) -> Claim:
        """One of several who have a run go on at the same moment; the others are told."""
        for attempt in range(run.attempt + 1, run.attempt + 100):
            key = f"{RESUME}/{run.jid}/{attempt}"
            answer = await self._claims.begin(key, {"node": self._node}, f"{user} has it go on")
            if isinstance(answer, Claim):
                return answer
            if not isinstance(answer, Taken):
                raise DeniedError(f"orchestration {run.jid} cannot go on: {answer.why}")
            if not answer.ended:
                break
            # That attempt came to nothing
        raise DeniedError(f"somebody else has orchestration {run.jid} go on just now")

    # -- looking

    async def show(self, jid: str) -> Run:
        """
        What is known of a run.

        @raises DeniedError: nobody knows it.
        """
        run = read_run(jid, await self._records.read(jid))
        if not run.counted:
            raise DeniedError(f"there is no orchestration {jid} here, or it was forgotten")
        return run

    async def listed(self) -> list[Run]:
        """All that are known, oldest first."""
        return [
            read_run(jid, await self._records.read(jid)) for jid in await self._records.jids()
        ]

    def _tell(self, jid: str, what: str, data: dict[str, Any]) -> None:
        self._fire(f"saltwisted/orchestrate/{jid}/{what}", {"jid": jid, **data})


def judged_resumption(run: Run, first: str) -> int | None:
    """
    From which step a run goes on; C{None}: from the first that is not done.

    @raises DeniedError: it cannot go on, or not from there.
    """
    if run.state is RunState.RUNNING:
        raise DeniedError(f"orchestration {run.jid} is running, on {run.node}")
    if run.state is RunState.DONE:
        raise DeniedError(f"orchestration {run.jid} is done")
    if not run.about:
        raise DeniedError(f"of orchestration {run.jid} is not known what it was to do")
    if not first:
        return None
    step = run.find(first)
    if step is None:
        raise DeniedError(f"orchestration {run.jid} has no step {first!r}")
    if step.state in (StepState.DONE, StepState.SKIPPED):
        raise DeniedError(f"step {step.number + 1} ({step.name}) is done, and is not repeated")
    return step.number
