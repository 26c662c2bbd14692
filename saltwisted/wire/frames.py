"""
Salt's framing of byte streams (C{transport: tcp}): one msgpack map
C{{head, body}} after another, with no length in front.

L{FrameReader} is fed what arrives and gives back whole frames; it holds at
most its limit of unread bytes. ZeroMQ frames itself; the local control socket
has a length prefix (L{saltwisted.transports.ipc}).
"""

from __future__ import annotations

from typing import Any

from attrs import field, frozen
from msgpack import Unpacker
from msgpack.exceptions import OutOfData, UnpackException

from saltwisted.errors import WireError
from saltwisted.wire.msgpack import guess, pack, unpack_raw

MAX_FRAME = 64 * 1024 * 1024
LARGE = 64 * 1024
"""Bytes above which a reader that may keep views does not copy a frame."""


@frozen
class Frame:
    """
    One message of the TCP transport.

    @ivar head: text guessed; C{mid} pairs a reply with its request.
    @ivar body: raw: a map with bytes as keys, or bytes; C{None} if there is a C{view}.
    @ivar view: of a large one: the body as msgpack, which is not decoded.
    @ivar size: bytes of all of it.
    """

    head: dict[Any, Any]
    body: Any = field(repr=False)
    view: memoryview | None = field(default=None, repr=False)
    size: int = field(default=0, eq=False)

    @property
    def packed(self) -> bytes:
        """The body as msgpack: what ZeroMQ would have brought."""
        return pack(self.body) if self.view is None else bytes(self.view)


def encode_frame(body: Any, head: dict[str, Any] | None = None) -> bytes:
    """One frame; C{body} is any plain value."""
    return pack({"head": head or {}, "body": body})


def wrap_frame(packed: bytes, head: dict[Any, Any] | None = None) -> bytes:
    """One frame around a body that is msgpack already."""
    return b"".join((_MAP_HEAD, pack(head or {}), _BODY, packed))


_MAP_HEAD = b"\x82" + pack("head")
_MAP_BODY = b"\x82" + pack("body")
_HEAD = pack("head")
_BODY = pack("body")
_HEAD_MOST = 1024
"""Bytes of the head of a frame whose body is left as it is."""


class FrameReader:
    """
    The receiving end of one stream.

    Only boundaries are searched in the stream: the walker goes on where it stopped
    and builds nothing, so that work stays in proportion to the bytes in whatever
    pieces they come. A whole frame is then decoded with all limits of L{unpack_raw}.
    """

    def __init__(self, limit: int = MAX_FRAME, views: bool = False) -> None:
        """
        @param limit: bytes of one frame.
        @param views: whether the body of a large frame is left undecoded, and not copied.
        """
        self._limit = limit
        self._views = views
        self._buffer = bytearray()
        self._passed = 0
        self._walker = _walker()

    @property
    def unread(self) -> int:
        """Bytes of a frame that is not whole yet."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[Frame]:
        """
        Take what arrived, and return the frames that are complete now.

        @raises WireError: not this framing, or a frame above the limit. The stream
            cannot be read any further: close it.
        """
        self.add(data)
        frames: list[Frame] = []
        while (frame := self.take()) is not None:
            frames.append(frame)
        return frames

    def drop(self) -> None:
        """Forget what is not whole: nothing more will come."""
        self._buffer, self._walker, self._passed = bytearray(), _walker(), 0

    def add(self, data: bytes) -> None:
        """Keep what arrived."""
        self._walker.feed(data)
        self._buffer += data

    def take(self) -> Frame | None:
        """
        The next frame; C{None}: it is not complete yet.

        @raises WireError: see L{feed}.
        """
        try:
            self._walker.skip()
            end = self._walker.tell() - self._passed
            if end > self._limit:
                raise WireError("frame size")
            self._passed += end
            frame = self._take(end)
            if end > LARGE:
                # What a walker has grown to, it keeps
                self._walker, self._passed = _walker(), 0
                self._walker.feed(self._buffer)
            return frame
        except OutOfData:
            if len(self._buffer) > self._limit:
                raise WireError("frame size") from None
            return None
        except (ValueError, RecursionError, MemoryError, UnpackException) as error:
            raise WireError("frame") from error

    def _take(self, end: int) -> Frame:
        """The frame that ends there."""
        buffer = self._buffer
        if end <= LARGE or not self._views:
            data = bytes(memoryview(buffer)[:end])
            del buffer[:end]
            return self._frame(data)
        self._buffer = buffer[end:]
        del buffer[end:]
        whole = memoryview(buffer)
        frame = _viewed(whole)
        if frame is None:
            # Never decoded for its shape alone: whoever writes frames has a head of a few bytes
            raise WireError("frame head")
        return frame

    @staticmethod
    def _frame(data: bytes) -> Frame:
        value = unpack_raw(data)
        if value.__class__ is not dict or b"body" not in value:
            raise WireError("frame")
        head = guess(value.get(b"head"))
        if head is None:
            head = {}
        if head.__class__ is not dict:
            raise WireError("frame head")
        return Frame(head, value[b"body"], None, len(data))


def _walker() -> Unpacker:
    return Unpacker(max_buffer_size=2**31 - 1)


def _viewed(whole: memoryview) -> Frame | None:
    """
    A frame whose body is not decoded; C{None}: it is not as Salt writes it, or malformed.

    The head comes first. A Python 2 wrote the body first when it pleased: then the head is the end.
    """
    if whole[: len(_MAP_HEAD)] == _MAP_HEAD:
        rest = whole[len(_MAP_HEAD) :]
        walker = Unpacker(max_buffer_size=_HEAD_MOST)
        walker.feed(rest[:_HEAD_MOST])
        try:
            walker.skip()
        except (OutOfData, ValueError, RecursionError, UnpackException):
            return None
        size = walker.tell()
        if rest[size : size + len(_BODY)] != _BODY:
            return None
        return _headed(rest[:size], rest[size + len(_BODY) :])
    if whole[: len(_MAP_BODY)] != _MAP_BODY:
        return None
    rest = whole[len(_MAP_BODY) :]
    tail = bytes(rest[-_HEAD_MOST:])
    at = tail.rfind(_HEAD)
    if at < 0:
        return None
    size = len(rest) - len(tail) + at
    return _headed(rest[size + len(_HEAD) :], rest[:size])


def _headed(head: memoryview, body: memoryview) -> Frame | None:
    found = guess(unpack_raw(bytes(head)))
    if found is None:
        found = {}
    return Frame(found, None, body, len(body)) if found.__class__ is dict else None
