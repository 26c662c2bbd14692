"""
Two to seven masters and fifty minions under jobs, from one seed: what is published, what is lost.

Real are the job cache as a log (SQLite in memory), its shipping, and what decides about jobs and
returns (C{cluster/jobs/forward.py}, C{presence.py} and their machines). Played are the minions, the
publish ports, and all that L{tests.sim.cluster} plays: network, disks, clocks, kills.

What must hold, and where it is looked at:

 - No minion runs a job twice, also when it was restarted and remembers nothing, and none runs one
   after its window (L{Minion.hear}).
 - Jids are unique (L{JobWorld.given}).
 - What is acknowledged with two copies is on two disks at that moment (L{JobWorld.acknowledged}),
   and survives the loss of one node for good (L{JobWorld.lose_disk}).
 - Every return that was acknowledged is on every node in the end, unless its disk was lost while
   it had one copy; and all nodes print the same (L{JobWorld.check}).

C{python -m tests.sim.jobs --seeds 10000 [--first N]} plays many; exit status 1 when one broke.
"""

from __future__ import annotations

import math
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, fail, succeed
from twisted.python.failure import Failure

from saltwisted.cluster.jobs.acknowledging import Acknowledging
from saltwisted.cluster.jobs.forward import Forward
from saltwisted.cluster.jobs.presence import ClusterPresence
from saltwisted.cluster.links.shipping import Shipping
from saltwisted.domain.jid import JidMaker, jid_mark
from saltwisted.domain.replica.delivery import Acknowledge
from saltwisted.errors import StoreError
from saltwisted.stores.jobs.book import read_book
from saltwisted.stores.jobs.claims import Claims
from saltwisted.stores.jobs.delivery import Delivery
from saltwisted.stores.jobs.file import JobFile
from saltwisted.stores.jobs.reader import JobReader
from saltwisted.stores.jobs.store import JobStore
from saltwisted.stores.jobs.table import MIGRATIONS
from saltwisted.stores.jobs.writer import JobWriter
from saltwisted.stores.jobs.writes import Write
from saltwisted.transports.bus import EventBus
from tests.sim.cluster import (
    Broken,
    SimDisk,
    SimNode,
    World,
)
from tests.sim.play import play

WINDOW = 30.0
SLACK = 6.0
"""Seconds by which a job may be late: a clock has just jumped by three seconds, a wire is slow."""
RECENT = 15.0
"""Seconds for which a node takes a minion for present that it heard of, connected or not."""


class SimFile(JobFile):
    """The file, on a simulated disk."""

    disk: Callable[[], SimDisk]

    def open(self) -> sqlite3.Connection:
        """Read what is on the disk."""
        db = self.disk().db
        if db.execute("PRAGMA user_version").fetchone()[0] == 0:
            for number, text in enumerate(MIGRATIONS):
                db.executescript(f"BEGIN; {text} PRAGMA user_version={number + 1}; COMMIT;")
        self.read_facts(db, read_book(db, self.node, self.disk().inode))
        return db


class SimWriter(JobWriter):
    """The writer, with a simulated moment at which a write has reached the disk."""

    world: JobWorld
    owner: JobNode
    delivery: Delivery
    committing: Sequence[Write] = ()

    def start(self) -> None:
        self.is_running = True

    def enqueue(self, write: Write) -> Deferred[Any]:
        if not self.is_running:
            return fail(StoreError("closed"))
        self._queue.append(write)
        if not self.committing:
            self._begin()
        return write.done

    def _begin(self) -> None:
        self.committing = self.next_batch()
        delay = self.world.dice.choice((0.001, 0.004, 0.02, self.owner.slowness))
        self.world.clock.callLater(delay, self._synced)

    def _synced(self) -> None:
        if not self.is_running:
            return
        if self.owner.frozen:
            self.world.clock.callLater(0.5, self._synced)
            return
        batch, self.committing = list(self.committing), ()
        try:
            self.commit(batch)
        except StoreError as error:
            for write in batch:
                write.result, write.number = Failure(error), 0
        if self._queue:
            self._begin()
        self.delivery.tell(batch)
        for write in batch:
            if self.is_running and not write.done.called:
                write.done.callback(write.result)

    def kill(self) -> None:
        """What was being written may be on the disk, the rest is not."""
        if self.committing and self.world.dice.random() < 0.5:
            self.commit(list(self.committing))
        self.is_running = False


