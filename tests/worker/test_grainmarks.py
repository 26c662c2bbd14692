"""
When files of grains count as changed.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.worker.grains.marks import grain_marks


class MarkTests(SynchronousTestCase):
    """A configuration directory and custom modules."""

    def test_changes(self) -> None:
        """A written, changed or removed file of grains shows; nothing else does."""
        root = Path(self.mktemp())
        (root / "ext").mkdir(parents=True)
        seen = [grain_marks(str(root), str(root / "ext"))]

        (root / "grains").write_text("a: 1\n")
        seen.append(grain_marks(str(root), str(root / "ext")))
        (root / "grains").write_text("a: 10\n")
        seen.append(grain_marks(str(root), str(root / "ext")))
        (root / "ext" / "grains").mkdir()
        (root / "ext" / "grains" / "own.py").write_text("x = 1\n")
        seen.append(grain_marks(str(root), str(root / "ext")))
        (root / "ext" / "grains" / "own.py").unlink()
        (root / "grains").unlink()
        last = grain_marks(str(root), str(root / "ext"))
        (root / "minion").write_text("")

        for before, after in pairwise(seen):
            self.assertNotEqual(before, after)
        self.assertEqual(last, seen[0])
        self.assertEqual(grain_marks(str(root), str(root / "ext")), last)
