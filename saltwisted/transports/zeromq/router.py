"""
The request port of a master.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import zmq
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from saltwisted.doors import REQUESTS_ZMQ as DOOR
from saltwisted.interfaces import IRequestServer
from saltwisted.transports.unfinished import Known, Room, nobody
from saltwisted.transports.zeromq.fairness import (
    FairConnection,
    Keepalive,
    ZeroMQ,
    address_of,
    tcp_address,
)
from saltwisted.transports.zeromq.peers import ACCEPTED, Peers, source_of, wire_size

RequestHandler = Callable[[bytes | memoryview, str, Callable[[bytes], None]], None]
"""Takes a request: the frame, a large one as a view of it; the peer's address; what answers."""
LARGE = 64 * 1024
"""Bytes above which a request is not copied."""
MAX_REQUEST = DOOR.request
MOST_HELD = 256 * 1024 * 1024
"""Bytes of requests that are unanswered at once."""
UNFINISHED = DOOR.memory_all - MOST_HELD
"""Bytes of requests that libzmq keeps, and has not handed over. A third is for strangers."""


class _Reply:
    """
    The way back of one request. When it is thrown away unused, the request is no longer
    counted as one that will be answered.
    """

    __slots__ = ("_connection", "_route", "_server", "_size")

    def __init__(
        self,
        server: RouterServer,
        connection: FairConnection | None,
        route: list[bytes],
        size: int,
    ) -> None:
        self._server = server
        self._connection = connection
        self._size = size
        self._route: list[bytes] | None = route

    def __call__(self, data: bytes) -> None:
        route, self._route = self._route, None
        if route is not None:
            self._server._answer(self._connection, route, self._size, data)

    def forget(self) -> None:
        """There will be no answer."""
        route, self._route = self._route, None
        if route is not None:
            self._server._forgotten(self._connection, route[0], self._size)

    def __del__(self) -> None:
        self.forget()


