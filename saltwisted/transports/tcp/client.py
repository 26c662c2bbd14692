"""
Requests, the minion's side.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from itertools import count
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectError
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure

from saltwisted.errors import RequestTimeout, TransportClosed
from saltwisted.transports.reasons import why
from saltwisted.transports.tcp.framed import Framed, Stream
from saltwisted.wire.frames import Frame, wrap_frame

Connect = Callable[[Factory], Deferred[Any]]
"""Connects once, and fires with the protocol that the factory has built."""


class MinionConnection(Framed):
    """A connection of a minion."""

    def __init__(
        self,
        reactor: Any,
        stream: Stream,
        received: Callable[[Frame], None],
        lost: Callable[[MinionConnection], None],
    ) -> None:
        super().__init__(reactor, stream)
        self._received = received
        self._lost = lost

    def frame(self, frame: Frame) -> None:
        self._received(frame)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        super().connectionLost(reason)
        self._lost(self)


def quiet_factory(build: Callable[[], Protocol]) -> Factory:
    made: Any = Factory.forProtocol(build)
    made.noisy = False
    factory: Factory = made
    return factory


class TcpRequests:
    """
    The request side of a minion: any number of requests in one connection.

    The connection is made when there is a request, and made again by the next request after it has
    ended. Requests that were pending then fail: it is unknown whether the master has received them.
    """

    def __init__(
        self, reactor: Any, connect: Connect, stream: Stream | None = None, queue: int = 10_000
    ) -> None:
        """
        @param queue: requests that are not answered, at most.
        """
        self._reactor = reactor
        self._connect = connect
        self._stream = stream or Stream()
        self._most = queue
        self._mids = count(1)
        self._waiting: OrderedDict[str, tuple[bytes, Deferred[bytes]]] = OrderedDict()
        self._connection: MinionConnection | None = None
        self._connecting: Deferred[Any] | None = None
        self._closed = False

    def request(self, frame: bytes, timeout: float) -> Deferred[bytes]:
        """
        Send, and fire with the reply. May be cancelled.

        @param timeout: seconds from now.
        @raises RequestTimeout: (errback) no answer in time.
        @raises TransportClosed: (errback) closed, no connection, or too many are waiting.
        """
        mid = str(next(self._mids))
        deferred: Deferred[bytes] = Deferred(lambda d: self._forget(mid))
        if self._closed or len(self._waiting) >= self._most:
            deferred.errback(TransportClosed("closed" if self._closed else "queue"))
            return deferred
        self._waiting[mid] = (frame, deferred)
        if self._connection is not None:
            self._send(mid)
        elif self._connecting is None:
            self._start()
        return deferred.addTimeout(timeout, self._reactor, _timed_out)

    def _forget(self, mid: str) -> None:
        self._waiting.pop(mid, None)

    def _start(self) -> None:
        connecting = self._connect(
            quiet_factory(
                lambda: MinionConnection(self._reactor, self._stream, self._answered, self._lost)
            )
        )
        self._connecting = connecting
        _ = connecting.addCallbacks(self._connected, self._refused)

    def _connected(self, connection: MinionConnection) -> None:
        self._connecting = None
        if self._closed or connection.gone:
            connection.abort()
            self._fail("closed")
            return
        self._connection = connection
        for mid in list(self._waiting):
            self._send(mid)

    def _refused(self, failure: Failure) -> None:
        self._connecting = None
        failure.trap(ConnectError, CancelledError, OSError)
        self._fail(why(failure))

    def _send(self, mid: str) -> None:
        if self._connection is not None:
            self._connection.write(wrap_frame(self._waiting[mid][0], {"mid": mid}))

    def _answered(self, frame: Frame) -> None:
        mid = frame.head.get("mid")
        waiting = self._waiting.pop(mid, None) if isinstance(mid, str) else None
        if waiting is not None:
            waiting[1].callback(frame.packed)

    def _lost(self, connection: MinionConnection) -> None:
        if connection is self._connection:
            self._connection = None
            self._fail("connection lost")

    def _fail(self, why: str) -> None:
        waiting, self._waiting = self._waiting, OrderedDict()
        for _, deferred in waiting.values():
            if not deferred.called:
                deferred.errback(TransportClosed(why))

    def close(self) -> None:
        """Disconnect; unanswered requests fail with L{TransportClosed}. Idempotent."""
        self._closed = True
        if self._connecting is not None:
            self._connecting.cancel()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()
        self._fail("closed")


def _timed_out(result: Any, timeout: float) -> Any:
    raise RequestTimeout("timeout")
