"""
C{transport: tcp} on 127.0.0.1: real sockets and the real reactor, with and without TLS.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.endpoints import TCP4ClientEndpoint, wrapClientTLS
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase, TestCase

from saltwisted.errors import ConfigError, RequestTimeout, TransportClosed
from saltwisted.transports.ssl_options import ClientContexts, ServerTLS
from saltwisted.transports.tcp import framed, publisher, subscriber
from saltwisted.transports.tcp import server as request_server
from saltwisted.transports.tcp.client import Connect, TcpRequests
from saltwisted.transports.tcp.publisher import TcpPublishServer
from saltwisted.transports.tcp.server import TcpRequestServer
from saltwisted.transports.tcp.subscriber import TcpSubscriber
from saltwisted.wire.frames import encode_frame, wrap_frame
from saltwisted.wire.msgpack import pack, unpack
from tests.certificates import Authority
from tests.loopback.test_zeromq import awaited, until


class Rig(TestCase):
    """Servers and clients that are closed whatever happens, and leave nothing behind."""

    timeout = 20

    def __init_subclass__(cls) -> None:
        for name, test in list(vars(cls).items()):
            if name.startswith("test_"):
                setattr(cls, name, awaited(test))

    def setUp(self) -> None:
        self.open: list[Any] = []
        self.addCleanup(self.close)

    async def gone(self) -> None:
        """All streams have ended."""
        for one in self.open:
            for streams in ("_clients", "_connections"):
                await until(lambda o=one, s=streams: not getattr(o, s, None))  # type: ignore[misc]

    def close(self) -> Deferred[None]:
        """Close all, and wait for the streams' ends."""
        for one in reversed(self.open):
            (getattr(one, "stop", None) or one.close)()
        return Deferred.fromCoroutine(self.gone())

    def keep(self, one: Any) -> Any:
        """Close this at the end."""
        self.open.append(one)
        return one

    def requests(self, handler: Any, **options: Any) -> TcpRequestServer:
        """A request port."""
        made = TcpRequestServer(reactor, "127.0.0.1", 0, **options)
        self.keep(made)
        made.listen(handler)
        return made

    def publications(self, **options: Any) -> TcpPublishServer:
        """A publish port."""
        made = TcpPublishServer(reactor, "127.0.0.1", 0, **options)
        self.keep(made)
        made.listen()
        return made

    def to(self, port: int, tls: Any = None) -> Connect:
        """Connects to it."""
        endpoint: Any = TCP4ClientEndpoint(reactor, "127.0.0.1", port)
        connect: Connect = (wrapClientTLS(tls, endpoint) if tls else endpoint).connect
        return connect

    def asking(self, port: int, tls: Any = None) -> TcpRequests:
        """A client of a request port."""
        made: TcpRequests = self.keep(TcpRequests(reactor, self.to(port, tls)))
        return made

    def hearing(
        self,
        port: int,
        heard: list[Any],
        hello: Callable[[], bytes | None] = lambda: None,
        lost: Callable[[], None] = lambda: None,
        tls: Any = None,
    ) -> TcpSubscriber:
        """A client of a publish port."""
        made = TcpSubscriber(
            reactor,
            self.to(port, tls),
            lambda body, topic: heard.append(body),
            hello,
            lost,
            backoff=0.1,
        )
        self.keep(made)
        made.open()
        return made


class Wire(StringTransport):
    """One client of a request port, without a socket."""

    def __init__(self, server: TcpRequestServer) -> None:
        super().__init__()
        self.aborted = False
        self.server_side = request_server._Asking(server)
        self.server_side.makeConnection(self)  # type: ignore[arg-type]

    def setTcpNoDelay(self, enabled: bool) -> None:
        """Of no importance here."""

    def setTcpKeepAlive(self, enabled: bool) -> None:
        """Of no importance here."""

    def getHandle(self) -> None:
        """There is no socket."""

    def abortConnection(self) -> None:
        """The server has had enough."""
        self.aborted = True
        self.server_side.connectionLost()

    def says(self, data: bytes) -> None:
        """The client sends this."""
        self.server_side.dataReceived(data)


