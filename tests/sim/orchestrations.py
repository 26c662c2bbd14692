"""
Orchestrations among all that can go wrong between and below masters, from one seed.

The world is that of L{tests.sim.claims}, with its votes, duties, cuts, kills at any write, frozen
nodes, clocks that jump, and members that join and are removed, also in the middle of a run. In
addition orchestrations are begun on nodes, also on those that have not joined yet, by the real
L{KeptOrchestrations} and L{RunRecords}; the disks on which lines are kept are real
tables, which are synced a moment later. Played are the processes that do the steps,
and the minions: a job under one jid runs once, however often it is published.

What must hold beside what holds there:

 - A step whose effect cannot be known is done once in each attempt; a job is published under one
   jid in each attempt. A step that says so itself may be done again.
 - What goes out in parts tells each minion once, in one order, and a part begins when those before
   it have ended.
 - Whoever goes on with a run reads the generation that it has read before; an operator who has it
   go on begins a new attempt, of the newest one.
 - No step has an effect before those ahead of it have ended well, nor after one that was
   interrupted.
 - A step that is I{interrupted} had begun, and its node had died, stood still, or was cut off.
 - When all is well again for a while each run that was begun has ended; one that is done has done
   each of its steps; and all nodes say the same of it.
 - Where those are removed that may have had lines alone, nothing goes on by itself: such a run is
   interrupted where it may have been, or nobody knows it any more.

C{python -m tests.sim.orchestrations [--moving] --seeds 10000 [--first N]} plays many; exit status 1
when one broke.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, succeed

from saltwisted.domain.claims.electorate import Seat
from saltwisted.domain.jid import jid_at
from saltwisted.domain.orchestration.copies import Put, Record
from saltwisted.domain.orchestration.life import RunState, StepState
from saltwisted.domain.orchestration.seats import seats_of
from saltwisted.domain.orchestration.takeover import Known, known_of
from saltwisted.domain.orchestration.words import Run, Step
from saltwisted.errors import DeniedError, SaltwistedError
from saltwisted.master.orchestration.keepers import Electors
from saltwisted.master.orchestration.kept import KeptOrchestrations
from saltwisted.master.orchestration.records import RunRecords
from saltwisted.stores import runs as table
from saltwisted.transports.deferreds import as_deferred
from tests.sim.batches import SimBatches
from tests.sim.claims import Broken, SimClock, SimNode, World
from tests.sim.play import play

KINDS = ("function", "function", "state", "runner", "again", "batch", "batch")
MINIONS = tuple("klmnop")
SHIPPED = 1.0
"""Seconds after which all living nodes have heard of a job that was published."""


class SimRunStore:
    """Lines, with a simulated moment at which a write has reached the disk."""

    def __init__(self, node: OrchNode) -> None:
        self.node = node
        self.batches: SimBatches[tuple[list[Put], list[str]]] = SimBatches(
            node, lambda work: table.commit(node.lines, work), refusals=0.01, deaths=4.0
        )

    def load(self) -> Deferred[list[Record]]:
        return succeed(table.read(self.node.lines))

    def lines(self, jid: str) -> Deferred[Sequence[bytes]]:
        read: Deferred[Sequence[bytes]] = Deferred()
        seconds = self.node.world.dice.choice((0.0, 0.001, 0.3))
        found = table.lines_of(self.node.lines, jid)
        SimClock(self.node).callLater(seconds, read.callback, found)
        return read

    def close(self) -> Deferred[None]:
        return succeed(None)

    def write(self, puts: Iterable[Put], forget: Iterable[str] = ()) -> Deferred[None]:
        return self.batches.add((list(puts), list(forget)))


def new_lines() -> sqlite3.Connection:
    """Nothing was written down."""
    db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    for number, text in enumerate(table.MIGRATIONS):
        db.executescript(f"BEGIN; {text} PRAGMA user_version={number + 1}; COMMIT;")
    return db


class SimProcesses:
    """What C{Orchestrating} is for a node."""

    def __init__(self, node: OrchNode) -> None:
        self.node = node

    @property
    def active(self) -> Mapping[str, Any]:
        """By jid."""
        return self.node.workers

    def wish(self, jid: str, wish: Mapping[str, Any], user: str) -> Deferred[None]:
        """Nobody wishes anything."""
        return succeed(None)

    def resume(
        self,
        jid: str,
        run: Mapping[str, Any],
        done: Mapping[str, Mapping[str, Any]],
        wishes: Mapping[str, Any],
    ) -> Deferred[Any]:
        """Go on."""
        self.node.go_on(jid, run, done)
        return succeed({})

    def stop(self, jid: str, why: str) -> bool:
        """The process is gone."""
        return self.node.workers.pop(jid, None) is not None


@define(eq=False)
class OrchNode(SimNode):
    """
    A master that orchestrates.

    @ivar lines: its disk.
    @ivar workers: the runs that have a process here.
    """

    lines: sqlite3.Connection = field(factory=new_lines)
    run_store: SimRunStore = field(init=False)
    records: RunRecords = field(init=False)
    kept: KeptOrchestrations = field(init=False)
    workers: dict[str, object] = field(factory=dict)

    def start(self) -> None:
        """A new life."""
        SimNode.start(self)
        self.workers = {}
        world = self.world
        self.run_store = SimRunStore(self)
        self.records = RunRecords(
            SimClock(self),
            self.name,
            self.peers,  # type: ignore[arg-type]
            Electors(
                key=self.name,
                members=lambda: [Seat(name, name) for name in self.knows - self.gone],
                gone=lambda: self.gone,
            ),
            self.run_store,
        )
        self.kept = KeptOrchestrations(
            SimClock(self),
            self.name,
            self.claims,
            self.records,
            lambda: world.clock.seconds() + self.offset,
            self.known,
            lambda: "continue",
            lambda: 30.0,
            reads=lambda jid: self.whole.reads,
        )
        self.kept.serve(SimProcesses(self))
        started = as_deferred(self.kept.startService())
        started.addErrback(world.failed)  # type: ignore[unused-awaitable]

    def kill(self) -> None:
        """What was being written may be on the disk."""
        if self.alive and self.world.dice.random() < 0.5:
            self.run_store.batches.sync()
        self.workers = {}
        SimNode.kill(self)

    def known(self, step: Step) -> Deferred[Known]:
        """What this node has heard of a job."""
        world = self.whole
        now, minions = world.clock.seconds(), None
        for at, name, told in world.jobs.get(step.jid, ()):
            if name == self.name or now - at > SHIPPED:
                minions = [*(minions or ()), *told]
        # As the minions' clocks say, and the lines' times of day
        given = world.given[step.jid] + self.offset
        return succeed(known_of(step, minions, given, now + self.offset))

    async def stop(self) -> None:
        """As a service that is stopped, to join others."""
        self.workers = {}
        await self.kept.stopService()
        await SimNode.stop(self)

    # What it does

    @property
    def whole(self) -> OrchWorld:
        """Where it is."""
        assert isinstance(self.world, OrchWorld)
        return self.world

    def orchestrate(self, jid: str, chunks: list[dict[str, Any]]) -> None:
        """An operator begins one."""
        life, world = self.life, self.whole
        run: dict[str, Any] = {"chunks": chunks, "fun": "state.orchestrate", "user": "root"}
        run.update(world.reads)
        world.read[jid, 1] = world.generation
        begun = as_deferred(self.kept.run_begin(jid, run))

        def then(_: Any) -> None:
            if self.life == life:
                world.tell(f"{self.name} begins {jid}")
                world.runs.add(jid)
                self.work(jid, chunks, {})

        begun.addCallbacks(then, lambda failure: failure.trap(SaltwistedError) and None)  # type: ignore[unused-awaitable]
        begun.addErrback(world.failed)  # type: ignore[unused-awaitable]

    def go_on(self, jid: str, run: Mapping[str, Any], done: Mapping[str, Any]) -> None:
        """What C{IOrchestrating.resume} does."""
        self.world.tell(f"{self.name} goes on with {jid}, {len(done)} steps are done")
        self.world.counts["taken over"] += 1
        going = self.kept.run(jid)
        if going is not None:
            read = self.whole.read.setdefault((jid, going.attempt), run["generation"])
            if read != run["generation"]:
                self.whole.broken(f"{jid} has read {read}, and reads {run['generation']} now")
        self.work(jid, list(run["chunks"]), done)

    def work(self, jid: str, chunks: list[dict[str, Any]], done: Mapping[str, Any]) -> None:
        """A process that does the steps one after the other."""
        me = self.workers[jid] = object()
        life = self.life
        if not self.world.is_well and self.world.dice.random() < 0.02:
            self.freeze()
        steps = as_deferred(self._work(jid, chunks, done, lambda: self._lives(jid, me, life)))
        steps.addErrback(self.whole.told)  # type: ignore[unused-awaitable]

    def _lives(self, jid: str, me: object, life: int) -> bool:
        return self.life == life and self.workers.get(jid) is me

    async def _work(
        self, jid: str, chunks: list[dict[str, Any]], done: Mapping[str, Any], lives: Any
    ) -> None:
        dice = self.world.dice
        outcome: dict[str, Any] = {"success": True}
        for number, low in enumerate(chunks):
            if str(number) in done:
                continue
            try:
                told = await as_deferred(
                    self.kept.step_begin(jid, number, low, self.whole.new_jid())
                )
                if told["result"] is None:
                    if dice.random() < 0.05 and not self.world.is_well and lives():
                        # The worst moment: the step has begun, and has had no effect
                        self.freeze()
                    await self.pause(dice.choice((0.0, 0.0, 0.01, 0.5)))
                    if not lives() or not self.kept.holds(jid):
                        return
                    if low.get("batch"):
                        if not await self._parts(jid, number, low, told, lives):
                            return
                    else:
                        self.whole.step(self, jid, number, low, told["jid"])
                        await self.pause(dice.choice((0.0, 0.3, 3.0)))
                if not lives():
                    return
                await as_deferred(self.kept.step_end(jid, number, {"result": dice.random() > 0.03}))
            except SaltwistedError as error:
                self.world.tell(f"{self.name} ends the process of {jid}: {error}")
                outcome = {"success": False, "why": str(error)}
                break
            if not lives():
                return
        if lives():
            self.workers.pop(jid, None)
            try:
                await self.kept.run_end(jid, outcome)
            except SaltwistedError:
                return

    async def _parts(
        self, jid: str, number: int, low: Mapping[str, Any], told: Mapping[str, Any], lives: Any
    ) -> bool:
        """A step that goes out in parts; whether this process still lives at its end."""
        dice, parts = self.world.dice, told["parts"]
        turns = [] if parts is None else parts["turns"]
        if parts is None:
            minions = dice.sample(MINIONS, 4)
            turns = [minions[:2], minions[2:]]
            await as_deferred(self.kept.step_parts(jid, number, turns, {}))
        for part, minions in enumerate(turns):
            if not lives() or not self.kept.holds(jid):
                return False
            goes_out = await as_deferred(self.kept.step_part(jid, number, part))
            if dice.random() < 0.05 and not self.world.is_well and lives():
                self.freeze()
            await self.pause(dice.choice((0.0, 0.0, 0.5)))
            if not lives() or not self.kept.holds(jid):
                return False
            if goes_out:
                self.whole.part(self, jid, (number, part), minions, told["jid"])
                await self.pause(dice.choice((0.0, 0.3, 3.0)))
            self.whole.part_ended(jid, (number, part), told["jid"])
        if not lives():
            return False
        self.whole.step(self, jid, number, low, told["jid"])
        return True

    def pause(self, seconds: float) -> Deferred[None]:
        """Of this life."""
        done: Deferred[None] = Deferred()
        SimClock(self).callLater(seconds, lambda: done.callback(None))
        return done

    def resume(self, jid: str) -> None:
        """An operator has looked."""
        world, life = self.world, self.life

        def went_on(run: Any) -> None:
            if self.life == life:
                world.tell(f"{self.name}: {jid} goes on, attempt {run.attempt}")

        d = as_deferred(self.kept.go_on(jid, "", "root"))
        d.addCallbacks(went_on, lambda failure: failure.trap(SaltwistedError) and None)  # type: ignore[unused-awaitable]
        d.addErrback(world.failed)  # type: ignore[unused-awaitable]


class OrchWorld(World):
    """
    What a seed makes of it.

    @ivar runs: those of which somebody was told that they began.
    @ivar jobs: what was published under a jid: when, by whom, to whom (of a batch).
    @ivar went_out: the parts of a batch in the order in which they went out, by its jid.
    @ivar ended: the parts that have ended.
    @ivar given: when a jid was given.
    @ivar read: run and attempt to the generation that it reads.
    @ivar effects: run and step to what was done: attempt, jid.
    @ivar parted: the same of parts that went out.
    """

    def __init__(self, seed: int) -> None:
        self.runs: set[str] = set()
        self.chunks: dict[str, list[dict[str, Any]]] = {}
        self.jobs: dict[str, list[tuple[float, str, Sequence[str]]]] = {}
        self.went_out: dict[str, list[tuple[int, Sequence[str]]]] = {}
        self.ended: dict[str, set[int]] = {}
        self.given: dict[str, float] = {}
        self.read: dict[tuple[str, int], str] = {}
        self.effects: dict[tuple[str, int], list[tuple[int, str]]] = {}
        self.parted: dict[tuple[str, int], list[tuple[int, str]]] = {}
        self.numbers = 0
        super().__init__(seed)

    def make(self, name: str, knows: Iterable[str]) -> SimNode:
        """A node, with nothing on its disk."""
        rate = 1.0 + self.dice.choice((0.0, 0.0, 0.01, -0.01))
        node = self.nodes[name] = OrchNode(self, name, rate)
        node.knows = set(knows)
        return node

    def told(self, failure: Any) -> None:
        """A broken promise ends the play by itself; anything else is one."""
        if not failure.check(Broken):
            self.failed(failure)

    @property
    def generation(self) -> str:
        """What is served now: somebody pushes every few seconds."""
        return f"pushed at {int(self.clock.seconds() // 5)}"

    @property
    def reads(self) -> dict[str, Any]:
        """As a run has it written down."""
        return {"generation": self.generation, "trees": {"gitfs": self.generation.encode().hex()}}

    def new_jid(self) -> str:
        """No two are the same."""
        self.numbers += 1
        jid = jid_at(1_700_000_000 + int(self.clock.seconds()) + self.numbers / 1e6)
        self.given[jid] = self.clock.seconds()
        return jid

    def event(self) -> None:
        """Besides those of the world of claims: an orchestration, or the resumption of one."""
        World.event(self)
        node = self.dice.choice(list(self.nodes.values()))
        assert isinstance(node, OrchNode)
        if not node.alive or node.frozen:
            return
        if self.runs and self.dice.random() < 0.3:
            chosen = self.dice.choice(sorted(self.runs))
            if not self.is_doubtful(chosen):
                # Else who looks may see less than was done
                node.resume(chosen)
            return
        self.begin(node, self.dice.choice((1, 3, 6)))

    def begin(self, node: OrchNode, steps: int) -> None:
        """An orchestration, on a node."""
        jid = self.new_jid()
        chunks = self.chunks[jid] = [self.low(number) for number in range(steps)]
        node.orchestrate(jid, chunks)

    def low(self, number: int) -> dict[str, Any]:
        """One chunk."""
        kind = self.dice.choice(KINDS)
        low: dict[str, Any] = {
            "state": "salt",
            "fun": kind,
            "__id__": f"s{number}",
            "name": f"s{number}",
        }
        if kind == "again":
            low.update(fun="runner", retry_on_takeover=True)
        elif kind == "batch":
            low.update(fun="state", batch=2)
        return low

    # What is done

    def step(self, node: OrchNode, jid: str, number: int, low: Mapping[str, Any], job: str) -> None:
        """A step has an effect."""
        run = node.kept.run(jid)
        assert run is not None
        attempt = run.attempt
        self.tell(f"{node.name} does {jid} {number} {low['fun']} under {job}, attempt {attempt}")
        self.counts["steps"] += 1
        before = self.effects.setdefault((jid, number), [])
        for earlier in range(number):
            if not run.steps[earlier].is_over or not self.effects.get((jid, earlier)):
                self.broken(f"{jid}: step {number} is done, and {earlier} was not")
        if low["fun"] in ("state", "function"):
            again = [each for each in before if each[0] == attempt and each[1] != job]
            self.jobs.setdefault(job, []).append((self.clock.seconds(), node.name, ()))
        else:
            again = [each for each in before if each[0] == attempt]
            if low.get("retry_on_takeover"):
                again = []
        if again:
            self.broken(f"{jid}: step {number} is done as {job} after {before}")
        before.append((attempt, job))

    def part(
        self, node: OrchNode, jid: str, at: tuple[int, int], minions: Sequence[str], job: str
    ) -> None:
        """A part of a step goes out."""
        number, part = at
        run = node.kept.run(jid)
        assert run is not None
        self.tell(f"{node.name} does {jid} {number}.{part} under {job} for {minions}")
        self.counts["parts"] += 1
        for earlier in range(number):
            if not run.steps[earlier].is_over:
                self.broken(f"{jid}: part {at} goes out, and step {earlier} is not over")
        if set(range(part)) - self.ended.get(job, set()):
            self.broken(f"{jid}: part {at} goes out before those ahead of it have ended")
        told = self.went_out.setdefault(job, [])
        for other, names in told:
            if (other == part) != (set(names) == set(minions)) or other > part:
                self.broken(f"{jid}: part {at} goes out to {minions} after {told}")
        others = [each for each in self.effects.get((jid, number), ()) if each[0] == run.attempt]
        others += [each for each in self.parted.get((jid, number), ()) if each[0] == run.attempt]
        if any(each[1] != job for each in others):
            self.broken(f"{jid}: part {at} goes out as {job} after {others}")
        told.append((part, minions))
        self.parted.setdefault((jid, number), []).append((run.attempt, job))
        self.jobs.setdefault(job, []).append((self.clock.seconds(), node.name, minions))

    def part_ended(self, jid: str, at: tuple[int, int], job: str) -> None:
        """All minions of a part have returned: what never went out is waited for in vain."""
        part = at[1]
        if part not in [each[0] for each in self.went_out.get(job, ())]:
            self.broken(f"{jid}: part {at} is waited for, and did not go out")
        self.ended.setdefault(job, set()).add(part)

    def check(self) -> None:
        """Nothing is left half done."""
        World.check(self)
        nodes = [n for n in self.nodes.values() if n.alive and n.name not in n.gone]
        for jid in sorted(self.runs):
            doubtful = self.is_doubtful(jid)
            told = [self.shown(node, jid) for node in nodes]
            if doubtful and not any(told):
                self.counts["forgotten"] += 1
                continue
            known = [run for run in told if run is not None]
            if len(known) < len(nodes):
                self.broken(f"{jid} is known to {len(known)} of {len(nodes)}")
            for run in known:
                self.check_run(run, doubtful)
            if len({(run.state, tuple(s.state for s in run.steps)) for run in known}) > 1:
                self.broken(f"{jid}: the nodes say {[r.shown(results=False) for r in known]}")
            self.counts[known[0].state.value] += 1

    def is_doubtful(self, jid: str) -> bool:
        """Whether members that were removed may have had lines that nobody else has."""
        disks = [node.lines for node in self.nodes.values() if isinstance(node, OrchNode)]
        seats = [seats_of(table.lines_of(disk, jid))[0] for disk in disks]
        return any(each is not None and each.may_forget(self.removed) for each in seats)

    def shown(self, node: Any, jid: str) -> Run | None:
        """What a node says of a run; C{None}: it knows nothing."""
        found: list[Run] = []
        d = as_deferred(node.kept.show(jid))
        d.addCallbacks(found.append, lambda failure: failure.trap(DeniedError) and None)  # type: ignore[unused-awaitable]
        d.addErrback(self.failed)  # type: ignore[unused-awaitable]
        self.advance(6.0)
        return found[0] if found else None

    def check_run(self, run: Run, doubtful: bool) -> None:
        """It has ended as it says."""
        jid = run.jid
        shown = run.shown(results=False)
        if run.state is RunState.RUNNING:
            self.broken(f"{jid} has not ended: {shown}")
        for step in run.steps:
            done = bool(self.effects.get((jid, step.number)))
            if step.is_over and not done:
                self.broken(f"{jid}: step {step.number} is done, and was not: {shown}")
            if step.state is StepState.WAITING and done and run.attempt == 1 and not doubtful:
                self.broken(f"{jid}: step {step.number} waits, and was done: {shown}")
        if run.state is RunState.DONE:
            if any(step.state is not StepState.DONE for step in run.steps):
                self.broken(f"{jid} is done: {shown}")
        elif run.state is RunState.FAILED:
            if StepState.FAILED not in {step.state for step in run.steps}:
                self.broken(f"{jid} has failed, and no step has: {shown}")
        elif run.state is not RunState.INTERRUPTED:
            self.broken(f"{jid} did not fail, and is {run.state.value}: {shown}")
        elif [s for s in run.steps if s.state is StepState.INTERRUPTED] != [
            s for s in run.steps if not s.is_over
        ][:1]:
            self.broken(f"{jid} is not interrupted at the first step that is not done: {shown}")


class Moving(OrchWorld):
    """
    Of three one is away while things are done; two join, and then only these and the one
    that was away are left. All the trouble of the others follows.
    """

    grows = 0.0
    sizes = (3,)
    apart: tuple[float, ...] = (5.0, 25.0, 25.0)
    growing: tuple[float, ...] = (20.0, 110.0, 170.0, 170.0)

    def run(self) -> None:
        """All of it."""
        self.move()
        OrchWorld.run(self)

    def move(self) -> None:
        """What has gone before."""
        away = self.dice.choice(sorted(self.nodes))
        others = [node for node in self.nodes.values() if node.name != away]
        self.pass_by(8.0)
        for node in others:
            assert isinstance(node, OrchNode)
            self.begin(node, 6)
        self.pass_by(self.dice.uniform(0.0, 3.0))
        for node in others:
            self.cuts.add(frozenset((node.name, away)))
            self.cut(node, self.nodes[away])
        # Some have ended when all is healed, and some have not
        self.pass_by(self.dice.choice(self.apart))
        self.heal()
        for name in "de":
            self.alone(name, self.dice.uniform(0.0, 5.0))
        self.pass_by(self.dice.choice(self.growing))
        for node in others:
            node.kill()
        self.pass_by(self.dice.choice((10.0, 25.0)))

    def pass_by(self, seconds: float) -> None:
        """Who can meet does."""
        for _ in range(int(seconds)):
            self.advance(1.0)
            self.meet()
        self.advance(seconds % 1.0)


class Missed(Moving):
    """All runs have ended behind the cut, and the newcomers vote, when the others are killed."""

    apart = (25.0,)
    growing = (170.0,)


if __name__ == "__main__":
    made = Moving if "--moving" in sys.argv else OrchWorld
    sys.argv = [word for word in sys.argv if word != "--moving"]
    sys.exit(play("tests.sim.orchestrations", made, Broken, lambda world: world.counts))
