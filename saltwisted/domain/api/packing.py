"""
Msgpack in pieces, like the JSON of L{saltwisted.domain.api.pieces}.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from saltwisted.domain.api.pieces import PIECE, TEXT, room_after
from saltwisted.wire.msgpack import pack

Pack = Callable[[Any], bytes]
_LONG_TEXT = b"\xdb"
"""How text of 64 KiB and more begins, in both dialects of msgpack."""
GROUP = 8
"""Neighbours that are weighed together: each time costs something, too."""


def packed(value: Any, by: Pack = pack) -> Iterator[bytes]:
    """
    The document, in pieces: together what C{by} makes of the whole.

    @raises TypeError: something in it cannot be packed.
    """
    return filter(None, packing(value, by))


def packing(value: Any, by: Pack = pack) -> Iterator[bytes]:
    """
    As L{packed}, with an empty piece where a step has made nothing yet.

    @raises TypeError: something in it cannot be packed.
    """
    if isinstance(value, Mapping):
        yield _head(0x80, 0xDE, len(value))
        yield from _run((each for item in value.items() for each in item), by)
    elif isinstance(value, (list, tuple)):
        yield _head(0x90, 0xDC, len(value))
        yield from _run(iter(value), by)
    elif isinstance(value, str) and len(value) > TEXT:
        yield from _text(value)
    else:
        yield by(value)


def _text(value: str) -> Iterator[bytes]:
    """A long text: its length in bytes comes first, and is known last."""
    made: list[bytes] = []
    try:
        for start in range(0, len(value), TEXT):
            made.append(value[start : start + TEXT].encode("utf-8", "surrogateescape"))
            yield b""
        yield _LONG_TEXT + sum(map(len, made)).to_bytes(4, "big")
    except (UnicodeEncodeError, OverflowError) as error:
        raise TypeError(f"cannot be sent: {error}") from error
    yield from made


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
                yield from packing(item, by)
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