class SimReader(JobReader):
    """The reader, whose answers take a moment."""

    world: JobWorld

    def start(self) -> None:
        self.is_running = True

    def read(self, query: Callable[[sqlite3.Connection], Any]) -> Deferred[Any]:
        if not self.is_running:
            return fail(StoreError("closed"))
        assert self._file.db is not None
        d: Deferred[Any] = Deferred()
        later = self.world.dice.uniform(0, 0.01)
        self.world.clock.callLater(later, d.callback, query(self._file.db))
        return d


class SimJobs(JobStore):
    """The job cache, on a simulated disk."""

    writer: SimWriter
    file_kind, reader_kind = SimFile, SimReader

    def __init__(self, world: JobWorld, node: JobNode) -> None:
        self._world = world
        self._owner = node
        super().__init__(world.clock, f"/{node.name}", node.now, 0, node=node.name)
        self.replica.told.collecting = 0.005

    def _make_file(self, node: str, claims: Claims) -> JobFile:
        file = self.file_kind(self.path, node, self._now, claims, self.counts, self.known.forget)
        file.disk = lambda: self._owner.jobs_disk
        return file

    def _make_writer(self, delivery: Delivery) -> SimWriter:
        # As long as a turn takes here, all goes by the seed
        delivery.portion = math.inf
        writer = SimWriter(
            self._reactor,
            self.file,
            self.replica.streams,
            self.counts,
            lambda: self.keep_seconds,
            delivery.written,
            self.health.opened_anew,
        )
        writer.world, writer.owner, writer.delivery = self._world, self._owner, delivery
        return writer

    def _make_reader(self) -> JobReader:
        reader = self.reader_kind(
            self._reactor, self.file, self.health.met_damage, self.health.met_bad
        )
        reader.world = self._world
        return reader

    def startService(self) -> None:
        """Read what is on the disk."""
        self.file.db = self.file.open()
        self.replica.load(self.file.book)
        for receiver in self.on_open:
            receiver()
        self.reader.start()
        self.writer.start()

    def stopService(self) -> Deferred[None]:
        self.reader.is_running = self.writer.is_running = False
        return succeed(None)

    def kill(self) -> None:
        """What was being written may be on the disk, the rest is not."""
        self.writer.kill()
        self.reader.is_running = False


class SimAcknowledging(Acknowledging):
    """Remembers with how many copies each return was acknowledged."""

    copies: dict[tuple[str, str], int]

    def _acknowledge(self, effects: Sequence[Acknowledge]) -> None:
        for effect in effects:
            self.copies[effect.jid, effect.minion_id] = effect.copies
        super()._acknowledge(effects)


