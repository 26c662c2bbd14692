"""
Disks that stall, in simulated clusters; C{python -m tests.sim.disks} plays more of them.
"""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.replica.entry import Entry, Stream
from saltwisted.transports.deferreds import all_within, as_deferred
from tests.sim import disks
from tests.sim.cluster import Broken
from tests.sim.disks import StallWorld
from tests.sim.play import count

SEEDS = count(15, 150, 5000)


class StallTests(SynchronousTestCase):
    """Seeds, and rules that are broken on purpose."""

    def test_seeds(self) -> None:
        """Whatever disk stalls, what an operator was told to be done is done; all three answers
        are given."""
        answers = dict.fromkeys(("done", "unknown", "refused"), 0)
        for seed in range(SEEDS):
            world = StallWorld(seed)
            world.run()
            for name, number in world.answers.items():
                answers[name] += number

        self.assertTrue(all(answers.values()), answers)

    def caught(self, most: int = 40) -> None:
        for seed in range(most):
            try:
                StallWorld(seed).run()
            except Broken:
                gc.collect()
                self.flushLoggedErrors(Broken)
                return
        self.fail(f"not found out in {most} seeds")

    def test_the_time_out_is_swallowed(self) -> None:
        """An operator is told that an act is done when he has waited for five seconds."""

        async def hasty(clock: Any, problem: Any, act: Callable[[], Awaitable[Any]]) -> Any:
            doing: Deferred[Any] = as_deferred(act())
            await all_within(clock, 5.0, [doing])
            return await doing if doing.called else Entry(Stream("", ""), 0, 0, "", b"")

        self.patch(disks, "done_or_unknown", hasty)
        self.caught()

    def test_no_end_of_waiting(self) -> None:
        """An operator waits for as long as the disk stalls."""

        async def patient(clock: Any, problem: Any, act: Callable[[], Awaitable[Any]]) -> Any:
            return await as_deferred(act())

        self.patch(disks, "done_or_unknown", patient)
        self.caught()
