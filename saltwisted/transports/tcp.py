"""
Salt's C{transport: tcp}: requests and publications as frames in plain streams, perhaps in TLS.

L{TcpRequestServer} and L{TcpPublishServer} are a master's sides, L{TcpRequests} and
L{TcpSubscriber} a minion's. A frame is in L{saltwisted.wire.frames}; what is in its body is
what ZeroMQ would carry. Requests of one connection are answered in any order, told apart by the
C{mid} of the head.

Bounds. Reading from a client stops while so many of its requests are unanswered, while too many
of all are, or while it does not read its answers. A frame that begins must end in time, and all
that have begun have a bound together. A
subscriber that does not read has a queue of C{pub_hwm} publications; the one
above that, or a minute without progress, ends its connection, and is counted: it comes back
and signs in, where a silent gap would go unnoticed.

Frames with C{saltwisted} in the head are ours alone, sent to minions that say in their first frame
that they know them: a sign of life every few seconds, since a stream that is cut without
a word looks like one that is idle.
"""

from __future__ import annotations

import socket
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Sequence
from itertools import count
from random import Random
from typing import Any

from attrs import frozen
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectError
from twisted.internet.interfaces import IDelayedCall, IHandshakeListener, IPushProducer
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.python.failure import Failure
from zope.interface import implementer

from saltwisted.errors import RequestTimeout, TransportClosed, WireError
from saltwisted.interfaces import IPublishServer, IRequestServer
from saltwisted.transports.deferreds import let_go
from saltwisted.transports.reasons import why
from saltwisted.wire.frames import MAX_FRAME, Frame, FrameReader, encode_frame, wrap_frame

__all__ = ["Stream", "TcpPublishServer", "TcpRequestServer", "TcpRequests", "TcpSubscriber"]

FRAME_TIME = 60.0
"""Seconds within which a frame that has begun must be whole."""
DRAIN_TIME = 60.0
"""Seconds that a subscriber may leave its queue untouched."""
QUEUED_BYTES = 32 * 1024 * 1024
"""Bytes of publications that wait for one subscriber at most."""
UNREAD_BYTES = 256 * 1024 * 1024
"""Bytes of requests that have begun and are not whole, of all clients together."""
HELLO_BYTES = 64 * 1024
"""The largest frame that a subscriber may send: who it is."""
PING_EVERY = 2.0
"""Seconds between two signs of life to subscribers that know them."""
SILENT = 5.0
"""Seconds without one after which a subscriber looks after its master."""
GONE = 20.0
"""Seconds without one after which it connects again."""

PING = encode_frame(b"", {"saltwisted": "ping"})


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


class _Framed(Protocol):
    """What all four ends have in common: frames in, bounded in size and time."""

    log = Logger()
    transport: Any = None
    peer = ""

    def __init__(self, reactor: Any, stream: Stream, limit: int = MAX_FRAME) -> None:
        self._reactor = reactor
        self._stream = stream
        self._reader = FrameReader(limit)
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
        if self._late is not None and (frames or not self._reader.unread):
            self._late.cancel()
            self._late = None
        if self._late is None and self._reader.unread:
            self._late = self._reactor.callLater(FRAME_TIME, self._too_slow)
        for frame in frames:
            if self.gone:
                return
            self.frame(frame)

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
        if self._late is not None:
            self._late.cancel()
            self._late = None


class _Listening:
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
        """
        @raises CannotListenError: the port is taken.
        """
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
        """Let nobody in any more. Idempotent."""
        port, self._port = self._port, None
        if port is not None:
            closed = port.stopListening()
            if isinstance(closed, Deferred):
                let_go(closed, self.log, "a port was not closed")


# -- requests, the master's side


