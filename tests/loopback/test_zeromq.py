"""
ZeroMQ on 127.0.0.1: real sockets and the real reactor, since what is proved here
is how the two work together.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
from functools import wraps
from typing import Any

import zmq
from twisted.internet import reactor
from twisted.internet.defer import CancelledError, Deferred, gatherResults
from twisted.internet.task import deferLater
from twisted.trial.unittest import TestCase

from saltwisted.errors import RequestTimeout, TransportClosed
from saltwisted.transports.zeromq import dealer, router
from saltwisted.transports.zeromq.dealer import DealerClient
from saltwisted.transports.zeromq.fairness import ZeroMQ
from saltwisted.transports.zeromq.publisher import PubServer
from saltwisted.transports.zeromq.router import RouterServer
from saltwisted.transports.zeromq.subscriber import SubClient

FLOOD = """
import sys, zmq
socket = zmq.Context().socket(zmq.DEALER)
socket.connect("tcp://127.0.0.1:" + sys.argv[1])
while True:
    socket.send_multipart([b"", b"y" * 500])
"""


def flooder(port: int) -> subprocess.Popen[bytes]:
    """Another process that sends to a ROUTER as fast as it can."""
    return subprocess.Popen([sys.executable, "-c", FLOOD, str(port)])


def until(ready: Any, seconds: float = 60.0) -> Deferred[None]:
    """Fire once C{ready()} is true; looked at every 5 ms."""

    async def wait() -> None:
        end = time.monotonic() + seconds
        while not ready():
            if time.monotonic() > end:
                raise AssertionError("did not happen")
            await deferLater(reactor, 0.005)

    return Deferred.fromCoroutine(wait())


def awaited(test: Any) -> Any:
    """A test method that returns a Deferred, from one that is a coroutine."""

    @wraps(test)
    def run(self: Any) -> Deferred[Any]:
        return Deferred.fromCoroutine(test(self))

    return run


class Rig(TestCase):
    """
    One context per test, closed whatever happens.

    Trial of Twisted 22.4 does not run coroutines, it only makes them: hence the wrapper.
    """

    timeout = 10

    def __init_subclass__(cls) -> None:
        for name, test in list(vars(cls).items()):
            if name.startswith("test_"):
                setattr(cls, name, awaited(test))

    def setUp(self) -> None:
        self.zeromq = ZeroMQ(reactor, linger=0)
        self.addCleanup(self.zeromq.shutdown)
        self.peers = zmq.Context()
        self.addCleanup(self.peers.destroy, 0)

    def router(self, handler: Any, **options: Any) -> RouterServer:
        server = RouterServer(self.zeromq, "127.0.0.1", 0, **options)
        server.listen(handler)
        self.addCleanup(server.stop)
        return server

    def dealer(self, port: int, **options: Any) -> DealerClient:
        client = DealerClient(self.zeromq, f"tcp://127.0.0.1:{port}", **options)
        self.addCleanup(client.close)
        return client

    def peer(self, kind: int, port: int) -> zmq.Socket[bytes]:
        socket = self.peers.socket(kind)
        socket.connect(f"tcp://127.0.0.1:{port}")
        return socket


class RequestTests(Rig):
    async def test_round_trip(self) -> None:
        """A request reaches the handler with the peer's address, and its reply comes back."""
        seen = []

        def handler(frame: bytes, address: str, reply: Any) -> None:
            seen.append((frame, address))
            reply(b"re:" + frame)

        client = self.dealer(self.router(handler).port)

        answer = await client.request(b"one", 5)

        self.assertEqual(answer, b"re:one")
        self.assertEqual(seen, [(b"one", "127.0.0.1")])

    async def test_stock_req_socket(self) -> None:
        """A plain REQ socket, as stock minions use, is answered in its own framing."""
        server = self.router(lambda frame, _, reply: reply(frame[::-1]))
        req = self.peer(zmq.REQ, server.port)

        req.send(b"abc")
        await until(lambda: req.poll(0))

        self.assertEqual(req.recv_multipart(), [b"cba"])

    async def test_many_at_once_in_any_order(self) -> None:
        """Concurrent requests each get their own answer, whatever the order of answering."""
        held: list[Any] = []

        def handler(frame: bytes, address: str, reply: Any) -> None:
            held.append((frame, reply))
            if len(held) == 4:
                for one, answer in reversed(held):
                    answer(one * 2)
                held.clear()

        client = self.dealer(self.router(handler).port, sockets=4)

        answers = await gatherResults([client.request(b"%d" % n, 5) for n in range(40)])

        self.assertEqual(answers, [b"%d" % n * 2 for n in range(40)])
        self.assertEqual(client.in_flight, 0)

    async def test_unused_are_closed(self) -> None:
        """What a crowd has opened is closed after a while, but for one; the next is answered."""
        self.patch(dealer, "UNUSED", 0.05)
        client = self.dealer(self.router(lambda frame, _, reply: reply(frame)).port)
        await gatherResults([client.request(b"%d" % n, 5) for n in range(8)])
        self.assertGreater(len(client._idle), 1)

        await until(lambda: len(client._idle) == 1)

        self.assertIsNone(client._tidying)
        self.assertEqual(await client.request(b"again", 5), b"again")

    async def test_timeout_reopens(self) -> None:
        """After a timeout the late answer of the old request is not taken for the next one's."""
        held: list[Any] = []
        server = self.router(lambda frame, _, reply: held.append((frame, reply)))
        client = self.dealer(server.port, sockets=1)

        await self.assertFailure(client.request(b"slow", 0.05), RequestTimeout)
        second = client.request(b"second", 5)
        await until(lambda: len(held) == 2)
        for frame, reply in held:
            reply(b"re:" + frame)

        self.assertEqual(await second, b"re:second")

    async def test_waiting_counts(self) -> None:
        """A request that waits for a socket runs out of time like one that was sent."""
        server = self.router(lambda frame, _, reply: None)
        client = self.dealer(server.port, sockets=1)
        first = client.request(b"a", 5)

        await self.assertFailure(client.request(b"b", 0.02), RequestTimeout)

        client.close()
        await self.assertFailure(first, TransportClosed)

    async def test_cancel(self) -> None:
        """A cancelled request frees its socket for the next one."""
        server = self.router(lambda frame, _, reply: reply(b"") if frame == b"b" else None)
        client = self.dealer(server.port, sockets=1)
        first = client.request(b"a", 5)
        second = client.request(b"b", 5)

        first.cancel()

        await self.assertFailure(first, CancelledError)
        self.assertEqual(await second, b"")

    async def test_queue_bound(self) -> None:
        """More waiting requests than the bound fail at once."""
        client = self.dealer(1, sockets=1, queue=1)
        running, waiting = client.request(b"a", 5), client.request(b"b", 5)

        await self.assertFailure(client.request(b"c", 5), TransportClosed)

        client.close()
        for one in (running, waiting):
            await self.assertFailure(one, TransportClosed)
        await self.assertFailure(client.request(b"d", 5), TransportClosed)

    async def test_per_client_bound(self) -> None:
        """One client's requests above its share are dropped and counted; others are served."""
        held: list[Any] = []

        def handler(frame: bytes, address: str, reply: Any) -> None:
            if frame == b"hold":
                held.append(reply)
            else:
                reply(frame)

        server = self.router(handler, per_client=3)
        greedy = self.peer(zmq.DEALER, server.port)

        for _ in range(10):
            greedy.send_multipart([b"", b"hold"])
        await until(lambda: server.dropped["client"] == 7)
        answer = await self.dealer(server.port).request(b"x", 5)

        self.assertEqual(answer, b"x")
        self.assertEqual(len(held), 3)

    async def test_total_bound_pauses(self) -> None:
        """At the limit of unanswered requests reading stops, and goes on with the answers."""
        held: list[Any] = []
        server = self.router(lambda f, _, reply: held.append(reply), in_flight=8, per_client=99)
        peer = self.peer(zmq.DEALER, server.port)
        for n in range(20):
            peer.send_multipart([b"", b"%d" % n])

        await until(lambda: len(held) == 8)
        await deferLater(reactor, 0.05)
        self.assertEqual(len(held), 8)
        for reply in held[:]:
            reply(b"ok")
        await until(lambda: len(held) == 16)

        self.assertEqual(server.unanswered, 8)

    async def test_large_are_bounded(self) -> None:
        """
        So many bytes of large requests are in hand at once; a large one is not copied. Those that
        are answered, or lost in their handler, are no longer held.
        """
        self.patch(router, "MOST_HELD", 1_000_000)
        held: list[Any] = []
        frames: list[Any] = []

        def handler(frame: bytes | memoryview, _: str, reply: Any) -> None:
            frames.append(frame)
            if bytes(frame[:4]) == b"lost":
                raise ValueError("lost")
            held.append(reply)

        server = self.router(handler, per_client=99)
        peer = self.peer(zmq.DEALER, server.port)
        for start in (b"lost", b"kept", b"kept", b"kept"):
            peer.send_multipart([b"", start + b"x" * 500_000])
        peer.send_multipart([b"", b"small"])

        await until(lambda: len(held) == 2)
        await deferLater(reactor, 0.05)
        self.assertEqual(len(held), 2)
        held[0](b"ok")
        await until(lambda: len(held) == 3)
        held[1](b"ok")
        held[2](b"ok")
        await until(lambda: len(held) == 4)

        self.assertEqual([type(frame) for frame in frames], 4 * [memoryview] + [bytes])
        self.assertEqual(server.dropped["unanswered"], 1)
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)

    async def test_bad_framing(self) -> None:
        """Messages that are not requests are counted, and the server goes on."""
        server = self.router(lambda frame, _, reply: reply(frame))
        peer = self.peer(zmq.DEALER, server.port)

        peer.send_multipart([b"x", b"y", b"z"])
        peer.send_multipart([b""] * 12)
        await until(lambda: server.dropped["framing"] == 2)

        self.assertEqual(await self.dealer(server.port).request(b"x", 5), b"x")

    async def test_too_large(self) -> None:
        """A message above the largest size never reaches the handler."""
        seen: list[int] = []

        def handler(frame: bytes, _: str, reply: Any) -> None:
            seen.append(len(frame))
            reply(b"")

        server = self.router(handler, max_message=1000)
        await self.assertFailure(self.dealer(server.port).request(b"x" * 1001, 0.3), RequestTimeout)
        await self.dealer(server.port).request(b"x" * 900, 5)

        self.assertEqual(seen, [900])

    async def test_handler_error(self) -> None:
        """A handler that raises loses that request alone, and does not count as busy."""

        def handler(frame: bytes, _: str, reply: Any) -> None:
            if frame == b"bad":
                raise ValueError(frame)
            reply(frame)

        server = self.router(handler)
        client = self.dealer(server.port)
        await self.assertFailure(client.request(b"bad", 0.1), RequestTimeout)

        self.assertEqual(await client.request(b"good", 5), b"good")
        self.assertEqual(server.unanswered, 0)
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)

    async def test_flood_is_fair(self) -> None:
        """While one client floods without end, others are answered soon and timers are in time."""
        server = self.router(lambda frame, _, reply: reply(frame), per_client=10**6)
        client = self.dealer(server.port)
        await client.request(b"warm", 5)
        flood = flooder(server.port)
        self.addCleanup(flood.wait)
        self.addCleanup(flood.kill)
        await until(lambda: server._connection.turns_cut > 10)
        answered, late = [], []

        for _ in range(20):
            started = time.monotonic()
            await client.request(b"x", 5)
            answered.append(time.monotonic() - started)
            started = time.monotonic()
            await deferLater(reactor, 0.005)
            late.append(time.monotonic() - started - 0.005)

        self.assertIsNone(flood.poll())
        self.assertLess(sorted(answered)[10], 0.1)
        self.assertLess(sorted(late)[10], 0.05)

    async def test_unanswered(self) -> None:
        """A handler that throws the reply away does not use up the client's share for good."""
        seen = 0

        def handler(frame: bytes, _: str, reply: Any) -> None:
            nonlocal seen
            seen += 1

        server = self.router(handler, per_client=2, in_flight=3)
        peer = self.peer(zmq.DEALER, server.port)
        for n in range(10):
            peer.send_multipart([b"", b"x"])
            await until(lambda: seen == n + 1 and not server.unanswered)  # noqa: B023

        self.assertEqual(server.dropped, {"unanswered": 10})

    async def test_portions(self) -> None:
        """A backlog is read in portions, with turns of the reactor between."""
        count = 0

        def handler(frame: bytes, _: str, reply: Any) -> None:
            nonlocal count
            count += 1

        server = self.router(handler, per_client=10**6)
        peer = self.peer(zmq.DEALER, server.port)
        for _ in range(500):
            peer.send_multipart([b"", b"z"])

        await until(lambda: count == 500)

        connection = server._connection
        assert connection is not None
        self.assertGreaterEqual(connection.turns_cut, 2)

    async def test_server_socket_breaks(self) -> None:
        """When the socket fails the server opens another on the same port."""
        server = self.router(lambda frame, _, reply: reply(frame))
        connection = server._connection
        assert connection is not None
        port = server.port

        connection._fail(zmq.ZMQError(zmq.ENOTSOCK))
        answer = b""
        while not answer:
            # The dying socket may still take a connection, and a request with it.
            with contextlib.suppress(RequestTimeout):
                answer = await self.dealer(port).request(b"again", 0.2)

        self.assertEqual((answer, server.port), (b"again", port))

    async def test_late_reply_after_stop(self) -> None:
        """A reply that comes after the server stopped goes nowhere, without an error."""
        held: list[Any] = []
        server = self.router(lambda frame, _, reply: held.append(reply))
        client = self.dealer(server.port)
        pending = client.request(b"x", 5)
        await until(lambda: held)

        server.stop()
        held[0](b"late")

        client.close()
        await self.assertFailure(pending, TransportClosed)


