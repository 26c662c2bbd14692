"""
What one peer may cost at the control socket, at the peer port, and by what answers a daemon that
has asked: generated shapes up to the most that each door takes.

T-COST-1, T-MEM-1. Costs are ratios of this thread's CPU; turns are those of a clock.
"""

from __future__ import annotations

import gc
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.protocols import amp
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.links import link as linking
from saltwisted.cluster.links.attached import Attach
from saltwisted.cluster.links.commands import BULK_HEAD, MAX_BODY, MAX_WAITING, Tell
from saltwisted.cluster.links.link import Link
from saltwisted.cluster.links.port import MAX_PER_KEY, MAX_PER_SOURCE, PeerPort
from saltwisted.domain.bearer import BearerError
from saltwisted.domain.bearer import _map as claims_of
from saltwisted.domain.eauth import BEARER_LENGTH
from saltwisted.domain.replica import words
from saltwisted.domain.replica.certificates import NodeKey, issue
from saltwisted.domain.roots import codec
from saltwisted.domain.roots.frames import BATCH, HEAD, MAX_UNFINISHED, Frames
from saltwisted.domain.roots.guards import MAX_ENTRIES, MAX_PATH, Forbidden
from saltwisted.doors import CONTROL, CONTROL_MINION, ETCD, KIB, MIB, PEER_MEMBER, PEER_STRANGER
from saltwisted.errors import WireError
from saltwisted.transports import turns
from saltwisted.transports.etcd import parsed
from saltwisted.transports.ipc import (
    ControlProtocol,
    ControlServer,
    PeerProcess,
    counted_for,
    judge_by_uid,
    judge_of_minion,
)
from saltwisted.transports.tls import AMP, JOIN, Badge, Session
from saltwisted.wire.msgpack import pack_bin
from tests.doors.measure import STEEPEST, Turned, assert_linear, least, peak, slack, steepness
from tests.doors.shapes import Make, array, json_texts, mapping, msgpack_values

STRANGER = PeerProcess(4711, 4711, 5)
_ALIKE = {0x01, 0x81, 0x8F, 0x91, 0x9F, 0xA1, 0xBF, 0xFA}
"""First bytes whose neighbours mean nothing else."""


def shapes() -> Iterator[tuple[str, Make]]:
    """Those of msgpack, one of each kind."""
    for name, make in msgpack_values():
        first = name.rpartition("0x")[2] if "0x" in name else ""
        number = int(first, 16) if first else -1
        if number < 0 or 0xC0 <= number < 0xE0 or number in (0x80, 0x90, 0xA0) or number in _ALIKE:
            yield name, make


class Wire(StringTransport):
    """A transport that can be aborted."""

    aborted = False
    producer: Any = None

    def abortConnection(self) -> None:
        """Note it."""
        self.aborted = True

    def setTcpNoDelay(self, on: bool) -> None:
        """It sends nothing anyhow."""

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        """Keep it."""
        self.producer = producer


async def nothing(op: str, args: dict[str, Any], peer: PeerProcess, stream: Any) -> Any:
    """An operation that has nothing to do."""
    return None


def undisturbed(act: Callable[[], Any]) -> Any:
    """Without the collector of garbage, which looks at what others have made."""
    gc.collect()
    gc.disable()
    try:
        return act()
    finally:
        gc.enable()


