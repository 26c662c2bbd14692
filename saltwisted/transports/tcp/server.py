"""
Requests, the master's side.

There are limits, as in L{saltwisted.transports.zeromq.router}. The master stops reading from a
client while that client has too many unanswered requests, while there are too many in total, while
large ones hold too many bytes, or while the client does not read its answers. A frame that has
begun must end in time, and all unfinished frames together have a size limit.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from twisted.internet.interfaces import IHandshakeListener, IPushProducer
from twisted.internet.protocol import connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from saltwisted.doors import REQUESTS_TCP as DOOR
from saltwisted.interfaces import IRequestServer
from saltwisted.transports.tcp.framed import Framed, Listening, Stream
from saltwisted.transports.unfinished import Known, Room, Unfinished, nobody
from saltwisted.wire.frames import Frame, wrap_frame

MAX_REQUEST = DOOR.request
MOST_HELD = 256 * 1024 * 1024
"""
Bytes of requests that are whole and unanswered at once; above that nothing more is begun or
read. What is on its way in comes on top of it.
"""
Handler = Callable[[bytes | memoryview, str, Callable[[bytes], None]], None]
UNFINISHED = DOOR.memory_all - MOST_HELD
"""Bytes that requests take that have begun and are not whole. A third is for strangers."""
COPIES = 2
"""What is not whole is in the buffer, and in the walker that searches its end."""


class _Answer:
    """The way back of one request."""

    __slots__ = ("_connection", "_head", "_size")

    def __init__(self, connection: _Asking, head: dict[Any, Any], size: int) -> None:
        self._connection: _Asking | None = connection
        self._head = head
        self._size = size

    def __call__(self, data: bytes) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.write(wrap_frame(data, self._head))
            connection.answered(self._size)

    def forget(self) -> None:
        """There will be no answer. May be called in any thread."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.forgotten(self._size)

    def __del__(self) -> None:
        self.forget()


class _Begun(Unfinished):
    """The request that a client is sending."""

    __slots__ = ("_client",)

    def __init__(self, client: _Asking, now: float) -> None:
        super().__init__(client.peer.removeprefix("::ffff:"), now)
        self._client = client

    def end(self, why: str) -> None:
        self._client.refuse(why)


@implementer(IPushProducer, IHandshakeListener)
class _Asking(Framed):
    """One client of the request port."""

    def __init__(self, server: TcpRequestServer) -> None:
        super().__init__(server._reactor, server._stream, server._limit, views=True, tls=server.tls)
        self._server = server
        self._waiting: deque[Frame] = deque()
        self._open = 0
        self._full = False
        self._begun: Unfinished | None = None

    def dataReceived(self, data: bytes) -> None:
        """Extract frames, as long as there is room for incomplete ones."""
        super().dataReceived(data)
        self._count()
        if self._server.is_full:
            self._flow()

    def _count(self) -> None:
        """Somebody may be hung up on for it, and it may be this client."""
        begun, unread = self._begun, self._reader.unread
        if begun is not None and (unread or begun.size):
            self._server.room.set(begun, COPIES * unread)

    def connectionMade(self) -> None:
        """Listen to how much it reads of its answers."""
        super().connectionMade()
        self._begun = _Begun(self, self._reactor.seconds())
        self.transport.registerProducer(self, True)
        self._server._clients.add(self)
        self._server._listening.came(self)

    @property
    def takes(self) -> bool:
        """What it asks beyond what may be begun now stays as it came."""
        return not self._waiting and super().takes

    def frame(self, frame: Frame) -> None:
        self._server._listening.spoke(self)
        self._waiting.append(frame)
        self._server.held += frame.size
        self._begin()

    def _begin(self) -> None:
        """Process the requests that are allowed now."""
        server = self._server
        while self._waiting and not self.gone and self._open < server.per_client:
            if server.is_busy:
                server._held.add(self)
                break
            frame = self._waiting.popleft()
            size = frame.size
            self._open += 1
            server.unanswered += 1
            server.begun += size
            server._asked(self, frame, _Answer(self, frame.head, size))

    def go_on(self) -> None:
        """Process what is allowed now, and what has come besides; read on if there is room."""
        self._begin()
        if self._reader.unread and self.takes:
            self._go_on_later()
        self._flow()

    def served(self) -> None:
        super().served()
        self._flow()

    def flow(self) -> None:
        self._count()
        self._flow()

    def _flow(self) -> None:
        if self.gone or self._ends or self.transport is None:
            return
        is_full = self._server.is_full
        if is_full:
            self._server._unheard.add(self)
        if self._full or self._waiting or is_full or self._goes_on is not None:
            self.transport.pauseProducing()
        else:
            self.transport.resumeProducing()
        if (self._waiting or is_full) and not self._full:
            # It is not the client that is slow
            self._time_no_more()
        else:
            self._time_frame()

    def answered(self, size: int) -> None:
        """One less, of so many bytes."""
        self._open -= 1
        self._server._one_less(size)
        if self._waiting:
            self.go_on()

    def forgotten(self, size: int) -> None:
        """A request that nobody answers."""
        self._server.dropped["unanswered"] += 1
        self._reactor.callFromThread(self.answered, size)

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
        self._count()
        self._server._listening.left(self)
        self._server.held -= sum(one.size for one in self._waiting)
        self._waiting.clear()
        self._server._clients.discard(self)
        self._server._held.discard(self)
        self._server._unheard.discard(self)
        self._server._let_go_on()


