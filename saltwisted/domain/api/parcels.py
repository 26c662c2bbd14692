"""
A large value between two processes, in parcels: each is unpacked in a fraction of a millisecond.

Unpacking the msgpack of a whole mebibyte takes 50 milliseconds. In parcels it can be done bit by
bit, so that nothing else waits for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from saltwisted.domain.api.pieces import PIECE, key_weight, room_after
from saltwisted.wire.msgpack import pack_bin, unpack_bin

# What a parcel is: a value, some items of the list or the map that is open, the key of the next
# value, the beginning of a list or of a map, or its end
_VALUE, _ITEMS, _KEY, _LIST, _MAP, _END = range(6)


def parcels(value: Any) -> Iterator[bytes]:
    """
    The value, to be sent.

    @raises TypeError: something in it cannot be packed.
    """
    large = isinstance(value, (dict, list, tuple)) and room_after(value) < 0
    if not large:
        yield pack_bin([_VALUE, value])
    elif isinstance(value, dict):
        yield pack_bin([_MAP])
        run: Any = {}
        room = PIECE
        for key, item in value.items():
            room = room_after(item, room) - 1 - key_weight(key)
            if room < 0:
                yield pack_bin([_ITEMS, run])
                run, room = {}, room_after(item) - 1 - key_weight(key)
            if room >= 0:
                run[key] = item
            else:
                yield pack_bin([_KEY, key])
                yield from parcels(item)
                room = PIECE
        yield pack_bin([_ITEMS, run])
        yield pack_bin([_END])
    else:
        yield pack_bin([_LIST])
        run, room = [], PIECE
        for item in value:
            room = room_after(item, room) - 1
            if room < 0:
                yield pack_bin([_ITEMS, run])
                run, room = [], room_after(item) - 1
            if room >= 0:
                run.append(item)
            else:
                yield from parcels(item)
                room = PIECE
        yield pack_bin([_ITEMS, run])
        yield pack_bin([_END])


class Unpacking:
    """
    A value that arrives in parcels.

    @ivar value: the value, when all parcels have arrived.
    """

    def __init__(self) -> None:
        self.value: Any = None
        self._open: list[tuple[Any, Any]] = []
        self._key: Any = None

    def steps(self, received: Iterable[bytes]) -> Iterator[None]:
        """Take parcels, one at each step."""
        for data in received:
            self._take(*unpack_bin(data))
            yield

    def _take(self, kind: int, content: Any = None) -> None:
        if kind == _ITEMS:
            container, _ = self._open[-1]
            if isinstance(container, dict):
                container.update(content)
            else:
                container.extend(content)
        elif kind == _KEY:
            self._key = content
        elif kind == _VALUE:
            self._put(content)
        elif kind == _END:
            container, self._key = self._open.pop()
            self._put(container)
        else:
            self._open.append(({} if kind == _MAP else [], self._key))

    def _put(self, value: Any) -> None:
        if not self._open:
            self.value = value
            return
        container, _ = self._open[-1]
        if isinstance(container, dict):
            container[self._key] = value
        else:
            container.append(value)