class SlowTests(SynchronousTestCase):
    """A frame that has begun must end in time, if the server reads."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.held: list[Any] = []
        self.server = TcpRequestServer(self.clock, per_client=2)
        self.server._handler = lambda frame, peer, reply: self.held.append(reply)

    def test_slow_client(self) -> None:
        """Whoever does not go on is hung up on, and counted."""
        wire = Wire(self.server)
        wire.says(wrap_frame(pack("x" * 100_000))[:-1])
        self.clock.advance(framed.FRAME_TIME)

        self.assertTrue(wire.aborted)
        self.assertEqual((self.server.dropped["framing"], self.server.room.size), (1, 0))

    def test_busy_server(self) -> None:
        """Whoever is not read because others hold too much has its time when it is read again."""
        self.patch(request_server, "MOST_HELD", 1_000_000)
        large, other = Wire(self.server), Wire(self.server)
        large.says(wrap_frame(pack("x" * 1_000_000)))
        other.says(wrap_frame(pack("x" * 100_000))[:-1])
        self.assertEqual((large.producerState, other.producerState), ("paused", "paused"))
        self.clock.advance(2 * framed.FRAME_TIME)
        self.assertFalse(other.aborted)
        self.held.pop()(pack("ok"))
        self.clock.advance(0)
        self.assertEqual(other.producerState, "producing")
        self.clock.advance(framed.FRAME_TIME)

        self.assertTrue(other.aborted)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_gone_while_it_waits(self) -> None:
        """What a client has sent that has gone since is no longer held, and others are read."""
        self.patch(request_server, "MOST_HELD", 1_000_000)
        large, other = Wire(self.server), Wire(self.server)
        for _ in range(3):
            large.says(wrap_frame(pack("x" * 400_000)))
        other.says(wrap_frame(pack("x" * 100_000))[:-1])
        self.assertEqual((len(self.held), other.producerState), (2, "paused"))
        large.abortConnection()
        self.clock.advance(0)
        self.assertEqual(other.producerState, "producing")
        for reply in self.held:
            reply(pack("ok"))

        self.assertEqual((self.server.held, self.server.begun, self.server.unanswered), (0, 0, 0))
        other.abortConnection()


class RequestTests(Rig):
    """The request port."""

    async def test_round_trips(self) -> None:
        """Many requests in one connection get their own answers, in whatever order they come."""
        held: list[tuple[bytes, Any]] = []
        server = self.requests(lambda frame, peer, reply: held.append((frame, reply)))
        client = self.asking(server.port)

        asked = [client.request(pack({"enc": "clear", "n": n}), 5) for n in range(20)]
        await until(lambda: len(held) == 20)
        for frame, reply in reversed(held):
            reply(pack(unpack(frame)["n"] * 10))
        answers = await gatherResults(asked)

        self.assertEqual([unpack(one) for one in answers], [n * 10 for n in range(20)])
        self.assertEqual(server.unanswered, 0)

    async def test_too_many(self) -> None:
        """Beyond its limit a client waits until some of its requests are answered."""
        held: list[Any] = []
        server = self.requests(lambda frame, peer, reply: held.append(reply), per_client=3)
        client = self.asking(server.port)
        asked = [client.request(pack(n), 5) for n in range(10)]

        await until(lambda: len(held) == 3)
        self.assertEqual(server.unanswered, 3)
        while len(held) < 10:
            before = len(held)
            for reply in list(held):
                reply(pack(None))
            await until(lambda: len(held) > before)  # noqa: B023
        for reply in held:
            reply(pack(None))

        await gatherResults(asked)

    async def test_all_full(self) -> None:
        """When too many requests of all wait, new ones wait in their connections."""
        held: list[Any] = []
        server = self.requests(lambda frame, peer, reply: held.append(reply), in_flight=2)
        one, two = self.asking(server.port), self.asking(server.port)
        asked = [one.request(pack(1), 5), one.request(pack(2), 5)]
        await until(lambda: len(held) == 2)
        asked.append(two.request(pack(3), 5))
        await until(lambda: len(server._held) == 1)
        self.assertEqual(len(held), 2)

        held[0](pack(None))
        held[1](pack(None))
        await until(lambda: len(held) == 3)
        held[2](pack(None))

        await gatherResults(asked)

    async def test_forgotten(self) -> None:
        """A request that is thrown away does not count as one that will be answered."""
        server = self.requests(lambda frame, peer, reply: None)
        client = self.asking(server.port)
        asked = client.request(pack(1), 0.5)

        await self.assertFailure(asked, RequestTimeout)

        self.assertEqual(server.dropped["unanswered"], 1)
        await until(lambda: server.unanswered == 0)

    async def test_reader_that_does_not_read(self) -> None:
        """Of a client that does not read its answers no further requests are taken."""
        answer = pack("x" * 1_000_000)
        count = 0

        def handle(frame: bytes, peer: str, reply: Any) -> None:
            nonlocal count
            count += 1
            reply(answer)

        server = self.requests(handle)
        sock = socket.create_connection(("127.0.0.1", server.port))
        self.addCleanup(sock.close)
        sock.setblocking(False)
        sent = 0
        frame = wrap_frame(pack("y" * 10_000), {"mid": "1"})
        for _ in range(2000):
            try:
                sent += sock.send(frame)
            except BlockingIOError:
                await until(lambda: True)
                break
        client = self.asking(server.port)
        await client.request(pack(1), 5)

        self.assertLess(count, 200)

    async def test_noise(self) -> None:
        """What is not a frame ends the connection, is counted, and nobody else notices."""
        server = self.requests(lambda frame, peer, reply: reply(frame))
        client = self.asking(server.port)
        await client.request(pack(1), 5)
        for noise in (
            b"GET / HTTP/1.0\r\n\r\n",
            b"\xff" * 100,
            Random(2).randbytes(100_000),
            pack([1]),
        ):
            sock = socket.create_connection(("127.0.0.1", server.port))
            self.addCleanup(sock.close)
            before = server.dropped["framing"]
            sock.sendall(noise)
            await until(lambda: server.dropped["framing"] > before)  # noqa: B023

        self.assertEqual(unpack(await client.request(pack(2), 5)), 2)

    async def test_no_room(self) -> None:
        """Requests that begin and never end do not fill the memory, however many begin them."""
        self.patch(request_server, "UNFINISHED", 18_000_000)
        server = self.requests(lambda frame, peer, reply: reply(frame))
        begun = b"\x82" + pack("head") + pack({}) + pack("body") + b"\xdb\x03\x00\x00\x00"
        socks = []
        for _ in range(5):
            sock = socket.create_connection(("127.0.0.1", server.port))
            self.addCleanup(sock.close)
            sock.setblocking(False)
            socks.append(sock)
        left = dict.fromkeys(socks, begun + b"x" * 1000000)

        def send() -> bool:
            for sock, data in left.items():
                if data:
                    try:
                        left[sock] = data[sock.send(data) :]
                    except BlockingIOError:
                        pass
                    except OSError:
                        left[sock] = b""
            return not any(left.values())

        await until(send)
        await until(lambda: server.dropped["framing"] >= 1)

        self.assertLessEqual(server.room.size, 6_000_000)
        client = self.asking(server.port)
        self.assertEqual(unpack(await client.request(pack(1), 5)), 1)
        for sock in socks:
            sock.close()
        await until(lambda: server.room.size == 0)

    async def test_large_are_bounded(self) -> None:
        """
        So many bytes of large requests are in hand at once, as with ZeroMQ; a large one is not
        copied. Others are not read meanwhile. Those that are answered, or lost in their handler,
        are no longer held.
        """
        self.patch(request_server, "MOST_HELD", 1_000_000)
        held: list[Any] = []
        frames: list[Any] = []

        def handler(frame: bytes | memoryview, _: str, reply: Any) -> None:
            frames.append(frame)
            if b"lost" in bytes(frame[:9]):
                raise ValueError("lost")
            held.append(reply)

        server = self.requests(handler)
        one, two = self.asking(server.port), self.asking(server.port)
        texts = ("lost", "kept", "kept", "kept")
        asked = [one.request(pack(text + "x" * 500_000), 20) for text in texts]
        await until(lambda: len(held) == 2)
        asked.append(two.request(pack("x" * 400_000), 20))
        await until(lambda: server._unheard and server.room.size)

        self.assertEqual((len(held), len(frames)), (2, 3))
        self.assertGreaterEqual(server.held, 1_000_000)
        held[0](pack("ok"))
        held[1](pack("ok"))
        await until(lambda: len(held) == 4)
        for reply in held[2:]:
            reply(pack("ok"))
        await until(lambda: not server.unanswered)
        self.assertEqual([unpack(await each) for each in asked[1:]], ["ok"] * 4)
        self.assertEqual((server.held, server.begun, server.unanswered), (0, 0, 0))
        self.assertEqual([type(frame) for frame in frames], [memoryview] * 5)
        self.assertEqual(server.dropped["unanswered"], 1)
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)
        one.close()
        await self.assertFailure(asked[0], TransportClosed)

    async def test_no_master(self) -> None:
        """A refused connection fails at once, and the next request tries again."""
        server = self.requests(lambda frame, peer, reply: reply(frame))
        port = server.port
        client = self.asking(port)
        await client.request(pack(1), 5)
        server.stop()

        await until(lambda: client._connection is None)
        await self.assertFailure(client.request(pack(2), 5), TransportClosed)
        again = TcpRequestServer(reactor, "127.0.0.1", port)
        self.keep(again)
        again.listen(lambda frame, peer, reply: reply(frame))

        self.assertEqual(unpack(await client.request(pack(3), 5)), 3)

    async def test_cut_while_asking(self) -> None:
        """What was asked in a connection that ends fails at once."""
        server = self.requests(lambda frame, peer, reply: held.append(reply))
        held: list[Any] = []
        client = self.asking(server.port)
        asked = client.request(pack(1), 60)
        await until(lambda: bool(held))

        server.stop()

        await self.assertFailure(asked, TransportClosed)
        held[0](pack(1))  # into the void

    async def test_late_answer(self) -> None:
        """An answer that comes after its time is not taken for another one's."""
        held: list[Any] = []
        server = self.requests(lambda frame, peer, reply: held.append(reply))
        client = self.asking(server.port)
        await self.assertFailure(client.request(pack(1), 0.1), RequestTimeout)
        second = client.request(pack(2), 5)
        await until(lambda: len(held) == 2)

        held[0](pack("late"))
        held[1](pack("in time"))

        self.assertEqual(unpack(await second), "in time")


