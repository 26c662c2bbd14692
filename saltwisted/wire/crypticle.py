"""
Salt's symmetric box: AES-192-CBC, then HMAC-SHA-256 over what came out.

A blob is C{iv(16) + ciphertext + mac(32)}. The plaintext is the marker
C{pickle::} (a name from long ago; nothing is pickled), then, only in replies,
the 32 characters of the request's nonce, then msgpack. The key travels and is
stored as 76 characters of base64: 24 bytes AES, 32 bytes HMAC.

Randomness is an argument: the caller brings the 16 bytes.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import Sequence
from hmac import compare_digest
from typing import Any

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from saltwisted.errors import AuthenticationError, WireError
from saltwisted.interfaces import Entropy
from saltwisted.wire.decoding import QUICK
from saltwisted.wire.msgpack import LARGE, pack, unpack, unpack_raw

__all__ = [
    "SessionKey",
    "open_packed",
    "open_raw",
    "open_sealed",
    "seal",
    "seal_into",
    "seal_packed",
    "sealed_size",
]

MARKER = b"pickle::"
AES_BYTES = 24
MAC_BYTES = 32
IV_BYTES = 16

_PADS = [b""] + [bytes([n]) * n for n in range(1, 17)]
_INNER = bytes(b ^ 0x36 for b in range(256))
_OUTER = bytes(b ^ 0x5C for b in range(256))


class SessionKey:
    """
    One key string, parsed once: the AES key object and the two halves of the
    HMAC are kept ready, since both are used for every message.

    @ivar text: the 76 characters. Secret.
    """

    __slots__ = ("_inner", "_outer", "algorithm", "text")

    def __init__(self, text: str) -> None:
        """
        @raises WireError: not base64 of 56 bytes.
        """
        try:
            raw = a2b_base64(text.encode("ascii"))
        except (Base64Error, UnicodeEncodeError) as error:
            raise WireError("session key") from error
        if len(raw) != AES_BYTES + MAC_BYTES:
            raise WireError("session key")
        self.text = text
        self.algorithm = algorithms.AES(raw[:AES_BYTES])
        block = raw[AES_BYTES:].ljust(64, b"\0")
        self._inner = hashlib.sha256(block.translate(_INNER))
        self._outer = hashlib.sha256(block.translate(_OUTER))

    @classmethod
    def generate(cls, entropy: Entropy) -> SessionKey:
        """A new key from 56 random bytes."""
        return cls(b64encode(entropy(AES_BYTES + MAC_BYTES)).decode("ascii"))

    def mac(self, data: bytes | memoryview) -> bytes:
        """HMAC-SHA-256; copying the two keyed states halves its cost for short messages."""
        inner = self._inner.copy()
        inner.update(data)
        outer = self._outer.copy()
        outer.update(inner.digest())
        return outer.digest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SessionKey) and compare_digest(self.text, other.text)

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return "<SessionKey>"


def seal_packed(key: SessionKey, packed: bytes, iv: bytes, nonce: str = "") -> bytes:
    """
    Seal msgpack bytes.

    @param iv: 16 fresh random bytes.
    @param nonce: the request's nonce when this is a reply, else nothing.
    """
    plain = MARKER + nonce.encode("ascii") + packed if nonce else MARKER + packed
    aes = Cipher(key.algorithm, modes.CBC(iv)).encryptor()
    data = iv + aes.update(plain + _PADS[16 - len(plain) % 16])
    return data + key.mac(data)


def seal_into(
    key: SessionKey, pieces: Sequence[bytes], iv: bytes, nonce: str, head: bytes
) -> bytearray:
    """
    Seal msgpack bytes that lie in pieces, behind C{head}, without joining them first.

    For large replies: each byte is written once, where it goes out from. The lock
    of the interpreter is free meanwhile, so it may run in a thread.

    @param pieces: the packed value in parts.
    @param head: unsealed bytes to put in front, see L{sealed_size}.
    """
    size = sealed_size(sum(map(len, pieces)), nonce)
    out = bytearray(len(head) + size)
    start = len(head) + IV_BYTES
    out[:start] = head + iv
    plain = len(MARKER) + len(nonce) + sum(map(len, pieces))
    with memoryview(out) as view:
        aes = Cipher(key.algorithm, modes.CBC(iv)).encryptor()
        at = start
        for piece in (
            MARKER + nonce.encode("ascii") + pieces[0],
            *pieces[1:-1],
            pieces[-1] + _PADS[16 - plain % 16],
        ):
            at += aes.update_into(piece, view[at:])
        view[at : at + MAC_BYTES] = key.mac(view[len(head) : at])
    return out


def sealed_size(packed: int, nonce: str) -> int:
    """Bytes of the blob that seals so many bytes of msgpack."""
    plain = len(MARKER) + len(nonce) + packed
    return IV_BYTES + plain + 16 - plain % 16 + MAC_BYTES


def seal(key: SessionKey, value: Any, iv: bytes, nonce: str = "") -> bytes:
    """
    Pack and seal a value; see L{seal_packed}.
    """
    return seal_packed(key, pack(value), iv, nonce)


def open_packed(key: SessionKey, blob: bytes | memoryview, nonce: str | None = None) -> bytes:
    """
    Verify and decrypt; what comes back is msgpack.

    @param nonce: the nonce that the reply must carry, or C{None} for requests
        and publications, which carry none.
    @raises AuthenticationError: the HMAC or the nonce is wrong.
    @raises WireError: the blob is sealed with this key but malformed.
    """
    kind = blob.__class__
    if (kind is not bytes and kind is not memoryview) or len(blob) < IV_BYTES + 16 + MAC_BYTES:
        raise AuthenticationError("blob")
    if kind is bytes and len(blob) > LARGE:
        # Its parts need no copies of their own
        blob = memoryview(blob)
    data = blob[:-MAC_BYTES]
    if not compare_digest(key.mac(data), blob[-MAC_BYTES:]):
        raise AuthenticationError("hmac")
    if len(data) % 16:
        raise WireError("blocks")
    aes = Cipher(key.algorithm, modes.CBC(bytes(data[:IV_BYTES]))).decryptor()
    plain = aes.update(data[IV_BYTES:])
    pad = plain[-1]
    if not 0 < pad <= 16:
        raise WireError("padding")
    if nonce:
        head = len(MARKER) + len(nonce)
        if plain[:8] != MARKER:
            raise WireError("marker")
        if not compare_digest(plain[8:head], nonce.encode("ascii", "replace")):
            raise AuthenticationError("nonce")
        return plain[head:-pad]
    if plain[:8] != MARKER:
        raise WireError("marker")
    return plain[8:-pad]


class TakesLong(Exception):
    """What was sealed takes longer to unpack than others may be kept waiting."""


HEAVY = 5000
"""
Bytes beyond ASCII of a message above L{QUICK<saltwisted.wire.decoding.QUICK>} from which on it may
take long: containers, and texts that are none, have at least one each.
"""
_ASCII = bytes(range(128))


def open_sealed(
    key: SessionKey, blob: bytes | memoryview, nonce: str | None = None, light: bool = False
) -> Any:
    """
    Open a blob and decode it with Salt's text guess; see L{open_packed}.

    @raises TakesLong: C{light} was asked for, and it may not be so.
    """
    packed = open_packed(key, blob, nonce)
    if light and len(packed) > QUICK and len(packed.translate(None, _ASCII)) > HEAVY:
        raise TakesLong
    return unpack(packed)


def open_raw(key: SessionKey, blob: bytes, nonce: str | None = None) -> Any:
    """
    Open a blob and leave all raw as bytes (C{_serve_file} replies, signed layers).
    """
    return unpack_raw(open_packed(key, blob, nonce))
