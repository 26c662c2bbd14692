"""
HTTP/1.1 with limits: how long a request may take to arrive, how large it may be, how many there
are, and how much is kept for all of them.

Twisted's own code parses forms and files in bodies before anything can refuse the request, and
accepts bodies of any length; here neither happens. A client that is slow or sends too much gets an
answer and is disconnected. Of somebody who has not said who he is little is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from io import BytesIO
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IHandshakeListener
from twisted.internet.protocol import ServerFactory, connectionDone
from twisted.python.failure import Failure
from twisted.web.http import Request
from zope.interface import implementer

from saltwisted.domain.api.problems import page
from saltwisted.domain.who import Who
from saltwisted.doors import HTTP, HTTP_USERS
from saltwisted.transports.accepting import Few
from saltwisted.transports.deferreds import let_go
from saltwisted.turns import turns_of
from saltwisted.web.channel import JudgedChannel
from saltwisted.web.room import Held, Room

SERVER = b"saltwisted"
IDLE = 60
"""Seconds of silence, between requests too."""
ARRIVAL = HTTP.holds
"""Seconds from the first byte of a request to its last, however many come meanwhile."""
CONNECTIONS = 2000
FROM_ONE = 1000
"""Connections from one address."""
LINGER = 2.0
GOODBYE = 2.0
"""Seconds that a client has for reading the last that it gets."""
VERSIONS = (b"HTTP/1.0", b"HTTP/1.1")
CONNECTION = 32_768
"""Bytes that a connection keeps by itself, by TLS, as measured: without it, a tenth."""
HANDSHAKE = 32_768
"""Bytes that OpenSSL keeps besides until the handshake has ended, as measured."""
ROOM = HTTP.memory_all - CONNECTIONS * CONNECTION
"""Bytes that are kept of all strangers together, besides their connections."""
TOO_LARGE = "The request is larger than max_request_body_size"
STRANGER = f"Without a session a request may have {HTTP.request} bytes"


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
    _allowed = 0
    _judging = False
    _asking: Deferred[None] | None = None

    def parseCookies(self) -> None:
        """Whoever needs one looks for it."""

    def gotLength(self, length: int | None) -> None:
        """A body of this length is announced, or one in chunks."""
        self.content = BytesIO()
        largest = self.channel.factory.largest()
        self._allowed = min(largest, HTTP.request)
        if length is not None and length > largest:
            self.refuse(413, TOO_LARGE)
        elif length is not None and length > self._allowed:
            self._ask()

    def handleContentChunk(self, data: bytes) -> None:
        """A part of the body."""
        if self.refused:
            return
        self.came += len(data)
        if self.came > self._allowed and not self._judging:
            if self._allowed >= self.channel.factory.largest():
                self.refuse(413, TOO_LARGE)
                return
            self._ask()
        self.content.write(data)
        self.channel.body = self.came

    def _ask(self) -> None:
        """Of so much no more is read before it is known whether this is a user's."""
        self.channel.waits = self._judging = True
        self.take_up(self.channel._command, self.channel._path)
        asked = self.channel.factory.may_send_more(self)
        self._asking = Deferred.fromCoroutine(self._judge(asked))
        let_go(self._asking, self.channel.log, "a request could not be judged")

    async def _judge(self, asked: Awaitable[bool]) -> None:
        good = await asked
        if good:
            self._allowed = self.channel.factory.largest()
        elif not self.refused:
            self.refuse(413, STRANGER)
        self._judging = False
        self.channel.go_on()

    def known(self, who: Who) -> None:
        """It is the request of a user."""
        self.who = who.name
        self.channel.keep_for(who)

    def drop_body(self) -> None:
        """Its body has been read, and is not kept."""
        self.content = BytesIO()
        self.channel.body = 0
        self.channel.count_kept()

    def refuse(self, status: int, message: str, retry: str = "") -> None:
        """Answer at once, and hang up when the rest has come, of which nothing is kept."""
        self.refused = True
        channel = self.channel
        self.drop_body()
        channel.transport.write(bare_answer(status, message, retry))
        channel.linger()

    def take_up(self, command: bytes, path: bytes) -> None:
        """Its first line."""
        self.method, self.uri = command, path
        self.path, _, self.query = path.partition(b"?")

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
        self.channel.begin_answer()
        self.began = self.channel.factory.reactor.seconds()
        self.content.seek(0, 0)
        self.args = {}
        self.clientproto = version
        self.take_up(command, path)
        self.process()

    def process(self) -> None:
        """Hand it over."""
        self.channel.factory.take(self)

    def connectionLost(self, reason: Any) -> None:
        """Nobody waits for its answer."""
        if self._asking is not None:
            self._asking.cancel()
        super().connectionLost(reason)


