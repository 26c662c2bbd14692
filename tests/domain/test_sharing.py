"""
Fair shares of a bounded place.
"""

from __future__ import annotations

import random

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.sharing import ByTurns, Shares


class SharesTests(SynchronousTestCase):
    """Who has how much."""

    def test_largest(self) -> None:
        """Whoever has most is named, whatever came and went before: as a count of all of them."""
        dice = random.Random(7)
        shares, counts = Shares(), dict.fromkeys("abcdef", 0)
        for _ in range(3000):
            owner = dice.choice("abcdef")
            if counts[owner] and dice.random() < 0.5:
                shares.give(owner)
                counts[owner] -= 1
            else:
                shares.take(owner)
                counts[owner] += 1
            self.assertEqual(shares.total, sum(counts.values()))
            if shares.total:
                self.assertEqual(counts[shares.largest], max(counts.values()))
            self.assertEqual({each: shares.of(each) for each in counts}, counts)

    def test_nobody(self) -> None:
        """Where nobody has anything, nobody has most, and nothing can be given back."""
        shares = Shares()
        self.assertRaises(KeyError, lambda: shares.largest)
        self.assertRaises(KeyError, shares.give, "a")
        shares.take("a")
        shares.clear()
        self.assertRaises(KeyError, lambda: shares.largest)
        self.assertEqual(shares.total, 0)


class ByTurnsTests(SynchronousTestCase):
    """A queue that serves owners by turns."""

    def test_turns(self) -> None:
        """One of each owner comes after the other, and the things of each in their order."""
        queue: ByTurns[int] = ByTurns()
        for number in range(4):
            queue.put("a", number)
        queue.put("b", 10)
        queue.put("c", 20)
        queue.put("c", 21)

        found = [queue.take() for _ in range(len(queue))]

        self.assertEqual(
            found, [("a", 0), ("b", 10), ("c", 20), ("a", 1), ("c", 21), ("a", 2), ("a", 3)]
        )
        self.assertFalse(queue)
        self.assertRaises(KeyError, queue.take)

    def test_drop(self) -> None:
        """What is taken back is the newest of its owner; the oldest of each can be seen."""
        queue: ByTurns[int] = ByTurns()
        for owner, number in (("a", 1), ("a", 2), ("b", 3)):
            queue.put(owner, number)

        self.assertEqual(list(queue.first()), [1, 3])
        self.assertEqual([queue.drop(owner) for owner in "aabc"], [2, 1, 3, None])
        self.assertEqual(len(queue), 0)
