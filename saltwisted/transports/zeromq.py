"""
ZeroMQ in the reactor, for both ends of Salt's two channels.

L{RouterServer} and L{PubServer} are a master's sides, L{DealerClient} and
L{SubClient} a minion's. All stand on L{FairConnection}, which differs from
txzmq's connection in what matters under load: it reads at most 64 messages or
2 milliseconds a turn, so that a flood cannot freeze the reactor; it never loses
a wake-up; it sends without asking the global reactor; and a socket error makes
it tell its owner instead of going deaf.

Rules kept here, for everyone's sake: nobody outside this module holds a
socket; every socket has high-water marks and a largest message; C{EAGAIN} on
sending is an expected outcome, which is counted.

Framing is Salt's: requests C{[identity, empty, msgpack]}, publications
C{[msgpack]} or, with C{zmq_filtering}, C{[topic, msgpack]}. What the bytes mean is
in L{saltwisted.wire}. ZeroMQ's own threads do the network; everything here
runs in the reactor thread and does not block, but for L{ZeroMQ.shutdown}.
"""

from __future__ import annotations

import errno
import socket as sockets
import struct
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import Any

import zmq
from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from txzmq import ZmqConnection, ZmqEndpoint, ZmqEndpointType, ZmqFactory
from zmq.backend import Socket as CoreSocket
from zope.interface import implementer

from saltwisted.errors import RequestTimeout, TransportClosed
from saltwisted.interfaces import IPublishServer, IRequestServer

__all__ = [
    "DealerClient",
    "FairConnection",
    "Keepalive",
    "PubServer",
    "RouterServer",
    "SubClient",
    "ZeroMQ",
]

MESSAGES_PER_TURN = 64
SECONDS_PER_TURN = 0.002

MAX_REQUEST = 128 * 1024 * 1024
MAX_PUBLICATION = 128 * 1024 * 1024
UNUSED = 30.0
"""Seconds after which a minion's socket for requests that nobody needed is closed."""
MAX_SUBSCRIPTION = 4096

# The methods of the C part: the Python wrappers around them cost more than they do.
_recv: Any = CoreSocket.recv
_send: Any = CoreSocket.send
_get: Any = CoreSocket.get

# No name in pyzmq. Without it each peer keeps one receive buffer, instead of one per message
# that is still held: 3 KiB less for a peer, and as fast for the small messages that come here.
_ZERO_COPY_RECV = 10

_NOBLOCK = int(zmq.NOBLOCK)
_MORE = int(zmq.NOBLOCK) | int(zmq.SNDMORE)
_EVENTS = int(zmq.EVENTS)
_POLLIN = int(zmq.POLLIN)
_ACCEPTED = int(zmq.EVENT_ACCEPTED)
_GONE = int(zmq.EVENT_DISCONNECTED)
_MONITORED = struct.Struct("=Hi")


@frozen(kw_only=True)
class Keepalive:
    """
    TCP keepalive, in Salt's terms: C{-1} leaves the system's value; seconds and counts.
    """

    enabled: bool = True
    idle: int = 300
    count: int = -1
    interval: int = -1

    def options(self) -> dict[int, int]:
        return {
            zmq.TCP_KEEPALIVE: 1 if self.enabled else 0,
            zmq.TCP_KEEPALIVE_IDLE: self.idle,
            zmq.TCP_KEEPALIVE_CNT: self.count,
            zmq.TCP_KEEPALIVE_INTVL: self.interval,
        }


class ZeroMQ:
    """
    One ZeroMQ context, and all connections made in it.
    """

    def __init__(self, reactor: Any, linger: int = 100) -> None:
        """
        @param linger: milliseconds that unsent messages survive the closing of their socket.
        """
        factory = ZmqFactory()
        factory.reactor = reactor
        factory.lingerPeriod = linger
        factory.context.set(_ZERO_COPY_RECV, 0)
        self.factory = factory
        self.reactor = reactor

    def shutdown(self) -> None:
        """
        Close what is open and end the context. Blocks up to the linger time. Idempotent.
        """
        if self.factory.context is not None:
            self.factory.shutdown()


def _address(frame: Any) -> str:
    """The TCP address of the peer that sent a frame, or nothing."""
    try:
        value = frame.get("Peer-Address")
    except zmq.ZMQError:
        return ""
    return value if isinstance(value, str) else ""


