"""
What a start finds in a store of contents that a crash left in the middle of things.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from unittest import TestCase

from saltwisted.stores.roots.objects import SMALL, ContentStore


class LeftoverTests(TestCase):
    """Files of large objects, and which transaction knows them."""

    def setUp(self) -> None:
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def test_without_a_row(self) -> None:
        """What no transaction refers to takes no room after the next start; what one does stays."""
        store = ContentStore(self.folder, {})
        kept = store.put(b"k" * (SMALL + 1))
        places = store.flush()
        lost = store.put(b"l" * (SMALL + 1))
        stranger = f"{os.path.dirname(store.large.path(lost))}/no-digest"
        with open(stranger, "w"):
            pass
        store.close()

        again = ContentStore(self.folder, dict(places))

        self.addCleanup(again.close)
        self.assertFalse(os.path.exists(again.large.path(lost)))
        self.assertFalse(os.path.exists(stranger))
        self.assertEqual(again.check(), [])
        self.assertEqual(again.read(kept, 0, 2), b"kk")
