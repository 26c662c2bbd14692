"""
How often somebody may try to join, and what is read of him: each limit and each condition alone.
"""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.replica.joining import (
    IN_ALL,
    MAX_SOURCES,
    MINUTE,
    PER_SOURCE,
    RECORD_BYTES,
    REPLY_HEAD,
    Attempts,
    Channel,
    Record,
    is_pinned,
    make_record,
    make_reply,
    open_reply,
    split_record,
    weak_secret,
)
from saltwisted.errors import WireError
from saltwisted.wire.msgpack import pack_bin

HERE = Channel(b"exporter", "joiner", "acceptor")
SECRET, TOKEN, NONCE = b"s" * 32, b"t" * 16, b"n" * 16


class AttemptsTests(SynchronousTestCase):
    """T-PEER-4."""

    def test_T_PEER_4_one_source(self) -> None:
        """T-PEER-4: one address fails a few times a minute; others are heard meanwhile."""
        tries = Attempts()
        for _ in range(PER_SOURCE):
            self.assertTrue(tries.allowed("192.0.2.1", 5.0))
            self.assertFalse(tries.failed("192.0.2.1", 5.0))

        self.assertFalse(tries.allowed("192.0.2.1", 5.0 + MINUTE - 1))
        self.assertTrue(tries.allowed("192.0.2.2", 5.0))
        self.assertTrue(tries.allowed("192.0.2.1", 5.0 + MINUTE))

    def test_T_PEER_4_all(self) -> None:
        """T-PEER-4: all together fail some times a minute; then nobody is heard for one."""
        tries = Attempts()
        alarms = [tries.failed(f"192.0.2.{n}", 5.0) for n in range(IN_ALL + 10)]

        self.assertEqual(alarms.count(True), 1)
        self.assertFalse(tries.allowed("192.0.2.200", 5.0 + MINUTE - 1))
        self.assertTrue(tries.allowed("192.0.2.200", 5.0 + MINUTE))

    def test_T_PEER_5_sources(self) -> None:
        """T-PEER-5: the table of addresses has an end, and those in it are counted on."""
        tries = Attempts(in_all=10**9)
        for number in range(MAX_SOURCES + 100):
            tries.failed(f"source-{number}", 5.0)
        self.assertEqual(len(tries._sources), MAX_SOURCES)
        for _ in range(PER_SOURCE):
            tries.failed("source-0", 5.0)
        self.assertFalse(tries.allowed("source-0", 5.0))


class RecordTests(SynchronousTestCase):
    """T-PEER-1, T-PEER-2, T-PEER-3: a record, and its answer."""

    def test_T_PEER_1_size(self) -> None:
        """T-PEER-1: a record has its size and its beginning, or it is none."""
        data = make_record(HERE, TOKEN, SECRET, NONCE, {"node": "a"})
        self.assertEqual(len(data), RECORD_BYTES)
        record = split_record(data)
        self.assertTrue(record.proven(HERE, SECRET))
        self.assertEqual(record.fields(), {"node": "a"})
        for bad in (b"", data[:-1], data + b"\0", b"?" + data[1:], bytes(RECORD_BYTES)):
            self.assertRaises(WireError, split_record, bad)
        self.assertRaises(WireError, make_record, HERE, TOKEN, SECRET, NONCE, {"a": "x" * 10_000})
        for fields in ([1], {1: 2}, None):
            body = pack_bin(fields)
            odd = Record(TOKEN, NONCE, b"", len(body).to_bytes(2, "big") + body)
            self.assertRaises(WireError, odd.fields)
        self.assertRaises(WireError, Record(TOKEN, NONCE, b"", b"\0").fields)

    def test_T_REPLAY_4_bound(self) -> None:
        """T-REPLAY-4, T-PEER-3: a proof is good on its connection, between its two ends alone."""
        record = split_record(make_record(HERE, TOKEN, SECRET, NONCE, {}))
        for other in (
            Channel(b"another", "joiner", "acceptor"),
            Channel(b"exporter", "another", "acceptor"),
            Channel(b"exporter", "joiner", "another"),
        ):
            self.assertFalse(record.proven(other, SECRET))
        self.assertFalse(record.proven(HERE, b"x" * 32))

    def test_T_PEER_2_answers(self) -> None:
        """T-PEER-2: an answer is proven, to this record, and a map."""
        data = make_reply(HERE, SECRET, NONCE, {"a": 1})
        _, mac = REPLY_HEAD.unpack_from(data)
        body = data[REPLY_HEAD.size :]
        self.assertEqual(open_reply(HERE, SECRET, NONCE, mac, body), {"a": 1})
        for secret, nonce, proof, text in (
            (b"x" * 32, NONCE, mac, body),
            (SECRET, b"x" * 16, mac, body),
            (SECRET, NONCE, bytes(len(mac)), body),
            (SECRET, NONCE, mac, pack_bin({"a": 2})),
        ):
            self.assertRaises(WireError, open_reply, HERE, secret, nonce, proof, text)
        value = pack_bin([1])
        proof = HERE.proof(SECRET, b"reply", NONCE, value)
        self.assertRaises(WireError, open_reply, HERE, SECRET, NONCE, proof, value)

    def test_T_PEER_4_weak(self) -> None:
        """T-PEER-4: a secret that can be guessed is none."""
        for secret in (None, "", "  ", "secret", "a" * 200, "0123456789abcdef"):
            self.assertNotEqual(weak_secret(secret), "", secret)
        self.assertEqual(weak_secret("0123456789abcdef" * 2 + "f0"), "")

    def test_pinned(self) -> None:
        """T-PEER-3: a pin is the fingerprint in any of its forms, and no part of one."""
        for pin in ("ab:cd", "ABCD", " abcd\n", "sum"):
            self.assertTrue(is_pinned(pin, "ab:cd", ["sum"]), pin)
        for pin in ("", "ab", "ab:ce", "su"):
            self.assertFalse(is_pinned(pin, "ab:cd", ["sum"]), pin)