@define(eq=False)
class JobNode(SimNode):
    """
    A master.

    @ivar seen: minion to the moment at which this node last heard of it.
    """

    jobs_disk: SimDisk = field(factory=SimDisk)
    jobs: SimJobs = field(init=False)
    jobs_shipping: Shipping = field(init=False)
    where: ClusterPresence = field(init=False)
    acknowledging: SimAcknowledging = field(init=False)
    forward: Forward = field(init=False)
    jids: JidMaker = field(init=False)
    seen: dict[str, float] = field(factory=dict)
    counters: Counter[str] = field(factory=Counter)

    def start(self) -> None:
        """A new life."""
        SimNode.start(self)
        world = self.world
        assert isinstance(world, JobWorld)
        clock = world.clock
        self.seen.clear()
        self.jobs = self.make_jobs()
        self.jids = JidMaker(slot=world.nodes.index(self))
        self.jobs.on_open.append(
            lambda: self.jids.resume(jid_mark(self.jobs.newest_jid(self.jids.slot)))
        )
        self.jobs.startService()
        self.jobs_shipping = Shipping(
            self.name, self.jobs.replica, self.peers, clock, Random(world.dice.random())
        )
        met = self.jobs_shipping.machine.greeted
        self.jobs.replica.all_told = lambda: met.issuperset(world.others(self))
        self.where = ClusterPresence(
            clock, self.now, self.name, self.peers, lambda: world.minion_ids, self.here
        )
        self.acknowledging = SimAcknowledging(
            clock, self.name, self.jobs, lambda: len(self.peers.links()), self.counters
        )
        self.acknowledging.copies = {}
        self.forward = Forward(
            clock=clock,
            node=self.name,
            bus=EventBus(self.now),
            peers=self.peers,
            jobs=self.jobs,
            holders=self.where,
            returns=self.acknowledging,
            publish=self.publish,
            counters=self.counters,
            window=WINDOW,
        )
        # As long as a turn takes here, all goes by the seed
        self.forward.rows.portion = math.inf
        self.where.arrived = self.forward.arrived
        self.jobs_shipping.startService()
        self.where.startService()
        self.forward.startService()

    def make_jobs(self) -> SimJobs:
        """Its job cache."""
        assert isinstance(self.world, JobWorld)
        return SimJobs(self.world, self)

    def kill(self) -> None:
        """End its process now."""
        if self.alive:
            SimNode.kill(self)
            self.jobs.kill()
            self.jobs_shipping.stopService()
            self.where.stopService()
            self.forward.stopService()

    def here(self, ids: Any) -> set[str]:
        """
        Who was heard of lately; and of whom it has ever heard in this life, so that it knows his
        address, as long as his connection lasts: also when the node itself was stopped meanwhile.
        """
        world = self.world
        assert isinstance(world, JobWorld)
        horizon = world.clock.seconds() - RECENT
        connected = {minion.id for minion in world.fleet if minion.at is self and minion.listens}
        return {
            minion_id
            for minion_id, seen in self.seen.items()
            if minion_id in ids and (seen >= horizon or minion_id in connected)
        }

    def publish(self, job: Mapping[str, Any], minions: Sequence[str] | None) -> None:
        """Send to whoever listens here."""
        assert isinstance(self.world, JobWorld)
        if self.alive:
            self.world.published(self, job)

    async def command(self) -> str:
        """Somebody gives a job to all minions."""
        world = self.world
        assert isinstance(world, JobWorld)
        jid = self.jids.make(self.now())
        job = {"fun": "test.ping", "arg": [], "tgt": "*", "jid": jid, "user": self.name}
        # From when it is in the log another node may publish it, also if this one dies
        world.given(jid)
        await self.jobs.save_job(jid, job, world.minion_ids)
        if self.alive:
            self.publish(job, None)
            self.forward.job_published(job, world.minion_ids)
        return jid

    async def take(self, minion_id: str, jid: str) -> int:
        """A minion returns; how many copies were acknowledged."""
        self.hear(minion_id)
        load = {"id": minion_id, "jid": jid, "fun": "test.ping", "return": True, "retcode": 0}
        new = await self.jobs.save_return(load)
        waiting = self.acknowledging.return_stored(jid, minion_id)
        if waiting is not None:
            await waiting
        return self.acknowledging.copies.get((jid, minion_id), int(new))

    def hear(self, minion_id: str, signs_in: bool = False) -> None:
        """A request of a minion."""
        signs_in = signs_in or minion_id not in self.seen
        self.seen[minion_id] = self.world.clock.seconds()
        if signs_in:
            self.where.came(minion_id)


@define(eq=False)
class Minion:
    """
    A minion as stock ones are: it remembers jids in memory, and repeats what is not acknowledged.

    @ivar at: the node that it is connected to.
    @ivar ran: every job that it ever ran, with the moment.
    @ivar jids: what it remembers.
    """

    world: JobWorld
    id: str
    at: JobNode
    listens: bool = True
    ran: dict[str, float] = field(factory=dict)
    jids: set[str] = field(factory=set)

    def hear(self, jid: str) -> None:
        """A publication."""
        if jid in self.jids:
            return
        self.jids.add(jid)
        world = self.world
        if jid in self.ran:
            world.broken(f"{self.id} runs {jid} twice")
        self.ran[jid] = world.clock.seconds()
        late = world.clock.seconds() - world.jobs[jid]
        if late > WINDOW + SLACK:
            world.broken(f"{self.id} runs {jid} {late:.0f} s after it was given")
        world.clock.callLater(world.dice.choice((0.01, 0.5, 5.0)), self.send, jid)

    def send(self, jid: str) -> None:
        """Return it to the node that it is on now; try again until that is acknowledged."""
        world, node = self.world, self.at
        life = node.life

        def done(copies: Any) -> None:
            if isinstance(copies, int) and node.alive and node.life == life and not node.frozen:
                world.acknowledged(node, self.id, jid, copies)
            else:
                again()

        def again(_: Any = None) -> None:
            world.clock.callLater(world.dice.choice((1.0, 5.0)), self.send, jid)

        if not node.alive or node.frozen:
            again()
            return
        taken = Deferred.fromCoroutine(node.take(self.id, jid))
        # Without an answer, as when the node is killed, it tries again
        taken.addTimeout(20.0, world.clock).addBoth(done)

    def move(self, node: JobNode) -> None:
        """To another node."""
        self.listens = False
        self.at = node
        self.world.clock.callLater(self.world.dice.choice((0.1, 1.0, 8.0)), self.connect)

    def connect(self) -> None:
        """Sign in, and listen a moment later."""
        if self.at.alive and not self.at.frozen:
            self.at.hear(self.id, signs_in=True)
            self.world.clock.callLater(0.2, self.listen, self.at)
        else:
            self.world.clock.callLater(1.0, self.connect)

    def listen(self, node: JobNode) -> None:
        """The subscription is there."""
        if node is self.at:
            self.listens = True

    def restart(self) -> None:
        """It forgets, and comes back to the same node."""
        self.jids.clear()
        self.move(self.at)

    def speak(self) -> None:
        """Each few seconds, some request; and away from a node that is dead."""
        if not self.at.alive:
            alive = [node for node in self.world.nodes if node.alive]
            if alive and self.listens:
                node = self.world.dice.choice(alive)
                assert isinstance(node, JobNode)
                self.move(node)
        elif self.listens and not self.at.frozen:
            self.at.hear(self.id)
        self.world.clock.callLater(self.world.dice.uniform(3.0, 6.0), self.speak)


