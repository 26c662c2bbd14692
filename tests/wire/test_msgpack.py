from __future__ import annotations

import datetime
import threading

import msgpack as library
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.errors import WireError
from saltwisted.wire import msgpack
from saltwisted.wire.decoding import PLAIN_ELEMENTS
from saltwisted.wire.msgpack import (
    MAX_DEPTH,
    Constant,
    pack,
    pack_bin,
    unpack,
    unpack_bin,
    unpack_raw,
)
from tests.wire.recorded import recorded

BINARY = bytes(range(128, 160))


class ManyBytesTests(SynchronousTestCase):
    """Bytes that are no text, more of them than the quick way of reading can mark."""

    def test_as_they_were(self) -> None:
        """However many there are, on whatever level, in a short and in a long message."""
        many = {f"k{number}": BINARY + bytes([number]) for number in range(200)}
        for value in (many, {"a": many, "b": BINARY}, {"a": [*many.values()], "t": "text"}):
            for more in ({}, {"pad": "x" * 300_000}, {"pad": ["x" * 1000] * 300}):
                for packer in (pack, pack_bin):
                    self.assertEqual(unpack(packer({**value, **more})), {**value, **more})
        for inside in ([b"text"], {"a": b"text"}):
            for more in ({}, {"pad": "x" * 300_000}):
                found = unpack(pack_bin({"value": inside, **more}))["value"]
                self.assertIn("text", found if isinstance(found, list) else found.values())


class ExtensionTests(SynchronousTestCase):
    """Salt's two extensions: a moment, and a constant."""

    def test_constants(self) -> None:
        """A constant is a short name with one plain value, whoever has made it."""

        def made(*parts: object) -> bytes:
            data: bytes = library.packb(parts)
            packed: bytes = library.packb(library.ExtType(msgpack.EXT_CONSTANT, data))
            return packed

        self.assertEqual(unpack_raw(made("x" * 100, 5)), Constant("x" * 100, 5))
        for parts in (("x" * 1100, None), (5, None), ("x", [1]), ("x", {}), ("x",), ("x", 1, 2)):
            for reader in (unpack, unpack_raw, unpack_bin):
                self.assertRaises(WireError, reader, made(*parts))


class RecordedTests(SynchronousTestCase):
    def test_same_bytes_as_salt(self) -> None:
        """Every recorded value is packed to Salt's bytes, in both dialects."""
        for case in recorded("msgpack")["cases"]:
            if case["name"] == "constant_NOT_SET":
                value: object = Constant("NOT_SET")
            else:
                value = eval(case["repr"], {"datetime": datetime})

            self.assertEqual(pack(value).hex(), case["wire_hex"], case["name"])
            self.assertEqual(pack_bin(value).hex(), case["ipc_hex"], case["name"])

    def test_salt_bytes_come_back(self) -> None:
        """Recorded bytes decode to what Salt would hold after receiving them."""
        midnight = datetime.datetime(2026, 1, 2)  # noqa: DTZ001 - naive on the wire
        changed = {
            "date": midnight,
            "nested": {"a": {"b": [1, {"c": "x"}]}, 1: "int key"},
            "tuple": [1, 2],
            "set1": [5],
        }
        for case in recorded("msgpack")["cases"]:
            got = unpack(bytes.fromhex(case["wire_hex"]))

            if case["name"] == "constant_NOT_SET":
                self.assertEqual(got, Constant("NOT_SET", None))
            elif case["name"] == "bigint":
                self.assertEqual(got, str(2**70))
            elif case["name"] in changed:
                self.assertEqual(got, changed[case["name"]])
            else:
                self.assertEqual(got, eval(case["repr"], {"datetime": datetime}))


