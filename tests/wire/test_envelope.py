from __future__ import annotations

import gzip
from typing import Any

import msgpack as library
from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.errors import AuthenticationError, WireError
from saltwisted.wire.crypticle import SessionKey, open_raw, open_sealed, seal
from saltwisted.wire.decoding import QUICK, at_once
from saltwisted.wire.envelope import (
    BAD_LOAD,
    FAILED,
    MAX_CLEAR,
    ClearReply,
    ClearRequest,
    PrivateReply,
    Refusal,
    SealedReply,
    SealedRequest,
    decode_reply,
    decode_request,
    encode_clear_reply,
    encode_clear_request,
    encode_private_reply,
    encode_sealed_chunk,
    encode_sealed_reply,
    encode_sealed_request,
    open_private_reply,
    request_at_once,
    signed_form,
    user_key_steps,
)
from saltwisted.wire.msgpack import pack, unpack, unpack_raw
from tests.fakes.replies import CLUSTER_RETRY
from tests.wire.recorded import VERSIONS, Dice, key, plain, private, recorded

IV = bytes(16)
NONCE = "ab" * 16


class LargeTests(SynchronousTestCase):
    """Large requests are read where they lie."""

    BLOB = bytes(range(256)) * 1024

    def test_in_place(self) -> None:
        """The load of a large sealed request is a part of the frame; all else is as in a small."""
        frame = encode_sealed_request("web1", self.BLOB, "OAEP-SHA224", "PKCS1v15-SHA224")
        small = decode_request(
            encode_sealed_request("web1", b"x", "OAEP-SHA224", "PKCS1v15-SHA224")
        )
        for given in (frame, memoryview(frame)):
            request = decode_request(given)

            assert isinstance(request, SealedRequest)
            assert isinstance(request.blob, memoryview)
            self.assertIs(request.blob.obj, frame)
            self.assertEqual(request.blob, self.BLOB)
            self.assertEqual(evolve(request, blob=b"x"), small)

    def test_other_forms(self) -> None:
        """Bin types, another order, unknown fields, a map with a long head: all are read."""
        load = {"version": 3, "x": None, "id": "web1", "enc": "aes", "load": self.BLOB}
        short = {key: value for key, value in load.items() if key != "x"}
        for frame in (
            pack(load),
            pack(short),
            library.packb(short, use_bin_type=True),
            b"\xdf\0\0\0\4" + pack(short)[1:],
            pack({**short, "version": "3"}),
        ):
            request = decode_request(memoryview(frame))

            assert isinstance(request, SealedRequest)
            self.assertEqual(
                (request.id, request.version, bytes(request.blob)), ("web1", 3, self.BLOB)
            )

    def test_malformed(self) -> None:
        """Frames that are cut off, go on too long or have other types are refused."""
        good = encode_sealed_request("web1", self.BLOB)
        for bad in (
            good[:-1],
            good[:200_000],
            good + b"\1",
            b"\x8f" + good[1:],
            pack({"enc": "aes", "load": [self.BLOB], "id": "web1"}),
            pack({"enc": "aes", "load": self.BLOB, "id": 7}),
            pack({"enc": "aes", "load": self.BLOB, "id": "x" * 2000}),
            pack({"enc": "clear", "load": self.BLOB}),
            pack({"enc": self.BLOB, "load": self.BLOB}),
            pack(self.BLOB),
        ):
            with self.assertRaises(WireError):
                decode_request(memoryview(bad))


