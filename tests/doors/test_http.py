"""
What one client of the HTTP API may cost: heads, bodies, pipelines, files and web sockets of every
shape, up to what the doors accept.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.protocol import Factory
from twisted.internet.ssl import CertificateOptions
from twisted.internet.testing import MemoryReactorClock, StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.api import bodies
from saltwisted.domain.api.formatted import SaltInfo
from saltwisted.domain.api.parcels import Unpacking, parcels
from saltwisted.domain.api.problems import Problem
from saltwisted.doors import EVENTS, HTTP, KIB, METRICS, MIB, STATIC
from saltwisted.transports.accepting import AT_ONCE, Few
from saltwisted.turns import turns_of
from saltwisted.web import events, http, sending
from saltwisted.web.channel import HEAD
from saltwisted.web.cookies import cookie_of
from saltwisted.web.handshakes import WAITING, Handshakes
from saltwisted.web.room import Held, Room
from saltwisted.web.sending import MUTE, FileSource, Sending, Streaming, Unread
from saltwisted.web.static import StaticFiles
from saltwisted.web.talking import SLICE
from tests.doors.measure import FACTOR, Turned, assert_linear, peak, slack
from tests.doors.shapes import Make, integer, json_texts, mapping, msgpack_values, words_of
from tests.web.calls import UPGRADE
from tests.web.rig import ApiRig, Connection
from tests.web.test_metrics import Told

HEAD_SIZES = (KIB - 100, HEAD - 1600)
"""Of one header or path, with room for the rest of the head."""
GONE = Failure(ConnectionDone())


class Mute(StringTransport):
    """A connection whose client reads nothing: what it is given stays here."""

    bufferSize = 65_536

    def write(self, data: bytes) -> None:
        """Keep it, and say so when it is much."""
        super().write(data)
        if self.producer is not None and len(self.value()) > self.bufferSize:
            self.producer.pauseProducing()

    def writeSequence(self, data: Any) -> None:
        """The same."""
        self.write(b"".join(data))


class Tcp(StringTransport):
    """A connection below TLS."""

    def setTcpNoDelay(self, enabled: bool) -> None:
        """No matter."""


class Costs(SynchronousTestCase):
    """A master with an API whose connections have a clock that measures their turns."""

    def setUp(self) -> None:
        # What was there before is not looked at again and again
        gc.collect()
        gc.freeze()
        self.addCleanup(gc.unfreeze)
        self.folder = self.mktemp()
        os.makedirs(self.folder)
        self.api = ApiRig(self, block={"static": os.path.abspath(self.folder)})
        self.factory = self.api.api.factory
        self.clock = Turned()
        self.factory.reactor = self.clock

    def connect(self, address: str = "192.0.2.7", transport: Any = None) -> Connection:
        """A client."""
        connection = Connection(self.api, address)
        if transport is not None:
            connection.protocol.connectionLost(GONE)
            connection.transport = transport
            connection.protocol = self.factory.buildProtocol(None)
            connection.protocol.makeConnection(transport)
        return connection

    def once(self, data: bytes) -> Connection:
        """A client that sends something, and all turns that it asks for."""
        connection = self.connect()
        self.clock.measure(lambda: connection.send(data))
        self.clock.settle()
        return connection


class HeadTests(Costs):
    """What is read of anybody."""

    def shaped(self, name: str, make: Callable[[bytes], bytes], shapes: Iterator[Any]) -> None:
        """Heads that have something of these shapes cost in proportion to their size."""
        for shape, fill in shapes:

            def built(size: int, fill: Make = fill) -> bytes:
                # A header is on one line
                return make(fill(size).replace(b"\r", b" ").replace(b"\n", b" "))

            def act(data: bytes) -> None:
                self.once(data).protocol.connectionLost(GONE)

            assert_linear(self, f"{name}: {shape}", built, act, SIZES_OF_HEADS, HTTP.per_kib)

    def test_T_COST_1_paths(self) -> None:
        """T-COST-1: a path costs in proportion to its length, whatever is in it."""
        self.shaped("path", lambda text: b"GET /" + text.replace(b" ", b"") + END, words_of("/%.?"))

    def test_T_COST_1_queries(self) -> None:
        """T-COST-1: so does what is behind the question mark."""
        self.shaped(
            "query", lambda text: b"GET /?" + text.replace(b" ", b"") + END, words_of("&;=+%")
        )

    def test_T_COST_1_headers(self) -> None:
        """T-COST-1: and each header that means something."""
        for name, separators in (
            (b"Cookie", ';="\\'),
            (b"Accept", ",;=q/"),
            (b"Accept-Encoding", ",;=q"),
            (b"Authorization", "."),
            (b"Origin", ":/[]@"),
            (b"Content-Type", ";/="),
        ):
            first = {b"Cookie": b"session_id=", b"Authorization": b"Bearer "}.get(name, b"")

            def make(text: bytes, name: bytes = name, first: bytes = first) -> bytes:
                return b"GET / HTTP/1.1\r\n" + name + b": " + first + text + b"\r\n\r\n"

            self.shaped(name.decode(), make, words_of(separators))

    def test_T_COST_1_cookies(self) -> None:
        """T-COST-1: a cookie is found in any header, also in one that C{http.cookies} dwells on."""
        for text, found in (
            ('a=1; session_id=abc; session_id="def"', "def"),
            ("session_id=" + '"' + "\\0" * 4000 + '"', "\\0" * 4000),
            ("xsession_id=a", ""),
            ("session_id", ""),
            ('session_id="', '"'),
        ):
            self.assertEqual(cookie_of(text), found)

    def test_T_COST_1_lines(self) -> None:
        """
        T-COST-1: a head has few lines, also lines that go on with one before, and short names; its
        length is a number of some digits.
        """
        for head in (
            b"GET / HTTP/1.1\r\nA: b\r\n" + b" \r\n" * 5000,
            b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 60,
            b"GET / HTTP/1.1\r\n" + b"A" * 101 + b": b\r\n",
            b"POST / HTTP/1.1\r\nContent-Length: " + b"9" * 5000 + b"\r\n",
            b"GET / HTTP/1.1\r\nA: " + b"b" * HEAD + b"\r\n",
        ):
            connection = self.once(head + b"\r\n")
            self.assertEqual([each.status for each in connection.replies], [400], head[:40])
            self.assertTrue(connection.transport.disconnecting)
        self.assertEqual(self.flushLoggedErrors(), [])

    def test_T_COST_1_crumbs(self) -> None:
        """
        T-COST-1: what comes byte by byte, also behind a request that takes long, costs in
        proportion to its bytes.
        """
        token = self.api.login()

        def drip(data: bytes) -> None:
            waiting = self.connect()
            waiting.send(b"GET /minions HTTP/1.1\r\nX-Auth-Token: " + token.encode() + b"\r\n\r\n")
            for at in range(len(data)):
                waiting.send(data[at : at + 1])
            waiting.protocol.connectionLost(GONE)

        assert_linear(self, "crumbs", lambda size: b"x" * size, drip, (KIB, 16 * KIB))

    def test_metrics(self) -> None:
        """T-COST-1: the port of the metrics reads heads in the same way."""
        told = Told("setUp")
        told.setUp()
        gc.freeze()

        def ask(path: bytes) -> None:
            protocol, _ = told.connect()
            protocol.dataReceived(b"GET /" + path + END)
            told.turn(2)
            protocol.connectionLost(GONE)

        for shape, fill in words_of("/%?&="):

            def make(size: int, fill: Make = fill) -> bytes:
                return fill(size).replace(b" ", b"")

            assert_linear(self, shape, make, ask, SIZES_OF_HEADS, METRICS.per_kib)


POST = b"POST /login HTTP/1.1\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
END = b" HTTP/1.1\r\n\r\n"
SIZES_OF_HEADS = (HEAD_SIZES[1] // FACTOR, HEAD_SIZES[1] // FACTOR * FACTOR)


class PipelineTests(Costs):
    """Many requests on one connection."""

    def test_T_COST_1_turns(self) -> None:
        """
        T-COST-1: however many requests come at once, each has a turn of its own, and they cost in
        proportion to their bytes.
        """
        for shape in (
            b"GET / HTTP/1.1\r\n\r\n",
            b"GET /nowhere HTTP/1.1\r\nCookie: session_id=1\r\n\r\n",
            POST + b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
            POST + CHUNKED + b"1\r\n{\r\n1\r\n}\r\n0\r\n\r\n",
        ):
            self.clock.turns, self.clock.longest = 0, 0.0
            count = 64 * KIB // len(shape)
            connection = self.once(shape * count)
            # One or two steps for each: its head, and what is left of its body
            self.assertGreaterEqual(self.clock.turns, count)
            self.assertEqual(len(connection.replies), count)
            self.assertLess(self.clock.longest * 1000, HTTP.turn * slack(), shape)

    def test_order(self) -> None:
        """A request behind one that takes long waits for it, and no more of it is taken."""
        connection = self.connect()
        token = self.api.login().encode()
        connection.send(b"GET /minions HTTP/1.1\r\nX-Auth-Token: " + token + b"\r\n\r\n")
        self.assertEqual(connection.transport.producerState, "producing")
        connection.send(b"GET / HTTP/1.1\r\n\r\n" * 3000)
        self.assertEqual(connection.transport.producerState, "paused")
        self.clock.settle()
        self.assertEqual(connection.replies, [])

        self.api.answer(True, 0, 1)
        self.clock.settle()

        self.assertEqual(len(connection.replies), 3001)
        self.assertEqual(connection.transport.producerState, "producing")

    def test_mute(self) -> None:
        """Who does not read gets no more answers, and is hung up on after a while."""
        transport: Any = Mute()
        connection = self.connect(transport=transport)
        connection.send(b"GET / HTTP/1.1\r\n\r\n" * 3000)
        self.clock.settle()
        self.assertLess(len(transport.value()), 2 * transport.bufferSize)
        self.assertEqual(transport.bufferSize, 16 * KIB)
        transport.clear()
        transport.producer.resumeProducing()
        self.clock.settle()
        self.assertGreater(len(transport.value()), transport.bufferSize)

        self.clock.advance(http.IDLE + 1)
        self.assertTrue(transport.disconnecting)
        self.clock.advance(16)
        self.assertTrue(transport.disconnected)

    def test_no_turn(self) -> None:
        """If this turn of the reactor has no room, what comes waits for a later one."""
        connection = self.connect()

        class Full:
            has_room = False
            later = self.clock.callLater

        full: Any = Full()
        full.later = lambda call: self.clock.callLater(0, call)
        connection.protocol.turns = full
        connection.send(b"GET / HTTP/1.1\r\n\r\n")
        self.assertEqual(connection.replies, [])

        self.clock.settle()
        self.assertEqual([each.status for each in connection.replies], [200])


class BodyTests(Costs):
    """Bodies."""

    def test_T_COST_1_at_once(self) -> None:
        """T-COST-1: what is read in the reactor's thread is short, whatever it is."""
        kinds: tuple[tuple[str, int, Iterator[tuple[str, Make]]], ...] = (
            ("application/json", bodies.AT_ONCE, json_texts()),
            ("text/plain", bodies.AT_ONCE, json_texts()),
            ("application/x-yaml", bodies.YAML_AT_ONCE, words_of(":-[]{}#&*!|>?,")),
            (bodies.FORM, bodies.YAML_AT_ONCE, words_of("&=+%;")),
            ("application/x-msgpack", bodies.MSGPACK_AT_ONCE, msgpack_values()),
        )
        for kind, most, shapes in kinds:
            for shape, fill in shapes:
                data = fill(most)[:most]
                self.assertFalse(bodies.is_long(kind, data))
                best = min(self.read(kind, data) for _ in range(3))
                if best * 1000 > HTTP.turn:
                    self.assertLess(best * 1000, HTTP.turn * slack(), f"{kind}: {shape}")

    def read(self, kind: str, data: bytes) -> float:
        """How long a body takes."""
        clock = Turned()

        def act() -> None:
            try:
                bodies.read(kind, data)
            except Problem:
                return

        clock.measure(act)
        return clock.longest

    def test_T_COST_1_long(self) -> None:
        """T-COST-1: a long body comes from its process in steps, each of them short."""
        maps = "- {" + ", ".join(f"{n * 4096}: a" for n in range(900)) + "}\n"
        for kind, data in (
            ("application/json", b"[" + b"{}," * 60_000 + b"1]"),
            ("application/json", b'{"a":' * 90 + b"[" + b"1," * 100_000 + b"1]" + b"}" * 90),
            ("application/x-yaml", maps.encode() * 20),
        ):
            body = bodies.read(kind, data)
            received = list(parcels(body.value))
            clock, unpacking = Turned(), Unpacking()
            steps = unpacking.steps(received)
            while clock.measure(partial(next, steps, self)) is not self:
                pass
            self.assertLess(clock.longest * 1000, HTTP.turn * slack(), (kind, data[:20]))
            self.assertEqual(unpacking.value, body.value)

    def test_T_COST_1_crowded(self) -> None:
        """T-COST-1: a map of very many numbers is refused before it is made a second time."""
        numbers = list(range(bodies.KEYS + 1))
        for kind, data in (
            ("application/x-yaml", b"".join(b"%d: 1\n" % number for number in numbers)),
            ("application/x-msgpack", mapping([integer(number) for number in numbers])),
        ):
            self.assertRaises(Problem, bodies.read, kind, data)
        body = bodies.read("application/x-yaml", b"".join(b"%d: 1\n" % n for n in numbers[1:]))
        self.assertEqual(len(body.value), bodies.KEYS)

    def test_T_COST_1_chunks(self) -> None:
        """T-COST-1: a body in chunks of one byte is read in many short turns, in linear time."""

        def make(size: int) -> bytes:
            return POST + CHUNKED + b"1\r\nx\r\n" * (size // 6)

        def act(data: bytes) -> None:
            self.once(data).protocol.connectionLost(GONE)

        assert_linear(self, "chunks", make, act, (4 * KIB, 64 * KIB), HTTP.per_kib)
        self.assertLess(self.clock.longest * 1000, HTTP.turn * slack())

    def test_T_MEM_1_strangers(self) -> None:
        """
        T-MEM-1: of somebody who has not said who he is a body of 64 KiB is kept at most, announced
        or in chunks; of a user, and of a hook that is signed, all that C{max_request_body_size}
        allows.
        """
        block = {"webhook_signatures": {"*": "a secret of some length"}}
        signed = ApiRig(self, block=block)
        token = self.api.login()
        large = b'{"a": "' + b"x" * (MIB - 100) + b'"}'
        for api, path, more, status in (
            (self.api, "/login", {}, 413),
            (self.api, "/", {"X_Auth_Token": "0" * 64}, 413),
            (self.api, "/hook/x", {}, 413),
            (signed, "/hook/x", {"X_Hub_Signature_256": "sha256=00"}, 401),
            (self.api, "/", {"X_Auth_Token": token}, 400),
            (self.api, "/hook/x", {"X_Auth_Token": token}, 200),
        ):
            kept = 0
            connection = api.open("POST", path, body=large[:1000], Content_Length=str(len(large)))
            connection = Connection(api)
            lines = [f"{name.replace('_', '-')}: {text}" for name, text in more.items()]
            for told in (f"Content-Length: {len(large)}", "Transfer-Encoding: chunked"):
                connection = Connection(api)
                head = [f"POST {path} HTTP/1.1", "Content-Type: application/json", told, *lines]
                connection.send("\r\n".join(head).encode() + b"\r\n\r\n")
                for at in range(0, len(large), 8 * KIB):
                    if connection.transport.disconnecting:
                        break
                    part = large[at : at + 8 * KIB]
                    is_chunk = told.startswith("Transfer")
                    connection.send(b"%x\r\n%b\r\n" % (len(part), part) if is_chunk else part)
                    api.api.factory.reactor.advance(0)
                    kept = max(kept, connection.protocol.body)
                connection.send(b"0\r\n\r\n" if told.startswith("Transfer") else b"")
                api.wait(0.2)
                self.assertEqual([each.status for each in connection.replies], [status], path)
            if status == 413:
                self.assertLessEqual(kept, HTTP.request + 8 * KIB, path)
            else:
                self.assertGreater(kept, HTTP.request, path)

    def test_T_MEM_1_room(self) -> None:
        """
        T-MEM-1: for all strangers together there is one room. Who fills it loses what is his own;
        others get in, and nothing that is cut off is kept.
        """
        self.factory.strangers = Room(MIB)
        head = b"POST /login HTTP/1.1\r\nContent-Length: 60000\r\n\r\n"
        clients: list[Connection] = []

        def crowd() -> None:
            for number in range(80):
                connection = self.connect(f"198.51.100.{number % 2}")
                clients.append(connection)
                connection.send(head)
                for _ in range(50):
                    connection.send(b"x" * KIB)
                    self.clock.advance(0)

        self.assertLess(peak(crowd), 3 * MIB)
        self.assertLessEqual(self.factory.strangers.kept, MIB)
        cut = [each for each in clients if each.replies]
        self.assertEqual({each.replies[0].status for each in cut}, {503})
        self.assertEqual(len(cut), 80 - MIB // (50 * KIB))
        self.assertNotIn(clients[-1], cut)

        good = self.api.ask("POST", "/login", {"username": "x"}, address="192.0.2.9")
        self.assertEqual(good.status, 401)
        for each in clients:
            each.protocol.connectionLost(GONE)
        self.assertEqual((self.factory.strangers.kept, self.factory.users.kept), (0, 0))

    def test_T_MEM_1_heads(self) -> None:
        """T-MEM-1: unfinished heads, and what waits behind a request, are in the same room."""
        connection = self.connect()
        connection.send(b"GET / HTTP/1.1\r\nA: " + b"x" * 9000)
        self.assertGreater(self.factory.strangers.kept, 9000)
        connection.send(b"\r\n\r\n")
        self.assertEqual(self.factory.strangers.kept, 0)
        token = self.api.login().encode()
        head = b"GET /minions HTTP/1.1\r\nX-Auth-Token: " + token + b"\r\n\r\n"
        connection.send(head + b"x" * 99)

        self.assertEqual((self.factory.strangers.kept, self.factory.users.kept), (0, 99))
        connection.protocol.connectionLost(GONE)
        self.assertEqual(self.factory.users.kept, 0)

    def test_T_MEM_1_handshakes(self) -> None:
        """T-MEM-1: a handshake of TLS that does not end counts, and ends after a while."""
        transport = StringTransport()
        # As Twisted's own transport of TLS has it
        transport.transport = StringTransport()  # type: ignore[attr-defined]
        connection = self.connect(transport=transport)
        self.assertEqual(self.factory.strangers.kept, http.HANDSHAKE)
        self.clock.advance(http.ARRIVAL)
        self.assertTrue(transport.disconnected)
        connection.protocol.connectionLost(GONE)
        self.assertEqual(self.factory.strangers.kept, 0)

        handshakes = Handshakes(
            CertificateOptions(), self.factory, turns_of(self.clock), self.factory.few
        )
        # A greeting of 127000 bytes, which OpenSSL would wait for
        record = b"\x16\x03\x01\x40\x00" + b"\x01\x01\xf0\x00" + b"x" * 16_380
        for sent in ([b"x" * 50, b"x" * 50], [record, record, record]):
            tcp = Tcp()
            tls = handshakes.buildProtocol(None)
            tls.makeConnection(tcp)
            tls.dataReceived(sent[0])
            self.assertFalse(tcp.disconnecting)
            for more in sent[1:]:
                self.clock.settle()
                tls.dataReceived(more)
            self.assertTrue(tcp.disconnecting)
            tls.connectionLost(GONE)
        self.assertEqual((self.factory.strangers.kept, handshakes._waiting), (0, 0))

        other = StringTransport()
        other.transport = StringTransport()  # type: ignore[attr-defined]
        connection = self.connect(transport=other)
        connection.protocol.handshakeCompleted()
        self.assertEqual(self.factory.strangers.kept, 0)
        self.clock.advance(http.ARRIVAL)
        self.assertFalse(other.disconnecting)


class PortTests(SynchronousTestCase):
    """L{Few}, and handshakes that wait."""

    def test_T_COST_1_few(self) -> None:
        """
        T-COST-1: a port accepts few connections in one turn, however many came before, and none
        while many handshakes wait for their turns.
        """
        reactor = MemoryReactorClock()
        few, port = Few(reactor), Port()
        self.assertIs(few.watch(port), port)
        for found in (AT_ONCE + 20, 1):
            few.accepted()
            few.accepted()
            port.numberAccepts = found
            reactor.advance(0)
            self.assertEqual(port.numberAccepts, AT_ONCE)

        wrapped: Any = Factory()
        handshakes = Handshakes(CertificateOptions(), wrapped, turns_of(reactor), few)
        for _ in range(2):
            for _ in range(WAITING):
                handshakes.wait(handshakes.waits_less)
            self.assertFalse(port.reads)
            reactor.advance(0)
            self.assertTrue(port.reads)
        few.accepted()
        few.forget()
        few.hold(True)
        reactor.advance(0)
        self.assertTrue(port.reads)


class Port:
    """What is known of a port."""

    numberAccepts = 100
    reads = True

    def stopReading(self) -> None:
        """It accepts nobody."""
        self.reads = False

    def startReading(self) -> None:
        """It accepts again."""
        self.reads = True


class RoomTests(SynchronousTestCase):
    """L{Room}."""

    def test_T_MEM_1_fair(self) -> None:
        """T-MEM-1: who keeps the most loses what is oldest of it; what is being done is not cut."""
        cut: list[str] = []
        room = Room(100)
        held = {name: Held(room, name[0], partial(cut.append, name)) for name in NAMES}
        held["a1"].set(30)
        held["a2"].set(30)
        held["b1"].set(30)
        held["a2"].fix()
        held["b2"].set(30)

        self.assertEqual((cut, room.kept), (["b1"], 90))
        held["a3"].set(5)
        held["b2"].set(60)
        self.assertEqual((cut, room.kept), (["b1", "b2"], 65))
        for each in held.values():
            each.release()
        self.assertEqual((room.kept, room.cut, len(room._sums), len(room._held)), (0, 2, 0, 0))


NAMES = ("a1", "a2", "a3", "b1", "b2")


class ReaderTests(Costs):
    """Clients that do not read their answers."""

    def file(self, size: int, name: str = "large.bin") -> bytes:
        """A file to be served."""
        content = os.urandom(4096) * (size // 4096)
        with open(os.path.join(self.folder, name), "wb") as file:
            file.write(content)
        return content

    def settle(self) -> None:
        """All that asks for turns."""
        for _ in range(2000):
            before = self.clock.turns
            self.api.rig.clock.advance(0)
            self.clock.settle()
            if self.clock.turns == before and not any(
                call.getTime() <= self.api.rig.clock.seconds() for call in self.api.rig.clock.calls
            ):
                return

    def test_T_MEM_1_files(self) -> None:
        """
        T-MEM-1: of a large file only a part is in memory for each of its readers; whoever reads
        nothing is cut off, and the file is closed.
        """
        self.file(2 * MIB)
        before = len(os.listdir("/proc/self/fd"))
        clients: list[Connection] = []

        def crowd() -> None:
            for number in range(40):
                client = self.connect(f"198.51.100.{number}", Mute())
                clients.append(client)
                client.send(b"GET /static/large.bin HTTP/1.1\r\nHost: x\r\n\r\n")
            self.settle()

        self.assertLess(peak(crowd), 40 * STATIC.memory)
        self.assertEqual(self.factory.strangers.kept, 40 * 2 * sending.PART)
        self.assertEqual(len(os.listdir("/proc/self/fd")), before + 40)
        self.api.rig.clock.advance(STATIC.holds + 1)
        self.assertEqual({each.transport.disconnected for each in clients}, {True})
        for each in clients:
            each.protocol.connectionLost(GONE)
        self.settle()
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)
        self.assertEqual(self.factory.strangers.kept, 0)

    def test_whole(self) -> None:
        """A client that reads gets all of the file, in its order, with its length."""
        content = self.file(MIB)
        connection = self.connect()
        connection.send(b"GET /static/large.bin HTTP/1.1\r\n\r\n")
        self.settle()
        (reply,) = connection.replies
        self.assertEqual((reply.status, reply.headers["content-length"]), (200, [str(MIB)]))
        self.assertEqual(reply.content, content)
        head = self.api.open("HEAD", "/static/large.bin")
        self.assertIn(b"Content-Length: %d\r\n" % MIB, head.transport.value())

    def test_gone(self) -> None:
        """A file is closed also if its client goes away while a thread opens or reads it."""
        self.file(MIB)
        before = len(os.listdir("/proc/self/fd"))
        threads: list[tuple[Deferred[Any], Any]] = []

        def in_thread(function: Any, *args: Any) -> Deferred[Any]:
            threads.append((Deferred(), lambda: function(*args)))
            return threads[-1][0]

        def done() -> None:
            waiting, work = threads.pop()
            waiting.callback(work())

        files = StaticFiles(self.api.api.site._options, in_thread)
        opening = Deferred.fromCoroutine(files._opened(self.folder, ["large.bin"]))
        opening.cancel()
        done()
        self.failureResultOf(opening, CancelledError)
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)

        opening = Deferred.fromCoroutine(files._opened(self.folder, ["large.bin"]))
        done()
        found: Any = self.successResultOf(opening)
        source = FileSource(in_thread, found.descriptor, found.size, False)
        streaming = Streaming(self.clock, Request(), source)
        streaming.start()
        streaming.stopProducing()
        self.assertEqual(len(os.listdir("/proc/self/fd")), before + 1)
        done()
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)

    def test_shorter(self) -> None:
        """A file that becomes shorter while it is sent does not end as if that were all."""
        self.file(MIB)
        transport: Any = Mute()
        client = self.connect(transport=transport)
        client.send(b"GET /static/large.bin HTTP/1.1\r\n\r\n")
        self.settle()
        os.truncate(os.path.join(self.folder, "large.bin"), 1000)
        transport.clear()
        transport.producer.resumeProducing()
        self.settle()

        self.assertTrue(transport.disconnected)

    def test_T_MEM_1_answers(self) -> None:
        """
        T-MEM-1: answers that their users do not read have a bound together: beyond it, who has read
        nothing for some seconds is cut off, and who reads is not.
        """
        clock = self.api.rig.clock
        unread = Unread(clock, 1000)
        requests = [Request() for _ in range(3)]
        sent = [Sending(clock, each, [b"x" * 600], unread) for each in requests]
        for each in sent:
            each.paused = True
        sent[0].start()
        clock.advance(MUTE + 1)
        sent[1].start()
        self.assertEqual([each.cut for each in requests], [True, False, False])
        clock.advance(MUTE + 1)
        sent[1].heard = clock.seconds()
        sent[2].start()

        self.assertEqual([each.cut for each in requests], [True, False, False])
        self.assertEqual(unread.kept, 1200)
        for each in sent:
            each.stopProducing()
        self.assertEqual(unread.kept, 0)


