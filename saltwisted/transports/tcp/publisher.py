"""
Publications, the master's side.

A subscriber that does not read has a queue of C{pub_hwm} publications. One more publication, or a
minute without progress, ends its connection, and this is counted. The subscriber then returns and
signs in, whereas a silent gap would go unnoticed.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.interfaces import IHandshakeListener, IPushProducer
from twisted.internet.protocol import Protocol, connectionDone
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from saltwisted.doors import PUBLICATIONS_TCP as DOOR
from saltwisted.interfaces import IPublishServer
from saltwisted.transports.deferreds import let_go
from saltwisted.transports.tcp.framed import Framed, Listening, Stream
from saltwisted.wire.frames import Frame, encode_frame

DRAIN_TIME = DOOR.holds
"""Seconds that a subscriber may leave its queue untouched."""
QUEUED_BYTES = DOOR.memory_all
"""
Bytes of publications that wait for one subscriber at most. All queues hold the same publications,
not copies of them: so it is what all queues take together.
"""
HELLO_BYTES = DOOR.request
"""The largest frame that a subscriber may send: who it is."""
PIECE = 64 * 1024
"""Bytes that are copied for one subscriber at once. A long publication waits in the queue."""
PING_EVERY = 2.0
"""Seconds between two signs of life to subscribers that know them."""

PING = encode_frame(b"", {"saltwisted": "ping"})


@implementer(IPushProducer, IHandshakeListener)
class _Subscriber(Framed):
    """One client of the publish port."""

    def __init__(self, server: TcpPublishServer) -> None:
        super().__init__(server._reactor, server._stream, HELLO_BYTES, tls=server.tls)
        self._server = server
        self._queue: deque[bytes] = deque()
        self._queued = 0
        self._sent = 0
        self._paused = False
        self.stuck_since = 0.0
        self.topic: bytes | None = None
        self.ours = False

    def connectionMade(self) -> None:
        """Watch how much it reads. With TLS, it counts once its handshake is complete."""
        super().connectionMade()
        self.transport.registerProducer(self, True)
        self._server._listening.came(self)
        if not self._server.tls:
            self._server._come(self)

    def handshakeCompleted(self) -> None:
        """Its certificate was good enough."""
        super().handshakeCompleted()
        if self._server.tls:
            self._server._come(self)

    def frame(self, frame: Frame) -> None:
        """It identifies itself."""
        self._server._listening.spoke(self)
        self._server._announced(self, frame.body)

    def refuse(self, why: str) -> None:
        self._server.counters["framing"] += 1
        self.abort()

    def send(self, data: bytes) -> None:
        """Send now, or when it has read what was sent before."""
        if self.gone:
            return
        if not self._paused and len(data) <= PIECE:
            self.write(data)
            return
        self._queue.append(data)
        self._queued += len(data)
        if len(self._queue) > self._server.hwm or self._queued - len(self._queue[0]) > QUEUED_BYTES:
            self._server._too_slow(self)
        else:
            self._drain()

    def _drain(self) -> None:
        """Send what it can take now, in pieces."""
        while self._queue and not self._paused and not self.gone:
            data, begin = self._queue[0], self._sent
            self._sent += PIECE
            if self._sent >= len(data):
                self._queue.popleft()
                self._queued -= len(data)
                self._sent = 0
            self.write(data[begin : begin + PIECE])

    def pauseProducing(self) -> None:
        """It does not read."""
        if not self._paused:
            self._paused = True
            self.stuck_since = self._reactor.seconds()

    def resumeProducing(self) -> None:
        """It does again."""
        self._paused = False
        self._drain()
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
        self._server._listening.left(self)
        self._server._left(self)


class TcpPublishServer:
    """
    The publish port of a master.

    @ivar port: the bound port.
    @ivar topics: how many connections have identified themselves as each minion, by topic.
    @ivar published: publications sent.
    @ivar dropped: slow subscribers that were disconnected.
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
        self._listening = Listening(reactor, interface, port, backlog, tls)
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
        """The addresses of the connections."""
        return {one.peer.removeprefix("::ffff:") for one in self._connections}

    def listen(self) -> None:
        """
        Bind.

        @raises CannotListenError: the port is in use.
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
        Send to all, or to those with these topics and to those that have not identified themselves.
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


_TcpPublishServer: type[IPublishServer] = TcpPublishServer  # mypy compares them
