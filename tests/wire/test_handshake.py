from __future__ import annotations

from base64 import b64encode
from itertools import pairwise
from typing import Any

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.errors import WireError
from saltwisted.wire.commands import Auth, parse_command
from saltwisted.wire.crypticle import SessionKey
from saltwisted.wire.envelope import (
    BAD_LOAD,
    ClearRequest,
    decode_request,
    encode_clear_reply,
)
from saltwisted.wire.handshake import (
    HANDOVER,
    OURS,
    Accepted,
    HandshakeError,
    MasterFingerprint,
    MasterIdentity,
    MasterKeyChanged,
    MasterNotSigned,
    MasterUnproven,
    MinionHandshake,
    NotAReply,
    NotYet,
    accepted_reply,
    bad_algorithm,
    digest_of,
    followed,
    hand_over,
    negative_reply,
    signed_form_of,
)
from saltwisted.wire.msgpack import pack, unpack, unpack_raw
from saltwisted.wire.rsa import PrivateKey, PublicKey
from tests.fakes.replies import CLUSTER_RETRY
from tests.wire.recorded import VERSIONS, Dice, key, private, recorded

NONCE = "ab" * 16
TOKEN = "t" * 76


def auth_of(frame: bytes) -> tuple[Auth, int]:
    """The sign-in in a frame, as a master reads it."""
    request = decode_request(frame)
    assert isinstance(request, ClearRequest)
    auth = parse_command(request.load, clear=True)
    assert isinstance(auth, Auth)
    return auth, request.version


class SignatureFileTests(SynchronousTestCase):
    """C{master_use_pubkey_signature}: a signature that was made before."""

    def test_forms(self) -> None:
        """A file is of the key with or without its last newline, and of the signing key alone."""
        master, signer = key("master"), key("master_sign")
        text = master.public.pem.encode()
        bare = text.rstrip(b"\n")
        for form in (bare, bare + b"\n"):
            made = b64encode(signer.sign(form)) + b"\n"
            self.assertEqual(signed_form_of(text, made, signer.public), form)
            self.assertEqual(signed_form_of(text, made, None), bare)
            for other in (master.public, key("minion").public):
                self.assertRaises(WireError, signed_form_of, text, made, other)
        of_another = b64encode(signer.sign(key("minion").public.pem.encode()))
        self.assertRaises(WireError, signed_form_of, text, of_another, signer.public)
        self.assertRaises(WireError, signed_form_of, text, b"x", signer.public)


