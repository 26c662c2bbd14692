"""
Receipts as several members have them.
"""

from __future__ import annotations

from itertools import permutations
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.claims.words import Receipt, merged


def row(term: int = 5, node: str = "a", begun: float = 10.0, **more: Any) -> Receipt:
    """What one member has of the act."""
    return Receipt(key="event/x/1", term=term, node=node, begun=begun, **more)


class MergedTests(SynchronousTestCase):
    """L{merged}."""

    def test_one_for_each_act(self) -> None:
        """
        Whoever is asked first, an act has one receipt: the end counts as its holder told it, not as
        somebody heard of it, and not what a member knows that was away.
        """
        true = row(ended=10.2, result="done")
        rows = [
            row(),
            true,
            row(ended=10.3, result="done"),  # it was told again
            row(term=9, node="b", begun=10.1),  # an attempt that came to nothing
            row(term=8, begun=12.0, ended=12.0, result="done"),  # who came late and heard of it
        ]

        for order in permutations(rows):
            self.assertEqual(merged(order), [true])

    def test_next_holder(self) -> None:
        """What the next holder says counts, not what a member has of the one that died."""
        last = row(term=7, node="b", ended=20.0, result="lost")

        self.assertEqual(merged([row(), last]), [last])
        self.assertEqual(merged([last, row(ended=11.0, result="done")]), [last])

    def test_not_ended(self) -> None:
        """What has no end is shown as begun, by the one that holds it."""
        self.assertEqual(merged([row(), row(term=6, node="b")]), [row(term=6, node="b")])

    def test_order(self) -> None:
        """Acts come in the order in which they began."""
        first, second = row(begun=1.0), Receipt(key="reaction/a/1", term=1, node="a", begun=2.0)

        self.assertEqual(merged([second, first]), [first, second])
