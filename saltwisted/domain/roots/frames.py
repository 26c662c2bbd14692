"""
The frames of the roots stream: C{u32 length, u8 type, u8 share, u8 more}, then the body.

A message longer than a frame goes in parts of one type and share, with others between them: a large
batch does not hold up a small one of another share. Lengths are judged before a byte is kept.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from saltwisted.domain.roots.guards import Forbidden

HELLO, BATCH, WANT, DATA, ACK, PULL, STATE, PING, ERR, PLAIN, TREE, REPAIR = range(12)
KINDS = REPAIR + 1

HEAD = struct.Struct(">IBBB")
MAX_FRAME = 1024 * 1024
MAX_MESSAGE = 16 * 1024 * 1024
MAX_SHARES = 255
_LARGE = (BATCH, STATE, WANT, DATA, TREE)
_SMALL_MESSAGE = 1024 * 1024
_PART = 256 * 1024
NO_SHARE = 255


def pack_frames(kind: int, share: int, body: bytes) -> Iterator[bytes]:
    """A message as frames."""
    if len(body) > MAX_MESSAGE:
        raise ValueError(f"a message of {len(body)} bytes")
    at = 0
    while True:
        part = body[at : at + _PART]
        at += len(part)
        yield HEAD.pack(len(part), kind, share, at < len(body)) + part
        if at >= len(body):
            return


class Frames:
    """Takes bytes as they come, gives whole messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._parts: dict[tuple[int, int], list[bytes]] = {}
        self._sizes: dict[tuple[int, int], int] = {}

    def feed(self, data: bytes) -> Iterator[tuple[int, int, bytes]]:
        """
        Type, share and body of each message that is complete now.

        @raises Forbidden: a frame that is unknown or too large.
        """
        self._buffer += data
        while len(self._buffer) >= HEAD.size:
            length, kind, share, more = HEAD.unpack_from(self._buffer)
            if kind >= KINDS:
                raise Forbidden("frame-type")
            if length > MAX_FRAME or more > 1:
                raise Forbidden("frame-length")
            key = kind, share
            most = MAX_MESSAGE if kind in _LARGE else _SMALL_MESSAGE
            if self._sizes.get(key, 0) + length > most:
                raise Forbidden("message-length")
            if more and len(self._parts) > 16 and key not in self._parts:
                raise Forbidden("too-many-messages")
            end = HEAD.size + length
            if len(self._buffer) < end:
                return
            with memoryview(self._buffer) as view:
                body = bytes(view[HEAD.size : end])
            del self._buffer[:end]
            if more:
                self._parts.setdefault(key, []).append(body)
                self._sizes[key] = self._sizes.get(key, 0) + length
                continue
            if key in self._parts:
                body = b"".join([*self._parts.pop(key), body])
                del self._sizes[key]
            yield kind, share, body
