"""
The control socket: who is let in, what is refused by its length, and slow readers.
"""

from __future__ import annotations

import os
import shutil
import socket
import stat
import struct
import tempfile
from collections import Counter
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

import msgpack
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet import defer
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.internet.threads import deferToThread
from twisted.logger import Logger
from twisted.trial.unittest import SynchronousTestCase, TestCase

from saltwisted.errors import ConfigError, DeniedError, RemoteError, StoreError, TargetError
from saltwisted.transports import ipc, turns
from saltwisted.transports.ipc import (
    MAX_PATH,
    TRUSTED,
    ControlProtocol,
    ControlServer,
    Limits,
    PeerProcess,
    Stream,
    judge_by_uid,
)
from saltwisted.worker.control import ControlClient
from tests.master.test_automation_turns import one_turn

ME = PeerProcess(os.geteuid(), os.getegid(), os.getpid())
STRANGER = PeerProcess(4711, 4711, 5)


class Wire(StringTransport):
    """A transport that can be aborted and paused by the test."""

    aborted = False

    def abortConnection(self) -> None:
        """Note it."""
        self.aborted = True

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        """Keep it."""
        self.producer = producer


def message(**entries: Any) -> bytes:
    """One message with its length."""
    body = msgpack.packb(entries, use_bin_type=True)
    return struct.pack(">I", len(body)) + body


def awaited(test: Callable[[Any], Coroutine[Any, Any, None]]) -> Callable[[Any], Any]:
    """A test that is a coroutine: Twisted 22.4 does not wait for those by itself."""

    @wraps(test)
    def run(self: Any) -> defer.Deferred[None]:
        return defer.Deferred.fromCoroutine(test(self))

    return run


class Rig(SynchronousTestCase):
    """A server, and operations to call; its subclasses have the tests."""

    def setUp(self) -> None:
        """A server with a clock, and operations to call; a turn has room for all that comes."""
        self.patch(turns, "PORTION", 3600.0)
        self.clock = Clock()
        self.waiting: list[defer.Deferred[Any]] = []
        self.cancelled: list[str] = []
        self.counters: Counter[str] = Counter()
        self.limits: Limits | None = Limits(frame=1000, calls=3, unsent=2000, patience=60.0)
        self.server = ControlServer(
            self.clock, self.handle, judge=lambda peer: self.limits, counters=self.counters
        )
        self.streams: list[Stream] = []

    def connect(self, peer: PeerProcess = ME) -> tuple[ControlProtocol, Wire]:
        """A connection of this peer."""
        protocol, wire = ControlProtocol(self.server, self.handle, peer), Wire()
        protocol.makeConnection(wire)
        return protocol, wire

    async def handle(self, op: str, args: dict[str, Any], peer: PeerProcess, stream: Stream) -> Any:
        """The operations of this test."""
        self.streams.append(stream)
        if op == "echo":
            return [args, peer.uid]
        if op == "wait":
            self.waiting.append(defer.Deferred())
            try:
                return await self.waiting[-1]
            except defer.CancelledError:
                self.cancelled.append(op)
                raise
        if op == "count":
            for number in range(args["n"]):
                await stream({"number": number, "fill": "x" * args.get("fill", 0)})
            return "end"
        if op == "odd":
            return {"set": {1}, "tuple": (1, 2), "big": 1 << 70, "bad": "\udcff", "half": "\ud800"}
        raise {
            "denied": DeniedError("not you"),
            "remote": RemoteError("EauthError", "no", {"a": 1}),
            "target": TargetError("what?", "a and", 2),
            "store": StoreError("full", "/x"),
            "bug": ValueError("secret detail"),
        }[op]

    def answers(self, wire: Wire) -> list[dict[str, Any]]:
        """What was sent since the last look."""
        data, found = wire.value(), []
        wire.clear()
        while data:
            (size,) = struct.unpack(">I", data[:4])
            found.append(
                msgpack.unpackb(data[4 : 4 + size], raw=False, unicode_errors="surrogateescape")
            )
            data = data[4 + size :]
        return found


