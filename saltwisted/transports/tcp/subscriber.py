"""
Publications, the minion's side.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from saltwisted.transports.reasons import why
from saltwisted.transports.tcp.client import Connect, MinionConnection, quiet_factory
from saltwisted.transports.tcp.framed import Stream
from saltwisted.wire.frames import Frame, wrap_frame

SILENT = 5.0
"""Seconds without one after which a subscriber looks after its master."""
GONE = 20.0
"""Seconds without one after which it connects again."""


class TcpSubscriber:
    """
    The publish side of a minion: connects, identifies itself, listens, and connects again.

    One of our masters sends signs of life. When these stop, C{lost} is called, and after a while
    the subscriber connects again.
    """

    log = Logger()

    def __init__(
        self,
        reactor: Any,
        connect: Connect,
        received: Callable[[Any, bytes | None], None],
        hello: Callable[[], bytes | None],
        lost: Callable[[], None] = lambda: None,
        stream: Stream | None = None,
        backoff: float = 1.0,
        dice: Random | None = None,
    ) -> None:
        """
        @param received: called with the body of each publication.
        @param hello: the packed body of the first frame, or C{None} for none.
        @param lost: called when the connection has ended, or is silent for too long.
        @param backoff: C{tcp_reconnect_backoff}, seconds between two attempts, more or less.
        """
        self._reactor = reactor
        self._connect = connect
        self._received = received
        self._hello = hello
        self._lost = lost
        self._stream = stream or Stream()
        self._backoff = max(0.1, backoff)
        self._dice = dice or Random()  # noqa: S311 - jitter
        self._connection: MinionConnection | None = None
        self._connecting: Deferred[Any] | None = None
        self._retry: IDelayedCall | None = None
        self._silence: IDelayedCall | None = None
        self._heard = 0.0
        self._closed = False

    def open(self) -> None:
        """Connect; returns at once."""
        self._retry = None
        connecting = self._connect(
            quiet_factory(
                lambda: MinionConnection(self._reactor, self._stream, self._frame, self._ended)
            )
        )
        self._connecting = connecting
        _ = connecting.addCallbacks(self._connected, self._refused)

    def _connected(self, connection: MinionConnection) -> None:
        self._connecting = None
        if self._closed:
            connection.abort()
            return
        if connection.gone:
            self._again()
            return
        self._connection = connection
        hello = self._hello()
        if hello is not None:
            connection.write(wrap_frame(hello))

    def _refused(self, failure: Failure) -> None:
        self._connecting = None
        if failure.check(CancelledError) is None:
            self.log.debug("no connection: {error}", error=why(failure))
        self._again()

    def _again(self) -> None:
        if not self._closed and self._retry is None:
            wait = self._backoff * (0.5 + self._dice.random())
            self._retry = self._reactor.callLater(wait, self.open)

    def _frame(self, frame: Frame) -> None:
        self._heard = self._reactor.seconds()
        if "saltwisted" in frame.head:
            if self._silence is None:
                self._silence = self._reactor.callLater(SILENT, self._silent)
            return
        self._received(frame.body, None)

    def _silent(self) -> None:
        """The signs of life have stayed away, perhaps."""
        self._silence = None
        quiet = self._reactor.seconds() - self._heard
        connection = self._connection
        if connection is None:
            return
        if quiet >= GONE:
            connection.abort()
            return
        if quiet >= SILENT:
            self._lost()
        wait = SILENT - quiet if quiet < SILENT else GONE - quiet
        self._silence = self._reactor.callLater(max(0.1, wait), self._silent)

    def _ended(self, connection: MinionConnection) -> None:
        if connection is not self._connection:
            return
        self._connection = None
        self._hush()
        if not self._closed:
            self._lost()
            self._again()

    def _hush(self) -> None:
        silence, self._silence = self._silence, None
        if silence is not None:
            silence.cancel()

    def close(self) -> None:
        """Disconnect. Idempotent."""
        self._closed = True
        self._hush()
        retry, self._retry = self._retry, None
        if retry is not None:
            retry.cancel()
        if self._connecting is not None:
            self._connecting.cancel()
        if self._connection is not None:
            self._connection.abort()
