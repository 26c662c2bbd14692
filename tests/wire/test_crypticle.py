from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.errors import AuthenticationError, WireError
from saltwisted.wire.crypticle import (
    SessionKey,
    TakesLong,
    open_packed,
    open_raw,
    open_sealed,
    seal,
    seal_packed,
)
from saltwisted.wire.msgpack import guess, unpack_raw
from tests.wire.recorded import Dice, recorded

IV = bytes(16)
NONCE = "0123456789abcdef" * 2


class RecordedTests(SynchronousTestCase):
    def test_same_bytes(self) -> None:
        """With the recorded IV the recorded blob comes out, and opens again."""
        data = recorded("crypticle")
        key = SessionKey(data["key_string"])
        for case in data["deterministic"]:
            plain, blob = bytes.fromhex(case["plaintext_hex"]), bytes.fromhex(case["blob_hex"])
            packed = plain[8 + len(case["nonce"] or "") :]

            made = seal_packed(key, packed, bytes.fromhex(case["iv_hex"]), case["nonce"] or "")

            self.assertEqual(made, blob, case["name"])
            self.assertEqual(open_sealed(key, blob, case["nonce"]), case["object"], case["name"])

    def test_blobs_of_salt(self) -> None:
        """Blobs that Salt made open to their plaintext."""
        data = recorded("crypticle")
        key = SessionKey(data["key_string"])
        for case in data["salt_3006"] + data["salt_3008"]:
            plain = bytes.fromhex(case["plaintext_hex"])

            packed = open_packed(key, bytes.fromhex(case["blob_hex"]), case["nonce"])

            self.assertEqual(packed, plain[8 + len(case["nonce"] or "") :])


class SealTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.key = SessionKey.generate(Dice())

    def test_every_length(self) -> None:
        """Plaintexts of every length modulo the block come back."""
        for size in range(40):
            value = {"x": "a" * size}

            self.assertEqual(open_sealed(self.key, seal(self.key, value, IV)), value)

    def test_any_flipped_bit(self) -> None:
        """No byte of a blob can be changed unnoticed."""
        blob = seal(self.key, [1], IV)
        for at in range(len(blob)):
            bad = blob[:at] + bytes([blob[at] ^ 1]) + blob[at + 1 :]

            self.assertRaises(AuthenticationError, open_packed, self.key, bad)

    def test_other_key(self) -> None:
        """Another key does not open it."""
        other = SessionKey.generate(lambda n: b"z" * n)

        self.assertRaises(AuthenticationError, open_packed, other, seal(self.key, 1, IV))

    def test_nonce(self) -> None:
        """A reply opens with its own nonce alone, and never without one that is asked for."""
        blob = seal(self.key, "ok", IV, NONCE)

        self.assertEqual(open_sealed(self.key, blob, NONCE), "ok")
        self.assertRaises(AuthenticationError, open_sealed, self.key, blob, "f" * 32)
        self.assertRaises(
            AuthenticationError, open_sealed, self.key, seal(self.key, "ok" * 99, IV), NONCE
        )
        self.assertRaises(AuthenticationError, open_sealed, self.key, blob, "é" * 32)

    def test_short_reply_with_nonce_asked(self) -> None:
        """A plaintext shorter than a nonce is refused, not sliced."""
        self.assertRaises(AuthenticationError, open_sealed, self.key, seal(self.key, 1, IV), NONCE)

    def test_too_short(self) -> None:
        """Anything shorter than one block with its MAC is not a blob."""
        for blob in (b"", b"x" * 63, seal(self.key, 1, IV)[:47]):
            self.assertRaises(AuthenticationError, open_packed, self.key, blob)

    def test_nothing_inside(self) -> None:
        """A blob without a block, or of another type, is refused, though its HMAC is right."""
        for data in (b"", b"x", IV, IV + b"x" * 15):
            self.assertRaises(AuthenticationError, open_packed, self.key, data + self.key.mac(data))
        good = seal(self.key, 1, IV)
        for odd in (None, 5, "x" * 100, bytearray(good), [good], {good: good}):
            self.assertRaises(AuthenticationError, open_packed, self.key, odd)

    def test_T_COST_1_light(self) -> None:
        """T-COST-1: who cannot wait is told of what takes long, and it is not unpacked."""
        for value, is_light in (([None] * 20_000, False), ("x" * 20_000, True), ([None] * 9, True)):
            blob = seal(self.key, value, IV)
            if is_light:
                self.assertEqual(open_sealed(self.key, blob, light=True), value)
            else:
                self.assertRaises(TakesLong, open_sealed, self.key, blob, light=True)
            self.assertEqual(open_sealed(self.key, blob), value)

    def test_sealed_nonsense(self) -> None:
        """What the right key sealed, but wrongly, is a WireError: blocks, padding, marker."""
        from cryptography.hazmat.primitives.ciphers import Cipher, modes

        def raw(plain: bytes, tail: bytes = b"") -> bytes:
            aes = Cipher(self.key.algorithm, modes.CBC(IV)).encryptor()
            data = IV + aes.update(plain) + tail
            return data + self.key.mac(data)

        with_nonce = b"another:" + NONCE.encode() + b"\x01"
        end = 16 - len(with_nonce) % 16
        blob = raw(with_nonce + bytes([end]) * end)
        self.assertRaises(WireError, open_packed, self.key, blob, NONCE)
        for blob in (
            raw(b"pickle::" + b"\x08" * 8, b"odd"),
            raw(b"pickle::" + b"\x00" * 8),
            raw(b"pickle::" + b"\x11" * 8),
            raw(b"tickle::" + b"\x08" * 8),
        ):
            error = self.assertRaises(WireError, open_packed, self.key, blob)
            self.assertNotIsInstance(error, AuthenticationError)
        self.assertRaises(WireError, open_packed, self.key, raw(b"\x10" * 48), NONCE)

    def test_raw(self) -> None:
        """Opened raw, nothing is guessed."""
        blob = seal(self.key, {"data": "text"}, IV)

        self.assertEqual(open_raw(self.key, blob), {b"data": b"text"})
        self.assertEqual(guess(unpack_raw(open_packed(self.key, blob))), {"data": "text"})


class KeyTests(SynchronousTestCase):
    def test_text(self) -> None:
        """A key is 76 characters of base64, and knows its parts."""
        data = recorded("crypticle")
        key = SessionKey(data["key_string"])

        self.assertEqual(len(SessionKey.generate(Dice()).text), 76)
        self.assertEqual(key.algorithm.key.hex(), data["aes_key_hex"])

    def test_mac(self) -> None:
        """The kept halves of the HMAC make the same MAC as the library's."""
        import hmac

        data = recorded("crypticle")
        key, secret = SessionKey(data["key_string"]), bytes.fromhex(data["hmac_key_hex"])
        for message in (b"", b"x" * 1000):
            self.assertEqual(key.mac(message), hmac.digest(secret, message, "sha256"))

    def test_bad_text(self) -> None:
        """Text that is not a key is refused."""
        for text in ("", "x", "AAAA", "é" * 76, "!" * 76, "A" * 100):
            self.assertRaises(WireError, SessionKey, text)

    def test_equality_and_silence(self) -> None:
        """Keys are equal by text, usable in maps, and do not show it."""
        one, two = SessionKey.generate(Dice()), SessionKey.generate(Dice())

        self.assertEqual(one, two)
        self.assertEqual(len({one, two}), 1)
        self.assertNotEqual(one, one.text)
        self.assertNotIn(one.text[:10], repr(one))
