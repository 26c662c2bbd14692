"""
What a member prepares before it is removed, and what it says so that nobody can ever say anything
after it: nothing of that outlives its removal.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.links.peers import split_address
from saltwisted.domain.causality.clock import CENTURY, latest_stamp, stamp_at
from saltwisted.domain.causality.knowledge import Dot
from saltwisted.domain.eauth import Token as LoginToken
from saltwisted.domain.replica.book import Book
from saltwisted.domain.replica.certificates import NodeKey
from saltwisted.domain.replica.entry import MAX_NUMBER, MAX_STEP, Entry, Stream, pack_fields
from saltwisted.domain.replica.fold import Fact, Folds, Registers, decode_fact, encode_fact
from saltwisted.domain.replica.identity import Identity
from saltwisted.domain.replica.keyset import KeySet
from saltwisted.domain.replica.logins import LoginTokens, make_body
from saltwisted.domain.replica.membership import READ, Membership
from saltwisted.domain.replica.minions import Minions
from saltwisted.domain.replica.schedule import ScheduleFacts
from saltwisted.domain.replica.secrets import AUTHORITY, IDENTITY, PUBLISH, SESSION, Secrets
from saltwisted.domain.replica.tokens import Tokens, new_token
from saltwisted.errors import WireError
from saltwisted.wire.crypticle import SessionKey
from saltwisted.wire.msgpack import pack_bin, unpack_bin
from tests.wire.recorded import key

EVIL = Stream("evil", "e" * 16)
NOW = 1_800_000_000.0
LAST = (1 << 64) - 1
PUB = b"-----BEGIN PUBLIC KEY-----\nabc\n-----END PUBLIC KEY-----\n"


def said(fold: Any, body: Any, stamp: int = 1, number: int = 1) -> Any:
    """A fact of the member that means ill."""
    return fold.apply(body, stamp, Dot(EVIL, number))


class TokenTests(SynchronousTestCase):
    """What admits nodes, minions and users."""

    def test_T_PEER_9_join_tokens(self) -> None:
        """T-PEER-9: a token that was prepared for what comes after a removal is void after it."""
        tokens = Tokens()
        for ahead in (*range(50), MAX_STEP, MAX_NUMBER):
            token = new_token(os.urandom, pin="0" * 64, expiry=NOW + 1e9)
            said(tokens, {**tokens.create_body(token, "evil"), "epoch": tokens.epoch + ahead})
        self.assertTrue(tokens.any_live(NOW))

        for _ in range(40):
            said(tokens, tokens.void_body(os.urandom))
            self.assertFalse(tokens.any_live(NOW))

    def test_T_PEER_9_epoch(self) -> None:
        """T-PEER-9: nobody brings the epoch to its end, after which nothing could be made void."""
        tokens = Tokens()
        for epoch in (MAX_NUMBER, LAST, MAX_STEP + 1):
            self.assertRaises(WireError, said, tokens, {"op": "void", "id": "*", "epoch": epoch})

        said(tokens, tokens.void_body(os.urandom))
        self.assertTrue(0 < tokens.epoch <= MAX_STEP)

    def test_T_PEER_9_logins(self) -> None:
        """T-PEER-9: a login that was prepared for a later epoch is none in any, and is deleted."""
        logins = LoginTokens()
        made = LoginToken(name="root", eauth="pam", start=0.0, expire=1e300, epoch=7)
        said(logins, make_body("a" * 64, made))

        for epoch in (6, 8):
            self.assertEqual(logins.ended(NOW, epoch, lambda node: node == "evil"), ["a" * 64])
        self.assertEqual(logins.ended(NOW, 7, lambda node: node == "evil"), [])


class SecretTests(SynchronousTestCase):
    """What all nodes share."""

    def body(self, what: str, value: bytes, version: int = 1) -> dict[str, Any]:
        """A version."""
        return {"what": what, "version": version, "value": value, "born": NOW, "floor": 0}

    def test_T_PEER_9_versions(self) -> None:
        """T-PEER-9: after whatever version there is another one, which a removal makes."""
        secrets = Secrets()
        for version in (MAX_NUMBER, (1 << 62) - 1, MAX_STEP + 1):
            body = self.body(SESSION, b"evil", version)
            self.assertRaises(WireError, said, secrets, body)
        said(secrets, self.body(SESSION, b"evil", MAX_STEP))

        said(secrets, secrets.next_body(SESSION, b"good", NOW, refuse_old=True))

        self.assertEqual([each.value for each in secrets.versions(SESSION)], [b"good"])

    def test_T_PEER_9_values(self) -> None:
        """
        T-PEER-9: a value that nodes cannot use is refused, and the one before stays: no node
        would begin with it.
        """
        secrets = Secrets()
        good = {
            PUBLISH: SessionKey.generate(os.urandom).text.encode(),
            AUTHORITY: NodeKey.generate().pem,
            IDENTITY: Identity(b"private", key("master").public.pem.encode()).encode(),
        }
        for what, value in good.items():
            said(secrets, secrets.next_body(what, value, NOW))
            for bad in (b"\xff\xfe", b"x" * 76, b"\x93\x01\x02\x03", os.urandom(300)):
                body = secrets.next_body(what, bad, NOW)
                self.assertRaises(WireError, said, secrets, body)
            self.assertEqual([each.value for each in secrets.versions(what)], [value], what)


class LastWordTests(SynchronousTestCase):
    """Where the last word counts, nobody has it for ever."""

    def setUp(self) -> None:
        self.members, self.schedule = Membership(), ScheduleFacts()
        self.book = Book("good", "1" * 16, Folds([self.members, self.schedule]))
        self.number = 0

    def evil(self, kind: str, body: Any, stamp: int) -> None:
        """An entry of the member that means ill, which is on disk."""
        self.number += 1
        entry = Entry(EVIL, self.number, stamp, kind, pack_fields(body))
        self.book.merged(self.book.take([entry]), NOW)

    def plan(self, name: str) -> dict[str, Any]:
        """An entry of the schedule."""
        return {"key": "job/evil", "data": {"function": name}}

    def job(self) -> Any:
        """What the schedule says."""
        known = self.schedule.registers.get("job/evil")
        return None if known is None else known.data

    def test_T_PEER_9_stamps(self) -> None:
        """
        T-PEER-9: what was stamped with a time far ahead is replaced by whoever has seen it, and
        what nothing could follow is not applied, nor when it is read again.
        """
        self.evil("schedule", self.plan("evil"), stamp_at(NOW + CENTURY))
        self.assertEqual(self.job(), {"function": "evil"})
        self.book.append("schedule", {"key": "job/evil", "data": None}, NOW)
        self.assertIsNone(self.job())

        for stamp in (LAST, latest_stamp(NOW) + 1):
            self.evil("schedule", self.plan("evil"), stamp)
            fact = Fact(self.plan("evil"), stamp, Dot(EVIL, 9))
            self.book.differing([("schedule", fact)], NOW)
            self.book.merged_facts([("schedule", fact)], None, NOW)
        again = Book("good", "1" * 16, self.book.folds)
        entry = Entry(EVIL, 1, LAST, "schedule", pack_fields(self.plan("evil")))
        again.load({EVIL: 1}, {}, {}, [("schedule", fact)], [entry], NOW)

        self.assertIsNone(self.job())
        # A clock that was never set sees the same
        self.assertEqual(latest_stamp(0.0), latest_stamp(1_600_000_000.0))

    def test_T_PEER_9_rights(self) -> None:
        """T-PEER-9: the rights of a member, and what is said about it, can be set again."""
        member, about = "a" * 64, {"addresses": ["evil:1"], "slot": 1, "version": "1"}
        far = stamp_at(NOW + CENTURY)
        self.evil("member", {"op": "rights", "key": member, "rights": [READ]}, far)
        self.evil("member", {"op": "about", "key": member, "about": about}, far)

        rights = ["read", "write", "pillar"]
        self.book.append("member", {"op": "rights", "key": member, "rights": rights}, NOW)
        good = {**about, "addresses": ["good:1"]}
        self.book.append("member", {"op": "about", "key": member, "about": good}, NOW)

        found = self.members.find(member)
        assert found is not None
        self.assertEqual((list(found.rights), found.addresses), (rights, ["good:1"]))

    def test_T_PEER_9_minions(self) -> None:
        """T-PEER-9: the newest version of what is known of a minion can be followed by another."""
        minions = Minions()
        minions.taker = lambda bank, minion_id, data: None
        body = {"b": "grains", "i": "web1", "v": MAX_NUMBER, "d": b"evil"}
        self.assertRaises(WireError, said, minions, body)
        said(minions, {**body, "v": MAX_STEP})

        following = minions.body("grains", "web1", b"good")

        assert following is not None
        self.assertEqual(said(minions, following, number=2), ("grains/web1",))


ODD: list[Any] = [
    None,
    True,
    -1,
    0,
    LAST,
    MAX_NUMBER,
    1.5,
    -1e300,
    1e300,
    float("inf"),
    float("nan"),
    "",
    "x" * 3000,
    "\0",
    "../x",
    "\u00b2",
    "7",
    b"",
    b"\xff" * 70,
    [],
    [None],
    [[]],
    [["a", "0" * 16, LAST]],
    {},
    {"x": None},
    {1: 2},
    {"addresses": ["x:\u00b2", 5, None], "slot": 99, "version": {}, "serves": []},
    [[[[[[[[]]]]]]]],
]


class OddTests(SynchronousTestCase):
    """Facts that are well formed, with contents that no node of ours writes."""

    def bodies(self) -> Iterator[tuple[Registers[Any], dict[str, Any]]]:
        """Of each kind some that are good."""
        member, about = "a" * 64, {"addresses": ["x:1"], "slot": 1, "version": "1", "serves": "x"}
        added = {"node": "n", "public": "00", "by": "b", "token": "t", "wait": False}
        for body in (
            {"op": "add", **added, "about": about, "rights": [READ]},
            {"op": "about", "about": about},
            {"op": "rights", "rights": [READ]},
            {"op": "remove", "by": "b", "left": False},
            *({"op": op} for op in ("approve", "suspend")),
        ):
            yield Membership(), {"key": member, **body}
        tokens = Tokens()
        token = new_token(os.urandom, pin="0" * 64, expiry=NOW)
        yield tokens, tokens.create_body(token, "b", rights=(READ,))
        yield Tokens(), {"op": "use", "id": token.id, "key": "k"}
        yield Tokens(), tokens.void_body(os.urandom)
        yield Secrets(), {"what": SESSION, "version": 1, "value": b"x", "born": 1.0, "floor": 0}
        yield Secrets(), {"what": "banned", "digest": "0" * 64}
        yield ScheduleFacts(), {"key": "job/x", "data": {"function": "x"}}
        made = LoginToken(name="n", eauth="pam", start=0.0, expire=1.0, rules=["x"])
        yield LoginTokens(), make_body("a" * 64, made)
        yield LoginTokens(), {"op": "delete", "id": "a" * 64}
        yield Minions(), {"b": "grains", "i": "web1", "v": 1, "d": b"x"}
        keys = KeySet()
        for act in ("accept", "pend", "clash", "delete", "reject", "deny"):
            yield KeySet(), {**keys.act(act, "web1", PUB, "b"), "pub": PUB}
        said(keys, keys.act("accept", "web1", PUB))
        said(keys, keys.act("delete", "web1", PUB), number=2)
        (fact,) = keys.facts("", keys.of_id("web1")[0])
        yield KeySet(), dict(fact.body)
        yield KeySet(), {"act": "many", "acts": [keys.act("delete", "web2", PUB)]}

    def test_T_PEER_8_odd_facts(self) -> None:
        """
        T-PEER-8: whatever a fact has in place of one of its values, it is refused, or can be
        packed, sent to others and compared as any other.
        """
        wrong: list[str] = []
        for fold, body in self.bodies():
            for name in body:
                for odd in ODD:
                    changed = unpack_bin(pack_bin({**body, name: odd}))
                    try:
                        self.play(type(fold)(), changed)
                    except Exception as error:
                        wrong.append(f"{fold.kind} {name} {odd!r:.40}: {error!r:.200}")
        self.assertEqual(wrong, [], "\n".join(wrong))

    def play(self, fold: Registers[Any], body: Any) -> None:
        """One fact, by all that happens to it."""
        folds = Folds([fold])
        entry = Entry(EVIL, 1, 1, fold.kind, pack_fields(body))
        folds.apply([entry])
        if isinstance(fold, Minions):
            fold.load = lambda bank, minion_id: None
        facts = [encode_fact(fact) for fact in fold.dump()]
        other = type(fold)()
        for row in unpack_bin(pack_bin(facts)):
            other.apply(*decode_fact(row))
        if not isinstance(fold, Minions):
            self.assertEqual(other.digest(), fold.digest(), body)
        list(fold.snapshot())
        fold.expire({EVIL: 9}, {EVIL: 9})
        if isinstance(fold, Membership):
            for member in fold.live():
                _ = (member.slot, member.serves, member.version, member.rights, member.state)
                for address in member.addresses:
                    split_address(address, 1)
            fold.free_slot()
        if isinstance(fold, Tokens):
            _ = (fold.any_live(NOW), fold.overused(), fold.list(), fold.epoch)
            fold.for_minion("web1", "0" * 64, NOW)
            pack_bin(fold.void_body(os.urandom))
        if isinstance(fold, LoginTokens):
            fold.ended(NOW, 0, lambda node: True)
        if isinstance(fold, KeySet):
            for minion_id in fold.ids():
                _ = fold.view(minion_id)
                pack_bin(fold.act("delete", minion_id, PUB))
        if isinstance(fold, Secrets):
            pack_bin(fold.next_body(SESSION, b"x", NOW))
