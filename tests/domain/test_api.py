"""
Values of the HTTP API in pieces: JSON, msgpack, and parcels between two processes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.api import bodies, compressing, lowstate, packing, parcels, pieces
from saltwisted.domain.api.problems import Problem
from saltwisted.wire.msgpack import pack, pack_bin, unpack_bin

TEXTS = st.text(alphabet='a"\\\n\u00e4\u20ac', max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | TEXTS,
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(TEXTS, inner, max_size=8),
    max_leaves=60,
)
SIZES = st.integers(1, 20)


class PiecesTests(SynchronousTestCase):
    """Together the pieces are what the whole would be, whatever the size of a piece."""

    def small(self, size: int, make: Callable[[], Any]) -> Any:
        """Something done with pieces of so many values."""
        patches = [self.patch(module, "PIECE", size) for module in (pieces, packing, parcels)]
        patches.append(self.patch(pieces, "_SHARE", 4))
        defaults = pieces.room_after.__defaults__
        pieces.room_after.__defaults__ = (size,)
        try:
            return make()
        finally:
            pieces.room_after.__defaults__ = defaults
            for each in patches:
                each.restore()

    @given(VALUES, SIZES)
    def test_json(self, value: Any, size: int) -> None:
        """JSON is that of C{json.dumps}."""
        made = self.small(size, lambda: "".join(pieces.pieces(value)))

        self.assertEqual(made, json.dumps(value, ensure_ascii=False))

    @given(VALUES, SIZES)
    def test_msgpack(self, value: Any, size: int) -> None:
        """Msgpack is that of the whole."""
        made = self.small(size, lambda: b"".join(packing.packed(value)))

        self.assertEqual(made, pack(value))

    @given(VALUES, SIZES)
    def test_parcels(self, value: Any, size: int) -> None:
        """A value that goes in parcels arrives as it was."""
        unpacking = parcels.Unpacking()
        sent = self.small(size, lambda: list(parcels.parcels(value)))
        for _ in unpacking.steps(sent):
            pass

        self.assertEqual(unpacking.value, value)

    def test_each_is_small(self) -> None:
        """No piece and no parcel has many more values than it may, or very much text."""
        value = {
            "jobs": [{str(n): {"fun": "test.ping", "arg": [n]} for n in range(4000)}],
            "deep": [[[[n] * 30] * 5] for n in range(300)],
            "texts": ["x" * 10_000] * 60,
            "keys": {"k" * 5000 + str(n): n for n in range(100)},
        }
        made = list(pieces.pieces(value))
        sent = list(parcels.parcels(value))

        self.assertEqual("".join(made), json.dumps(value))
        most = 2 * pieces.TEXT
        self.assertLess(max(map(len, made)), most)
        self.assertLess(max(map(len, sent)), most)
        self.assertLess(max(map(len, packing.packed(value))), most)
        for each in sent:
            self.assertGreaterEqual(pieces.room_after(unpack_bin(each)), -3)
        # Nor are there so many that they cost more than what is in them
        self.assertLess(len(made), 400)

    @given(VALUES, SIZES)
    def test_weighed(self, value: Any, size: int) -> None:
        """A map that was weighed before is, in pieces, the map that it was, and weighs as much."""
        entries = {f"k{n}": {"a": value, "n": n} for n in range(5)}
        known = {key: pieces.weighed(entry) for key, entry in entries.items()}

        self.assertEqual({type(entry) for entry in known.values()}, {pieces.Weighed})
        room = pieces.room_after(entries)
        self.assertEqual(max(pieces.room_after(known), -1), max(room, -1))
        made = self.small(size, lambda: "".join(pieces.pieces([known, known["k0"]])))
        packed = self.small(size, lambda: b"".join(packing.packed([known, known["k0"]])))
        plain = [entries, entries["k0"]]
        self.assertEqual(made, json.dumps(plain, ensure_ascii=False))
        self.assertEqual(packed, pack(plain))
        self.assertEqual(bodies.yaml_text(known), bodies.yaml_text(entries))

    def test_weighed_once(self) -> None:
        """The JSON of a map that is sent again is made once, whatever stands beside it."""
        keys = (*map(str, range(400)), 'e"\n\u00e9\udcff', 7, None, True, 1.5)
        entries = {key: {"a": ["\u00e9\n", None], "n": 1.5} for key in keys}
        known = {key: pieces.weighed(entry) for key, entry in entries.items()}
        encoded: list[Any] = []
        encode = pieces._encode

        def counted(value: Any) -> str:
            encoded.extend([value] if type(value) is pieces.Weighed else [])
            return encode(value)

        self.patch(pieces, "_encode", counted)
        for more in ({}, {"other": {"b": 1}}, {"large": ["x"] * 2000}):
            for plain in ({**entries, **more}, {**more, **entries}):
                value = {key: known.get(key, entry) for key, entry in plain.items()}
                made = "".join(pieces.pieces({"return": [value]}))
                self.assertEqual(made, json.dumps({"return": [plain]}, ensure_ascii=False))

        self.assertEqual(len(encoded), len(entries))

    def test_long_texts(self) -> None:
        """A text of megabytes goes in steps of bounded work, and is what it is as a whole."""
        for text in ("x" * 1_000_000, "\u00e9\U0001f9c2\udcff" * 300_000, "x" * (pieces.TEXT + 1)):
            value = {"before": 1, "in": [text], "after": text}
            for by in (pack, pack_bin):
                made = list(packing.packing(value, by))

                self.assertEqual(b"".join(made), by(value))
                self.assertLessEqual(max(map(len, made)), 4 * pieces.TEXT)
            self.assertNotIn(b"", packing.packed(value))
        half = "\ud800" * pieces.TEXT * 2
        with self.assertRaises(TypeError):
            list(packing.packed(half))
        self.assertEqual(b"".join(packing.packed(half, pack_bin)), pack_bin(half))

    def test_weighed_large(self) -> None:
        """What is more than a piece is not taken for one."""
        large = {"Arguments": list(range(2 * pieces.PIECE))}

        self.assertIs(pieces.weighed(large), large)

    def test_bytes(self) -> None:
        """Bytes are text in JSON, as keys too; what is no data is refused."""
        self.assertEqual(
            "".join(pieces.pieces({"a": b"\xff", b"k": [b"x"]})), '{"a": "\ufffd", "k": ["x"]}'
        )
        self.assertEqual("".join(pieces.pieces(b"x" * 100_000)), '"' + "x" * 100_000 + '"')
        with self.assertRaises(pieces.NotJson):
            list(pieces.pieces({"a": object()}))

    def test_other_keys(self) -> None:
        """Keys that are no text become text in a large map, too."""
        value = {number: {"x": [number]} for number in range(2000)} | {None: 1, True: 2}

        self.assertEqual("".join(pieces.pieces(value)), json.dumps(value))


class ArgumentTests(SynchronousTestCase):
    """What a chunk hands to a function."""

    def test_one_argument(self) -> None:
        """As in stock, what is no list is one argument, also C{None} and an empty text."""
        for client, target in (("local", {"tgt": "*"}), ("runner", {})):
            chunk = {"client": client, "fun": "test.arg", **target}
            for arg in (None, "", 0, "a", {"a": 1}):
                work = lowstate.understand({**chunk, "arg": arg}, [client], False, "t")
                self.assertEqual(work.args["arg"], [arg])
            for more in ({}, {"arg": []}):
                work = lowstate.understand({**chunk, **more}, [client], False, "t")
                self.assertEqual(work.args["arg"], [])


class GzipTests(SynchronousTestCase):
    """Which answers are compressed."""

    def test_asked(self) -> None:
        """Only for who asks for it, and does not say that he wants it plain; as CherryPy has it."""
        for header in ("gzip", "x-gzip", "deflate, GZIP;q=0.1", "gzip, deflate, br"):
            self.assertTrue(compressing.takes_gzip(header), header)
        for plain in (None, "", "*", "br", "gzip;q=0", "identity, gzip", "gzip;q=x"):
            self.assertFalse(compressing.takes_gzip(plain), plain)

    def test_types(self) -> None:
        """Texts and pages; not what stock's settings leave out."""
        for kind in ("text/html", "text/html;charset=utf-8", "text/plain"):
            self.assertTrue(compressing.is_compressed(kind))
        for kind in ("application/json", "text/css", "text/event-stream", ""):
            self.assertFalse(compressing.is_compressed(kind))


