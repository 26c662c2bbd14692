"""
Laws of the wire: what goes out comes back, and no bytes whatever raise anything but L{WireError}.
"""

from __future__ import annotations

import resource
from collections.abc import Callable
from random import Random
from typing import Any

import msgpack as library
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.errors import WireError
from saltwisted.wire import msgpack
from saltwisted.wire.commands import commands, parse_command, take_common
from saltwisted.wire.crypticle import SessionKey, open_packed, open_sealed, seal
from saltwisted.wire.envelope import (
    ClearRequest,
    PrivateReply,
    decode_reply,
    decode_request,
    encode_clear_request,
    encode_sealed_request,
    open_private_reply,
)
from saltwisted.wire.frames import FrameReader, encode_frame
from saltwisted.wire.handshake import MasterIdentity, MinionHandshake, accepted_reply
from saltwisted.wire.msgpack import pack, pack_bin, unpack, unpack_bin, unpack_raw
from saltwisted.wire.publication import (
    decode_publication,
    parse_job,
    seal_job,
    sign_blob,
    verify_publication,
)
from saltwisted.wire.rsa import PrivateKey, PublicKey
from tests.harness import needs_peers
from tests.wire.recorded import Dice, key

modest = settings(
    derandomize=True,
    max_examples=80,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
few = settings(modest, max_examples=25)

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=40)
    | st.binary(max_size=40)
)
keys = st.text(max_size=12) | st.integers(-(2**63), 2**64 - 1) | st.binary(max_size=12)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(keys, inner, max_size=5),
    max_leaves=25,
)


def guessed(value: Any) -> Any:
    """The guess, spelt out."""
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return value
    if isinstance(value, list):
        return [guessed(one) for one in value]
    if isinstance(value, dict):
        return {guessed(k): guessed(v) for k, v in value.items()}
    return value


def reference(data: bytes) -> Any:
    """What L{unpack} must give, the slow way."""
    return guessed(library.unpackb(data, raw=True, strict_map_key=False))


def only_wire_errors(function: Callable[..., Any], *args: Any) -> None:
    """Call it; whatever it thinks of the bytes, it says so with our error."""
    try:
        function(*args)
    except WireError:
        pass


class MsgpackLaws(SynchronousTestCase):
    @modest
    @given(values)
    def test_round_trip(self, value: Any) -> None:
        """A value comes back from the network as the guess of itself."""
        self.assertEqual(unpack(pack(value)), guessed_value(value))

    @modest
    @given(values)
    def test_round_trip_bin(self, value: Any) -> None:
        """In the other dialect it comes back as itself."""
        self.assertEqual(unpack_bin(pack_bin(value)), value)

    @modest
    @given(values)
    def test_same_bytes_as_the_library(self, value: Any) -> None:
        """For plain values the bytes are the library's."""
        self.assertEqual(pack(value), library.packb(value, use_bin_type=False))
        self.assertEqual(pack_bin(value), library.packb(value, use_bin_type=True))

    @modest
    @given(
        st.dictionaries(keys, values, max_size=8),
        st.booleans(),
        st.lists(st.binary(min_size=8, max_size=300), max_size=3),
    )
    @example({"a": "x" * 700}, False, [b"\xff" * 256])
    @example({"a": b"\xc4" * 700}, True, [])
    @example({"č": "ć" * 400}, False, [b"\xff\xc4"])
    def test_fast_is_slow(self, value: dict[Any, Any], newer: bool, binaries: list[bytes]) -> None:
        """The quick way of decoding gives exactly what the slow one does, in both dialects."""
        for number, binary in enumerate(binaries):
            value[f"binary {number}"] = binary
        value["long enough"] = "t" * msgpack.SMALL
        data = library.packb(value, use_bin_type=newer)

        self.assertEqual(unpack(data), reference(data))

    @modest
    @given(st.binary(max_size=200), st.integers(0, 3))
    def test_any_bytes(self, data: bytes, stretch: int) -> None:
        """No bytes make a decoder raise anything but a WireError."""
        data += b"\x93" * (msgpack.SMALL * stretch)
        for decode in (unpack, unpack_raw, unpack_bin):
            only_wire_errors(decode, data)

    @modest
    @given(values, st.data())
    def test_mutated(self, value: Any, data: Any) -> None:
        """Nor do valid bytes with one changed or some missing; what decodes is right."""
        packed = bytearray(pack({"v": value, "pad": "p" * 600}))
        at = data.draw(st.integers(0, len(packed) - 1))
        packed[at] = data.draw(st.integers(0, 255))
        mutated = bytes(packed[: data.draw(st.integers(1, len(packed)))])
        try:
            got = unpack(mutated)
        except WireError:
            return

        self.assertEqual(repr(got), repr(plainly(reference(mutated))))


