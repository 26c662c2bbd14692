from __future__ import annotations

import hashlib
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.errors import AuthenticationError, WireError
from saltwisted.wire.rsa import (
    ENCRYPTION,
    SIGNING,
    PrivateKey,
    PublicKey,
    clean_pem,
    fingerprint,
)
from tests.wire.recorded import key, private, recorded


def pem_of(n: int, e: int) -> str:
    """A public key with any numbers, by hand where the library refuses."""

    def der(tag: int, body: bytes) -> bytes:
        size = len(body)
        head = (
            bytes([size])
            if size < 128
            else bytes([0x80 | (size.bit_length() + 7) // 8])
            + size.to_bytes((size.bit_length() + 7) // 8, "big")
        )
        return bytes([tag]) + head + body

    def integer(value: int) -> bytes:
        return der(2, value.to_bytes(value.bit_length() // 8 + 1, "big"))

    from base64 import encodebytes

    key_bits = der(0x30, integer(n) + integer(e))
    info = der(0x30, bytes.fromhex("300d06092a864886f70d0101010500") + der(3, b"\0" + key_bits))
    return (
        "-----BEGIN PUBLIC KEY-----\n" + encodebytes(info).decode() + "-----END PUBLIC KEY-----\n"
    )


class RecordedTests(SynchronousTestCase):
    def test_x931(self) -> None:
        """Every recorded X9.31 signature is made and opened, full blocks included."""
        data = recorded("rsa")
        for case in data["x931"]:
            pair = private(data["keys"][case["key"]])
            message = bytes.fromhex(case["message_hex"])

            self.assertEqual(pair.sign_x931(message).hex(), case["signature_hex"])
            self.assertEqual(pair.public.open_x931(bytes.fromhex(case["signature_hex"])), message)

    def test_pkcs1(self) -> None:
        """Every recorded PKCS#1 signature is made and verified, by the name of its algorithm."""
        data = recorded("rsa")
        for case in data["pkcs1"]:
            pair = private(data["keys"][case["key"]])
            message = bytes.fromhex(case["message_hex"])
            signature = bytes.fromhex(case["signature_hex"])

            self.assertEqual(pair.sign(message, case["algorithm"]), signature)
            self.assertTrue(pair.public.verify(message, signature, case["algorithm"]))


class WeakKeyTests(SynchronousTestCase):
    def test_T_KEY_2(self) -> None:
        """Keys with e below 65537 or fewer than 2048 bits are refused, and absurd ones."""
        n = key("minion").public.n
        for pem in (
            pem_of(n, 1),
            pem_of(n, 3),
            pem_of(n, 65535),
            pem_of(n, 65538),
            pem_of(n >> 1 | 1, 65537),
            pem_of(n >> 1024 | 1, 65537),
            pem_of(n, (1 << 40) + 1),
            pem_of((1 << 20000) + 1, 65537),
        ):
            self.assertRaises(WireError, PublicKey.from_pem, pem)

        self.assertEqual(PublicKey.from_pem(pem_of(n, 65537)).n, n)

    def test_long(self) -> None:
        """A key with more around it than any has is none, before it is parsed."""
        pem = key("master").public.pem
        self.assertEqual(PublicKey.from_pem(pem + "\n" * 1000).pem, pem)
        self.assertRaises(WireError, PublicKey.from_pem, pem + "\n" * 33_000)

    def test_T_KEY_2_private(self) -> None:
        """A private key of that kind is refused as well."""
        weak = rsa.generate_private_key(public_exponent=65537, key_size=1024)
        pem = weak.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )

        self.assertRaises(WireError, PrivateKey.from_pem, pem)

    def test_no_rsa(self) -> None:
        """Keys of other kinds, and what is not a key, are refused."""
        other = ec.generate_private_key(ec.SECP256R1())
        public = other.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        secret = other.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        for pem in (public, b"", "é", "x" * 100_000, key("minion").public.pem[:200]):
            self.assertRaises(WireError, PublicKey.from_pem, pem)
        for pem in (secret, b"", b"\xff"):
            self.assertRaises(WireError, PrivateKey.from_pem, pem)


class PublicKeyTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.pair = key("minion")
        self.public = self.pair.public

    def test_clean_form(self) -> None:
        """The clean form has no blanks around, plain line ends and no last one."""
        pem = self.public.pem

        self.assertEqual(clean_pem("\n " + pem.replace("\n", "\r\n") + "\n\n"), pem)
        self.assertFalse(pem.endswith("\n"))
        self.assertRaises(WireError, clean_pem, b"\xff")

    def test_remembered(self) -> None:
        """The same bytes are parsed once."""
        self.assertIs(PublicKey.from_pem(self.public.pem), PublicKey.from_pem(self.public.pem))
        self.assertEqual(PublicKey.from_pem(self.public.pem + "\n"), self.public)
        self.assertNotEqual(self.public, key("master").public)

    def test_fingerprint(self) -> None:
        """The fingerprint is the digest of the lines between the dashes, line ends included."""
        pem = self.public.pem + "\n"
        body = "".join(pem.splitlines(keepends=True)[1:-1]).encode()
        digest = hashlib.sha256(body).hexdigest()

        got = self.public.fingerprint()

        self.assertEqual(got.replace(":", ""), digest)
        self.assertEqual(fingerprint(pem.replace("\n", "\r\n")), got)
        self.assertEqual(fingerprint(pem.encode()), got)
        self.assertEqual(len(fingerprint(pem, "md5")), 47)
        self.assertRaises(WireError, fingerprint, pem, "nothing")

    def test_oaep(self) -> None:
        """Both OAEP forms round-trip, and do not open with the other, another key, or damaged."""
        for name in ENCRYPTION:
            sealed = self.public.encrypt(b"x" * 76, name)

            self.assertEqual(self.pair.decrypt(sealed, name), b"x" * 76)
            other = next(one for one in ENCRYPTION if one != name)
            for pair, data, algorithm in (
                (self.pair, sealed, other),
                (key("master"), sealed, name),
                (self.pair, sealed[:-1], name),
                (self.pair, "text", name),
            ):
                self.assertRaises(AuthenticationError, pair.decrypt, data, algorithm)
        self.assertRaises(WireError, self.public.encrypt, b"x" * 300)

    def test_verify(self) -> None:
        """A signature holds for its bytes, key and algorithm alone."""
        for name in SIGNING:
            signature = self.pair.sign(b"data", name)

            self.assertTrue(self.public.verify(b"data", signature, name))
            self.assertFalse(self.public.verify(b"date", signature, name))
            self.assertFalse(self.public.verify(b"data", signature[::-1], name))
            self.assertFalse(self.public.verify(b"data", b"", name))
            self.assertFalse(self.public.verify(b"data", "text", name))
            self.assertFalse(key("master").public.verify(b"data", signature, name))

    def test_algorithms_that_the_library_lacks(self) -> None:
        """A library without SHA-1 (FIPS) makes a WireError of it, not a crash."""

        class Lacking:
            def __getattr__(self, name: str) -> Any:
                raise UnsupportedAlgorithm("FIPS")

        public, pair = PublicKey.__new__(PublicKey), PrivateKey.__new__(PrivateKey)
        public._key = pair._key = Lacking()  # type: ignore[assignment]

        self.assertRaises(WireError, public.encrypt, b"")
        self.assertRaises(WireError, public.verify, b"", b"")
        self.assertRaises(WireError, pair.decrypt, b"")
        self.assertRaises(WireError, pair.sign, b"")

    def test_unknown_algorithms(self) -> None:
        """Only Salt's four names are known."""
        for name in ("", "OAEP-MD5", "PKCS1v15-SHA256", b"OAEP-SHA1", [], None):
            self.assertRaises(WireError, self.public.encrypt, b"", name)
            self.assertRaises(WireError, self.pair.decrypt, b"", name)
            self.assertRaises(WireError, self.pair.sign, b"", name)
            self.assertRaises(WireError, self.public.verify, b"", b"", name)

    def test_x931_refuses(self) -> None:
        """Damaged, foreign, oversized and mistyped X9.31 signatures do not open."""
        good = self.pair.sign_x931(b"salt")
        n = self.public.n
        for bad in (
            good[:-1],
            b"",
            "text",
            "x" * len(good),
            bytes(len(good)),
            good[:-1] + bytes([good[-1] ^ 1]),
            key("master").sign_x931(b"salt"),
            n.to_bytes(256, "big"),
            (n - 1).to_bytes(256, "big"),
            (1).to_bytes(256, "big"),
        ):
            self.assertRaises(AuthenticationError, self.public.open_x931, bad)

    def test_x931_wrong_frames(self) -> None:
        """A block signed by the key itself with a wrong header or filling does not open."""
        numbers = self.pair._key.private_numbers()
        for block in (
            b"\x6b\xbb\xbb" + b"\x00" * 252 + b"\xcc",
            b"\x5b" + b"\xbb" * 200 + b"\xba" + b"salt".ljust(53) + b"\xcc",
            b"\x6b" + b"\xbb" * 254 + b"\xcc",
            b"\x6b" + b"\xbb" * 249 + b"\xbasalt\x3c",
            b"\x6b" + b"\xbb" * 249 + b"\xabsalt\xcc",
        ):
            m = int.from_bytes(block, "big")
            signature = pow(m, numbers.d, self.public.n).to_bytes(256, "big")

            self.assertRaises(AuthenticationError, self.public.open_x931, signature)

    def test_x931_one_form(self) -> None:
        """A signature is written in one way: with the modulus added to it, it is another one's."""
        found = 0
        for number in range(64):
            message = b"salt%d" % number
            more = int.from_bytes(self.pair.sign_x931(message), "big") + self.public.n
            if more.bit_length() <= 2048:
                found += 1
                written = more.to_bytes(256, "big")
                self.assertRaises(AuthenticationError, self.public.open_x931, written)
        self.assertGreater(found, 0)

    def test_x931_too_long(self) -> None:
        """A message that does not fit is refused."""
        self.assertRaises(WireError, self.pair.sign_x931, b"x" * 255)


class PrivateKeyTests(SynchronousTestCase):
    def test_written_as_salt_does(self) -> None:
        """A key is written as PKCS#1 and read again; with a passphrase only with it."""
        pair = key("minion")

        self.assertTrue(pair.pem().startswith("-----BEGIN RSA PRIVATE KEY-----\n"))
        self.assertEqual(PrivateKey.from_pem(pair.pem()).public, pair.public)
        locked = pair.pem("secret")
        self.assertEqual(PrivateKey.from_pem(locked, "secret").public, pair.public)
        self.assertRaises(WireError, PrivateKey.from_pem, locked)
        self.assertRaises(WireError, PrivateKey.from_pem, locked, "wrong")

    def test_generate(self) -> None:
        """A new key has e = 65537 and the size that was asked for."""
        pair = PrivateKey.generate(2048)

        self.assertEqual((pair.public.e, pair.public.n.bit_length()), (65537, 2048))

    def test_silent(self) -> None:
        """Neither half shows more than a fingerprint."""
        pair = key("minion")

        self.assertIn(pair.public.fingerprint()[:23], repr(pair))
        self.assertNotIn(str(pair.public.n), repr(pair) + repr(pair.public))
