"""
Sizes of objects, by their names, in a form that is received at once, however many there are.

A history may have a million large objects. As a map they take half a second to be received, and 150
MiB; as one text of sorted rows, they take a fifth of that memory.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping

MANY = 5000
"""Objects up to which they stay a map."""
_NAME, _ROW = 20, 28

Large = Mapping[str, int] | bytes
"""A map, or the text of a L{Sizes}."""


class Sizes(Mapping[str, int]):
    """
    Looked up by the names of objects, in hex.

    @param rows: sorted: the 20 bytes of a name, and 8 of its size.
    """

    def __init__(self, rows: bytes) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows) // _ROW

    def __iter__(self) -> Iterator[str]:
        return (self._rows[at : at + _NAME].hex() for at in range(0, len(self._rows), _ROW))

    def __getitem__(self, oid: str) -> int:
        try:
            name = bytes.fromhex(oid)
        except ValueError:
            raise KeyError(oid) from None
        places, rows = range(len(self)), self._rows
        place = bisect_left(places, name, key=lambda at: rows[at * _ROW : at * _ROW + _NAME])
        row = rows[place * _ROW : (place + 1) * _ROW]
        if row[:_NAME] != name:
            raise KeyError(oid)
        return int.from_bytes(row[_NAME:], "big")


def told(sizes: Mapping[str, int]) -> Large:
    """Their form in a message: very many are a text."""
    if len(sizes) <= MANY or any(len(oid) != 2 * _NAME for oid in sizes):
        return sizes
    rows = sorted(bytes.fromhex(oid) + size.to_bytes(8, "big") for oid, size in sizes.items())
    return b"".join(rows)


def heard(large: Large) -> Mapping[str, int]:
    """The sizes of a message."""
    return Sizes(large) if isinstance(large, bytes) else large
