"""
Links between real ports on loopback: words, large bodies, order, silence, removal.

They need the reactor: TLS over TCP is what is tested.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.protocol import Protocol
from twisted.internet.task import LoopingCall
from twisted.logger import Logger, LogLevel, formatEvent
from twisted.protocols import amp
from twisted.trial.unittest import SynchronousTestCase, TestCase

from saltwisted.cluster.links import link, peers
from saltwisted.cluster.links.peers import Peers, split_address
from saltwisted.domain.replica.certificates import NodeKey
from saltwisted.errors import RemoteError, RequestTimeout, TransportClosed
from saltwisted.transports import turns
from tests.cluster.rig import PeerNode, introduce, remove, run, until


class Pair(TestCase):
    """Two nodes that know each other."""

    timeout = 30

    def setUp(self) -> None:
        """Nodes C{a} and C{b}, with their ports open."""
        authority = NodeKey.generate()
        self.a, self.b = PeerNode("a", authority), PeerNode("b", authority)
        for node in (self.a, self.b):
            node.start()
            self.addCleanup(node.stop)

    async def linked(self) -> tuple[Any, Any]:
        """Both ends of the link."""
        introduce(self.a, self.b)
        await until(lambda: self.a.link("b") and self.b.link("a"), "the link")
        ends = self.a.link("b"), self.b.link("a")
        await until(lambda: all(end.bulk.transport for end in ends), "the bulk connection")
        return ends


class AddressTests(SynchronousTestCase):
    """Addresses, which members say."""

    def test_T_PEER_8_ports(self) -> None:
        """T-PEER-8: a port that is none is the usual one, whatever digits it is written in."""
        self.assertEqual(split_address("a:4521", 4520), ("a", 4521))
        for port in ("\u00b2", "\u0664\u0665", "9" * 200, "0", "-1", "x", ""):
            for address in (f"a:{port}", f"[a]:{port}"):
                self.assertEqual(split_address(address, 4520), ("a", 4520), address)


class LogTests(Pair):
    """What the log says of members that come and go, where warnings alone are shown."""

    def setUp(self) -> None:
        """Hear what C{a} says."""
        super().setUp()
        self.said: list[str] = []
        self.patch(Peers, "log", Logger(observer=self._hear))

    def _hear(self, event: Any) -> None:
        if event["log_source"] is self.a.peers and event["log_level"] >= LogLevel.warn:
            self.said.append(formatEvent(event))

    def test_lost(self) -> Deferred[Any]:
        """A line when a member goes, with the reason, and one when it is back; none at the end."""

        async def play() -> None:
            _, theirs = await self.linked()
            self.assertEqual(self.said, [])

            theirs.close("a test")
            await until(lambda: len(self.said) == 2, "two lines")

            self.assertRegex(self.said[0], "^b is no longer connected: .*lost")
            self.assertEqual(self.said[1], "b is connected again")
            await self.a.stop()
            self.assertEqual(len(self.said), 2)

        return run(play())

    def test_never_here(self) -> Deferred[Any]:
        """A member that was never reached since the start is named once, with the reason."""
        self.patch(peers, "PATIENCE", 0.5)

        async def play() -> None:
            await self.b.stop()
            introduce(self.a, self.b)
            contact = next(iter(self.a.peers.contacts().values()))
            await until(lambda: contact.is_away and contact.tries > 4, "some tries")

            (line,) = self.said
            self.assertRegex(line, "^b cannot be reached: .*refused")

        return run(play())

    def test_silent(self) -> Deferred[Any]:
        """A member that falls silent was seen last when it last said something."""

        async def play() -> None:
            ours, _ = await self.linked()
            contact = next(iter(self.a.peers.contacts().values()))
            ours._heard -= 100.0
            ours._watch()
            await until(lambda: self.said, "the line")

            self.assertEqual(self.said[0], "b is no longer connected: no sign of life for 100 s")
            self.assertLess(contact.seen, time.time() - 99)

        return run(play())


class LinkTests(Pair):
    """What a link carries."""

    def test_words_and_answers(self) -> Deferred[Any]:
        """A question is answered, small or large; errors of the other side are told as errors."""

        async def play() -> None:
            self.b.peers.answer("echo", lambda node, body: node.encode() + b":" + body)
            self.b.peers.answer("fail", lambda node, body: 1 / 0)
            ours, _ = await self.linked()

            small = await ours.ask("echo", b"hello")
            large = await ours.ask("echo", b"x" * 3_000_000)

            self.assertEqual(small, b"a:hello")
            self.assertEqual(large, b"a:" + b"x" * 3_000_000)
            with self.assertRaises(RemoteError):
                await ours.ask("fail", b"")
            self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
            with self.assertRaises(RemoteError):
                await ours.ask("unknown", b"")

        return run(play())

    def test_in_turns(self) -> Deferred[Any]:
        """
        However many words one read brings, a turn of the reactor works on a portion of them, in
        their order; the last count too when the peer hangs up behind them, whichever of the two
        connections ends first.
        """
        self.patch(turns, "PORTION", -1.0)
        self.patch(link, "LAST_WORDS", 60.0)

        async def play() -> None:
            turn = 0

            def count() -> None:
                nonlocal turn
                turn += 1

            counting = LoopingCall(count)
            ours, theirs = await self.linked()
            got: list[tuple[int, bytes]] = []

            def row(node: str, body: bytes) -> None:
                got.append((turn, body))
                if len(got) == 20:
                    theirs.bulk.transport.abortConnection()
                    ours.close("a test", polite=True)

            self.b.peers.answer("row", row)
            self.addCleanup(counting.stop)
            counting.start(0)
            sent = [b"%d" % number for number in range(60)]

            for body in sent:
                ours.tell("row", body)
            await until(lambda: len(got) == len(sent), "all of them")

            self.assertEqual([body for _, body in got], sent)
            seen = Counter(turn for turn, _ in got[:20])
            self.assertEqual(set(seen.values()), {1})

        return run(play())

    def test_no_message(self) -> Deferred[Any]:
        """What is neither a word nor an answer ends the link, with that reason."""

        async def play() -> None:
            for box in ({amp.COMMAND: b"Tell", b"word": b"x"}, {b"odd": b"x"}):
                ours, theirs = await self.linked()
                ours.wire.sendBox(amp.Box(box))
                await until(lambda theirs=theirs: theirs.closed, "the end")
                self.assertIn("neither a command nor an answer", theirs.closed)
                await until(lambda ours=ours: ours.closed, "the other end")

        return run(play())

    def test_order(self) -> Deferred[Any]:
        """Words of one name arrive in order, also where every other goes by the bulk connection."""

        async def play() -> None:
            got: list[bytes] = []
            self.b.peers.answer("row", lambda node, body: got.append(body))
            ours, _ = await self.linked()
            sent = [
                number.to_bytes(4, "big") + os.urandom(100_000 if number % 2 else 10)
                for number in range(60)
            ]

            for body in sent:
                ours.tell("row", body)
            await until(lambda: len(got) == len(sent), "all words")

            self.assertEqual(got, sent)
            self.assertEqual(ours.queued, 0)

        return run(play())

    def test_late_answer(self) -> Deferred[Any]:
        """A question that is not answered fails in time, and the link lives on."""

        async def play() -> None:
            waiting: Deferred[bytes] = Deferred()
            self.b.peers.answer("slow", lambda node, body: waiting)
            self.b.peers.answer("echo", lambda node, body: body)
            ours, _ = await self.linked()

            with self.assertRaises(RequestTimeout):
                await ours.ask("slow", b"", timeout=0.1)
            waiting.callback(b"late")

            self.assertEqual(await ours.ask("echo", b"1"), b"1")

        return run(play())

    def test_lost_link_is_dialled_again(self) -> Deferred[Any]:
        """A link that breaks fails its questions and comes again; there is one at a time."""

        async def play() -> None:
            self.b.peers.answer("never", lambda node, body: Deferred())
            ours, theirs = await self.linked()
            asked = ours.ask("never", b"")

            theirs.close("a test")
            with self.assertRaises(TransportClosed):
                await asked
            await until(lambda: self.a.link("b") not in (None, ours), "a new link")

            await until(lambda: self.b.link("a") not in (None, theirs), "its other end")
            self.assertEqual(self.a.events, [("b", True), ("b", False), ("b", True)])

        return run(play())

    def test_removed_member_is_cut_off(self) -> Deferred[Any]:
        """Who is removed loses its link at once, and is refused in the handshake from then on."""

        async def play() -> None:
            await self.linked()

            remove(self.b, self.a)

            self.assertEqual(list(self.b.peers.links()), [])
            await until(lambda: self.b.counters["peer_strangers"] > 0, "a refused handshake")
            self.assertIsNone(self.a.link("b"))

        return run(play())

    def test_bounded_queue(self) -> Deferred[Any]:
        """A peer that does not read costs at most 64 MiB; then its link ends, and nothing else."""

        async def play() -> None:
            ours, theirs = await self.linked()
            theirs.wire.transport.pauseProducing()
            theirs.bulk.transport.pauseProducing()

            for _ in range(200):
                ours.tell("flood", bytes(1_000_000))
                if ours.closed:
                    break

            self.assertEqual(ours.closed, "it does not read what this node sends")
            self.assertEqual(ours.queued, 0)

        return run(play())

    def test_slow_reader(self) -> Deferred[Any]:
        """What waited for a peer that stopped reading arrives when it reads again."""

        async def play() -> None:
            got: list[int] = []
            self.b.peers.answer("flood", lambda node, body: got.append(len(body)))
            ours, theirs = await self.linked()
            theirs.wire.transport.pauseProducing()
            theirs.bulk.transport.pauseProducing()
            for _ in range(40):
                ours.tell("flood", bytes(1_000_000))
                ours.tell("flood", bytes(30_000))
            self.assertGreater(ours.queued, 30_000_000)

            theirs.wire.transport.resumeProducing()
            theirs.bulk.transport.resumeProducing()
            await until(lambda: len(got) == 80, "all words")

            self.assertEqual(got, [1_000_000, 30_000] * 40)
            self.assertEqual(ours.queued, 0)

        return run(play())

    def test_stream(self) -> Deferred[Any]:
        """A purpose gets a connection of its own, with a protocol on either side."""

        async def play() -> None:
            got: list[tuple[str, bool, bytes]] = []

            class Talk(Protocol):
                def __init__(self, node: str, dialled: bool) -> None:
                    self.who = (node, dialled)

                def connectionMade(self) -> None:
                    assert self.transport is not None
                    self.transport.write(b"hello from " + str(self.who[1]).encode())

                def dataReceived(self, data: bytes) -> None:
                    got.append((*self.who, data))

            for node in (self.a, self.b):
                node.peers.stream("roots", Talk)
            await self.linked()

            await until(lambda: len(got) == 2, "both greetings")

            self.assertEqual(
                sorted(got), [("a", False, b"hello from True"), ("b", True, b"hello from False")]
            )

        return run(play())

    def test_streams_of_a_removed_member_end(self) -> Deferred[Any]:
        """Who is removed loses its streams with the link, and the other end sees that."""

        async def play() -> None:
            made: list[tuple[str, str]] = []

            class Talk(Protocol):
                closed = False

                def __init__(self, node: str, dialled: bool) -> None:
                    self.node = node

                def connectionMade(self) -> None:
                    made.append(("begun", self.node))

                def connectionLost(self, reason: Any = None) -> None:
                    self.closed = True
                    made.append(("ended", self.node))

            for node in (self.a, self.b):
                node.peers.stream("roots", Talk)
            await self.linked()
            await until(lambda: len(made) == 2, "both ends of the stream")

            remove(self.b, self.a)

            await until(lambda: len(made) == 4, "the end of both")
            self.assertEqual(sorted(made[2:]), [("ended", "a"), ("ended", "b")])

        return run(play())

    def test_no_stream_is_dialled_for_a_link_that_is_gone(self) -> Deferred[Any]:
        """
        A stream that the other side hangs up on is dialled again later, and not when its link has
        ended: nothing of a node that has stopped is left in the reactor, which trial looks for.
        """

        async def play() -> None:
            lost: list[str] = []

            class Rude(Protocol):
                closed = False

                def __init__(self, node: str, dialled: bool) -> None:
                    self.dialled = dialled

                def connectionMade(self) -> None:
                    if not self.dialled:
                        self.transport.loseConnection()  # type: ignore[union-attr]

                def connectionLost(self, reason: Any = None) -> None:
                    self.closed = True
                    if self.dialled:
                        lost.append("stream")

            for node in (self.a, self.b):
                node.peers.stream("roots", Rude)
            await self.linked()
            await until(lambda: len(lost) == 2, "a stream that was dialled twice")

            remove(self.b, self.a)
            await until(lambda: not self.a.link("b"), "the end of the link")

        return run(play())


class StrangerTests(Pair):
    """Who is not a member."""

    def test_T_PEER_1_nothing_is_parsed(self) -> Deferred[Any]:
        """Bytes of any shape from a non-member close the connection; no protocol is ever built."""

        async def play() -> None:
            entered: list[Any] = []
            inner = self.a.enter
            self.a.enter = lambda session: entered.append(session) or inner(session)  # type: ignore
            closed = 0

            class Raw(Protocol):
                def connectionMade(self) -> None:
                    assert self.transport is not None
                    self.transport.write(self.factory.data)

                def connectionLost(self, reason: Any = None) -> None:
                    nonlocal closed
                    closed += 1

            from twisted.internet.protocol import Factory

            shapes = [b"GET / HTTP/1.0\r\n\r\n", b"\0" * 2000, os.urandom(3000), b"SWJOIN1\n" * 200]
            for shape in shapes:
                factory = Factory.forProtocol(Raw)
                factory.data = shape  # type: ignore[attr-defined]
                from twisted.internet.endpoints import TCP4ClientEndpoint

                await TCP4ClientEndpoint(reactor, "127.0.0.1", self.a.port.port).connect(factory)
            await until(lambda: closed == len(shapes), "all to be closed")

            self.assertEqual(entered, [])

        return run(play())

    def test_certificate_of_the_cluster_is_not_enough(self) -> Deferred[Any]:
        """A key that the authority signed but the membership lacks is refused in the handshake."""

        async def play() -> None:
            introduce(self.a, self.b)
            await until(lambda: self.a.link("b"), "the link of members")
            stranger = PeerNode("0", NodeKey.generate())
            stranger.start()
            self.addCleanup(stranger.stop)
            entered = []
            inner = self.a.enter
            self.a.enter = lambda session: entered.append(session) or inner(session)  # type: ignore

            stranger.membership.registers.update(self.a.membership.registers)
            stranger.peers.membership_changed()
            await until(lambda: self.a.counters["peer_strangers"] > 1, "refusals")

            self.assertEqual(entered, [])
            self.assertEqual(list(stranger.peers.links()), [])

        return run(play())