class RouterServer:
    """
    The request port of a master: ROUTER.

    A client may have C{per_client} unanswered requests, all clients together C{in_flight}, and
    L{MOST_HELD} bytes. Beyond the first limit, the client's further requests are
    dropped and counted (stock clients have one or a few). Beyond the others, reading stops until
    some are answered; the clients wait in ZeroMQ's and TCP's queues, and are served in turn. If a
    client does not read its answers, at most twice C{per_client} are kept; then they are dropped.
    Requests that are not whole share a L{Room}.

    @ivar port: the bound port.
    @ivar dropped: requests dropped, by reason.
    """

    log = Logger()

    def __init__(
        self,
        zeromq: ZeroMQ,
        interface: str = "0.0.0.0",  # noqa: S104 - Salt's default
        port: int = 4506,
        backlog: int = 1000,
        keepalive: Keepalive | None = None,
        heartbeat: int = 30_000,
        heartbeat_timeout: int = 60_000,
        hwm: int = 1000,
        max_message: int = MAX_REQUEST,
        per_client: int = 64,
        in_flight: int = 4096,
        ipv6: bool = False,
        known: Known = nobody,
    ) -> None:
        """
        @param heartbeat: milliseconds between ZMTP pings to idle clients, 0 for none.
        @param known: the addresses from which minions have spoken.
        """
        self._zeromq = zeromq
        self._interface = interface
        self.port = port
        self._hwm = hwm
        self._per_client = per_client
        self._limit = in_flight
        self._options: dict[int, Any] = {
            zmq.ROUTER_HANDOVER: 1,
            zmq.BACKLOG: backlog,
            zmq.MAXMSGSIZE: max_message,
            # An answer may be a megabyte of a file. Twice, since ZeroMQ learns of what was read
            # by halves of the mark only, and must have room for all that is in flight.
            zmq.SNDHWM: 2 * per_client,
            zmq.IPV6: int(ipv6 or ":" in interface),
            **(keepalive or Keepalive(idle=60, interval=15, count=3)).options(),
        }
        if heartbeat > 0:
            self._options[zmq.HEARTBEAT_IVL] = heartbeat
            self._options[zmq.HEARTBEAT_TIMEOUT] = heartbeat_timeout
        self._handler: RequestHandler | None = None
        self._connection: FairConnection | None = None
        self._retry: IDelayedCall | None = None
        self._room = Room(zeromq.reactor, UNFINISHED // 3, UNFINISHED, known)
        self._most = max_message + LARGE
        self._peers: Peers | None = None
        self._watcher: FairConnection | None = None
        self._open_by: dict[bytes, int] = {}
        self.unanswered = 0
        self._held = 0
        self.dropped: Counter[str] = Counter()

    def listen(self, handler: RequestHandler) -> None:
        """
        Bind and serve.

        @param handler: see L{IRequestServer.listen}.
        @raises zmq.ZMQError: the port is in use.
        """
        self._handler = handler
        self._bind()

    def _bind(self) -> None:
        self._retry = None
        connection = FairConnection(
            self._zeromq,
            zmq.ROUTER,
            self._received,
            self._options,
            hwm=self._hwm,
            broken=self._rebind,
            overlong=self._overlong,
        )
        self._watcher = connection.watch(self._zeromq, ACCEPTED, self._accepted)
        try:
            self.port = connection.bind(tcp_address(self._interface, self.port))
        except zmq.ZMQError:
            connection.shutdown()
            self._unwatch()
            raise
        self._connection = connection
        self._peers = Peers(
            self._zeromq.reactor, self._room, self._most, self.dropped, lambda: connection.paused
        )
        self._peers.begin(self.port)

    def _unwatch(self) -> None:
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.shutdown()
        peers, self._peers = self._peers, None
        if peers is not None:
            peers.stop()

    def _accepted(self, event: int, descriptor: int) -> None:
        if self._peers is not None:
            self._peers.accepted(descriptor)

    def _brought(self, message: list[Any]) -> None:
        """Account for a message by the connection that it came by."""
        peers = self._peers
        if peers is not None:
            last = message[-1]
            size = wire_size(len(last))
            for part in message[1:-1]:
                size += wire_size(len(part))
            peers.brought(source_of(last), size)

    def _overlong(self, frame: Any) -> None:
        """Who sends so many parts is no client of Salt's."""
        self.dropped["framing"] += 1
        peer = self._peers.brought(source_of(frame), 0) if self._peers is not None else None
        if peer is not None:
            peer.end("too many parts")

    def _rebind(self) -> None:
        """The socket broke: open another on the same port, for as long as it takes."""
        self._connection = None
        self._unwatch()
        self._open_by.clear()
        self.unanswered = self._held = 0
        try:
            self._bind()
        except zmq.ZMQError as error:
            self.log.error("request port: {error}", error=str(error))
            self._retry = self._zeromq.reactor.callLater(1.0, self._rebind)

    def _received(self, message: list[Any]) -> None:
        self._brought(message)
        if len(message) < 2:
            self.dropped["framing"] += 1
            return
        identity = message[0].bytes
        open_by = self._open_by
        count = open_by.get(identity, 0)
        if count >= self._per_client:
            self.dropped["client"] += 1
            return
        frame = message[-1]
        route = [part.bytes for part in message[:-1]]
        if b"" not in route[1:] and len(route) > 1:
            self.dropped["framing"] += 1
            return
        open_by[identity] = count + 1
        self.unanswered += 1
        size = len(frame)
        self._held += size
        is_full = self.unanswered >= self._limit or self._held >= MOST_HELD
        if is_full and self._connection is not None:
            self._connection.pause()
        handler = self._handler
        if handler is None:
            return
        reply = _Reply(self, self._connection, route, size)
        try:
            # A large one is read where it lies: to copy it takes milliseconds
            data = frame.buffer if size > LARGE else frame.bytes
            handler(data, address_of(frame), reply)
        except Exception:
            # It did not take the request; the traceback must not keep it counted.
            self.log.failure("a request was lost in its handler")
            reply.forget()

    def _done(self, connection: FairConnection | None, identity: bytes, size: int) -> None:
        if connection is not self._connection or connection is None:
            return
        open_by = self._open_by
        count = open_by.get(identity, 0)
        if count > 1:
            open_by[identity] = count - 1
        else:
            open_by.pop(identity, None)
        if count:
            self.unanswered -= 1
            self._held -= size
            has_room = self._held < MOST_HELD - MOST_HELD // 8
            few = self.unanswered < self._limit - self._limit // 8
            if connection.paused and has_room and few:
                connection.resume()

    def _answer(
        self, connection: FairConnection | None, route: list[bytes], size: int, data: bytes
    ) -> None:
        self._done(connection, route[0], size)
        if connection is not None and connection is self._connection:
            route.append(data)
            connection.send(route)

    def _forgotten(self, connection: FairConnection | None, identity: bytes, size: int) -> None:
        """Nobody can answer this request any more; said from whatever thread noticed."""
        self.dropped["unanswered"] += 1
        self._zeromq.reactor.callFromThread(self._done, connection, identity, size)

    def stop(self) -> None:
        """Close the port; replies that come later go nowhere. Idempotent."""
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        if self._connection is not None:
            self._connection.shutdown()
            self._connection = None
        self._unwatch()
        self._open_by.clear()
        self.unanswered = self._held = 0


_RouterServer: type[IRequestServer] = RouterServer  # mypy compares them