class ProtocolTests(Rig):
    """One connection, byte by byte."""

    def test_call(self) -> None:
        """A call is answered under its number, and the handler knows who asks."""
        protocol, wire = self.connect()

        protocol.dataReceived(message(id=7, op="echo", args={"a": b"\xff"}))

        self.assertEqual(self.answers(wire), [{"id": 7, "ok": [{"a": b"\xff"}, ME.uid]}])

    def test_any_pieces(self) -> None:
        """Messages may arrive in any pieces, or several at once."""
        data = b"".join(message(id=n, op="echo", args={}) for n in range(5))
        for size in (1, 3, 1000):
            protocol, wire = self.connect()
            for start in range(0, len(data), size):
                protocol.dataReceived(data[start : start + size])
            self.assertEqual([answer["id"] for answer in self.answers(wire)], [0, 1, 2, 3, 4])

    def test_errors(self) -> None:
        """Our own errors are told with Salt's names, others are logged and not told."""
        protocol, wire = self.connect()

        for number, op in enumerate(["denied", "remote", "target", "store", "bug"]):
            protocol.dataReceived(message(id=number, op=op, args={}))

        errors = [answer["error"] for answer in self.answers(wire)]
        self.assertEqual(
            [error["name"] for error in errors],
            [
                "AuthorizationError",
                "EauthError",
                "SaltInvocationError",
                "StoreError",
                "SaltException",
            ],
        )
        self.assertEqual(errors[1]["details"], {"a": 1})
        self.assertNotIn("secret", str(errors[4]))
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)

    def test_odd_values(self) -> None:
        """What msgpack has no word for goes out in a plain form."""
        protocol, wire = self.connect()

        protocol.dataReceived(message(id=1, op="odd", args={}))

        self.assertEqual(
            self.answers(wire)[0]["ok"],
            {
                "set": [1],
                "tuple": [1, 2],
                "big": str(1 << 70),
                "bad": b"\xff",
                "half": b"\xed\xa0\x80",
            },
        )

    def test_refused_unread(self) -> None:
        """A peer that is not admitted is hung up on, and not a byte of it is read."""
        self.limits = None
        protocol, wire = self.connect(STRANGER)

        protocol.dataReceived(message(id=1, op="echo", args={}))

        self.assertTrue(wire.aborted)
        self.assertEqual(wire.value(), b"")
        self.assertEqual(self.streams, [])
        self.assertEqual(self.counters["ipc_refused"], 1)
        self.assertEqual(self.server.connections, 0)

    def test_oversized(self) -> None:
        """A message above the limit is refused by its length alone, at the fourth byte."""
        protocol, wire = self.connect()
        protocol.dataReceived(struct.pack(">I", 1001)[:3])
        self.assertFalse(wire.aborted)

        protocol.dataReceived(struct.pack(">I", 1001)[3:])

        self.assertTrue(wire.aborted)
        self.assertEqual(self.counters["ipc_dropped_oversized"], 1)

    @given(st.binary(max_size=200))
    def test_any_bytes(self, data: bytes) -> None:
        """Whatever bytes come, nothing escapes: at worst this connection ends."""
        protocol, _ = self.connect()

        protocol.dataReceived(data)
        protocol.dataReceived(struct.pack(">I", len(data)) + data)

        self.flushLoggedErrors()

    def test_nonsense(self) -> None:
        """What is not a map with a number and an operation ends the connection."""
        for bad in ([1, 2], {"op": "echo"}, {"id": "x", "op": "echo"}, {"id": 1, "op": 5}, None):
            protocol, wire = self.connect()
            body = msgpack.packb(bad)
            protocol.dataReceived(struct.pack(">I", len(body)) + body)
            self.assertTrue(wire.aborted, bad)

    def test_bad_arguments(self) -> None:
        """Arguments that are not a map with text keys are refused, and the connection goes on."""
        protocol, wire = self.connect()

        protocol.dataReceived(message(id=1, op="echo", args=[1]))
        protocol.dataReceived(message(id=2, op="echo", args={5: 1}))
        protocol.dataReceived(message(id=3, op="echo"))

        first, second, third = self.answers(wire)
        self.assertIn("error", first)
        self.assertIn("error", second)
        self.assertEqual(third["ok"], [{}, ME.uid])

    def test_several_at_once(self) -> None:
        """Calls run side by side up to the limit, and are answered as they end."""
        protocol, wire = self.connect()
        for number in range(4):
            protocol.dataReceived(message(id=number, op="wait", args={}))
        (refused,) = self.answers(wire)
        self.assertEqual(refused["id"], 3)

        self.waiting[1].callback("b")
        self.waiting[0].callback("a")
        self.assertEqual(self.answers(wire), [{"id": 1, "ok": "b"}, {"id": 0, "ok": "a"}])
        protocol.dataReceived(message(id=2, op="echo", args={}))
        self.assertIn("error", self.answers(wire)[0])
        protocol.dataReceived(message(id=4, op="echo", args={}))
        self.assertIn("ok", self.answers(wire)[0])

    def test_cancel(self) -> None:
        """A call that is cancelled ends in the handler, and is not answered."""
        protocol, wire = self.connect()
        protocol.dataReceived(message(id=1, op="wait", args={}))

        protocol.dataReceived(message(id=1, op="cancel"))
        protocol.dataReceived(message(id=99, op="cancel"))

        self.assertEqual(self.cancelled, ["wait"])
        self.assertEqual(wire.value(), b"")
        self.streams[0]("late")
        self.assertEqual(wire.value(), b"")

    def test_hanging_up(self) -> None:
        """When the peer goes, its calls are cancelled, and streaming on is harmless."""
        protocol, _ = self.connect()
        protocol.dataReceived(message(id=1, op="wait", args={}))
        self.assertEqual(self.server.connections, 1)

        protocol.connectionLost()
        self.streams[0]("late")

        self.assertEqual(self.cancelled, ["wait"])
        self.assertEqual(self.server.connections, 0)

    def test_stream(self) -> None:
        """Items come before the answer, in order."""
        protocol, wire = self.connect()

        protocol.dataReceived(message(id=1, op="count", args={"n": 3}))

        answers = self.answers(wire)
        self.assertEqual([answer["item"]["number"] for answer in answers[:3]], [0, 1, 2])
        self.assertEqual(answers[3], {"id": 1, "ok": "end"})

    def test_slow_reader_is_waited_for(self) -> None:
        """While the reader is behind, a stream that waits sends one item and stops."""
        protocol, wire = self.connect()
        wire.producer.pauseProducing()
        protocol.dataReceived(message(id=1, op="count", args={"n": 3, "fill": 900}))
        self.assertEqual(len(self.answers(wire)), 1)
        wire.producer.resumeProducing()

        self.assertEqual(len(self.answers(wire)), 3)
        self.assertFalse(wire.aborted)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_slow_reader_is_dropped(self) -> None:
        """A reader whose unsent items grow beyond its limit is dropped, counted, and cancelled."""
        protocol, wire = self.connect()
        protocol.dataReceived(message(id=1, op="wait", args={}))
        wire.producer.pauseProducing()

        for _ in range(3):
            self.streams[0]("x" * 900)

        self.assertTrue(wire.aborted)
        self.assertEqual(self.counters["ipc_dropped_slow"], 1)
        self.assertEqual(self.cancelled, ["wait"])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_stalled_reader_is_dropped(self) -> None:
        """A reader that does not read for its patience is dropped."""
        _, wire = self.connect()
        wire.producer.pauseProducing()
        self.clock.advance(59)
        self.assertFalse(wire.aborted)
        self.clock.advance(1)

        self.assertTrue(wire.aborted)
        self.assertEqual(self.counters["ipc_dropped_stalled"], 1)

    def test_crowd(self) -> None:
        """One stranger's connections are few; the daemon's own user has room up to all of them."""
        self.server = ControlServer(
            self.clock, self.handle, judge=judge_by_uid, connections=16, counters=self.counters
        )

        strangers = [self.connect(STRANGER)[1].aborted for _ in range(4)]
        others = [self.connect(PeerProcess(4712, 1, 1))[1].aborted for _ in range(2)]
        mine = [self.connect(ME)[1].aborted for _ in range(13)]

        self.assertEqual(strangers, [False, False, True, True])
        self.assertEqual(others, [False, False])
        self.assertEqual(mine, [False] * 12 + [True])
        self.assertEqual(self.counters["ipc_refused_full"], 3)


