"""
However nodes, disks, clocks and network fail, an event that was acknowledged is reacted to once, or
said as lost.
"""

from __future__ import annotations

from typing import Any
from unittest import mock

from attrs import evolve
from twisted.internet.defer import succeed
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.claims.acts import Acts
from saltwisted.domain.claims.copies import WINDOW
from saltwisted.domain.reactions.keeping import Shelf
from tests.sim.claims import Broken
from tests.sim.owed import OwedNode, OwedWorld, SimKeptStore
from tests.sim.play import count

SEEDS = count(6, 100, 20_000)


class OwedSimTests(SynchronousTestCase):
    """Plays of up to seven nodes."""

    def test_seeds(self) -> None:
        """What is owed is reacted to once or said as lost, and all is struck out in the end."""
        for seed in range(SEEDS):
            OwedWorld(seed).run()


class Burst(OwedWorld):
    """Three members, and a thousand events of a hot minion at one moment."""

    grows, sizes = 0.0, (3,)
    events_at_once = 1000

    def run(self) -> None:
        """Each comes to all members within a second."""
        self.delays = (0.001, 0.01)
        self.is_well = True
        self.advance(20.0)
        for event in range(1, self.events_at_once + 1):
            for node in self.nodes.values():
                wait = self.dice.choice((0.0, 0.0, 0.01, 1.0))
                self.clock.callLater(wait, node.receive, event, {"event": event}, "once")  # type: ignore[attr-defined]
        self.acts = self.events_at_once
        self.advance(30.0)
        self.check()


class BurstTests(SynchronousTestCase):
    """What happens at one moment."""

    def test_each_once(self) -> None:
        """A thousand reactions at a time, on three nodes: each is done once (pains 1.2)."""
        world = Burst(1)

        world.run()

        self.assertEqual(len(world.reacted), world.events_at_once)
        self.assertEqual(len({key for key, _ in world.reacted.values()}), world.events_at_once)
        self.assertEqual((world.said, world.counts["NoMajority"]), (set(), 0))


class MutationTests(SynchronousTestCase):
    """Rules that are broken on purpose must be found out: else the simulation proves nothing."""

    def caught(self, first: int = 0, most: int = 60) -> str:
        """What one of some seeds breaks."""
        for seed in range(first, first + most):
            try:
                OwedWorld(seed).run()
            except Broken as broken:
                self.flushLoggedErrors()
                return str(broken).partition("\n")[0]
        raise self.failureException(f"{most} seeds broke no promise")

    def test_acknowledged_before_the_disk(self) -> None:
        """What is acknowledged before it is written is forgotten."""
        write = SimKeptStore.write

        def at_once(self: SimKeptStore, put: Any, delete: Any = ()) -> Any:
            write(self, put, delete).addErrback(lambda failure: None)
            return succeed(None)

        with mock.patch.object(SimKeptStore, "write", at_once):
            self.assertIn("forgotten", self.caught(first=5))

    def test_nobody_takes_up(self) -> None:
        """Rows that nobody looks at are no help."""
        with mock.patch.object(Shelf, "due", lambda self, now, place: []):
            self.assertRegex(self.caught(), "forgotten|owes")

    def test_another_key(self) -> None:
        """An event that is taken up by a key of one's own is no longer the same event."""
        later = OwedNode.later

        def own(self: OwedNode, event: int, kind: str, kept: Any, came: Any) -> None:
            if came.source:
                came = evolve(came, key=f"{came.key}{ord(self.name)}")
            later(self, event, kind, kept, came)

        with mock.patch.object(OwedNode, "later", own):
            self.caught(first=4)

    def test_copies_that_were_kept_back(self) -> None:
        """Copies that a minion has kept for longer than ten seconds are not events of their own."""
        with mock.patch.object(Acts, "_window_of", lambda self, minion: WINDOW):
            self.assertRegex(self.caught(), "does .* after")

    def test_no_word_of_what_is_owed(self) -> None:
        """Nodes that are linked again and do not tell what they owe have rows for ever."""
        with mock.patch.object(Shelf, "struck_out", lambda *args: []):
            self.assertIn("owes", self.caught())