class PublishTests(Rig):
    async def again(self, server: PubServer) -> None:
        """Listen again on the same port; the thread of ZeroMQ may still be closing the old one."""
        for _ in range(200):
            try:
                server.listen()
                return
            except zmq.ZMQError:
                await deferLater(reactor, 0.01)
        raise AssertionError("the port is not free")

    def pub(self, **options: Any) -> PubServer:
        server = PubServer(self.zeromq, "127.0.0.1", 0, **options)
        server.listen()
        self.addCleanup(server.stop)
        return server

    def sub(self, port: int, got: list[Any], **options: Any) -> SubClient:
        client = SubClient(
            self.zeromq,
            f"tcp://127.0.0.1:{port}",
            lambda payload, topic: got.append((payload, topic)),
            reconnect=20,
            **options,
        )
        client.open()
        self.addCleanup(client.close)
        return client

    async def test_broadcast(self) -> None:
        """Without filtering everyone gets one frame, and topics given are ignored."""
        server, got = self.pub(), []
        self.sub(server.port, got, identity=b"minion")
        await until(lambda: server.topics[b""] == 1)

        server.publish(b"one")
        server.publish(b"two", [b"nobody"])
        await until(lambda: len(got) == 2)

        self.assertEqual(got, [(b"one", None), (b"two", None)])

    async def test_addresses(self) -> None:
        """Who is connected is known while he is, also when he says nothing, and after a rebind."""
        server = self.pub()
        first, second = self.sub(server.port, []), self.sub(server.port, [])
        await until(lambda: server.addresses["127.0.0.1"] == 2)

        second.close()
        await until(lambda: server.addresses["127.0.0.1"] == 1)
        mute = socket.create_connection(("127.0.0.1", server.port))
        await until(lambda: server.addresses["127.0.0.1"] == 2)
        mute.close()
        await until(lambda: server.addresses["127.0.0.1"] == 1)

        server.stop()
        self.assertEqual(server.addresses, {})
        await self.again(server)
        await until(lambda: server.addresses["127.0.0.1"] == 1)
        first.close()
        await until(lambda: not server.addresses)

    async def test_filtering(self) -> None:
        """With filtering a topic frame goes first, and only its subscribers get the message."""
        server, mine, other = self.pub(filtering=True), [], []
        self.sub(server.port, mine, topics=[b"broadcast", b"aa"])
        self.sub(server.port, other, topics=[b"broadcast", b"bb"])
        await until(lambda: server.topics[b"broadcast"] == 2 and server.topics[b"bb"])

        server.publish(b"for aa", [b"aa"])
        server.publish(b"for all")
        await until(lambda: len(mine) == 2 and len(other) == 1)

        self.assertEqual(mine, [(b"for aa", b"aa"), (b"for all", b"broadcast")])
        self.assertEqual(other, [(b"for all", b"broadcast")])

    async def test_topics_come_and_go(self) -> None:
        """Every subscription and every leave is heard, a closed socket included."""
        heard: list[Any] = []
        server = self.pub(on_topic=lambda *event: heard.append(event))
        first = self.sub(server.port, [], topics=[b"id"])
        self.sub(server.port, [], topics=[b"id"])
        await until(lambda: server.topics[b"id"] == 2)

        first.close()
        await until(lambda: server.topics[b"id"] == 1)

        self.assertEqual(heard[0], (b"id", True, "127.0.0.1"))
        self.assertEqual(heard[-1][:2], (b"id", False))

    async def test_slow_subscriber(self) -> None:
        """One that does not read loses messages, which is counted; the other loses none."""
        server, got = self.pub(hwm=10), []
        slow = self.peers.socket(zmq.SUB)
        slow.set_hwm(1)
        slow.set(zmq.RCVBUF, 4096)
        slow.connect(f"tcp://127.0.0.1:{server.port}")
        slow.subscribe(b"")
        self.sub(server.port, got, hwm=100_000)
        await until(lambda: server.topics[b""] == 2)

        sent = 0
        while not server.dropped:
            server.publish(b"%d" % sent + b"x" * 100_000)
            sent += 1
            await until(lambda: len(got) == sent)  # noqa: B023

        self.assertEqual([int(p[:-100_000]) for p, _ in got], list(range(sent)))

    async def test_reconnects(self) -> None:
        """A subscriber finds a server that is started again on the same port."""
        server, got = self.pub(), []
        self.sub(server.port, got)
        await until(lambda: server.topics[b""] == 1)
        server.stop()
        self.assertEqual(server.topics[b""], 0)

        await self.again(server)
        await until(lambda: server.topics[b""] == 1)
        server.publish(b"back")
        await until(lambda: got)

        self.assertEqual(got, [(b"back", None)])

    async def test_lost(self) -> None:
        """The end of a connection is told, and a subscriber that is closed tells nothing."""
        server, lost = self.pub(), []
        client = self.sub(server.port, [], lost=lambda: lost.append(1))
        await until(lambda: server.topics[b""] == 1)
        self.assertEqual(lost, [])

        server.stop()
        await until(lambda: lost)
        await self.again(server)
        await until(lambda: server.topics[b""] == 1)
        count = len(lost)
        client.close()
        await until(lambda: not server.topics[b""])

        self.assertEqual(len(lost), count)


class ShutdownTests(Rig):
    async def test_everything_closes(self) -> None:
        """The context ends with connections open and a read scheduled, and twice."""
        server = self.router(lambda frame, _, reply: reply(frame))
        client = self.dealer(server.port)
        await client.request(b"x", 5)

        self.zeromq.shutdown()
        self.zeromq.shutdown()

        self.assertIsNone(self.zeromq.factory.context)