def guessed_value(value: Any) -> Any:
    """What a value becomes on its way: text and bytes are one type, maps may merge keys."""
    if isinstance(value, bytes):
        return guessed(value)
    if isinstance(value, list):
        return [guessed_value(one) for one in value]
    if isinstance(value, dict):
        return {guessed_value(k): guessed_value(v) for k, v in value.items()}
    return value


def plainly(value: Any) -> Any:
    """The reference's extension objects as ours."""
    if isinstance(value, library.ExtType):
        return guessed(value.data)
    if isinstance(value, list):
        return [plainly(one) for one in value]
    if isinstance(value, dict):
        return {plainly(k): plainly(v) for k, v in value.items()}
    return value


SESSION = SessionKey.generate(Dice())
NONCE = "0123456789abcdef" * 2


class BoxLaws(SynchronousTestCase):
    @modest
    @given(values, st.binary(min_size=16, max_size=16), st.booleans())
    def test_round_trip(self, value: Any, iv: bytes, reply: bool) -> None:
        """What is sealed opens, with its nonce if it has one."""
        nonce = NONCE if reply else ""

        opened = open_sealed(SESSION, seal(SESSION, value, iv, nonce), nonce or None)

        self.assertEqual(opened, guessed_value(value))

    @modest
    @given(st.binary(max_size=300))
    def test_any_bytes(self, blob: bytes) -> None:
        """No bytes open, and none raise anything else."""
        self.assertRaises(WireError, open_packed, SESSION, blob)

    @modest
    @given(st.binary(max_size=100), st.sampled_from([None, NONCE]))
    def test_any_plaintext(self, plain: bytes, nonce: str | None) -> None:
        """Nor does any plaintext that somebody with the key may have sealed."""
        from cryptography.hazmat.primitives.ciphers import Cipher, modes

        plain += bytes(-len(plain) % 16) or bytes(16)
        aes = Cipher(SESSION.algorithm, modes.CBC(bytes(16))).encryptor()
        data = bytes(16) + aes.update(plain)

        only_wire_errors(open_sealed, SESSION, data + SESSION.mac(data), nonce)

    @few
    @given(st.text(max_size=100))
    def test_any_key(self, text: str) -> None:
        """No text is a key by accident or raises anything else."""
        only_wire_errors(SessionKey, text)


class RequestLaws(SynchronousTestCase):
    @modest
    @given(
        st.text(max_size=30),
        st.binary(max_size=80),
    )
    def test_round_trip(self, minion_id: str, blob: bytes) -> None:
        """A sealed request comes back whole."""
        request = decode_request(encode_sealed_request(minion_id, blob))

        self.assertEqual((request.id, request.blob, request.version), (minion_id, blob, 3))  # type: ignore[union-attr]

    @modest
    @given(st.dictionaries(st.text(max_size=8), values, max_size=6))
    def test_any_clear_load(self, load: dict[str, Any]) -> None:
        """Any map may be a clear load; reading it and its command raises only our error."""
        only_wire_errors(
            lambda: parse_command(decode_request(encode_clear_request(load)).load, True)
        )  # type: ignore[union-attr]

    @modest
    @given(
        st.sampled_from(sorted(commands())), st.dictionaries(keys, values, max_size=6), st.data()
    )
    def test_any_fields(self, cmd: str, load: dict[Any, Any], data: Any) -> None:
        """Whatever the fields of a known command are, only our error comes out."""
        import attrs

        names = [field.name for field in attrs.fields(commands()[cmd])]
        for name in data.draw(st.lists(st.sampled_from([*names, "id", "nonce", "ts", "tok"]))):
            load[name] = data.draw(values)
        load["cmd"] = cmd

        only_wire_errors(take_common, dict(load))
        only_wire_errors(parse_command, load, commands()[cmd].unsealed)

    @modest
    @given(st.binary(max_size=200))
    def test_T_FUZZ_1_any_frame(self, frame: bytes) -> None:
        """No first frame raises anything but our error, at any of the doors."""
        for decode in (decode_request, decode_reply, decode_publication, FrameReader().feed):
            only_wire_errors(decode, frame)

    @modest
    @given(st.data())
    def test_T_FUZZ_1_mutated_frame(self, data: Any) -> None:
        """Nor does a real request, reply or publication with bytes changed."""
        frame = bytearray(data.draw(st.sampled_from(FRAMES)))
        for _ in range(data.draw(st.integers(1, 4))):
            frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
        mutated = bytes(frame[: data.draw(st.integers(0, len(frame)))])

        def request() -> None:
            parse_command(decode_request(mutated).load, True)  # type: ignore[union-attr]

        def publication() -> None:
            verify_publication(decode_publication(mutated), key("master").public)

        def reply() -> None:
            got = decode_reply(mutated)
            if isinstance(got, PrivateReply):
                open_private_reply(got, key("minion"), key("master").public, NONCE)

        for read in (publication, reply):
            only_wire_errors(read)
        if isinstance_clear(mutated):
            only_wire_errors(request)
        only_wire_errors(MINION.read, mutated, NONCE, key("master").public)
        only_wire_errors(MINION.read, mutated, NONCE, None)

    @few
    @given(values)
    def test_any_job(self, value: Any) -> None:
        """No value is a job by accident, or raises anything else."""
        only_wire_errors(parse_job, value)
        only_wire_errors(parse_job, {"jid": value, "fun": value, "arg": value, "tgt": value})

    @few
    @given(st.binary(max_size=400))
    def test_any_key(self, pem: bytes) -> None:
        """No bytes are a key, inside the dashes or without them."""
        dressed = b"-----BEGIN PUBLIC KEY-----\n" + pem + b"\n-----END PUBLIC KEY-----\n"
        for text in (pem, dressed):
            only_wire_errors(PublicKey.from_pem, text)
            only_wire_errors(PrivateKey.from_pem, text)
        only_wire_errors(key("minion").public.open_x931, pem)
        only_wire_errors(key("minion").decrypt, pem)


