"""
Msgpack in pieces and within bounds.
"""

from __future__ import annotations

import datetime
import os
from typing import Any

import msgpack as library
from hypothesis import given
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.errors import WireError
from saltwisted.wire import decoding
from saltwisted.wire.decoding import (
    ACCEPTED,
    KEYS,
    MOST_ODD,
    PIECE,
    QUICK,
    STRANGER,
    Bounds,
    at_once,
    careful,
    is_crowded,
)
from saltwisted.wire.msgpack import (
    Constant,
    guess,
    guessing,
    pack,
    pack_bin,
    unpack,
    unpack_bin,
    unpack_raw,
    unpacking,
    unpacking_bin,
    unpacking_raw,
)
from tests.doors.measure import Turned, assert_linear, least, peak, slack
from tests.doors.shapes import array, crowded, integer, mapping, msgpack_values
from tests.laws.test_wire import modest, values

STATES = {
    f"file_|-a{n}_|-/etc/{n}_|-managed": {
        "result": True,
        "duration": 1.5 + n / 1000,
        "changes": {"diff": "x" * 100, "mode": {"old": "0600", "new": "0644"}},
        "blob": b"\xff\xfe",
    }
    for n in range(3000)
}
KINDS: tuple[Any, ...] = (
    STATES,
    {"cmd": "_return", "tok": b"\xff" * 256, "return": {"a": ["x"] * 99_999}},
    [datetime.datetime(2026, 1, 2), Constant("NOT_SET")] * 5000,  # noqa: DTZ001
    {b"\xff%d" % n: {n: b"\xfe"} for n in range(20_000)},
    dict.fromkeys(range(20_000)),
    {"many": {f"k{n}": n for n in range(5000)}, "odd": {1: 2, None: 3, 1.5: 4}},
    "x" * (3 * QUICK),
    b"\xff" * (3 * QUICK),
    {"a": "x" * (3 * QUICK), "b": ["x" * (3 * QUICK), {}, [], "y" * (3 * QUICK)]},
    list(range(100_000)),
    [[1]] * 50_000,
    [1, 2],
    None,
)
SIZES = (8192, 131_072)
if os.environ.get("SALTWISTED_LONG") == "1":
    SIZES = (1024, 16_384, 262_144, 4_194_304)
FORMS = ((unpack, unpacking), (unpack_raw, unpacking_raw), (unpack_bin, unpacking_bin))


def outcome(decode: Any, *args: Any) -> Any:
    """What comes of it; nothing but L{WireError} is caught."""
    try:
        return decode(*args)
    except WireError:
        return WireError


