"""
RSA keys as Salt uses them: PEM in, OAEP, PKCS#1 v1.5 and ANSI X9.31 out.

Algorithms go by Salt's own names (C{OAEP-SHA1}, C{PKCS1v15-SHA224}, ...),
since these travel in requests. X9.31 (ISO 9796-2 padding with the smaller of
s and n-s) is not in any current library; it is used for two short fixed
messages, the minion's token and the digest of the publish key, and both are
made once per key and then kept by the caller.

A key with an exponent below 65537 or fewer than 2048 bits is refused wherever
it comes from (CVE-2013-2228). Private operations take 0.3 to 3 ms: callers on
the reactor thread hand them to a thread pool.
"""

from __future__ import annotations

import hashlib
from functools import cached_property, lru_cache
from math import gcd

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from saltwisted.errors import AuthenticationError, WireError

__all__ = [
    "ENCRYPTION",
    "OAEP_SHA1",
    "OAEP_SHA224",
    "PKCS1V15_SHA1",
    "PKCS1V15_SHA224",
    "SIGNING",
    "PrivateKey",
    "PublicKey",
    "clean_pem",
    "fingerprint",
]

OAEP_SHA1 = "OAEP-SHA1"
OAEP_SHA224 = "OAEP-SHA224"
PKCS1V15_SHA1 = "PKCS1v15-SHA1"
PKCS1V15_SHA224 = "PKCS1v15-SHA224"

MIN_BITS = 2048
MAX_BITS = 16384
MIN_EXPONENT = 65537
MAX_EXPONENT = 1 << 33
MAX_PEM = 32 * 1024
CACHED_KEYS = 8192
"""Parsed public keys that are remembered: parsing costs as much as an operation."""


def _oaep(algorithm: hashes.HashAlgorithm) -> padding.OAEP:
    return padding.OAEP(mgf=padding.MGF1(algorithm), algorithm=algorithm, label=None)


# SHA-1 here is the protocol's default, not a choice: both sides offer SHA-224 by option.
ENCRYPTION: dict[str, padding.OAEP] = {
    OAEP_SHA1: _oaep(hashes.SHA1()),  # noqa: S303
    OAEP_SHA224: _oaep(hashes.SHA224()),
}
SIGNING: dict[str, hashes.HashAlgorithm] = {
    PKCS1V15_SHA1: hashes.SHA1(),  # noqa: S303
    PKCS1V15_SHA224: hashes.SHA224(),
}
_PKCS1 = padding.PKCS1v15()


def clean_pem(pem: str | bytes) -> str:
    """
    Salt's clean form of a key: no surrounding blanks, C{\\n} between lines, none at the end.

    @raises WireError: not ASCII.
    """
    try:
        text = pem.decode("ascii") if isinstance(pem, bytes) else pem
    except UnicodeDecodeError as error:
        raise WireError("key") from error
    return "\n".join(text.strip().splitlines())


def fingerprint(pem: str | bytes, hash_type: str = "sha256") -> str:
    """
    Salt's fingerprint of a PEM file: the digest of its lines without the first and
    the last, as hexadecimal pairs with colons.

    @param hash_type: a name for L{hashlib.new}.
    @raises WireError: no such hash.
    """
    data = pem.encode() if isinstance(pem, str) else pem
    lines = [line for line in data.splitlines(keepends=True) if line.strip()]
    body = b"".join(lines[1:-1]).replace(b"\r\n", b"\n")
    try:
        digest = hashlib.new(hash_type, body).hexdigest()
    except (ValueError, TypeError) as error:
        raise WireError("hash_type") from error
    return ":".join(digest[n : n + 2] for n in range(0, len(digest), 2))


def _check(numbers: rsa.RSAPublicNumbers) -> None:
    """
    @raises WireError: too weak, or so large that using it would be an attack.
    """
    if not MIN_BITS <= numbers.n.bit_length() <= MAX_BITS:
        raise WireError("key size")
    if not MIN_EXPONENT <= numbers.e <= MAX_EXPONENT or numbers.e % 2 == 0:
        raise WireError("key exponent")


