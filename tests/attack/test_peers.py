"""
The peer port under attack: T-PEER-1 to T-PEER-7 (T-PEER-6 over real nodes is in
L{tests.cluster.test_real} as well).

Real sockets and TLS on loopback, hence the reactor; guesses by the million are made on the
pure machine.
"""

from __future__ import annotations

import os
import socket
import tracemalloc
import types
from typing import Any, cast

from twisted.internet import reactor
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.endpoints import TCP4ClientEndpoint, wrapClientTLS
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import Clock, deferLater
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase, TestCase

from saltwisted.cluster.life.join import COMPARE, IDENTITY_BOX, RECORD_TIME, RecordReader
from saltwisted.cluster.links.port import MAX_PER_SOURCE
from saltwisted.domain.replica.joining import (
    BY_SECRET,
    RECORD_BYTES,
    REPLY_HEAD,
    Attempts,
    Channel,
    Record,
    make_record,
    make_reply,
    secret_key,
    split_record,
    weak_secret,
)
from saltwisted.domain.replica.membership import SUSPENDED
from saltwisted.errors import DeniedError, SaltwistedError, TransportClosed, WireError
from saltwisted.transports.tls import AMP, BULK, JOIN, Dialler, Doorway, Session
from saltwisted.wire.msgpack import pack_bin
from tests.cluster.rig import Admitter, PeerNode, enter_as, introduce, joiner, run, until
from tests.sim.play import count

SECRET = "8d1f0c7e5b3a49d2a6c4e0f19b7d3a58"
BAD_IDS = ["", ".", "..", "../x", "/etc/x", "a/b", "a\0b", "x" * 300, "a\nb", "ä" * 200, 7, None]


