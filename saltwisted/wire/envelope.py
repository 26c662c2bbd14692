"""
The outer map of every request, and every form that a reply takes.

A request is C{{enc, load, version}}; a sealed one (C{enc: aes}) also names its
C{id} and the two RSA algorithms that the sender is configured for. A reply is
a sealed blob, a plain word of refusal, a clear map, or, for pillars alone, the
"private" form: a fresh key under the minion's RSA key, and under that key a
signed layer which repeats the key and the request's nonce.

What is inside a load is in L{saltwisted.wire.commands}; how blobs are made in
L{saltwisted.wire.crypticle}; replies to C{_auth} in L{saltwisted.wire.handshake}.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from hmac import compare_digest
from typing import Any

from attrs import field, frozen

from saltwisted.errors import AuthenticationError, WireError
from saltwisted.interfaces import Entropy
from saltwisted.wire.crypticle import (
    IV_BYTES,
    SessionKey,
    open_raw,
    seal,
    seal_into,
    seal_packed,
    sealed_size,
)
from saltwisted.wire.decoding import ACCEPTED, QUICK, Bounds, Skipping, at_once, head_of
from saltwisted.wire.msgpack import (
    LARGE,
    WRONG,
    guess,
    guessing,
    pack,
    pack_bin,
    unpack,
    unpack_raw,
    unpacking_raw,
)
from saltwisted.wire.rsa import OAEP_SHA1, PKCS1V15_SHA1, PrivateKey, PublicKey

VERSION = 3
"""The protocol that stock 3006 to 3008 speak: signed, with nonces and session keys."""

MAX_CLEAR = 4 * 1024 * 1024
"""Bytes of a clear request of a local client, which has the key of its user in it."""

MAX_ID = 1024

# Salt's plain refusals. A stock minion that gets one signs in again and resends.
BAD_LOAD = pack("bad load")
FAILED = pack("Some exception handling minion payload")

_TEXTS = (b"bad load", b"payload and load", b"Some exception", b"Server-side exception")


@frozen
class ClearRequest:
    """
    A request that anybody may have written.

    @ivar load: decoded, text guessed.
    @ivar size: bytes of the frame that it came in.
    """

    load: dict[Any, Any] = field(repr=False)
    version: int = 0
    size: int = field(default=0, eq=False)


@frozen
class SealedRequest:
    """
    A request under a session key.

    @ivar id: the minion id that it claims; the load must repeat it.
    @ivar blob: to be opened with that minion's session key; a large one is a part of the frame.
    """

    id: str
    blob: bytes | memoryview = field(repr=False)
    version: int = VERSION
    enc_algo: str = OAEP_SHA1
    sig_algo: str = PKCS1V15_SHA1


def _version(value: Any) -> int:
    if value.__class__ is int:
        return int(value)
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return 0


def _name(value: Any, default: str) -> str:
    if value is None:
        return default
    if value.__class__ is not bytes or len(value) > 64:
        raise WireError("algorithm name")
    try:
        return str(value, "ascii")
    except UnicodeDecodeError as error:
        raise WireError("algorithm name") from error


Request = ClearRequest | SealedRequest


def request_at_once(frame: bytes | memoryview) -> Request | None:
    """
    Read the outer map of a request, if that takes a moment only. Nothing inside a sealed load is
    looked at, and a large one is not copied.

    @return: C{None}: it is long and not sealed, or of an unusual form: see L{request_steps}.
    @raises WireError: not a request; Salt answers L{BAD_LOAD}.
    """
    if len(frame) <= QUICK:
        data = frame if frame.__class__ is bytes else bytes(frame)
        return _request(unpack_raw(data), len(data), guess)
    outer = _large_sealed(memoryview(frame))
    return _request(outer, 0, guess) if outer and outer.get(b"enc") == b"aes" else None


def request_steps(
    frame: bytes | memoryview, bounds: Bounds = ACCEPTED
) -> Generator[None, None, Request]:
    """
    The steps that read a request of any form.

    @raises WireError: not a request, or beyond the bounds.
    """
    outer = yield from unpacking_raw(bytes(frame), bounds)
    request = _request(outer, len(frame), lambda load: load)
    if isinstance(request, ClearRequest):
        load = yield from guessing(request.load)
        return ClearRequest(load, request.version, request.size)
    return request


def decode_request(frame: bytes | memoryview) -> Request:
    """
    Read a request of any form, of whoever is trusted not to send what takes long.

    @raises WireError: not a request; Salt answers L{BAD_LOAD}.
    """
    request = request_at_once(frame)
    if request is None:
        request = at_once(request_steps(frame))
    return request


def _request(request: Any, size: int, text: Callable[[Any], Any]) -> Request:
    """
    What the outer map says.

    @param size: bytes of the frame.
    @param text: guesses what in the load of a clear request is text.
    """
    if request.__class__ is not dict:
        raise WireError("envelope")
    enc = request.get(b"enc")
    load = request.get(b"load")
    version = _version(request.get(b"version", 0))
    if enc == b"aes":
        minion = request.get(b"id", b"")
        if load.__class__ is not bytes and load.__class__ is not memoryview:
            raise WireError("envelope")
        if minion.__class__ is not bytes or len(minion) > MAX_ID:
            raise WireError("envelope")
        try:
            name = str(minion, "utf-8")
        except UnicodeDecodeError as error:
            raise WireError("envelope id") from error
        return SealedRequest(
            name,
            load,
            version,
            _name(request.get(b"enc_algo"), OAEP_SHA1),
            _name(request.get(b"sig_algo"), PKCS1V15_SHA1),
        )
    if enc == b"clear":
        if load.__class__ is not dict:
            raise WireError("load")
        return ClearRequest(text(load), version, size)
    raise WireError("enc")


FIELDS = 64
"""Entries of a map that are looked through for the key of a user; Salt's have some twenty."""
LONGEST_KEY = 4096