class RecordedTests(SynchronousTestCase):
    def test_as_a_minion(self) -> None:
        """We understand every recorded answer of a stock master as the stock minion did."""
        for version in VERSIONS:
            for case in recorded(f"auth_{version}")["cases"]:
                expect = case["expect"]
                auth, _ = auth_of(bytes.fromhex(case["request_msgpack_hex"]))
                reply = bytes.fromhex(case["reply_msgpack_hex"])
                mine = key(expect.get("minion", "minion"))
                handshake = MinionHandshake(
                    id=auth.id,
                    key=mine,
                    token=expect.get("token", TOKEN),
                    enc_algo=auth.enc_algo,
                    sig_algo=auth.sig_algo,
                )
                master = private(case["keys"]["master"]).public if case["keys"] else None
                known = master if auth.token else None

                got = handshake.read(reply, auth.nonce, known)

                if "aes" in expect:
                    assert isinstance(got, Accepted)
                    self.assertEqual(got.publish_key.text, expect["aes"])
                    self.assertEqual(got.session.text, expect["session"])
                    self.assertEqual(got.master_key, master)
                    self.assertEqual(got.remember, known is None)
                elif "ret" in expect:
                    reason = {True: "pending", False: "rejected"}[expect["ret"]]
                    self.assertEqual(got, NotYet(reason, known is not None))
                    self.assertEqual(
                        handshake.read(reply, auth.nonce, master), NotYet(reason, True)
                    )
                else:
                    self.assertEqual(
                        got, NotYet(expect.get("clear_ret", "refused"), False), case["name"]
                    )

    def test_as_a_master(self) -> None:
        """For every recorded request our answer has the recorded form, field by field."""
        for version in VERSIONS:
            for case in recorded(f"auth_{version}")["cases"]:
                expect = case["expect"]
                if "aes" not in expect and "ret" not in expect:
                    continue
                auth, protocol = auth_of(bytes.fromhex(case["request_msgpack_hex"]))
                theirs = unpack_raw(bytes.fromhex(case["reply_msgpack_hex"]))
                identity = MasterIdentity(private(case["keys"]["master"]))
                if "ret" in expect:
                    ours = negative_reply(auth, expect["ret"], identity.key, protocol)
                    self.assertEqual(ours, bytes.fromhex(case["reply_msgpack_hex"]))
                    continue

                ours = accepted_reply(
                    auth,
                    identity,
                    PublicKey.from_pem(auth.pub),
                    SessionKey(expect["aes"]),
                    SessionKey(expect["session"]),
                    unpack(theirs[b"load"])["publish_port"],
                    protocol,
                )

                mine, recorded_inner = unpack(unpack_raw(ours)[b"load"]), unpack(theirs[b"load"])
                self.assertEqual(list(mine), list(recorded_inner))
                for field in ("enc", "pub_key", "publish_port", "sig", "nonce"):
                    self.assertEqual(mine[field], recorded_inner[field], field)

    def test_signed_masters(self) -> None:
        """Recorded signatures over master keys verify, also 3008's over a final newline."""
        data = recorded("master_sign")
        for case in data["cases"]:
            auth, _ = auth_of(bytes.fromhex(case["request_msgpack_hex"]))
            mine = key("minion2")
            handshake = MinionHandshake(
                id=auth.id,
                key=mine,
                token=TOKEN,
                enc_algo=auth.enc_algo,
                sig_algo=auth.sig_algo,
                verify_master_pubkey_sign=True,
                sign_key=key("master_sign").public,
            )

            got = handshake.read(bytes.fromhex(case["reply_msgpack_hex"]), auth.nonce, None)

            self.assertIsInstance(got, Accepted, case["name"])


class HandshakeCase(SynchronousTestCase):
    """One master, one minion, and everything between them."""

    def setUp(self) -> None:
        self.identity = MasterIdentity(key("master"))
        self.publish_key = SessionKey.generate(Dice(100))
        self.session = SessionKey.generate(Dice(200))
        self.minion = MinionHandshake(id="m", key=key("minion"), token=TOKEN)
        self.known = key("master").public

    def answer(self, frame: bytes, identity: MasterIdentity | None = None, **auth: Any) -> bytes:
        request, version = auth_of(frame)
        return accepted_reply(
            evolve(request, **auth),
            identity or self.identity,
            PublicKey.from_pem(request.pub),
            self.publish_key,
            self.session,
            4505,
            version,
        )

    def forged(self, **changes: Any) -> bytes:
        """An answer with changed inner fields, signed by the right key; None removes one."""
        reply = unpack_raw(self.answer(self.minion.request(NONCE, self.known)))
        inner = {k.decode(): v for k, v in unpack_raw(reply[b"load"]).items()}
        inner.update(changes)
        load = pack({k: v for k, v in inner.items() if v is not None})
        return pack({"enc": "clear", "load": load, "sig": key("master").sign(load)})

    def refuses(
        self, error: type[Exception], frame: bytes, known: PublicKey | None, nonce: str = NONCE
    ) -> Any:
        return self.assertRaises(error, self.minion.read, frame, nonce, known)


