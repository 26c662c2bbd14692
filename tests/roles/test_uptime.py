"""
The reactor's clock does not follow the time of day.
"""

from __future__ import annotations

import time

from twisted.internet.selectreactor import SelectReactor
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.roles.uptime import run_by_uptime


class UptimeTests(SynchronousTestCase):
    """A reactor of our own, which is never run."""

    def setUp(self) -> None:
        """Nothing is due."""
        self.reactor = SelectReactor()
        self.addCleanup(self.close)

    def close(self) -> None:
        """Close what wakes it."""
        for reader in self.reactor.removeAll():
            reader.connectionLost(None)

    def test_time_of_day_is_set(self) -> None:
        """A timer is due when its time has passed, whatever the time of day is by then."""
        run_by_uptime(self.reactor)
        fired: list[str] = []
        before = time.clock_gettime(time.CLOCK_BOOTTIME)
        call = self.reactor.callLater(5, fired.append, "late")
        self.reactor.callLater(0, fired.append, "now")
        after = time.clock_gettime(time.CLOCK_BOOTTIME)

        self.assertTrue(before + 5 <= call.getTime() <= after + 5)
        for jump in (86_400, -86_400):
            self.patch(time, "time", lambda jump=jump: before + jump)
            self.reactor.runUntilCurrent()
        self.assertEqual(fired, ["now"])
        call.cancel()

    def test_too_late(self) -> None:
        """Timers that are there already would be due in decades: the clock then stays."""
        call = self.reactor.callLater(5, lambda: None)
        run_by_uptime(self.reactor)

        self.assertTrue(abs(call.getTime() - self.reactor.seconds()) < 60)
        call.cancel()