class Told(Protocol):
    """Sends bytes when the handshake is done; keeps what comes back."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.got = b""
        self.lost: Deferred[bytes] = Deferred()

    def connectionMade(self) -> None:
        """Say it."""
        assert self.transport is not None
        self.transport.write(self.data)

    def dataReceived(self, data: bytes) -> None:
        """Keep it."""
        self.got += data

    def connectionLost(self, reason: Any = None) -> None:
        """Done."""
        self.lost.callback(self.got)


class PeerPortTestCase(TestCase):
    """One member that admits."""

    timeout = 120

    def setUp(self) -> None:
        """Member C{a}."""
        self.a = Admitter("a", SECRET)
        self.a.start()
        self.addCleanup(self.a.stop)
        introduce(self.a)

    def join_raw(self, make: Any, asker: Any = None) -> Deferred[bytes]:
        """
        Connect for a join, send C{make(session, own key)}; what comes back.

        @param asker: whose key is shown; by default a fresh one.
        """
        asker = asker or joiner()
        told: list[Told] = []
        done: Deferred[bytes] = Deferred()

        def enter(session: Session) -> Any:
            protocol = Told(make(session, asker.badge.key.id))
            protocol.lost.chainDeferred(done)
            told.append(protocol)
            return protocol

        def gone(door: Doorway) -> None:
            if door.inner is None:
                done.callback(b"")

        factory = Factory()
        factory.buildProtocol = lambda addr: Doorway(reactor, enter, gone)  # type: ignore[method-assign]
        endpoint = TCP4ClientEndpoint(reactor, "127.0.0.1", self.a.port.port)
        dialler = Dialler(asker.badge, lambda purpose, key: True, JOIN)
        connected = wrapClientTLS(dialler, endpoint).connect(factory)
        return connected.addCallback(lambda _: done)  # type: ignore[no-any-return]

    def wrong(self, session: Session, own: str) -> bytes:
        """A record made with a guessed secret."""
        channel = Channel(session.exporter("join"), own, session.key)
        return make_record(channel, BY_SECRET, os.urandom(16), os.urandom(16), enter_as("x"))


class PeerTests(PeerPortTestCase):
    """Strangers."""

    def test_T_PEER_1_one_record_is_read(self) -> Deferred[Any]:
        """
        On the join purpose anything but one proven record closes the connection without a word,
        and nothing in it is interpreted.
        """

        async def play() -> None:
            read: list[Record] = []
            fields = Record.fields
            self.patch(Record, "fields", lambda record: read.append(record) or fields(record))
            token = self.a.token()
            shapes: list[Any] = [
                lambda session, own: os.urandom(RECORD_BYTES),
                lambda session, own: os.urandom(RECORD_BYTES + 1),
                lambda session, own: self.wrong(session, own) + b"x",
                self.wrong,
            ]

            answers = [await self.join_raw(shape) for shape in shapes]

            self.assertEqual(answers, [b""] * len(shapes))
            self.assertEqual(read, [])
            self.assertEqual(sorted(m.node for m in self.a.membership.live()), ["a"])
            good = await joiner(token).ask(self.a.address, {"do": "ask"})
            self.assertEqual(good["node"], "a", "the door still works")

        return run(play())

    def test_T_PEER_1_not_offered(self) -> Deferred[Any]:
        """Without a live token or secret the purpose does not exist."""

        async def play() -> None:
            self.a.admission.cluster_secret = ""
            token = self.a.token()
            self.a.time += 61

            with self.assertRaises(TransportClosed):
                await joiner(token).ask(self.a.address, {"do": "ask"})

            self.assertFalse(self.a.admission.open())

        return run(play())

    def test_T_PEER_2_replies(self) -> Deferred[Any]:
        """An answer that is unproven, replayed from another connection, or a second one is none."""

        async def play() -> None:
            recorded: list[bytes] = []
            good = self.a.admission.answer

            async def keep(record: Record, channel: Channel, session: Session) -> bytes:
                recorded.append(await good(record, channel, session))
                return recorded[-1]

            async def replay(record: Record, channel: Channel, session: Session) -> bytes:
                return recorded[0]

            async def unproven(record: Record, channel: Channel, session: Session) -> bytes:
                return make_reply(channel, os.urandom(16), record.nonce, {"node": "evil"})

            async def twice(record: Record, channel: Channel, session: Session) -> bytes:
                secret = secret_key(SECRET)
                evil = make_reply(channel, secret, record.nonce, {"node": "evil"})
                return (await good(record, channel, session)) + evil

            asker = joiner(cluster_secret=SECRET)
            for answer in (keep, replay, unproven, twice):
                self.patch(type(self.a.admission), "answer", lambda s, *a, f=answer: f(*a))
                if answer in (replay, unproven):
                    with self.assertRaises(DeniedError):
                        await asker.ask(self.a.address, {"do": "ask"})
                else:
                    value = await asker.ask(self.a.address, {"do": "ask"})
                    self.assertEqual(value["node"], "a")

        return run(play())

    def test_T_PEER_3_false_responder(self) -> Deferred[Any]:
        """Who is not of the pinned cluster gets no record; who lacks the secret can use none."""

        async def play() -> None:
            false = Admitter("f", "another secret of more than 128 bits: 0123456789")
            false.start()
            self.addCleanup(false.stop)
            seen: list[bytes] = []
            answer = type(false.admission).answer

            async def spy(admission: Any, record: Record, channel: Channel, session: Any) -> bytes:
                seen.append(record.token_id + record.nonce + record.mac + record.payload)
                return await answer(admission, record, channel, session)

            self.patch(type(false.admission), "answer", spy)
            false.token()
            token = self.a.token()

            with self.assertRaises(DeniedError):
                await joiner(token).ask(false.address, enter_as("b"))
            self.assertEqual(seen, [], "not one byte of the record")
            with self.assertRaises(SaltwistedError):
                await joiner(cluster_secret=SECRET).ask(false.address, enter_as("b"))

            # What it has seen holds no secret, and is worth nothing at the true member
            self.assertEqual(len(seen), 1)
            self.assertNotIn(SECRET.encode(), seen[0])
            self.assertNotIn(secret_key(SECRET), seen[0])
            relayed = await self.join_raw(lambda session, own: b"SWJOIN1\n" + seen[0])
            self.assertEqual(relayed, b"")
            self.assertEqual([m.node for m in self.a.membership.live()], ["a"])

        return run(play())

    def test_T_PEER_3_pin_is_mandatory(self) -> Deferred[Any]:
        """A join with neither pin nor mutual proof is refused before anything is sent."""

        async def play() -> None:
            with self.assertRaises(DeniedError):
                await joiner().ask(self.a.address, enter_as("b"))

            self.assertEqual(self.a.counters["peer_strangers"], 0)

        return run(play())

    def test_T_PEER_3_identity_is_sealed(self) -> Deferred[Any]:
        """The identity key in an answer opens for the joiner's key alone."""

        async def play() -> None:
            asker, other = joiner(self.a.token()), joiner()

            value = await asker.ask(self.a.address, enter_as("b"))

            self.assertNotIn(self.a.pair[0], value["identity"])
            self.assertIn(self.a.pair[0], asker.badge.key.open(value["identity"], IDENTITY_BOX))
            with self.assertRaises(WireError):
                other.badge.key.open(value["identity"], IDENTITY_BOX)

        return run(play())

    def test_T_PEER_4_guesses_over_sockets(self) -> Deferred[Any]:
        """
        Guesses, a thousand with C{SALTWISTED_LONG=1}: none succeeds, and members are served
        as before.
        """

        async def play() -> None:
            b = PeerNode("b", self.a.authority)
            b.start()
            self.addCleanup(b.stop)
            introduce(self.a, b)
            self.a.peers.answer("echo", lambda node, body: body)
            await until(lambda: b.link("a"), "the link of members")

            answers = []
            for _ in range(count(5, 25, 125)):
                self.a.time += 1.3
                answers += await gatherResults([self.join_raw(self.wrong) for _ in range(8)])
                began = reactor.seconds()  # type: ignore[attr-defined]
                self.assertEqual(await b.link("a").ask("echo", b"here"), b"here")
                self.assertLess(reactor.seconds() - began, 2.0)  # type: ignore[attr-defined]

            self.assertEqual(set(answers), {b""})
            self.assertEqual(sorted(m.node for m in self.a.membership.live()), ["a", "b"])

        return run(play())

    def test_T_PEER_5_flood(self) -> Deferred[Any]:
        """
        Strangers that connect and say nothing are bounded by TCP; nobody is dialled for what they
        say; a member still gets in.
        """

        async def play() -> None:
            dialled: list[Any] = []
            self.patch(self.a.peers, "_connect", lambda *args: dialled.append(args))
            for _ in range(5):
                for _ in range(40):
                    sock = socket.socket()
                    sock.setblocking(False)
                    sock.connect_ex(("127.0.0.1", self.a.port.port))
                    self.addCleanup(sock.close)
                await deferLater(reactor, 0.05)  # the kernel's queue of connections is short

            refused = 200 - MAX_PER_SOURCE
            await until(lambda: self.a.counters["peer_connections_refused"] >= refused, "refusals")

            self.assertLessEqual(len(self.a.port._doors), MAX_PER_SOURCE)
            self.assertEqual(dialled, [])

        return run(play())

    def test_T_REPLAY_4(self) -> Deferred[Any]:
        """
        T-REPLAY-4: the packet of a join that was recorded admits nobody a second time: not by
        another key, not by the same on another connection, not at another member, not later.
        """

        async def play() -> None:
            recorded: list[bytes] = []
            answer = type(self.a.admission).answer

            async def spy(admission: Any, record: Record, channel: Channel, session: Any) -> bytes:
                parts = record.token_id + record.nonce + record.mac + record.payload
                recorded.append(b"SWJOIN1\n" + parts)
                return await answer(admission, record, channel, session)

            self.patch(type(self.a.admission), "answer", spy)
            token = self.a.token(uses=5)
            asker = joiner(token)
            await asker.ask(self.a.address, enter_as("b"))
            (packet,) = recorded
            self.assertEqual(len(packet), RECORD_BYTES)
            before = [m.key for m in self.a.membership.live()]

            for key in (None, asker, joiner(token)):
                self.assertEqual(await self.join_raw(lambda session, own: packet, key), b"")
            self.a.time += 30
            self.assertEqual(await self.join_raw(lambda session, own: packet, asker), b"")
            twice = await self.join_raw(lambda session, own: packet + packet, asker)
            self.assertEqual(twice, b"")
            key = asker.badge.key.id
            self.a.append("member", {"op": "remove", "key": key, "by": "test", "left": False})
            self.a.time += 30
            self.assertEqual(await self.join_raw(lambda session, own: packet, asker), b"")

            self.assertEqual([m.key for m in self.a.membership.live()], before[:1])
            self.assertEqual(len(self.a.tokens.registers[token.id].used), 1)

        return run(play())

    def test_T_PEER_6_waits(self) -> Deferred[Any]:
        """
        Who joins by a token that asks for approval gets no key, no certificate, no facts and no
        link, however often it asks and whatever; operators are told, and one of them lets it in.
        """

        async def play() -> None:
            token = self.a.token(wait=True, uses=3)
            asker, key = joiner(token), ""

            first = await asker.ask(self.a.address, enter_as("b"))
            key = asker.badge.key.id
            again = await asker.ask(self.a.address, enter_as("b"))
            compared = await asker.ask(self.a.address, {"do": COMPARE})
            other = await asker.ask(self.a.address, enter_as("b", wait=False, approved=True))

            for value in (first, again, compared, other):
                self.assertEqual(set(value) & {"identity", "certificate", "facts", "census"}, set())
                self.assertNotIn(self.a.pair[0], pack_bin(value))
            self.assertEqual([first["suspended"], again["suspended"]], [True, True])
            self.assertIn("before an operator approves", compared["refused"])
            known = self.a.membership.find(key)
            assert known is not None
            self.assertEqual(known.state, SUSPENDED)
            for purpose in (AMP, BULK):
                self.assertFalse(self.a.judge(purpose, key))
            told = [data for tag, data in self.a.alarms if tag == "salt/cluster/join"]
            self.assertEqual([(data["node"], data["waits"]) for data in told], [("b", True)])

            self.a.append("member", {"op": "approve", "key": key, "by": "test"})
            value = await asker.ask(self.a.address, enter_as("b"))
            self.assertIn(self.a.pair[0], asker.badge.key.open(value["identity"], IDENTITY_BOX))
            self.assertTrue(self.a.judge(AMP, key))

        return run(play())

    def test_T_PEER_6_refused(self) -> Deferred[Any]:
        """Who waits and is removed instead of approved never gets in."""

        async def play() -> None:
            asker = joiner(self.a.token(wait=True, uses=2))
            await asker.ask(self.a.address, enter_as("b"))
            key = asker.badge.key.id
            self.a.append("member", {"op": "remove", "key": key, "by": "test", "left": False})
            self.a.append("member", {"op": "approve", "key": key, "by": "test"})

            value = await asker.ask(self.a.address, enter_as("b"))

            self.assertIn("final", value["refused"])
            self.assertFalse(self.a.judge(AMP, key))

        return run(play())

    def test_T_PEER_7_ids(self) -> Deferred[Any]:
        """No id that could be a path, or is none, ever becomes a member."""

        async def play() -> None:
            token = self.a.token(uses=100)
            for bad in BAD_IDS:
                try:
                    value = await joiner(token).ask(self.a.address, enter_as(bad))  # type: ignore
                except WireError:
                    continue  # too long for a record at all
                self.assertIn("not valid", value["refused"], repr(bad))

            self.assertEqual([m.node for m in self.a.membership.live()], ["a"])
            self.assertEqual(len(self.a.tokens.registers[token.id].used), 0)

        return run(play())


