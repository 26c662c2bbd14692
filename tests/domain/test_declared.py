"""
Members that were declared dead.
"""

from __future__ import annotations

from itertools import permutations

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.causality.knowledge import Dot
from saltwisted.domain.replica.declared import Declared, declared_body
from saltwisted.domain.replica.entry import Stream
from saltwisted.errors import WireError

KEY = "a" * 64
ORIGIN = Dot(Stream("n", "0" * 16), 1)


class DeclaredTests(SynchronousTestCase):
    """The newest word counts."""

    def test_any_order(self) -> None:
        """In whatever order words come, the latest is what holds."""
        words = [
            (declared_body(KEY, True, "root"), 1, ORIGIN),
            (declared_body(KEY, False, "n"), 2, ORIGIN),
            (declared_body(KEY, True, "ann"), 3, ORIGIN),
        ]
        for order in permutations(words):
            declared = Declared()
            for word in order:
                declared.apply(*word)
            self.assertEqual((declared.dead(), declared.why(KEY)), ({KEY}, "ann"))

    def test_back(self) -> None:
        """Who is back is not dead."""
        declared = Declared()
        declared.apply(declared_body(KEY, True, "root"), 1, ORIGIN)
        declared.apply(declared_body(KEY, False, "n"), 2, ORIGIN)

        self.assertEqual((declared.dead(), declared.why(KEY)), (set(), ""))

    def test_rebuilt(self) -> None:
        """Its facts make the same of another."""
        declared, other = Declared(), Declared()
        declared.apply(declared_body(KEY, True, "root"), 1, ORIGIN)
        for fact in declared.dump():
            other.apply(*fact)

        self.assertEqual(other.dead(), {KEY})
        self.assertEqual(other.digest(), declared.digest())

    def test_nonsense(self) -> None:
        """What is no such word changes nothing."""
        declared = Declared()
        for body in ({}, {"key": 5, "dead": True, "by": ""}, {"key": "", "dead": True, "by": ""}):
            self.assertRaises(WireError, declared.apply, body, 1, ORIGIN)
        self.assertEqual(declared.dead(), set())