class PackTests(SynchronousTestCase):
    def test_foreign_objects(self) -> None:
        """What is not plain data is a TypeError, in maps and lists too; the next value packs."""
        for value in (object(), {"a": [object()]}, {1: 2j}):
            self.assertRaises(TypeError, pack, value)

        self.assertEqual(pack({"a": 1}), b"\x81\xa1a\x01")

    def test_endless(self) -> None:
        """A list that contains itself is refused."""
        loop: list[object] = []
        loop.append(loop)

        self.assertRaises(TypeError, pack, loop)

    def test_escaped_bytes(self) -> None:
        """Text with escaped bytes goes out as those bytes."""
        text = b"a\xff".decode("utf-8", "surrogateescape")

        self.assertEqual(unpack(pack(text)), b"a\xff")

    def test_mappings_and_sets(self) -> None:
        """Any mapping is a map, any set a list; huge numbers of either sign are text."""
        import types

        proxy = types.MappingProxyType({"a": frozenset([7])})

        self.assertEqual(unpack(pack(proxy)), {"a": [7]})
        self.assertEqual(unpack(pack(-(2**64))), str(-(2**64)))

    def test_packing_while_packing(self) -> None:
        """A second thread that packs while the packer is busy gets its own."""
        from saltwisted.wire import msgpack

        with msgpack._old_lock:
            got: list[bytes] = []
            thread = threading.Thread(target=lambda: got.append(pack([1])))
            thread.start()
            thread.join()

        self.assertEqual(got, [b"\x91\x01"])


class GuessTests(SynchronousTestCase):
    def test_text_or_bytes(self) -> None:
        """UTF-8 becomes text, other bytes stay, for keys and values at any depth."""
        value = {b"\xff": [BINARY, "ok", {"k": BINARY}], "é": "中"}

        self.assertEqual(unpack(pack(value)), value)
        self.assertEqual(unpack_raw(pack({"a": "b"})), {b"a": b"b"})

    def test_bin_types_are_guessed_too(self) -> None:
        """A peer that sends the newer types is understood: bytes that are text become text."""
        for size in (3, 3000):
            sent = library.packb({"a": b"x" * size, "tok": BINARY, "b": [b"y"]}, use_bin_type=True)

            self.assertEqual(unpack(sent), {"a": "x" * size, "tok": BINARY, "b": ["y"]})

    def test_no_guess_without_need(self) -> None:
        """A byte that could begin a bin type is no reason to guess, unless bytes came of it."""
        floats = {"text": "t" * 5000, "n": [{"f": 1.5 + n / 7, "tok": "x"} for n in range(500)]}
        data = pack({"tok": BINARY, **floats})
        self.assertIn(b"\xc4", data)
        binary = library.packb({**floats, "b": [{"k": b"y"}]}, use_bin_type=True)
        key = library.packb({**floats, "b": [{b"k": "y"}]}, use_bin_type=True)
        outermost = library.packb({**floats, "b": b"y", "tok": BINARY}, use_bin_type=True)

        self.assertEqual(unpack(binary), {**floats, "b": [{"k": "y"}]})
        self.assertEqual(unpack(key), {**floats, "b": [{"k": "y"}]})
        self.assertEqual(unpack(outermost), {**floats, "b": "y", "tok": BINARY})
        self.patch(msgpack, "guess", None)
        self.assertEqual(unpack(data), {"tok": BINARY, **floats})

    def test_binary_in_a_large_map(self) -> None:
        """Binary values of the outermost map survive the fast way, the same bytes twice too."""
        value = {"tok": BINARY * 8, "again": BINARY * 8, "text": "t" * 5000, "n": [1, {"x": "y"}]}

        self.assertEqual(unpack(pack(value)), value)

    def test_binary_deep_in_a_large_map(self) -> None:
        """Binary in other places of a large message survives as well."""
        for value in (
            {"a": {"b": BINARY}, "text": "t" * 5000},
            [BINARY, "t" * 5000],
            {BINARY: 1, "text": "t" * 5000},
            {str(n): BINARY + bytes([n]) for n in range(100)},
            {"head" + "\x7f": b"good text then \xff", "text": "t" * 5000},
        ):
            self.assertEqual(unpack(pack(value)), value)

    def test_unknown_extensions(self) -> None:
        """Extension types that Salt does not know are their bytes, and these are guessed."""
        self.assertEqual(unpack(library.packb(library.ExtType(5, b"abc"))), "abc")
        self.assertEqual(unpack(library.packb(library.ExtType(5, b"\xff"))), b"\xff")
        self.assertEqual(unpack_raw(library.packb(library.ExtType(5, b"abc"))), b"abc")

    def test_bin_dialect(self) -> None:
        """In the other dialect nothing is guessed."""
        value = {"a": b"text", "b": "text", "c": BINARY}

        self.assertEqual(unpack_bin(pack_bin(value)), value)


