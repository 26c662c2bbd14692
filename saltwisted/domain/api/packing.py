"""
Msgpack in pieces, like the JSON of L{saltwisted.domain.api.pieces}.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from saltwisted.domain.api.pieces import PIECE, TEXT, room_after
from saltwisted.wire.msgpack import pack, pack_bin, text_errors
from saltwisted.wire.text import ESCAPE

Pack = Callable[[Any], bytes]
_LONG_TEXT = b"\xdb"
"""How text of 64 KiB and more begins, in both dialects of msgpack."""
GROUP = 8
"""Neighbours that are weighed together: each time costs something, too."""
DEEPEST = 511
"""Containers within containers, as the library has it."""
CREDIT, GAIN = 65_536, 8
"""
Values that may be looked at in vain, at first and for each value that is packed. To weigh what
turns out to be long is in vain: of containers that have one long container each, all within each
other, all that is in them would be weighed again at each level.
"""


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
    # Containers that are open, each with its rest, and what is taken from that already
    inside: list[tuple[Iterator[Any], list[Any]]] = []
    # Small values go together
    run: list[Any] = []
    room, credit = PIECE, CREDIT
    yield from _begun(value, by, inside)
    while inside:
        items, taken = inside[-1]
        if not taken:
            group = list(islice(items, GROUP))
            if not group:
                yield _neighbours(run, by)
                run, room = [], PIECE
                inside.pop()
                continue
            credit += GAIN * len(group)
            if credit > 0:
                left = room_after(group, room)
                if left >= 0:
                    run += group
                    room = left
                    continue
                credit -= room
            taken += reversed(group)
        item = taken.pop()
        is_opened = credit <= 0 and isinstance(item, (dict, list, tuple))
        left = -1 if is_opened else room_after(item, room) - 1
        if left < 0:
            yield _neighbours(run, by)
            run = []
            if not is_opened:
                left = room_after(item) - 1
                credit -= room + (PIECE if left < 0 else 0)
        if left >= 0:
            run.append(item)
            room = left
        else:
            yield from _begun(item, by, inside)
            room = PIECE


def _begun(value: Any, by: Pack, inside: list[tuple[Iterator[Any], list[Any]]]) -> Iterator[bytes]:
    """A value that is large by itself; of a container only how it begins."""
    if len(inside) > DEEPEST:
        raise TypeError("cannot be sent: it is too deep, or contains itself")
    if isinstance(value, Mapping):
        inside.append(((each for item in value.items() for each in item), []))
        yield _head(0x80, 0xDE, len(value))
    elif isinstance(value, (list, tuple)):
        inside.append((iter(value), []))
        yield _head(0x90, 0xDC, len(value))
    elif isinstance(value, str) and len(value) > TEXT:
        yield from _text(value, text_errors(by is pack_bin))
    else:
        yield by(value)


def _text(value: str, errors: str) -> Iterator[bytes]:
    """A long text: its length in bytes comes first, and is known last."""
    made: list[bytes] = []
    try:
        # What is escaped may take six bytes
        step = TEXT // 2 if errors == ESCAPE else TEXT
        for start in range(0, len(value), step):
            made.append(value[start : start + step].encode("utf-8", errors))
            yield b""
        yield _LONG_TEXT + sum(map(len, made)).to_bytes(4, "big")
    except (UnicodeEncodeError, OverflowError) as error:
        raise TypeError(f"cannot be sent: {error}") from error
    yield from made


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