class RecordedTests(SynchronousTestCase):
    def test_clear(self) -> None:
        """Clear requests and replies of a stock command line are read as recorded."""
        for version in VERSIONS:
            for case in recorded(f"clear_{version}")["cases"]:
                request = decode_request(bytes.fromhex(case["request_msgpack_hex"]))
                reply = unpack(bytes.fromhex(case["reply_msgpack_hex"]))

                assert isinstance(request, ClearRequest)
                self.assertEqual(plain(request.load), case["expect_request"]["load"])
                self.assertEqual(plain(reply), case["expect_reply"])

    def test_sealed(self) -> None:
        """Sealed requests open with their session key, and replies with the request's nonce."""
        count = 0
        for version in VERSIONS:
            for name in ("requests", "return", "serve_file"):
                for case in recorded(f"{name}_{version}")["cases"]:
                    session = SessionKey(case["session_key"])
                    request = decode_request(bytes.fromhex(case["request_msgpack_hex"]))
                    assert isinstance(request, SealedRequest)
                    load = open_sealed(session, request.blob)
                    reply = decode_reply(bytes.fromhex(case["reply_msgpack_hex"]))

                    if "expect_plain_reply" in case:
                        self.assertEqual(reply, Refusal(case["expect_plain_reply"]))
                        continue
                    self.assertEqual(request.version, 3)
                    self.assertEqual(load["id"], request.id)
                    assert isinstance(reply, SealedReply)
                    value = open_sealed(session, reply.blob, load["nonce"])
                    expected = case["expect_reply"]
                    shown = dict(value) if isinstance(value, dict) else value
                    # One of the two recordings has the unpacked text as its expectation
                    packed = isinstance(shown, dict) and "gzip" in shown
                    if packed and isinstance(expected["data"], str):
                        shown["data"] = gzip.decompress(shown["data"]).decode()
                    self.assertEqual(plain(shown), expected)
                    again = encode_sealed_reply(
                        session,
                        open_raw(session, reply.blob, load["nonce"]),
                        reply.blob[:16],
                        load["nonce"],
                    )
                    self.assertEqual(again.hex(), case["reply_msgpack_hex"])
                    count += 1
        self.assertGreater(count, 60)

    def test_pillar(self) -> None:
        """A recorded private reply opens, and ours is the same form around the same bytes."""
        for version in VERSIONS:
            data = recorded(f"pillar_{version}")
            minion, master = private(data["keys"]["minion2"]), private(data["keys"]["master"])
            request = decode_request(bytes.fromhex(data["request_msgpack_hex"]))
            assert isinstance(request, SealedRequest)
            reply = decode_reply(bytes.fromhex(data["reply_msgpack_hex"]))
            assert isinstance(reply, PrivateReply)

            value = open_private_reply(
                reply, minion, master.public, data["nonce"], request.enc_algo, request.sig_algo
            )

            self.assertEqual(value, data["expect"]["pillar"])
            inner = SessionKey(minion.decrypt(reply.key, request.enc_algo).decode())
            self.assertEqual(inner.text, data["expect"]["private_key"])
            ours = encode_private_reply(
                pack(value),
                minion.public,
                master,
                data["nonce"],
                Dice(),
                request.enc_algo,
                request.sig_algo,
            )
            again = decode_reply(ours)
            assert isinstance(again, PrivateReply)
            fresh = SessionKey(minion.decrypt(again.key, request.enc_algo).decode())
            signed = open_raw(fresh, again.blob)[b"data"].hex()
            self.assertEqual(
                signed.replace(again.key.hex(), reply.key.hex()), data["expect"]["signed_data_hex"]
            )

    def test_signed_messages(self) -> None:
        """The signature of C{minion_sign_messages} covers what we say it covers."""
        data = recorded("signed_return")
        public = private(data["keys"]["minion2"]).public
        for case in data["cases"]:
            request = decode_request(bytes.fromhex(case["request_msgpack_hex"]))
            assert isinstance(request, SealedRequest)
            load = open_sealed(SessionKey(case["session_key"]), request.blob)

            self.assertTrue(public.verify(signed_form(load), load["sig"], request.sig_algo))


