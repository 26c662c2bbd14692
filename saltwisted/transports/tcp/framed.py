"""
What all four ends share: a stream of frames, with limits on size and time, and a port.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from time import thread_time
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
from saltwisted.transports.unfinished import STEP, half_of_descriptors
from saltwisted.turns import Waiting, turns_of
from saltwisted.wire.frames import MAX_FRAME, Frame, FrameReader

FRAME_TIME = 60.0
"""
Seconds within which a frame that has begun must be whole, or have grown by L{STEP}: a large one
may take long on a slow line.
"""
HANDSHAKE_TIME = 10.0
"""Seconds for the handshake of TLS."""
TURN = 0.002
"""Seconds of CPU in which frames of one connection are served in one turn."""


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
        self,
        reactor: Any,
        stream: Stream,
        limit: int = MAX_FRAME,
        views: bool = False,
        tls: bool = False,
    ) -> None:
        """
        @param tls: whether it begins with a handshake of somebody who has to hurry.
        """
        self._reactor = reactor
        self._turns = turns_of(reactor)
        self._stream = stream
        self._reader = FrameReader(limit, views)
        self._late: IDelayedCall | None = None
        self._timed = 0
        self._hand: IDelayedCall | None = None
        self._goes_on: Waiting | None = None
        self._tls = tls
        self._ends = False
        self.gone = False

    def connectionMade(self) -> None:
        """Set the options of the stream."""
        self._stream.apply(self.transport)
        self.peer = str(getattr(self.transport.getPeer(), "host", ""))
        if self._tls:
            self._hand = self._reactor.callLater(HANDSHAKE_TIME, self._no_handshake)

    def handshakeCompleted(self) -> None:
        """It is as far as a stream without TLS at its beginning."""
        hand, self._hand = self._hand, None
        if hand is not None:
            hand.cancel()

    def _no_handshake(self) -> None:
        self._hand = None
        self.refuse("slow handshake")

    def dataReceived(self, data: bytes) -> None:
        """Take frames out of it."""
        if self.gone or self._ends:
            return
        self._reader.add(data)
        if self._goes_on is None:
            self._serve()

    @property
    def takes(self) -> bool:
        """Whether a further frame is taken out of what has come."""
        return not self.gone and not self._ends

    def _serve(self) -> None:
        """Take frames, in this turn and as many others as it needs."""
        self._goes_on = None
        until = 0.0
        while self.takes:
            try:
                frame = self._reader.take()
            except WireError as error:
                self.refuse(error.reason)
                return
            if frame is None:
                break
            self._time_no_more()
            self.frame(frame)
            if self._reader.unread:
                # Most often there is one frame, and no need to look at a clock
                if not until:
                    until = thread_time() + self._turns.left(TURN)
                elif thread_time() > until:
                    self._go_on_later()
                    return
        self.served()

    def _go_on_later(self) -> None:
        if self._goes_on is None:
            self.transport.pauseProducing()
            self._goes_on = self._turns.later(self._serve_on)

    def _serve_on(self) -> None:
        self._serve()
        if self._goes_on is None and self.takes:
            self.flow()

    def flow(self) -> None:
        """Read on, if it may."""
        self.transport.resumeProducing()

    def served(self) -> None:
        """All is taken that can be taken now."""
        if not self._reader.unread:
            self._time_no_more()
        self._time_frame()

    def _time_frame(self) -> None:
        """From now on the other end has so long for the rest of a frame that has begun."""
        if self._late is None and self._reader.unread and not self.gone:
            self._timed = self._reader.unread
            self._late = self._reactor.callLater(FRAME_TIME, self._too_slow)

    def _time_no_more(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _too_slow(self) -> None:
        self._late = None
        if self._reader.unread - self._timed >= STEP:
            self._time_frame()
            return
        self.refuse("slow frame")

    def frame(self, frame: Frame) -> None:
        """One has come."""
        raise NotImplementedError

    def refuse(self, why: str) -> None:
        """This stream cannot be read any further."""
        self.abort()

    def abort(self) -> None:
        """End it at once."""
        self._ends = True
        self._reader.drop()
        if not self.gone and self.transport is not None:
            self.transport.abortConnection()

    def write(self, data: bytes) -> None:
        """Send, unless it has ended."""
        if not self.gone and self.transport is not None:
            self.transport.write(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """It has ended."""
        self.gone = True
        self._reader.drop()
        self._time_no_more()
        Framed.handshakeCompleted(self)
        waiting, self._goes_on = self._goes_on, None
        if waiting is not None:
            waiting.cancel()


class Listening:
    """A port, with or without TLS."""

    log = Logger()

    def __init__(self, reactor: Any, interface: str, port: int, backlog: int, tls: Any) -> None:
        self._silent: dict[Framed, None] = {}
        self._count = 0
        self.most = half_of_descriptors()
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

    def came(self, one: Framed) -> None:
        """Somebody has connected. If there is no room, who never said anything has to go."""
        self._count += 1
        self._silent[one] = None
        if self._count > self.most:
            first = next(iter(self._silent))
            del self._silent[first]
            first.refuse("too many connections")

    def spoke(self, one: Framed) -> None:
        """It has sent a whole frame."""
        self._silent.pop(one, None)

    def left(self, one: Framed) -> None:
        """Its connection has ended."""
        self._count -= 1
        self._silent.pop(one, None)

    def close(self) -> None:
        """Accept no more connections. Idempotent."""
        port, self._port = self._port, None
        if port is not None:
            closed = port.stopListening()
            if isinstance(closed, Deferred):
                let_go(closed, self.log, "a port was not closed")