class RecordTests(SynchronousTestCase):
    """T-PEER-1: what is read from one who is nobody, to the byte."""

    def setUp(self) -> None:
        """One connection."""
        self.clock = Clock()
        self.asked: list[Record] = []
        self.transport = StringTransport()
        session = types.SimpleNamespace(
            exporter=lambda name: b"e" * 32, key="1" * 64, address="192.0.2.1"
        )

        async def answer(record: Record, channel: Channel, session: Any) -> bytes:
            self.asked.append(record)
            return b""

        self.reader = RecordReader(self.clock, "2" * 64, cast(Any, session), answer)
        self.reader.makeConnection(self.transport)
        self.addCleanup(lambda: self.assertEqual(self.clock.getDelayedCalls(), []))
        self.addCleanup(self.reader.connectionLost)

    def record(self) -> bytes:
        """One that is cut right; who made it does not matter here."""
        channel = Channel(b"e" * 32, "1" * 64, "2" * 64)
        return make_record(channel, b"t" * 16, b"s" * 16, b"n" * 16, {"do": "ask"})

    def test_T_PEER_1_bound(self) -> None:
        """Not one byte more than a record is kept, in whatever pieces it comes; it hangs up."""
        for piece in (1, 7, 512, RECORD_BYTES - 1, RECORD_BYTES, RECORD_BYTES + 1, 1 << 20):
            self.setUp()
            sent = 0
            while sent < RECORD_BYTES - piece:
                self.reader.dataReceived(b"x" * piece)
                sent += piece
                self.assertFalse(self.transport.disconnecting, (piece, sent))
            if piece <= RECORD_BYTES:
                self.reader.dataReceived(b"x" * (RECORD_BYTES - sent - 1))
            self.assertFalse(self.transport.disconnecting, piece)

            self.reader.dataReceived(b"x" * max(piece, 2))

            self.assertTrue(self.transport.disconnecting, piece)
            self.assertLessEqual(len(self.reader._buffer), RECORD_BYTES, piece)
            self.assertEqual(self.asked, [])
            self.reader.connectionLost()

    def test_T_PEER_1_after_it(self) -> None:
        """What follows a whole record, with it or later, is not kept and changes nothing."""
        self.reader.dataReceived(self.record() + b"x")
        self.assertTrue(self.transport.disconnecting)
        self.assertEqual(self.asked, [])

        self.setUp()
        self.reader.dataReceived(self.record())
        for _ in range(100):
            self.reader.dataReceived(self.record())
        self.assertEqual(len(self.asked), 1)
        self.assertLessEqual(len(self.reader._buffer), RECORD_BYTES)

    def test_T_PEER_1_slow(self) -> None:
        """Who sends one byte after the other has as long as who sends none."""
        for _ in range(100):
            self.reader.dataReceived(b"x")
            self.clock.advance(RECORD_TIME / 50)
            if self.transport.disconnecting:
                break
        self.assertLessEqual(self.clock.seconds(), RECORD_TIME + RECORD_TIME / 50)
        self.assertEqual(self.asked, [])