@implementer(IHandshakeListener)
class ApiChannel(JudgedChannel):
    """
    One connection.

    @ivar address: where the client is.
    @ivar body: bytes that are kept of the body of the present request.
    @ivar shaken: whether its TLS, if it has any, is set up.
    """

    requestFactory = ApiRequest
    factory: Any
    address = ""
    body = 0
    shaken = False
    _late: Any = None
    _last: Any = None
    _held: Held | None = None
    _speaker: Callable[[bytes], None] | None = None

    def connectionMade(self) -> None:
        """A client has connected; possibly one too many."""
        super().connectionMade()
        self.address = str(getattr(self.transport.getPeer(), "host", ""))
        if not self.factory.enter(self):
            self.transport.write(bare_answer(503, "There are too many connections", "5"))
            self.hang_up()
            return
        self._held = Held(self.factory.strangers, self.address, self._cut)
        # Twisted's transports of TLS have the connection itself below them
        self.shaken = getattr(self.transport, "transport", None) is None
        if not self.shaken:
            self._late = self.callLater(ARRIVAL, self.abort)
            self.count_kept()

    def handshakeCompleted(self) -> None:
        """TLS is set up."""
        self.shaken = True
        self.arrived()
        self.count_kept()

    def dataReceived(self, data: bytes) -> None:
        """Something of a request; the whole of it has to be here in time."""
        if self._speaker is not None and not self._ending:
            self._speaker(data)
        else:
            super().dataReceived(data)

    def switch(self, speaker: Callable[[bytes], None]) -> None:
        """
        Switch to another protocol; its request stays open as long as the connection.

        @param speaker: gets all data, including what has already arrived.
        """
        self._speaker = speaker
        self.arrived()
        early, self._input = bytes(self._input), bytearray()
        self.count_kept()
        self.transport.resumeProducing()
        if early:
            speaker(early)

    def unfinished(self) -> None:
        """A request has begun and is not whole."""
        if self._late is None:
            self._late = self.callLater(ARRIVAL, self._too_slow)

    def arrived(self) -> None:
        """A request is whole."""
        late, self._late = self._late, None
        if late is not None and late.active():
            late.cancel()

    # -- what is kept

    def _flow(self) -> None:
        super()._flow()
        held = self._held
        if held is not None and (held.size or self._input or self.body):
            self.count_kept()

    def count_kept(self) -> None:
        """What is kept of this client may be another number of bytes now."""
        held = self._held
        if held is not None:
            kept = len(self._input) + self.body + (0 if self.shaken else HANDSHAKE)
            if kept != held.size:
                held.set(kept)

    def keep_for(self, who: Who) -> None:
        """What is kept is a user's: of whom more is kept, and nothing that is being done is cut."""
        held = self._held
        if held is not None and not (held.room is self.factory.users and held.owner == who):
            held.release()
            self._held = Held(self.factory.users, who, self._cut)
            if self.handles:
                self._held.fix()
            self.count_kept()

    def held_apart(self, cut: Callable[[], None]) -> Held:
        """
        For something else that is kept of this client.

        @param cut: called if there is no room for it.
        """
        held = self._held
        if held is None:
            return Held(self.factory.strangers, self.address, cut)
        return Held(held.room, held.owner, cut)

    def begin_answer(self) -> None:
        """A request is whole: what is done already is not cut off."""
        if self._held is not None:
            self._held.fix()

    def requestDone(self, request: Any) -> None:
        """It is answered."""
        self.body = 0
        held = self._held
        if held is not None:
            # Who sends the next one is not known yet
            held.release()
            if held.room is self.factory.users:
                self._held = Held(self.factory.strangers, self.address, self._cut)
            held.may_be_cut = True
            self.count_kept()
        super().requestDone(request)

    def _cut(self) -> None:
        """There is no room for what is kept of it."""
        self.factory.counters["api:no-room"] += 1
        self._held = None
        self.body = 0
        for request in self.requests:
            request.content = BytesIO()
        if self.shaken:
            self.transport.write(bare_answer(503, "There is no room for the request", "5"))
            self.hang_up()
        else:
            self.abort()

    # -- the end

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
            self.arrived()
            super().loseConnection()
            self.count_kept()

    def hang_up(self) -> None:
        """The same, but not for long: a client that does not read has its connection reset."""
        self.loseConnection()
        if self._last is None:
            self._last = self.callLater(GOODBYE, self.abort)

    def abort(self) -> None:
        """Disconnect at once."""
        self.transport.abortConnection()

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
        held, self._held = self._held, None
        if held is not None:
            held.release()
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
    @ivar few: keeps the port from accepting too many connections at once.
    @ivar strangers: what is kept of those who have not said who they are.
    @ivar users: what is kept of users.
    """

    noisy = False

    def __init__(
        self,
        reactor: Any,
        take: Callable[[ApiRequest], None],
        largest: Callable[[], int],
        counters: Counter[str],
        written: Callable[[ApiRequest], None],
        may_send_more: Callable[[ApiRequest], Awaitable[bool]],
    ) -> None:
        """
        @param take: gets each request when it is whole.
        @param largest: bytes of the largest body.
        @param written: told of each request that has its answer.
        @param may_send_more: whether who has sent this head may send more than a stranger.
        """
        self.reactor = reactor
        self.may_send_more = may_send_more
        self.few = Few(reactor)
        self.strangers = Room(ROOM)
        self.users = Room(HTTP_USERS.memory_all)
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
        self.few.accepted()
        channel = ApiChannel()
        channel.factory = self
        channel.timeOut = IDLE
        channel.turns = turns_of(self.reactor)
        channel.callLater = self.reactor.callLater  # type: ignore[method-assign]
        return channel

    def enter(self, channel: ApiChannel) -> bool:
        """Count a connection in; whether there is room for it."""
        address = channel.address
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
