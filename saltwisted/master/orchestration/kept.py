"""
Orchestrations of this master, and those that it takes over: their start, their records, their end.

This is C{IOrchestrations}. The orchestrations of a node run under its duty
(L{saltwisted.master.orchestration.leases}); when the node has died, the next holder of the duty
continues them. Before a step has any effect, its line counts (C{seams.runs}), and so does its
result before the next one begins. The caller does the steps themselves, and asks here at each one.
L{saltwisted.domain.orchestration.takeover} decides what a takeover means for each kind of step.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from saltwisted.claiming import IClaims
from saltwisted.domain.orchestration.life import RunState, StepState
from saltwisted.domain.orchestration.sealing import Seals
from saltwisted.domain.orchestration.takeover import OFF, Known
from saltwisted.domain.orchestration.words import (
    Run,
    Step,
    begun_line,
    ended_line,
    interrupted_line,
    part_line,
    parts_line,
    read_run,
    result_line,
    step_line,
    wished_line,
)
from saltwisted.errors import DeniedError, TakenOver
from saltwisted.interfaces import IOrchestrating, IOrchestrations
from saltwisted.master.orchestration.going import Fire, Going, Goings
from saltwisted.master.orchestration.protocols import IRunRecords
from saltwisted.master.orchestration.records import STOP
from saltwisted.master.orchestration.successor import Successor
from saltwisted.master.orchestration.summaries import Summaries
from saltwisted.transports.deferreds import let_go, wait_for

PRUNE_EVERY = 600.0
SHOWN = ("__pub_jid",)
"""Of the options of a secret run: by what others refer to it."""


class KeptOrchestrations:
    """
    The orchestrations of one node. Reactor thread only.

    @param mode: C{orchestrate_takeover}.
    @param window: C{publish_window}.
    @param known: what is known of the job of a step; waits until the log has been read.
    @param seals: seals the calls of steps with C{no_log}; C{None} if nothing is stored on a disk.
    @param reads: the C{generation} and C{trees} that a run of this jid reads if an operator
        continues it now.
    @param before: runs that began before this time of day are deleted; C{None}: none now.
    """

    log = Logger()

    def __init__(
        self,
        clock: Any,
        node: str,
        claims: IClaims,
        records: IRunRecords,
        now: Callable[[], float],
        known: Callable[[Step], Awaitable[Known]],
        mode: Callable[[], str],
        window: Callable[[], float],
        fire: Fire = lambda tag, data: None,
        before: Callable[[], float | None] = lambda: None,
        seals: Seals | None = None,
        reads: Callable[[str], Mapping[str, Any]] = lambda jid: {},
    ) -> None:
        self._node, self._records, self._now, self._mode = node, records, now, mode
        self._before, self._seals = before, seals
        self._orchestrating: IOrchestrating | None = None
        self._goings = Goings(now, self._kill, fire)
        self._successor = Successor(
            clock,
            node,
            claims,
            records,
            self._goings,
            self._resume,
            known,
            mode,
            window,
            reads,
        )
        self._pruning = LoopingCall(self._prune)
        self._pruning.clock = clock
        self._leases = self._successor.leases
        self._summaries = Summaries(clock, records)

    # -- the service

    def serve(self, orchestrating: IOrchestrating) -> None:
        """By whom the steps are done."""
        self._orchestrating = orchestrating

    def _kill(self, jid: str, why: str) -> bool:
        return self._orchestrating is not None and self._orchestrating.stop(jid, why)

    def _resume(self, run: Run, done: Mapping[str, Mapping[str, Any]]) -> Awaitable[Any]:
        assert self._orchestrating is not None
        about = run.about
        if self._seals is not None:
            about = {**about, "chunks": self._seals.opened(about["chunks"])}
            if run.about.get("secret"):
                (about["options"],) = self._seals.opened([about["options"]])
        return self._orchestrating.resume(run.jid, about, done, run.wishes)

    def _sealed(self, low: Mapping[str, Any]) -> Mapping[str, Any]:
        return low if self._seals is None else self._seals.sealed(low)

    async def startService(self) -> None:
        """Continue what an earlier life has left, and look for what other nodes leave."""
        self._records.on_wish(self._wish)
        await self._records.startService()
        self._goings.open(True)
        self._successor.start()
        let_go(self._pruning.start(PRUNE_EVERY, now=False), self.log, "nothing is forgotten")

    async def stopService(self) -> None:
        """The runs continue elsewhere, or here after the next start."""
        if self._pruning.running:
            self._pruning.stop()
        self._goings.open(False)
        await self._successor.stop()
        await self._records.stopService()

    def _prune(self) -> None:
        before = self._before()
        if before is not None:
            forgotten = wait_for(self._records.forget(before))
            let_go(forgotten, self.log, "old orchestrations are not forgotten")

    # -- what goes on here

    def run(self, jid: str) -> Run | None:
        """What is known of a run that goes on here."""
        going = self._goings.find(jid)
        return None if going is None else going.run

    def reads(self) -> Mapping[str, Mapping[str, str]]:
        """Generation to trees of the runs that have not ended, as far as this disk knows."""
        return self._records.reads()

    def holds(self, jid: str) -> bool:
        """Whether a run still goes on here: check in the same turn, just before each effect."""
        going = self._goings.find(jid)
        if going is None:
            # It was begun without being written down
            return self._mode() == OFF
        return not going.stopping and self._leases.holds()

    async def run_begin(self, jid: str, run: Mapping[str, Any]) -> None:
        """
        Returns when the record of the run counts, so that the steps may begin.

        @raises DeniedError: it may not begin: nobody grants the claim, or it has begun before.
        @raises TakenOver: the claim is lost.
        @raises StoreError: the disk refuses.
        @raises WireError: the chunks are too large to be recorded.
        """
        if jid in self._goings:
            # It goes on here, and was written down when it began
            return
        if self._mode() == OFF:
            # As in stock: it ends with its master
            return
        await self._successor.may_begin(jid)
        chunks = [self._sealed(low) for low in run["chunks"]]
        known = {**run, "chunks": chunks}
        if run.get("secret"):
            # It is the step of a secret one: its pillar and its arguments are that step's
            options = run["options"]
            told = {word: options["kwarg"][word] for word in SHOWN if word in options["kwarg"]}
            known["options"] = {**self._sealed({"no_log": True, **options}), "kwarg": told}
        line = begun_line(self._node, self._now(), known)
        self._goings.beginning.add(jid)
        try:
            writer = await self._records.begin(jid, self._leases.term, line, self._leases.holds)
            self._goings.add(Going(read_run(jid, writer.lines), writer))
        finally:
            self._goings.beginning.discard(jid)

    async def step_begin(
        self, jid: str, number: int, low: Mapping[str, Any], proposed: str
    ) -> Mapping[str, Any]:
        """
        Returns when the beginning of the step counts.

        @raises TakenOver: it must not be done: the run is stopped, or goes on elsewhere.
        @raises StoreError: the disk refuses.
        """
        if jid not in self._goings and self._mode() == OFF:
            return {"jid": proposed, "result": None, "parts": None}
        going = self._goings.of(jid)
        step = going.run.steps[number] if number < len(going.run.steps) else None
        if step is not None and step.is_over:
            return {"jid": step.jid, "result": step.result, "parts": None}
        if step is not None and step.state is StepState.INTERRUPTED:
            raise TakenOver(f"step {number + 1} of orchestration {jid} was interrupted")
        known, parts = going.attach.pop(number, ""), None
        if known:
            found = going.run.steps[number].parts
            parts = None if found is None else found.shown()
        else:
            known = proposed
            more = None if step is not None and step.low else self._sealed(low)
            await self._goings.write(going, step_line(number, known, self._node, self._now(), more))
        if not self.holds(jid):
            raise TakenOver(f"orchestration {jid} no longer runs on this node")
        return {"jid": known, "result": None, "parts": parts}

    async def step_parts(
        self, jid: str, number: int, turns: Sequence[Sequence[str]], lost: Mapping[str, Any]
    ) -> None:
        """
        Returns when it counts which minions get the parts of a step.

        @raises TakenOver: it must not be done: the run is stopped, or goes on elsewhere.
        @raises StoreError: the disk refuses.
        """
        if jid not in self._goings and self._mode() == OFF:
            return
        line = parts_line(number, turns, lost, self._now())
        await self._goings.write(self._goings.of(jid), line)

    async def step_part(self, jid: str, number: int, part: int) -> bool:
        """
        Returns when it counts that a part of a step is published, with whether it may be.

        @raises TakenOver: it must not: the run is stopped, or goes on elsewhere.
        @raises StoreError: the disk refuses.
        """
        if jid not in self._goings and self._mode() == OFF:
            return True
        going = self._goings.of(jid)
        found = going.run.steps[number].parts if number < len(going.run.steps) else None
        if found is None:
            raise TakenOver(f"step {number + 1} of orchestration {jid} has no parts")
        begun = len(found.begun)
        if part < begun:
            # Whether the latest is out was judged when this node took over
            return part == begun - 1
        await self._goings.write(going, part_line(number, part, self._now()))
        if not self.holds(jid):
            raise TakenOver(f"orchestration {jid} no longer runs on this node")
        return True

    async def step_end(self, jid: str, number: int, result: Mapping[str, Any]) -> None:
        """
        Returns when the result counts.

        @raises TakenOver: the run is stopped, or goes on elsewhere.
        @raises StoreError: the disk refuses.
        """
        if jid not in self._goings and self._mode() == OFF:
            return
        going = self._goings.of(jid)
        steps = going.run.steps
        if number < len(steps) and steps[number].is_over:
            return
        await self._goings.write(going, result_line(number, result, self._node, self._now()))

    async def run_end(self, jid: str, outcome: Mapping[str, Any]) -> None:
        """
        The run is over, unless this node stops: then it continues elsewhere, or here after the next
        start.
        """
        await self._goings.over(jid, outcome)

    async def stop(self, jid: str, user: str) -> Run:
        """Here, or on the node on which it runs."""
        if self._goings.find(jid) is None:
            if jid not in self._goings and self._kill(jid, f"{user} stopped it"):
                # Nothing is written down of it: it is being compiled, or none is (`off`)
                why = f"{user} stopped it"
                return Run(jid, state=RunState.STOPPED, node=self._node, at=self._now(), why=why)
            run = await self.show(jid)
            if run.state is not RunState.RUNNING:
                raise DeniedError(f"orchestration {jid} has ended: it is {run.state.value}")
            if run.node == self._node:
                raise DeniedError(f"another node is just taking over orchestration {jid}")
            await self._records.wish_at(run.node, jid, {"do": STOP}, user)
            return await self.show(jid)
        return await self._stop(jid, user)

    async def _stop(self, jid: str, user: str) -> Run:
        """
        No step begins any more. What runs on minions goes on there.

        @raises TakenOver: it does not go on here.
        """
        going = self._goings.of(jid)
        why = going.stop(user)
        lines: list[Mapping[str, Any]] = []
        for number, job in going.running().items():
            left = f"{why}; job {job} was not waited for" if job else why
            lines.append(interrupted_line(number, left, self._now()))
        self._goings.kill(jid, why)
        await self._goings.end(going, [*lines, ended_line("stopped", self._now(), why)])
        return going.run

    async def wished(self, jid: str, wishes: Mapping[str, Any], user: str) -> None:
        """
        Returns when a node that takes over knows what was requested for a run.

        @raises TakenOver: it does not run here.
        @raises StoreError: the disk refuses.
        """
        if jid not in self._goings and self._mode() == OFF:
            return
        await self._goings.write(self._goings.of(jid), wished_line(wishes, user, self._now()))

    async def wish_elsewhere(self, jid: str, wish: Mapping[str, Any], user: str) -> None:
        """Asks the node on which it runs."""
        run = await self._summaries.read(jid)
        for other in await self._records.all_unfinished() if not run.counted else ():
            # It may be meant by the jid in its events
            found = await self._summaries.read(other)
            run = found if found.name == jid else run
        if not run.counted:
            raise DeniedError(f"no orchestration {jid} runs on this node or on another")
        if run.state is not RunState.RUNNING:
            raise DeniedError(f"orchestration {jid} has ended: it is {run.state.value}")
        if run.node == self._node:
            raise DeniedError(f"another node is just taking over orchestration {jid}")
        await self._records.wish_at(run.node, jid, wish, user)

    async def _wish(self, jid: str, wish: Mapping[str, Any], user: str) -> None:
        """Another node asks."""
        if wish["do"] == STOP:
            await self._stop(jid, user)
            return
        assert self._orchestrating is not None
        await self._orchestrating.wish(jid, wish, user)

    async def go_on(self, jid: str, first: str, user: str) -> Run:
        """As L{Successor.go_on}."""
        return await self._successor.go_on(await self.show(jid), first, user)

    # -- looking

    async def show(self, jid: str) -> Run:
        """
        What is known of a run.

        @raises DeniedError: nobody knows it.
        """
        run = await self._summaries.read(jid)
        if not run.counted:
            raise DeniedError(
                f"there is no orchestration {jid}, or it was forgotten after keep_jobs_seconds"
            )
        return run

    def listed(self, most: int = 0) -> Awaitable[Sequence[Mapping[str, Any]]]:
        """Those that are known, oldest first."""
        return Deferred.fromCoroutine(self._summaries.listed(most))


_Kept: type[IOrchestrations] = KeptOrchestrations  # mypy compares them