class _Answer:
    """The way back of one request."""

    __slots__ = ("_connection", "_head")

    def __init__(self, connection: _Asking, head: dict[Any, Any]) -> None:
        self._connection: _Asking | None = connection
        self._head = head

    def __call__(self, data: bytes) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.write(wrap_frame(data, self._head))
            connection.answered()

    def __del__(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            # Nobody can answer it any more; said in whatever thread noticed
            connection.forgotten()


@implementer(IPushProducer)
class _Asking(_Framed):
    """One client of the request port."""

    def __init__(self, server: TcpRequestServer) -> None:
        super().__init__(server._reactor, server._stream, server._limit)
        self._server = server
        self._waiting: deque[Frame] = deque()
        self._open = 0
        self._full = False
        self._unread = 0

    def dataReceived(self, data: bytes) -> None:
        """Take frames out of it, as long as there is room for what is not whole yet."""
        super().dataReceived(data)
        unread = 0 if self.gone else self._reader.unread
        self._server.unread += unread - self._unread
        self._unread = unread
        if self._server.unread > UNREAD_BYTES and unread:
            self.refuse("no room")

    def connectionMade(self) -> None:
        """Listen to how much it reads of its answers."""
        super().connectionMade()
        self.transport.registerProducer(self, True)
        self._server._clients.add(self)

    def frame(self, frame: Frame) -> None:
        self._waiting.append(frame)
        self.go_on()

    def go_on(self) -> None:
        """Have answered what may be; read on if there is room."""
        server = self._server
        while self._waiting and not self.gone and self._open < server.per_client:
            if server.unanswered >= server.in_flight:
                server._held.add(self)
                break
            frame = self._waiting.popleft()
            self._open += 1
            server.unanswered += 1
            server._asked(self, frame, _Answer(self, frame.head))
        self._flow()

    def _flow(self) -> None:
        if self.gone or self.transport is None:
            return
        if self._full or self._waiting:
            self.transport.pauseProducing()
        else:
            self.transport.resumeProducing()

    def answered(self) -> None:
        """One less."""
        self._open -= 1
        self._server._one_less()
        if self._waiting:
            self.go_on()

    def forgotten(self) -> None:
        """A request that nobody answers."""
        self._server.dropped["unanswered"] += 1
        self._reactor.callFromThread(self.answered)

    def refuse(self, why: str) -> None:
        self._server.dropped["framing"] += 1
        self.abort()

    def pauseProducing(self) -> None:
        """It does not read its answers: no further questions."""
        self._full = True
        self._flow()

    def resumeProducing(self) -> None:
        """It does again."""
        self._full = False
        self._flow()

    def stopProducing(self) -> None:
        """It has gone."""

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """What it asked is answered into the void."""
        super().connectionLost(reason)
        self._server.unread -= self._unread
        self._unread = 0
        self._waiting.clear()
        self._server._clients.discard(self)
        self._server._held.discard(self)


class TcpRequestServer:
    """
    The request port of a master.

    @ivar port: the bound port.
    @ivar dropped: what was not answered, by reason.
    """

    log = Logger()

    def __init__(
        self,
        reactor: Any,
        interface: str = "0.0.0.0",  # noqa: S104 - Salt's default
        port: int = 4506,
        backlog: int = 1000,
        stream: Stream | None = None,
        tls: Any = None,
        per_client: int = 64,
        in_flight: int = 4096,
        limit: int = MAX_FRAME,
    ) -> None:
        """
        @param tls: makes the server's side of TLS connections (L{ssl_options.ServerTLS}).
        @param per_client: requests of one connection that are unanswered at most.
        @param in_flight: the same of all connections.
        """
        self._reactor = reactor
        self._listening = _Listening(reactor, interface, port, backlog, tls)
        self._stream = stream or Stream(idle=60, interval=15, count=3)
        self._limit = limit
        self._handler: Callable[[bytes, str, Callable[[bytes], None]], None] | None = None
        self._clients: set[_Asking] = set()
        self._held: set[_Asking] = set()
        self.per_client = per_client
        self.in_flight = in_flight
        self.unanswered = 0
        self.unread = 0
        self.dropped: Counter[str] = Counter()

    @property
    def port(self) -> int:
        """The bound port."""
        return self._listening.port

    def listen(self, handler: Callable[[bytes, str, Callable[[bytes], None]], None]) -> None:
        """
        Bind and serve.

        @param handler: see L{IRequestServer.listen}.
        @raises CannotListenError: the port is taken.
        """
        self._handler = handler
        self._listening.bind(lambda: _Asking(self))

    def _asked(self, client: _Asking, frame: Frame, answer: _Answer) -> None:
        if self._handler is None:
            return
        try:
            self._handler(frame.packed, client.peer, answer)
        except Exception:
            self.log.failure("a request was lost in its handler")

    def _one_less(self) -> None:
        self.unanswered -= 1
        if self._held and self.unanswered < self.in_flight - self.in_flight // 8:
            held, self._held = self._held, set()
            for client in held:
                self._reactor.callLater(0, client.go_on)

    def stop(self) -> None:
        """Close the port and all connections; replies that come later go nowhere. Idempotent."""
        self._handler = None
        self._listening.close()
        for client in list(self._clients):
            client.abort()


# -- publications, the master's side


_TcpRequestServer: type[IRequestServer] = TcpRequestServer  # mypy compares them


@implementer(IPushProducer, IHandshakeListener)
class _Subscriber(_Framed):
    """One client of the publish port."""

    def __init__(self, server: TcpPublishServer) -> None:
        super().__init__(server._reactor, server._stream, HELLO_BYTES)
        self._server = server
        self._queue: deque[bytes] = deque()
        self._queued = 0
        self._paused = False
        self.stuck_since = 0.0
        self.topic: bytes | None = None
        self.ours = False

    def connectionMade(self) -> None:
        """Listen to how much it reads; with TLS it is one of us when it has shown who it is."""
        super().connectionMade()
        self.transport.registerProducer(self, True)
        if not self._server.tls:
            self._server._come(self)

    def handshakeCompleted(self) -> None:
        """Its certificate was good enough."""
        if self._server.tls:
            self._server._come(self)

    def frame(self, frame: Frame) -> None:
        """It says who it is."""
        self._server._announced(self, frame.body)

    def refuse(self, why: str) -> None:
        self._server.counters["framing"] += 1
        self.abort()

    def send(self, data: bytes) -> None:
        """Send now, or when it has read what came before."""
        if self.gone:
            return
        if not self._paused:
            self.write(data)
            return
        self._queue.append(data)
        self._queued += len(data)
        if len(self._queue) > self._server.hwm or self._queued > QUEUED_BYTES:
            self._server._too_slow(self)

    def pauseProducing(self) -> None:
        """It does not read."""
        if not self._paused:
            self._paused = True
            self.stuck_since = self._reactor.seconds()

    def resumeProducing(self) -> None:
        """It does again."""
        self._paused = False
        while self._queue and not self._paused:
            data = self._queue.popleft()
            self._queued -= len(data)
            self.write(data)
        if self._paused:
            self.stuck_since = self._reactor.seconds()

    def stopProducing(self) -> None:
        """It has gone."""

    @property
    def stuck(self) -> float:
        """Seconds for which it has not read anything that waits."""
        return self._reactor.seconds() - self.stuck_since if self._paused else 0.0

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """It has gone."""
        super().connectionLost(reason)
        self._queue.clear()
        self._server._left(self)


class TcpPublishServer:
    """
    The publish port of a master.

    @ivar port: the bound port.
    @ivar topics: how many connections have said to be each minion, by topic.
    @ivar published: publications sent.
    @ivar dropped: subscribers that were too slow and are hung up on.
    """

    log = Logger()

    def __init__(
        self,
        reactor: Any,
        interface: str = "0.0.0.0",  # noqa: S104 - Salt's default
        port: int = 4505,
        backlog: int = 1000,
        stream: Stream | None = None,
        tls: Any = None,
        hwm: int = 1000,
        broadcast: bytes = b"broadcast",
        who: Callable[[Any], tuple[bytes, bool] | None] = lambda body: None,
    ) -> None:
        """
        @param hwm: Salt's C{pub_hwm}, publications that wait for one subscriber.
        @param broadcast: the topic of what goes to all.
        @param who: from the body of a subscriber's first frame to its topic and whether it is
            one of ours; C{None} for nobody. Until then, it gets everything.
        """
        self._reactor = reactor
        self._listening = _Listening(reactor, interface, port, backlog, tls)
        self._stream = stream or Stream()
        self.tls = tls is not None
        self.hwm = hwm
        self._broadcast = broadcast
        self._who = who
        self._subscribers: set[_Subscriber] = set()
        self._connections: set[_Subscriber] = set()
        self._life = LoopingCall(self._look)
        self._life.clock = reactor
        self.topics: Counter[bytes] = Counter()
        self.counters: Counter[str] = Counter()
        self.published = 0
        self.dropped = 0

    @property
    def port(self) -> int:
        """The bound port."""
        return self._listening.port

    @property
    def addresses(self) -> set[str]:
        """From where there are connections."""
        return {one.peer.removeprefix("::ffff:") for one in self._connections}

    def listen(self) -> None:
        """
        Bind.

        @raises CannotListenError: the port is taken.
        """
        self._listening.bind(self._build)
        let_go(
            self._life.start(PING_EVERY, now=False),
            self.log,
            "the periodic ping of subscribers failed",
        )

    def _build(self) -> Protocol:
        made = _Subscriber(self)
        self._connections.add(made)
        return made

    def publish(self, payload: bytes, topics: Sequence[bytes] | None = None) -> None:
        """
        Send to all, or to those of these topics and to those who have not said who they are.
        """
        wanted = None if topics is None or self._broadcast in topics else frozenset(topics)
        frame = encode_frame(payload)
        self.published += 1
        for one in tuple(self._subscribers):
            if wanted is None or one.topic is None or one.topic in wanted:
                one.send(frame)

    def _come(self, one: _Subscriber) -> None:
        self._subscribers.add(one)

    def _announced(self, one: _Subscriber, body: Any) -> None:
        if one.topic is not None or one not in self._subscribers:
            return
        said = self._who(body)
        if said is None:
            self.counters["unknown"] += 1
            return
        one.topic, one.ours = said
        self.topics[one.topic] += 1
        if one.ours:
            # At once: who has never had one does not miss them
            one.write(PING)

    def _left(self, one: _Subscriber) -> None:
        self._connections.discard(one)
        self._subscribers.discard(one)
        topic, one.topic = one.topic, None
        if topic is not None:
            self.topics[topic] -= 1
            if self.topics[topic] <= 0:
                del self.topics[topic]

    def _too_slow(self, one: _Subscriber) -> None:
        self.dropped += 1
        self._subscribers.discard(one)
        self.log.warn(
            "subscriber {peer} does not read what it is sent and was disconnected", peer=one.peer
        )
        one.abort()

    def _look(self) -> None:
        """Signs of life to those who know them; an end for those who do not move."""
        for one in tuple(self._subscribers):
            if one.stuck > DRAIN_TIME:
                self._too_slow(one)
            elif one.ours and not one.stuck:
                one.write(PING)

    def stop(self) -> None:
        """Close the port and all connections. Idempotent."""
        if self._life.running:
            self._life.stop()
        self._listening.close()
        for one in list(self._connections):
            one.abort()
        self.topics.clear()


# -- the minion's side


_TcpPublishServer: type[IPublishServer] = TcpPublishServer  # mypy compares them


Connect = Callable[[Factory], Deferred[Any]]
"""Connects once, and fires with the protocol that the factory has built."""


class _Reading(_Framed):
    """A connection of a minion."""

    def __init__(
        self,
        reactor: Any,
        stream: Stream,
        received: Callable[[Frame], None],
        lost: Callable[[_Reading], None],
    ) -> None:
        super().__init__(reactor, stream)
        self._received = received
        self._lost = lost

    def frame(self, frame: Frame) -> None:
        self._received(frame)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        super().connectionLost(reason)
        self._lost(self)


def _factory(build: Callable[[], Protocol]) -> Factory:
    made: Any = Factory.forProtocol(build)
    made.noisy = False
    factory: Factory = made
    return factory


class TcpRequests:
    """
    The request side of a minion: any number of requests in one connection.

    It is made when there is something to ask, and made again by the next request after it ended.
    What was asked in it fails then: whether the master has heard it is not known.
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
        self._connection: _Reading | None = None
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
            _factory(lambda: _Reading(self._reactor, self._stream, self._answered, self._lost))
        )
        self._connecting = connecting
        _ = connecting.addCallbacks(self._connected, self._refused)

    def _connected(self, connection: _Reading) -> None:
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

    def _lost(self, connection: _Reading) -> None:
        if connection is self._connection:
            self._connection = None
            self._fail("connection lost")

    def _fail(self, why: str) -> None:
        waiting, self._waiting = self._waiting, OrderedDict()
        for _, deferred in waiting.values():
            if not deferred.called:
                deferred.errback(TransportClosed(why))

    def close(self) -> None:
        """Disconnect; what is not answered fails with L{TransportClosed}. Idempotent."""
        self._closed = True
        if self._connecting is not None:
            self._connecting.cancel()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()
        self._fail("closed")


def _timed_out(result: Any, timeout: float) -> Any:
    raise RequestTimeout("timeout")


class TcpSubscriber:
    """
    The publish side of a minion: connects, says who it is, listens, and connects again.

    A master of ours gives signs of life; when they stay away C{lost} is called, and after
    a while the connection is made again.
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
        self._connection: _Reading | None = None
        self._connecting: Deferred[Any] | None = None
        self._retry: IDelayedCall | None = None
        self._silence: IDelayedCall | None = None
        self._heard = 0.0
        self._closed = False

    def open(self) -> None:
        """Connect; returns at once."""
        self._retry = None
        connecting = self._connect(
            _factory(lambda: _Reading(self._reactor, self._stream, self._frame, self._ended))
        )
        self._connecting = connecting
        _ = connecting.addCallbacks(self._connected, self._refused)

    def _connected(self, connection: _Reading) -> None:
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

    def _ended(self, connection: _Reading) -> None:
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
