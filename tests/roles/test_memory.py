"""
Tests of L{saltwisted.roles.memory}.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.roles import memory
from saltwisted.roles.memory import GROWN, HOUR, PERIOD, Collector, Trimmer


class CollectorTests(SynchronousTestCase):
    """Cycles, collected in small portions."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.collector = Collector(self.clock)
        self.collector.startService()
        self.addCleanup(self.collector.stopService)

    def test_what_survives_is_frozen(self) -> None:
        """After a whole collection nothing is left to be looked at the next time."""
        kept = [[[number]] for number in range(1000)]
        before = gc.get_freeze_count()

        gc.collect()

        self.assertGreaterEqual(gc.get_freeze_count() - before, len(kept))

    def test_small_steps(self) -> None:
        """
        However much the start has made, a whole collection looks at what has come since the last
        one: the first does not wait until that is a quarter of all there was.
        """
        made: list[Any] = [[] for _ in range(300_000)]
        self.collector.stopService()
        self.collector.startService()
        looked: list[int] = []

        def collecting(phase: str, info: dict[str, int]) -> None:
            if phase == "start" and info["generation"] == 2:
                looked.append(len(gc.get_objects()))

        gc.callbacks.append(collecting)
        try:
            made += [[] for _ in range(100_000)]
        finally:
            gc.callbacks.remove(collecting)

        self.assertGreater(len(looked), 3)
        self.assertLess(max(looked), 20_000)

    def test_cycles_that_die_late(self) -> None:
        """
        A cycle that was frozen alive and died is gone after the hourly collection, which
        does nothing while little has been added.
        """
        gone: list[int] = []

        class Loud:
            def __del__(self) -> None:
                gone.append(1)

        loud: Any = Loud()
        loud.me = loud
        gc.collect()
        del loud
        gc.collect()
        self.assertEqual(gone, [])

        self.clock.advance(HOUR)
        self.assertEqual(gone, [])

        more = [[number] for number in range(GROWN)]
        gc.collect()
        self.clock.advance(HOUR)

        self.assertEqual(gone, [1])
        self.assertEqual(len(more), GROWN)

    def test_stop(self) -> None:
        """Afterwards Python collects as it did before."""
        self.collector.stopService()

        self.assertEqual(gc.get_freeze_count(), 0)
        self.assertEqual(self.clock.getDelayedCalls(), [])


class TrimmerTests(SynchronousTestCase):
    """Freed memory, given back."""

    def test_after_growth_and_rest(self) -> None:
        """It gives back once when the process has grown and rests, and not while it grows."""
        sizes = iter([100, 200, 300, 300, 150, 150, 150])
        self.patch(memory, "_resident", lambda: next(sizes, 150) << 20)
        clock = Clock()
        started: list[Callable[[], Any]] = []
        trimmer = Trimmer(clock, started.append)
        trimmer.startService()
        self.addCleanup(trimmer.stopService)

        clock.pump([PERIOD] * 2)
        self.assertEqual(started, [])
        clock.advance(PERIOD)
        self.assertEqual(len(started), 1)
        clock.pump([PERIOD] * 5)

        self.assertEqual(len(started), 1)

    def test_little(self) -> None:
        """What a few minions that fetch large files leave behind is worth it; less is not."""
        for grown, times in ((1, 0), (4, 1)):
            sizes = iter([60, 60 + grown, 60 + grown])
            self.patch(memory, "_resident", lambda sizes=sizes: next(sizes, 60) << 20)
            clock = Clock()
            started: list[Callable[[], Any]] = []
            trimmer = Trimmer(clock, started.append)
            trimmer._after = 60 << 20
            trimmer.startService()
            self.addCleanup(trimmer.stopService)
            clock.pump([PERIOD] * 2)

            self.assertEqual(len(started), times, grown)