def user_key_steps(frame: bytes | memoryview) -> Generator[None, None, bytes]:
    """
    The steps that find the key of a local user in a clear request. Nothing is decoded on the way.

    @return: the key, or nothing where there is none.
    """
    view = memoryview(frame)
    try:
        at = yield from _entry(view, 0, b"load")
        start, end = yield from _span(view, at, b"key")
        key = unpack_raw(bytes(view[start:end])) if end - start <= LONGEST_KEY else b""
    except (LookupError, WireError, *WRONG):
        return b""
    return key if isinstance(key, bytes) else b""


def _entry(view: memoryview, at: int, name: bytes) -> Generator[None, None, int]:
    start, _ = yield from _span(view, at, name)
    return start


def _span(view: memoryview, at: int, name: bytes) -> Generator[None, None, tuple[int, int]]:
    """
    Where the value of an entry of a map lies.

    @raises LookupError: it has no such entry, or there is no map.
    """
    head = head_of(view, at) if at < len(view) else None
    if head is None or not head[0] or head[1] > FIELDS:
        raise LookupError
    _, count, first = head
    skip = Skipping(view, first)
    for _ in range(count):
        start = first + skip.passed
        yield from skip.one()
        value = first + skip.passed
        is_it = value - start < FIELDS and unpack_raw(bytes(view[start:value])) == name
        if is_it and name == b"load":
            # It may be long: who looks inside skips it there
            return value, len(view)
        yield from skip.one()
        if is_it:
            return value, first + skip.passed
    raise LookupError


_RAW = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}
"""Bytes of the length of raw, by how it begins."""
_NUMBERS = {0xCC: 1, 0xCD: 2, 0xCE: 4}
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}


