"""What a share does later."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.roots.timers import Timers


class TimersTests(SynchronousTestCase):
    """Calls under names."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.timers = Timers(self.clock)
        self.done: list[float] = []

    def act(self) -> None:
        """Note when."""
        self.done.append(self.clock.seconds())

    def test_later(self) -> None:
        """What is asked for again under a name takes the place of what waits there."""
        self.timers.later("a", 2, self.act)
        self.timers.later("b", 3, self.act)
        self.clock.advance(1)
        self.timers.later("a", 2.5, self.act)
        self.assertTrue(self.timers.waits("a"))
        self.clock.pump([1, 1, 1])
        self.assertEqual(self.done, [3, 4])
        self.assertFalse(self.timers.waits("a"))

    def test_at_latest(self) -> None:
        """Who asks every second puts nothing off, and may ask for it earlier."""
        for _ in range(3):
            self.timers.at_latest("a", 3, self.act)
            self.clock.advance(1)
        self.assertEqual(self.done, [3])
        self.timers.at_latest("a", 9, self.act)
        self.timers.at_latest("a", 1, self.act)
        self.clock.advance(1)
        self.assertEqual(self.done, [3, 4])

    def test_never(self) -> None:
        """What is taken back is not done; after the end nothing is, and nothing waits."""
        self.timers.later("a", 1, self.act)
        self.timers.never("a")
        self.timers.never("unknown")
        self.timers.later("b", 1, self.act)
        self.timers.end()
        self.timers.later("c", 1, self.act)
        self.assertEqual(self.clock.getDelayedCalls(), [])
