"""
Continues runs here: those that an earlier life or a dead node has left, and those that an operator
wants to continue.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from twisted.internet.defer import TimeoutError as TwistedTimeout
from twisted.internet.defer import maybeDeferred
from twisted.internet.task import LoopingCall, deferLater
from twisted.logger import Logger

from saltwisted.claiming import IClaims
from saltwisted.domain.claims.words import Claim, Taken
from saltwisted.domain.orchestration.life import RunState, StepState
from saltwisted.domain.orchestration.takeover import CONTINUE, Known, plan
from saltwisted.domain.orchestration.words import Run, Step, read_run, resumed_line, taken_line
from saltwisted.errors import DeniedError, SaltwistedError, StoreError, TakenOver, WireError
from saltwisted.master.orchestration.going import Going, Goings
from saltwisted.master.orchestration.leases import Leases
from saltwisted.master.orchestration.protocols import IRunRecords
from saltwisted.transports.deferreds import awaited, let_go, to_its_end

RESUME = "orchresume"
PATIENCE = 10.0
"""Seconds that it is tried to take a run over."""
SETTLING = 30.0
"""
Seconds that a run waits to be begun while this node hears no majority, or has just started: when
all nodes of a cluster were restarted, they keep to what they granted before, and that takes longer
than one term.
"""
LOOK_EVERY = 1.0
AGAIN = 2.0
"""Seconds after which it is given up, and later tried again, to take over what cannot be yet."""

Resume = Callable[[Run, Mapping[str, Mapping[str, Any]]], Any]
"""C{IOrchestrating.resume}."""


class Successor:
    """
    That of one node. Reactor thread only.

    @param resume: continues a run here that was compiled before: C{IOrchestrating.resume}.
    @param known: what is known of the job of a step; waits until the log has been read.
    @param mode: C{orchestrate_takeover}.
    @param window: C{publish_window}.
    @param reads: the C{generation} and C{trees} that a run of this jid reads if an operator
        continues it now.
    @ivar leases: which duties this node has.
    """

    log = Logger()

    def __init__(
        self,
        clock: Any,
        node: str,
        claims: IClaims,
        records: IRunRecords,
        goings: Goings,
        resume: Resume,
        known: Callable[[Step], Awaitable[Known]],
        mode: Callable[[], str],
        window: Callable[[], float],
        reads: Callable[[str], Mapping[str, Any]],
    ) -> None:
        self._clock, self._node, self._claims, self._records = clock, node, claims, records
        self._goings, self._resume, self._known = goings, resume, known
        self._mode, self._window, self._reads = mode, window, reads
        self.leases = Leases(clock, node, claims, self._left, goings.all_lost)
        self._looking = LoopingCall(self._look)
        self._looking.clock = clock
        self._taking: list[str] = []
        self._waits: dict[str, str] = {}

    def start(self) -> None:
        """Continue what an earlier life has left, and look for what other nodes leave."""
        self.leases.start()
        self._claims.on_recover(RESUME, self._recovered)
        self._records.on_change(lambda jid: self._look())
        let_go(
            self._looking.start(LOOK_EVERY, now=False), self.log, "nothing is taken over any more"
        )

    async def stop(self) -> None:
        """Others may have all of it."""
        if self._looking.running:
            self._looking.stop()
        await self.leases.stop()

    def _look(self) -> None:
        if self._goings.stops:
            return
        unfinished = self._records.unfinished()
        self._waits = {jid: why for jid, why in self._waits.items() if jid in unfinished}
        self.leases.want({*unfinished.values(), *self._taking})
        if self.leases.holds() and not self._taking:
            own = {jid for jid, node in unfinished.items() if node == self._node}
            if own - set(self._goings) - self._goings.beginning:
                # It could not be written down what became of it, or that it was taken over
                left = self._left(self._node, self.leases.holds)
                let_go(left, self.log, "what was left here is not gone on with")

    async def may_begin(self, jid: str) -> None:
        try:
            await self.leases.held(SETTLING)
        except TwistedTimeout as error:
            why = self._claims.problem() or "this node has not got its duty yet"
            raise DeniedError(f"orchestration {jid} may not begin: {why}") from error

    async def _left(self, node: str, holds: Callable[[], bool]) -> None:
        """This node may go on with what another one, or an earlier life, has left."""
        self._taking.append(node)
        try:
            while holds() and not self._goings.stops:
                left = [
                    jid
                    for jid, whose in (await self._records.all_unfinished()).items()
                    if whose == node and jid not in self._goings
                ]
                if not left:
                    break
                for jid in left:
                    await self._try(jid, node, holds)
        finally:
            self._taking.remove(node)
        self._look()

    async def _try(self, jid: str, node: str, holds: Callable[[], bool]) -> None:
        if jid not in self._waits:
            self.log.info("orchestration {jid} of {node} is taken over", jid=jid, node=node)
        try:
            while self._goings.kill(jid, "it is gone on with from what was written down"):
                await deferLater(self._clock, LOOK_EVERY / 10)
            await self._take(jid, node, holds)
            self._waits.pop(jid, None)
        except (TakenOver, StoreError, WireError) as error:
            if self._waits.get(jid) != str(error):
                # It is tried every few seconds, for as long as those who are needed are away
                self.log.warn("orchestration {jid}: {error}", jid=jid, error=str(error))
            self._waits[jid] = str(error)
            self._goings.lost(jid)
            await deferLater(self._clock, AGAIN)

    async def _take(self, jid: str, node: str, holds: Callable[[], bool]) -> None:
        known = read_run(jid, await self._records.read(jid))
        term = self.leases.term
        writer = await self._records.take(jid, known.attempt, term, holds, AGAIN)
        run = read_run(jid, writer.lines)
        going = self._goings.add(Going(run, writer))
        if run.state is not RunState.RUNNING or run.node != node:
            # What is known now is newer
            self._goings.lost(jid)
            return
        await self._plan(going, node, self._mode(), going.writer.doubtful)

    async def _plan(self, going: Going, node: str, mode: str, doubtful: bool = False) -> None:
        run = going.run
        known = {step.number: await self._known(step) for step in run.running()}
        found = plan(
            run,
            mode,
            lambda step: known[step.number],
            self._window(),
            node,
            self._goings.now(),
            doubtful,
        )
        if not found.goes_on:
            await self._goings.end(going, found.lines)
            return
        await self._goings.write(going, taken_line(self._node, self._goings.now()))
        # Whether it is published or waited for is told by whether there is a record of the job
        going.attach.update({**found.attach, **found.publish})
        self._goings.tell(run.jid, "taken", {"node": self._node, "of": node})
        done = {str(number): result for number, result in run.results().items()}
        let_go(self._do(going, done), self.log, "orchestration {jid} did not go on", jid=run.jid)

    async def _do(self, going: Going, done: Mapping[str, Mapping[str, Any]]) -> None:
        """Have the rest of it done."""
        run, why = going.run, ""
        try:
            await maybeDeferred(self._resume, run, done).addCallback(awaited)
        except SaltwistedError as error:
            why = str(error)
        if why and self._goings.find(run.jid) is going:
            await self._goings.over(run.jid, {"success": False, "why": why})

    def _recovered(self, key: str, plan_: Mapping[str, Any], claim: Claim) -> Awaitable[None]:
        """Who would have had a run go on has died. Somebody may say so again."""
        return self._claims.end(claim, "lost")

    async def go_on(self, run: Run, first: str, user: str) -> Run:
        """
        An operator has looked, and has a run go on that failed, was interrupted or stopped.

        @param run: as it is known.
        @param first: the number or id of the step to go on from: those before it count as
            done. C{""}: from the first one that is not done.
        @raises DeniedError: it cannot go on.
        @raises TakenOver: the claim is lost.
        """
        judged_resumption(run, first)
        await self.may_begin(run.jid)
        # Whoever asks for it may go away in the middle: then it goes on nevertheless
        going_on = self._go_on(run, first, user)
        found: Run = await to_its_end(going_on, self.log, "orchestration {jid}", jid=run.jid)
        return found

    async def _go_on(self, run: Run, first: str, user: str) -> Run:
        jid, number = run.jid, judged_resumption(run, first)
        claim = await self._resumption(run, user)
        attempt = int(claim.key.rpartition("/")[2])
        try:
            term, holds = self.leases.term, self.leases.holds
            writer = await self._records.take(jid, attempt, term, holds, PATIENCE)
            run = read_run(jid, writer.lines)
            judged_resumption(run, first)
            node = run.node
            going = self._goings.add(Going(run, writer))
            now, facts = self._goings.now(), self._reads(jid)
            reads = {"generation": facts.get("generation", ""), "trees": facts.get("trees", {})}
            await going.write(resumed_line(attempt, number, user, self._node, now, reads))
        except SaltwistedError:
            self._goings.lost(jid)
            raise
        finally:
            await self._claims.end(claim, "done")
        # Whatever is to be done without being asked: somebody asks
        await self._plan(going, node, CONTINUE)
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
        raise DeniedError(f"another command is just resuming orchestration {run.jid}")


def judged_resumption(run: Run, first: str) -> int | None:
    """
    The step from which a run continues; C{None}: the first that is not done.

    @raises DeniedError: it cannot continue, or not from there.
    """
    if run.state is RunState.RUNNING:
        raise DeniedError(f"orchestration {run.jid} is running, on {run.node}")
    if run.state is RunState.DONE:
        raise DeniedError(f"orchestration {run.jid} is done")
    if not run.about:
        raise DeniedError(f"the steps of orchestration {run.jid} are not known")
    if not first:
        return None
    step = run.find(first)
    if step is None:
        raise DeniedError(f"orchestration {run.jid} has no step {first!r}")
    if step.state in (StepState.DONE, StepState.SKIPPED):
        raise DeniedError(f"step {step.number + 1} ({step.name}) is done, and is not repeated")
    return step.number