def _hash(algorithm: str) -> hashes.HashAlgorithm:
    try:
        return SIGNING[algorithm]
    except (KeyError, TypeError) as error:
        raise WireError("signing algorithm") from error


def _padding(algorithm: str) -> padding.OAEP:
    try:
        return ENCRYPTION[algorithm]
    except (KeyError, TypeError) as error:
        raise WireError("encryption algorithm") from error


class PublicKey:
    """
    One parsed public key.

    @ivar pem: the clean form of the text it was read from.
    """

    __slots__ = ("_key", "e", "n", "pem", "size")

    def __init__(self, key: rsa.RSAPublicKey, pem: str | None = None) -> None:
        """
        @raises WireError: the key is too weak.
        """
        numbers = key.public_numbers()
        _check(numbers)
        self._key = key
        self.n = numbers.n
        self.e = numbers.e
        self.size = (numbers.n.bit_length() + 7) // 8
        if pem is None:
            pem = key.public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            ).decode("ascii")
        self.pem = clean_pem(pem)

    @staticmethod
    def from_pem(pem: str | bytes) -> PublicKey:
        """
        Parse a key, or return the one parsed from the same bytes before.

        @raises WireError: not an RSA public key in PEM, or too weak.
        """
        if isinstance(pem, str):
            pem = pem.encode("utf-8", "replace")
        if len(pem) > MAX_PEM:
            raise WireError("key")
        # A file's last line ends with a newline and a minion's key does not: one key all the same
        return _parse_public(pem.strip())

    def encrypt(self, data: bytes, algorithm: str = OAEP_SHA1) -> bytes:
        """
        OAEP.

        @raises WireError: unknown algorithm, or data too long for the key.
        """
        try:
            return self._key.encrypt(data, _padding(algorithm))
        except UnsupportedAlgorithm as error:
            raise WireError("encryption algorithm") from error
        except ValueError as error:
            raise WireError("too long") from error

    def verify(self, data: bytes, signature: str | bytes, algorithm: str = PKCS1V15_SHA1) -> bool:
        """
        Whether this is the key's PKCS#1 v1.5 signature over exactly these bytes.

        @raises WireError: unknown algorithm.
        """
        if not isinstance(signature, bytes):
            return False
        try:
            self._key.verify(signature, data, _PKCS1, _hash(algorithm))
        except InvalidSignature:
            return False
        except UnsupportedAlgorithm as error:
            raise WireError("signing algorithm") from error
        return True

    def open_x931(self, signature: str | bytes) -> bytes:
        """
        The message inside an X9.31 signature.

        @raises AuthenticationError: not made by this key.
        """
        if not isinstance(signature, bytes) or len(signature) != self.size:
            raise AuthenticationError("x931")
        s = int.from_bytes(signature, "big")
        if s >= self.n:
            raise AuthenticationError("x931")
        m = pow(s, self.e, self.n)
        if m % 16 != 12:
            m = self.n - m
        block = m.to_bytes(self.size, "big")
        if block[-1] != 0xCC:
            raise AuthenticationError("x931")
        if block[0] == 0x6A:
            return block[1:-1]
        filled = block[1:].lstrip(b"\xbb")
        if block[0] != 0x6B or filled[0] != 0xBA:
            raise AuthenticationError("x931")
        return filled[1:-1]

    def fingerprint(self, hash_type: str = "sha256") -> str:
        """Salt's fingerprint of the key file that holds this key; see L{fingerprint}."""
        return fingerprint(self.pem, hash_type)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PublicKey) and self.n == other.n and self.e == other.e

    def __hash__(self) -> int:
        return hash((self.n, self.e))

    def __repr__(self) -> str:
        return f"<PublicKey {self.fingerprint()[:23]}>"


