"""
Look-ups of names that take long.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.transports.lookups import LIMIT, MOST, LookUps


class LookUpTests(SynchronousTestCase):
    """Threads that do their work when the test says so."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.clock.callFromThread = lambda call, *args: call(*args)  # type: ignore[attr-defined]
        self.works: list[Callable[[], None]] = []
        self.names = LookUps(self.clock, self.works.append)

    def test_answer(self) -> None:
        """What comes of a look-up arrives, a failure too, and leaves no timer."""
        good = self.names.run(str.upper, "a")
        bad = self.names.run(int, "a")
        for work in self.works:
            work()

        self.assertEqual(self.successResultOf(good), "A")
        self.failureResultOf(bad, ValueError)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_silence(self) -> None:
        """A silent name server costs a bounded time; its answer, when it comes, harms nobody."""
        waiting = self.names.run(str.upper, "a")
        self.clock.advance(LIMIT - 1)
        self.assertNoResult(waiting)
        self.clock.advance(1)

        self.failureResultOf(waiting, OSError)
        self.works[0]()

    def test_bounded(self) -> None:
        """Silent look-ups hold no more than so many threads, also when nobody waits any more."""
        waiting = [self.names.run(str.upper, "a") for _ in range(MOST)]
        self.clock.advance(LIMIT)
        for one in waiting:
            self.failureResultOf(one, OSError)
        self.failureResultOf(self.names.run(str.upper, "b"), OSError)
        self.assertEqual(len(self.works), MOST)

        self.works[0]()

        again = self.names.run(str.upper, "b")
        self.works[-1]()
        self.assertEqual(self.successResultOf(again), "B")