class JoinTests(PeerPortTestCase):
    """What a proven joiner may and may not."""

    def test_terms(self) -> Deferred[Any]:
        """Uses, names and keys are kept to; who asks again with its key gets its answer again."""

        async def play() -> None:
            token, once = self.a.token(uses=2), self.a.token()
            first = joiner(token)

            one = await first.ask(self.a.address, enter_as("b"))
            again = await first.ask(self.a.address, enter_as("b"))
            taken = await joiner(token).ask(self.a.address, enter_as("b"))
            second = await joiner(token).ask(self.a.address, enter_as("c"))

            self.assertIn("identity", one)
            self.assertIn("identity", again)
            self.assertIn("there is already a member b", taken["refused"])
            self.assertIn("identity", second)
            slots = [m.slot for m in self.a.membership.live() if m.node != "a"]
            self.assertEqual(len(set(slots)), 2)
            with self.assertRaises(SaltwistedError):
                self.a.append("token", {"op": "revoke", "id": once.id})
                self.a.admission.cluster_secret = ""
                await joiner(once).ask(self.a.address, enter_as("d"))

        return run(play())

    def test_leaving(self) -> Deferred[Any]:
        """Who leaves admits nobody: the others might never hear of whom it did."""

        async def play() -> None:
            self.a.admission.closed = "this member is leaving"

            value = await joiner(self.a.token()).ask(self.a.address, enter_as("b"))

            self.assertIn("is leaving", value["refused"])
            self.assertEqual([m.node for m in self.a.membership.live() if m.node == "b"], [])

        return run(play())

    def test_removed_key(self) -> Deferred[Any]:
        """A key that was removed never comes back, also not by a token."""

        async def play() -> None:
            token = self.a.token(uses=2)
            asker = joiner(token)
            await asker.ask(self.a.address, enter_as("b"))
            key = asker.badge.key.id
            self.a.append("member", {"op": "remove", "key": key, "by": "test", "left": False})

            value = await asker.ask(self.a.address, enter_as("b"))

            self.assertIn("final", value["refused"])

        return run(play())

    def test_void(self) -> Deferred[Any]:
        """After a removal tokens that were made before admit nobody, nor does a banned secret."""

        async def play() -> None:
            token = self.a.token()
            self.a.append("token", self.a.tokens.void_body(os.urandom))

            value = await joiner(token).ask(self.a.address, enter_as("b"))

            self.assertIn("void", value["refused"])

        return run(play())