def isinstance_clear(frame: bytes) -> bool:
    """Whether a frame is a clear request at all."""
    try:
        return isinstance(decode_request(frame), ClearRequest)
    except WireError:
        return False


class FuzzTests(SynchronousTestCase):
    timeout = 600

    @needs_peers
    def test_T_FUZZ_1_million(self) -> None:
        """A million mutated first frames: no other error, and the memory stays flat."""
        dice = Random(1)
        read = 0

        def once() -> None:
            nonlocal read
            frame = bytearray(dice.choice(FRAMES))
            for _ in range(dice.randint(1, 6)):
                frame[dice.randrange(len(frame))] = dice.randrange(256)
            del frame[dice.randrange(len(frame) // 2, 2 * len(frame)) :]
            try:
                request = decode_request(bytes(frame))
                if isinstance(request, ClearRequest):
                    parse_command(request.load, True)
                read += 1
            except WireError:
                pass

        for _ in range(50_000):
            once()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(950_000):
            once()

        self.assertGreater(read, 100_000)
        self.assertLess(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, 16 * 1024)


class StreamLaws(SynchronousTestCase):
    @modest
    @given(st.lists(values, min_size=1, max_size=6), st.data())
    def test_any_pieces(self, bodies: list[Any], data: Any) -> None:
        """However a stream is cut, the same frames come out, in order."""
        stream = b"".join(encode_frame(body, {"n": n}) for n, body in enumerate(bodies))
        cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
        reader, got = FrameReader(), []
        for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
            got += reader.feed(stream[start:end])

        self.assertEqual([frame.head["n"] for frame in got], list(range(len(bodies))))
        self.assertEqual([guessed(frame.body) for frame in got], [guessed_value(b) for b in bodies])


MINION = MinionHandshake(id="m", key=key("minion"), token="t" * 76)


def _frames() -> list[bytes]:
    request = MINION.request(NONCE, key("master").public)
    auth = parse_command(decode_request(request).load, clear=True)  # type: ignore[union-attr]
    accepted = accepted_reply(
        auth,  # type: ignore[arg-type]
        MasterIdentity(key("master")),
        key("minion").public,
        SESSION,
        SESSION,
        4505,
        3,
    )
    job = {"fun": "test.ping", "arg": [], "tgt": "*", "jid": "1", "ret": ""}
    published = sign_blob(seal_job(job, SESSION, bytes(16)), key("master"))
    sealed = encode_sealed_request("m", seal(SESSION, {"cmd": "_return"}, bytes(16)))
    return [request, accepted, published, sealed, pack({"key": b"k" * 256, "pillar": b"p" * 64})]


FRAMES = _frames()
