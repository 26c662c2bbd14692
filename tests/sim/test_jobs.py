"""
Jobs and returns of simulated clusters; C{python -m tests.sim.jobs} plays more of them.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.jobs import forward
from saltwisted.domain.replica import delivery
from saltwisted.domain.replica.delivery import Acknowledge, Copies, Window
from tests.sim.cluster import Broken
from tests.sim.jobs import HealingWorld, JobWorld
from tests.sim.play import count

SEEDS = count(2, 200, 1000)
HEALED = count(12, 200, 1000)


class JobSimTests(SynchronousTestCase):
    """Seeds."""

    def test_seeds(self) -> None:
        """However nodes, disks, clocks, network and minions fail: nothing runs twice or late, and
        what was acknowledged is on all nodes in the end."""
        for seed in range(SEEDS):
            JobWorld(seed).run()


class HealingTests(SynchronousTestCase):
    """Nothing but a cut that ends."""

    def test_seeds(self) -> None:
        """A job that is given in the second in which a cut ends comes to all minions of the node
        that was cut off, also to those that sign in again there just then."""
        for seed in range(HEALED):
            HealingWorld(seed).run()


class MutationTests(SynchronousTestCase):
    """Rules that are broken on purpose must be found out."""

    def caught(
        self, *, first: int = 0, most: int = 24, world: Callable[[int], JobWorld] = JobWorld
    ) -> None:
        """One of some seeds finds it; C{first}: where to begin, since one after it does."""
        for seed in range(first, first + most):
            try:
                world(seed).run()
            except Broken:
                # It was noticed inside Deferreds, too, which nobody reads any more
                gc.collect()
                self.flushLoggedErrors(Broken)
                return
        self.fail(f"not found out in {most} seeds")

    def test_two_copies_that_are_one(self) -> None:
        """A return is acknowledged as if another disk had it."""

        def stored(copies: Copies, number: int, jid: str, minion_id: str, *rest: Any) -> Any:
            return [Acknowledge(jid, minion_id, 2)]

        self.patch(Copies, "stored", stored)
        self.caught()

    def test_asked_once(self) -> None:
        """Who may have the job is asked once, whether all can answer or not."""
        self.patch(delivery, "ASK_AGAIN", 60.0)
        self.caught(first=16, world=HealingWorld)

    def test_measured_once(self) -> None:
        """A job is dropped when the clock of its node cannot be looked at in that moment."""
        self.patch(forward, "MEASURED", 1)
        self.caught(first=10, most=1, world=HealingWorld)

    def test_no_window(self) -> None:
        """A job is published whenever it comes."""
        kept = Window.job_came

        def heard(window: Window, jid: str, minions: Any, own: Any, age: float, now: float) -> Any:
            return kept(window, jid, minions, own, min(age, 0.5), now)

        self.patch(Window, "job_came", heard)
        self.patch(delivery, "PROMPT", 1.0)
        self.caught(first=2)