class FairConnection(ZmqConnection):
    """
    One socket, read in fair portions.

    @ivar received: called with the list of frames of each message; may raise, then this
        message alone is lost, and logged.
    @ivar broken: called once, after this connection has closed itself, when the socket
        failed for a reason that waiting will not mend.
    """

    log = Logger()

    socketType: int = zmq.PAIR
    identity: bytes | None
    read_scheduled: IDelayedCall | None

    # Values while the base class's constructor runs.
    received: Callable[[list[Any]], None] | None = None
    broken: Callable[[], None] | None = None
    paused = True
    turns_cut = 0
    refused = 0

    def __init__(
        self,
        zeromq: ZeroMQ,
        kind: int,
        received: Callable[[list[Any]], None],
        options: Mapping[int, Any],
        identity: bytes | None = None,
        hwm: int = 1000,
        broken: Callable[[], None] | None = None,
    ) -> None:
        """
        @param kind: C{zmq.ROUTER} and the like.
        @param options: socket options, set before anything is bound or connected.
        @param hwm: messages per peer, both ways.
        """
        self.socketType = kind
        self.highWaterMark = hwm
        super().__init__(zeromq.factory, None, identity)
        for option, value in options.items():
            self.socket.set(option, value)
        self.received = received
        self.broken = broken
        self.paused = False

    # -- endpoints

    def bind(self, address: str) -> int:
        """
        Bind, and return the TCP port.

        @raises zmq.ZMQError: the address is taken or not ours.
        """
        self.addEndpoints([ZmqEndpoint(ZmqEndpointType.bind, address)])
        self._wake()
        last = self.socket.get(zmq.LAST_ENDPOINT).rstrip(b"\0").decode()
        return int(last.rpartition(":")[2])

    def connect(self, address: str) -> None:
        """Connect, whenever the other side is there."""
        self.addEndpoints([ZmqEndpoint(ZmqEndpointType.connect, address)])
        self._wake()

    def watch(
        self, zeromq: ZeroMQ, events: int, heard: Callable[[int, int], None]
    ) -> FairConnection:
        """
        Hear of the TCP connections of this socket.

        @param events: C{zmq.EVENT_...}, or-ed.
        @param heard: called with the event and its value, for most a descriptor of ZeroMQ's.
        @return: the watching connection; close it after this one.
        """
        address = f"inproc://watch-{id(self):x}-{self.fd}"
        self.socket.monitor(address, events)

        def received(message: list[Any]) -> None:
            event, value = _MONITORED.unpack_from(message[0].bytes)
            heard(event, value)

        # No high-water mark: ZeroMQ's thread would stand still at it
        watcher = FairConnection(zeromq, zmq.PAIR, received, {int(zmq.LINGER): 0}, hwm=0)
        watcher.connect(address)
        self._wake()
        return watcher

    def set(self, option: int, value: Any) -> None:
        """Set a socket option, without losing a wake-up by it."""
        self.socket.set(option, value)
        self._wake()

    # -- reading

    def _wake(self) -> None:
        """Read soon: whoever touched the socket may have swallowed its signal."""
        if self.read_scheduled is None and self.factory is not None:
            self.read_scheduled = self.factory.reactor.callLater(0, self._turn)

    def _turn(self) -> None:
        self.read_scheduled = None
        self.doRead()

    def pause(self) -> None:
        """Stop reading; ZeroMQ then queues up to the high-water mark, and TCP does the rest."""
        self.paused = True

    def resume(self) -> None:
        """Read again."""
        if self.paused:
            self.paused = False
            self._wake()

    def doRead(self) -> None:
        """
        Read one portion.
        """
        scheduled = self.read_scheduled
        if scheduled is not None:
            self.read_scheduled = None
            if scheduled.active():
                scheduled.cancel()
        received = self.received
        if received is None:
            return
        until = monotonic() + SECONDS_PER_TURN
        for _ in range(MESSAGES_PER_TURN):
            socket = self.socket
            if socket is None or self.paused:
                return
            try:
                frame = _recv(socket, _NOBLOCK, False, False)
                message = [frame]
                while frame.more:
                    frame = _recv(socket, _NOBLOCK, False, False)
                    message.append(frame)
            except zmq.Again:
                # The socket has looked at all its signals to say so; the next one will wake us.
                return
            except zmq.ZMQError as error:
                if error.errno == errno.EINTR:
                    continue
                self._fail(error)
                return
            try:
                received(message)
            except Exception:
                self.log.failure("a message was lost in its handler")
            if monotonic() > until:
                break
        self.turns_cut += 1
        self._wake()

    def _fail(self, error: zmq.ZMQError) -> None:
        self.log.error("socket failed: {error}", error=str(error))
        broken = self.broken
        self.shutdown()
        if broken is not None:
            broken()

    def messageReceived(self, message: list[Any]) -> None:
        """
        Not used: L{doRead} hands frames to C{received}.
        """
        raise NotImplementedError

    def connectionLost(self, reason: Any) -> None:
        """The descriptor went away under us."""
        if self.factory is not None:
            self.log.error("socket lost: {reason}", reason=str(reason))
            broken = self.broken
            self.shutdown()
            if broken is not None:
                broken()

    # -- writing

    def send(self, message: Sequence[bytes]) -> bool:
        """
        Send the parts of one message, now or never.

        @return: false when a high-water mark was reached (counted in C{refused}) or the
            connection is closed.
        """
        socket = self.socket
        if socket is None:
            return False
        try:
            for part in message[:-1]:
                _send(socket, part, _MORE)
            _send(socket, message[-1], _NOBLOCK)
        except zmq.Again:
            self.refused += 1
            self._wake()
            return False
        except zmq.ZMQError as error:
            if error.errno == errno.EHOSTUNREACH:
                self.refused += 1
                self._wake()
                return False
            self._fail(error)
            return False
        # Sending swallows signals of arrived messages; asking for the events afterwards is
        # exact, and cheaper than a turn of the reactor for every message sent.
        if self.read_scheduled is None and _get(socket, _EVENTS) & _POLLIN:
            self._wake()
        return True

    def shutdown(self) -> None:
        """
        Close the socket. Idempotent.
        """
        if self.factory is None:
            return
        scheduled = self.read_scheduled
        self.read_scheduled = None
        if scheduled is not None and scheduled.active():
            scheduled.cancel()
        self.received = None
        super().shutdown()