class LongTests(SynchronousTestCase):
    """Which bodies are read elsewhere."""

    def test_by_type(self) -> None:
        """JSON from 16 KiB, YAML and forms from 2 KiB; what nobody reads is refused at once."""
        small, long = b" " * bodies.YAML_AT_ONCE, b" " * (bodies.AT_ONCE + 1)
        for kind in ("application/json", "text/plain", "application/x-msgpack"):
            self.assertFalse(bodies.is_long(kind, small + b" "))
            self.assertTrue(bodies.is_long(kind, long))
        for kind in ("application/x-yaml", bodies.FORM):
            self.assertFalse(bodies.is_long(kind, small))
            self.assertTrue(bodies.is_long(kind, small + b" "))
        for kind in ("image/png", "", None):
            self.assertFalse(bodies.is_long(kind, long))

    def test_many_lowstates(self) -> None:
        """A request with very many chunks of low state is refused before one is looked at."""
        self.assertEqual(len(bodies.low_state([{}] * bodies.LOWSTATES)), bodies.LOWSTATES)
        with self.assertRaises(Problem) as caught:
            bodies.low_state([{}] * (bodies.LOWSTATES + 1))
        self.assertEqual(caught.exception.status, 400)

    def test_worst(self) -> None:
        """What is read at once has few values, whatever it is full of."""
        worst = b"[" + b"0," * (bodies.AT_ONCE // 2 - 2) + b"0]"
        self.assertFalse(bodies.is_long("application/json", worst))

        self.assertLess(len(bodies.read("application/json", worst).value), 10_000)
