"""
The clock of a share: what its stamps are when the time of its node is set.
"""

from __future__ import annotations

import os

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.causality.clock import MAX_AHEAD_SECONDS, stamp_seconds
from saltwisted.domain.roots.entry import FILE, TreeEntry
from saltwisted.stores.roots.store import RootStore
from tests.harness import scratch

YEAR = 365 * 86400.0


class ClockTests(SynchronousTestCase):
    """One share, whose node's clock is set."""

    def setUp(self) -> None:
        self.now = 1e9
        self.store = RootStore(f"{scratch(self)}/a", "a", os.urandom, lambda: self.now)
        self.addCleanup(self.store.close)
        self.edits = 0

    def edit(self) -> int:
        """The stamp of one more edit."""
        self.edits += 1
        content = b"%d" % self.edits
        file = TreeEntry(FILE, 0o644, len(content), 10**18, self.store.objects.put(content))
        made = self.store.commit({b"top.sls": file})
        assert made is not None
        return made[0].stamp

    def test_small_step_back(self) -> None:
        """Within ten minutes the stamps of a share grow, whatever its node's time does."""
        first = self.edit()
        self.now -= MAX_AHEAD_SECONDS - 1

        self.assertGreater(self.edit(), first)

    def test_set_right(self) -> None:
        """A clock that was a year ahead for a while marks no later edit with that year."""
        self.now += YEAR
        self.edit()
        self.now -= YEAR

        self.assertAlmostEqual(stamp_seconds(self.edit()), self.now, delta=1)
