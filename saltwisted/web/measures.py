"""
The port for C{/metrics}, C{/livez} and C{/readyz}, if it is a separate one.

Anybody who can reach it may ask, so the resources are limited: no bodies, few connections, and none
for long. When all slots are in use, the oldest connection is closed: a client that connects and
sends nothing does not block a health check.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.internet.error import CannotListenError
from twisted.internet.protocol import connectionDone
from twisted.logger import Logger
from twisted.protocols.policies import ProtocolWrapper, WrappingFactory
from twisted.python.failure import Failure
from twisted.web.resource import Resource
from twisted.web.server import Request, Site

from saltwisted.doors import METRICS
from saltwisted.transports.accepting import Few
from saltwisted.transports.listening import cannot_listen
from saltwisted.turns import turns_of
from saltwisted.web.channel import JudgedChannel
from saltwisted.web.health import Live, Ready, ReadyPage
from saltwisted.web.metrics import MetricsPage, Telemetry

PLACES = METRICS.memory_all // METRICS.memory
"""Connections at a time."""
LIFE = METRICS.holds
"""Seconds that a connection may last, with its one question and the answer."""


class Asked(Request):
    """The one request of a connection, without a body: a body ends the connection."""

    _ended = False

    def parseCookies(self) -> None:
        """Nobody looks at one."""

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:
        """What is behind a question mark asks for nothing here."""
        path = path.partition(b"?")[0]
        Request.requestReceived(self, command, path if path.count(b"/") < 3 else b"//", version)

    def process(self) -> None:
        """Answer it, and hang up then."""
        self.channel.persistent = False
        self.setHeader(b"connection", b"close")
        Request.process(self)

    def render(self, resrc: Any) -> None:
        """Which library does this is nobody's business."""
        self.setHeader(b"server", b"saltwisted")
        Request.render(self, resrc)

    def gotLength(self, length: int | None) -> None:
        """Nothing is kept, however long it is to be."""
        Request.gotLength(self, 0)
        if length:
            self._hang_up()

    def handleContentChunk(self, data: bytes) -> None:
        """A body of no announced length."""
        if data:
            self._hang_up()

    def _hang_up(self) -> None:
        if not self._ended:
            self._ended = True
            self.loseConnection()


class Pages(Site):
    """
    A site that writes no log of its own and wakes up for no clock.

    @ivar few: keeps the port from accepting too many connections at once.
    """

    requestFactory = Asked
    displayTracebacks = False
    noisy = False

    def __init__(self, root: Resource, reactor: Any) -> None:
        Site.__init__(self, root, timeout=LIFE, reactor=reactor)
        self._clock = reactor
        self.few = Few(reactor)

    def buildProtocol(self, addr: Any) -> Any:
        """A channel that judges its input before it reads it."""
        self.few.accepted()
        channel: Any = JudgedChannel()
        channel.factory = channel.site = self
        channel.requestFactory = Asked
        channel.timeOut = LIFE
        channel.callLater = self._clock.callLater
        channel.turns = turns_of(self._clock)
        return channel

    def startFactory(self) -> None:
        """No log."""

    def stopFactory(self) -> None:
        """No log."""

    def log(self, request: Any) -> None:
        """Requests that come every few seconds are not logged."""


class _Place(ProtocolWrapper):
    """A connection, for as long as it may last."""

    _end: Any = None

    def makeConnection(self, transport: Any) -> None:
        """It begins."""
        self._end = self.factory.clock.callLater(LIFE, transport.abortConnection)
        ProtocolWrapper.makeConnection(self, transport)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """It has ended."""
        if self._end is not None and self._end.active():
            self._end.cancel()
        ProtocolWrapper.connectionLost(self, reason)


class Places(WrappingFactory):
    """As many connections as there are slots; a new one replaces the oldest."""

    protocol = _Place
    noisy = False

    def __init__(self, wrapped: Any, clock: Any, places: int = PLACES) -> None:
        super().__init__(wrapped)
        self.clock = clock
        self._places = places

    def buildProtocol(self, addr: Any) -> Any:
        """One more."""
        if len(self.protocols) >= self._places:
            # They are in the order in which they connected
            self._hang_up(next(iter(self.protocols)))
        return WrappingFactory.buildProtocol(self, addr)

    def _hang_up(self, place: Any) -> None:
        self.protocols.pop(place, None)
        place.abortConnection()

    def unregisterProtocol(self, p: Any) -> None:
        """A connection is gone; it may have been forgotten before."""
        self.protocols.pop(p, None)

    def hang_up_all(self) -> None:
        """End all connections."""
        for place in list(self.protocols):
            self._hang_up(place)


class MeasuresPort:
    """
    Listens from before the master serves until after it has ended, so that C{/readyz} can say so.
    """

    log = Logger()
    name = "metrics"

    def __init__(
        self, reactor: Any, host: str, port: int, telemetry: Telemetry, ready: Ready
    ) -> None:
        self._reactor = reactor
        self._host, self._wanted = host, port
        self._telemetry = telemetry
        root = Resource()
        root.putChild(b"metrics", MetricsPage(telemetry, reactor))
        root.putChild(b"livez", Live())
        root.putChild(b"readyz", ReadyPage(ready))
        pages = Pages(root, reactor)
        self._few = pages.few
        self._places: Any = Places(pages, reactor)
        self._listening: Any = None

    def startService(self) -> None:
        """
        Listen.

        @raises PortError: the named port is in use.
        """
        try:
            self._listening = self._few.watch(
                self._reactor.listenTCP(self._wanted, self._places, interface=self._host)
            )
        except CannotListenError as error:
            raise cannot_listen(
                self._host, self._wanted, error.socketError, "metrics: cannot listen", ""
            ) from error
        self.log.info(
            "metrics and health checks are served on http://{host}:{port}/",
            host=self._host,
            port=self.port,
        )

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._listening.getHost().port)

    def stopService(self) -> Deferred[Any]:
        """Answer no more."""
        self._telemetry.hide()
        self._places.hang_up_all()
        self._few.forget()
        listening, self._listening = self._listening, None
        return succeed(None) if listening is None else maybeDeferred(listening.stopListening)
