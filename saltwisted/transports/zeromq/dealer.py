"""
The request side of a minion.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Any

import zmq
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from saltwisted.errors import RequestTimeout, TransportClosed
from saltwisted.transports.zeromq.fairness import FairConnection, Keepalive, ZeroMQ

MAX_ANSWER = 128 * 1024 * 1024
UNUSED = 30.0
"""Seconds after which a minion's socket for requests that nobody needed is closed."""


class _Slot:
    """One socket of a L{DealerClient}, with at most one request in flight."""

    __slots__ = ("connection", "deferred", "timer", "used")

    def __init__(self) -> None:
        self.connection: FairConnection | None = None
        self.deferred: Deferred[bytes] | None = None
        self.timer: IDelayedCall | None = None
        self.used = 0.0


class DealerClient:
    """
    The request side of a minion: a few DEALER sockets that behave like REQ.

    A stock master answers in any order, and its framing has no room for a number. So a socket
    carries one request at a time, and the number of sockets limits concurrency. After a timeout the
    socket is closed, as in stock, so that a late answer is not taken for the next one. Requests
    beyond C{sockets} wait in order, at most C{queue} of them; the time spent waiting counts.
    Sockets that were opened for many requests are closed when they have been idle for a while; one
    socket stays.
    """

    def __init__(
        self,
        zeromq: ZeroMQ,
        address: str,
        sockets: int = 8,
        queue: int = 10_000,
        keepalive: Keepalive | None = None,
        reconnect_max: int = 5000,
        heartbeat: int = 15_000,
        heartbeat_timeout: int = 30_000,
        max_message: int = MAX_ANSWER,
        source: str = "",
    ) -> None:
        """
        @param address: C{tcp://host:port}.
        @param reconnect_max: milliseconds between attempts at most.
        @param source: C{ip:port} to connect from, as in Salt's C{source_address} and
            C{source_ret_port}; empty for any.
        """
        self._zeromq = zeromq
        self._reactor: IReactorTime = zeromq.reactor
        if source:
            address = address.replace("tcp://", f"tcp://{source};", 1)
        self._address = address
        self._most = sockets
        self._queue_limit = queue
        self._options: dict[int, Any] = {
            zmq.LINGER: 0,
            zmq.RECONNECT_IVL_MAX: reconnect_max,
            zmq.MAXMSGSIZE: max_message,
            zmq.IPV6: int("[" in address),
            **(keepalive or Keepalive()).options(),
        }
        if heartbeat > 0:
            self._options[zmq.HEARTBEAT_IVL] = heartbeat
            self._options[zmq.HEARTBEAT_TIMEOUT] = heartbeat_timeout
        self._idle: list[_Slot] = []
        self._busy: set[_Slot] = set()
        self._tidying: IDelayedCall | None = None
        self._waiting: deque[tuple[bytes, Deferred[bytes], float]] = deque()
        self._closed = False

    @property
    def in_flight(self) -> int:
        """Requests that are sent and not answered."""
        return len(self._busy)

    def request(self, frame: bytes, timeout: float) -> Deferred[bytes]:
        """
        Send, and fire with the reply frame. May be cancelled.

        @param timeout: seconds from now.
        @raises RequestTimeout: (errback) no answer in time.
        @raises TransportClosed: (errback) closed, or too many are waiting.
        """
        deferred: Deferred[bytes] = Deferred(self._cancelled)
        if self._closed or len(self._waiting) >= self._queue_limit:
            deferred.errback(TransportClosed("closed" if self._closed else "queue"))
            return deferred
        if self._waiting or (not self._idle and len(self._busy) >= self._most):
            until = self._reactor.seconds() + timeout
            self._waiting.append((frame, deferred, until))
            return deferred.addTimeout(timeout, self._reactor, _timed_out)
        self._start(frame, deferred, timeout)
        return deferred

    def _start(self, frame: bytes, deferred: Deferred[bytes], timeout: float) -> None:
        slot = self._idle.pop() if self._idle else _Slot()
        if slot.connection is None:
            slot.connection = FairConnection(
                self._zeromq,
                zmq.DEALER,
                partial(self._received, slot),
                self._options,
                hwm=16,
                broken=partial(self._drop, slot, "socket"),
            )
            slot.connection.connect(self._address)
        slot.deferred = deferred
        self._busy.add(slot)
        slot.timer = self._reactor.callLater(max(0.0, timeout), self._late, slot)
        if not slot.connection.send((b"", frame)):
            self._drop(slot, "send")

    def _received(self, slot: _Slot, message: list[Any]) -> None:
        if slot.deferred is None or len(message) < 2 or message[0].bytes:
            return
        deferred = self._free(slot)
        slot.used = self._reactor.seconds()
        self._idle.append(slot)
        self._next()
        if len(self._idle) > 1 and self._tidying is None and not self._closed:
            self._tidying = self._reactor.callLater(UNUSED, self._tidy)
        if deferred is not None:
            deferred.callback(message[-1].bytes)

    def _tidy(self) -> None:
        """The one that was used last is taken first: those that nobody needs are at the front."""
        self._tidying = None
        end = self._reactor.seconds() - UNUSED
        while len(self._idle) > 1 and self._idle[0].used <= end:
            self._close(self._idle.pop(0))
        if len(self._idle) > 1:
            self._tidying = self._reactor.callLater(self._idle[0].used - end, self._tidy)

    def _free(self, slot: _Slot) -> Deferred[bytes] | None:
        deferred, slot.deferred = slot.deferred, None
        timer, slot.timer = slot.timer, None
        if timer is not None and timer.active():
            timer.cancel()
        self._busy.discard(slot)
        return deferred

    def _close(self, slot: _Slot) -> None:
        connection, slot.connection = slot.connection, None
        if connection is not None:
            connection.shutdown()

    def _late(self, slot: _Slot) -> None:
        deferred = self._free(slot)
        self._close(slot)
        self._next()
        if deferred is not None:
            deferred.errback(RequestTimeout("timeout"))

    def _drop(self, slot: _Slot, why: str) -> None:
        deferred = self._free(slot)
        self._close(slot)
        self._next()
        if deferred is not None:
            deferred.errback(TransportClosed(why))

    def _cancelled(self, deferred: Deferred[bytes]) -> None:
        for slot in self._busy:
            if slot.deferred is deferred:
                self._free(slot)
                self._close(slot)
                self._next()
                return
        for waiting in self._waiting:
            if waiting[1] is deferred:
                self._waiting.remove(waiting)
                return

    def _next(self) -> None:
        while self._waiting and not self._closed and (self._idle or len(self._busy) < self._most):
            frame, deferred, until = self._waiting.popleft()
            if not deferred.called:
                self._start(frame, deferred, until - self._reactor.seconds())

    def close(self) -> None:
        """Close all sockets; unanswered requests fail with L{TransportClosed}. Idempotent."""
        self._closed = True
        if self._tidying is not None:
            self._tidying.cancel()
            self._tidying = None
        waiting, self._waiting = self._waiting, deque()
        busy = list(self._busy)
        for slot in self._idle:
            self._close(slot)
        self._idle.clear()
        for slot in busy:
            self._drop(slot, "closed")
        for _, deferred, _ in waiting:
            if not deferred.called:
                deferred.errback(TransportClosed("closed"))


def _timed_out(result: Any, timeout: float) -> Any:
    raise RequestTimeout("timeout")
