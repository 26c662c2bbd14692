"""
Messages and facts between nodes: what a decoder refuses, each condition alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.causality.knowledge import Dot
from saltwisted.domain.replica import minions, words
from saltwisted.domain.replica.entry import (
    Stream,
    decode_entries,
    decode_stream,
    fields_of,
    finite,
    is_number,
)
from saltwisted.domain.replica.fold import Fact, Folds, Registers, decode_fact, encode_fact
from saltwisted.domain.replica.keyset import MAX_ACTS, MAX_PUB, MAX_SEEN, KeySet, finger_of
from saltwisted.domain.replica.membership import Membership
from saltwisted.domain.replica.minions import BANKS, Minions
from saltwisted.domain.replica.secrets import BANNED, KINDS, MAX_VALUE, Secrets
from saltwisted.domain.replica.words import BucketFacts, Digest, Entries, Known, StatePart, decode
from saltwisted.errors import WireError
from saltwisted.wire.msgpack import pack_bin

STREAM = Stream("a", "0" * 16)
FACT = Fact({"op": "x"}, 5 << 16, Dot(STREAM, 1))
ROW = encode_fact(FACT)
ODD: tuple[Any, ...] = (None, 1.5, "x", b"x", [], {}, True, -1)
"""Values of all types; each test leaves out those that are good."""


def but(*good: type) -> list[Any]:
    """Odd values that are of none of these types."""
    return [value for value in ODD if type(value) not in good]


class _Case(SynchronousTestCase):
    """What decoders raise."""

    def refused(self, decoder: Callable[..., Any], *given: Any) -> str:
        """The word of the refusal."""
        return str(self.assertRaises(WireError, decoder, *given))


class PartTests(_Case):
    """Streams, entries, facts."""

    def test_streams(self) -> None:
        """A stream is a name of one to 255 signs and sixteen hexadecimal digits."""
        self.assertEqual(decode_stream("a" * 255, "0" * 16), Stream("a" * 255, "0" * 16))
        for node in (*but(str), "", "a" * 256):
            self.refused(decode_stream, node, "0" * 16)
        for incarnation in (*but(str), "", "0" * 15, "0" * 17, "g" * 16, "A" * 16, ["0"] * 16):
            self.refused(decode_stream, "a", incarnation)

    def test_entries(self) -> None:
        """Entries are runs of four, each of items of three."""
        item = [5 << 16, "kind", b"body"]
        run = ["a", "0" * 16, 1, [item, item]]
        self.assertEqual([each.number for each in decode_entries([run])], [1, 2])
        for runs in (*but(list), (run,), [tuple(run)], [run[:3]], [[*run, 0]], [None]):
            self.refused(decode_entries, runs)
        for number in (*but(), 0, -1, 1 << 63, 1.0, True):
            self.refused(decode_entries, [[*run[:2], number, run[3]]])
        for items in (*but(list), (item,), [tuple(item)], [item[:2]], [[*item, 0]], [None]):
            self.refused(decode_entries, [[*run[:3], items]])
        for place, values in (
            (0, (*but(), 1 << 64)),
            (1, (*but(str), "", "k" * 65)),
            (2, but(bytes)),
        ):
            for value in values:
                bad = [*item[:place], value, *item[place + 1 :]]
                self.refused(decode_entries, [[*run[:3], [bad]]])

    def test_facts(self) -> None:
        """A fact is a row of five; its body a map of texts."""
        self.assertEqual(decode_fact(ROW), FACT)
        for row in (*but(list), ROW[:4], [*ROW, 0]):
            self.refused(decode_fact, row)
        for place, values in (
            (2, (*but(), 1 << 63)),
            (3, (*but(), 1 << 64)),
            (4, (*but(bytes), pack_bin([]), pack_bin({1: 1}), pack_bin({b"a": 1}))),
        ):
            for value in values:
                self.refused(decode_fact, [*ROW[:place], value, *ROW[place + 1 :]])
        for body in (pack_bin(None), pack_bin({1: 2}), b"\xc1"):
            self.refused(fields_of, body)

    def test_numbers(self) -> None:
        """A number counts from 0; a moment is finite."""
        self.assertEqual([is_number(each) for each in (0, 1)], [True, True])
        self.assertFalse(any(is_number(each) for each in (*ODD, 1 << 63)))
        for value in (*but(float, int), float("inf"), float("nan")):
            self.refused(finite, value)

    def test_folds(self) -> None:
        """A body that a fold cannot read changes nothing; two folds of one kind are a mistake."""
        fold = Membership()
        for body in ({}, {"op": "add"}, {"op": "x", "key": "1" * 64}, {"key": "1" * 64}):
            self.refused(fold.apply, body, 1, Dot(STREAM, 1))
        for key in (*but(str), "", "1" * 63, "g" * 64, "A" * 64):
            self.refused(fold.apply, {"op": "approve", "key": key}, 1, Dot(STREAM, 1))
        self.assertEqual(fold.registers, {})
        folds = Folds()
        folds.add(fold)
        self.assertRaises(ValueError, folds.add, Membership())
        self.assertRaises(NotImplementedError, Registers[Any]().key_of, {})


class WordTests(_Case):
    """Messages."""

    def read(self, **fields: Any) -> Any:
        """The message of these fields."""
        return decode(pack_bin(fields))

    def bad(self, **fields: Any) -> str:
        """Why there is none."""
        return self.refused(decode, pack_bin(fields))

    def test_words(self) -> None:
        """A message is a map with a word that is known, and all its fields."""
        self.assertEqual(self.read(w="known", k=[]), Known({}))
        for value in but(dict):
            self.refused(decode, pack_bin(value))
        for word in (*but(), "Known", b"known"):
            self.bad(w=word, k=[])
        for word in ("hello", "entries", "known", "want", "again", "state", "digest", "buckets"):
            self.bad(w=word)
            for value in (None, 1, "x", {1: 2}):
                self.bad(w=word, k=value, f=value, o=value, e=value, i=value, x=value, n=1, b=1)

    def test_entries(self) -> None:
        """Entries are some."""
        self.assertEqual(self.read(w="entries", e=[]), Entries([]))
        for value in but(list):
            self.bad(w="entries", e=value)

    def test_state(self) -> None:
        """A part of a state has a number, and facts each with its kind."""
        good = ["member", *ROW]
        self.assertEqual(
            self.read(w="state", i=0, x=[good]), StatePart(0, [("member", FACT)], None)
        )
        for number in but():
            self.bad(w="state", i=number, x=[good])
        for rows in (*but(list), [good[:5]], [[*good, 0]], [None], [{}]):
            self.bad(w="state", i=0, x=rows)
        for kind in (*but(str), "", "k" * 65):
            self.bad(w="state", i=0, x=[[kind, *ROW]])

    def test_digest(self) -> None:
        """Digests are bytes, by kind."""
        good: Mapping[str, Any] = {"w": "digest", "k": [], "o": []}
        self.assertEqual(self.read(**good, d={"k": b"1"}), Digest({}, {}, {"k": b"1"}))
        for value in (*but(dict), {1: b"1"}, {"k" * 65: b"1"}, {"": b""}, {"k": "1"}, {"k": None}):
            self.bad(**good, d=value)
        for value in (*but(bytes),):
            self.bad(w="buckets", n="k", b=value)
        for kind in (*but(str), "", "k" * 65):
            self.bad(w="buckets", n=kind, b=b"")

    def test_bucket_facts(self) -> None:
        """Parts of a kind are told by few numbers, each of a part that there is."""
        good: Mapping[str, Any] = {"w": "facts", "n": "k", "a": True}
        found = self.read(**good, x=[ROW], b=[0, words.BUCKETS - 1])
        self.assertEqual(found, BucketFacts("k", [FACT], [0, words.BUCKETS - 1], True))
        for rows in (*but(list), [ROW[:4]], [None]):
            self.bad(**good, x=rows, b=[])
        for buckets in (
            *(*but(list), [-1], [words.BUCKETS], [None], ["1"], [1.0]),
            [0] * (words.BUCKETS + 1),
        ):
            self.bad(**good, x=[], b=buckets)
        self.assertFalse(self.read(w="facts", n="k", a=1, x=[], b=[]).answer)


class BodyTests(_Case):
    """Bodies of members, of secrets and of data from minions."""

    def test_members(self) -> None:
        """A member has texts, a name, and what it says of itself; a slot is one of a hundred."""
        about = {"addresses": ["h:1"], "slot": 3, "version": "1"}
        good: dict[str, Any] = {"op": "add", "key": "1" * 64, "node": "a", "public": "00"}
        good |= {"by": "b", "token": "t", "wait": False, "about": about}
        fold = Membership()
        fold.apply(good, 1, Dot(STREAM, 1))
        self.assertEqual([each.node for each in fold.live()], ["a"])
        for name, values in (
            ("node", (*but(str), "", "n" * 256, "n" * 1025)),
            ("public", (*but(str), "0" * 1025)),
            ("by", (*but(str), "b" * 1025)),
            ("token", (*but(str), "t" * 1025)),
            ("about", but(dict)),
            ("key", (*but(str), "1" * 63, "1" * 65, "g" * 64, "A" * 64, ["1"] * 64)),
            ("op", but()),
        ):
            for value in values:
                self.refused(Membership().apply, {**good, name: value}, 1, Dot(STREAM, 1))
        for name, values in (
            ("slot", (*[each for each in but() if each is not True and each != -1], -2, 100)),
            ("addresses", (*but(list), ["h:1"] * 17)),
        ):
            for value in values:
                bad = {**good, "about": {**about, name: value}}
                self.refused(Membership().apply, bad, 1, Dot(STREAM, 1))
                bad = {"op": "about", "key": "1" * 64, "about": {**about, name: value}}
                self.refused(Membership().apply, bad, 1, Dot(STREAM, 1))

    def test_secrets(self) -> None:
        """A version of a secret has a number, a value and a floor that is not above it."""
        good = {"what": KINDS[0], "version": 3, "value": b"x", "born": 1, "floor": 1}
        fold = Secrets()
        fold.apply(good, 1, Dot(STREAM, 1))
        self.assertEqual([each.version for each in fold.versions(KINDS[0])], [3])
        for name, values in (
            ("what", but()),
            ("version", (*[each for each in but() if each is not True], 0, 1 << 62)),
            ("floor", (*[each for each in but() if each is not True], 4)),
            ("value", (*but(bytes), b"", b"x" * (MAX_VALUE + 1))),
            ("born", (*but(float, int), float("inf"))),
        ):
            for value in values:
                self.refused(Secrets().apply, {**good, name: value}, 1, Dot(STREAM, 1))
        for digest in (*but(str), "", "0" * 63, "0" * 65, ["0"] * 64):
            self.refused(Secrets().apply, {"what": BANNED, "digest": digest}, 1, Dot(STREAM, 1))

    def test_minions(self) -> None:
        """A value has a bank, a minion and a number; a digest alone comes from our own disk."""
        good = {"b": BANKS[0], "i": "web1", "v": 1, "d": b"x"}
        fold = Minions()
        fold.apply(good, 1, Dot(STREAM, 1))
        self.assertEqual(len(fold.registers), 1)
        for name, values in (
            ("b", but()),
            ("i", (*but(str), "", "../x", "a/b")),
            ("v", (*but(), 1 << 63)),
            ("d", [each for each in but(bytes) if each is not None]),
        ):
            for value in values:
                self.refused(Minions().apply, {**good, name: value}, 1, Dot(STREAM, 1))
        self.patch(minions, "MAX_DATA", 10)
        Minions().apply({**good, "d": b"x" * 10}, 1, Dot(STREAM, 1))
        self.refused(Minions().apply, {**good, "d": b"x" * 11}, 1, Dot(STREAM, 1))
        own = {"b": BANKS[0], "i": "web1", "v": 1, "h": b"1" * 16}
        fold = Minions()
        fold.apply(own, 1, Dot(STREAM, 1))
        for value in but(bytes):
            self.refused(Minions().apply, {**own, "h": value}, 1, Dot(STREAM, 1))
        fold.taker = lambda bank, minion, data: None
        self.refused(fold.apply, {**own, "v": 2}, 2, Dot(STREAM, 2))


class KeyTests(_Case):
    """Bodies of acts on minion keys, and of what is known of one."""

    pub = b"a key\n"
    good: Mapping[str, Any] = {
        "act": "accept", "id": "web1", "fp": finger_of(pub), "pub": pub, "seen": [], "by": "b",
    }  # fmt: skip
    state: Mapping[str, Any] = {
        "act": "state", "id": "web1", "fp": finger_of(pub), "pub": pub,
        "seen": [["a", "0" * 16, 2]],
        "open": [["a", "0" * 16, 2, "deny", 5 << 16, "a", "b"]],
        "grants": [["accept", 5 << 16, "a", "b"]],
    }  # fmt: skip

    def bad(self, body: Any, number: int = 3) -> str:
        """Why this is none."""
        return self.refused(KeySet().apply, body, 5 << 16, Dot(STREAM, number))

    def test_acts(self) -> None:
        """An act has a minion, a key, and what it had seen: neither itself nor what comes later."""
        fold = KeySet()
        self.assertEqual(fold.apply(self.good, 5 << 16, Dot(STREAM, 3)), ("web1",))
        many = [["a", f"{number:016x}", 1] for number in range(MAX_SEEN + 1)]
        fold.apply({**self.good, "seen": many[1:]}, 5 << 16, Dot(STREAM, 4))
        for name, values, why in (
            ("id", (*but(str), "", "../x"), "key-id"),
            ("fp", but(str), "key-id"),
            ("fp", ("", "0" * 129, "g" * 64, "A" * 64, "a/b"), "key-finger"),
            ("fp", ("0" * 64,), "key-finger"),
            ("pub", (*but(bytes), b"x" * (MAX_PUB + 1)), "key-pub"),
            ("by", but(str), "key-by"),
            ("seen", (*but(list), tuple(many[:1]), many), "key-seen"),
            ("act", ("x", "", 5, None), "key-act"),
        ):
            for value in values:
                self.assertEqual(self.bad({**self.good, name: value}), why, (name, value))
        for finger in ("", "0" * 129, "g" * 64, "A" * 64, "a/b"):
            bad = {**self.good, "act": "delete", "fp": finger, "pub": b""}
            self.assertEqual(self.bad(bad), "key-finger", "whether the key is there or not")
        for number in (*but(), 0, -1, 1.0, True):
            seen = [["a", "0" * 16, number]]
            self.assertEqual(self.bad({**self.good, "seen": seen}), "key-seen")

    def test_revocations(self) -> None:
        """A revocation is an entry, and has seen what came before it."""
        body = {**self.good, "act": "deny"}
        self.assertEqual(self.bad(body, 0), "key-act")
        for number, seen in ((3, 3), (3, 4)):
            bad = {**body, "seen": [["a", "0" * 16, seen]]}
            self.assertEqual(self.bad(bad, number), "key-seen")
        KeySet().apply({**body, "seen": [["a", "0" * 16, 2]]}, 5 << 16, Dot(STREAM, 3))

    def test_many(self) -> None:
        """Of several acts each is one of a key, and no key has two."""
        other = {**self.good, "id": "web2"}
        fold = KeySet()
        both = {"act": "many", "acts": [self.good, other]}
        self.assertEqual(fold.apply(both, 5 << 16, Dot(STREAM, 3)), ["web1", "web2"])
        for acts in (
            *(
                *but(list),
                (self.good, other),
                [self.good] * 2,
                [self.good, {**other, "id": "../x"}],
            ),
            *([self.good, value] for value in but()),
            *([self.good, {**other, "act": act}] for act in ("many", "state", "x", None)),
            [{"act": "deny"}],
            [{**self.good, "id": f"web{number}"} for number in range(MAX_ACTS + 1)],
        ):
            fold = KeySet()
            self.refused(fold.apply, {"act": "many", "acts": acts}, 5 << 16, Dot(STREAM, 3))
            self.assertEqual(fold.registers, {}, "all or none")

    def test_states(self) -> None:
        """What is known of a key names revocations that were seen, and who did what when."""
        KeySet().apply(self.state, 0, Dot(STREAM, 0))
        (opened,), (grant,) = self.state["open"], self.state["grants"]
        for place, values, why in (
            (2, (*but(), 1, 3, 2.0), "key-open"),
            (3, ("accept", "x", None), "key-open"),
            (4, (*but(), 1 << 64), "key-mark"),
            (5, but(str), "key-mark"),
            (6, but(str), "key-mark"),
        ):
            for value in values:
                bad = [*opened[:place], value, *opened[place + 1 :]]
                self.assertEqual(self.bad({**self.state, "open": [bad]}), why, (place, value))
        for act in ("deny", "x", None):
            bad = [act, *grant[1:]]
            self.assertEqual(self.bad({**self.state, "grants": [bad]}), "key-grant", act)
        for place, values in ((1, (*but(), 1 << 64)), (2, but(str)), (3, but(str))):
            for value in values:
                bad = [*grant[:place], value, *grant[place + 1 :]]
                self.assertEqual(self.bad({**self.state, "grants": [bad]}), "key-mark", value)
