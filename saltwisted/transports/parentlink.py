"""
The socket between a daemon and its warm parent.
"""

from __future__ import annotations

import socket
import struct
from collections import deque
from collections.abc import Callable
from typing import Any

import msgpack
from twisted.internet.interfaces import IReadWriteDescriptor
from twisted.internet.main import CONNECTION_LOST
from twisted.python.failure import Failure
from zope.interface import implementer

from saltwisted.transports.ipc import pack_message

_HEAD = struct.Struct(">I")
_SLICE = 1 << 18


@implementer(IReadWriteDescriptor)
class ParentLink:
    """
    Our end of the socket to a warm parent: it sends messages with descriptors, and receives
    messages.
    """

    def __init__(
        self,
        reactor: Any,
        sock: socket.socket,
        received: Callable[[dict[str, Any]], None],
        lost: Callable[[], None],
    ) -> None:
        self._reactor = reactor
        self._sock = sock
        self._received = received
        self._gone = lost
        self._out: deque[tuple[memoryview, socket.socket | None]] = deque()
        self._in = bytearray()
        self._open = True
        reactor.addReader(self)

    def send(self, message: dict[str, Any], passed: socket.socket | None = None) -> None:
        """Queue a message; a socket that goes with it is ours to close."""
        if not self._open:
            if passed is not None:
                passed.close()
            return
        self._out.append((memoryview(pack_message(message)), passed))
        if len(self._out) == 1:
            self.doWrite()

    def close(self) -> None:
        """Hang up, quietly."""
        if self._open:
            self._open = False
            self._reactor.removeReader(self)
            self._reactor.removeWriter(self)
            self._sock.close()
            for _, passed in self._out:
                if passed is not None:
                    passed.close()
            self._out.clear()

    def doWrite(self) -> Any:
        """Send what the socket takes."""
        while self._out:
            data, passed = self._out[0]
            try:
                if passed is not None:
                    sent = socket.send_fds(self._sock, [data[:_SLICE]], [passed.fileno()])
                else:
                    sent = self._sock.send(data[:_SLICE])
            except BlockingIOError:
                self._reactor.addWriter(self)
                return None
            except OSError:
                self._end()
                return None
            if passed is not None:
                passed.close()
            if sent < len(data):
                self._out[0] = (data[sent:], None)
            else:
                self._out.popleft()
        self._reactor.removeWriter(self)
        return None

    def doRead(self) -> Any:
        """Take what the parent reports."""
        try:
            data = self._sock.recv(_SLICE)
        except BlockingIOError:
            return None
        except OSError:
            data = b""
        if not data:
            self._end()
            return None
        self._in += data
        while self._open and len(self._in) >= 4:
            (size,) = _HEAD.unpack_from(self._in)
            if len(self._in) < 4 + size:
                break
            body = bytes(self._in[4 : 4 + size])
            del self._in[: 4 + size]
            self._received(msgpack.unpackb(body, raw=False))
        return None

    def _end(self) -> None:
        if self._open:
            self.close()
            self._gone()

    def fileno(self) -> int:
        """For the reactor."""
        return self._sock.fileno()

    def logPrefix(self) -> str:
        """For the reactor."""
        return "workers"

    def connectionLost(self, reason: Failure = Failure(CONNECTION_LOST)) -> None:  # noqa: B008
        """For the reactor, which found the descriptor broken."""
        self._end()
