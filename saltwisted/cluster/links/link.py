"""
One link to one peer: ordered words, large bodies, and a sign of life.

A link is two TLS connections that live and die together: AMP for small messages, and a bulk
connection for bodies above 32 KiB, so that ten thousand keys for a joining node never delay a
return. The handshake has established the peer's identity (L{saltwisted.transports.tls}); nothing
that the peer says can change it. L{saltwisted.cluster.links.peers} decides which nodes are dialled,
and when.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred, fail, maybeDeferred
from twisted.internet.interfaces import IDelayedCall, IPushProducer
from twisted.internet.protocol import Protocol, connectionDone
from twisted.logger import Logger
from twisted.protocols import amp
from twisted.python.failure import Failure
from zope.interface import implementer

from saltwisted import __version__
from saltwisted.cluster.links.arrivals import Arrivals
from saltwisted.cluster.links.asked import Asked
from saltwisted.cluster.links.commands import (
    BULK_HEAD,
    INLINE,
    MAX_BODY,
    MAX_WAITING,
    MOST_ASKED,
    MOST_CONTAINERS,
    MOST_FIELDS,
    NO_BULK,
    VERSION,
    Ask,
    Hello,
    PeerRefused,
    Ping,
    Tell,
)
from saltwisted.errors import RemoteError, SaltwistedError, TransportClosed, WireError
from saltwisted.interfaces import IPeerLink
from saltwisted.transports.deferreds import as_deferred, let_go
from saltwisted.transports.reasons import why
from saltwisted.transports.ticks import next_tick
from saltwisted.transports.tls import Session
from saltwisted.transports.turns import Line, LongLine
from saltwisted.wire.decoding import counting

ANSWER_TIME = 10.0
"""Seconds that a question may take, unless its asker says otherwise."""
QUIET = 3.0
"""Seconds without a byte from the peer after which it is asked whether it is there."""
DEAD = 10.0
"""Seconds without a byte after which the link is given up."""
LAST_WORDS = 1.0
"""Seconds for what a peer has said before it hung up."""
_SLICE = 64 * 1024
_FED = 4 * 1024
"""Bytes of boxes that are taken apart in one step."""
_LAST = 1024 * 1024
"""Bytes of large bodies that are looked at, at once, when the peer has hung up."""

Answer = Callable[[str, bytes], Any]
"""C{handler(node, body)}: bytes, C{None}, or a Deferred or coroutine of one."""


@implementer(IPushProducer)
class Bulk(Protocol):
    """The bulk connection: numbered bodies, in slices, as fast as the peer reads."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._out: deque[memoryview] = deque()
        self._paused = True
        self._head = bytearray()
        self._number = self._missing = 0
        self._body: BytesIO | None = None
        self._writing = False
        self.waiting = 0
        self.hurry: IDelayedCall | None = None
        self.ended = False

    def connectionMade(self) -> None:
        """Send what waited for us."""
        transport: Any = self.transport
        transport.setTcpNoDelay(True)
        transport.registerProducer(self, True)
        self.resumeProducing()

    def send(self, number: int, body: bytes, tail: bytes | memoryview = b"") -> None:
        """Queue one body, and what follows it: long ones are not copied."""
        size = len(body) + len(tail)
        self._out.append(memoryview(BULK_HEAD.pack(number, size)))
        self._out += (memoryview(part) for part in (body, tail) if part)
        self.waiting += size
        if not self._paused:
            self.resumeProducing()

    def resumeProducing(self) -> None:
        """Write slices until the transport has enough."""
        self._paused = False
        if self._writing:
            return
        self._writing = True
        try:
            while self._out and not self._paused:
                piece = self._out.popleft()
                if len(piece) > _SLICE:
                    self._out.appendleft(piece[_SLICE:])
                    piece = piece[:_SLICE]
                self.waiting -= min(self.waiting, len(piece))
                self.transport.write(bytes(piece))  # type: ignore[union-attr]
        finally:
            self._writing = False
        if self.waiting <= MAX_BODY:
            self._link.resume()

    def clear(self) -> None:
        """The link has ended: waiting bodies are not sent."""
        self._out.clear()
        self.waiting = 0

    def hold(self, stands: bool) -> None:
        """Read no more while bodies wait to be looked at."""
        transport: Any = self.transport
        if transport is not None and not self.ended:
            (transport.pauseProducing if stands else transport.resumeProducing)()

    def pauseProducing(self) -> None:
        """The peer does not keep up."""
        self._paused = True

    def stopProducing(self) -> None:
        """The connection is gone; L{connectionLost} is called too."""
        self._paused = True

    def dataReceived(self, data: bytes) -> None:
        """Collect bodies; one that is too large ends the link by its head alone."""
        self._link.note_life()
        rest = memoryview(data)
        while rest:
            if self._body is None:
                lacking = BULK_HEAD.size - len(self._head)
                self._head += rest[:lacking]
                rest = rest[lacking:]
                if len(self._head) < BULK_HEAD.size:
                    return
                self._number, self._missing = BULK_HEAD.unpack(self._head)
                if self._missing > MAX_BODY:
                    self._link.close("an oversized body")
                    return
                self._head.clear()
                # What it has grown to is what it gives: megabytes are not copied once more
                self._body = BytesIO()
            piece = rest[: self._missing]
            self._body.write(piece)
            self._missing -= len(piece)
            rest = rest[len(piece) :]
            if not self._missing:
                body, self._body = self._body.getvalue(), None
                self._link.arrivals.body(self._number, body)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Without it the link is not a link."""
        _no_hurry(self)
        # It may take a second until the link ends, which hangs up on what it has
        self._paused, self.transport, self.ended = True, None, True
        # A peer that hangs up hangs up both: its last words may still stand in line
        self._link.wire.after_last_words(lambda: self._link.close("the bulk connection was lost"))


@implementer(IPushProducer)
class Wire(amp.AMP):
    """
    The AMP side of a link: three commands, and the detection of a peer that does not read.

    One read may bring a hundred boxes. They are processed in turns of the reactor, and while some
    wait, no more is read.
    """

    def __init__(self, link: Link, clock: Any) -> None:
        self._link = link
        self.hurry: IDelayedCall | None = None
        self._clock = clock
        self._end: IDelayedCall | None = None
        self._boxes: Line[amp.Box] = Line(clock, self._take, self._hold)
        self._pieces: LongLine[bytes] = LongLine(clock, self._feeding, self._hold)
        self._held = False
        super().__init__()

    def connectionMade(self) -> None:
        """TLS is done and the peer is known."""
        super().connectionMade()
        transport: Any = self.transport
        transport.setTcpNoDelay(True)
        transport.registerProducer(self, True)
        self._link.connected()

    def dataReceived(self, data: bytes) -> None:
        """Every byte is a sign of life."""
        self._link.note_life()
        if len(data) <= _FED and not self._pieces.rests:
            super().dataReceived(data)
        else:
            self._pieces.put(data)

    def _feeding(self, data: bytes) -> Iterator[None]:
        """Take boxes out of what came; there may be a thousand in it."""
        for at in range(0, len(data), _FED):
            super().dataReceived(data[at : at + _FED])
            yield

    def proto_key(self, string: bytes) -> str | None:
        """A field begins, or a box ends; one that has too many fields ends the link."""
        box = self._currentBox
        if string and box is not None and len(box) >= MOST_FIELDS:
            self._link.close("a message of too many fields")
            # What follows is not looked at
            self.forget()
            return "forgotten"
        state: str | None = super().proto_key(string)
        return state

    def proto_forgotten(self, string: bytes) -> str:
        """The link is closed."""
        return "forgotten"

    def tell(self, word: str, body: bytes, bulk: int) -> None:
        """
        A L{Tell}. Most of what nodes say are these, and nobody waits for an answer: they are made
        and read without what AMP does for each command.
        """
        said = {b"word": word.encode(), b"body": body, b"bulk": b"%d" % bulk}
        self.sendBox(amp.Box({amp.COMMAND: Tell.commandName, **said}))

    def ampBoxReceived(self, box: amp.Box) -> None:
        """A command or an answer; the order of all is that in which they came."""
        self._boxes.put(box)

    def _take(self, box: amp.Box) -> None:
        try:
            if box.get(amp.COMMAND) == Tell.commandName:
                word = box[b"word"].decode("ascii", "replace")
                self._link.told(word, box[b"body"], int(box[b"bulk"]))
            else:
                super().ampBoxReceived(box)
        except (amp.NoEmptyBoxes, KeyError, ValueError):
            self._link.close("a message that is neither a command nor an answer")

    def _hold(self, stands: bool) -> None:
        """Read no more while something waits."""
        transport: Any = self.transport
        holds = self._boxes.rests or self._pieces.rests
        if transport is not None and holds != self._held:
            self._held = holds
            (transport.pauseProducing if holds else transport.resumeProducing)()

    def after_last_words(self, end: Callable[[], None]) -> None:
        """Fires when no message of the peer waits any more, or its time is over."""
        rests = self._boxes.rests or self._pieces.rests
        if rests and self._end is None:
            self._end = self._clock.callLater(LAST_WORDS, end)
        elif not rests:
            end()

    def _no_end(self) -> None:
        if self._end is not None and self._end.active():
            self._end.cancel()

    def forget(self) -> None:
        """Discard all waiting messages of the peer."""
        self._pieces.stop()
        self._boxes.stop()
        self._no_end()

    def pauseProducing(self) -> None:
        """The peer does not keep up: words wait with the link."""
        self._link.paused = True

    def resumeProducing(self) -> None:
        """Go on."""
        self._link.paused = False
        self._link.resume()

    def stopProducing(self) -> None:
        """The connection is gone."""

    @Hello.responder
    def hello(self, version: int, cluster: str, release: str) -> dict[str, Any]:
        """The peer dialled us and says which protocol it speaks."""
        return self._link.greeted(version, cluster, release)

    @Ask.responder
    def ask(self, word: bytes, body: bytes, bulk: int) -> Deferred[dict[str, Any]]:
        """A question."""
        return self._link.asked(word.decode("ascii", "replace"), body, bulk)

    @Ping.responder
    def ping(self) -> dict[str, Any]:
        """Here."""
        return {}

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Both connections end together; messages that arrived before that count."""
        self._pieces.drain()
        self._boxes.drain()
        self._link.last_words()
        self._no_end()
        super().connectionLost(reason)
        _no_hurry(self)
        self._link.close("the connection was lost")