class RequestTests(SynchronousTestCase):
    def test_round_trip(self) -> None:
        """What we encode, we decode: both kinds, with all fields."""
        clear = decode_request(encode_clear_request({"cmd": "ping"}, 2))
        sealed = decode_request(encode_sealed_request("m", b"\xff" * 64, "A", "B", 3))

        self.assertEqual(clear, ClearRequest({"cmd": "ping"}, 2))
        self.assertEqual(sealed, SealedRequest("m", b"\xff" * 64, 3, "A", "B"))

    def test_defaults(self) -> None:
        """A request without version and algorithms is version 0 with the SHA-1 names."""
        got = decode_request(pack({"enc": "aes", "load": b"x", "id": "m"}))

        self.assertEqual(got, SealedRequest("m", b"x", 0))

    def test_version_forms(self) -> None:
        """A version may be text; what is not a number is 0."""
        for sent, seen in (("3", 3), (2, 2), ("x", 0), (None, 0), ([], 0), (b"\xff", 0), (1.5, 1)):
            got = decode_request(pack({"enc": "clear", "load": {}, "version": sent}))

            self.assertEqual(got.version, seen)

    def test_newer_msgpack_types(self) -> None:
        """A peer that packs with bin types is understood."""
        from saltwisted.wire.msgpack import pack_bin

        got = decode_request(pack_bin({"enc": "aes", "load": b"blob", "id": "m" * 40}))

        self.assertEqual(got, SealedRequest("m" * 40, b"blob", 0))

    def test_wrong_shapes(self) -> None:
        """Everything else is a WireError."""
        good: dict[str, Any] = {"enc": "aes", "load": b"x", "id": "m"}
        for wrong in (
            {**good, "load": {}},
            {**good, "load": None},
            {**good, "id": 1},
            {**good, "id": b"\xff"},
            {**good, "id": "x" * 2000},
            {**good, "enc": "rot13"},
            {**good, "enc": None},
            {**good, "enc_algo": 1},
            {**good, "sig_algo": b"\xff"},
            {**good, "sig_algo": "x" * 65},
            {"enc": "clear", "load": "text"},
            {"enc": "clear"},
            {"load": {}},
            {},
            [],
            1,
        ):
            self.assertRaises(WireError, decode_request, pack(wrong))

    def test_T_COST_1_at_once(self) -> None:
        """What is long and not sealed is not looked at; a long sealed one is read at once."""
        self.assertIsNone(request_at_once(encode_clear_request({"cmd": "x" * QUICK})))
        self.assertIsNone(request_at_once(b"\x80" * MAX_CLEAR))
        self.assertIsNone(request_at_once(b"\xdd\0\x40\0\0" + b"\x80" * MAX_CLEAR))
        self.assertIsNone(request_at_once(b"\x81\xa3enc\xa5clear" + b"\xa0" * MAX_CLEAR))

        sealed = request_at_once(encode_sealed_request("m", b"x" * MAX_CLEAR))
        self.assertIsInstance(sealed, SealedRequest)

    def test_user_key(self) -> None:
        """The key of a local user is found in its request, wherever it lies; or nothing is."""
        long = ["x" * 300] * 500

        def found(frame: bytes) -> bytes:
            key: bytes = at_once(user_key_steps(frame))
            return key

        for load in (
            {"cmd": "publish", "arg": long, "key": "secret", "tgt": "*"},
            {"key": "secret", "arg": {"a": {"key": "other"}, "key": "third"}},
        ):
            frame = encode_clear_request(load)
            self.assertEqual(found(frame), b"secret")
            self.assertEqual(found(memoryview(frame)), b"secret")
        for wrong in (
            encode_clear_request({"cmd": "publish", "arg": long}),
            encode_clear_request({"key": "x" * 5000, "arg": long}),
            encode_clear_request({"key": ["secret"]}),
            pack({"load": long, "key": "secret"}),
            pack({str(n): n for n in range(100)} | {"load": {"key": "secret"}}),
            pack({"load": {str(n): n for n in range(100)} | {"key": "secret"}}),
            pack(long),
            b"",
            b"\xc1",
            b"\x81\xa4load",
            b"\x81\xa4load\x81\xa3key\xdb\xff",
        ):
            self.assertEqual(found(wrong), b"")


class ReplyTests(SynchronousTestCase):
    def test_forms(self) -> None:
        """Each form of reply is recognised."""
        session = SessionKey.generate(Dice())
        blob = seal(session, "v", IV, NONCE)
        for frame, expected in (
            (encode_sealed_reply(session, "v", IV, NONCE), SealedReply(blob)),
            (pack(blob), SealedReply(blob)),
            (BAD_LOAD, Refusal("bad load")),
            (FAILED, Refusal("Some exception handling minion payload")),
            (
                pack("bad load: id " + "x" * 300 + " is not a string"),
                Refusal(("bad load: id " + "x" * 300)[:200]),
            ),
            (
                pack({"error": "Nonce not included in request"}),
                Refusal("Nonce not included in request"),
            ),
            (CLUSTER_RETRY, ClearReply({"ret": False, "cluster_retry": True})),
            (encode_clear_reply({"a": 1}), ClearReply({"a": 1})),
            (pack({"a": b"b"}), ClearReply({"a": "b"})),
            (pack(None), ClearReply(None)),
            (pack({"key": b"k", "pillar": b"p"}), PrivateReply(b"k", b"p")),
        ):
            self.assertEqual(decode_reply(frame), expected)

    def test_no_reply(self) -> None:
        """Anything else is a WireError."""
        for frame in (pack(1), pack([]), b"", b"\xc1"):
            self.assertRaises(WireError, decode_reply, frame)


class ChunkTests(SynchronousTestCase):
    def test_same_bytes(self) -> None:
        """A file chunk sealed in place is byte for byte the reply that holds the same map."""
        session = SessionKey.generate(Dice())
        for size in (0, 1, 15, 16, 31, 32, 65535, 65536, 300_000):
            for nonce in ("", NONCE):
                data = b"\xff" * size
                rest = {"dest": "a/b", "gzip": 3}

                made = encode_sealed_chunk(session, data, rest, IV, nonce)

                usual = encode_sealed_reply(session, {"data": data, **rest}, IV, nonce)
                self.assertEqual(bytes(made), usual)


class PrivateReplyTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.minion, self.master = key("minion"), key("master")

    def reply(self, nonce: str = NONCE, master: Any = None, **options: Any) -> PrivateReply:
        frame = encode_private_reply(
            pack({"secret": "s"}),
            self.minion.public,
            master or self.master,
            nonce,
            Dice(),
            **options,
        )
        reply = decode_reply(frame)
        assert isinstance(reply, PrivateReply)
        return reply

    def test_T_PIL_1_signature(self) -> None:
        """A pillar signed by another key, or with another algorithm, is refused."""
        other = self.reply(master=key("master_sign"))

        for reply, algorithm in ((other, "PKCS1v15-SHA1"), (self.reply(), "PKCS1v15-SHA224")):
            self.assertRaises(
                AuthenticationError,
                open_private_reply,
                reply,
                self.minion,
                self.master.public,
                NONCE,
                "OAEP-SHA1",
                algorithm,
            )

    def test_T_PIL_1_replay(self) -> None:
        """A pillar that answers another request is refused."""
        self.assertRaises(
            AuthenticationError,
            open_private_reply,
            self.reply(),
            self.minion,
            self.master.public,
            "cd" * 16,
        )

    def test_T_PIL_1_other_key(self) -> None:
        """A signed pillar put under another session key is refused."""
        good = self.reply()
        inner = SessionKey(self.minion.decrypt(good.key).decode())
        fresh = SessionKey.generate(lambda n: b"q" * n)
        moved = PrivateReply(
            self.minion.public.encrypt(fresh.text.encode()),
            seal(fresh, open_raw(inner, good.blob), IV),
        )

        self.assertRaises(
            AuthenticationError, open_private_reply, moved, self.minion, self.master.public, NONCE
        )

    def test_T_PIL_1_unsigned(self) -> None:
        """A pillar of the old form, without a signature, is refused."""
        self.assertRaises(
            AuthenticationError,
            open_private_reply,
            self.reply(signed=False),
            self.minion,
            self.master.public,
            NONCE,
        )

    def test_malformed(self) -> None:
        """Whatever is inside, only our errors come out."""
        fresh = SessionKey.generate(Dice())
        wrapped = self.minion.public.encrypt(fresh.text.encode())

        def signed(data: bytes) -> dict[str, Any]:
            return {"data": data, "sig": self.master.sign(data)}

        for layer in (
            None,
            [],
            {},
            {"data": "x", "sig": "y"},
            {"data": 5, "sig": b"y"},
            {"data": b"x", "sig": 5},
            {"data": None, "sig": self.master.sign(b"x")},
            {"data": b"x", "sig": [self.master.sign(b"x")]},
            signed(b"\xc1"),
            signed(pack({"key": wrapped, "nonce": NONCE})),
            signed(pack(["pillar"])),
            signed(pack([])),
            signed(pack({"pillar": 1})),
            signed(pack({"key": wrapped})),
            signed(pack({"key": wrapped, "pillar": 1, "nonce": 5})),
        ):
            self.assertRaises(
                WireError,
                open_private_reply,
                PrivateReply(wrapped, seal(fresh, layer, IV)),
                self.minion,
                self.master.public,
                NONCE,
            )
        self.assertRaises(
            WireError,
            open_private_reply,
            PrivateReply(self.minion.public.encrypt(b"\xff short"), b""),
            self.minion,
            self.master.public,
            NONCE,
        )

    def test_no_nonce(self) -> None:
        """Without a nonce Salt's complaint is the answer."""
        frame = encode_private_reply(pack({}), self.minion.public, self.master, "", Dice())

        self.assertEqual(decode_reply(frame), Refusal("Nonce not included in request"))

    def test_old_form(self) -> None:
        """Protocol 0 and 1 get the value itself inside the box."""
        reply = self.reply(signed=False)
        inner = SessionKey(self.minion.decrypt(reply.key).decode())

        self.assertEqual(open_sealed(inner, reply.blob), {"secret": "s"})

    def test_sets_the_algorithms(self) -> None:
        """Both algorithms of the request are used."""
        reply = self.reply(enc_algo="OAEP-SHA224", sig_algo="PKCS1v15-SHA224")

        value = open_private_reply(
            reply, self.minion, self.master.public, NONCE, "OAEP-SHA224", "PKCS1v15-SHA224"
        )

        self.assertEqual(value, {"secret": "s"})
        self.assertRaises(WireError, self.reply, enc_algo="OAEP-MD5")

    def test_secrets_are_not_shown(self) -> None:
        """No repr shows a load."""
        shown = repr(self.reply()) + repr(ClearRequest({"key": "canary"}))

        self.assertNotIn("canary", shown)
        self.assertEqual(unpack_raw(pack({"a": 1})), {b"a": 1})