def _large_sealed(frame: memoryview) -> dict[bytes, Any] | None:
    """
    The outer map of a request whose load is raw and large: a part of the frame.

    @return: C{None}: it is of another form, or malformed.
    """
    entries: list[Any] = []
    try:
        head = head_of(frame, 0)
        if head is None or not head[0] or head[1] > FIELDS:
            return None
        _, count, at = head
        for _ in range(2 * count):
            first = frame[at]
            at += 1
            if first <= 0x7F:
                entries.append(first)
                continue
            if first in _CONSTANTS:
                entries.append(_CONSTANTS[first])
                continue
            if width := _NUMBERS.get(first, 0):
                entries.append(int.from_bytes(frame[at : at + width], "big"))
                at += width
                continue
            if 0xA0 <= first <= 0xBF:
                size = first - 0xA0
            elif width := _RAW.get(first, 0):
                size = int.from_bytes(frame[at : at + width], "big")
                at += width
            else:
                return None
            value = frame[at : at + size]
            at += size
            if at > len(frame):
                return None
            is_load = len(entries) % 2 and entries[-1] == b"load"
            entries.append(value if is_load and size > LARGE else bytes(value))
    except IndexError:
        return None
    if at != len(frame):
        return None
    return dict(zip(entries[::2], entries[1::2], strict=True))


def encode_clear_request(load: dict[str, Any], version: int = VERSION) -> bytes:
    """A request in the clear: C{_auth}, and what local clients send."""
    return pack({"enc": "clear", "load": load, "version": version})


def encode_sealed_request(
    minion_id: str,
    blob: bytes,
    enc_algo: str = OAEP_SHA1,
    sig_algo: str = PKCS1V15_SHA1,
    version: int = VERSION,
) -> bytes:
    """A sealed request; C{blob} holds a load with the same C{id}, a nonce, a time and the token."""
    return pack(
        {
            "enc": "aes",
            "load": blob,
            "id": minion_id,
            "enc_algo": enc_algo,
            "sig_algo": sig_algo,
            "version": version,
        }
    )


# -- replies ---------------------------------------------------------------


def encode_clear_reply(load: Any) -> bytes:
    """The reply to a clear request, unsigned."""
    return pack({"enc": "clear", "load": load})


def encode_sealed_reply(key: SessionKey, value: Any, iv: bytes, nonce: str) -> bytes:
    """The usual reply: a sealed value that carries the request's nonce."""
    return pack(seal(key, value, iv, nonce))


def encode_sealed_packed(key: SessionKey, packed: bytes, iv: bytes, nonce: str) -> bytes:
    """The same of a packed value; of a large one in a thread, where nobody waits for it."""
    if len(packed) > LARGE:
        return _sealed((b"", packed, b""), key, iv, nonce)
    return pack(seal_packed(key, packed, iv, nonce))


def encode_sealed_pieces(key: SessionKey, pieces: Sequence[bytes], iv: bytes, nonce: str) -> bytes:
    """The same of a value that is packed in pieces, which are not joined first; for a thread."""
    return _sealed((b"", *pieces, b""), key, iv, nonce)


def encode_sealed_chunk(
    key: SessionKey, data: bytes, rest: dict[str, Any], iv: bytes, nonce: str
) -> bytes:
    """
    The reply to C{_serve_file}: a map of C{data} and a few small entries, each byte of
    C{data} written once. May run in a thread.
    """
    pieces = (
        bytes([0x80 + 1 + len(rest)]) + pack("data") + _raw_head(len(data)),
        data,
        b"".join(pack(name) + pack(value) for name, value in rest.items()),
    )
    return _sealed(pieces, key, iv, nonce)


def _sealed(pieces: Sequence[bytes], key: SessionKey, iv: bytes, nonce: str) -> bytes:
    size = sealed_size(sum(map(len, pieces)), nonce)
    return seal_into(key, pieces, iv, nonce, _raw_head(size))  # type: ignore[return-value,unused-ignore]


def _raw_head(size: int) -> bytes:
    """How old-spec msgpack begins bytes of this size."""
    if size < 32:
        return bytes([0xA0 + size])
    if size < 1 << 16:
        return b"\xda" + size.to_bytes(2, "big")
    return b"\xdb" + size.to_bytes(4, "big")


@frozen
class SealedReply:
    """The usual answer: open with the session key and the nonce."""

    blob: bytes = field(repr=False)


@frozen
class PrivateReply:
    """The answer to C{_pillar}: see L{open_private_reply}."""

    key: bytes = field(repr=False)
    blob: bytes = field(repr=False)


@frozen
class ClearReply:
    """
    A map that is not sealed.

    @ivar value: the whole reply, text guessed; for C{enc: clear} its load.
    """

    value: Any = field(repr=False)


