"""
A conversation with one client of C{/ws}.

Frames are autobahn's. The code around it makes sure that a bad client harms only itself: little
input is processed in one turn, all output waits in one bounded queue, and every connection has a
time limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from autobahn.twisted.websocket import WebSocketServerFactory, WebSocketServerProtocol
from twisted.logger import ILogObserver, Logger
from zope.interface import provider

from saltwisted.domain.api.formatted import SaltInfo
from saltwisted.domain.api.frames import document_frame, event_frame
from saltwisted.domain.api.watching import Eyes
from saltwisted.transports.bus import Fired
from saltwisted.turns import turns_of
from saltwisted.web.events import SLICE as BUFFER
from saltwisted.web.events import Hub, Listener, Outlet
from saltwisted.web.http import SERVER

READY = b"websocket client ready"
RECEIVED = b"server received message"
LONGEST = 4096
"""Bytes of a message: a client has little to say."""
FRAGMENTS = 16
"""Frames of one message."""
SLICE = 256
"""Bytes that are read in one turn of the reactor: at most some forty frames."""
ALLOWANCE = 16_384
PERIOD = 10.0
"""In so many seconds a client may send L{ALLOWANCE} bytes."""
PING = 30.0
"""Seconds from a ping to the next: what is between us must not think that nobody is there."""
GOODBYE = 2.0
"""Seconds that a client has for its half of the end."""
PAUSE = 0.2
"""Seconds from one telling of all jobs to the next, however much happens meanwhile."""
TEXT, GOING_AWAY, POLICY = 1, 1001, 1008


@provider(ILogObserver)
def _unheard(event: Any) -> None:
    """The library writes requests into its log, and a line for every client that errs."""


class Speaker(WebSocketServerProtocol):
    """The library's side: passes what it receives to its L{Talk}."""

    log = Logger(observer=_unheard)
    talk: Talk
    _frames = 0

    def onMessageBegin(self, isBinary: bool) -> None:
        """A message begins."""
        super().onMessageBegin(isBinary)
        self._frames = 0

    def onMessageFrameBegin(self, length: int) -> None:
        """A frame of it."""
        super().onMessageFrameBegin(length)
        self._frames += 1
        if self._frames > FRAGMENTS:
            self.talk.flood()

    def onMessage(self, payload: bytes, isBinary: bool) -> None:
        """A message is whole."""
        self.talk.heard(payload)

    def sendCloseFrame(
        self, code: int | None = None, reasonUtf8: bytes | None = None, isReply: bool = False
    ) -> None:
        """The end begins."""
        super().sendCloseFrame(code, reasonUtf8, isReply)
        self.talk.closing()


class Wire:
    """What the library takes for its connection."""

    def __init__(self, talk: Talk, transport: Any) -> None:
        self._talk = talk
        self._transport = transport

    def write(self, data: bytes) -> None:
        """To the client."""
        self._talk.send(data)

    def loseConnection(self) -> None:
        """Disconnect when everything written has been sent."""
        self._talk.finish()

    abortConnection = loseConnection

    def getPeer(self) -> Any:
        """Who is there."""
        return self._transport.getPeer()

    def getHost(self) -> Any:
        """Where we are."""
        return self._transport.getHost()

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        """Nothing here makes anything by itself."""

    def unregisterProducer(self) -> None:
        """Nor ends it."""


