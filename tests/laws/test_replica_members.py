"""
Laws of membership, tokens and secrets: every order of arrival ends alike, and what is removed,
revoked or refused stays so.
"""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.causality.knowledge import Dot
from saltwisted.domain.replica.entry import Stream, finite
from saltwisted.domain.replica.fold import Fact, Registers, decode_fact, encode_fact
from saltwisted.domain.replica.membership import PILLAR, READ, REMOVED, RIGHTS, WRITE, Membership
from saltwisted.domain.replica.secrets import BANNED, KINDS, Secrets
from saltwisted.domain.replica.tokens import (
    ID_BYTES,
    PREFIX,
    SECRET_BYTES,
    Tokens,
    new_token,
    parse,
)
from saltwisted.errors import WireError
from saltwisted.wire.msgpack import pack_bin

modest = settings(
    derandomize=True,
    max_examples=150,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
keys = st.sampled_from(["1" * 64, "2" * 64, "3" * 64])
abouts = st.fixed_dictionaries(
    {
        "addresses": st.lists(st.sampled_from(["h:1", "h:2"]), max_size=2),
        "slot": st.integers(-1, 3),
        "version": st.sampled_from(["1", "2"]),
    }
)
rights = st.sampled_from([[READ], [READ, WRITE], [READ, PILLAR], [*RIGHTS]])
member_bodies = st.one_of(
    st.fixed_dictionaries(
        {
            "op": st.just("add"),
            "key": keys,
            "node": st.sampled_from(["a", "b"]),
            "public": st.sampled_from(["00", "11"]),
            "by": st.sampled_from(["a", "b"]),
            "token": st.just("t"),
            "wait": st.booleans(),
            "about": abouts,
        },
        optional={"rights": rights},
    ),
    st.fixed_dictionaries({"op": st.just("rights"), "key": keys, "rights": rights}),
    st.fixed_dictionaries({"op": st.sampled_from(["approve", "suspend"]), "key": keys}),
    st.fixed_dictionaries({"op": st.just("about"), "key": keys, "about": abouts}),
    st.fixed_dictionaries(
        {"op": st.just("remove"), "key": keys, "by": st.just("root"), "left": st.booleans()}
    ),
)
ids = st.sampled_from(["a" * 32, "b" * 32])
token_bodies = st.one_of(
    st.fixed_dictionaries(
        {
            "op": st.just("create"),
            "id": ids,
            "secret": st.binary(min_size=16, max_size=16),
            "expiry": st.integers(0, 100),
            "uses": st.integers(1, 2),
            "role": st.just("master"),
            "pattern": st.just(""),
            "wait": st.booleans(),
            "by": st.just("root"),
            "epoch": st.integers(0, 2),
        }
    ),
    st.fixed_dictionaries({"op": st.just("use"), "id": ids, "key": keys}),
    st.fixed_dictionaries({"op": st.just("revoke"), "id": ids}),
    st.fixed_dictionaries({"op": st.just("void"), "id": st.just("*"), "epoch": st.integers(0, 3)}),
)


@st.composite
def secret_bodies(draw: Any) -> dict[str, Any]:
    """A version of a secret, or a ban."""
    if draw(st.booleans()):
        version = draw(st.integers(1, 5))
        return {
            "what": draw(st.sampled_from(KINDS)),
            "version": version,
            "value": draw(st.binary(min_size=1, max_size=2)),
            "born": draw(st.integers(0, 3)),
            "floor": draw(st.integers(0, version)),
        }
    return {"what": BANNED, "digest": draw(st.sampled_from(["0" * 64, "1" * 64]))}


class AnySecrets(Secrets):
    """The fold without a look at what values are good for: how facts are joined is its own law."""

    def __init__(self) -> None:
        super().__init__(lambda what, value: None)


def facts(bodies: Any) -> Any:
    """Facts with these bodies; each place in a stream has one body, as in a log."""
    rows = st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 3), bodies), min_size=1, max_size=12
    )
    return rows.map(
        lambda found: [
            Fact(body, stamp << 16, Dot(Stream(node, "0" * 16), number))
            for number, (node, stamp, body) in enumerate(found, 1)
        ]
    )


def folded(kind: type[Registers[Any]], given_facts: Sequence[Fact]) -> Registers[Any]:
    """A fold of these."""
    fold = kind()
    for fact in given_facts:
        fold.apply(*fact)
    return fold


