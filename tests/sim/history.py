"""
What L{tests.sim.jobs} plays, and what can take history away: clocks, damaged rows, a lost file.

Nodes prune what is older than a day, though no play lasts as long: nothing may ever be pruned. One
node's clock jumps by days, for some seconds or for good. At one node rows vanish, or hold flipped
bits, or the whole job cache is damaged while it runs, and another begun, or an earlier copy of it
takes its place. What must hold besides what holds there:

 - All that was acknowledged with two copies is everywhere in the end, and so is all that was
   acknowledged with one copy at another node than the damaged one.
 - What a node said of its trouble is over then (L{HistoryWorld.check}).

C{python -m tests.sim.history --seeds 1000 [--first N]} plays many; exit status 1 when one broke.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable
from random import Random
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred

from saltwisted.cluster.jobs.care import JobCare
from saltwisted.cluster.links.clocks import Clocks
from saltwisted.stores.jobs.book import Book
from tests.sim.cluster import Broken, SimNode
from tests.sim.jobs import JobNode, JobWorld, SimFile, SimJobs, SimReader
from tests.sim.play import play

KEEP = 86400.0


class Threads:
    """The reactor as the store sees it: its thread is ours."""

    def __init__(self, clock: Any) -> None:
        self.callLater = clock.callLater
        self.seconds = clock.seconds

    def callFromThread(self, work: Callable[..., Any], *args: Any) -> None:
        """Now."""
        work(*args)


class FragileFile(SimFile):
    """A file that can be damaged: what is in its place then is empty."""

    is_lost = False

    def open(self) -> sqlite3.Connection:
        """Another one, after the first."""
        if self.is_lost:
            self.disk().lose()
        self.is_lost = True
        return super().open()

    def read_facts(self, db: sqlite3.Connection, book: Book) -> None:
        """With what is owed written at once."""
        super().read_facts(db, book)
        db.execute("UPDATE facts SET value = ? WHERE name = 'owed'", (int(self.owed),))

    def close(self) -> None:
        """The disk lives on in memory."""
        self.db = None


class DirectReader(SimReader):
    """There is nothing between it and the file."""

    def read_anew(self, query: Callable[[sqlite3.Connection], Any]) -> Deferred[Any]:
        return self.read(query)


class FragileJobs(SimJobs):
    """A job cache whose file can be damaged."""

    file_kind, reader_kind = FragileFile, DirectReader

    def __init__(self, world: JobWorld, node: JobNode) -> None:
        super().__init__(world, node)
        self.writer._reactor = Threads(world.clock)
        self.keep_seconds = KEEP


class QuickCare(JobCare):
    """Does not let them wait for hours."""

    round_every, look_every, pass_every = 15.0, 0.5, 10.0


@define(eq=False)
class HistoryNode(JobNode):
    """A master that prunes."""

    clocks: Clocks = field(init=False)
    care: QuickCare = field(init=False)
    keeping: Any = None

    def make_jobs(self) -> SimJobs:
        """Its job cache."""
        assert isinstance(self.world, JobWorld)
        return FragileJobs(self.world, self)

    def start(self) -> None:
        """A new life."""
        super().start()
        world = self.world
        clock = world.clock
        self.clocks = Clocks(
            clock,
            self.name,
            self.peers,
            lambda: world.others(self),
            self.now,
            clock.seconds,
        )
        self.care = QuickCare(
            clock,
            self.jobs,
            self.peers,
            lambda: world.others(self),
            self.jobs_shipping.machine.peers.has_all_of,
            Random(world.dice.random()),
        )
        self.jobs.health.on_anew += [self.acknowledging.begun_anew, self.jobs_shipping.begun_anew]
        self.clocks.startService()
        self.care.startService()
        self.keeping = clock.callLater(3.0, self.keep)

    def keep(self) -> None:
        """What maintenance does by the clock."""
        if self.alive and not self.frozen:
            self.jobs.prune(self.clocks.time).addErrback(lambda failure: None)
        self.keeping = self.world.clock.callLater(3.0, self.keep)

    def kill(self) -> None:
        """End its process now."""
        if self.alive:
            super().kill()
            self.clocks.stopService()
            self.care.stopService()
            self.keeping.cancel()


class HistoryWorld(JobWorld):
    """A cluster that keeps its history."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.luck = Random(f"history {seed}")
        self.copies = Random(f"copies {seed}")
        self.nodes = [HistoryNode(self, node.name) for node in self.nodes]
        for minion in self.fleet:
            node = self.dice.choice(self.nodes)
            assert isinstance(node, JobNode)
            minion.at = node
        # One node's disk errs; if another's were lost with it, two copies would be none
        self.lost_disks = 1
        victim = self.luck.choice(self.nodes)
        assert isinstance(victim, HistoryNode)
        self.victim = victim
        self.damaged = 0
        self.lost_at = -1e9
        self.harmed: set[tuple[str, str]] = set()

    def run(self) -> None:
        """Play it."""
        for _ in range(self.luck.randint(1, 4)):
            self.clock.callLater(self.luck.uniform(5, 60), self.harm)
        if self.copies.random() < 0.5:
            self.clock.callLater(self.copies.uniform(5, 50), self._copy, self.victim)
        super().run()

    def harm(self) -> None:
        """Something takes history away."""
        if self.healed:
            return
        kind, node = self.luck.random(), self.luck.choice(self.nodes)
        if kind < 0.4:
            ahead = self.luck.choice((2, -2, 30)) * 86400.0
            self.tell(f"the clock of {node.name} is {ahead:+.0f} s off")
            node.offset = ahead
            self.clock.callLater(self.luck.choice((6.0, 40.0)), self._right, node)
        elif kind < 0.7:
            self._damage_rows(self.victim)
        elif self.victim.alive:
            self._lose_file(self.victim)

    def _right(self, node: SimNode) -> None:
        node.offset = 0.0

    def _damage_rows(self, node: HistoryNode) -> None:
        db = node.jobs_disk.db
        keys = [key for key in self.safe if self._holds(node, *key) and self._elsewhere(node, key)]
        for jid, minion_id in self.luck.sample(keys, min(len(keys), 9)):
            self.damaged += 1
            self.harmed.add((jid, minion_id))
            if self.luck.random() < 0.5:
                db.execute("DELETE FROM returns WHERE jid = ? AND id = ?", (jid, minion_id))
            else:
                db.execute(
                    "UPDATE returns SET load = X'C0' WHERE jid = ? AND id = ?", (jid, minion_id)
                )
        self.tell(f"rows of {node.name} are damaged")

    def acknowledged(self, node: JobNode, minion_id: str, jid: str, copies: int) -> None:
        """A minion may be told again while a row of it is damaged, or a file has just gone."""
        if self.clock.seconds() - self.lost_at < 25.0:
            # What the victim had confirmed a moment ago is on one disk, until it is sent again
            self.safe.setdefault((jid, minion_id), 1)
        elif (jid, minion_id) not in self.harmed:
            super().acknowledged(node, minion_id, jid, copies)

    def _elsewhere(self, node: JobNode, key: tuple[str, str]) -> bool:
        return any(self._holds(other, *key) for other in self.nodes if other is not node)

    def _lose_file(self, node: HistoryNode) -> None:
        self.tell(f"the job cache of {node.name} is damaged")
        self.damaged += 1
        node.jobs.health.begin_anew("a test").addCallbacks(
            lambda _: self._lost(node), lambda failure: None
        )
        for key in [key for key in self.safe if not self._elsewhere(node, key)]:
            if self.safe[key] >= 2:
                self.broken(f"{key}: acknowledged with two copies, and only at {node.name}")
            del self.safe[key]

    def _copy(self, node: HistoryNode) -> None:
        self.tell(f"a copy of the job cache of {node.name} is made")
        node.jobs_disk.remember()
        self.clock.callLater(self.copies.uniform(2, 15), self._go_back, node)

    def _go_back(self, node: HistoryNode) -> None:
        """Its job cache is as it was some seconds ago; mostly its inode does not say so."""
        if self.healed:
            return
        self.tell(f"the job cache of {node.name} is set back")
        self.damaged += 1
        self.kill(node)
        held = [key for key in self.safe if self._holds(node, *key)]
        node.jobs_disk.set_back(node.jobs_disk.days.pop(), self.copies.random() < 0.3)
        for key in held:
            if not self._elsewhere(node, key) and not self._holds(node, *key):
                if self.safe[key] >= 2:
                    self.broken(f"{key}: acknowledged with two copies, and only at {node.name}")
                del self.safe[key]
        self.lost_at = self.clock.seconds()
        self.clock.callLater(self.copies.choice((0.01, 5.0)), self.start, node)

    def _lost(self, node: HistoryNode) -> None:
        self.tell(f"{node.name} has begun another one")
        self.lost_at = self.clock.seconds()
        for key in [key for key in self.safe if not self._elsewhere(node, key)]:
            if self.safe[key] < 2 and not self._holds(node, *key):
                del self.safe[key]

    def heal(self) -> None:
        """The clocks, too."""
        for node in self.nodes:
            node.offset = node.drift = 0.0
        super().heal()

    def settle(self) -> None:
        """Whoever lacks something has to ask all others, and to look at all rows."""
        self.play(120.0)

    def check(self) -> None:
        """And nobody has trouble."""
        super().check()
        for node in self.nodes:
            assert isinstance(node, HistoryNode)
            if node.jobs.health.trouble:
                self.broken(f"{node.name} still says: {node.jobs.health.trouble}")
            if (
                node.jobs.file.pruned > 0
                and node.jobs_disk.db.total_changes
                and node.jobs.counts.pruned
            ):
                self.broken(f"{node.name} has pruned")


def _counts(world: HistoryWorld) -> dict[str, int]:
    return {
        "jobs": len(world.jobs),
        "returns": len(world.safe),
        "damaged": world.damaged,
        "mended": sum(node.care.mended for node in world.nodes if isinstance(node, HistoryNode)),
    }


if __name__ == "__main__":
    sys.exit(play("tests.sim.history", HistoryWorld, Broken, _counts))
