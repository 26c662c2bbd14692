"""
Msgpack in pieces, as L{saltwisted.domain.api.pieces} has JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from saltwisted.domain.api.pieces import PIECE, room_after
from saltwisted.wire.msgpack import pack

Pack = Callable[[Any], bytes]
GROUP = 8
"""Neighbours that are weighed together: each time costs something, too."""


def packed(value: Any, by: Pack = pack) -> Iterator[bytes]:
    """
    The document, in pieces: together what C{by} makes of the whole.

    @raises TypeError: something in it cannot be packed.
    """
    if isinstance(value, Mapping):
        yield _head(0x80, 0xDE, len(value))
        yield from _run((each for item in value.items() for each in item), by)
    elif isinstance(value, (list, tuple)):
        yield _head(0x90, 0xDC, len(value))
        yield from _run(iter(value), by)
    else:
        yield by(value)


def _run(items: Iterator[Any], by: Pack) -> Iterator[bytes]:
    """Values one after the other; small ones go together."""
    run: list[Any] = []
    room = PIECE
    while group := list(islice(items, GROUP)):
        left = room_after(group, room)
        if left >= 0:
            run += group
            room = left
            continue
        for item in group:
            left = room_after(item, room) - 1
            if left < 0:
                yield _neighbours(run, by)
                run = []
                left = room_after(item) - 1
            if left >= 0:
                run.append(item)
                room = left
            else:
                yield from packed(item, by)
                room = PIECE
    yield _neighbours(run, by)


def _neighbours(run: list[Any], by: Pack) -> bytes:
    """Values as they stand in a list or a map, packed in one call."""
    return by(run)[len(_head(0x90, 0xDC, len(run))) :]


def _head(short: int, long: int, size: int) -> bytes:
    """How a map or a list of so many begins."""
    if size < 16:
        return bytes([short | size])
    if size < 65_536:
        return bytes([long, *size.to_bytes(2, "big")])
    return bytes([long + 1, *size.to_bytes(4, "big")])