class StepTests(SynchronousTestCase):
    """Messages in steps."""

    def test_kinds(self) -> None:
        """All that may be in a message is the same in steps and at once, in each dialect."""
        for value in KINDS:
            old, new = pack(value), pack_bin(value)

            self.assertEqual(at_once(unpacking(old)), guess(unpack_raw(old)))
            self.assertEqual(at_once(unpacking(new)), unpack(new))
            self.assertEqual(at_once(unpacking_bin(new)), value)
            self.assertEqual(unpack_bin(new), value)

    def test_bounded(self) -> None:
        """No step is given more than a piece, so that others have their turn often enough."""
        for value in KINDS[:2]:
            data = pack(value)
            steps = sum(1 for _ in unpacking(data))

            self.assertGreater(steps, len(data) // PIECE)

    def test_interleaved(self) -> None:
        """Two messages that are unpacked in turns by one thread do not mix their bytes."""
        first = {"tok": b"\xff" * 200, "text": "x" * 99_999}
        second = {"tok": b"\xfe" * 300, "sig": b"\xfd" * 400, "text": ["y"] * 99_999}
        found: dict[int, Any] = {}
        running = {n: unpacking(pack(value)) for n, value in enumerate((first, second))}
        while running:
            for n, steps in list(running.items()):
                try:
                    next(steps)
                except StopIteration as stop:
                    found[n] = stop.value
                    del running[n]

        self.assertEqual(found, {0: first, 1: second})

    def test_malformed(self) -> None:
        """What is cut off, goes on too long, or announces more than there is, is refused."""
        good = pack(STATES)
        for bad in (
            good[:-1],
            good + b"\x01",
            good[: len(good) // 2],
            b"\xdf\xff\xff\xff\xff" + good[5:],
            b"\xdd\xff\xff\xff\xff" + b"\x01" * 100_000,
            b"\xdc\x00\x01" + b"\xc1" * 100_000,
            # A list as the key of a map
            b"\x82\x91\x01\x01\xa1x" + library.packb("x" * 99_999),
            b"\xdd\x00\x10\x00\x00" * 200_000,
            b"",
        ):
            for decode, steps in FORMS:
                self.assertIs(outcome(at_once, steps(bad)), WireError)
                self.assertIs(outcome(decode, bad), WireError)

    @modest
    @given(values)
    def test_law(self, value: Any) -> None:
        """Small pieces or large: the value is the same, and half a message is refused."""
        data = pack(value)
        for size in (1, 7, 40):
            self.patch(decoding, "PIECE", size)
            self.assertEqual(at_once(unpacking(data)), unpack(data))
            for cut in (1, len(data) // 2):
                self.assertIs(outcome(at_once, unpacking(data[:-cut])), WireError)

    @modest
    @given(values)
    def test_guessing_law(self, value: Any) -> None:
        """The guess in steps is the guess."""
        self.assertEqual(at_once(guessing(unpack_raw(pack(value)))), guess(unpack_raw(pack(value))))


class KeyTests(SynchronousTestCase):
    """Maps whose keys collide."""

    def test_T_COST_1_ordinary(self) -> None:
        """Keys that a site may have are not called crowded, whatever their number and pattern."""
        for keys in (
            range(5000),
            range(0, 5_000_000, 1000),
            range(-3000, 3000),
            [n << 12 for n in range(5000)],
            [n << 32 for n in range(5000)],
            [n / 8 for n in range(5000)],
            [n * n for n in range(5000)],
        ):
            self.assertFalse(is_crowded([hash(key) for key in keys]), keys[:3])
            pairs = [(key, "x") for key in keys]
            self.assertEqual(careful(pairs), dict(pairs))

    def test_T_COST_1_crowded(self) -> None:
        """Keys that follow one chain of places become text, as does none of a map of few."""
        keys = crowded(4000)
        self.assertTrue(is_crowded([hash(key) for key in keys]))

        made = unpack(mapping([integer(key) for key in keys]))
        self.assertEqual(set(made), {str(key) for key in keys})

        few = unpack(mapping([integer(key) for key in crowded(KEYS)]))
        self.assertEqual(set(few), set(crowded(KEYS)))

    def test_T_COST_1_texts_beside(self) -> None:
        """Of a map with crowded keys only these become text; bytes and text stay."""
        keys = [integer(key) for key in crowded(4000)]
        made = unpack_bin(mapping([b"\xa1t", b"\xc4\x01b", *keys]))

        self.assertEqual([key for key in made if not str(key).isdigit()], ["t", b"b"])

    def test_nothing_is_refused(self) -> None:
        """A return with very many keys is taken: those that are numbers become text at the most."""
        many = MOST_ODD + 1
        numbers = unpack(mapping([b"\xce" + n.to_bytes(4, "big") for n in range(many)]))
        self.assertEqual(set(numbers), {str(n) for n in range(many)})

        value = {"names": {f"n{n}": 1 for n in range(many)}, "n": dict.fromkeys(range(KEYS + 1), 1)}
        self.assertEqual(unpack(pack(value)), value)

    def test_T_COST_1_strangers(self) -> None:
        """From a stranger, a map of many keys that are no text is refused."""
        data = mapping([integer(n) for n in range(KEYS + 1)])

        self.assertRaises(WireError, at_once, unpacking_raw(data, STRANGER))
        self.assertEqual(len(at_once(unpacking_raw(data, ACCEPTED))), KEYS + 1)


class ContainerTests(SynchronousTestCase):
    """Containers are counted."""

    def test_T_MEM_1_counted(self) -> None:
        """As many containers as allowed are taken, one more is refused; texts do not count."""
        bounds = Bounds(containers=5000, many_keys=True)
        for one in (b"\x80", b"\x90", b"\xde\0\0", b"\xdc\0\0"):
            for padding in (b"", b"\xdb\0\1\0\0" + b"\xc3\x84" * 0x8000):
                extra = [padding] if padding else []
                good = array([one] * 4999 + extra)
                bad = array([one] * 5000 + extra)
                for _, steps in FORMS:
                    at_once(steps(good, bounds))
                    self.assertRaises(WireError, at_once, steps(bad, bounds))

    def test_T_MEM_1_memory(self) -> None:
        """A quarter of a mebibyte from a stranger needs a few mebibytes, of whatever shape."""
        for name, make in [*msgpack_values()][::3]:
            data = make(256 * 1024)
            used = peak(lambda data=data: outcome(at_once, unpacking(data, STRANGER)))
            self.assertLess(used, 24 * 1024 * 1024, name)


class CostTests(SynchronousTestCase):
    """What decoding costs the thread that does it."""

    def test_T_COST_1_linear(self) -> None:
        """A message sixteen times as long costs sixteen times as much, of whatever shape."""
        for name, make in msgpack_values():
            for decode, _ in FORMS[:1]:
                assert_linear(
                    self,
                    name,
                    make,
                    lambda data, decode=decode: outcome(decode, data),
                    SIZES,
                )

    def test_T_COST_1_steps(self) -> None:
        """
        No step of a stranger's message, of whatever shape, takes longer than a turn may. What a
        thread unpacks may take longer: it looks at the keys of a large map, and is interrupted.
        """
        for name, make in msgpack_values():
            data = make(131_072)
            for bounds in (STRANGER, ACCEPTED):
                steps = unpacking(data, bounds)
                clock = Turned()
                for _ in range(100_000):
                    try:
                        clock.measure(lambda steps=steps: next(steps))
                    except (StopIteration, WireError):
                        break
                most = 0.005 if bounds is STRANGER else 0.02
                if clock.longest > most:
                    self.assertLess(clock.longest, most * slack(), name)

    def test_T_COST_1_quick(self) -> None:
        """What is unpacked in one call takes no longer than a callback may."""
        for name, make in msgpack_values():
            data = make(QUICK - 8)
            cost = least(lambda data=data: outcome(unpack, data))
            if cost > 0.005:
                self.assertLess(cost, 0.005 * slack(), name)
