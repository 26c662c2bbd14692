"""
HTTP/1.1 with limits: how long a request may take to arrive, how large it may be, how many there
are.

Twisted's own code parses forms and files in bodies before anything can refuse the request, and
accepts bodies of any length; here neither happens. A client that is slow or sends too much gets an
answer and is disconnected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from io import BytesIO
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.protocol import ServerFactory, connectionDone
from twisted.python.failure import Failure
from twisted.web.http import HTTPChannel, Request

from saltwisted.domain.api.problems import page

SERVER = b"saltwisted"
IDLE = 60
"""Seconds of silence, between requests too."""
ARRIVAL = 30.0
"""Seconds from the first byte of a request to its last, however many come meanwhile."""
CONNECTIONS = 2000
FROM_ONE = 1000
"""Connections from one address."""
LINGER = 2.0
GOODBYE = 2.0
"""Seconds that a client has for reading the last that it gets."""
VERSIONS = (b"HTTP/1.0", b"HTTP/1.1")
HEADERS = 50
"""Header lines of a request."""


class ApiRequest(Request):
    """
    One request; L{process} passes it on when it is complete.

    @ivar query: the query string.
    @ivar who: the user, if known; for the log.
    @ivar refused: whether it was answered before it was complete.
    @ivar came: received bytes of its body.
    @ivar began: when it was complete, by the reactor's clock.
    """

    channel: Any
    content: Any
    came = 0
    began = 0.0
    refused = False
    query = b""
    who = ""

    def gotLength(self, length: int | None) -> None:
        """A body of this length is announced, or one in chunks."""
        self.content = BytesIO()
        limit = self.channel.factory.largest()
        if length is not None and length > limit:
            self.refuse(413, "The request is larger than max_request_body_size")

    def handleContentChunk(self, data: bytes) -> None:
        """A part of the body."""
        if self.refused:
            return
        self.came += len(data)
        if self.came > self.channel.factory.largest():
            self.refuse(413, "The request is larger than max_request_body_size")
            return
        self.content.write(data)

    def refuse(self, status: int, message: str) -> None:
        """Answer at once, and hang up when the rest has come, of which nothing is kept."""
        self.refused = True
        channel = self.channel
        channel.transport.write(bare_answer(status, message))
        channel.linger()

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:
        """It is whole. Nothing is read out of its body here."""
        self.channel.arrived()
        if self.refused:
            self.channel.loseConnection()
            return
        if version not in VERSIONS:
            # Older releases of Twisted would begin the answer with these very bytes
            self.refuse(400, "The request is not of HTTP/1.0 or HTTP/1.1")
            self.channel.loseConnection()
            return
        self.began = self.channel.factory.reactor.seconds()
        self.content.seek(0, 0)
        self.args = {}
        self.method, self.uri, self.clientproto = command, path, version
        self.path, _, self.query = path.partition(b"?")
        self.process()

    def process(self) -> None:
        """Hand it over."""
        self.channel.factory.take(self)


class ApiChannel(HTTPChannel):
    """One connection."""

    requestFactory = ApiRequest
    transport: Any
    factory: Any
    maxHeaders = HEADERS
    _late: Any = None
    _last: Any = None
    _ending = False
    _speaker: Callable[[bytes], None] | None = None

    def connectionMade(self) -> None:
        """A client has connected; possibly one too many."""
        super().connectionMade()
        if not self.factory.enter(self):
            self.transport.write(bare_answer(503, "There are too many connections", "5"))
            self.loseConnection()

    def dataReceived(self, data: bytes) -> None:
        """Something of a request; the whole of it has to be here in time."""
        if self._ending:
            return
        if self._speaker is not None:
            self._speaker(data)
            return
        if self._late is None and not self._waiting_for_answer():
            self._late = self.callLater(ARRIVAL, self._too_slow)
        super().dataReceived(data)

    def rawDataReceived(self, data: bytes) -> None:
        """The same, or data after the request that begins another protocol."""
        if self._speaker is not None:
            self._speaker(data)
        else:
            super().rawDataReceived(data)

    def switch(self, speaker: Callable[[bytes], None]) -> None:
        """
        Switch to another protocol; its request stays open as long as the connection.

        @param speaker: gets all data, including what has already arrived.
        """
        self._speaker = speaker
        self.arrived()
        early, self._dataBuffer = b"".join(self._dataBuffer), []
        self.transport.resumeProducing()
        if early:
            speaker(early)

    def keep_little(self, size: int) -> None:
        """
        For an answer without an end: its data is shared by many connections, but the buffer for
        this client is not.

        @param size: bytes in its buffer at which it is full.
        """
        # With TLS it is the connection below that keeps them
        getattr(self.transport, "transport", self.transport).bufferSize = size

    def _waiting_for_answer(self) -> bool:
        return bool(getattr(self, "_handlingRequest", False))

    def arrived(self) -> None:
        """A request is whole."""
        late, self._late = self._late, None
        if late is not None and late.active():
            late.cancel()

    def linger(self) -> None:
        """An answer is on its way before the request was whole: hang up a little later."""
        self.arrived()
        # At once, a client that still sends would see its connection reset and no answer
        self._late = self.callLater(LINGER, self.loseConnection)

    def _send100Continue(self) -> None:
        if not self.requests[-1].refused:
            super()._send100Continue()

    def _respondToBadRequestAndDisconnect(self) -> None:
        """It is no HTTP; who has been answered already is not answered again."""
        if not (self.requests and self.requests[-1].refused):
            self.transport.write(bare_answer(400, "Illegal request"))
        self.loseConnection()

    def loseConnection(self) -> None:
        """Disconnect when everything written has been sent."""
        if not self._ending:
            self._ending = True
            self.arrived()
            super().loseConnection()

    def hang_up(self) -> None:
        """The same, but not for long: a client that does not read has its connection reset."""
        self.loseConnection()
        if self._last is None:
            self._last = self.callLater(GOODBYE, self.transport.abortConnection)

    def _too_slow(self) -> None:
        self._late = None
        self.factory.counters["api:slow"] += 1
        self.transport.write(bare_answer(408, "The request took too long to come"))
        self.loseConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """It is gone."""
        self.arrived()
        if self._last is not None and self._last.active():
            self._last.cancel()
        super().connectionLost(reason)
        self.factory.leave(self)


def bare_answer(status: int, message: str, retry: str = "") -> bytes:
    """A complete answer for a client that is then disconnected."""
    from_page = page(status, message)
    title = from_page.partition(b"<title>")[2].partition(b"</title>")[0]
    after = f"Retry-After: {retry}\r\n".encode() if retry else b""
    return (
        b"HTTP/1.1 " + title + b"\r\nServer: " + SERVER + b"\r\n" + after
        + b"Content-Type: text/html;charset=utf-8\r\nConnection: close\r\n"
        + b"Content-Length: " + str(len(from_page)).encode() + b"\r\n\r\n" + from_page
    )  # fmt: skip


class ApiFactory(ServerFactory):
    """
    All connections of the API.

    @ivar counters: the master's.
    """

    noisy = False

    def __init__(
        self,
        reactor: Any,
        take: Callable[[ApiRequest], None],
        largest: Callable[[], int],
        counters: Counter[str],
        written: Callable[[ApiRequest], None],
    ) -> None:
        """
        @param take: gets each request when it is whole.
        @param largest: bytes of the largest body.
        @param written: told of each request that has its answer.
        """
        self.reactor = reactor
        self.take = take
        self.largest = largest
        self.counters = counters
        self._told = written
        self._open: dict[Any, str] = {}
        self._by_address: Counter[str] = Counter()
        self._empty: Deferred[None] | None = None

    def log(self, request: ApiRequest) -> None:
        """A request has been answered; Twisted's channel calls this method."""
        self._told(request)

    def buildProtocol(self, addr: Any) -> Any:
        """A channel of ours: Twisted's factory would wrap one that also speaks HTTP/2."""
        channel = ApiChannel()
        channel.factory = self
        channel.timeOut = IDLE
        channel.callLater = self.reactor.callLater  # type: ignore[method-assign]
        return channel

    def enter(self, channel: Any) -> bool:
        """Count a connection in; whether there is room for it."""
        address = str(getattr(channel.transport.getPeer(), "host", ""))
        if len(self._open) >= CONNECTIONS or self._by_address[address] >= FROM_ONE:
            self.counters["api:too-many-connections"] += 1
            return False
        self._open[channel] = address
        self._by_address[address] += 1
        return True

    def leave(self, channel: Any) -> None:
        """It is gone."""
        address = self._open.pop(channel, None)
        if address is not None:
            self._by_address[address] -= 1
            if not self._by_address[address]:
                del self._by_address[address]
        if not self._open and self._empty is not None:
            empty, self._empty = self._empty, None
            empty.callback(None)

    def hang_up(self) -> Deferred[None]:
        """End all connections when everything written to them has been sent."""
        gone: Deferred[None] = Deferred()
        self._empty = gone
        for channel in list(self._open):
            channel.hang_up()
        if not self._open and self._empty is not None:
            self._empty = None
            gone.callback(None)
        return gone
