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


@frozen
class Frame:
    """
    One message of the TCP transport.

    @ivar head: text guessed; C{mid} pairs a reply with its request.
    @ivar body: raw: a map with bytes as keys, or bytes.
    """

    head: dict[Any, Any]
    body: Any = field(repr=False)

    @property
    def packed(self) -> bytes:
        """The body as msgpack: what ZeroMQ would have brought."""
        return pack(self.body)


def encode_frame(body: Any, head: dict[str, Any] | None = None) -> bytes:
    """One frame; C{body} is any plain value."""
    return pack({"head": head or {}, "body": body})


def wrap_frame(packed: bytes, head: dict[Any, Any] | None = None) -> bytes:
    """One frame around a body that is msgpack already."""
    return b"".join((_MAP_HEAD, pack(head or {}), _BODY, packed))


_MAP_HEAD = b"\x82" + pack("head")
_BODY = pack("body")


class FrameReader:
    """
    The receiving end of one stream.

    Only boundaries are searched in the stream: the walker goes on where it stopped
    and builds nothing, so that work stays in proportion to the bytes in whatever
    pieces they come. A whole frame is then decoded with all limits of L{unpack_raw}.
    """

    def __init__(self, limit: int = MAX_FRAME) -> None:
        """
        @param limit: bytes of one frame.
        """
        self._limit = limit
        self._buffer = bytearray()
        self._passed = 0
        self._walker = Unpacker(max_buffer_size=2**31 - 1)

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
        buffer, walker = self._buffer, self._walker
        frames: list[Frame] = []
        try:
            walker.feed(data)
            buffer += data
            while True:
                walker.skip()
                end = walker.tell() - self._passed
                if end > self._limit:
                    raise WireError("frame size")
                self._passed += end
                frames.append(self._frame(bytes(buffer[:end])))
                del buffer[:end]
        except OutOfData:
            if len(buffer) > self._limit:
                raise WireError("frame size") from None
        except (ValueError, RecursionError, MemoryError, UnpackException) as error:
            raise WireError("frame") from error
        return frames

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
        return Frame(head, value[b"body"])