class Request:
    """A request whose answer is not read."""

    cut = False

    def __init__(self) -> None:
        self.transport = self.channel = self

    def held_apart(self, cut: Any) -> Held:
        """Nobody shares its room."""
        return Held(Room(MIB), "", cut)

    def abortConnection(self) -> None:
        """It is cut off."""
        self.cut = True

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        """Never asked."""

    def notifyFinish(self) -> Any:
        """Never ends."""
        return Deferred()


class ListenerTests(Costs):
    """Web sockets, and listeners."""

    def test_T_COST_1_frames(self) -> None:
        """T-COST-1: frames of any shape are read in short turns, and few of them."""
        token = self.api.login()
        for shape in (b"\x81\x80\0\0\0\0", b"\x89\x80\0\0\0\0", b"\x01\x80\0\0\0\0", b"\xff" * 6):
            connection = self.api.open("GET", "/ws", token=token, **UPGRADE_WORDS)
            clock, turned = self.api.rig.clock, Turned()
            turned.measure(partial(connection.send, shape * 1000))
            while due := [call for call in clock.calls if call.getTime() <= clock.seconds()]:
                clock.calls.remove(due[0])
                due[0].called = 1
                turned.measure(due[0].func)
            self.assertGreater(turned.turns, 1, shape)
            self.assertLess(turned.longest * 1000, EVENTS.turn * slack(), shape)
            spent = turned.longest * 1e6 / (SLICE / KIB)
            self.assertLess(spent, EVENTS.per_kib * slack(), shape)
            connection.protocol.connectionLost(GONE)

    def test_T_MEM_1_events(self) -> None:
        """
        T-MEM-1: events that are not read have a bound together, each counted once; beyond it, who
        has most unread is cut off, and who reads misses nothing.
        """
        self.patch(events, "KEPT", 300_000)
        hub = self.api.api.beside[0]
        hub.startService()
        self.addCleanup(hub.stopService)
        token = self.api.login().encode()
        head = b"GET /events HTTP/1.1\r\nX-Auth-Token: " + token + b"\r\n\r\n"
        reader, mutes = self.connect(), [self.connect(transport=Mute()) for _ in range(3)]
        for each in (reader, *mutes):
            each.send(head)
        for number in range(12):
            self.api.rig.bus.fire(f"my/{number}", {"text": "x" * 50_000})
            self.api.rig.clock.advance(0)
            self.assertLessEqual(hub.kept, 400_000)

        self.assertEqual({each.transport.disconnected for each in mutes}, {True})
        self.assertEqual((hub.kept, len(hub)), (0, 1))
        self.assertEqual(reader.transport.value().count(b"tag: my/"), 12)

    def test_T_COST_1_jobs(self) -> None:
        """T-COST-1: what is told of a job costs in proportion to its minions' returns."""

        def make(size: int) -> list[str]:
            return [f"m{n}" for n in range(size // 64)]

        def act(minions: list[str]) -> None:
            info = SaltInfo()
            info.heard("salt/job/1/new", {"jid": "1", "minions": minions, "fun": "test.ping"})
            for each in minions:
                info.heard(f"salt/job/1/ret/{each}", {"success": True, "return": True})
            (told,) = info.tell()
            self.assertEqual(told["jobs"]["1"]["state"], "complete")

        assert_linear(self, "returns", make, act, (8 * KIB, 128 * KIB))


UPGRADE_WORDS: dict[str, Any] = {name.replace("-", "_"): text for name, text in UPGRADE.items()}
