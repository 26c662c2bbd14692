from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.wire.longpack import LARGE, in_place
from saltwisted.wire.msgpack import pack_bin, unpack_bin
from tests.doors.measure import assert_linear


class InPlaceTests(SynchronousTestCase):
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

    def test_T_COST_1_many_entries(self) -> None:
        """A map of very many small entries costs in proportion, whatever its length."""

        def make(size: int) -> bytes:
            count = size // 5
            return (
                b"\xdf"
                + count.to_bytes(4, "big")
                + b"".join(b"\xa3%03x\xc0" % (n % 4096) for n in range(count))
            )

        sizes = (4096, 65_536, 1_048_576)
        assert_linear(self, "entries", make, lambda data: in_place(data, unpack_bin), sizes)
