"""
Laws of login tokens between nodes: no order of arrival matters, and a deletion is never forgotten.
"""

from __future__ import annotations

from itertools import permutations
from random import Random
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.causality.clock import MAX_AHEAD_SECONDS, HybridClock, stamp_at
from saltwisted.domain.causality.knowledge import Dot
from saltwisted.domain.eauth import Token
from saltwisted.domain.replica.entry import Stream
from saltwisted.domain.replica.fold import decode_fact, encode_fact
from saltwisted.domain.replica.logins import LINGER, LoginTokens, delete_body, make_body
from saltwisted.errors import WireError

modest = settings(
    derandomize=True,
    max_examples=100,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
DIGESTS = ("a" * 64, "b" * 64)
ZERO = "0" * 16
tokens = st.builds(
    Token,
    name=st.sampled_from(["fred", "eve"]),
    eauth=st.just("pam"),
    start=st.just(0.0),
    expire=st.floats(1, 9),
    groups=st.sampled_from([(), ("ops",)]),
    rules=st.sampled_from([None, [".*"]]),
    epoch=st.integers(0, 2),
)
acts = st.tuples(
    st.sampled_from(DIGESTS), st.none() | tokens, st.integers(0, 5), st.sampled_from("abc")
)


def play(acts: list[Any]) -> LoginTokens:
    """A fold that has seen these, each from where it arose."""
    fold = LoginTokens()
    for number, (digest, token, stamp, node) in acts:
        body = delete_body(digest) if token is None else make_body(digest, token)
        fold.apply(body, stamp, Dot(Stream(node, ZERO), number))
    return fold


class LoginLaws(SynchronousTestCase):
    @modest
    @given(st.lists(acts, max_size=8), st.integers(0, 1000))
    def test_join(self, seen: list[Any], seed: int) -> None:
        """Commutative, associative, idempotent; and rebuilt alike from its facts."""
        numbered = list(enumerate(seen, 1))
        mixed = [*numbered, *numbered]
        Random(seed).shuffle(mixed)
        one, other = play(numbered), play(mixed)
        half = len(numbered) // 2
        parts = [play(numbered[:half]), play(numbered[half:])]
        joined = LoginTokens()
        for part in parts:
            for fact in part.dump():
                joined.apply(*decode_fact(encode_fact(fact)))

        self.assertEqual(one.registers, other.registers)
        self.assertEqual(one.registers, joined.registers)

    @modest
    @given(st.lists(acts, min_size=1, max_size=5))
    def test_deletion_outranks(self, seen: list[Any]) -> None:
        """A deletion is never forgotten, whatever comes before, after, or with a higher stamp."""
        numbered = [*enumerate(seen, 2), (1, (DIGESTS[0], None, 0, "c"))]
        for order in list(permutations(numbered))[:60]:
            self.assertIsNone(play(list(order)).registers[DIGESTS[0]].token)

    def test_forgetting(self) -> None:
        """Deletions are forgotten when all have known them for long, and count in no digest."""
        fold = LoginTokens()
        token = Token(name="fred", eauth="pam", start=0.0, expire=100.0, epoch=1)
        fold.apply(make_body(DIGESTS[0], token), 1, Dot(Stream("a", ZERO), 1))
        fold.apply(delete_body(DIGESTS[1]), 1, Dot(Stream("a", ZERO), 2))

        before = fold.digest()
        self.assertEqual(fold.expire({Stream("a", ZERO): 9}, {Stream("a", ZERO): 1}), 0)
        self.assertIn(DIGESTS[1], fold.registers)
        self.assertEqual(fold.expire({Stream("a", ZERO): 9}, {Stream("a", ZERO): 2}), 1)
        self.assertEqual(list(fold.registers), [DIGESTS[0]])
        self.assertEqual(fold.digest(), before)

    def test_void(self) -> None:
        """Tokens that have ended, or are of before a removal, are their maker's to delete."""
        fold = LoginTokens()
        token = Token(name="fred", eauth="pam", start=0.0, expire=100.0, epoch=1)
        fold.apply(make_body(DIGESTS[0], token), 1, Dot(Stream("a", ZERO), 1))

        for now, epoch, node, found in (
            (100.0 + LINGER, 1, "a", []),
            (101.0 + LINGER, 1, "a", [DIGESTS[0]]),
            (101.0 + LINGER, 1, "b", []),
            (1.0, 2, "a", [DIGESTS[0]]),
        ):
            ended = fold.ended(now, epoch, lambda origin, node=node: origin == node)
            self.assertEqual(ended, found)

    def test_nonsense(self) -> None:
        """A body that is none changes nothing."""
        token = Token(name="fred", eauth="pam", start=0.0, expire=100.0)
        good = make_body(DIGESTS[0], token)
        for odd in (
            {"id": "x"},
            {"id": "A" * 64},
            {"op": "fly"},
            {"name": ""},
            {"name": 5},
            {"eauth": None},
            {"expire": float("nan")},
            {"start": "soon"},
            {"groups": "ops"},
            {"groups": [5]},
            {"rules": ".*"},
            {"epoch": True},
        ):
            fold = LoginTokens()
            self.assertRaises(WireError, fold.apply, {**good, **odd}, 1, Dot(Stream("a", ZERO), 1))
            self.assertEqual(fold.registers, {})

    def test_T_TOK_1_skew(self) -> None:
        """T-TOK-1: a clock that lags by up to ten minutes lets no token live longer."""
        clock = HybridClock()
        for behind in (1.0, 300.0, MAX_AHEAD_SECONDS - 1.0):
            clock.observe(stamp_at(10_000.0), 10_000.0 - behind)
            self.assertAlmostEqual(clock.seconds(10_000.0 - behind), 10_000.0)

        self.assertEqual(clock.seconds(20_000.0), 20_000.0)
        self.assertEqual(clock.seconds(1_000.0), 1_000.0, "a clock that was far ahead is over")
