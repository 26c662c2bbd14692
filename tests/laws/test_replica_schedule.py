"""
Laws of what nodes know of the schedule: no order of arrival matters, and the last word counts.
"""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.causality.knowledge import Dot
from saltwisted.domain.replica.entry import Stream
from saltwisted.domain.replica.fold import decode_fact, encode_fact
from saltwisted.domain.replica.schedule import LARGEST, LONGEST_KEY, ScheduleFacts
from saltwisted.errors import WireError

modest = settings(
    derandomize=True,
    max_examples=100,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
ZERO = "0" * 16
keys = st.sampled_from(["job/a", "ran/a", "pause", "pause/a"])
data = st.none() | st.dictionaries(st.sampled_from("xy"), st.integers(0, 3), max_size=2)
acts = st.tuples(keys, data, st.integers(0, 5), st.sampled_from("abc"))


def play(acts: list[Any]) -> ScheduleFacts:
    """A fold that has seen these, each from where it arose."""
    fold = ScheduleFacts()
    for number, (key, value, stamp, node) in acts:
        fold.apply({"key": key, "data": value}, stamp, Dot(Stream(node, ZERO), number))
    return fold


class ScheduleLaws(SynchronousTestCase):
    """Of the fold."""

    @modest
    @given(st.lists(acts, max_size=8), st.integers(0, 1000))
    def test_join(self, seen: list[Any], seed: int) -> None:
        """Commutative, associative, idempotent; and rebuilt alike from its facts."""
        numbered = list(enumerate(seen, 1))
        mixed = [*numbered, *numbered]
        Random(seed).shuffle(mixed)
        one, other = play(numbered), play(mixed)
        half = len(numbered) // 2
        joined = ScheduleFacts()
        for part in (play(numbered[:half]), play(numbered[half:])):
            for fact in part.dump():
                joined.apply(*decode_fact(encode_fact(fact)))

        self.assertEqual(one.registers, other.registers)
        self.assertEqual(one.registers, joined.registers)
        self.assertEqual(one.digest(), other.digest())

    def test_forgetting(self) -> None:
        """What was dropped is forgotten when all have known it for long; no digest has it."""
        fold = play([(1, ("job/a", {"x": 1}, 1, "a")), (2, ("job/b", None, 2, "a"))])
        before = fold.digest()

        self.assertEqual(fold.expire({}, {Stream("a", ZERO): 1}), 0)
        self.assertEqual(fold.expire({}, {Stream("a", ZERO): 2}), 1)

        self.assertEqual(list(fold.registers), ["job/a"])
        self.assertEqual(fold.digest(), before)

    def test_refused(self) -> None:
        """A body that is none, too long or too large changes nothing."""
        fold = ScheduleFacts()
        for body in (
            {},
            {"key": "job/a"},
            {"key": 5, "data": None},
            {"key": "other/a", "data": {}},
            {"key": "job/" + "x" * LONGEST_KEY, "data": {}},
            {"key": "job/a", "data": [1]},
            {"key": "job/a", "data": {"x": "y" * LARGEST}},
        ):
            with self.assertRaises(WireError):
                fold.apply(body, 1, Dot(Stream("a", ZERO), 1))
        self.assertEqual(fold.registers, {})
