"""Timers that fire together."""

from __future__ import annotations

from twisted.internet.task import Clock, LoopingCall
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.transports.ticks import next_tick, start_on_ticks


class BeatTests(SynchronousTestCase):
    """Whole seconds of one clock."""

    def test_loops_meet(self) -> None:
        """Loops that began at any time wake the process together, each as often as it should."""
        clock = Clock()
        told: list[tuple[float, str]] = []
        for name, seconds in (("a", 1), ("b", 1), ("c", 5)):
            clock.advance(0.25)
            loop = LoopingCall(lambda name=name: told.append((clock.seconds(), name)))
            loop.clock = clock
            self.addCleanup(loop.stop)
            _ = start_on_ticks(loop, seconds)

        clock.pump([1 / 64] * 64 * 16)

        later = [(when, name) for when, name in told if when > 6]
        self.assertEqual({when % 1 for when, _ in later}, {0.0})
        names = "".join(name for _, name in later)
        self.assertEqual([names.count(name) for name in "abc"], [10, 10, 2])

    def test_delay(self) -> None:
        """A single timer comes at a tick, at most a second early and never late."""
        clock = Clock()
        clock.advance(2.25)

        delays = [next_tick(clock, seconds) for seconds in (1.0, 3.0, 30.0)]

        self.assertEqual(delays, [0.75, 2.75, 29.75])