class ControlCosts(SynchronousTestCase):
    """The control socket of a master and of a minion, for a stranger."""

    def drive(self, data: bytes, judge: Any = judge_by_uid) -> tuple[Turned, Wire]:
        """One connection that brings so much, as a socket gives it."""
        clock = Turned()
        server = ControlServer(clock, nothing, judge=judge)
        protocol, wire = ControlProtocol(server, nothing, STRANGER), Wire()
        protocol.makeConnection(wire)
        for at in range(0, len(data), 65536):
            clock.measure(lambda at=at: protocol.dataReceived(data[at : at + 65536]))
            # No more is read while messages wait
            clock.settle(lambda: wire.aborted)
            if wire.aborted:
                break
        protocol.connectionLost()
        return clock, wire

    @staticmethod
    def call(value: bytes) -> bytes:
        """A call with one argument."""
        body = b"\x83\xa2id\x01\xa2op\xa1x\xa4args\x81\xa1a" + value
        return struct.pack(">I", len(body)) + body

    def test_T_COST_1_messages(self) -> None:
        """
        T-COST-1: a message of any shape costs in proportion to its size, up to the largest, and
        takes short turns of the reactor.
        """
        most = CONTROL.request - 4 * KIB
        for name, make in shapes():
            costs = {}
            for size in (KIB, 16 * KIB, most // 16, most):
                data = self.call(make(size - 64))
                self.assertLessEqual(len(data), CONTROL.request, name)
                costs[size], longest = self.cost(data, 3 if size < 64 * KIB else 1)
                if longest > CONTROL.turn / 1000:
                    self.assertLess(longest, slack() * CONTROL.turn / 1000, name)
            for large in (16 * KIB, most):
                self.assertLess(steepness(costs, large), STEEPEST, f"{name}: {costs}")
            if costs[most] * 1e6 / (most / KIB) > CONTROL.per_kib:
                self.assertLess(costs[most] * 1e6 / (most / KIB), CONTROL.per_kib * slack(), name)

    def cost(self, data: bytes, times: int) -> tuple[float, float]:
        """The CPU that it takes, and the longest turn, the least of several each."""
        clocks: list[Turned] = []
        taken = least(lambda: clocks.append(self.drive(data)[0]), times)
        return taken, min(clock.longest for clock in clocks)

    def test_T_COST_1_small(self) -> None:
        """T-COST-1: the smallest messages, as many as one read brings, take many turns."""
        one = b"\x82\xa2id\x01\xa2op\xa0"
        data = (struct.pack(">I", len(one)) + one) * (256 * KIB // 15)
        clock, wire = undisturbed(lambda: self.drive(data))

        self.assertLess(clock.longest, slack() * CONTROL.turn / 1000)
        self.assertGreater(clock.turns, 20)
        self.assertFalse(wire.aborted)
        taken = least(lambda: self.drive(data)) * 1e6 / (len(data) // 15)
        self.assertLess(taken, CONTROL.per_request * slack())

    def test_T_MEM_1_message(self) -> None:
        """T-MEM-1: what a message is made into is no more than is counted for it."""
        for name, make in shapes():
            data = self.call(make(20 * KIB))
            used = peak(lambda data=data: self.drive(data), times=2)
            self.assertLess(used, counted_for(len(data)) + 4 * len(data), name)
        self.assertLess(counted_for(CONTROL.request), CONTROL.memory)

    def test_T_MEM_1_minion(self) -> None:
        """T-MEM-1: a minion takes short messages alone of those whom it refuses anyhow."""
        _, wire = self.drive(struct.pack(">I", CONTROL_MINION.request + 1), judge_of_minion)
        self.assertTrue(wire.aborted)
        self.assertLess(counted_for(CONTROL_MINION.request), CONTROL_MINION.memory)

    def test_T_MEM_1_unread(self) -> None:
        """T-MEM-1: of many who ask and do not read, no more is kept than all together may have."""
        clock = Clock()
        server = ControlServer(clock, nothing, kept=MIB)
        open_wires = []
        ask = self.call(b"\xa1x")
        for number in range(100):
            protocol, wire = ControlProtocol(server, nothing, PeerProcess(number, 1, 1)), Wire()
            protocol.makeConnection(wire)
            protocol.pauseProducing()
            open_wires.append(wire)
            for _ in range(40):
                protocol.dataReceived(ask[:4] + ask[4:])
                clock.advance(0)
                for _ in range(10):
                    protocol._send({"id": 1, "item": bytes(1000)})

        kept = sum(len(wire.value()) for wire in open_wires if not wire.aborted)
        self.assertLess(kept, 2 * MIB)
        self.assertGreater(server.counters["ipc_dropped_crowded"], 10)


class LinkRig(SynchronousTestCase):
    """A link whose two connections are not there."""

    def setUp(self) -> None:
        """Its words are noted."""
        self.clock = Turned()
        self.heard: list[tuple[str, int]] = []
        self.answers: dict[str, Any] = {"a": self._heard("a"), "b": self._heard("b")}
        self.open()

    def open(self) -> None:
        """A new link."""
        self.down: list[str] = []
        owner = SimpleNamespace(
            cluster="c",
            link_down=lambda link, reason, was_up: self.down.append(reason),
            link_up=lambda link: None,
        )
        self.link = Link(
            self.clock,
            "peer",
            SimpleNamespace(key="k"),  # type: ignore[arg-type]
            False,
            self.answers,
            owner,
        )
        self.wire, self.bulk = Wire(), Wire()
        self.link.wire.makeConnection(self.wire)  # type: ignore[no-untyped-call]
        self.link.bulk.makeConnection(self.bulk)

    def _heard(self, word: str) -> Callable[[str, bytes], None]:
        return lambda node, body: self.heard.append((word, len(body)))

    @staticmethod
    def box(word: bytes, body: bytes = b"", bulk: int = 0, **more: bytes) -> bytes:
        """A word on the wire."""
        said = {b"word": word, b"body": body, b"bulk": b"%d" % bulk}
        extra = {name.encode(): value for name, value in more.items()}
        box: bytes = amp.Box({amp.COMMAND: Tell.commandName, **said, **extra}).serialize()
        return box

    def bring(self, body: bytes, number: int = 1, word: bytes = b"a") -> None:
        """A word whose body comes by the other connection."""
        self.link.wire.dataReceived(self.box(word, bulk=number))
        data = BULK_HEAD.pack(number, len(body)) + body
        for at in range(0, len(data), 65536):
            self.clock.measure(lambda at=at: self.link.bulk.dataReceived(data[at : at + 65536]))

    def settle(self) -> None:
        """All that waits for turns; not the signs of life."""
        self.clock.settle()


class LinkCosts(LinkRig):
    """A member that means harm."""

    def test_T_COST_1_boxes(self) -> None:
        """T-COST-1: a thousand words that come at once take many turns, and stay in order."""
        data = b"".join(self.box(b"a" if n % 2 else b"b") for n in range(1400))

        def act() -> None:
            self.clock.measure(lambda: self.link.wire.dataReceived(data[:65536]))
            self.settle()

        undisturbed(act)

        self.assertLess(self.clock.longest, slack() * 5 / 1000)
        self.assertGreater(self.clock.turns, 3)
        whole = data[:65536].count(b"\0\0" + b"\0\x04")
        self.assertGreaterEqual(len(self.heard), whole)
        self.assertEqual(self.heard[:4], [("b", 0), ("a", 0), ("b", 0), ("a", 0)])
        self.assertEqual(self.wire.producerState, "producing")

    def test_T_COST_1_one_word(self) -> None:
        """T-COST-1: a word costs no more than its row says, nor does a KiB of a long body."""
        data = b"".join(self.box(b"a") for _ in range(1000))
        plain = pack_bin(bytes(8 * MIB))

        def words() -> None:
            self.open()
            for at in range(0, len(data), 65536):
                self.link.wire.dataReceived(data[at : at + 65536])
                self.settle()

        def body() -> None:
            self.open()
            self.bring(plain)
            self.settle()

        each = least(words) * 1e6 / 1000
        if each > PEER_MEMBER.per_request:
            self.assertLess(each, PEER_MEMBER.per_request * slack())
        each = least(body) * 1e6 / (len(plain) / KIB)
        if each > PEER_MEMBER.per_kib:
            self.assertLess(each, PEER_MEMBER.per_kib * slack())
        self.assertEqual(len(self.heard), 5 * 1000 + 5)

    def test_T_MEM_1_fields(self) -> None:
        """T-MEM-1: a message of more fields than any has ends the link, and is not collected."""
        data = b"".join(b"\0\x03%03d" % n + b"\x10\0" + bytes(4096) for n in range(200))

        used = peak(lambda: [self.link.wire.dataReceived(data), self.settle()])

        self.assertEqual(self.down, ["a message of too many fields"])
        self.assertLess(used, MIB)
        self.link.wire.dataReceived(data)
        self.settle()
        self.assertEqual(self.heard, [])

    def test_T_COST_1_bodies(self) -> None:
        """T-COST-1: a large body of any shape is looked at in short turns before it is handled."""
        for name, make in shapes():
            self.open()
            body = make(384 * KIB)
            undisturbed(lambda body=body: [self.bring(body), self.settle()])
            self.assertLess(self.clock.longest, slack() * 10 / 1000, name)

    def test_T_MEM_1_containers(self) -> None:
        """T-MEM-1: a body of too many lists or maps ends the link before anybody unpacks it."""
        for body in (array([b"\x80"] * MIB), array([b"\x90"] * MIB), mapping([b"\x01"] * MIB)):
            self.open()
            self.heard.clear()
            used = peak(lambda body=body: [self.bring(body), self.settle()])
            is_map = body[:1] == b"\xdf"
            self.assertEqual(self.down, [] if is_map else ["a body of too many parts"])
            self.assertEqual(len(self.heard), is_map)
            self.assertLess(used, 48 * MIB)

    def test_in_order(self) -> None:
        """Words behind a large body wait until it is looked at, and other words do not."""
        self.patch(turns, "PORTION", -1.0)
        large = pack_bin([b"\x80" * MIB, 1])
        self.bring(large)
        self.link.wire.dataReceived(self.box(b"a", b"x") + self.box(b"b", b"y"))
        self.clock.settle(lambda: bool(self.heard))
        self.assertEqual(self.heard, [("b", 1)])
        self.assertEqual(self.bulk.producerState, "paused")

        self.settle()

        self.assertEqual(self.heard, [("b", 1), ("a", len(large)), ("a", 1)])
        self.assertEqual(self.bulk.producerState, "producing")
        self.assertEqual(self.down, [])

    def test_last_words(self) -> None:
        """What a peer said before it hung up is handled; what one says whom we cut off is not."""
        self.patch(turns, "PORTION", -1.0)
        large = pack_bin([b"\x80" * 300_000])
        self.bring(large)
        self.link.wire.connectionLost()
        self.assertEqual(self.heard, [("a", len(large))])

        self.open()
        self.heard.clear()
        self.bring(large)
        self.link.close("it is no longer a member")
        self.settle()
        self.assertEqual(self.heard, [])

    def test_T_MEM_1_unread_answers(self) -> None:
        """T-MEM-1: a peer that asks, and reads no answers, is cut off."""
        self.answers["big"] = lambda node, body: bytes(30_000)
        self.patch(linking, "MAX_WAITING", MIB)
        self.link.wire.producer = None
        self.wire.producer.pauseProducing()
        asked = 0
        while not self.down and asked < 1000:
            asked += 1
            box = {b"_ask": b"%d" % asked, b"_command": b"Ask", b"word": b"big", b"body": b"",
                   b"bulk": b"0"}  # fmt: skip
            self.link.wire.dataReceived(amp.Box(box).serialize())
            self.settle()

        self.assertEqual(self.down, ["it does not read what this node answers"])
        self.assertLess(asked, 50)
        self.assertLess(MAX_WAITING, PEER_MEMBER.memory)

    def test_T_MEM_1_questions(self) -> None:
        """T-MEM-1: of one peer's questions, no more are answered at once than there is room for."""
        waiting: list[Deferred[bytes]] = []

        def slow(node: str, body: bytes) -> Deferred[bytes]:
            waiting.append(Deferred())
            return waiting[-1]

        self.answers["slow"] = slow
        self.patch(linking, "MOST_ASKED", 10)
        done = [self.link.asked("slow", b"", 0) for _ in range(12)]
        for each in done[10:]:
            self.assertIn("too many", str(self.failureResultOf(each).value))

        for one in waiting:
            one.callback(b"")
        self.successResultOf(done[0])
        again = self.link.asked("slow", b"", 0)

        self.assertNoResult(again)

    def test_oversized(self) -> None:
        """A body that is too long ends the link by its head alone."""
        self.link.bulk.dataReceived(BULK_HEAD.pack(1, MAX_BODY + 1))
        self.assertEqual(self.down, ["an oversized body"])
        self.assertEqual(MAX_BODY, PEER_MEMBER.request)

    def test_T_MEM_1_no_head(self) -> None:
        """T-MEM-1: a connection that does not say what it is for is closed."""
        clock, wire = Clock(), Wire()
        attach = Attach(clock, lambda purpose, name: None)
        attach.makeConnection(wire)
        attach.dataReceived(b"x")
        clock.advance(PEER_MEMBER.holds)

        self.assertTrue(wire.aborted)
        attach.connectionLost()
        self.assertEqual(clock.getDelayedCalls(), [])


class WordCosts(SynchronousTestCase):
    """What a member says about a log."""

    @staticmethod
    def decode(data: bytes) -> None:
        """As a message of the reactor's thread."""
        try:
            words.decode(data)
        except WireError:
            pass

    def test_T_COST_1_messages(self) -> None:
        """T-COST-1: messages cost in proportion to what is listed in them."""
        dot = [b"%08d" % 1, 1]

        def streams(size: int) -> list[Any]:
            return [[f"n{n}", *dot] for n in range(size // 20)]

        makes: dict[str, Callable[[int], Any]] = {
            "known": lambda size: {"w": "known", "k": streams(size)},
            "digests": lambda size: {"w": "digest", "k": [], "o": [], "d": {
                f"kind{n}": b"" for n in range(size // 8)}},
            "entries": lambda size: {"w": "entries", "e": [["n", b"%08d" % 1, 1, [
                ["k", 1, b""]] * (size // 10)]]},
            "state": lambda size: {"w": "state", "i": 0, "x": [
                ["k", "n", *dot, 1, b"\x80"]] * (size // 20)},
        }  # fmt: skip
        for name, make in makes.items():
            assert_linear(
                self,
                name,
                lambda size, make=make: pack_bin(make(size)),
                self.decode,
                (KIB, 16 * KIB, 256 * KIB),
            )

    def test_T_MEM_1_buckets(self) -> None:
        """T-MEM-1: parts of the facts are asked for by name once each: the names come back."""
        head = {"w": "facts", "n": "minion", "x": [], "a": True}
        words.decode(pack_bin({**head, "b": list(range(256))}))
        for wrong in ([1] * 257, [256], [-1]):
            self.assertRaises(WireError, words.decode, pack_bin({**head, "b": wrong}))


class PortCosts(SynchronousTestCase):
    """The peer port, before and after somebody is known."""

    def setUp(self) -> None:
        """A port that lets all in, and listens nowhere."""
        authority, key = NodeKey.generate(), NodeKey.generate()
        badge = Badge(key, issue(authority, key.public, "a", "c", 1_700_000_000.0))
        self.counters: Counter[str] = Counter()
        self.port = PeerPort(Clock(), "127.0.0.1", 0, badge, self.counters)
        self.port.gate = SimpleNamespace(enter=lambda session: object())  # type: ignore[assignment]
        self.address = SimpleNamespace(host="192.0.2.1")

    def come(self, purpose: bytes, key: str = "k") -> Any:
        """A connection whose handshake is done; its door, and what is behind it."""
        if self.port._refuses(self.address):
            return None
        door = self.port._build(self.address)
        door.inner = door._enter(Session(purpose, key, b"", "192.0.2.1", None))
        return door

    def test_T_MEM_1_joining(self) -> None:
        """
        T-MEM-1: who wants to join is a stranger until it is gone: the key that it shows is new.
        """
        doors = [self.come(JOIN, f"k{n}") for n in range(MAX_PER_SOURCE + 3)]

        self.assertEqual([door is None for door in doors], [False] * MAX_PER_SOURCE + [True] * 3)
        doors[0]._gone(doors[0])
        self.assertIsNotNone(self.come(JOIN, "again"))
        self.assertEqual(PEER_STRANGER.memory_all // PEER_STRANGER.memory, 128)

    def test_T_MEM_1_one_member(self) -> None:
        """T-MEM-1: the holder of one key has some connections, however many others there are."""
        doors = [self.come(AMP) for _ in range(MAX_PER_KEY + 2)]

        self.assertEqual([door.inner is None for door in doors][-3:], [False, True, True])
        self.assertIsNotNone(self.come(AMP, "other").inner)
        doors[0]._gone(doors[0])
        self.assertIsNotNone(self.come(AMP).inner)


class RootsCosts(SynchronousTestCase):
    """What a member says on a stream of roots."""

    @staticmethod
    def decode(data: bytes) -> None:
        """As a message of the reactor's thread."""
        try:
            codec.unpack(data, codec.FEW_CONTAINERS)
        except Forbidden:
            pass

    def test_T_COST_1_messages(self) -> None:
        """T-COST-1: a message of any shape costs in proportion to its size."""
        for name, make in shapes():
            assert_linear(
                self, name, make, self.decode, (KIB, 16 * KIB, 256 * KIB), PEER_MEMBER.per_kib
            )

    def test_T_MEM_1_containers(self) -> None:
        """T-MEM-1: lists are counted, those of a batch too."""
        for most in (codec.FEW_CONTAINERS, codec.MOST_CONTAINERS):
            data = codec.pack([[]] * (most + 1))
            self.assertRaises(Forbidden, codec.unpack, data, most)
            codec.unpack(codec.pack([[]] * (most - 1)), most)

    def test_T_MEM_1_paths(self) -> None:
        """T-MEM-1: paths that repeat the one before for a few bytes each have one bound."""
        self.patch(codec, "MOST_PATHS", 4 * MIB)
        count = 2000
        data = [
            "d" * count,
            [0] + [MAX_PATH - 1] * (count - 1),
            [MAX_PATH] + [1] * (count - 1),
            b"a" * (MAX_PATH + count - 1),
            [0] * count,
            [], [], b"", [],
        ]  # fmt: skip

        used = peak(lambda: self.assertRaises(Forbidden, codec.unpack_entries, data, MAX_ENTRIES))

        self.assertLess(used, 5 * MIB)

    def test_T_COST_1_bombs(self) -> None:
        """T-COST-1: whether something packed is short is known without unpacking all of it."""
        bomb = codec.squeeze(bytes(16 * MIB), 9)
        self.assertLess(len(bomb), 32 * KIB)

        used = peak(lambda: self.assertFalse(codec.is_short(bomb, 64 * KIB)))

        self.assertLess(used, 256 * KIB)
        for plain in (b"", b"x" * 64 * KIB, bytes(64 * KIB)):
            self.assertTrue(codec.is_short(codec.squeeze(plain), 64 * KIB))
        self.assertFalse(codec.is_short(codec.squeeze(bytes(64 * KIB + 1)), 64 * KIB))
        self.assertTrue(codec.is_short(b"znonsense", 64 * KIB))

    def test_T_MEM_1_parts(self) -> None:
        """T-MEM-1: parts of messages that never end have one bound for all shares together."""
        frames = Frames()

        def act() -> None:
            for number in range(2 * MAX_UNFINISHED // MIB):
                share = number % 16
                list(frames.feed(HEAD.pack(MIB, BATCH, share, 1) + bytes(MIB)))

        self.assertRaises(Forbidden, act)
        self.assertLessEqual(frames._unfinished, MAX_UNFINISHED)


class AnswerCosts(SynchronousTestCase):
    """What answers us from outside."""

    @staticmethod
    def etcd(data: bytes) -> None:
        """As an answer of etcd."""
        try:
            parsed(data)
        except WireError:
            pass

    @staticmethod
    def claims(data: bytes) -> None:
        """As a part of a bearer token, in the reactor's thread."""
        try:
            claims_of(data)
        except BearerError:
            pass

    def test_T_COST_1_etcd(self) -> None:
        """T-COST-1: an answer of etcd costs in proportion, and the worst one fits into a turn."""
        for name, make in json_texts():
            assert_linear(self, name, make, self.etcd, (16 * KIB, 256 * KIB), ETCD.per_kib * 2)
            worst = b'{"a":' + make(512 * KIB)[: 512 * KIB] + b"}"
            for data in (worst, make(ETCD.request)):
                taken = least(lambda data=data: self.etcd(data), 2)
                self.assertLess(taken, slack() * ETCD.turn / 1000, name)

    def test_T_MEM_1_etcd(self) -> None:
        """T-MEM-1: an answer of many small parts is refused before it is read."""
        for one in ("{}", "[]", "1", '{"a":1}'):
            data = ("[" + ",".join([one] * 300_000) + "]").encode()
            used = peak(lambda data=data: self.assertRaises(WireError, parsed, data))
            self.assertLess(used, KIB * 64)

    def test_T_COST_1_bearer(self) -> None:
        """T-COST-1: what a bearer token says costs in proportion to its length."""
        for name, make in json_texts():
            assert_linear(self, name, make, self.claims, (KIB, BEARER_LENGTH))
