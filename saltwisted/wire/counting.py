"""
How many containers are in a body, before anybody unpacks it.

A list or a map is one byte in a message and seventy in memory. Whether a long body has more of them
than it should is found out in steps (L{saltwisted.wire.decoding}).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from msgpack import OutOfData, Unpacker

from saltwisted.errors import WireError
from saltwisted.wire.decoding import PIECE, walking
from saltwisted.wire.msgpack import WRONG

__all__ = ["counting"]

SLICE = 64 * 1024
"""Bytes that are looked at in one step."""
_NO_CONTAINER = bytes(b for b in range(256) if not (0x80 <= b <= 0x9F or 0xDC <= b <= 0xDF))


def counting(data: bytes, most: int) -> Generator[None, None, None]:
    """
    The steps that judge the lists and maps of a msgpack value. Most bodies have few bytes that
    could begin one, and are not unpacked for it.

    What is no msgpack is not judged: whoever unpacks it comes to the same end.

    @raises WireError: there are more than C{most}.
    """
    found = 0
    for start in range(0, len(data), SLICE):
        found += len(data[start : start + SLICE].translate(None, _NO_CONTAINER))
        if found > most:
            break
        yield
    else:
        return
    try:
        # All that it announces is there: then lengths may be believed
        yield from walking(data)
        yield from _counted(data, most)
    except OverflowError:
        raise WireError("containers") from None
    except WRONG:
        return


def _counted(data: bytes, most: int) -> Generator[None, None, None]:
    """@raises OverflowError: there are more."""
    left = most

    def one_more(value: Any) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OverflowError

    size, view = len(data), memoryview(data)
    unpacker = Unpacker(
        read_size=2 * PIECE,
        max_buffer_size=size + 2 * PIECE,
        raw=True,
        strict_map_key=False,
        list_hook=one_more,
        object_pairs_hook=one_more,
        ext_hook=_nothing,
    )
    for at in range(0, size, PIECE):
        unpacker.feed(view[at : at + PIECE])
        try:
            unpacker.unpack()
        except OutOfData:
            yield


def _nothing(code: int, data: bytes) -> None:
    """Of no interest here."""