class TcpRequestServer:
    """
    The request port of a master.

    @ivar port: the bound port.
    @ivar room: for requests that are not whole yet.
    @ivar held: bytes of requests that are whole and not answered.
    @ivar begun: those of them that somebody is at.
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
        limit: int = MAX_REQUEST,
        known: Known = nobody,
    ) -> None:
        """
        @param tls: makes the server's side of TLS connections (L{ssl_options.ServerTLS}).
        @param per_client: requests of one connection that are unanswered at most.
        @param in_flight: the same of all connections.
        @param known: the addresses from which minions have spoken.
        """
        self._reactor = reactor
        self._listening = Listening(reactor, interface, port, backlog, tls)
        self._stream = stream or Stream(idle=60, interval=15, count=3)
        self._limit = limit
        self.tls = tls is not None
        self.room = Room(reactor, UNFINISHED // 3, UNFINISHED, known)
        self._handler: Handler | None = None
        self._clients: set[_Asking] = set()
        self._held: set[_Asking] = set()
        self._unheard: set[_Asking] = set()
        self.per_client = per_client
        self.in_flight = in_flight
        self.unanswered = 0
        self.held = self.begun = 0
        self.dropped: Counter[str] = Counter()

    @property
    def port(self) -> int:
        """The bound port."""
        return self._listening.port

    @property
    def is_busy(self) -> bool:
        """Whether no further request is begun."""
        return self.unanswered >= self.in_flight or self.begun >= MOST_HELD

    @property
    def is_full(self) -> bool:
        """Whether no further request is read."""
        return self.held >= MOST_HELD

    def listen(self, handler: Handler) -> None:
        """
        Bind and serve.

        @param handler: see L{IRequestServer.listen}.
        @raises CannotListenError: the port is in use.
        """
        self._handler = handler
        self._listening.bind(lambda: _Asking(self))

    def _asked(self, client: _Asking, frame: Frame, answer: _Answer) -> None:
        if self._handler is None:
            return
        try:
            data = frame.packed if frame.view is None else frame.view
            self._handler(data, client.peer, answer)
        except Exception:
            # The traceback must not keep it counted
            self.log.failure("a request was lost in its handler")
            answer.forget()

    def _one_less(self, size: int) -> None:
        self.unanswered -= 1
        self.held -= size
        self.begun -= size
        self._let_go_on()

    def _let_go_on(self) -> None:
        """Those that wait for others, once there is room for several."""
        few = self.unanswered < self.in_flight - self.in_flight // 8
        if self._held and few and self.begun < MOST_HELD - MOST_HELD // 8:
            self._go_on(self._held)
        if self._unheard and self.held < MOST_HELD - MOST_HELD // 8:
            self._go_on(self._unheard)

    def _go_on(self, clients: set[_Asking]) -> None:
        for client in clients:
            self._reactor.callLater(0, client.go_on)
        clients.clear()

    def stop(self) -> None:
        """Close the port and all connections; replies that come later go nowhere. Idempotent."""
        self._handler = None
        self._listening.close()
        for client in list(self._clients):
            client.abort()


# -- publications, the master's side


_TcpRequestServer: type[IRequestServer] = TcpRequestServer  # mypy compares them