class PublicationTests(Rig):
    """The publish port."""

    async def test_all_and_some(self) -> None:
        """What is for all goes to all; what is for some also to those who have not said who."""
        server = self.publications(who=lambda body: (body[b"id"], False))
        heard: dict[str, list[Any]] = {"a": [], "b": [], "": []}
        for name, list_ in heard.items():
            hello = pack({"id": name}) if name else None
            self.hearing(server.port, list_, lambda hello=hello: hello)  # type: ignore[misc]
        await until(lambda: len(server._subscribers) == 3 and len(server.topics) == 2)

        server.publish(b"one")
        server.publish(b"two", [b"a"])
        server.publish(b"three", [b"broadcast"])

        await until(lambda: all(b"three" in list_ for list_ in heard.values()))
        self.assertEqual(heard["a"], [b"one", b"two", b"three"])
        self.assertEqual(heard["b"], [b"one", b"three"])
        self.assertEqual(heard[""], [b"one", b"two", b"three"])
        self.assertEqual(dict(server.topics), {b"a": 1, b"b": 1})

    async def test_who_is_here(self) -> None:
        """Who leaves is not counted any more; who proves nothing is not counted at all."""
        server = self.publications(who=lambda body: (body[b"id"], False) if b"id" in body else None)
        client = self.hearing(server.port, [], lambda: pack({"id": "a"}))
        self.hearing(server.port, [], lambda: pack({"nobody": "a"}))
        await until(lambda: server.topics[b"a"] == 1 and server.counters["unknown"] == 1)

        client.close()

        await until(lambda: not server.topics)

    async def test_slow(self) -> None:
        """A subscriber that does not read is hung up on and counted; the others lose nothing."""
        server = self.publications(hwm=20)
        heard: list[Any] = []
        self.hearing(server.port, heard)
        sock = socket.create_connection(("127.0.0.1", server.port))
        self.addCleanup(sock.close)
        await until(lambda: len(server._subscribers) == 2)

        payload = os.urandom(500_000)
        for number in range(100):
            server.publish(payload)
            await until(lambda: len(heard) > number)  # noqa: B023

        self.assertEqual(server.dropped, 1)
        self.assertEqual(len(server._subscribers), 1)

    async def test_comes_back(self) -> None:
        """A subscriber says that its connection ended, and finds the server that comes back."""
        server = self.publications()
        port, heard, lost = server.port, [], []
        self.hearing(port, heard, lost=lambda: lost.append(1))
        await until(lambda: bool(server._subscribers))
        server.stop()
        await until(lambda: bool(lost))

        again = TcpPublishServer(reactor, "127.0.0.1", port)
        self.keep(again)
        again.listen()
        await until(lambda: bool(again._subscribers))
        again.publish(b"x")

        await until(lambda: heard == [b"x"])

    async def test_signs_of_life(self) -> None:
        """Ours hear signs of life, which are not publications; when they stay away it is told."""
        self.patch(publisher, "PING_EVERY", 0.05)
        self.patch(subscriber, "SILENT", 0.3)
        self.patch(subscriber, "GONE", 0.6)
        server = self.publications(who=lambda body: (b"a", True))
        heard: list[Any] = []
        lost: list[int] = []
        client = self.hearing(server.port, heard, lambda: pack({}), lambda: lost.append(1))
        await until(lambda: client._silence is not None)
        self.assertEqual(lost, [])

        server._life.stop()  # the server hangs
        first = client._connection

        await until(lambda: bool(lost))
        await until(lambda: client._connection is not first and client._connection is not None)
        self.assertEqual(heard, [])

    async def test_first_sign_of_life(self) -> None:
        """A server that hangs right after it was found is missed, too."""
        self.patch(subscriber, "SILENT", 0.3)
        server = self.publications(who=lambda body: (b"a", True))
        server._life.stop()  # before it has given any of those that come every two seconds
        lost: list[int] = []
        self.hearing(server.port, [], lambda: pack({}), lambda: lost.append(1))
        await until(lambda: bool(lost))

    async def test_large_hello(self) -> None:
        """A subscriber may not send much."""
        server = self.publications()
        sock = socket.create_connection(("127.0.0.1", server.port))
        self.addCleanup(sock.close)

        sock.sendall(encode_frame("x" * 100_000))

        await until(lambda: server.counters["framing"] == 1)