class MinionTests(HandshakeCase):
    def test_first_contact(self) -> None:
        """A first contact gives both keys, and the news of a master to remember."""
        frame = self.minion.request(NONCE, None)

        got = self.minion.read(self.answer(frame), NONCE, None)

        assert isinstance(got, Accepted)
        self.assertTrue(got.remember)
        self.assertEqual(
            (got.publish_key, got.session, got.publish_port, got.master_key),
            (self.publish_key, self.session, 4505, self.known),
        )
        self.assertFalse(auth_of(frame)[0].token)

    def test_known_master(self) -> None:
        """A remembered master gets a token and is not news; both hash families work."""
        for names in (("OAEP-SHA1", "PKCS1v15-SHA1"), ("OAEP-SHA224", "PKCS1v15-SHA224")):
            self.minion.enc_algo, self.minion.sig_algo = names
            frame = self.minion.request(NONCE, self.known, {"os": "Debian"})
            auth, _ = auth_of(frame)

            got = self.minion.read(self.answer(frame), NONCE, self.known)

            assert isinstance(got, Accepted)
            self.assertFalse(got.remember)
            self.assertEqual(key("master").decrypt(auth.token, names[0]), TOKEN.encode())
            self.assertEqual(auth.autosign_grains, {"os": "Debian"})

    def handed_over(self, *names: str) -> MasterIdentity:
        """A master's key, the last of several, each vouched for by the one before."""
        identity = MasterIdentity(key(names[-1]))
        identity.handovers = [
            (key(new).public.pem, hand_over(key(old), key(new).public.pem))
            for old, new in pairwise(names)
        ]
        return identity

    def test_handed_over(self) -> None:
        """A minion follows a key that the remembered one has signed, over several steps too."""
        for names in (("master", "minion"), ("master", "minion", "master_sign")):
            identity = self.handed_over(*names)
            frame = self.minion.request(NONCE, self.known)

            got = self.minion.read(self.answer(frame, identity), NONCE, self.known)

            assert isinstance(got, Accepted)
            self.assertTrue(got.remember)
            self.assertEqual(got.master_key, key(names[-1]).public)

    def test_not_handed_over(self) -> None:
        """Statements of other keys, about other keys, of another shape, or none: not followed."""
        frame = self.minion.request(NONCE, self.known)
        signature = hand_over(key("minion"), key("minion").public.pem)
        other = hand_over(key("master"), key("master_sign").public.pem)
        pem = key("minion").public.pem
        for handovers in (
            (),
            [(pem, signature)],
            [(pem, other)],
            [(key("master_sign").public.pem, other)],
        ):
            identity = MasterIdentity(key("minion"))
            identity.handovers = handovers
            self.refuses(MasterKeyChanged, self.answer(frame, identity), self.known)

        for shapeless in (
            None,
            7,
            "text",
            [7, [pem], [7, signature], [pem, "text"]],
            [("no key", signature), ("\u20ac", signature)],
        ):
            self.assertEqual(followed(self.known, shapeless), self.known)

    def test_stock_sees_no_handover(self) -> None:
        """To a stock minion's question no statement is added."""
        identity = self.handed_over("minion", "master")
        auth, _ = auth_of(self.minion.request(NONCE, None))
        stock = {k: v for k, v in auth.load.items() if k != OURS}

        reply = self.answer(self.minion.request(NONCE, None), identity, load=stock)

        self.assertNotIn(HANDOVER.encode(), unpack_raw(unpack_raw(reply)[b"load"]))

    def test_pin(self) -> None:
        """A pinned fingerprint is the only key that is trusted, at first contact and later."""
        frame = self.minion.request(NONCE, None, join=("ab", "proof"))
        pin = self.known.fingerprint("sha256").replace(":", "")
        auth, _ = auth_of(frame)

        got = self.minion.read(self.answer(frame), NONCE, None, pin)

        assert isinstance(got, Accepted)
        self.assertEqual(auth.join, ["ab", "proof"])
        wrong = "0" * 64
        for known in (None, self.known):
            frame = self.answer(self.minion.request(NONCE, known))
            self.assertRaises(MasterFingerprint, self.minion.read, frame, NONCE, known, wrong)

    def test_our_kind(self) -> None:
        """Two of our kind recognise each other; to a stock minion's question nothing is added."""
        frame = self.minion.request(NONCE, None)
        auth, _ = auth_of(frame)
        stock = {k: v for k, v in auth.load.items() if k != OURS}

        ours = self.minion.read(self.answer(frame), NONCE, None)
        other = self.minion.read(self.answer(frame, load=stock), NONCE, None)

        assert isinstance(ours, Accepted)
        assert isinstance(other, Accepted)
        self.assertEqual((ours.ours, other.ours), (True, False))

    def test_final_newline(self) -> None:
        """A master that sends its key with a final newline is the same master."""
        identity = MasterIdentity(key("master"))
        identity.pub_key += "\n"

        got = self.minion.read(
            self.answer(self.minion.request(NONCE, self.known), identity), NONCE, self.known
        )

        assert isinstance(got, Accepted)
        self.assertFalse(got.remember)

    def test_changed_key(self) -> None:
        """Another key than the remembered one is refused, and both are named."""
        frame = self.minion.request(NONCE, self.known)
        other = MasterIdentity(key("master_sign"))

        error = self.refuses(MasterKeyChanged, self.answer(frame, other), self.known)

        self.assertEqual(error.expected, self.known.fingerprint())
        self.assertEqual(error.got, key("master_sign").public.fingerprint())

    def test_open_mode(self) -> None:
        """In open mode a changed key is taken, and remembered."""
        self.minion.open_mode = True
        frame = self.minion.request(NONCE, self.known)

        got = self.minion.read(
            self.answer(frame, MasterIdentity(key("master_sign"))), NONCE, self.known
        )

        assert isinstance(got, Accepted)
        self.assertEqual((got.master_key, got.remember), (key("master_sign").public, True))

    def test_shown_key_of_another(self) -> None:
        """Showing the right key but signing with another one is no proof."""
        liar = MasterIdentity(key("master_sign"), pub_pem=self.known.pem)
        for known in (None, self.known):
            self.refuses(
                MasterUnproven, self.answer(self.minion.request(NONCE, known), liar), known
            )

    def test_replayed(self) -> None:
        """An answer to another question is refused, a negative one as well."""
        self.refuses(MasterUnproven, self.answer(self.minion.request("0" * 32, None)), None)
        auth, version = auth_of(self.minion.request("0" * 32, None))
        negative = negative_reply(auth, False, key("master"), version)
        self.refuses(MasterUnproven, negative, self.known)

    def test_negative(self) -> None:
        """Each no is a value; whether it is proven depends on knowing the master."""
        auth, version = auth_of(self.minion.request(NONCE, None))
        for ret, reason in (
            (True, "pending"),
            (False, "rejected"),
            ("full", "full"),
            (7, "refused"),
        ):
            frame = negative_reply(auth, ret, key("master"), version)

            self.assertEqual(self.minion.read(frame, NONCE, None), NotYet(reason, False))
            self.assertEqual(self.minion.read(frame, NONCE, self.known), NotYet(reason, True))

    def test_forged_negative(self) -> None:
        """A no signed by a stranger is refused when we know our master."""
        auth, version = auth_of(self.minion.request(NONCE, None))

        self.refuses(
            MasterUnproven, negative_reply(auth, False, key("master_sign"), version), self.known
        )

    def test_unsigned(self) -> None:
        """Complaints in the clear are values, and prove nothing."""
        for frame, reason in (
            (encode_clear_reply({"ret": "bad sig algo"}), "bad sig algo"),
            (encode_clear_reply({"ret": "bad enc algo"}), "bad enc algo"),
            (encode_clear_reply({"ret": False}), "refused"),
            (encode_clear_reply({}), "refused"),
            (CLUSTER_RETRY, "cluster_retry"),
            (BAD_LOAD, "refused"),
        ):
            self.assertEqual(self.minion.read(frame, NONCE, self.known), NotYet(reason, False))

    def test_every_field_is_needed(self) -> None:
        """An answer that lacks a key, the digest, the token, the nonce or the port is refused."""
        for field in ("aes", "session", "sig", "token", "nonce", "publish_port"):
            self.refuses(WireError, self.forged(**{field: None}), self.known)

        got = self.minion.read(self.forged(pub_key=None), NONCE, self.known)
        self.assertEqual(got, NotYet("refused", True))

    def test_wrong_fields(self) -> None:
        """Wrong types and values inside a signed answer are refused."""
        sealed = self.minion.key.public.encrypt
        for changes in (
            {"aes": b"x"}, {"aes": 5}, {"aes": sealed(b"short")}, {"aes": sealed(b"\xff" * 76)},
            {"session": b"x" * 256}, {"sig": b"x" * 256}, {"sig": "text"},
            {"sig": key("master").sign_x931(b"0" * 64)},
            {"token": sealed(b"other")}, {"token": "x"}, {"nonce": 5},
            {"publish_port": "4505"}, {"publish_port": 0}, {"publish_port": 70000},
            {"publish_port": True},
            {"pub_key": 5}, {"pub_key": "no key"}, {"pub_sig": b"x"},
        ):  # fmt: skip
            self.refuses(WireError, self.forged(**changes), self.known)

    def test_no_answers(self) -> None:
        """What is no answer at all says so."""
        for value in (1, [], {}, {"load": 5}, {"load": b"x"}, {"load": b"x", "sig": 5}):
            self.refuses(NotAReply, pack(value), None)
        self.refuses(WireError, b"\xc1", None)
        self.refuses(NotAReply, pack({"load": pack([]), "sig": b"x"}), None)
        for signature in ({}, {"sig": None}, {"sig": 5}):
            self.refuses(NotAReply, pack({"load": pack({"ret": True}), **signature}), None)
        self.refuses(WireError, pack({"load": b"\xc1", "sig": b"x"}), None)

    def test_auth_mode_2(self) -> None:
        """A key with a token behind it, as auth_mode 2 would send, is the key."""
        joined = self.publish_key.text.encode() + b"_|-" + TOKEN.encode()
        got = self.minion.read(
            self.forged(aes=self.minion.key.public.encrypt(joined)), NONCE, self.known
        )

        assert isinstance(got, Accepted)
        self.assertEqual(got.publish_key, self.publish_key)

    def test_finger(self) -> None:
        """master_finger is compared before anything is remembered."""
        self.minion.master_finger = self.known.fingerprint()
        frame = self.answer(self.minion.request(NONCE, None))
        self.assertIsInstance(self.minion.read(frame, NONCE, None), Accepted)

        self.minion.master_finger = "aa:bb"
        error = self.refuses(MasterFingerprint, frame, None)

        self.assertEqual((error.expected, error.got), ("aa:bb", self.known.fingerprint()))

    def test_weak_master(self) -> None:
        """A master with a weak key is refused."""
        from tests.wire.test_rsa import pem_of

        self.refuses(NotAReply, self.forged(pub_key=pem_of(self.known.n, 3)), None)

    def test_secrets_are_not_shown(self) -> None:
        """No repr shows a key or a token."""
        got = self.minion.read(self.answer(self.minion.request(NONCE, None)), NONCE, None)
        shown = repr((self.minion, got))

        for secret in (TOKEN, self.session.text[:20], self.publish_key.text[:20]):
            self.assertNotIn(secret, shown)


