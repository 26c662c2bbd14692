"""
Who has a vote, and what a majority is.
"""

from __future__ import annotations

from itertools import combinations, permutations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.claims.electorate import (
    BOTH,
    Electorate,
    Seat,
    decode_electorate,
    encode_electorate,
    found,
)
from saltwisted.errors import WireError


def of(names: str) -> Electorate:
    """Members with one letter each."""
    return found(Seat(name, name) for name in names)


def majorities(electorate: Electorate, gone: str = "", two: str = "pair") -> list[set[str]]:
    """All sets of voters that are one."""
    keys = [seat.key for seat in electorate.seats()]
    every = [set(c) for n in range(len(keys) + 1) for c in combinations(keys, n)]
    return [each for each in every if electorate.is_majority(each, gone, two)]


class MajorityTests(SynchronousTestCase):
    """Of one, two, three, four and five."""

    def test_half(self) -> None:
        """Four members that are split in two halves have no majority."""
        self.assertFalse(of("abcd").is_majority({"a", "b"}, ()))
        self.assertTrue(of("abcd").is_majority({"a", "b", "c"}, ()))

    def test_dead_ones_count(self) -> None:
        """Members count, alive or not, until they are removed or declared dead."""
        self.assertFalse(of("abc").is_majority({"a"}, ()))
        self.assertFalse(of("abc").is_majority({"a"}, {"c"}))
        self.assertTrue(of("abc").is_majority({"a"}, {"b", "c"}))

    def test_pair(self) -> None:
        """Of two the first by name decides alone, until it is declared dead."""
        self.assertTrue(of("ab").is_majority({"a"}, ()))
        self.assertFalse(of("ab").is_majority({"b"}, ()))
        self.assertTrue(of("ab").is_majority({"b"}, {"a"}))

    def test_both(self) -> None:
        """With C{claims: both} each of two decides alone; of three none does."""
        self.assertTrue(of("ab").is_majority({"b"}, (), BOTH))
        self.assertFalse(of("abc").is_majority({"b"}, (), BOTH))

    def test_two_of_three(self) -> None:
        """What is left of three when one was declared dead is no pair: both are needed."""
        self.assertFalse(of("abc").is_majority({"a"}, {"c"}))

    def test_gone_majority(self) -> None:
        """
        Whenever those who are gone could have granted something, one after the other removed,
        without anybody who is left, the others may not know of it.
        """
        self.assertTrue(of("ab").may_forget({"a"}))
        self.assertFalse(of("ab").may_forget({"b"}))
        self.assertTrue(of("ab").may_forget({"b"}, BOTH))
        self.assertFalse(of("ab").may_forget(()))
        for names in ("abc", "abcd", "abcde"):
            electorate = of(names)
            for order in permutations(names):
                gone: set[str] = set()
                could = False
                for name in order[:-1]:
                    before = gone
                    gone = before | {name}
                    grants = majorities(electorate, before)
                    could = could or any(m - before <= gone - before for m in grants)
                    if could:
                        self.assertTrue(electorate.may_forget(gone), (order, gone))

    def test_nobody_left(self) -> None:
        """When all that had a vote are gone, nobody decides before a new beginning."""
        self.assertFalse(of("ab").is_majority(set(), {"a", "b"}))
        self.assertFalse(of("ab").is_majority({"c"}, {"a", "b"}))
        self.assertTrue(of("ab").is_gone({"a", "b"}))
        self.assertFalse(of("ab").is_gone({"a"}))
        self.assertEqual(found([Seat("c", "c")], of("ab")).epoch, 2)

    @given(st.integers(1, 6), st.integers(1, 6))
    def test_always_in_common(self, size: int, other: int) -> None:
        """Two majorities of one electorate, and of one and the next, share a member."""
        first = of("abcdef"[:size])
        second = first.next([Seat(n, n) for n in "fedcba"[:other]])

        for one in majorities(first):
            self.assertTrue(all(one & two for two in majorities(first)))
            if second is not None:
                self.assertTrue(all(one & two for two in majorities(second)))
        if second is not None:
            third = second.next(())
            assert third is not None
            for one in majorities(second):
                self.assertTrue(all(one & two for two in majorities(third)))


class StepTests(SynchronousTestCase):
    """From one to the next."""

    def test_two_steps(self) -> None:
        """A change goes by a time in which both sets are needed."""
        first = of("ab")
        second = first.next([Seat(n, n) for n in "abc"])
        assert second is not None
        third = second.next([Seat("x", "x")])
        assert third is not None

        self.assertTrue(second.changes)
        self.assertEqual(third, Electorate(3, of("abc").sets))
        self.assertIsNone(third.next([Seat(n, n) for n in "cba"]))

    def test_coded(self) -> None:
        """What is written is read again; anything else is refused."""
        second = of("ab").next([Seat("c", "c")])

        self.assertEqual(decode_electorate(encode_electorate(second)), second)
        self.assertIsNone(decode_electorate(encode_electorate(None)))
        for bad in (5, [0, [[["a", "a"]]]], [1, []], [1, [[]]], [1, [[["a", 5]]]], [1, [[5]]]):
            self.assertRaises(WireError, decode_electorate, bad)
