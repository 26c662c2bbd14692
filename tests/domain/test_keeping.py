"""
What is owed to minions: which rows a node has, and when it takes them up.
"""

from __future__ import annotations

from random import Random

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.reactions.entries import parse
from saltwisted.domain.reactions.keeping import (
    PATIENCE,
    TURN,
    Kept,
    Shelf,
    occasion_for,
    part_of,
    read_ids,
    read_told,
)
from saltwisted.errors import WireError


def row(number: int, source: str = "b#1", part: int = 0) -> Kept:
    """An event."""
    return Kept(
        source=source,
        number=number,
        part=part,
        minion="m",
        tag="site/x",
        key=f"event/k/{number}",
        at=10.0,
        data=b"\x80",
    )


class ShelfTests(SynchronousTestCase):
    """Node C{a}; C{b} is another."""

    def setUp(self) -> None:
        self.shelf = Shelf("a", "9", most=5, most_bytes=5000)

    def test_own(self) -> None:
        """What this life has taken is never found: it is still at it."""
        self.shelf.put([row(1, "a#9")], 0.0)

        self.assertEqual(self.shelf.due(1e9, 0), [])

    def test_own_of_before(self) -> None:
        """What an earlier life of this node took is found at once, once."""
        self.shelf.put([row(1, "a#8")], 5.0)

        self.assertEqual(self.shelf.due(5.0, 2), [row(1, "a#8")])
        self.assertEqual(self.shelf.due(6.0, 2), [])

    def test_unlinked(self) -> None:
        """What another node took is taken up a while after its link has ended."""
        self.shelf.linked("b", "1", 0.0)
        self.shelf.put([row(1)], 1.0)
        self.assertEqual(self.shelf.due(100.0, 0), [])

        self.shelf.unlinked("b", 100.0)

        self.assertEqual(self.shelf.due(100.0 + PATIENCE - 0.1, 0), [])
        self.assertEqual(self.shelf.due(100.0 + PATIENCE, 0), [row(1)])

    def test_in_turns(self) -> None:
        """The second node by name gives the first its time, and so on."""
        self.shelf.put([row(1)], 0.0)

        self.assertEqual(self.shelf.due(PATIENCE + 2 * TURN - 0.1, 2), [])
        self.assertEqual(self.shelf.due(PATIENCE + 2 * TURN, 2), [row(1)])

    def test_linked_again(self) -> None:
        """Only the link was lost: who took it goes on. In another life it does not."""
        self.shelf.linked("b", "1", 0.0)
        self.shelf.put([row(1)], 0.0)
        self.shelf.unlinked("b", 1.0)
        self.shelf.linked("b", "1", 2.0)
        self.assertEqual(self.shelf.due(100.0, 0), [])

        self.shelf.linked("b", "2", 100.0)

        self.assertEqual(self.shelf.due(100.0 + PATIENCE, 0), [row(1)])

    def test_found_on_disk(self) -> None:
        """What lies there at the start is another's, until that is linked in the same life."""
        self.shelf.put([row(1)], 0.0)
        self.shelf.linked("b", "1", 1.0)

        self.assertEqual(self.shelf.due(100.0, 0), [])

    def test_done(self) -> None:
        """What is done is found no more, by whomever it was; twice is once."""
        self.shelf.put([row(1), row(2), row(2, part=4)], 0.0)

        self.assertEqual(
            self.shelf.done([("b#1", 2, 0), ("b#1", 7, 0), ("c#1", 1, 0)]), [row(2).id]
        )
        self.assertEqual(self.shelf.done([("b#1", 2, 0)]), [])
        self.assertEqual(self.shelf.due(100.0, 0), [row(1), row(2, part=4)])

    def test_bounds(self) -> None:
        """No more rows and bytes than that; what is done makes room."""
        self.shelf.put([row(number) for number in range(4)], 0.0)
        self.assertTrue(self.shelf.has_room([row(4)]))
        self.assertFalse(self.shelf.has_room([row(4), row(5)]))
        self.assertFalse(self.shelf.has_room([evolve(row(4), data=b"x" * 4500)]))

        self.shelf.done([row(number).id for number in range(4)])

        self.assertEqual(len(self.shelf), 0)
        self.assertTrue(self.shelf.has_room([evolve(row(4), data=b"x" * 4500)]))

    def test_room_is_what_is_there(self) -> None:
        """However rows come, come again and are done: nothing is left counted."""
        dice = Random(4)
        shelf = Shelf("a", "9")
        for _ in range(2000):
            one = row(dice.randrange(9), dice.choice(["a#8", "a#9", "b#1"]), dice.randrange(2))
            if dice.random() < 0.5:
                shelf.put([one], 0.0)
            elif dice.random() < 0.5:
                shelf.put([evolve(one, data=b"P" * dice.randrange(50))], 0.0)
            else:
                shelf.done([one.id])
        all_ids = [
            (source, number, part)
            for source in ("a#8", "a#9", "b#1")
            for number in range(9)
            for part in range(2)
        ]
        shelf.done(all_ids)

        self.assertEqual((len(shelf), shelf._bytes, shelf._lives), (0, 0, {}))


class TextTests(SynchronousTestCase):
    """What nodes tell each other."""

    def test_told(self) -> None:
        """Rows come as they went, with the time of who reads them."""
        self.assertEqual(read_told([row(1).told()], "b", 77.0, 5.0), [evolve(row(1), at=77.0)])

    def test_told_nonsense(self) -> None:
        """Anything else is refused, also a row in another node's name."""
        good = row(1).told()
        for wrong in (None, [1], [[]], [good[:6]], [[*good[:6], "text"]], [[1, *good[1:]]]):
            self.assertRaises(WireError, read_told, wrong, "b", 0.0, 0.0)
        self.assertRaises(WireError, read_told, [good], "c", 0.0, 0.0)
        self.assertRaises(WireError, read_told, [["b#1", True, *good[2:]]], "b", 0.0, 0.0)

    def test_ids(self) -> None:
        """The same for what is done."""
        self.assertEqual(read_ids([["b#1", 2, 0]]), [("b#1", 2, 0)])
        for wrong in (None, [1], [["b#1", 2]], [["b#1", "2", 0]], [["b#1", 2, True]]):
            self.assertRaises(WireError, read_ids, wrong)

    def test_parts(self) -> None:
        """Entries with debounce or batch react by themselves, all others together."""
        entries, problems = parse(
            [
                {"x": ["/a.sls"]},
                {"x": {"sls": "/b.sls", "batch": 2}},
                {"x": {"sls": "/c.sls", "debounce": 5}},
                {"x": {"sls": "/d.sls", "throttle": 5}},
            ]
        )

        self.assertEqual(problems, [])
        self.assertEqual([part_of(entry) for entry in entries], [0, 2, 3, 0])

    def test_occasions(self) -> None:
        """Each part is claimed by itself; a minion's start by minion and tag alone."""
        self.assertEqual(occasion_for("m", "site/x", {"a": 1}, 0), ("site/x", {"a": 1}))
        tag, data = occasion_for("m", "site/x", {"a": 1}, 3)
        self.assertEqual((tag, data), ("site/x/saltwisted/entry/3", {"a": 1}))
        self.assertEqual(occasion_for("m", "minion_start", {"a": 1}, 3)[1], {})