@frozen
class Refusal:
    """
    The server would not read the request.

    @ivar text: its words; C{bad load} is what a stale session key earns.
    """

    text: str


Reply = SealedReply | PrivateReply | ClearReply | Refusal


def decode_reply(frame: bytes) -> Reply:
    """
    Sort a reply by its form. Nothing is authenticated yet.

    @raises WireError: none of the known forms.
    """
    reply = unpack_raw(frame)
    kind = reply.__class__
    if kind is bytes:
        if reply.startswith(_TEXTS) or len(reply) < 64:
            return Refusal(reply[:200].decode("utf-8", "replace"))
        return SealedReply(reply)
    if reply is None:
        return ClearReply(None)
    if kind is dict:
        key, blob = reply.get(b"key"), reply.get(b"pillar")
        if key.__class__ is bytes and blob.__class__ is bytes:
            return PrivateReply(key, blob)
        if b"error" in reply and b"enc" not in reply:
            return Refusal(str(guess(reply[b"error"]))[:200])
        if reply.get(b"enc") == b"clear":
            return ClearReply(guess(reply.get(b"load")))
        return ClearReply(guess(reply))
    raise WireError("reply")


def encode_private_reply(
    packed: bytes,
    minion_key: PublicKey,
    master_key: PrivateKey,
    nonce: str,
    entropy: Entropy,
    enc_algo: str = OAEP_SHA1,
    sig_algo: str = PKCS1V15_SHA1,
    signed: bool = True,
) -> bytes:
    """
    Seal a pillar for one minion. One private RSA operation: run it in a thread.

    @param packed: the value, packed already (see L{pack}), since pillars are kept so.
    @param nonce: of the request; a signed reply without one is Salt's error map.
    @param signed: false for protocol 0 and 1.
    @raises WireError: unknown algorithm.
    """
    if signed and not nonce:
        return pack({"error": "Nonce not included in request"})
    key = SessionKey.generate(entropy)
    wrapped = minion_key.encrypt(key.text.encode("ascii"), enc_algo)
    if signed:
        data = b"".join(
            (
                b"\x83",
                pack("key"),
                pack(wrapped),
                pack("pillar"),
                packed,
                pack("nonce"),
                pack(nonce),
            )
        )
        layer: Any = {"data": data, "sig": master_key.sign(data, sig_algo)}
    else:
        layer = unpack_raw(packed)
    return pack({"key": wrapped, "pillar": seal(key, layer, entropy(IV_BYTES))})


def open_private_reply(
    reply: PrivateReply,
    key: PrivateKey,
    master_key: PublicKey,
    nonce: str,
    enc_algo: str = OAEP_SHA1,
    sig_algo: str = PKCS1V15_SHA1,
) -> Any:
    """
    Open a pillar: only if the known master signed it, for this request, around this key.

    @raises AuthenticationError: any of that is not so.
    @raises WireError: malformed.
    """
    fresh = SessionKey(key.decrypt(reply.key, enc_algo).decode("ascii", "replace"))
    layer = open_raw(fresh, reply.blob)
    if layer.__class__ is not dict:
        raise WireError("private layer")
    data, signature = layer.get(b"data"), layer.get(b"sig")
    if data.__class__ is not bytes or signature.__class__ is not bytes:
        raise AuthenticationError("private signature")
    if not master_key.verify(data, signature, sig_algo):
        raise AuthenticationError("private signature")
    inner = unpack(data)
    if inner.__class__ is not dict or "pillar" not in inner:
        raise WireError("private data")
    if inner.get("key") != reply.key:
        raise AuthenticationError("private key")
    got = inner.get("nonce")
    if got.__class__ is not str or not compare_digest(got.encode(), nonce.encode()):
        raise AuthenticationError("private nonce")
    return inner["pillar"]


# -- minion_sign_messages --------------------------------------------------


def signed_form(load: dict[str, Any]) -> bytes:
    """
    What C{minion_sign_messages} signs: the load with bin types, in its order,
    without the fields that the envelope adds.

    @raises TypeError: the load is not plain data.
    """
    return pack_bin({k: v for k, v in load.items() if k not in ("nonce", "tok", "sig")})