class ShareTests(Rig):
    """What one peer may take of the daemon: turns, memory, time. Its tests run in short turns."""

    def setUp(self) -> None:
        """Each message takes a turn of its own."""
        super().setUp()
        self.patch(turns, "PORTION", -1.0)
        self.limits = Limits(frame=1000, calls=3, unsent=2000, patience=60.0, unfinished=20.0)

    def test_T_COST_1_turns(self) -> None:
        """Messages that come at once are handled one a turn, and no more are read meanwhile."""
        protocol, wire = self.connect()

        protocol.dataReceived(b"".join(message(id=n, op="echo", args={}) for n in range(50)))
        seen = []
        while self.clock.getDelayedCalls():
            self.assertEqual(wire.producerState, "paused")
            one_turn(self.clock)
            seen += self.answers(wire)
            self.assertLessEqual(len(self.streams), len(seen) + 1)

        self.assertEqual([answer["id"] for answer in seen], list(range(50)))
        self.assertEqual(wire.producerState, "producing")

    def test_last_words(self) -> None:
        """What was said before the peer hung up is heard, and its connection ends after that."""
        protocol, _ = self.connect()
        protocol.dataReceived(message(id=1, op="echo") + message(id=2, op="wait"))

        protocol.connectionLost()
        self.assertEqual(self.server.connections, 1)
        self.clock.pump([0.0] * 9)

        self.assertEqual(len(self.streams), 2)
        self.assertEqual(self.cancelled, ["wait"])
        self.assertEqual(self.server.connections, 0)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_stopped_between(self) -> None:
        """A server that hangs up handles nothing that waits."""
        protocol, _ = self.connect()
        protocol.dataReceived(message(id=1, op="echo") + message(id=2, op="echo"))

        stopped = self.server.hang_up()
        protocol.connectionLost()

        self.successResultOf(stopped)
        self.assertEqual(self.streams, [])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_T_MEM_1_unfinished(self) -> None:
        """A message that is begun and not finished in time ends the connection; a whole one not."""
        protocol, wire = self.connect()
        protocol.dataReceived(message(id=1, op="wait", args={}))
        self.clock.advance(0)
        self.clock.advance(60)
        self.assertFalse(wire.aborted)

        protocol.dataReceived(message(id=2, op="echo")[:-1])
        self.clock.advance(19)
        self.assertFalse(wire.aborted)
        self.clock.advance(1)

        self.assertTrue(wire.aborted)
        self.assertEqual(self.counters["ipc_dropped_unfinished"], 1)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_T_MEM_1_together(self) -> None:
        """
        All that users make the daemon keep has one bound; the one that keeps most loses what keeps
        most, and the daemon's own user is not counted.
        """
        few = Limits(frame=1000, kept=1500)
        self.server = ControlServer(
            self.clock,
            self.handle,
            judge=lambda peer: TRUSTED if peer == ME else few,
            counters=self.counters,
            kept=3000,
        )
        begun = struct.pack(">I", 900) + b"x" * 600
        mine = self.connect(ME)[1]
        wires = []
        for uid in (1, 2, 3, 4):
            protocol, wire = self.connect(PeerProcess(uid, 1, 1))
            protocol.dataReceived(begun)
            wires.append(wire)
        own, other = self.connect(PeerProcess(1, 1, 1))
        own.dataReceived(begun[:-1])

        self.assertEqual([wire.aborted for wire in wires], [True, False, False, False])
        self.assertFalse(other.aborted)
        again, third = self.connect(PeerProcess(1, 1, 1))
        again.dataReceived(begun[:-2])
        self.assertEqual([other.aborted, third.aborted, mine.aborted], [True, False, False])
        self.assertEqual(self.counters["ipc_dropped_crowded"], 2)

    def test_T_MEM_1_arguments(self) -> None:
        """What running calls were given counts too, until they end; more of them are refused."""
        self.limits = Limits(frame=1000, kept=140_000)
        protocol, wire = self.connect(STRANGER)
        for number in (1, 2):
            protocol.dataReceived(message(id=number, op="wait", args={"a": "x" * 900}))
            self.clock.advance(0)
        (refused,) = self.answers(wire)
        self.assertEqual((refused["id"], len(self.waiting)), (2, 1))

        self.waiting[0].callback(1)
        protocol.dataReceived(message(id=3, op="wait", args={"a": "x" * 900}))
        self.clock.advance(0)

        self.assertEqual(len(self.waiting), 2)
        self.assertEqual(self.counters["ipc_calls_refused"], 1)

    def test_T_MEM_1_crowd(self) -> None:
        """Strangers with many names have half of the connections together."""
        self.server = ControlServer(
            self.clock, self.handle, judge=judge_by_uid, connections=16, counters=self.counters
        )

        crowd = [self.connect(PeerProcess(5000 + n, 1, 1)) for n in range(10)]
        mine = [self.connect(ME)[1].aborted for _ in range(8)]

        self.assertEqual([wire.aborted for _, wire in crowd], [False] * 8 + [True] * 2)
        self.assertEqual(mine, [False] * 8)
        crowd[0][0].connectionLost()
        self.assertFalse(self.connect(PeerProcess(6000, 1, 1))[1].aborted)

    def test_T_COST_1_listeners(self) -> None:
        """An item that many are sent is packed once."""
        packed: list[Any] = []
        pack = ipc.pack_value
        self.patch(ipc, "pack_value", lambda value: packed.append(value) or pack(value))
        wires = []
        for _ in range(5):
            protocol, wire = self.connect()
            protocol.dataReceived(message(id=1, op="wait"))
            wires.append(wire)
        self.clock.pump([0.0] * 9)
        item = {"tag": "a", "data": {"b": 1}}

        for stream in self.streams:
            stream(item)
        self.clock.advance(0)
        self.streams[0](item)

        sent = [self.answers(wire) for wire in wires]
        self.assertEqual(sent[1:], [[{"id": 1, "item": item}]] * 4)
        self.assertEqual(len(packed), 2)

    def test_said_once(self) -> None:
        """However often one user is dropped for the same, the log has a line of it each minute."""
        seen: list[Any] = []
        self.patch(ControlProtocol, "log", Logger(observer=seen.append))
        for _ in range(20):
            self.connect(STRANGER)[0].dataReceived(b"\xff" * 5)
            self.clock.advance(0)
        self.clock.advance(60)
        self.connect(STRANGER)[0].dataReceived(b"\xff" * 5)
        self.clock.advance(0)

        self.assertEqual(len(seen), 2)
        self.assertEqual(self.counters["ipc_dropped_oversized"], 21)


