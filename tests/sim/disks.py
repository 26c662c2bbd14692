"""
What L{tests.sim.cluster} plays, and disks that take a write and do not come back.

While a disk stalls, its node goes on: it has links, answers, and adds to its log what operators
ask of it; nothing of that is written before the disk moves again, and it is lost when the node is
killed before. What must hold besides:

 - An operator is answered within L{PATIENCE} seconds, if the node runs (L{StallWorld.late}).
 - What was answered as done is on the disk of that node at this moment (L{StallWorld.answered}), so
   that a kill takes nothing back.
 - What was refused (C{not done}) is in no log.

C{python -m tests.sim.disks --seeds 10000 [--first N]} plays many; exit status 1 when one broke.
"""

from __future__ import annotations

import sys
from random import Random
from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from saltwisted.cluster.facts.ondisk import done_or_unknown
from saltwisted.domain.replica.keyset import KIND, finger_of
from saltwisted.errors import StoreError
from saltwisted.stores.facts import table
from saltwisted.stores.stall import PATIENCE as STALLED
from saltwisted.stores.stall import Stall
from tests.sim.cluster import BOUND, Broken, Deed, SimLink, SimLog, SimNode, World
from tests.sim.play import play

PATIENCE = STALLED + 3.0
LOOK = 0.5
"""Seconds after which a write that stands still looks whether its disk goes on."""


class StallLog(SimLog):
    """A log on a disk that may stall."""

    stalled = False
    moved = -BOUND - 1.0

    def _begin(self) -> None:
        self.stall.begins()
        super()._begin()

    def _synced(self) -> None:
        if self._thread is None:
            return
        if self.stalled:
            self.ends = self._world.clock.seconds() + 1e6
            self._world.clock.callLater(LOOK, self._synced)
            return
        self.stall.ends()
        super()._synced()


class StallWorld(World):
    """
    A cluster with such disks.

    @ivar answers: how many acts were answered as C{done}, C{unknown}, C{refused}.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.luck = Random(f"stalls {seed}")
        self.answers = {"done": 0, "unknown": 0, "refused": 0}
        self.never: set[str] = set()

    def make_log(self, node: SimNode) -> SimLog:
        """As it is, on another disk."""
        log = StallLog(self, node, self.make_folds(node))
        log.stall = Stall(self.clock.seconds)
        log.on_entries(lambda entries, source: self._told(node, entries, source))
        return log

    def run(self) -> None:
        """Play it."""
        for _ in range(self.luck.randint(1, 6)):
            self.clock.callLater(self.luck.uniform(0, 60), self.stall)
        super().run()

    def stall(self) -> None:
        """A disk stalls, for a while; perhaps the node is killed meanwhile."""
        node = self.luck.choice(self.nodes)
        log = node.log if node.alive else None
        if self.healed or not isinstance(log, StallLog):
            return
        seconds = self.luck.choice((1.0, 4.0, 9.0, 30.0))
        self.tell(f"the disk of {node.name} stalls for {seconds:.0f} s")
        log.stalled = True
        self.clock.callLater(seconds, self._moves, log)
        for _ in range(self.luck.randint(0, 4)):
            # There, of all places
            self.clock.callLater(self.luck.uniform(0, seconds), self._deed_at, node)
        if self.luck.random() < 0.4:
            self.clock.callLater(self.luck.uniform(0, seconds), self.kill, node)
            self.clock.callLater(seconds + 1.0, self.start, node)

    def _moves(self, log: StallLog) -> None:
        log.stalled = False
        log.ends = log.moved = self.clock.seconds()

    def _sound(self, link: SimLink) -> bool:
        """Nor is a link sound whose ends have not had the time to write what waited for a disk."""
        logs = [link.owner.log, link.other.owner.log]
        rested = [
            not log.stalled and log.moved + LOOK + BOUND < self.clock.seconds()
            for log in logs
            if isinstance(log, StallLog)
        ]
        return all(rested) and super()._sound(link)

    def heal(self) -> None:
        """The disks, too."""
        for node in self.nodes:
            if isinstance(node.log, StallLog):
                self._moves(node.log)
        super().heal()

    def _deed_at(self, node: SimNode) -> None:
        if node.alive and not node.frozen:
            minion_id, pub = self.luck.choice(self.minions), self.luck.choice(self.pubs)
            self.act(node, self.luck.choice(("accept", "delete", "reject")), minion_id, pub)

    def act(self, node: SimNode, act: str, minion_id: str, pub: bytes) -> str:
        """An operator does it, and waits for the answer."""
        name = f"d{len(self.deeds)}"
        finger = finger_of(pub)
        life = node.life
        self.deeds[name] = Deed(name, act, minion_id, finger, node.name, frozenset())

        def begin() -> Deferred[Any]:
            saw = self.applied(node)
            for seen in [self.deeds[each] for each in saw]:
                if (seen.minion_id, seen.finger) == (minion_id, finger):
                    saw |= seen.saw
            self.deeds[name] = Deed(name, act, minion_id, finger, node.name, frozenset(saw))
            self.tell(f"{node.name}: {name} {act} {minion_id} {pub.decode().strip()[-1]}")
            node.young.add(name)
            return node.log.append(KIND, node.keys.act(act, minion_id, pub, by=name))

        asked = done_or_unknown(self.clock, lambda: node.log.problem, begin)
        waiting = Deferred.fromCoroutine(asked)
        waiting.addCallbacks(
            lambda entry: self.answered(node, life, name, entry),
            lambda failure: self.not_done(name, failure),
        ).addErrback(lambda failure: failure.trap(Broken))
        self.clock.callLater(PATIENCE, self.late, node, life, name, waiting)
        return name

    def answered(self, node: SimNode, life: int, name: str, entry: Any) -> None:
        """The operator reads that it is done."""
        self.answers["done"] += 1
        if node.life != life or not node.alive:
            return
        known = {s: k for s, (k, _, _) in table.read_streams(node.disk.db).items()}
        if name not in self.durable or known.get(entry.stream, 0) < entry.number:
            self.broken(f"{node.name} says that {name} is done, which is not on its disk")

    def not_done(self, name: str, failure: Failure) -> None:
        """The operator reads why not."""
        failure.trap(StoreError)
        unknown = "unknown: " in str(failure.value)
        self.answers["unknown" if unknown else "refused"] += 1
        if not unknown:
            self.never.add(name)

    def late(self, node: SimNode, life: int, name: str, waiting: Deferred[Any]) -> None:
        """Time for an answer is over."""
        runs = node.alive and node.life == life and not node.stood and not node.frozen
        if runs and not waiting.called:
            self.broken(f"{node.name} gives no answer to {name}")

    def check(self) -> None:
        """What was refused is nowhere."""
        super().check()
        if self.never & self.durable:
            self.broken(f"refused, and in the log: {sorted(self.never & self.durable)}")


def _counts(world: StallWorld) -> dict[str, int]:
    return dict(world.answers)


if __name__ == "__main__":
    sys.exit(play("tests.sim.disks", StallWorld, Broken, _counts))