class SigningKeyTests(HandshakeCase):
    """verify_master_pubkey_sign and its relatives."""

    def setUp(self) -> None:
        super().setUp()
        self.signer = key("master_sign")
        self.signing = MasterIdentity(key("master"), sign_key=self.signer)
        self.minion.verify_master_pubkey_sign = True
        self.minion.sign_key = self.signer.public

    def read(self, identity: MasterIdentity, known: PublicKey | None) -> Any:
        return self.minion.read(
            self.answer(self.minion.request(NONCE, known), identity), NONCE, known
        )

    def test_signed(self) -> None:
        """A signed master is taken at first contact, and when it is another one than before."""
        self.assertTrue(self.read(self.signing, None).remember)
        self.assertTrue(self.read(self.signing, key("minion2").public).remember)
        self.assertFalse(self.read(self.signing, self.known).remember)

    def test_stranger_signs(self) -> None:
        """A signature of anybody else is refused."""
        liar = MasterIdentity(key("master"), sign_key=key("minion2"))

        self.assertRaises(MasterNotSigned, self.read, liar, None)

    def test_same_key_is_not_checked(self) -> None:
        """For the remembered key the signature is only looked at with always_verify_signature."""
        liar = MasterIdentity(key("master"), sign_key=key("minion2"))
        self.assertFalse(self.read(liar, self.known).remember)

        self.minion.always_verify_signature = True

        self.assertRaises(MasterNotSigned, self.read, liar, self.known)
        self.assertFalse(self.read(self.signing, self.known).remember)

    def test_both_must_agree(self) -> None:
        """One that signs and one that does not verify do not fit, nor the reverse."""
        self.assertRaises(MasterNotSigned, self.read, self.identity, None)
        self.minion.verify_master_pubkey_sign = False

        self.assertRaises(MasterNotSigned, self.read, self.signing, None)

    def test_no_file(self) -> None:
        """Without the signing key there is nothing to verify with."""
        self.minion.sign_key = None

        self.assertRaises(MasterNotSigned, self.read, self.signing, None)

    def test_signature_files(self) -> None:
        """A signature file over the key with or without its newline will do; rubbish will not."""
        from base64 import b64encode

        for text, newline in ((self.known.pem, "\n"), (self.known.pem + "\n", "")):
            made = b64encode(self.signer.sign(text.encode())).decode() + newline
            identity = MasterIdentity(key("master"), pub_signature=made)
            self.assertIsInstance(self.read(identity, None), Accepted)
        for rubbish in ("x", "é", "%%%", b64encode(b"short").decode()):
            identity = MasterIdentity(key("master"), pub_signature=rubbish)
            self.assertRaises(MasterNotSigned, self.read, identity, None)


