"""
Tokens that minions show, and tokens that stand for minions by their ids.
"""

from __future__ import annotations

import hashlib
import os
from base64 import urlsafe_b64encode
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.causality.knowledge import Dot
from saltwisted.domain.replica.entry import Stream
from saltwisted.domain.replica.tokens import (
    ID_BYTES,
    PREFIX,
    SECRET_BYTES,
    Token,
    Tokens,
    minion_use,
    new_token,
    parse,
    prove_minion,
)
from saltwisted.errors import WireError
from saltwisted.wire.msgpack import pack_bin

NOW = 1_700_000_000.0
FINGER = "f" * 64


def _line(row: list[Any]) -> str:
    """A line with this in it."""
    body = pack_bin(row)
    word = urlsafe_b64encode(hashlib.sha256(body).digest()[:4] + body).decode("ascii")
    return PREFIX + word.rstrip("=")


class MinionTokenTests(SynchronousTestCase):
    """One fold, on one node."""

    def setUp(self) -> None:
        self.tokens = Tokens()
        self.number = 0

    def apply(self, body: dict[str, Any]) -> None:
        """In the order of the calls."""
        self.number += 1
        self.tokens.apply(body, self.number, Dot(Stream("a", "0" * 16), self.number))

    def token(self, **terms: Any) -> Token:
        """A live one."""
        values = {"pin": "0" * 64, "expiry": NOW + 60, "role": "minion", **terms}
        token = new_token(os.urandom, **values)
        self.apply(self.tokens.create_body(token, "me"))
        return parse(token.line)

    def proven(self, token: Token, **changes: Any) -> bool:
        """What a node says to C{web1} that proves this token."""
        made = {"minion_id": "web1", "pub": "PUB", "nonce": "n", **changes}
        mac = prove_minion(changes.get("secret", token.secret), "web1", "PUB", "n").hex()
        asked = {name: value for name, value in made.items() if name != "secret"}
        asked.setdefault("finger", FINGER)
        asked.setdefault("now", NOW)
        return self.tokens.proven_by_minion(token.id, mac, **asked)

    def use(self, token: Token, minion_id: str, finger: str = FINGER) -> None:
        """It was accepted by it."""
        self.apply({"op": "use", "id": token.id, "key": minion_use(minion_id, finger)})

    def test_proof(self) -> None:
        """The proof is worth something for its id, its key and its sign-in alone."""
        token = self.token()

        self.assertTrue(self.proven(token))
        for changes in (
            {"minion_id": "web2"},
            {"pub": "OTHER"},
            {"nonce": "m"},
            {"secret": bytes(16)},
            {"now": NOW + 61},
        ):
            self.assertFalse(self.proven(token, **changes), changes)
        self.assertNotIn(token.secret, prove_minion(token.secret, "web1", "PUB", "n"))

    def test_terms(self) -> None:
        """Pattern, role, revocation and the removal of a node count."""
        self.assertFalse(self.proven(self.token(pattern="db*")))
        self.assertTrue(self.proven(self.token(pattern="web*")))
        self.assertFalse(self.proven(self.token(role="master")))
        revoked, void = self.token(), self.token()
        self.apply({"op": "revoke", "id": revoked.id})
        self.assertFalse(self.proven(revoked))
        self.assertTrue(self.proven(void))
        self.apply(self.tokens.void_body(os.urandom))
        self.assertFalse(self.proven(void))
        self.assertFalse(self.tokens.proven_by_minion("0" * 32, "", "a", "b", "c", "d", NOW))

    def test_bodies(self) -> None:
        """A fact of a token names it by its id, does what is known, and creates a whole secret."""
        good = self.tokens.create_body(new_token(os.urandom, pin="0" * 64, expiry=NOW), "me")
        for name, values in (
            ("id", (None, 5, "", "0" * 31, "0" * 33, b"0" * 32, ["0"] * 32)),
            ("op", (None, "", "Create", "delete", 5)),
            ("secret", (None, "x" * SECRET_BYTES, b"", b"x" * (SECRET_BYTES - 1), [1])),
            ("secret", (b"x" * (SECRET_BYTES + 1),)),
        ):
            for value in values:
                self.assertRaises(WireError, self.apply, {**good, name: value})
        self.assertEqual(self.tokens.registers, {})
        self.apply(dict(good))
        self.assertEqual(list(self.tokens.registers), [good["id"]])

    def test_line(self) -> None:
        """A line of another beginning, or of more than anybody types, is no token."""
        terms = {"pin": "0" * 64, "expiry": NOW, "role": "minion"}
        line = new_token(os.urandom, **terms).line
        self.assertEqual(parse(f" {line}\n").line, line)
        for bad in ("x" * len(PREFIX) + line[len(PREFIX) :], line[len(PREFIX) :], PREFIX, ""):
            self.assertRaises(WireError, parse, bad)
        for place in range(len(PREFIX), len(line) - 1):
            other = "A" if line[place] != "A" else "B"
            self.assertRaises(WireError, parse, line[:place] + other + line[place + 1 :])
        long = new_token(os.urandom, **terms, peers=("h" * 200,) * 20).line
        self.assertGreater(len(long), 4096)
        self.assertRaises(WireError, parse, long)

    def test_parts_of_a_line(self) -> None:
        """What a line has in it are sixteen bytes, a secret and a pin, each of its length."""
        good: list[Any] = [b"1" * ID_BYTES, b"2" * SECRET_BYTES, b"3" * 32, NOW, 1, "master"]
        good += ["", "00ff", ["h:1"]]
        self.assertEqual(parse(_line(good)).id, (b"1" * ID_BYTES).hex())
        for place, values in (
            (0, (b"1" * (ID_BYTES - 1), b"1" * (ID_BYTES + 1), b"", "1" * ID_BYTES, None)),
            (1, (b"2" * (SECRET_BYTES - 1), b"2" * (SECRET_BYTES + 1), "2" * SECRET_BYTES, None)),
            (2, (b"3" * 31, b"3" * 33, b"", "3" * 32, None)),
            (3, (None, "soon", float("inf"))),
            (8, (None, 5)),
        ):
            for value in values:
                self.assertRaises(
                    WireError, parse, _line([*good[:place], value, *good[place + 1 :]])
                )
        self.assertRaises(WireError, parse, _line(good[:-1]))
        self.assertRaises(WireError, parse, _line([*good, 1]))

    def test_used_up(self) -> None:
        """Used up for others; the same key may ask another node, another key of the id may not."""
        token = self.token()
        self.use(token, "web1")

        self.assertTrue(self.proven(token))
        self.assertFalse(self.proven(token, finger="0" * 64))
        self.assertFalse(self.proven(token, finger="0" * 64, now=NOW + 61))

    def test_too_many(self) -> None:
        """Of two that used the last use on two sides of a partition, the earlier counts."""
        token = self.token()
        self.use(token, "web1")
        self.use(token, "web2", "2" * 64)

        self.assertTrue(self.proven(token))
        late = minion_use("web2", "2" * 64)
        self.assertEqual(self.tokens.overused("minion"), [(token.id, late)])
        self.assertEqual(self.tokens.overused(), [])
        mac = prove_minion(token.secret, "web2", "PUB", "n").hex()
        self.assertFalse(
            self.tokens.proven_by_minion(token.id, mac, "web2", "PUB", "n", "2" * 64, NOW)
        )

    def test_by_id(self) -> None:
        """Only a token with a pattern stands for who shows none, as often as it says."""
        self.token()
        self.assertEqual(self.tokens.for_minion("web1", FINGER, NOW), "")
        token = self.token(pattern="web*", uses=2)

        self.assertEqual(self.tokens.for_minion("web1", FINGER, NOW), token.id)
        self.assertEqual(self.tokens.for_minion("db1", FINGER, NOW), "")
        self.use(token, "web1")
        self.use(token, "web2", "2" * 64)
        self.assertEqual(self.tokens.for_minion("web1", FINGER, NOW), token.id)
        # The key was deleted, and the machine made again: that takes another use
        self.assertEqual(self.tokens.for_minion("web1", "3" * 64, NOW), "")
