"""
Which generations something ran on: nodes that have been told the same know the same.
"""

from __future__ import annotations

import random
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.roots import ranon
from saltwisted.domain.roots.ranon import USED, RanOn, trees_of

TREES = {"gitfs": b"1" * 32}


class RanOnTests(SynchronousTestCase):
    """One node, and several."""

    def setUp(self) -> None:
        """Few are kept."""
        self.patch(ranon, "MOST", 3)
        self.patch(ranon, "MOST_USED", 2)

    def test_order_of_hearing(self) -> None:
        """Whatever comes first, twice or again: the same is known, in the same order."""
        rows = [[f"g{number}", TREES, float(number), None] for number in range(8)]
        rows[1][3] = rows[3][3] = 1.0
        rows.append(["g0", TREES, 9.0, None])
        for seed in range(20):
            node, dice = RanOn(), random.Random(seed)
            for row in dice.sample([*rows, *rows], 2 * len(rows)):
                node.take([row], 10.0)
            node.forget((), 10.0)

            self.assertEqual(list(node.known()), ["g1", "g3", "g6", "g7", "g0"], seed)

    def test_used(self) -> None:
        """What is used or needed stays, at most so many; when that ends it is forgotten."""
        node = RanOn()
        for number in range(10):
            node.add(f"g{number}", TREES, float(number))
        self.assertTrue(node.use("g1", 5.0, 5.0))
        self.assertFalse(node.use("g1", 6.0, 6.0))
        node.forget({"g0"}, 7.0)
        self.assertEqual(list(node.known()), ["g0", "g1", "g7", "g8", "g9"])
        node.forget({"g0", "g1"}, 6.0 + USED)
        self.assertEqual(node.used(6.0 + USED), set())
        self.assertEqual(len(node.known()), 5)
        node.forget((), 6.0 + USED)
        self.assertEqual(list(node.known()), ["g7", "g8", "g9"])

    def test_clock_behind(self) -> None:
        """What runs now is the newest, whatever this node's time of day."""
        node = RanOn()
        node.add("ahead", TREES, 1000.0)
        node.runs("now", TREES, 10.0, 0.0)
        self.assertEqual(list(node.known()), ["ahead", "now"])

    def test_restart(self) -> None:
        """What was used when it was written down counts as used since the start, however late."""
        before, after, other = RanOn(), RanOn(), RanOn()
        before.runs("used", TREES, 1.0, 50.0)
        before.add("idle", TREES, 2.0)
        rows = before.rows(60.0)
        after.take(rows, 5000.0, again=True)
        self.assertEqual(after.used(5000.0 + USED - 1.0), {"used"})
        other.take(rows, 5000.0)
        self.assertEqual(other.used(5000.0 + USED - 11.0), {"used"})
        self.assertEqual(other.used(5000.0 + USED - 9.0), set())

    def test_strange(self) -> None:
        """What makes no sense is refused as a whole."""
        good = ["g", TREES, 1.0, None]
        rows: list[Any] = [
            [*good, 1],
            ["g", 5, 1.0, None],
            ["g", {"gitfs": 9}, 1.0, None],
            [7, TREES, 1.0, None],
            ["g" * 65, TREES, 1.0, None],
            ["g", TREES, float("nan"), None],
            ["g", TREES, 1e13, None],
            ["g", TREES, 1.0, -1.0],
            ["g", TREES, 1.0, float("nan")],
            ["g", dict.fromkeys(map(str, range(257)), b""), 1.0, None],
            None,
        ]
        for row in rows:
            node = RanOn()
            self.assertRaises(ValueError, node.take, [good, row], 0.0)
            self.assertEqual(node.known(), {}, row)
        self.assertEqual(trees_of({"gitfs": (b"1" * 32).hex()}), TREES)
        for said in (None, {"gitfs": 1}, {"gitfs": "x"}, 7):
            self.assertEqual(trees_of(said), {})
