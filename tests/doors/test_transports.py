"""
What the ports for minions cost, by each transport: generated input from 1 KiB to the most that a
port accepts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.doors import DOORS, KIB, MIB, PUBLICATIONS_TCP, REQUESTS_TCP
from saltwisted.errors import WireError
from saltwisted.transports.tcp import framed, publisher, server
from saltwisted.transports.tcp.publisher import TcpPublishServer
from saltwisted.transports.tcp.server import TcpRequestServer
from saltwisted.wire.frames import FrameReader, encode_frame, wrap_frame
from saltwisted.wire.msgpack import pack
from tests.doors import shapes
from tests.doors.measure import Turned, assert_linear, peak, slack

SIZES = (KIB, 16 * KIB)
LARGEST = (256 * KIB, 4 * MIB)
KINDS = (
    "an array of 0x80",
    "maps in keys within each other, 1073741824 deep",
    "maps of 500 integers that follow one chain",
    "a map of texts",
    "one text",
)
"""What others are like: nothing of a large body is decoded but where it ends."""
STEP = 64 * KIB
"""What a reactor reads at once."""
TINY = wrap_frame(b"\xc0")
"""The shortest frame."""
LONGEST = 0.005
"""Seconds of CPU of one turn."""


class Wire(StringTransport):
    """The transport of one connection, without a socket."""

    def __init__(self, protocol: Any) -> None:
        super().__init__()
        self.aborted = False
        self.protocol = protocol
        protocol.makeConnection(self)

    def setTcpNoDelay(self, enabled: bool) -> None:
        """Of no importance here."""

    def setTcpKeepAlive(self, enabled: bool) -> None:
        """Of no importance here."""

    def getHandle(self) -> None:
        """There is no socket."""

    def abortConnection(self) -> None:
        """The other side has had enough."""
        if not self.aborted:
            self.aborted = True
            self.protocol.connectionLost()


def in_steps(data: bytes) -> Callable[[], list[Any]]:
    """Reads it as the request port does."""

    def read() -> list[Any]:
        reader = FrameReader(REQUESTS_TCP.request, views=True)
        try:
            return [
                f for at in range(0, len(data), STEP) for f in reader.feed(data[at : at + STEP])
            ]
        except WireError:
            return []

    return read


class RowTests(SynchronousTestCase):
    """The rows."""

    def test_rows(self) -> None:
        """Both ports have a row for each transport, and the code takes its limits from them."""
        for port in ("requests", "publications"):
            for transport in ("zeromq", "tcp", "tls"):
                self.assertIn(f"{port}-{transport}", DOORS)
        self.assertEqual(server.UNFINISHED + server.MOST_HELD, REQUESTS_TCP.memory_all)
        self.assertEqual(server.MAX_REQUEST, REQUESTS_TCP.request)
        self.assertEqual(publisher.HELLO_BYTES, PUBLICATIONS_TCP.request)
        self.assertEqual(publisher.QUEUED_BYTES, PUBLICATIONS_TCP.memory_all)


class FrameTests(SynchronousTestCase):
    """The frames of C{transport: tcp}."""

    def test_bodies(self) -> None:
        """Large frames of any shape cost in proportion to their bytes (T-COST-1)."""
        for name, make in shapes.msgpack_values():
            if name not in KINDS:
                continue
            assert_linear(
                self,
                name,
                lambda size, make=make: in_steps(wrap_frame(make(size))),
                lambda read: read(),
                LARGEST,
                per_kib=REQUESTS_TCP.per_kib,
            )

    def test_large_heads(self) -> None:
        """A large head, or a large frame of any other form, is never decoded (T-COST-1)."""
        for data in (
            encode_frame(1, {"a": [{}] * MIB}),
            pack({"body": 1, "head": [{}] * MIB}),
            pack({"body": 1, "more": [{}] * MIB, "head": {}}),
            pack([{}] * MIB),
        ):
            reader = FrameReader(REQUESTS_TCP.request, views=True)
            # The bytes, the walker's, those that are cut off; and none of a million maps
            self.assertLess(peak(lambda r=reader, d=data: self._refused(r, d)), 6 * len(data))

    def _refused(self, reader: FrameReader, data: bytes) -> None:
        self.assertRaises(WireError, reader.feed, data)

    def test_in_pieces(self) -> None:
        """A frame that comes by a few bytes costs in proportion to them (T-COST-1)."""

        def read(data: bytes) -> None:
            reader = FrameReader(REQUESTS_TCP.request, views=True)
            for at in range(0, len(data), 16):
                reader.feed(data[at : at + 16])

        for one in (lambda n: b"x" * n, lambda n: [{}] * n):
            assert_linear(
                self,
                "pieces",
                lambda n, one=one: wrap_frame(pack(one(n))),
                read,
                SIZES,
            )


class TurnTests(SynchronousTestCase):
    """Many frames in one segment."""

    def setUp(self) -> None:
        self.clock = Turned()
        self.answered = 0

    def handle(self, frame: Any, peer: str, reply: Any) -> None:
        """Answer at once, as junk is answered."""
        self.answered += 1
        reply(b"\xc0")

    def test_tiny_frames(self) -> None:
        """A segment of thousands of frames is served in many short turns (T-COST-1)."""
        port = TcpRequestServer(self.clock)
        port._handler = self.handle
        wire = Wire(server._Asking(port))
        segment = TINY * (STEP // len(TINY))
        self.clock.measure(lambda: wire.protocol.dataReceived(segment))
        self.assertEqual(wire.producerState, "paused")
        self.assertGreater(wire.protocol._reader.unread, 0)
        self.clock.settle()

        self.assertEqual((self.answered, wire.producerState), (STEP // len(TINY), "producing"))
        self.assertGreater(self.clock.turns, 3)
        self.assertLess(self.clock.longest, LONGEST * slack())
        self.assertEqual((port.unanswered, port.room.size, wire.aborted), (0, 0, False))
        wire.abortConnection()

    def test_frames_behind_open_ones(self) -> None:
        """
        What a client sends while many of its requests are open stays as it came, counts as
        unfinished, and is served when they are answered, one after another and not one within
        another (T-MEM-1).
        """
        port = TcpRequestServer(self.clock)
        held: list[Any] = []

        def handle(frame: Any, peer: str, reply: Any) -> None:
            if len(held) < port.per_client:
                held.append(reply)
            else:
                self.handle(frame, peer, reply)

        port._handler = handle
        wire = Wire(server._Asking(port))
        count = STEP // len(TINY)
        wire.protocol.dataReceived(TINY * count)
        self.clock.settle()
        self.assertEqual((len(held), len(wire.protocol._waiting)), (64, 1))
        self.assertEqual(port.room.size, server.COPIES * len(TINY) * (count - 65))
        self.assertEqual(wire.producerState, "paused")
        self.clock.advance(10 * framed.FRAME_TIME)
        held[0](b"\xc0")
        self.clock.settle()

        self.assertEqual((self.answered, wire.aborted), (count - 64, False))
        self.assertLess(self.clock.longest, LONGEST * slack())
        self.assertEqual((port.room.size, wire.producerState), (0, "producing"))
        for reply in held[1:]:
            reply(b"\xc0")
        wire.abortConnection()

    def test_tiny_hellos(self) -> None:
        """So is a segment of them at the publish port (T-COST-1)."""
        port = TcpPublishServer(self.clock, who=self.who)
        wire = Wire(port._build())
        count = STEP // len(TINY)
        self.clock.measure(lambda: wire.protocol.dataReceived(TINY * count))
        self.clock.settle()

        self.assertEqual((port.counters["unknown"], wire.producerState), (count, "producing"))
        self.assertGreater(self.clock.turns, 3)
        self.assertLess(self.clock.longest, LONGEST * slack())
        wire.abortConnection()

    def who(self, body: Any) -> None:
        """Nobody."""


class StreamTests(SynchronousTestCase):
    """Who is slow, and how many there may be."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.port = TcpRequestServer(self.clock)
        self.port._handler = lambda frame, peer, reply: reply(b"\xc0")

    def asking(self) -> Wire:
        """One client."""
        return Wire(server._Asking(self.port))

    def test_slow_line(self) -> None:
        """A large request on a slow line arrives, however long it takes, if it gets on."""
        wire = self.asking()
        data = wrap_frame(pack(b"x" * 4 * MIB))
        for at in range(0, len(data), 20 * KIB):
            wire.protocol.dataReceived(data[at : at + 20 * KIB])
            self.clock.advance(10)

        self.assertFalse(wire.aborted)
        self.assertIn(b"\xc0", wire.value())
        wire.abortConnection()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_strangers(self) -> None:
        """Large requests of strangers that do not end have one bound for all (T-MEM-1)."""
        wires = [self.asking() for _ in range(20)]
        begun = wrap_frame(b"") + b"\xdb\x07\x00\x00\x00"
        for wire in wires:
            wire.protocol.dataReceived(begun)

        def send() -> None:
            for _ in range(9 * MIB // STEP):
                for wire in wires:
                    wire.protocol.dataReceived(b"x" * STEP)

        # The walker asks for twice of what it needs, and never touches the rest
        self.assertLess(peak(send), 2 * server.UNFINISHED // 3)
        self.assertEqual(sum(wire.aborted for wire in wires), 13)
        self.assertLessEqual(self.port.room.size, server.UNFINISHED // 3)
        for wire in wires:
            wire.abortConnection()
        self.assertEqual(self.port.room.size, 0)

    def test_silent(self) -> None:
        """Beyond the number of connections, those go that never sent a request (T-MEM-1)."""
        self.port._listening.most = 5
        good = self.asking()
        good.protocol.dataReceived(wrap_frame(b"\xc0"))
        wires = [self.asking() for _ in range(10)]

        self.assertEqual([wire.aborted for wire in wires], [True] * 6 + [False] * 4)
        self.assertFalse(good.aborted)
        self.assertEqual(self.port._listening._count, 5)
        for wire in [good, *wires]:
            wire.abortConnection()
        self.assertEqual((self.port._listening._count, self.port._listening._silent), (0, {}))

    def test_half_a_handshake(self) -> None:
        """With TLS, a handshake has ten seconds, at both ports (T-MEM-1)."""
        asking = TcpRequestServer(self.clock, tls=object())
        hearing = TcpPublishServer(self.clock, tls=object())
        for build in (lambda: server._Asking(asking), hearing._build):
            slow, quick = Wire(build()), Wire(build())
            self.clock.advance(framed.HANDSHAKE_TIME - 1)
            quick.protocol.handshakeCompleted()
            self.assertFalse(slow.aborted)
            self.clock.advance(1)
            self.assertEqual((slow.aborted, quick.aborted), (True, False))
            quick.abortConnection()

        self.assertEqual(self.clock.getDelayedCalls(), [])


class ReaderTests(SynchronousTestCase):
    """Subscribers that do not read."""

    def test_long_publications(self) -> None:
        """
        A long publication is copied for no subscriber, but in pieces as it reads: five hundred
        who do not read cost little more than the publication itself (T-MEM-1).
        """
        clock = Clock()
        port = TcpPublishServer(clock)
        wires = []
        for _ in range(500):
            wire = Wire(port._build())
            write = wire.write

            def full(data: bytes, wire: Wire = wire, write: Any = write) -> None:
                write(data)
                wire.protocol.pauseProducing()

            wire.write = full  # type: ignore[method-assign]
            wires.append(wire)
        payload = b"x" * (4 * MIB)

        self.assertLess(peak(lambda: port.publish(payload)), 60 * MIB)
        self.assertEqual(len(wires[0].value()), publisher.PIECE)
        last = wires[0]
        while last.protocol._queue:
            last.protocol.resumeProducing()
        self.assertEqual(last.value(), encode_frame(payload))
        clock.advance(publisher.DRAIN_TIME + 1)
        port._look()
        self.assertEqual(sum(wire.aborted for wire in wires), 500)
        self.assertEqual(port.dropped, 500)

    def test_order(self) -> None:
        """Short and long publications, and signs of life, come whole and in their order."""
        port = TcpPublishServer(Clock())
        wire = Wire(port._build())
        port.publish(b"a")
        wire.protocol.pauseProducing()
        for payload in (b"b", b"c" * 200_000, b"d"):
            port.publish(payload)
        self.assertEqual(wire.value(), encode_frame(b"a"))
        wire.protocol.resumeProducing()

        frames = FrameReader().feed(wire.value())
        self.assertEqual([frame.body for frame in frames], [b"a", b"b", b"c" * 200_000, b"d"])
        wire.abortConnection()
