"""
Clusters with facts, membership and roots at once; C{python -m tests.sim.whole} plays more of them.
"""

from __future__ import annotations

import gc
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.roots.core import ShareCore
from saltwisted.cluster.roots.host import Host
from saltwisted.cluster.roots.streams import RootStreams
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


class FoundTests(SynchronousTestCase):
    """What the simulation has found once; each seed was one of many that showed it."""

    def test_last_giver_goes_while_one_joins(self) -> None:
        """Who has a part of a tree that nobody can complete any more goes on with that part."""
        WholeWorld(2054).run()
        self.flushLoggedErrors()


class MutationTests(SynchronousTestCase):
    """Rules that are broken on purpose must be found out."""

    def caught(self, most: int = 16) -> None:
        """One of some seeds finds it."""
        for seed in range(most):
            try:
                WholeWorld(seed).run()
            except Broken:
                # It was noticed inside Deferreds, too, which nobody reads any more
                gc.collect()
                self.flushLoggedErrors()
                return
        self.fail("not noticed")

    def test_anybody_writes(self) -> None:
        """Who may not write does, and its changes are taken."""

        def received(streams: RootStreams, link: Any, kind: int, name: str, body: bytes) -> None:
            share = streams._shares.get(name)
            if share is not None and share.store is not None:
                share.received(link, kind, body)

        self.patch(ShareCore, "is_read_only", False)
        self.patch(RootStreams, "received", received)
        self.caught()

    def test_anybody_has_pillars(self) -> None:
        """Pillars go to everybody."""
        self.patch(Host, "may_have", lambda host, node, name: True)
        self.caught()
