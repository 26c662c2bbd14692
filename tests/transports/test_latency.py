"""
The meter of the reactor's lateness: what it sees, and how seldom it wakes a resting daemon.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.transports import latency
from saltwisted.transports.latency import LITTLE, PERIOD, REST, LatencyMeter


class Reactor(Clock):
    """A clock with the two methods of a reactor that are measured."""

    def _doReadOrWrite(self, reader: Any) -> None:
        reader()

    def runUntilCurrent(self) -> None:
        """Nothing; the clock runs its timers itself."""


class LatencyTests(SynchronousTestCase):
    """One meter on one clock."""

    def setUp(self) -> None:
        """Start it."""
        self.reactor = Reactor()
        self.meter = LatencyMeter(self.reactor)
        self.meter.startService()
        self.addCleanup(self.meter.stopService)

    def test_rests(self) -> None:
        """Where nothing is to be done, it wakes up every few seconds."""
        self.reactor.advance(PERIOD)
        for turn in range(1, 4):
            (call,) = self.reactor.getDelayedCalls()
            # At the beat, with all else that is done now and then
            self.assertAlmostEqual(call.getTime(), turn * REST)
            self.reactor.advance(call.getTime() - self.reactor.seconds())

    def test_works(self) -> None:
        """As soon as there is work it looks ten times a second."""
        self.reactor.advance(PERIOD)
        for _ in range(LITTLE + 1):
            self.reactor._doReadOrWrite(lambda: None)
        (call,) = self.reactor.getDelayedCalls()
        self.assertAlmostEqual(call.getTime(), self.reactor.seconds() + PERIOD)

    def test_late(self) -> None:
        """Who is late is seen: the meter itself, and the first of all timers."""
        self.reactor.advance(PERIOD + 0.25)
        self.assertAlmostEqual(self.meter.late_recent, 0.25)

        class Waiting:
            cancelled = 0

            def getTime(self) -> float:
                return 0.0

        self.reactor._pendingTimedCalls = [Waiting()]
        self.reactor.runUntilCurrent()
        self.assertAlmostEqual(self.meter.late_max, PERIOD + 0.25)

    def test_before(self) -> None:
        """
        What the process has used before the first callback that is measured is not that one's: the
        meter is started within a callback, and the other parts of the daemon after it.
        """
        self.meter.stopService()
        used = 20.0
        self.patch(latency.time, "thread_time", lambda: used)
        self.meter.startService()
        used += 30.0

        def work() -> None:
            nonlocal used
            used += 0.25

        self.reactor._doReadOrWrite(work)

        self.assertAlmostEqual(self.meter.busy_max, 0.25)
        self.assertEqual(self.meter.busy_long, 1)

    def test_forgets(self) -> None:
        """What was late is no longer recent after twenty seconds."""
        self.reactor.advance(PERIOD + 0.25)
        # From here on the clock stands at each beat, as a real one does
        self.reactor.advance(1 - self.reactor.seconds())
        self.reactor.pump([1.0] * 30)
        self.assertAlmostEqual(self.meter.late_recent, 0.0)
        self.assertAlmostEqual(self.meter.late_max, 0.25)

    def test_stopped(self) -> None:
        """Nothing is left on the reactor."""
        self.meter.stopService()
        self.assertEqual(self.reactor.getDelayedCalls(), [])
        self.assertNotIn("runUntilCurrent", vars(self.reactor))

    def test_several(self) -> None:
        """Several meters on one reactor end in any order; the others go on, and nothing is left."""
        for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0), (0, 2, 1)):
            meters = [self.meter, LatencyMeter(self.reactor), LatencyMeter(self.reactor)]
            self.meter.stopService()
            for meter in meters:
                meter.startService()
            for turn, number in enumerate(order):
                meters[number].stopService()
                left = [meters[other] for other in order[turn + 1 :]]
                before = [meter._served for meter in left]
                self.reactor._doReadOrWrite(lambda: None)
                self.reactor.runUntilCurrent()
                self.assertEqual([meter._served - 1 for meter in left], before, order)
            self.assertNotIn("runUntilCurrent", vars(self.reactor), order)
            self.assertNotIn("_doReadOrWrite", vars(self.reactor), order)
            self.assertEqual(self.reactor.getDelayedCalls(), [])
