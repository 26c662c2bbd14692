from __future__ import annotations

import hashlib
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.errors import AuthenticationError, WireError
from saltwisted.wire.crypticle import SessionKey
from saltwisted.wire.msgpack import pack, unpack_raw
from saltwisted.wire.publication import (
    decode_publication,
    open_job,
    parse_job,
    seal_job,
    sign_blob,
    topic_of,
    verify_publication,
)
from tests.wire.recorded import VERSIONS, Dice, key, plain, private, recorded

JOB: dict[str, Any] = {"fun": "test.ping", "arg": [], "tgt": "*", "jid": "20260102030405678901"}
IV = bytes(16)


class RecordedTests(SynchronousTestCase):
    def test_frames_of_salt(self) -> None:
        """Recorded publications verify, open to their jobs, and are rebuilt byte for byte."""
        for version in VERSIONS:
            data = recorded(f"publish_{version}")
            master = private(data["keys"]["master"])
            for case in data["cases"]:
                frame = bytes.fromhex(case["frames_hex"][-1])
                publication = decode_publication(frame)

                verify_publication(publication, master.public)
                job = open_job(publication, SessionKey(case["aes_key"]))

                self.assertEqual(plain(job.load), case["expect_load"])
                self.assertEqual(job.jid, case["expect_load"]["jid"])
                again = unpack_raw(sign_blob(publication.blob, master, publication.algorithm))
                self.assertEqual(again, unpack_raw(frame))


class SignatureTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.master, self.session = key("master"), SessionKey.generate(Dice())
        self.blob = seal_job(JOB, self.session, IV)

    def test_round_trip(self) -> None:
        """A job comes back as it was published, with both algorithms."""
        for algorithm in ("PKCS1v15-SHA1", "PKCS1v15-SHA224"):
            publication = decode_publication(sign_blob(self.blob, self.master, algorithm))

            verify_publication(publication, self.master.public)

            self.assertEqual(open_job(publication, self.session).load, JOB)

    def test_T_MIN_2(self) -> None:
        """Who knows the publish key, but not the master's, cannot publish."""
        for payload in (
            sign_blob(self.blob, None),
            sign_blob(self.blob, key("minion")),
            pack({"enc": "aes", "load": self.blob, "sig": b"x" * 256, "sig_algo": "PKCS1v15-SHA1"}),
            pack({"enc": "aes", "load": self.blob, "sig": b"x", "sig_algo": "none"}),
        ):
            publication = decode_publication(payload)

            self.assertRaises(
                AuthenticationError, verify_publication, publication, self.master.public
            )

    def test_signature_of_another_blob(self) -> None:
        """A signature does not carry over to another job."""
        other = seal_job({**JOB, "fun": "cmd.run"}, self.session, IV)
        payload = unpack_raw(sign_blob(self.blob, self.master))
        payload[b"load"] = other

        publication = decode_publication(pack(payload))

        self.assertRaises(AuthenticationError, verify_publication, publication, self.master.public)

    def test_map_form(self) -> None:
        """The map that a 3006 master sends over TCP is the same publication."""
        payload = sign_blob(self.blob, self.master)

        self.assertEqual(decode_publication(unpack_raw(payload)), decode_publication(payload))

    def test_T_MIN_1(self) -> None:
        """Clear publications, and what is none, are refused."""
        for payload in (
            pack({"enc": "clear", "load": JOB}),
            pack({"enc": "aes", "load": JOB}),
            pack({"load": self.blob}),
            pack({"enc": "aes", "load": self.blob, "sig": 1}),
            pack({"enc": "aes", "load": self.blob, "sig": b"", "sig_algo": 5}),
            pack([]),
            b"\xc1",
        ):
            self.assertRaises(WireError, decode_publication, payload)

    def test_other_key(self) -> None:
        """A job under another publish key does not open."""
        publication = decode_publication(sign_blob(self.blob, self.master))
        other = SessionKey.generate(lambda n: b"k" * n)

        self.assertRaises(AuthenticationError, open_job, publication, other)


class JobTests(SynchronousTestCase):
    def test_least(self) -> None:
        """Four fields make a job; the others have Salt's defaults."""
        job = parse_job(dict(JOB))

        self.assertEqual((job.tgt_type, job.ret, job.user, job.serial), ("glob", "", "", None))

    def test_compound(self) -> None:
        """Several functions are a list."""
        job = parse_job({**JOB, "fun": ["a.b", "c.d"], "arg": [[], []], "jid": 2026})

        self.assertEqual((job.fun, job.jid), (["a.b", "c.d"], "2026"))

    def test_incomplete(self) -> None:
        """A job without one of the four, or with a wrong type, is refused."""
        for name in JOB:
            self.assertRaises(WireError, parse_job, {k: v for k, v in JOB.items() if k != name})
        for wrong in (
            {"fun": []},
            {"fun": ""},
            {"fun": [1]},
            {"arg": "x"},
            {"arg": {}},
            {"jid": ""},
            {"jid": []},
            {"jid": "x" * 65},
            {"tgt_type": 1},
            {"ret": 1},
            {"user": [1]},
            {"serial": "1"},
        ):
            self.assertRaises(WireError, parse_job, {**JOB, **wrong})
        for value in (None, [], 1, "job"):
            self.assertRaises(WireError, parse_job, value)


class TopicTests(SynchronousTestCase):
    def test_topic(self) -> None:
        """A minion's topic is the SHA-1 of its id in hexadecimal."""
        self.assertEqual(topic_of("minion"), hashlib.sha1(b"minion").hexdigest().encode())