class TlsTests(Rig):
    """Salt's C{ssl} option."""

    def setUp(self) -> None:
        super().setUp()
        folder = self.mktemp()
        os.mkdir(folder)
        self.authority = Authority(folder)
        self.master = {
            **self.authority.issue("master", "localhost", "127.0.0.1"),
            "ca_certs": self.authority.ca,
        }
        self.minion = {**self.authority.issue("minion"), "ca_certs": self.authority.ca}

    def client(self, *names: str, **options: Any) -> Any:
        """The minion's side."""
        settings = {k: v for k, v in {**self.minion, **options}.items() if v is not None}
        return ClientContexts(settings).to(*(names or ("localhost", "127.0.0.1")))

    def server(self, **options: Any) -> TcpRequestServer:
        """An echo."""
        settings = {k: v for k, v in {**self.master, **options}.items() if v is not None}
        return self.requests(lambda frame, peer, reply: reply(frame), tls=ServerTLS(settings))

    async def refused(self, server: TcpRequestServer, tls: Any) -> None:
        """This client gets no answer."""
        await self.assertFailure(self.asking(server.port, tls).request(pack(1), 3), TransportClosed)

    async def test_both_certificates(self) -> None:
        """Certificates of one authority let both in; large answers come whole."""
        server = self.server()
        client = self.asking(server.port, self.client())
        data = pack("x" * 2_000_000)

        self.assertEqual(await client.request(data, 10), data)

    async def test_client_without_certificate(self) -> None:
        """A server demands a certificate, if C{cert_reqs} does not say that it need not."""
        bare = self.client(certfile=None, keyfile=None)
        await self.refused(self.server(), bare)
        await self.refused(self.server(cert_reqs="CERT_REQUIRED"), bare)

        for reqs in ("CERT_OPTIONAL", "CERT_NONE", 0):
            client = self.asking(self.server(cert_reqs=reqs).port, bare)
            self.assertEqual(unpack(await client.request(pack(1), 5)), 1)

    async def test_strangers(self) -> None:
        """T-TLS-1: a certificate of another authority is refused, on both sides."""
        folder = self.mktemp()
        os.mkdir(folder)
        other = Authority(folder, "other")
        await self.refused(self.server(), self.client(**other.issue("minion")))
        await self.refused(self.server(), self.client(ca_certs=other.ca))

        careless = self.client(ca_certs=other.ca, cert_reqs="CERT_NONE")
        client = self.asking(self.server().port, careless)
        self.assertEqual(unpack(await client.request(pack(1), 5)), 1)

    async def test_names(self) -> None:
        """T-TLS-1: the certificate must be for the master's name or its address."""
        await self.refused(self.server(), self.client("elsewhere", "127.0.0.2"))

        for names in (("localhost", "127.0.0.2"), ("elsewhere", "127.0.0.1"), ("127.0.0.1",)):
            client = self.asking(self.server().port, self.client(*names))
            self.assertEqual(unpack(await client.request(pack(1), 5)), 1)

    async def test_plain_client(self) -> None:
        """Who speaks no TLS to a TLS port gets nothing, and the other way round."""
        await self.refused(self.server(), None)
        plain = self.requests(lambda frame, peer, reply: reply(frame))
        await self.refused(plain, self.client())

    async def test_publications(self) -> None:
        """Publications go to who has shown a certificate, and to nobody else."""
        server = self.publications(tls=ServerTLS(self.master))
        heard: list[Any] = []
        nothing: list[Any] = []
        self.hearing(server.port, heard, tls=self.client())
        self.hearing(server.port, nothing, tls=self.client(certfile=None, keyfile=None))
        self.hearing(server.port, nothing)
        await until(lambda: len(server._subscribers) == 1)

        server.publish(b"secret")

        await until(lambda: heard == [b"secret"])
        self.assertEqual((nothing, len(server._subscribers)), ([], 1))

    async def test_bad_options(self) -> None:
        """What cannot work is named when it is read."""
        for options, words in (
            ({**self.master, "certfile": "/nonexistent"}, "certfile"),
            ({**self.master, "keyfile": self.minion["keyfile"]}, "key"),
            ({"ca_certs": self.authority.ca}, "certfile"),
            ({**self.master, "ca_certs": "/nonexistent"}, "ca_certs"),
            ({**self.master, "cert_reqs": "CERT_PERHAPS"}, "cert_reqs"),
            ({**self.master, "ssl_version": "PROTOCOL_SSLv3"}, "ssl_version"),
            ({**self.master, "ciphers": "NONSENSE"}, "ciphers"),
            ({**self.master, "verify_flags": ["NONSENSE"]}, "verify_flags"),
        ):
            error = self.assertRaises(ConfigError, ServerTLS, options)
            self.assertIn(words, str(error))

    async def test_other_options(self) -> None:
        """Places of authorities, flags, ciphers and versions as Salt writes them."""
        data = Path(self.authority.ca).read_text()  # noqa: ASYNC240 - a test
        for options in (
            {"verify_locations": [self.authority.ca], "ca_certs": None},
            {"verify_locations": [{"cafile": self.authority.ca}], "ca_certs": None},
            {"verify_locations": [{"CADATA": data}], "ca_certs": None},
            {"verify_flags": ["verify_x509_strict"]},
            {"ssl_version": "PROTOCOL_TLSv1_2", "ciphers": "ECDHE+AESGCM"},
        ):
            client = self.asking(self.server(**options).port, self.client())
            self.assertEqual(unpack(await client.request(pack(1), 5)), 1)
