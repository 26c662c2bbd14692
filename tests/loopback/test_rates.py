"""
What the ports for minions cost the reactor, over real sockets: the CPU of the reactor's thread for
the smallest request and for each KiB, as the table of doors says (T-COST-1).

The clients are threads of their own, whose CPU does not count.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from functools import partial
from time import thread_time
from typing import Any

import zmq
from twisted.internet import reactor
from twisted.internet.threads import deferToThreadPool
from twisted.python.threadpool import ThreadPool
from twisted.trial.unittest import TestCase

from saltwisted.doors import (
    DOORS,
    KIB,
    MIB,
    PUBLICATIONS_TCP,
    PUBLICATIONS_ZMQ,
    REQUESTS_TCP,
    REQUESTS_ZMQ,
    Door,
)
from saltwisted.transports.tcp.publisher import TcpPublishServer
from saltwisted.transports.tcp.server import TcpRequestServer
from saltwisted.transports.zeromq.fairness import ZeroMQ
from saltwisted.transports.zeromq.publisher import PubServer
from saltwisted.transports.zeromq.router import RouterServer
from saltwisted.wire.frames import wrap_frame
from saltwisted.wire.msgpack import pack
from tests.doors.measure import slack
from tests.loopback.test_zeromq import awaited, until

MANY = 1000
"""Small requests, or connections, of one measurement."""
LARGE = 8
"""Requests of a MiB of one measurement."""
ANSWER = b"\xc0"


def reply_at_once(frame: Any, peer: str, reply: Callable[[bytes], None]) -> None:
    """Answer as one answers junk."""
    reply(ANSWER)


def connected(port: int) -> socket.socket:
    """A connection of TCP."""
    return socket.create_connection(("127.0.0.1", port), 30)


def read(stream: socket.socket, size: int) -> None:
    """Read so many bytes."""
    while size > 0:
        data = stream.recv(65536)
        if not data:
            raise AssertionError("the other side has closed the connection")
        size -= len(data)


class RateTests(TestCase):
    """Each port of each transport."""

    timeout = 60

    def setUp(self) -> None:
        self.pool = ThreadPool(1, 1)
        self.pool.start()
        self.addCleanup(self.pool.stop)
        self.zeromq = ZeroMQ(reactor, linger=0)
        self.addCleanup(self.zeromq.shutdown)
        self.context = zmq.Context()
        self.addCleanup(self.context.destroy, 0)

    async def cost(self, act: Callable[[], object], until_seen: Callable[[], bool]) -> float:
        """Seconds of this thread's CPU while a thread does this, the least of three runs."""
        spent = []
        for _ in range(3):
            began = thread_time()
            await deferToThreadPool(reactor, self.pool, act)
            await until(until_seen)
            spent.append(thread_time() - began)
        return min(spent)

    def judge(self, door: Door, small: float, each_kib: float = 0.0) -> None:
        """
        @param small: seconds of the smallest.
        @param each_kib: seconds of a KiB of a large one.
        """
        if small * 1e6 > door.per_request:
            self.assertLess(small * 1e6, door.per_request * slack(), door.name)
        if each_kib * 1e6 > door.per_kib:
            self.assertLess(each_kib * 1e6, door.per_kib * slack(), door.name)

    @awaited
    async def test_requests_zeromq(self) -> None:
        """A request by ZeroMQ, the smallest and each KiB of a large one (T-COST-1)."""
        server = RouterServer(self.zeromq, "127.0.0.1", 0)
        server.listen(reply_at_once)
        self.addCleanup(server.stop)
        client = self.context.socket(zmq.DEALER)
        client.connect(f"tcp://127.0.0.1:{server.port}")

        def ask(data: bytes, times: int) -> None:
            for at in range(0, times, 50):
                for _ in range(min(50, times - at)):
                    client.send_multipart([b"", data])
                for _ in range(min(50, times - at)):
                    if not client.poll(30_000):
                        raise AssertionError("no answer")
                    client.recv_multipart()

        small = await self.cost(partial(ask, b"", MANY), lambda: True)
        large = await self.cost(partial(ask, bytes(MIB), LARGE), lambda: True)
        self.assertFalse(sum(server.dropped.values()))
        self.judge(REQUESTS_ZMQ, small / MANY, large / LARGE / (MIB / KIB))

    @awaited
    async def test_requests_tcp(self) -> None:
        """The same by TCP (T-COST-1)."""
        server = TcpRequestServer(reactor, "127.0.0.1", 0)
        server.listen(reply_at_once)
        self.addCleanup(server.stop)
        client = connected(server.port)
        self.addCleanup(client.close)

        def ask(data: bytes, times: int) -> None:
            answer = len(wrap_frame(ANSWER))
            for at in range(0, times, 50):
                count = min(50, times - at)
                client.sendall(data * count)
                read(client, answer * count)

        tiny = wrap_frame(b"\xc0")
        small = await self.cost(partial(ask, tiny, MANY), lambda: True)
        body = wrap_frame(pack(bytes(MIB)))
        large = await self.cost(partial(ask, body, LARGE), lambda: True)
        self.assertFalse(sum(server.dropped.values()))
        self.judge(REQUESTS_TCP, small / MANY, large / LARGE / (MIB / KIB))
        client.close()
        await until(lambda: not server._clients)

    @awaited
    async def test_publications_zeromq(self) -> None:
        """Somebody who comes, subscribes and goes, by ZeroMQ (T-COST-1)."""
        server = PubServer(self.zeromq, "127.0.0.1", 0)
        server.listen()
        self.addCleanup(server.stop)
        count = MANY // 10

        def come() -> None:
            seen = server.topics[b""]
            subscribers = []
            for _ in range(count):
                one = self.context.socket(zmq.SUB)
                one.setsockopt(zmq.SUBSCRIBE, b"")
                one.connect(f"tcp://127.0.0.1:{server.port}")
                subscribers.append(one)
            for _ in range(10_000):
                if server.topics[b""] >= seen + count:
                    break
                subscribers[0].poll(2)
            for one in subscribers:
                one.close(0)

        small = await self.cost(come, lambda: not server.topics[b""])
        self.judge(PUBLICATIONS_ZMQ, small / count)

    @awaited
    async def test_publications_tcp(self) -> None:
        """The same by TCP, and the smallest frame of one who stays (T-COST-1)."""
        server = TcpPublishServer(reactor, "127.0.0.1", 0)
        server.listen()
        self.addCleanup(server.stop)
        count = MANY // 10
        tiny = wrap_frame(b"\xc0")

        def come() -> None:
            for _ in range(count):
                with connected(server.port) as one:
                    one.sendall(tiny)

        before = server.counters["unknown"]
        small = await self.cost(come, lambda: not server._connections)
        self.assertEqual(server.counters["unknown"] - before, 3 * count)
        self.judge(PUBLICATIONS_TCP, small / count)

    def test_rows(self) -> None:
        """TLS costs in OpenSSL's own code, besides: its rows say what those of TCP say."""
        for port in ("requests", "publications"):
            tcp, tls = DOORS[f"{port}-tcp"], DOORS[f"{port}-tls"]
            self.assertEqual((tcp.per_kib, tcp.per_request), (tls.per_kib, tls.per_request))
