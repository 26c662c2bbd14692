from __future__ import annotations

import datetime
from typing import Any

import msgpack as library
from hypothesis import given
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.errors import WireError
from saltwisted.wire import longpack
from saltwisted.wire.longpack import LARGE, LEVELS, PIECE, at_once, in_place, unpacking
from saltwisted.wire.msgpack import Constant, pack, pack_bin, unpack, unpack_bin
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


def outcome(decode: Any, data: bytes) -> Any:
    """What comes of it; nothing but L{WireError} is caught."""
    try:
        return decode(data)
    except WireError:
        return WireError


def in_steps(data: bytes) -> Any:
    """What the steps make of it."""
    return at_once(unpacking(data, unpack))


class UnpackingTests(SynchronousTestCase):
    def test_bounded(self) -> None:
        """
        No step is given more than two pieces to unpack, wherever in a return its bulk lies; and
        there are not so many steps that they cost more than the work.
        """
        bulks: tuple[Any, ...] = (
            STATES,
            list(range(100_000)),
            [[1]] * 50_000,
            {"log": ["x"] * 99_999},
        )
        for bulk in bulks:
            given_: list[int] = []

            def decode(data: bytes, given_: list[int] = given_) -> Any:
                given_.append(len(data))
                return unpack(data)

            load = {"cmd": "_return", "tok": b"\xff" * 256, "return": bulk, "fun": "x"}
            data = pack(load)
            steps = unpacking(data, decode)

            self.assertEqual(at_once(steps), load)
            self.assertLess(max(given_), 2 * PIECE + 16)
            self.assertLess(len(given_), 4 * len(data) // PIECE + 8)

    def test_every_step_is_a_turn(self) -> None:
        """Between two steps others may do something: at most one run is unpacked in each."""
        runs: list[int] = []

        def decode(data: bytes) -> Any:
            runs.append(len(data))
            return unpack(data)

        for number, _ in enumerate(unpacking(pack(STATES), decode), 1):
            self.assertLessEqual(len(runs), number)
        self.assertGreater(len(runs), 20)

    def test_kinds(self) -> None:
        """All that may be in a message is what it is when it is unpacked at once."""
        for value in (
            STATES,
            [datetime.datetime(2026, 1, 2), Constant("NOT_SET")] * 5000,  # noqa: DTZ001
            {b"\xff%d" % n: {n: b"\xfe"} for n in range(20_000)},
            dict.fromkeys(range(20_000)),
            "x" * (3 * PIECE),
            b"\xff" * (3 * PIECE),
            {"a": "x" * (3 * PIECE), "b": ["x" * (3 * PIECE), {}, [], "y" * (3 * PIECE)]},
            [1, 2],
            None,
        ):
            old, new = pack(value), pack_bin(value)

            self.assertEqual(in_steps(old), unpack(old))
            self.assertEqual(in_steps(new), unpack(new))
            self.assertEqual(at_once(unpacking(new, unpack_bin)), unpack_bin(new))

    def test_in_place(self) -> None:
        """
        A map whose long binary is left where it lies is the same map, whatever is in it; what is
        long and something else, or no map, is left to who unpacks it whole.
        """
        long = b"x" * (LARGE + 1)
        for short in ({}, {"a": 1, "b": [1, {"c": None}], "d": b"y", "e": 1.5}):
            for value in ({**short, "load": long}, {"load": long, **short}, {"a": long, "b": long}):
                data = pack_bin(value)
                found = in_place(data, unpack_bin)
                assert found is not None

                self.assertEqual({k: self.as_bytes(data, v) for k, v in found.items()}, value)
                self.assertEqual(
                    {k for k, v in found.items() if v.__class__ is memoryview},
                    {k for k, v in value.items() if v == long},
                )
        for other in ([long], long, {"a": "x" * 3 * LARGE}, {"a": [long, long]}, None):
            self.assertIsNone(in_place(pack_bin(other), unpack_bin))
        good = pack_bin({"a": 1, "load": long})
        for bad in (b"", good[:-1], good + b"\x01", b"\x83" + good[1:], b"\x81\xc1" + good[2:]):
            self.assertIsNone(in_place(bad, unpack_bin))

    def as_bytes(self, data: bytes, value: Any) -> Any:
        """A view is one of the data, and says what is there."""
        if value.__class__ is memoryview:
            self.assertIs(value.obj, data)
            return bytes(value)
        return value

    def test_deep(self) -> None:
        """Bulk that lies deep is unpacked too, and what is nested too deeply is refused."""
        inner: Any = list(range(50_000))
        for _ in range(2 * LEVELS):
            inner = [inner, 1]
        deep = b"\x92" * 500 + b"\x01" * 501
        bulk = b"\x92" + deep + library.packb("x" * (3 * PIECE))

        self.assertEqual(in_steps(pack(inner)), inner)
        self.assertIs(outcome(in_steps, bulk), WireError)

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
            b"",
        ):
            self.assertIs(outcome(in_steps, bad), WireError)

    @modest
    @given(values)
    def test_law(self, value: Any) -> None:
        """Small pieces or large, opened containers or none: the value is the same."""
        data = pack(value)
        for size in (1, 7, 40):
            self.patch(longpack, "PIECE", size)
            self.assertEqual(in_steps(data), unpack(data))
            for cut in (1, len(data) // 2):
                self.assertIs(outcome(in_steps, data[:-cut]) is WireError, True)
