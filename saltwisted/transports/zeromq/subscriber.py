"""
The publish side of a minion.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import zmq
from twisted.internet.interfaces import IDelayedCall

from saltwisted.transports.zeromq.fairness import FairConnection, Keepalive, ZeroMQ

MAX_PUBLICATION = 128 * 1024 * 1024


class SubClient:
    """
    The publish side of a minion: SUB.

    ZeroMQ reconnects by itself. Its heartbeats (which every libzmq answers) detect a master that
    vanished silently. This class does not know whether anything is connected: only messages prove
    it. C{lost} is called when a connection has ended.
    """

    def __init__(
        self,
        zeromq: ZeroMQ,
        address: str,
        received: Callable[[bytes, bytes | None], None],
        identity: bytes = b"",
        topics: Sequence[bytes] = (b"",),
        keepalive: Keepalive | None = None,
        reconnect: int = 1000,
        reconnect_max: int = 10_000,
        heartbeat: int = 15_000,
        heartbeat_timeout: int = 30_000,
        hwm: int = 1000,
        max_message: int = MAX_PUBLICATION,
        source: str = "",
        lost: Callable[[], None] | None = None,
    ) -> None:
        """
        @param received: called with the payload and its topic frame, if there was one.
        @param identity: Salt gives the minion id.
        @param reconnect: milliseconds before the first attempt to reconnect (C{recon_*}, with
            the caller's dice).
        @param source: as in L{saltwisted.transports.zeromq.dealer.DealerClient}.
        @param lost: called when the TCP connection ends; a hint that the master is gone.
        """
        self._zeromq = zeromq
        self._received = received
        self._lost = lost
        self._watcher: FairConnection | None = None
        if source:
            address = address.replace("tcp://", f"tcp://{source};", 1)
        self._address = address
        self._identity = identity or None
        self._topics = list(topics)
        self._hwm = hwm
        self._options: dict[int, Any] = {
            zmq.LINGER: 1,
            zmq.RECONNECT_IVL: reconnect,
            zmq.RECONNECT_IVL_MAX: max(reconnect, reconnect_max),
            zmq.MAXMSGSIZE: max_message,
            zmq.IPV6: int("[" in address),
            **(keepalive or Keepalive()).options(),
        }
        if heartbeat > 0:
            self._options[zmq.HEARTBEAT_IVL] = heartbeat
            self._options[zmq.HEARTBEAT_TIMEOUT] = heartbeat_timeout
        self._connection: FairConnection | None = None
        self._retry: IDelayedCall | None = None

    def open(self) -> None:
        """Connect and subscribe; returns at once."""
        self._retry = None
        connection = FairConnection(
            self._zeromq,
            zmq.SUB,
            self._message,
            self._options,
            identity=self._identity,
            hwm=self._hwm,
            broken=self._reopen,
        )
        for topic in self._topics:
            connection.set(zmq.SUBSCRIBE, topic)
        if self._lost is not None:
            lost = self._lost
            self._watcher = connection.watch(
                self._zeromq, int(zmq.EVENT_DISCONNECTED), lambda event, value: lost()
            )
        connection.connect(self._address)
        self._connection = connection

    def _reopen(self) -> None:
        self._connection = None
        self._unwatch()
        self._retry = self._zeromq.reactor.callLater(1.0, self.open)

    def _message(self, message: list[Any]) -> None:
        if len(message) == 1:
            self._received(message[0].bytes, None)
        elif len(message) == 2:
            self._received(message[1].bytes, message[0].bytes)

    def close(self) -> None:
        """Disconnect. Idempotent."""
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        if self._connection is not None:
            self._connection.shutdown()
            self._connection = None
        self._unwatch()

    def _unwatch(self) -> None:
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.shutdown()