class JobWorld(World):
    """
    A cluster with jobs.

    @ivar jobs: jid to the moment at which it was given.
    @ivar safe: (jid, minion) of returns that were acknowledged, with the nodes that had them
        on disk then.
    """

    def __init__(
        self, seed: int, plan: Callable[[World], None] | None = None, size: int = 0
    ) -> None:
        super().__init__(seed, plan, size)
        self.wild = False
        self.nodes = [JobNode(self, node.name) for node in self.nodes]
        self.minion_ids = [f"web{number}" for number in range(50)]
        self.jobs: dict[str, float] = {}
        self.safe: dict[tuple[str, str], int] = {}
        self.lost_disks = 0
        first: Any = self.nodes
        self.fleet = [Minion(self, name, self.dice.choice(first)) for name in self.minion_ids]

    def deed(self) -> None:
        """A job for everybody."""
        awake = [node for node in self.nodes if node.alive and not node.frozen]
        if awake:
            node = self.dice.choice(awake)
            assert isinstance(node, JobNode)
            given = Deferred.fromCoroutine(node.command())
            given.addErrback(lambda failure: failure.trap(StoreError))  # type: ignore[unused-awaitable]

    def given(self, jid: str) -> None:
        """It leaves its node now."""
        if jid in self.jobs:
            self.broken(f"{jid} was given out twice")
        self.jobs[jid] = self.clock.seconds()
        self.tell(f"job {jid}")

    def published(self, node: JobNode, job: Mapping[str, Any]) -> None:
        """To the minions that listen at a node."""
        only = None if job["tgt"] == "*" else set(job["tgt"])
        for minion in self.fleet:
            if minion.at is node and minion.listens and (only is None or minion.id in only):
                self.clock.callLater(
                    self.dice.choice((0.001, 0.01, 0.2)), minion.hear, str(job["jid"])
                )

    def acknowledged(self, node: JobNode, minion_id: str, jid: str, copies: int) -> None:
        """A minion was told that its return is kept."""
        holding = [n for n in self.nodes if self._holds(n, jid, minion_id)]
        if not holding:
            self.broken(f"{node.name} acknowledged {minion_id} {jid}, which no disk holds")
        if copies >= 2 and len(holding) < 2:
            self.broken(f"{minion_id} {jid}: acknowledged with two copies, there is one")
        self.safe[jid, minion_id] = max(copies, self.safe.get((jid, minion_id), 0))

    def _holds(self, node: Any, jid: str, minion_id: str) -> bool:
        query = "SELECT 1 FROM returns WHERE jid = ? AND id = ?"
        try:
            return node.jobs_disk.db.execute(query, (jid, minion_id)).fetchone() is not None
        except sqlite3.Error:
            return False

    def mishap(self) -> None:
        """What happens to minions, too; and once, a disk is lost for good."""
        kind = self.dice.random()
        if kind < 0.2:
            for minion in self.dice.sample(self.fleet, 10):
                node = self.dice.choice(self.nodes)
                assert isinstance(node, JobNode)
                minion.move(node)
        elif kind < 0.35:
            for minion in self.dice.sample(self.fleet, 10):
                minion.restart()
        elif kind < 0.4 and not self.lost_disks:
            self.lose_disk()
        else:
            super().mishap()

    def lose_disk(self) -> None:
        """One node is lost with its disk; it comes back as new."""
        node = self.dice.choice(self.nodes)
        assert isinstance(node, JobNode)
        self.tell(f"{node.name} is lost with its disk")
        self.lost_disks += 1
        self.kill(node)
        held = [key for key, copies in self.safe.items() if self._holds(node, *key)]
        others = [other for other in self.nodes if other is not node]
        node.jobs_disk.lose()
        for key in held:
            if not any(self._holds(other, *key) for other in others):
                if self.safe[key] >= 2:
                    self.broken(f"{key}: acknowledged with two copies, lost with {node.name}")
                del self.safe[key]
        self._forget_alone(node)
        node.disk.lose()
        self.clock.callLater(self.dice.choice((0.01, 5.0)), self.start, node)

    def _set_back(self, node: SimNode) -> None:
        """Facts alone are set back in the other simulation."""

    def run(self) -> None:
        """Play it."""
        for minion in self.fleet:
            self.clock.callLater(self.dice.uniform(0, 3), minion.speak)
        super().run()

    def check(self) -> None:
        """Everything that was acknowledged is everywhere, and all print the same."""
        shown = []
        for node in self.nodes:
            assert isinstance(node, JobNode)
            db = node.jobs_disk.db
            jobs = db.execute("SELECT jid, started, rank, load, minions FROM jobs ORDER BY jid")
            rows = db.execute("SELECT jid, id, at, load FROM returns ORDER BY jid, id")
            shown.append((jobs.fetchall(), rows.fetchall()))
            knowledge = node.jobs.replica.knowledge()
            first: Any = self.nodes[0]
            if knowledge != first.jobs.replica.knowledge():
                self.broken(f"{node.name} knows other jobs than {first.name}")
            for jid, minion_id in self.safe:
                if not self._holds(node, jid, minion_id):
                    self.broken(f"{node.name} lacks the return {jid} of {minion_id}")
        for node, each in zip(self.nodes, shown, strict=True):
            if each != shown[0]:
                self.broken(f"{node.name} prints other jobs than {self.nodes[0].name}")