class MasterTests(HandshakeCase):
    def test_digest_is_made_once(self) -> None:
        """The expensive signature over a publish key is kept; not endlessly many are."""
        made: list[bytes] = []

        class Counting(PrivateKey):
            def sign_x931(self, message: bytes) -> bytes:
                made.append(message)
                return b"sig"

        identity = MasterIdentity(Counting(key("master")._key))
        for _ in range(3):
            identity.digest_signature(self.publish_key)
        self.assertEqual(made, [digest_of(self.publish_key)])

        for n in range(20):
            identity.digest_signature(SessionKey.generate(Dice(n * 100)))
        self.assertLessEqual(len(identity._digests), 8)

    def test_foreign_token(self) -> None:
        """A token for another master is left out of the answer, as in Salt."""
        frame = self.minion.request(NONCE, key("master_sign").public)

        inner = unpack(unpack_raw(self.answer(frame))[b"load"])

        self.assertNotIn("token", inner)

    def test_algorithms(self) -> None:
        """An unknown algorithm name is complained about in the clear, whatever the answer is."""
        auth, version = auth_of(self.minion.request(NONCE, None))
        for changes, word in (
            ({"sig_algo": "PKCS1v15-MD5"}, "bad sig algo"),
            ({"enc_algo": "none"}, "bad enc algo"),
        ):
            self.assertEqual(bad_algorithm(evolve(auth, **changes)), word)
            reply = unpack(self.answer(self.minion.request(NONCE, None), **changes))
            self.assertEqual(reply, {"enc": "clear", "load": {"ret": word}})
        reply = unpack(negative_reply(evolve(auth, sig_algo="x"), True, key("master"), version))
        self.assertEqual(reply, {"enc": "clear", "load": {"ret": "bad sig algo"}})
        self.assertEqual(bad_algorithm(auth), "")

    def test_old_protocols(self) -> None:
        """Versions 0 and 1 get the map itself, unsigned and without a nonce; 2 is like 3."""
        auth, version = auth_of(self.minion.request(NONCE, None))
        minion = self.minion.key.public
        for version in (0, 1):
            reply = unpack(
                accepted_reply(
                    auth, self.identity, minion, self.publish_key, self.session, 4505, version
                )
            )
            self.assertEqual(
                list(reply),
                ["enc", "pub_key", "publish_port", OURS, "aes", "session", "sig"],
            )
            self.assertEqual(
                unpack(negative_reply(auth, True, key("master"), version)),
                {"enc": "clear", "load": {"ret": True}},
            )
        reply = unpack_raw(
            accepted_reply(auth, self.identity, minion, self.publish_key, self.session, 4505, 2)
        )
        self.assertEqual(unpack(reply[b"load"])["nonce"], NONCE)

    def test_named_errors(self) -> None:
        """All distrust is one family, and never the same as malformed bytes."""
        for kind in (
            MasterKeyChanged,
            MasterFingerprint,
            MasterNotSigned,
            MasterUnproven,
            NotAReply,
        ):
            self.assertTrue(issubclass(kind, HandshakeError))
