"""
What a master does from time to time.
"""

from __future__ import annotations

from itertools import pairwise

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.master.maintenance import TIDY, Maintenance
from tests.master.rig import Rig


class MaintenanceTests(SynchronousTestCase):
    """The timers of one master."""

    def test_tidies(self) -> None:
        """Copies that nobody uses are looked for every minute, also after a failure."""
        rig, calls = Rig(self), []

        def tidy() -> None:
            calls.append(rig.clock.seconds())
            if len(calls) == 1:
                raise ZeroDivisionError("a mistake")

        maintenance = Maintenance(rig.ctx, [], [tidy])
        maintenance.startService()
        for _ in range(3 * 60 + 6):
            rig.clock.advance(1)
        maintenance.stopService()

        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        self.assertEqual(len(calls), 3)
        self.assertEqual({after - before for before, after in pairwise(calls)}, {TIDY})