class GuessTests(SynchronousTestCase):
    """The pure machines."""

    def test_T_PEER_4_million_guesses(self) -> None:
        """
        A million guesses from many addresses in ten minutes: the budget lets a few through, memory
        stays flat, and each lock raises one alarm.
        """
        attempts = Attempts()
        heard = alarms = 0
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)

        for number in range(1_000_000):
            now = number * 0.0006
            source = f"10.{number % 251}.{number % 241}.{number % 239}"
            if attempts.allowed(source, now):
                heard += 1
                alarms += attempts.failed(source, now)

        self.assertLessEqual(heard, 60 * 11)
        self.assertLessEqual(alarms, 10)
        self.assertGreaterEqual(alarms, 1)
        self.assertLess(tracemalloc.get_traced_memory()[1], 2_000_000)

    def test_T_PEER_4_weak_secrets(self) -> None:
        """Empty and short secrets are refused; 128 bits of any alphabet are not."""
        for bad in (None, "", "   ", "password", "a" * 64, "0123456789abcdef", "changemechangeme"):
            self.assertNotEqual(weak_secret(bad), "", repr(bad))
        for good in (SECRET, "Zk3vT0q9Xw5Lr8Yb2Nc7Md", "k7#Qz!92@pLmX&4vB^tR8w"):
            self.assertEqual(weak_secret(good), "", good)

    def test_T_PEER_3_proof_is_bound(self) -> None:
        """A proof is worth nothing on another channel, for another key, token, nonce or load."""
        channel = Channel(b"e" * 32, "1" * 64, "2" * 64)
        data = make_record(channel, b"t" * 16, b"s" * 16, b"n" * 16, {"do": "ask"})
        record = split_record(data)

        self.assertTrue(record.proven(channel, b"s" * 16))
        self.assertNotIn(b"s" * 16, data)
        for other in (
            Channel(b"f" * 32, "1" * 64, "2" * 64),
            Channel(b"e" * 32, "3" * 64, "2" * 64),
            Channel(b"e" * 32, "1" * 64, "3" * 64),
        ):
            self.assertFalse(record.proven(other, b"s" * 16))
        for place in range(8, RECORD_BYTES, 41):
            bent = bytearray(data)
            bent[place] ^= 1
            self.assertFalse(split_record(bytes(bent)).proven(channel, b"s" * 16), place)
        self.assertEqual(REPLY_HEAD.size, 36)