@frozen(eq=False)
class _Large:
    """A body that is looked at before it is handled."""

    word: str
    body: bytes
    then: Callable[[bytes], None]


class Link:
    """
    A link from its handshake to its end.

    @param clock: timers.
    @param dialled: whether we dialled it.
    @param answers: word to handler, shared with all links.
    @param owner: gets C{link_up(link)} and C{link_down(link, reason)}; provides C{cluster} (the uid
        that both sides must share) and opens the bulk connection (C{open_bulk(link)}).
    """

    log = Logger()

    def __init__(
        self,
        clock: Any,
        node: str,
        session: Session,
        dialled: bool,
        answers: dict[str, Answer],
        owner: Any,
        name: bytes = b"",
        address: str = "",
    ) -> None:
        self.node = node
        self.address = address
        self.session = session
        self.dialled = dialled
        self.name = name
        self.paused = False
        self.up = False
        self.closed = ""
        self.release = ""
        self.since = 0.0
        self.wire = Wire(self, clock)
        self.bulk = Bulk(self)
        self._clock = clock
        self._answers = answers
        self._owner = owner
        self._heard = clock.seconds()
        self._timer: Any = None
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self._waiting_bytes = 0
        self._last_number = 0
        self.arrivals = Arrivals(self.close)
        self._judged: LongLine[_Large] = LongLine(clock, self._judging, self.bulk.hold)
        self._large: dict[str, deque[_Large]] = {}
        self._large_bytes = 0
        self._answering = 0
        self._unread = 0
        self._asked = Asked(clock, node)
        self._streams: list[Any] = []

    # From the users of the link

    @property
    def queued(self) -> int:
        """Bytes that wait because the peer does not read them."""
        return self._waiting_bytes + self.bulk.waiting

    def tell(self, word: str, body: bytes, tail: bytes | memoryview = b"") -> None:
        """
        Send a word; it arrives after all words of this name that were sent before, or never.

        @param tail: follows the body.
        """
        if self.closed:
            return

        def send() -> None:
            inline, bulk = self._body(body, tail)
            self.wire.tell(word, inline, bulk)

        self._send(len(body) + len(tail), send)

    def ask(self, word: str, body: bytes, timeout: float = ANSWER_TIME) -> Deferred[bytes]:
        """
        Send a word and wait for the body that answers it.

        @return: fails with L{RequestTimeout}, L{TransportClosed}, or L{RemoteError} with the
            reason when the peer refuses or fails.
        """
        if self.closed:
            return fail(TransportClosed(f"no link to {self.node}: {self.closed}"))
        number, answer = self._asked.begin(word, timeout)

        def send() -> None:
            if number not in self._asked:
                return
            inline, bulk = self._body(body)
            d = self.wire.callRemote(Ask, word=word.encode(), body=inline, bulk=bulk)
            d.addCallback(lambda got: self._answered(number, got))
            d.addErrback(lambda failure: self._failed(number, failure))

        self._send(len(body), send)
        return answer

    def carries(self, stream: Any) -> None:
        """A stream of its own connection belongs to this link: it ends with it at the latest."""
        self._streams = [*self._open_streams(), stream]

    def _open_streams(self) -> list[Any]:
        return [stream for stream in self._streams if not getattr(stream, "closed", False)]

    def close(self, reason: str, polite: bool = False) -> None:
        """
        End both connections, and those of the streams; pending requests fail.

        @param polite: whether to send waiting words first, unless that takes longer than a second.
        """
        if self.closed:
            return
        self.closed = reason
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._waiting.clear()
        self._waiting_bytes = 0
        self.bulk.clear()
        self.arrivals.clear()
        self._judged.stop()
        self._large.clear()
        if not polite:
            self.wire.forget()
        for protocol in (self.wire, self.bulk):
            transport: Any = protocol.transport
            if transport is not None and polite:
                transport.unregisterProducer()
                transport.loseConnection()
                protocol.hurry = self._clock.callLater(1.0, transport.abortConnection)
            elif transport is not None:
                transport.abortConnection()
        self._asked.lost(reason)
        was_up, self.up = self.up, False
        self._owner.link_down(self, reason, was_up)
        for stream in self._open_streams():
            if stream.transport is not None:
                stream.transport.abortConnection()
        self._streams.clear()

    # The greeting

    def connected(self) -> None:
        """The AMP connection stands: the dialling side greets."""
        self._timer = self._clock.callLater(next_tick(self._clock, QUIET), self._watch)
        if self.dialled:
            d = self.wire.callRemote(
                Hello, version=VERSION, cluster=self._owner.cluster, release=__version__
            )
            d.addCallbacks(self._welcomed, lambda failure: self.close(why(failure)))
            let_go(d, self.log, "the greeting of {node} failed", node=self.node)

    def greeted(self, version: int, cluster: str, release: str) -> dict[str, Any]:
        """
        The peer has dialled us.

        @raises Refused: another cluster or another protocol.
        """
        if self.dialled or self.up:
            raise PeerRefused("one greeting is enough")
        _judge(version, cluster, self._owner.cluster)
        self.release = release[:64]
        # Words must follow this answer: they are sent when it is on its way
        self._clock.callLater(0, self._come_up)
        return {
            "version": VERSION,
            "cluster": self._owner.cluster,
            "release": __version__,
            "link": self.name,
        }

    def _welcomed(self, answer: dict[str, Any]) -> None:
        try:
            _judge(answer["version"], answer["cluster"], self._owner.cluster)
        except PeerRefused as error:
            self.close(str(error))
            return
        self.name = answer["link"][:16]
        self.release = answer["release"][:64]
        self._come_up()
        if not self.closed:
            self._owner.open_bulk(self)

    def _come_up(self) -> None:
        if not self.closed:
            self.up = True
            self.since = self._clock.seconds()
            self._owner.link_up(self)

    # Signs of life

    def note_life(self) -> None:
        """Something came."""
        self._heard = self._clock.seconds()

    @property
    def silence(self) -> float:
        """Seconds since something came."""
        return float(self._clock.seconds() - self._heard)

    def _watch(self) -> None:
        silence = self.silence
        if silence >= DEAD:
            self.close(f"no sign of life for {silence:.0f} s")
            return
        if silence >= QUIET:
            d = self.wire.callRemote(Ping)
            d.addErrback(lambda failure: None)
        self._timer = self._clock.callLater(next_tick(self._clock, QUIET), self._watch)

    # Out

    def _body(self, body: bytes, tail: bytes | memoryview = b"") -> tuple[bytes, int]:
        size = len(body) + len(tail)
        if size <= INLINE:
            return body + tail, NO_BULK
        if size > MAX_BODY:
            raise ValueError(f"a body of {size} bytes; {MAX_BODY} at most")
        self._last_number += 1
        self.bulk.send(self._last_number, body, tail)
        return b"", self._last_number

    def _send(self, size: int, send: Callable[[], None]) -> None:
        if self.paused or self._waiting or self.bulk.waiting > MAX_BODY:
            self._waiting.append((size, send))
            self._waiting_bytes += size + 64
            if self.queued > MAX_WAITING:
                self.close("it does not read what this node sends")
        else:
            send()

    def resume(self) -> None:
        """The peer reads again: send what waits, until it stops."""
        self._unread = 0 if not self.paused else self._unread
        while self._waiting and not (self.paused or self.closed or self.bulk.waiting > MAX_BODY):
            size, send = self._waiting.popleft()
            self._waiting_bytes -= size + 64
            send()

    # In

    def told(self, word: str, body: bytes, bulk: int) -> None:
        """A word came; give it to its handler when its turn has come."""

        def handle(whole: bytes) -> None:
            d = self._handle(word, whole)
            d.addErrback(self._grumble, word)  # type: ignore[unused-awaitable]

        self.arrivals.word(word, bulk, body, lambda whole: self._judge(word, whole, handle))

    def asked(self, word: str, body: bytes, bulk: int) -> Deferred[dict[str, Any]]:
        """A question came; the answer goes back when its handler has it."""
        done: Deferred[dict[str, Any]] = Deferred()
        if self._answering >= MOST_ASKED:
            return fail(PeerRefused("too many questions at once"))
        self._answering += 1

        def handle(whole: bytes) -> None:
            d = self._handle(word, whole)
            packed = d.addCallbacks(self._pack_answer, lambda f: self._refuse(f, word))
            packed.addCallbacks(done.callback, done.errback)  # type: ignore[unused-awaitable]

        def answered(value: Any) -> Any:
            self._answering -= 1
            return value

        name = "?" + word
        self.arrivals.word(name, bulk, body, lambda whole: self._judge(name, whole, handle))
        return done.addBoth(answered)

    def _judge(self, word: str, body: bytes, then: Callable[[bytes], None]) -> None:
        """
        Handle a body now, or look first whether it may be unpacked. Words of one name stay in
        order.
        """
        waiting = self._large.get(word)
        if waiting is None and len(body) <= MOST_CONTAINERS:
            then(body)
            return
        large = _Large(word, body, then)
        self._large.setdefault(word, deque()).append(large)
        self._large_bytes += len(body)
        if self._large_bytes > MAX_WAITING:
            self.close("more than this node can look at")
        else:
            self._judged.put(large)

    def _judging(self, large: _Large) -> Iterator[None]:
        """
        The steps of a look at a large body. Most are long texts, and are seen to be good by the
        first of them.
        """
        try:
            yield from counting(large.body, MOST_CONTAINERS)
        except WireError:
            self.close("a body of too many parts")
            return
        self._large_bytes -= len(large.body)
        waiting = self._large.get(large.word)
        if waiting is not None and waiting[0] is large:
            waiting.popleft()
            if not waiting:
                del self._large[large.word]
            large.then(large.body)

    def last_words(self) -> None:
        """The peer has hung up; what it said before is handled, unless that would take long."""
        if self._large_bytes <= _LAST:
            self._judged.drain()

    def _handle(self, word: str, body: bytes) -> Deferred[Any]:
        handler = self._answers.get(word)
        if handler is None:
            return fail(PeerRefused(f"no handler on this node for {word[:50]!r}"))
        d = maybeDeferred(handler, self.node, body)
        return d.addCallback(lambda got: as_deferred(got) if hasattr(got, "__await__") else got)

    def _pack_answer(self, got: Any) -> dict[str, Any]:
        inline, bulk = self._body(got or b"")
        if self.paused:
            self._unread += len(inline) + 64
        if self.queued + self._unread > MAX_WAITING:
            # It asks, and does not read what it is answered
            self.close("it does not read what this node answers")
        return {"body": inline, "bulk": bulk}

    def _refuse(self, failure: Failure, word: str) -> Failure:
        if failure.check(PeerRefused) is not None:
            return failure
        if failure.check(SaltwistedError) is not None:
            return Failure(PeerRefused(str(failure.value)[:1000]))
        self.log.failure("{word} from {node} failed", failure=failure, word=word, node=self.node)
        return Failure(PeerRefused("it failed; the log of that node says more"))

    def _grumble(self, failure: Failure, word: str) -> None:
        self.log.failure("{word} from {node} failed", failure=failure, word=word, node=self.node)

    # Answers to our questions

    def _answered(self, number: int, got: dict[str, Any]) -> None:
        # A name of its own for each answer: they need no order
        name = f"={number}"
        self.arrivals.word(
            name,
            got["bulk"],
            got["body"],
            lambda whole: self._judge(name, whole, lambda body: self._asked.answered(number, body)),
        )

    def _failed(self, number: int, failure: Failure) -> None:
        refused = failure.check(PeerRefused) is not None
        self._asked.failed(
            number,
            RemoteError("PeerError", f"{self.node}: {failure.value}")
            if refused
            else TransportClosed(f"the link to {self.node} was lost: {why(failure)}"),
        )


_Link: type[IPeerLink] = Link  # mypy compares them


def _judge(version: int, cluster: str, ours: str) -> None:
    """@raises PeerRefused: the peer speaks another protocol, or is of another cluster than ours."""
    if version != VERSION:
        raise PeerRefused(f"peer protocol {version} here, {VERSION} there: update the older node")
    if cluster != ours:
        raise PeerRefused("another cluster")


def _no_hurry(protocol: Bulk | Wire) -> None:
    """A connection that was to be closed politely is gone in time."""
    if protocol.hurry is not None and protocol.hurry.active():
        protocol.hurry.cancel()
