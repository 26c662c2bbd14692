"""
Msgpack of many megabytes, unpacked in steps: each takes a fraction of a millisecond.

The library unpacks a message in one call, during which no other thread of the interpreter runs.
Here a container that is too large for one step is opened, and its elements are unpacked in runs of
about L{PIECE} bytes. Where an element ends is found by skipping it, which makes no objects.

What a run means is decided by L{saltwisted.wire.msgpack}, of which this is no second version.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from msgpack import Unpacker

from saltwisted.errors import WireError
from saltwisted.wire.msgpack import LARGE, WRONG

__all__ = ["LARGE", "PIECE", "at_once", "in_place", "unpacking"]

PIECE = 16 * 1024
"""Bytes of a run, about; a single text may be longer."""
LEVELS = 4
"""Containers within containers that are opened; each has to be skipped once more for that."""

_BINARY = {0xC4: 1, 0xC5: 2, 0xC6: 4}
"""Bytes of the length of binary, by how it begins."""
_LIST = b"\xdd"
"""How a list of any length may begin; four bytes of its length follow."""

Decode = Callable[[bytes], Any]


def unpacking(data: bytes, decode: Decode) -> Generator[None, None, Any]:
    """
    The steps that unpack a message; what they return is what C{decode(data)} does.

    @param decode: L{unpack<saltwisted.wire.msgpack.unpack>} or its kin; called with each run.
    @raises WireError: not exactly one msgpack value, or too deep.
    """
    try:
        return (yield from _value(data, 0, len(data), decode, LEVELS))
    except WRONG as error:
        raise WireError("msgpack") from error


def in_place(data: bytes | memoryview, decode: Decode) -> dict[Any, Any] | None:
    """
    A map whose long binary values are left where they lie, as views, and the rest is decoded.

    @return: C{None} if it is no map, or something else in it is long, or it is malformed:
        C{decode(data)} says which.
    """
    head, view = _head(data, 0) if data else None, memoryview(data)
    if head is None or not head[0]:
        return None
    _, count, at = head
    found: list[Any] = []
    try:
        for _ in range(2 * count):
            width = _BINARY.get(data[at], 0)
            size = int.from_bytes(view[at + 1 : at + 1 + width], "big")
            if size > LARGE:
                at += 1 + width + size
                found.append(view[at - size : at])
                continue
            walker = Unpacker()
            walker.feed(view[at : at + 2 * LARGE])
            walker.skip()
            end = at + walker.tell()
            found.append(decode(bytes(view[at:end])))
            at = end
        if at != len(data):
            return None
        return dict(zip(found[::2], found[1::2], strict=True))
    except (IndexError, *WRONG):
        return None


def at_once(steps: Generator[None, None, Any]) -> Any:
    """What they return; for a thread, which others may interrupt between any two."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            return stop.value


def _value(
    data: bytes, start: int, end: int, decode: Decode, levels: int
) -> Generator[None, None, Any]:
    head = _head(data, start) if levels and end - start > 2 * PIECE else None
    if head is None:
        value = decode(data[start:end])
        yield
        return value
    is_map, count, first = head
    made: Any = {} if is_map else []
    walker = Unpacker(max_buffer_size=end - first)
    walker.feed(memoryview(data)[first:end])
    # Elements that are not in it yet; of a map, keys and values in turn
    found: list[Any] = []
    run, begun, at = 0, first, first
    for _ in range(2 * count if is_map else count):
        walker.skip()
        after = first + walker.tell()
        if after - begun > PIECE:
            if run:
                found += decode(_LIST + run.to_bytes(4, "big") + data[begun:at])
                found = _add(made, found)
                yield
            run, begun = 0, at
            if after - at > PIECE:
                found.append((yield from _value(data, at, after, decode, levels - 1)))
                begun, run = after, -1
        run += 1
        at = after
    if at != end:
        raise WireError("msgpack")
    if run:
        found += decode(_LIST + run.to_bytes(4, "big") + data[begun:at])
    _add(made, found)
    yield
    return made


def _add(made: Any, found: list[Any]) -> list[Any]:
    """Put what was found into a container; a key without its value is left."""
    if made.__class__ is list:
        made += found
        return []
    pairs = len(found) // 2 * 2
    made.update(zip(found[:pairs:2], found[1:pairs:2], strict=True))
    return found[pairs:]


def _head(data: bytes | memoryview, at: int) -> tuple[bool, int, int] | None:
    """Whether a container is a map, its length, and where its elements begin; C{None}: no one."""
    first = data[at]
    if 0x80 <= first <= 0x9F:
        return first < 0x90, first & 0x0F, at + 1
    if not 0xDC <= first <= 0xDF:
        return None
    after = at + (5 if first & 1 else 3)
    return first >= 0xDE, int.from_bytes(data[at + 1 : after], "big"), after