class Laws(SynchronousTestCase):
    """What holds for each of the three."""

    def law(self, kind: type[Registers[Any]], given_facts: list[Fact], data: Any) -> None:
        """Order, repetition, grouping and a snapshot make no difference."""
        whole = folded(kind, given_facts)

        shuffled = data.draw(st.permutations(given_facts))
        self.assertEqual(folded(kind, shuffled).digest(), whole.digest())
        self.assertEqual(folded(kind, shuffled).registers, whole.registers)
        self.assertEqual(folded(kind, given_facts * 2).registers, whole.registers)

        cut = data.draw(st.integers(0, len(given_facts)))
        part = folded(kind, shuffled[:cut])
        snapshot = [decode_fact(encode_fact(fact)) for fact in part.dump()]
        self.assertEqual(folded(kind, snapshot).registers, part.registers)
        joined = folded(kind, [*shuffled[cut:], *snapshot])
        self.assertEqual(joined.registers, whole.registers)

    @modest
    @given(facts(member_bodies), st.data())
    def test_membership(self, given_facts: list[Fact], data: Any) -> None:
        """Membership is a join, and a removal outranks everything, before and after it."""
        self.law(Membership, given_facts, data)

        fold = folded(Membership, given_facts)
        assert isinstance(fold, Membership)
        for fact in given_facts:
            if fact.body["op"] == "remove":
                member = fold.find(fact.body["key"])
                assert member is not None
                self.assertIn(member.state, (REMOVED, "left"))
                self.assertFalse(fold.is_member(member.key))

    @modest
    @given(facts(token_bodies), st.data())
    def test_tokens(self, given_facts: list[Fact], data: Any) -> None:
        """Tokens are a join; a revoked, void or used one admits nobody."""
        self.law(Tokens, given_facts, data)

        fold = folded(Tokens, given_facts)
        assert isinstance(fold, Tokens)
        for fact in given_facts:
            if fact.body["op"] == "revoke":
                self.assertFalse(fold.is_live(fact.body["id"], 0))
        for known in fold.list().values():
            self.assertLessEqual(len(known.admitted()), known.uses)

    @modest
    @given(facts(secret_bodies()), st.data())
    def test_secrets(self, given_facts: list[Fact], data: Any) -> None:
        """Secrets are a join; nothing below a floor is ever accepted."""
        self.law(AnySecrets, given_facts, data)

        fold = folded(AnySecrets, given_facts)
        assert isinstance(fold, AnySecrets)
        for fact in given_facts:
            if fact.body["what"] != BANNED:
                held = fold.versions(fact.body["what"])
                self.assertTrue(all(each.version >= fact.body["floor"] for each in held))
                self.assertLessEqual(len(held), 2)

    @modest
    @given(st.randoms(use_true_random=False), st.text(max_size=60))
    def test_token_line(self, dice: Any, junk: str) -> None:
        """A token survives its line; a bent line, or any other text, is told from one."""
        token = new_token(
            dice.randbytes, pin="ab" * 32, expiry=2e9, cluster="00ff", peers=("h:1", "[::1]:2")
        )
        line = token.line

        self.assertEqual(parse(f"  {line}\n"), token)
        self.assertNotIn(" ", line)
        place = dice.randrange(5, len(line))
        other = "A" if line[place] != "A" else "B"
        for bad in (line[:place] + other + line[place + 1 :], line[:place], junk):
            try:
                self.assertEqual(parse(bad), token)  # the last character has spare bits
            except WireError:
                continue


KEY = "1" * 64
ODD = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=4)
    | st.binary(max_size=4) | st.sampled_from(["*", "create", "void", "use", "revoke", "add",
                                               "about", "ab" * 8, b"\2" * 16, b"\2" * 32]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=4,
)  # fmt: skip


class OddTests(SynchronousTestCase):
    """Values of any type."""

    @modest
    @given(st.lists(st.tuples(st.integers(0, 8), ODD), max_size=3))
    @example([(3, float("inf"))])
    @example([(3, float("nan"))])
    @example([(4, float("inf"))])
    @example([(1, 2**40)])
    def test_token(self, changes: list[tuple[int, Any]]) -> None:
        """A whole line with odd values in it is a token that has a line, or none."""
        row: list[Any] = [b"\1" * ID_BYTES, b"\2" * SECRET_BYTES, b"\3" * 32, 2e9, 1, "master"]
        row += ["", "00ff", ["h:1"]]
        for place, value in changes:
            row[place] = value
        try:
            body = pack_bin(row)
        except (OverflowError, ValueError, TypeError):
            return
        word = urlsafe_b64encode(hashlib.sha256(body).digest()[:4] + body).decode("ascii")
        try:
            found = parse(PREFIX + word.rstrip("="))
        except WireError:
            return
        self.assertTrue(found.line.startswith(PREFIX))

    @modest
    @given(
        st.dictionaries(
            st.sampled_from(["op", "id", "key", "node", "public", "by", "token", "wait", "about",
                             "rights", "secret", "expiry", "uses", "role", "pattern", "epoch",
                             "what", "version", "value", "floor", "born", "digest"]),
            ODD,
        )
    )  # fmt: skip
    @example({"op": "void", "id": "*", "epoch": float("inf")})
    def test_bodies(self, body: dict[str, Any]) -> None:
        """A fact with odd values is taken or refused, and what is taken can be told again."""
        for fold in (Membership(), Tokens(), Secrets()):
            try:
                fold.apply(body, 1, Dot(Stream("n", "0" * 16), 1))
            except WireError:
                continue
            for fact in fold.dump():
                self.assertIsInstance(fact.body, dict)

    def test_moments(self) -> None:
        """A moment is finite: others are neither before nor after one another."""
        for value in (float("inf"), float("nan"), True, "1", None):
            with self.assertRaises(WireError):
                finite(value)
        self.assertEqual(finite(5), 5.0)


