"""
The frames of the roots stream: C{u32 length, u8 type, u8 share, u8 more}, then the body.

A message longer than a frame goes in parts of one type and share, with others between them: a large
batch does not hold up a small one of another share. Lengths are judged before a byte is kept.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator, Sequence

from saltwisted.domain.roots.guards import Forbidden

HELLO, BATCH, WANT, DATA, ACK, PULL, STATE, PING, ERR, PLAIN, TREE, REPAIR, OFFER = range(13)
KINDS = OFFER + 1

HEAD = struct.Struct(">IBBB")
MAX_FRAME = 1024 * 1024
MAX_MESSAGE = 16 * 1024 * 1024
MAX_UNFINISHED = 4 * MAX_MESSAGE
"""Bytes of messages of which parts have come."""
MAX_SHARES = 255
_LARGE = (BATCH, STATE, WANT, DATA, TREE)
_SMALL_MESSAGE = 1024 * 1024
_PART = 256 * 1024
NO_SHARE = 255

Pieces = Sequence[bytes | memoryview]
IN_PIECES = 256 * 1024
"""Bytes from which a message comes as the pieces in which it came, if it came in several."""


def pack_frames(kind: int, share: int, body: bytes) -> Iterator[bytes]:
    """A message as frames."""
    if len(body) > MAX_MESSAGE:
        raise ValueError(f"a message of {len(body)} bytes is too large")
    at = 0
    while True:
        part = body[at : at + _PART]
        at += len(part)
        yield HEAD.pack(len(part), kind, share, at < len(body)) + part
        if at >= len(body):
            return


def pack_head(kind: int, share: int, size: int) -> bytes:
    """The head of a body that is no longer than a frame."""
    if size > MAX_FRAME:
        raise ValueError(f"a frame of {size} bytes is too large")
    return HEAD.pack(size, kind, share, 0)


class Frames:
    """Takes bytes as they come, gives whole messages; what comes is copied once."""

    def __init__(self) -> None:
        self._chunks: deque[bytes] = deque()
        self._at = 0
        self._have = 0
        self._head: tuple[int, int, int, int] | None = None
        self._parts: dict[tuple[int, int], list[bytes | memoryview]] = {}
        self._sizes: dict[tuple[int, int], int] = {}
        self._unfinished = 0

    def feed(self, data: bytes) -> Iterator[tuple[int, int, bytes]]:
        """
        Type, share and body of each message that is complete now.

        @raises Forbidden: a frame that is unknown or too large.
        """
        self.add(data)
        return self.messages()

    def add(self, data: bytes) -> None:
        """More of the stream has come."""
        if data:
            self._chunks.append(data)
            self._have += len(data)

    def messages(self) -> Iterator[tuple[int, int, bytes]]:
        """
        As L{feed}; a caller that stops in between continues later with a new call.

        @raises Forbidden: a frame that is unknown or too large.
        """
        for kind, share, pieces in self.in_pieces():
            yield kind, share, b"".join(pieces)

    def in_pieces(self) -> Iterator[tuple[int, int, Pieces]]:
        """
        As L{messages}, each as the pieces in which it arrived: long messages need not be copied
        only to be written.

        @raises Forbidden: a frame that is unknown or too large.
        """
        while True:
            if self._head is None:
                if self._have < HEAD.size:
                    return
                self._head = self._judge(*HEAD.unpack(b"".join(self._take(HEAD.size))))
            length, kind, share, more = self._head
            key = kind, share
            if self._have < length:
                return
            pieces = self._take(length)
            if len(pieces) > 1 and (more or length < IN_PIECES or key in self._parts):
                # A short piece would keep all that came with it
                pieces = [b"".join(pieces)]
            self._head = None
            if more:
                self._parts.setdefault(key, []).extend(pieces)
                self._sizes[key] = self._sizes.get(key, 0) + length
                self._unfinished += length
                continue
            if key in self._parts:
                pieces = [b"".join([*self._parts.pop(key), *pieces])]
                self._unfinished -= self._sizes.pop(key)
            yield kind, share, pieces

    def _judge(self, length: int, kind: int, share: int, more: int) -> tuple[int, int, int, int]:
        if kind >= KINDS:
            raise Forbidden("frame-type")
        if length > MAX_FRAME or more > 1:
            raise Forbidden("frame-length")
        key = kind, share
        most = MAX_MESSAGE if kind in _LARGE else _SMALL_MESSAGE
        if self._sizes.get(key, 0) + length > most:
            raise Forbidden("message-length")
        if self._unfinished + length > MAX_UNFINISHED:
            raise Forbidden("too-many-messages")
        if more and len(self._parts) > 16 and key not in self._parts:
            raise Forbidden("too-many-messages")
        return length, kind, share, more

    def _take(self, size: int) -> list[bytes | memoryview]:
        """The next bytes, which have come."""
        self._have -= size
        chunks = self._chunks
        if not size:
            return [b""]
        first = chunks[0]
        end = self._at + size
        if end <= len(first):
            piece = first[self._at : end]
            self._at = end
            if end == len(first):
                chunks.popleft()
                self._at = 0
            return [piece]
        pieces: list[bytes | memoryview] = [memoryview(first)[self._at :]]
        size -= len(first) - self._at
        chunks.popleft()
        while size and size >= len(chunks[0]):
            size -= len(chunks[0])
            pieces.append(chunks.popleft())
        if size:
            pieces.append(memoryview(chunks[0])[:size])
        self._at = size
        return pieces
