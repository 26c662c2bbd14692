"""
Leaving: nothing that arose on a node is left behind when somebody could take it.
"""

from __future__ import annotations

from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.life.drain import LOOK, QUIET, STEP, drained, returned


class DrainTests(SynchronousTestCase):
    """Numbers of entries, and a clock."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.stored, self.confirmed, self.linked = 5, 3, True

    def begin(self) -> Deferred[int]:
        """Leave."""
        return Deferred.fromCoroutine(
            drained(
                self.clock,
                lambda: self.stored,
                lambda: self.confirmed,
                lambda: self.linked,
                10.0,
            )
        )

    def pass_time(self, seconds: float) -> None:
        """In small steps."""
        self.clock.pump([STEP] * round(seconds / STEP))

    def test_waits(self) -> None:
        """Until another node has all, also what came in meanwhile."""
        done = self.begin()
        self.pass_time(1)
        self.assertNoResult(done)
        self.stored, self.confirmed = 6, 5
        self.pass_time(1)
        self.assertNoResult(done)
        self.confirmed = 6
        self.pass_time(STEP)
        self.assertEqual(self.successResultOf(done), 0)

    def test_under_way(self) -> None:
        """A return that is being written may still come, although all is confirmed."""
        self.confirmed = 5
        done = self.begin()
        self.pass_time(QUIET - 2 * STEP)
        self.assertNoResult(done)
        self.pass_time(3 * STEP)
        self.assertEqual(self.successResultOf(done), 0)

    def test_nobody_takes_it(self) -> None:
        """Without links at once, with deaf ones after some seconds: how much was not taken."""
        self.linked = False
        self.assertEqual(self.successResultOf(self.begin()), 2)
        self.linked = True
        done = self.begin()
        self.pass_time(9.8)
        self.assertNoResult(done)
        self.pass_time(0.3)
        self.assertEqual(self.successResultOf(done), 2)

    def test_returns(self) -> None:
        """Minions that run a job have some time to bring what came of it; who has not is named."""
        missing = {"b", "a"}
        done = Deferred.fromCoroutine(returned(self.clock, lambda: succeed(set(missing)), 10.0))
        self.clock.pump([LOOK] * 4)
        self.assertNoResult(done)
        missing.clear()
        self.clock.pump([LOOK])
        self.assertEqual(self.successResultOf(done), [])

        missing = {"b", "a"}
        done = Deferred.fromCoroutine(returned(self.clock, lambda: succeed(set(missing)), 10.0))
        self.clock.pump([LOOK] * 19)
        self.assertNoResult(done)
        self.clock.pump([LOOK] * 2)
        self.assertEqual(self.successResultOf(done), ["a", "b"])