class RightsTests(SynchronousTestCase):
    """Somebody is left who may write, has pillars, and may write those."""

    def added(self, fold: Membership, number: int, **more: Any) -> None:
        """A member of one key, added at some place."""
        body = {"op": "add", "key": KEY, "node": "a", "public": "", "by": "", "token": ""}
        body.update({"wait": False, "about": {}, **more})
        fold.apply(body, number, Dot(Stream("n", "0" * 16), number))

    def again(self, fold: Membership) -> Membership:
        """What another node makes of its snapshot."""
        other = Membership()
        for fact in fold.dump():
            other.apply(*decode_fact(encode_fact(fact)))
        self.assertEqual(other.registers, fold.registers)
        return other

    def test_T_GIT_10_snapshot(self) -> None:
        """
        T-GIT-10: a member that was added with fewer rights has no more of them after a snapshot,
        nor one whose rights were changed later; and what an operator sets after the snapshot holds.
        """
        fold = Membership()
        self.added(fold, 1, rights=[READ])
        self.assertEqual(fold.live()[0].rights, (READ,))
        fold = self.again(fold)
        self.assertEqual(fold.live()[0].rights, (READ,))
        self.assertFalse(fold.may("a", PILLAR))
        self.assertFalse(fold.all_may(WRITE))

        for number, given_rights in enumerate(([READ, WRITE], [READ, PILLAR], [READ], RIGHTS), 2):
            body = {"op": "rights", "key": KEY, "rights": list(given_rights)}
            fold.apply(body, number, Dot(Stream("n", "0" * 16), number))
            self.assertEqual(fold.live()[0].rights, tuple(given_rights))
            fold = self.again(fold)
            self.assertEqual(fold.live()[0].rights, tuple(given_rights))

    def test_newest(self) -> None:
        """Of two changes of the rights the later one holds, in whatever order they come."""
        for order in ((3, 4), (4, 3)):
            fold = Membership()
            self.added(fold, 1)
            for number in order:
                body = {"op": "rights", "key": KEY, "rights": [READ, WRITE][: number - 2]}
                fold.apply(body, number, Dot(Stream("n", "0" * 16), number))
            self.assertEqual(fold.live()[0].rights, (READ, WRITE), order)

    def test_wrong(self) -> None:
        """Rights that are none, that are said twice too often, or that lack reading are refused."""
        for odd in (
            *(None, "read", {READ: 1}, [], [WRITE], [PILLAR, WRITE], [READ, "root"], [READ, 1]),
            [READ, WRITE, PILLAR, READ],
        ):
            fold = Membership()
            self.assertRaises(WireError, self.added, fold, 1, rights=odd)
            self.added(fold, 1)
            body = {"op": "rights", "key": KEY, "rights": odd}
            self.assertRaises(WireError, fold.apply, body, 2, Dot(Stream("n", "0" * 16), 2))
            self.assertEqual(fold.live()[0].rights, RIGHTS)

    def test_last(self) -> None:
        """Who is the last of a kind stays so."""
        fold = Membership()
        given: list[tuple[str, tuple[str, ...]]] = [
            ("1" * 64, RIGHTS),
            ("2" * 64, (READ, WRITE)),
            ("3" * 64, (READ, PILLAR)),
        ]
        for number, (key, rights) in enumerate(given):
            body = {"op": "add", "key": key, "node": key[0], "public": "", "by": "", "token": ""}
            body.update({"wait": False, "about": {}, "rights": list(rights)})
            fold.apply(body, number, Dot(Stream("n", "0" * 16), number + 1))
        one, two, three = fold.live()

        self.assertIn("write pillars", fold.why_not_rights(one, (READ, WRITE)))
        self.assertIn("write pillars", fold.why_not_rights(one, (READ, PILLAR)))
        self.assertEqual(fold.why_not_rights(two, (READ,)), "")
        self.assertEqual(fold.why_not_rights(three, (READ,)), "")
        out = {"op": "remove", "key": one.key, "by": "", "left": True}
        fold.apply(out, 9, Dot(Stream("n", "0" * 16), 9))
        self.assertIn("may write", fold.why_not_rights(two, (READ,)))
        self.assertIn("with pillars", fold.why_not_rights(three, (READ,)))
        self.assertEqual(fold.why_not_rights(two, RIGHTS), "")
        self.assertEqual(fold.why_not_rights(three, (READ, WRITE, PILLAR)), "")
