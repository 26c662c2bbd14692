"""
What all four ends share: a stream of frames, with limits on size and time, and a port.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.logger import Logger
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.python.failure import Failure

from saltwisted.errors import WireError
from saltwisted.transports.deferreds import let_go
from saltwisted.wire.frames import MAX_FRAME, Frame, FrameReader

FRAME_TIME = 60.0
"""Seconds within which a frame that has begun must be whole."""


@frozen(kw_only=True)
class Stream:
    """TCP keepalive of a stream in Salt's terms; C{-1} leaves the system's value."""

    enabled: bool = True
    idle: int = 300
    count: int = -1
    interval: int = -1

    def apply(self, transport: Any) -> None:
        """Set the options of a connected transport."""
        transport.setTcpNoDelay(True)
        transport.setTcpKeepAlive(self.enabled)
        handle = transport.getHandle()
        if not self.enabled or not hasattr(handle, "setsockopt"):
            return
        for name, value in (
            ("TCP_KEEPIDLE", self.idle),
            ("TCP_KEEPCNT", self.count),
            ("TCP_KEEPINTVL", self.interval),
        ):
            if value > 0:
                handle.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), int(value))


class Framed(Protocol):
    """One end of a stream of frames, with limits on size and time."""

    log = Logger()
    transport: Any = None
    peer = ""

    def __init__(
        self, reactor: Any, stream: Stream, limit: int = MAX_FRAME, views: bool = False
    ) -> None:
        self._reactor = reactor
        self._stream = stream
        self._reader = FrameReader(limit, views)
        self._late: IDelayedCall | None = None
        self.gone = False

    def connectionMade(self) -> None:
        """Set the options of the stream."""
        self._stream.apply(self.transport)
        self.peer = str(getattr(self.transport.getPeer(), "host", ""))

    def dataReceived(self, data: bytes) -> None:
        """Take frames out of it."""
        try:
            frames = self._reader.feed(data)
        except WireError as error:
            self.refuse(error.reason)
            return
        if frames or not self._reader.unread:
            self._time_no_more()
        self._time_frame()
        for frame in frames:
            if self.gone:
                return
            self.frame(frame)

    def _time_frame(self) -> None:
        """From now on the other end has so long for the rest of a frame that has begun."""
        if self._late is None and self._reader.unread and not self.gone:
            self._late = self._reactor.callLater(FRAME_TIME, self._too_slow)

    def _time_no_more(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _too_slow(self) -> None:
        self._late = None
        self.refuse("slow frame")

    def frame(self, frame: Frame) -> None:
        """One has come."""
        raise NotImplementedError

    def refuse(self, why: str) -> None:
        """This stream cannot be read any further."""
        self.abort()

    def abort(self) -> None:
        """End it at once."""
        if not self.gone and self.transport is not None:
            self.transport.abortConnection()

    def write(self, data: bytes) -> None:
        """Send, unless it has ended."""
        if not self.gone and self.transport is not None:
            self.transport.write(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """It has ended."""
        self.gone = True
        self._time_no_more()


class Listening:
    """A port, with or without TLS."""

    log = Logger()

    def __init__(self, reactor: Any, interface: str, port: int, backlog: int, tls: Any) -> None:
        self._reactor = reactor
        self._interface = interface.strip("[]")
        self._backlog = backlog
        self._tls = tls
        self._port: Any = None
        self.port = port

    def bind(self, build: Callable[[], Protocol]) -> None:
        """@raises CannotListenError: the port is in use."""
        factory: Any = Factory.forProtocol(build)
        factory.noisy = False
        if self._tls is not None:
            factory = TLSMemoryBIOFactory(self._tls, False, factory)
            factory.noisy = False
        self._port = self._reactor.listenTCP(
            self.port, factory, backlog=self._backlog, interface=self._interface
        )
        self.port = self._port.getHost().port

    def close(self) -> None:
        """Accept no more connections. Idempotent."""
        port, self._port = self._port, None
        if port is not None:
            closed = port.stopListening()
            if isinstance(closed, Deferred):
                let_go(closed, self.log, "a port was not closed")
