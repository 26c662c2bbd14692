"""
What takes history away, in simulated clusters; C{python -m tests.sim.history} plays more of it.
"""

from __future__ import annotations

import gc
from typing import Any

from twisted.internet.defer import succeed
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.jobs.care import JobCare
from saltwisted.cluster.links.shipping import Shipping
from saltwisted.domain.replica.pruning import PruneClock
from saltwisted.domain.replica.setback import SetBack
from saltwisted.domain.replica.ship import Shipper
from saltwisted.stores.jobs import transaction
from saltwisted.stores.jobs.log import JobLog
from tests.sim.cluster import Broken
from tests.sim.history import HistoryWorld
from tests.sim.play import count

SEEDS = count(4, 60, 1000)


class HistoryTests(SynchronousTestCase):
    """Seeds."""

    def test_seeds(self) -> None:
        """However clocks jump and whatever a disk loses, what was acknowledged is everywhere."""
        damaged = 0
        for seed in range(1, 1 + SEEDS):
            world = HistoryWorld(seed)
            world.run()
            damaged += world.damaged
            self.flushLoggedErrors()

        self.assertTrue(damaged)


class MutationTests(SynchronousTestCase):
    """Rules that are broken on purpose must be found out."""

    def caught(self, first: int = 0, most: int = 12) -> None:
        for seed in range(first, first + most):
            try:
                HistoryWorld(seed).run()
            except Broken:
                gc.collect()
                self.flushLoggedErrors()
                return
        self.fail(f"not found out in {most} seeds")

    def test_own_clock_alone(self) -> None:
        """Each node prunes by its own clock."""
        self.patch(PruneClock, "time", lambda clock, wall, runtime: wall)
        self.caught(first=6)

    def test_old_by_its_stamp(self) -> None:
        """What looks old is pruned, though it came a moment ago."""

        def at_once(db: Any, at: float, before: float, own: int, last: int) -> None:
            db.execute("DELETE FROM marks")
            db.execute("INSERT INTO marks SELECT ?, idx, 1 << 39 FROM streams", (int(before),))

        self.patch(transaction, "mark", at_once)
        self.caught(first=75, most=31)

    def test_nobody_compares(self) -> None:
        """Equal knowledge is all there is to compare."""
        self.patch(JobCare, "_begin_round", lambda care: None)
        self.caught(first=2)

    def test_nobody_looks(self) -> None:
        """Rows are not read again."""
        self.patch(JobCare, "_look", lambda care: None)
        self.caught(first=5)

    def test_set_back_unnoticed(self) -> None:
        """A node goes on with its old numbers though others know more of them."""
        self.patch(SetBack, "check", lambda set_back, peer: [])
        self.patch(JobLog, "go_on", lambda log: succeed(None))
        self.caught(first=11, most=3)

    def test_old_belief(self) -> None:
        """What was on the damaged disk counts as known."""
        self.patch(Shipping, "begun_anew", lambda shipping: None)
        self.patch(Shipper, "unstored", lambda machine, now: [])
        self.caught(first=2)
