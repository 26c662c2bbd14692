"""
The connections beside a link: its bulk connection, and one connection for each stream.

The side that dialled the link dials these, too. Each begins with its purpose, and with the name
that the other side gave the link.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.interfaces import IDelayedCall
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure

from saltwisted.cluster.links.commands import ATTACH, PURPOSE_BULK
from saltwisted.cluster.links.link import Link
from saltwisted.doors import PEER_MEMBER
from saltwisted.transports.reasons import why
from saltwisted.transports.tls import Doorway, Session

FIRST_DELAY = 0.2
MOST_DELAY = 5.0
"""Seconds between two attempts to reach a member."""

StreamFactory = Callable[[str, bool], Any]
"""
Gives the protocol of a stream, for the node at its other end, and whether we dial. It has an
attribute C{closed}, which says whether its connection is gone.
"""


class Attach(Protocol):
    """
    The first 32 bytes of a bulk connection; then its purpose decides which protocol follows.

    @param find: C{find(purpose, link name)} returns the protocol, or C{None} to close the
        connection.
    """

    def __init__(self, clock: Any, find: Callable[[bytes, bytes], Any]) -> None:
        self._clock = clock
        self._find = find
        self._buffer = b""
        self._inner: Any = None
        self._timer: Any = None

    def connectionMade(self) -> None:
        """The head comes at once, or never."""
        transport: Any = self.transport
        self._timer = self._clock.callLater(PEER_MEMBER.holds, transport.abortConnection)

    def dataReceived(self, data: bytes) -> None:
        """Collect the head; the rest belongs to the protocol behind it."""
        if self._inner is not None:
            self._inner.dataReceived(data)
            return
        self._buffer += data
        if len(self._buffer) < ATTACH.size:
            return
        purpose, name = ATTACH.unpack_from(self._buffer)
        rest, self._buffer = self._buffer[ATTACH.size :], b""
        self._no_timer()
        self._inner = self._find(purpose.rstrip(b"\0"), name)
        if self._inner is None:
            self.transport.abortConnection()  # type: ignore[union-attr]
            return
        self._inner.makeConnection(self.transport)
        if rest:
            self._inner.dataReceived(rest)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Tell the protocol behind it."""
        self._no_timer()
        if self._inner is not None:
            self._inner.connectionLost(reason)

    def _no_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()


class Attached(Protocol):
    """The dialling side of L{Attach}: sends the head, then becomes the protocol of its purpose."""

    def __init__(self, head: bytes, inner: Any, lost: Callable[[], None]) -> None:
        self._head = head
        self._inner = inner
        self._lost = lost

    def connectionMade(self) -> None:
        """Send the purpose of this connection."""
        self.transport.write(self._head)  # type: ignore[union-attr]
        self._inner.makeConnection(self.transport)

    def dataReceived(self, data: bytes) -> None:
        """Pass on."""
        self._inner.dataReceived(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Pass on."""
        self._inner.connectionLost(reason)
        self._lost()


class Attachments:
    """
    The connections beside all links of this node.

    @param connect: C{connect(address, build) -> Deferred}.
    @param running: whether anything is to be dialled.
    """

    def __init__(
        self,
        reactor: Any,
        dice: Callable[[], float],
        connect: Callable[[str, Callable[[], Protocol]], Any],
        running: Callable[[], bool],
    ) -> None:
        self._reactor = reactor
        self._dice = dice
        self._connect = connect
        self._running = running
        self._streams: dict[bytes, StreamFactory] = {}
        self._names: dict[bytes, Link] = {}
        # Streams that are dialled again later, of links that live
        self._later: dict[Link, set[IDelayedCall]] = {}

    def add(self, purpose: str, factory: StreamFactory) -> bytes:
        """Each link gets a stream of this purpose from now on; its name on the wire."""
        name = purpose.encode()
        if not 0 < len(name) <= 16 or name == PURPOSE_BULK:
            raise ValueError(f"not a valid name of a stream: {purpose!r}")
        self._streams[name] = factory
        return name

    def up(self, link: Link) -> None:
        """The other side may attach connections to this link."""
        if link.name:
            self._names[link.name] = link

    def down(self, link: Link) -> None:
        """No more connections can be attached to it."""
        self._names.pop(link.name, None)
        for call in self._later.pop(link, ()):
            call.cancel()

    def open_all(self, link: Link) -> None:
        """The side that dialled a link dials its other connections, too."""
        if not link.name:
            link.close("the greeting names no link")
            return
        self._open(link, PURPOSE_BULK, link.bulk, lambda: None)
        for purpose in self._streams:
            self.open_stream(link, purpose)

    def open_stream(self, link: Link, purpose: bytes, tries: int = 0) -> None:
        """Dial a stream, and again as long as the link lives."""
        if link.closed or not self._running():
            return
        begun = self._reactor.seconds()

        def lost() -> None:
            lasted = self._reactor.seconds() - begun
            again = 0 if lasted > MOST_DELAY else tries + 1
            delay = min(MOST_DELAY, FIRST_DELAY * 1.6**again) * (0.5 + self._dice())
            if not link.closed and self._running():
                self._dial_later(delay, link, purpose, again)

        self._open(link, purpose, self._streams[purpose](link.node, True), lost)

    def _dial_later(self, delay: float, link: Link, purpose: bytes, tries: int) -> None:
        def dial() -> None:
            calls.remove(call)
            self.open_stream(link, purpose, tries)

        calls = self._later.setdefault(link, set())
        call = self._reactor.callLater(delay, dial)
        calls.add(call)

    def _open(self, link: Link, purpose: bytes, inner: Any, lost: Callable[[], None]) -> None:
        head = ATTACH.pack(purpose.ljust(16, b"\0"), link.name)

        def enter(session: Session) -> Any:
            if session.key != link.session.key or link.closed:
                return None
            if purpose != PURPOSE_BULK:
                link.carries(inner)
            return Attached(head, inner, lost)

        def gone(door: Doorway) -> None:
            if door.inner is None:
                failed("TLS failed")

        def failed(reason: str) -> None:
            if purpose == PURPOSE_BULK:
                link.close(f"no bulk connection: {reason}")
            else:
                lost()

        build = lambda: Doorway(self._reactor, enter, gone)  # noqa: E731 - two words
        d = self._connect(link.address, build)
        d.addErrback(lambda failure: failed(why(failure)))

    def find(self, session: Session, purpose: bytes, name: bytes) -> Any:
        """What a connection is that the other side has dialled; C{None} to hang up."""
        link = self._names.get(name)
        if link is None or link.session.key != session.key or link.dialled or link.closed:
            return None
        if purpose == PURPOSE_BULK:
            return link.bulk if link.bulk.transport is None and not link.bulk.ended else None
        factory = self._streams.get(purpose)
        if factory is None:
            return None
        stream = factory(link.node, False)
        link.carries(stream)
        return stream
