"""
Clusters with facts, membership and roots at once; C{python -m tests.sim.whole} plays more of them.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.rootsync import RootSync
from tests.sim.cluster import Broken
from tests.sim.play import count
from tests.sim.whole import WholeWorld

SEEDS = count(1, 10, 1000)


class WholeSimTests(SynchronousTestCase):
    """Seeds."""

    def test_seeds(self) -> None:
        """Whoever joins, leaves and changes rights, and whatever fails: facts and roots agree."""
        for seed in range(SEEDS):
            WholeWorld(seed).run()
        self.flushLoggedErrors()


class MutationTests(SynchronousTestCase):
    """Rules that are broken on purpose must be found out."""

    def caught(self, first: int = 0, most: int = 16) -> None:
        """One of some seeds finds it."""
        for seed in range(first, first + most):
            try:
                WholeWorld(seed).run()
            except Broken:
                # It was noticed inside Deferreds, too, which nobody reads any more
                gc.collect()
                self.flushLoggedErrors()
                return
        self.fail("not noticed")

    def broken(self, name: str, instead: Callable[..., Any]) -> None:
        """Break one rule of the roots."""
        self.patch(RootSync, name, instead)
        self.caught()

    def test_anybody_writes(self) -> None:
        """Changes are taken from who may not make any."""

        def received(sync: RootSync, link: Any, kind: int, name: str, body: bytes) -> None:
            share = sync.shares.get(name)
            if share is not None and share.store is not None:
                share.received(link, kind, body)

        self.broken("received", received)

    def test_anybody_has_pillars(self) -> None:
        """Pillars go to everybody."""
        self.broken("may_have", lambda sync, node, name: True)