class Talk:
    """One client: a line of the hub."""

    def __init__(
        self,
        reactor: Any,
        request: Any,
        hub: Hub,
        eyes: Eyes,
        look: Callable[[], Awaitable[Eyes | None]],
        formatted: bool,
        counters: Counter[str],
    ) -> None:
        self._reactor = reactor
        self._turns = turns_of(reactor)
        self._request = request
        self._channel = request.channel
        self._hub = hub
        self._counters = counters
        self._info = SaltInfo() if formatted else None
        self.framing = document_frame if formatted else event_frame
        heard = self._note if formatted else None
        self._listener = Listener(eyes, self, look, heard)
        self._outlet = Outlet(self._channel.transport.write, lambda: hub.slow(self._listener))
        self._speaker = _speaker(reactor)
        self._speaker.talk = self
        self._input = bytearray()
        self._came = 0
        self._since = reactor.seconds()
        self._ready = self._closing = self._over = self._deaf = False
        self._calls: dict[str, Any] = {}

    def begin(self, key: str) -> None:
        """
        Answer the client, and listen.

        @raises Problem: too many do.
        """
        request = self._request
        self._hub.add(self._listener)
        request.notifyFinish().addBoth(self._gone)
        request.setResponseCode(101)
        self._channel.factory.log(request)
        self._channel.keep_little(BUFFER)
        request.registerProducer(self._outlet, True)
        self._speaker.makeConnection(Wire(self, self._channel.transport))
        # Nothing of what the client said but its key: who it is has been judged already
        self._speaker.dataReceived(
            b"GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
            b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Key: " + key.encode() + b"\r\n\r\n"
        )
        self._later("ping", PING, self._ping)
        self._channel.switch(self._received)

    # -- what comes

    def _received(self, data: bytes) -> None:
        if self._deaf:
            return
        self._input += data
        if "read" not in self._calls:
            # No more until this is read
            self._channel.transport.pauseProducing()
            self._soon("read", self._read)

    def _read(self) -> None:
        data = bytes(self._input[:SLICE])
        del self._input[:SLICE]
        now = self._reactor.seconds()
        if now - self._since > PERIOD:
            self._since, self._came = now, 0
        self._came += len(data)
        self._speaker.dataReceived(data)
        if self._came > ALLOWANCE:
            self.flood()
        if self._over:
            return
        if self._input and not self._deaf:
            self._soon("read", self._read)
        else:
            self._channel.transport.resumeProducing()

    def flood(self) -> None:
        """The client sends too much: no more of it is read."""
        if not self._deaf:
            self._deaf = True
            self._input.clear()
            self._counters["api:ws-floods"] += 1
            self._close(POLICY, b"This is more than a client has to say")

    def heard(self, message: bytes) -> None:
        """A message."""
        if not self._closing:
            self._ready = self._ready or message == READY
            self._speaker.sendFrame(TEXT, RECEIVED)

    # -- what goes

    def send(self, data: bytes) -> None:
        """Bytes for the client."""
        if not self._over:
            self._outlet.give(data)

    @property
    def unread(self) -> int:
        """Bytes that wait for the client."""
        return self._outlet.unread

    def give(self, framed: bytes) -> None:
        """Send an event, or its replacement."""
        if self._ready and not self._closing:
            # Not by the library, which would copy it for each client
            self.send(framed)

    def _note(self, event: Fired) -> None:
        if self._info is None or not self._ready or self._closing:
            return
        if self._info.heard(event.tag, event.data) and "tell" not in self._calls:
            self._later("tell", PAUSE, self._tell_soon)

    def _tell_soon(self) -> None:
        # However many clients are told, they share the turns of the reactor
        self._soon("tell", self._tell)

    def _tell(self) -> None:
        if self._info is not None and not self._closing:
            for value in self._info.tell():
                self._hub.show("", value, [self._listener])

    def _ping(self) -> None:
        if not self._closing:
            self._speaker.sendPing()
            self._later("ping", PING, self._ping)

    # -- the end

    def end(self, stopping: bool = False) -> None:
        """Nothing more comes."""
        if stopping:
            self._close(GOING_AWAY, b"The master stops")
        else:
            self._close(POLICY, b"The session has ended")

    def cut(self) -> None:
        """The client does not read: its waiting events are discarded."""
        if not self._over:
            self._release()
            self._channel.transport.abortConnection()

    def _close(self, code: int, reason: bytes) -> None:
        if not self._closing and not self._over:
            self._speaker.sendCloseFrame(code, reason)

    def closing(self) -> None:
        """A close frame is on its way: the client has a moment for its own."""
        if not self._closing:
            self._closing = True
            self._hub.remove(self._listener)
            self._later("finish", GOODBYE, self.finish)

    def finish(self) -> None:
        """Disconnect when everything written has been sent."""
        if not self._over:
            self._outlet.flush()
            self._release()
            self._channel.hang_up()

    def _release(self) -> None:
        self._over = self._deaf = self._closing = True
        self._input.clear()
        self._hub.remove(self._listener)
        self._outlet.stopProducing()
        for call in self._calls.values():
            call.cancel()
        self._calls.clear()

    def _gone(self, result: Any) -> None:
        if not self._over:
            self._release()
        self._speaker.connectionLost(result)

    def _later(self, name: str, seconds: float, function: Callable[[], None]) -> None:
        self._calls[name] = self._reactor.callLater(seconds, self._call, name, function)

    def _soon(self, name: str, function: Callable[[], None]) -> None:
        """In a turn that all who have something to do share."""
        self._calls[name] = self._turns.later(lambda: self._call(name, function))

    def _call(self, name: str, function: Callable[[], None]) -> None:
        del self._calls[name]
        function()


def _speaker(reactor: Any) -> Speaker:
    factory = WebSocketServerFactory(server=SERVER.decode(), reactor=reactor)
    factory.setProtocolOptions(
        versions=[13],
        webStatus=False,
        allowNullOrigin=True,
        failByDrop=False,
        maxFramePayloadSize=LONGEST,
        maxMessagePayloadSize=LONGEST,
        # These would be calls of a reactor that nobody has named
        openHandshakeTimeout=0,
        closeHandshakeTimeout=0,
    )
    speaker = Speaker()
    speaker.factory = factory
    return speaker


def begin(
    reactor: Any,
    request: Any,
    hub: Hub,
    eyes: Eyes,
    look: Callable[[], Awaitable[Eyes | None]],
    key: str,
    formatted: bool,
    counters: Counter[str],
) -> None:
    """
    Talk to a client.

    @raises Problem: too many listen.
    """
    Talk(reactor, request, hub, eyes, look, formatted, counters).begin(key)