@lru_cache(maxsize=CACHED_KEYS)
def _parse_public(pem: bytes) -> PublicKey:
    try:
        key = serialization.load_pem_public_key(pem)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise WireError("key") from error
    if not isinstance(key, rsa.RSAPublicKey):
        raise WireError("key type")
    return PublicKey(key, clean_pem(pem))


class PrivateKey:
    """
    One private key. Its own public half is checked like any other.
    """

    def __init__(self, key: rsa.RSAPrivateKey) -> None:
        """
        @raises WireError: the key is too weak.
        """
        self._key = key
        self.public = PublicKey(key.public_key())

    @classmethod
    def from_pem(cls, pem: str | bytes, passphrase: str | None = None) -> PrivateKey:
        """
        Parse PKCS#1 or PKCS#8.

        @raises WireError: not an RSA private key in PEM, a wrong passphrase, or too weak.
        """
        data = pem.encode("utf-8", "replace") if isinstance(pem, str) else pem
        secret = passphrase.encode() if passphrase else None
        try:
            key = serialization.load_pem_private_key(data, secret)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise WireError("private key") from error
        if not isinstance(key, rsa.RSAPrivateKey):
            raise WireError("key type")
        return cls(key)

    @classmethod
    def generate(cls, bits: int = 2048) -> PrivateKey:
        """
        A new key with e = 65537. Takes 0.1 to some seconds; the library brings its own chance.
        """
        return cls(rsa.generate_private_key(public_exponent=MIN_EXPONENT, key_size=bits))

    def pem(self, passphrase: str | None = None) -> str:
        """The key as Salt writes it: "TraditionalOpenSSL", with a final newline."""
        encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if passphrase:
            encryption = serialization.BestAvailableEncryption(passphrase.encode())
        return self._key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, encryption
        ).decode("ascii")

    def decrypt(self, data: str | bytes, algorithm: str = OAEP_SHA1) -> bytes:
        """
        OAEP. Every failure is the same error.

        @raises WireError: unknown algorithm.
        @raises AuthenticationError: not encrypted to this key.
        """
        if not isinstance(data, bytes):
            raise AuthenticationError("oaep")
        try:
            return self._key.decrypt(data, _padding(algorithm))
        except UnsupportedAlgorithm as error:
            raise WireError("encryption algorithm") from error
        except ValueError as error:
            raise AuthenticationError("oaep") from error

    def sign(self, data: bytes, algorithm: str = PKCS1V15_SHA1) -> bytes:
        """
        PKCS#1 v1.5.

        @raises WireError: unknown algorithm.
        """
        try:
            return self._key.sign(data, _PKCS1, _hash(algorithm))
        except UnsupportedAlgorithm as error:
            raise WireError("signing algorithm") from error

    @cached_property
    def _crt(self) -> tuple[int, int, int, int, int]:
        numbers = self._key.private_numbers()
        return numbers.p, numbers.q, numbers.dmp1, numbers.dmq1, numbers.iqmp

    def sign_x931(self, message: bytes) -> bytes:
        """
        X9.31 with the Chinese remainder theorem: about 3 ms for 2048 bits, with the
        interpreter lock held, so keep the result. The signature is checked before it
        is given out, since a fault in one half would reveal the key.

        @raises WireError: the message is too long for the key.
        """
        n, size = self.public.n, self.public.size
        fill = size - len(message) - 2
        if fill < 0:
            raise WireError("too long")
        head = b"\x6a" if fill == 0 else b"\x6b" + b"\xbb" * (fill - 1) + b"\xba"
        block = int.from_bytes(head + message + b"\xcc", "big")
        p, q, dp, dq, inverse = self._crt
        if gcd(block, n) != 1 or block >= n:
            raise WireError("too long")
        a, b = pow(block, dp, p), pow(block, dq, q)
        s = b + q * (inverse * (a - b) % p)
        signature = min(s, n - s).to_bytes(size, "big")
        if self.public.open_x931(signature) != message:
            raise WireError("x931")
        return signature

    def __repr__(self) -> str:
        return f"<PrivateKey of {self.public!r}>"