class BoundsTests(SynchronousTestCase):
    decoders = (unpack, unpack_raw, unpack_bin)

    def refused(self, data: bytes) -> None:
        for decode in self.decoders:
            self.assertRaises(WireError, decode, data)

    def test_nothing_and_too_much(self) -> None:
        """No value, half a value, and a value with something behind it are refused."""
        for data in (b"", b"\xda\x00", b"\x92\x01", b"\x01\x01", b"\xc1"):
            self.refused(data)

    def test_impossible_keys(self) -> None:
        """A map whose key is a list or a map is refused."""
        self.refused(b"\x81\x91\x01\x01")
        self.refused(b"\x81\x80\x01")

    def test_bad_extensions(self) -> None:
        """Times and constants that are none are refused."""
        for code, data in (
            (78, b"yesterday"),
            (78, b"\xff"),
            (79, b""),
            (79, b"\x92\x01\x02"),
            (79, b"\x92\xa1a\x90"),
            (79, b"\x93\xa1a\x01\x02"),
        ):
            self.refused(library.packb(library.ExtType(code, data)))
        self.refused(b"\xc7\x05\xff12345")

    def test_depth(self) -> None:
        """Containers nest up to the limit and no deeper, lists and maps alike."""
        good, bad = MAX_DEPTH - 2, MAX_DEPTH + 1
        for head in (b"\x91", b"\x81\xa1k"):
            for decode in self.decoders:
                decode(head * good + b"\xc0")
            self.refused(head * bad + b"\xc0")
            self.refused(head * 100_000 + b"\xc0")
            self.refused(head * bad + b"\xda\x10\x00" + b"x" * 4096)

    def test_depth_of_large_messages(self) -> None:
        """Where not all elements or bytes are looked at, the limit is the same."""
        text = b"\xdb\0\x04\0\0" + b"x" * 0x40000
        many = b"\xdc\x07\xd0" + b"\x01" * 1999
        for before in (b"\x92" + text, many):
            for decode in self.decoders:
                decode(before + b"\x91" * (MAX_DEPTH - 2) + b"\xc0")
            self.refused(before + b"\x91" * (MAX_DEPTH + 1) + b"\xc0")
            self.refused(before + b"\x91" * 100_000 + b"\xc0")
        self.refused(many + b"\x91" * (MAX_DEPTH - 2) + b"\x91" * 9 + text)

    def test_announced_sizes(self) -> None:
        """Headers that announce more than is there are refused at no cost."""
        for data in (
            b"\xdd\xff\xff\xff\xff",
            b"\xdf\x7f\xff\xff\xff\x01",
            b"\xc6\xff\xff\xff\xff",
            b"\xdb\xff\xff\xff\xff",
            b"\xdd\x00\x10\x00\x00" * 200 + b"x" * 1_000_000,
            b"\xdd\x00\x10\x00\x00" * 200_000,
        ):
            self.refused(data)

    def test_really_large(self) -> None:
        """A long list or map that is really there is taken, whatever its length."""
        many = PLAIN_ELEMENTS * 3

        self.assertEqual(len(unpack(pack(list(range(many))))), many)
        self.assertEqual(len(unpack(pack({str(n): "x" for n in range(many)}))), many)
        self.assertEqual(len(unpack_raw(pack([BINARY] * many))), many)

    def test_the_library_is_compiled(self) -> None:
        """The msgpack library is its C build; the other is ten times slower."""
        self.assertNotIn("fallback", library.Unpacker.__module__)
