"""
A return of many megabytes is packed in short turns, and a thread unpacks it in short runs, so that
it delays nobody.
"""

from __future__ import annotations

from time import thread_time
from typing import Any

from twisted.internet.defer import Deferred

from saltwisted.domain.api.packing import Pack, packing
from saltwisted.domain.api.pieces import room_after
from saltwisted.errors import WireError
from saltwisted.wire.msgpack import pack_bin, unpack_bin

AT_ONCE = 10_000
"""Values that are packed at once, in a millisecond; long texts count as several."""
PORTION = 0.002
"""Seconds of the reactor thread's CPU in one turn."""


def is_long(value: Any) -> bool:
    """Whether it takes longer than others to pack it."""
    return room_after(value, AT_ONCE) < 0


async def pack_in_turns(clock: Any, value: Any, by: Pack = pack_bin) -> list[bytes]:
    """
    As L{pack_bin} packs it, in pieces: to copy them into one takes too long for the reactor.

    @raises TypeError: it cannot be packed.
    """
    made: list[bytes] = []
    until = thread_time() + PORTION
    try:
        for piece in packing(value, by):
            made.append(piece)
            if thread_time() > until:
                turn: Deferred[None] = Deferred()
                clock.callLater(0, turn.callback, None)
                await turn
                until = thread_time() + PORTION
    except RecursionError as error:
        raise TypeError(f"cannot be sent: {error}") from error
    return made


def unpacked(load: bytes | memoryview) -> Any:
    """
    As L{unpack_bin} unpacks it; of a long one others may have their turn between any two runs. For
    a thread.

    @raises WireError: not exactly one msgpack value, or too deep.
    """
    return unpack_bin(bytes(load))


def is_return(load: bytes | memoryview) -> bool:
    """Whether it is what a return is. For a thread, if it is long."""
    try:
        return isinstance(unpacked(load), dict)
    except WireError:
        return False