def _tcp(host: str, port: int) -> str:
    return (
        f"tcp://[{host}]:{port}"
        if ":" in host and not host.startswith("[")
        else (f"tcp://{host}:{port}")
    )


class _Reply:
    """
    The way back of one request. When it is thrown away unused, the request is no longer
    counted as one that will be answered.
    """

    __slots__ = ("_connection", "_route", "_server")

    def __init__(
        self, server: RouterServer, connection: FairConnection | None, route: list[bytes]
    ) -> None:
        self._server = server
        self._connection = connection
        self._route: list[bytes] | None = route

    def __call__(self, data: bytes) -> None:
        route, self._route = self._route, None
        if route is not None:
            self._server._answer(self._connection, route, data)

    def forget(self) -> None:
        """There will be no answer."""
        route, self._route = self._route, None
        if route is not None:
            self._server._forgotten(self._connection, route[0])

    def __del__(self) -> None:
        self.forget()


@implementer(IRequestServer)
class RouterServer:
    """
    The request port of a master: ROUTER.

    A client may have C{per_client} requests unanswered, all together C{in_flight}.
    Above the first, its further requests are dropped and counted (stock clients have
    one or a few); at the second, reading stops until some are answered, and the
    clients wait in ZeroMQ's and TCP's queues, served in turn. Of a client that does not
    read its answers at most twice C{per_client} are kept, then they are dropped.

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
    ) -> None:
        """
        @param heartbeat: milliseconds between ZMTP pings to idle clients, 0 for none.
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
        self._handler: Callable[[bytes, str, Callable[[bytes], None]], None] | None = None
        self._connection: FairConnection | None = None
        self._retry: IDelayedCall | None = None
        self._open_by: dict[bytes, int] = {}
        self.unanswered = 0
        self.dropped: Counter[str] = Counter()

    def listen(self, handler: Callable[[bytes, str, Callable[[bytes], None]], None]) -> None:
        """
        Bind and serve.

        @param handler: see L{IRequestServer.listen}.
        @raises zmq.ZMQError: the port is taken.
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
        )
        try:
            self.port = connection.bind(_tcp(self._interface, self.port))
        except zmq.ZMQError:
            connection.shutdown()
            raise
        self._connection = connection

    def _rebind(self) -> None:
        """The socket broke: open another on the same port, for as long as it takes."""
        self._connection = None
        self._open_by.clear()
        self.unanswered = 0
        try:
            self._bind()
        except zmq.ZMQError as error:
            self.log.error("request port: {error}", error=str(error))
            self._retry = self._zeromq.reactor.callLater(1.0, self._rebind)

    def _received(self, message: list[Any]) -> None:
        if len(message) < 2 or len(message) > 8:
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
        if self.unanswered >= self._limit and self._connection is not None:
            self._connection.pause()
        handler = self._handler
        if handler is None:
            return
        reply = _Reply(self, self._connection, route)
        try:
            handler(frame.bytes, _address(frame), reply)
        except Exception:
            # It did not take the request; the traceback must not keep it counted.
            self.log.failure("a request was lost in its handler")
            reply.forget()

    def _done(self, connection: FairConnection | None, identity: bytes) -> None:
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
            if connection.paused and self.unanswered < self._limit - self._limit // 8:
                connection.resume()

    def _answer(self, connection: FairConnection | None, route: list[bytes], data: bytes) -> None:
        self._done(connection, route[0])
        if connection is not None and connection is self._connection:
            route.append(data)
            connection.send(route)

    def _forgotten(self, connection: FairConnection | None, identity: bytes) -> None:
        """Nobody can answer this request any more; said from whatever thread noticed."""
        self.dropped["unanswered"] += 1
        self._zeromq.reactor.callFromThread(self._done, connection, identity)

    def stop(self) -> None:
        """Close the port; replies that come later go nowhere. Idempotent."""
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        if self._connection is not None:
            self._connection.shutdown()
            self._connection = None
        self._open_by.clear()
        self.unanswered = 0


@implementer(IPublishServer)
class PubServer:
    """
    The publish port of a master: XPUB, which is PUB that hears who subscribes.

    A subscriber that does not read loses messages above C{hwm}; the messages that at
    least one subscriber lost are counted in C{dropped}.

    @ivar port: the bound port.
    @ivar topics: how many connections subscribe to each topic. Minions without
        C{zmq_filtering} subscribe to C{b""}; ours to their own topic besides.
    @ivar addresses: how many connections there are from each address.
    """

    log = Logger()

    def __init__(
        self,
        zeromq: ZeroMQ,
        interface: str = "0.0.0.0",  # noqa: S104 - Salt's default
        port: int = 4505,
        backlog: int = 1000,
        keepalive: Keepalive | None = None,
        heartbeat: int = 10_000,
        heartbeat_timeout: int = 30_000,
        hwm: int = 1000,
        filtering: bool = False,
        broadcast: bytes = b"broadcast",
        ipv6: bool = False,
        on_topic: Callable[[bytes, bool, str], None] | None = None,
    ) -> None:
        """
        @param hwm: Salt's C{pub_hwm}, messages per subscriber.
        @param heartbeat: C{zmq_heartbeat_ivl}, milliseconds, 0 for none.
        @param filtering: C{zmq_filtering}: send a topic frame first.
        @param broadcast: the topic of what goes to all, when filtering.
        @param on_topic: called with topic, subscribed or left, and the peer's address.
        """
        self._zeromq = zeromq
        self._interface = interface
        self.port = port
        self._hwm = hwm
        self._filtering = filtering
        self._broadcast = broadcast
        self.on_topic = on_topic
        self._options: dict[int, Any] = {
            zmq.XPUB_VERBOSER: 1,
            zmq.XPUB_NODROP: 1,
            zmq.BACKLOG: backlog,
            zmq.MAXMSGSIZE: MAX_SUBSCRIPTION,
            zmq.IPV6: int(ipv6 or ":" in interface),
            **(keepalive or Keepalive()).options(),
        }
        if heartbeat > 0:
            self._options[zmq.HEARTBEAT_IVL] = heartbeat
            self._options[zmq.HEARTBEAT_TIMEOUT] = heartbeat_timeout
        self._connection: FairConnection | None = None
        self._watcher: FairConnection | None = None
        self._peers: dict[int, str] = {}
        self._retry: IDelayedCall | None = None
        self.topics: Counter[bytes] = Counter()
        self.addresses: Counter[str] = Counter()
        self.published = 0
        self.dropped = 0

    def listen(self) -> None:
        """
        Bind.

        @raises zmq.ZMQError: the port is taken.
        """
        self._retry = None
        connection = FairConnection(
            self._zeromq,
            zmq.XPUB,
            self._received,
            self._options,
            hwm=self._hwm,
            broken=self._rebind,
        )
        self._watcher = connection.watch(self._zeromq, _ACCEPTED | _GONE, self._heard)
        try:
            self.port = connection.bind(_tcp(self._interface, self.port))
        except zmq.ZMQError:
            connection.shutdown()
            self._forget()
            raise
        self._connection = connection

    def _heard(self, event: int, descriptor: int) -> None:
        """Somebody has come, or gone."""
        address = self._peers.pop(descriptor, "")
        if address:
            self.addresses[address] -= 1
            if not self.addresses[address]:
                del self.addresses[address]
        if event == _ACCEPTED and (address := _peer_of(descriptor)):
            self._peers[descriptor] = address
            self.addresses[address] += 1

    def _forget(self) -> None:
        """Nobody is connected any more."""
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.shutdown()
        self._peers.clear()
        self.topics.clear()
        self.addresses.clear()

    def _rebind(self) -> None:
        self._connection = None
        self._forget()
        try:
            self.listen()
        except zmq.ZMQError as error:
            self.log.error("publish port: {error}", error=str(error))
            self._retry = self._zeromq.reactor.callLater(1.0, self._rebind)

    def publish(self, payload: bytes, topics: Sequence[bytes] | None = None) -> None:
        """
        Send to all, or when filtering, to the subscribers of these topics.

        @param topics: C{None} for all. Ignored without C{zmq_filtering}.
        """
        if not self._filtering:
            self._publish((payload,))
        elif topics is None:
            self._publish((self._broadcast, payload))
        else:
            for topic in topics:
                self._publish((topic, payload))

    def _publish(self, message: Sequence[bytes]) -> None:
        connection = self._connection
        if connection is None:
            return
        self.published += 1
        if connection.send(message):
            return
        # Some subscriber is full. ZeroMQ refuses the whole message rather than drop it,
        # because we asked so, to be able to count; now let it drop for that one alone.
        self.dropped += 1
        if self._connection is connection:
            connection.set(zmq.XPUB_NODROP, 0)
            connection.send(message)
            connection.set(zmq.XPUB_NODROP, 1)

    def _received(self, message: list[Any]) -> None:
        data = message[0].bytes
        if len(message) != 1 or data[:1] not in (b"\x00", b"\x01"):
            return
        topic, joined = data[1:], data[0] == 1
        if joined:
            self.topics[topic] += 1
        elif self.topics[topic] > 1:
            self.topics[topic] -= 1
        else:
            self.topics.pop(topic, None)
        if self.on_topic is not None:
            self.on_topic(topic, joined, _address(message[0]) if joined else "")

    def stop(self) -> None:
        """Close the port. Idempotent."""
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        if self._connection is not None:
            self._connection.shutdown()
            self._connection = None
        self._forget()


def _peer_of(descriptor: int) -> str:
    """
    Who is at the other end of a connection of ZeroMQ's; C{""} when it has ended meanwhile. An
    IPv4 address that is mapped into IPv6 comes out as IPv4.
    """
    try:
        one = sockets.socket(fileno=descriptor)
    except OSError:
        return ""
    try:
        host = str(one.getpeername()[0])
    except (OSError, IndexError):
        return ""
    finally:
        one.detach()
    return host.removeprefix("::ffff:").partition("%")[0]


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

    A stock master answers in any order and its framing has no room for a number, so a
    socket carries one request at a time and concurrency is the number of sockets.
    After a timeout the socket is closed, as stock does: a late answer must not be
    taken for the next one's. Requests beyond C{sockets} wait in order, at most C{queue}
    of them; the time spent waiting counts. What a crowd of requests has opened is closed when it
    was of no use for a while; one socket stays.
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
        max_message: int = MAX_REQUEST,
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
        """Close all sockets; what is not answered fails with L{TransportClosed}. Idempotent."""
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


class SubClient:
    """
    The publish side of a minion: SUB.

    ZeroMQ reconnects by itself; its heartbeats (which every libzmq answers) notice a
    master that is gone without a word. That something is connected is not known here:
    only messages prove it. That a connection ended, is told by C{lost}.
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
        @param source: as in L{DealerClient}.
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
