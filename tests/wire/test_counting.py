"""
Counting the containers of a body before it is unpacked.
"""

from __future__ import annotations

import random

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.errors import WireError
from saltwisted.wire.decoding import MOST_ODD, counting
from saltwisted.wire.msgpack import pack_bin
from tests.doors.measure import peak


def steps(data: bytes, most: int) -> int:
    """How many steps it takes."""
    return sum(1 for _ in counting(data, most))


class CountingTests(SynchronousTestCase):
    """counting."""

    def test_exact(self) -> None:
        """A body may have as many lists and maps as are allowed, and not one more."""
        for value in ([[]] * 999, [{}] * 999, {n: [] for n in range(999)}):
            data = pack_bin(value)
            steps(data, 1000)
            self.assertRaises(WireError, steps, data, 999)

    def test_texts(self) -> None:
        """Bytes that could begin a container and are part of a text or of bytes do not count."""
        data = pack_bin([b"\x80" * 500_000, "é" * 1000, [1]])

        self.assertGreater(steps(data, 100), 50)

    def test_no_msgpack(self) -> None:
        """What is no msgpack is left to whoever wants it."""
        dice = random.Random(5)
        for _ in range(50):
            steps(dice.randbytes(3000), 10_000)
            try:
                steps(bytes([5]) + dice.randbytes(3000), 10)
            except WireError as error:
                self.fail(f"{error} of a number and what follows it")
        steps(b"\x91" * 5000, 10)

    def test_T_MEM_1_announced(self) -> None:
        """Lengths that are only announced cost nothing."""
        self.assertLess(steps(b"\xdd\x7f\xff\xff\xff" * 100 + b"\x90" * 1000, 10), 100)

    def test_T_MEM_1_nothing_is_kept(self) -> None:
        """Containers are let go while they are counted, also in maps of keys that are no text."""
        for data in (
            b"\xdd\x00\x10\x00\x00" + b"\x80" * 0x100000,
            b"\xdd\x00\x08\x00\x00" + b"\x81\x01\x90" * 0x80000,
            b"\xdf\x00\x10\x00\x00" + b"\x01\x80" * 0x100000,
        ):
            self.assertLess(peak(lambda data=data: self._counted(data)), 12 << 20)
        self.assertGreater(MOST_ODD, 10_000)

    def _counted(self, data: bytes) -> None:
        try:
            steps(data, 600_000)
        except WireError:
            return