class HealingWorld(JobWorld):
    """
    A node is cut off for some seconds, and a job is given in the second in which that ends.

    Nothing else goes wrong, and nobody leaves his node; but minions sign in again there at about
    the same time, since its gate was closed, or their key was new.

    @ivar late: minion to what he missed though it was time.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed, self._cut_and_heal, Random(seed).randint(2, 4))

    def _cut_and_heal(self, world: World) -> None:
        dice, clock = self.dice, self.clock
        victim = dice.choice(self.nodes)
        pairs = [frozenset((victim.name, o.name)) for o in self.nodes if o is not victim]
        begins = 25.0 + dice.uniform(0, 5)
        ends = begins + dice.choice((0.3, 1.5, 4.0, 12.0, 20.0))
        clock.callLater(begins, self.cuts.update, pairs)
        clock.callLater(begins, self.tell, f"{victim.name} is cut off")
        for pair in pairs:
            # A cut ends for all at once, or for one after another
            clock.callLater(ends + dice.choice((0.0, 0.0, 0.4, 2.0)), self.cuts.discard, pair)
        clock.callLater(ends, self.tell, f"the cut of {victim.name} heals")
        for _ in range(3):
            giver = dice.choice(self.nodes)
            assert isinstance(giver, JobNode)
            clock.callLater(ends + dice.uniform(-1.0, 1.5), self._give, giver)
        for minion in self.fleet:
            if minion.at is victim and dice.random() < 0.5:
                clock.callLater(ends + dice.uniform(-1.0, 1.5), victim.hear, minion.id, True)

    def _give(self, node: JobNode) -> None:
        self.tell(f"{node.name} is given a job")
        given = Deferred.fromCoroutine(node.command())
        given.addErrback(lambda failure: failure.trap(StoreError))  # type: ignore[unused-awaitable]

    def check(self) -> None:
        """Everybody has run every job."""
        super().check()
        for jid in self.jobs:
            missing = [minion.id for minion in self.fleet if jid not in minion.ran]
            if missing:
                self.broken(f"{jid} never came to {', '.join(missing)}")


def _counts(world: JobWorld) -> dict[str, int]:
    return {"jobs": len(world.jobs), "returns": len(world.safe)}


if __name__ == "__main__":
    sys.exit(play("tests.sim.jobs", JobWorld, Broken, _counts))