class SocketTests(TestCase):
    """Real sockets: what only the kernel can tell. They need the reactor for that."""

    timeout = 10

    def setUp(self) -> None:
        """A directory with a short path."""
        from twisted.internet import reactor

        self.reactor = reactor
        self.folder = tempfile.mkdtemp(dir="/tmp")
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.path = os.path.join(self.folder, "run", "saltwisted.sock")

    async def handle(self, op: str, args: dict[str, Any], peer: PeerProcess, stream: Stream) -> Any:
        """Say who asks; send some data."""
        for _ in range(args.get("items", 0)):
            await stream(b"x" * 100_000)
        return [peer.uid, peer.gid, peer.pid]

    def start(self, path: str | None = None) -> ControlServer:
        """A server, stopped at the end."""
        server = ControlServer(self.reactor, self.handle, path or self.path)
        server.startService()
        self.addCleanup(server.stopService)
        return server

    @awaited
    async def test_credentials(self) -> None:
        """The kernel names the peer, anybody may connect, and the blocking client understands."""
        old = os.umask(0o777)
        self.addCleanup(os.umask, old)
        self.start()
        self.assertEqual(stat.S_IMODE(os.stat(self.path).st_mode), 0o666)
        self.assertEqual(stat.S_IMODE(os.stat(os.path.dirname(self.path)).st_mode), 0o755)

        def ask() -> tuple[Any, int]:
            with ControlClient(self.path) as client:
                who = client.call("who")
                return who, sum(len(item) for item in client.stream("who", items=50))

        who, size = await deferToThread(ask)
        self.assertEqual(who, [os.geteuid(), os.getegid(), os.getpid()])
        self.assertEqual(size, 5_000_000)

    @awaited
    async def test_adopted(self) -> None:
        """One end of a socket pair is served under the name that it was given."""
        server = self.start()
        ours, theirs = socket.socketpair()
        server.adopt(ours, PeerProcess(1, 2, 3))

        def ask() -> Any:
            with ControlClient(sock=theirs) as client:
                return client.call("who")

        self.assertEqual(await deferToThread(ask), [1, 2, 3])

    @awaited
    async def test_one_daemon(self) -> None:
        """A second daemon on the same path is refused while the first runs, and not after."""
        first = self.start()
        error = self.assertRaises(ConfigError, self.start)
        self.assertIn("another daemon", str(error))
        await first.stopService()

        self.assertNotIn("saltwisted.sock", os.listdir(os.path.dirname(self.path)))
        self.start()

    @awaited
    async def test_stale_socket(self) -> None:
        """A socket that a killed daemon left is replaced; anything else of that name is not."""
        os.makedirs(os.path.dirname(self.path))
        dead = socket.socket(socket.AF_UNIX)
        dead.bind(self.path)
        dead.close()
        await self.start().stopService()
        os.mkfifo(self.path)

        self.assertRaises(ConfigError, self.start)
        self.assertTrue(stat.S_ISFIFO(os.stat(self.path).st_mode))

    @awaited
    async def test_long_path(self) -> None:
        """A path that no unix socket can have is refused with both numbers."""
        path = os.path.join(self.folder, "x" * MAX_PATH)

        error = self.assertRaises(ConfigError, self.start, path)

        self.assertIn(str(MAX_PATH), str(error))
        self.assertIn("sock_dir", str(error))

    @awaited
    async def test_stop(self) -> None:
        """Stopping hangs up on everybody, and may be done twice."""
        server = self.start()
        client = socket.socket(socket.AF_UNIX)
        self.addCleanup(client.close)
        client.connect(self.path)
        await deferToThread(lambda: None)

        await server.stopService()
        await server.stopService()

        client.settimeout(5)
        self.assertEqual(await deferToThread(client.recv, 1), b"")
