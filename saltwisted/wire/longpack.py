"""
A long map whose binary values are left where they lie.

Entries of logs and messages between members carry bodies of megabytes. What is small of such a map
is decoded by L{saltwisted.wire.msgpack}, and the bodies are views of the message, which nobody
copies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgpack import OutOfData, Unpacker

from saltwisted.wire.decoding import head_of
from saltwisted.wire.msgpack import LARGE, WRONG

__all__ = ["LARGE", "in_place"]

_BINARY = {0xC4: 1, 0xC5: 2, 0xC6: 4}
"""Bytes of the length of binary, by how it begins."""

Decode = Callable[[bytes], Any]


def in_place(data: bytes | memoryview, decode: Decode) -> dict[Any, Any] | None:
    """
    A map whose long binary values are left where they lie, as views, and the rest is decoded.

    @return: C{None} if it is no map, or something else in it is long, or it is malformed:
        C{decode(data)} says which.
    """
    head, view = head_of(data, 0) if data else None, memoryview(data)
    if head is None or not head[0]:
        return None
    _, count, at = head
    found: list[Any] = []
    walker, base = None, 0
    try:
        for _ in range(2 * count):
            width = _BINARY.get(data[at], 0)
            size = int.from_bytes(view[at + 1 : at + 1 + width], "big")
            if size > LARGE:
                at += 1 + width + size
                found.append(view[at - size : at])
                walker = None
                continue
            if walker is None:
                walker, base = _walker(view, at), at
            try:
                walker.skip()
            except OutOfData:
                if at == base:
                    return None
                # Only what is behind the window is read again
                walker, base = _walker(view, at), at
                walker.skip()
            end = base + walker.tell()
            found.append(decode(bytes(view[at:end])))
            at = end
        if at != len(data):
            return None
        return dict(zip(found[::2], found[1::2], strict=True))
    except (IndexError, *WRONG):
        return None


def _walker(view: memoryview, at: int) -> Any:
    """Skips the values from there on, as far as a window reaches."""
    walker = Unpacker()
    walker.feed(view[at : at + 2 * LARGE])
    return walker
