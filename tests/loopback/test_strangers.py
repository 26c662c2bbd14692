"""
What strangers send to the ports of ZeroMQ without ever finishing it, over real sockets: libzmq
itself is what would keep it.
"""

from __future__ import annotations

import os
import socket
import struct
from typing import Any

import zmq
from twisted.internet import reactor

from saltwisted.transports import unfinished
from saltwisted.transports.unfinished import Room
from saltwisted.transports.zeromq import peers, publisher, router
from saltwisted.transports.zeromq.fairness import MOST_PARTS
from saltwisted.transports.zeromq.peers import Peers
from saltwisted.transports.zeromq.publisher import PubServer
from tests.loopback.test_zeromq import Rig, until

MIB = 1024 * 1024
GREETING = b"\xff" + b"\0" * 8 + b"\x7f\x03\x00NULL" + b"\0" * 48


def stranger(port: int, kind: bytes = b"DEALER") -> socket.socket:
    """A peer that has shaken hands and does not block."""
    sock = socket.create_connection(("127.0.0.1", port))
    sock.settimeout(10)
    sock.sendall(GREETING)
    got = b""
    while len(got) < 64:
        got += sock.recv(64 - len(got))
    ready = b"\x05READY\x0bSocket-Type" + struct.pack(">I", len(kind)) + kind
    sock.sendall(b"\x04" + bytes((len(ready),)) + ready)
    sock.recv(1000)
    sock.setblocking(False)
    return sock


class Strangers(Rig):
    """Both ports."""

    def stranger(self, port: int, kind: bytes = b"DEALER") -> socket.socket:
        """See L{stranger}; closed at the end."""
        sock = stranger(port, kind)
        self.addCleanup(sock.close)
        return sock

    async def push(self, socks: list[socket.socket], data: bytes) -> int:
        """
        Send it by all of them, as far as they are let.

        @return: how many could send all.
        """
        left = {sock: memoryview(data) for sock in socks}
        whole = 0

        def send() -> bool:
            nonlocal whole
            for sock, rest in list(left.items()):
                try:
                    while rest:
                        rest = rest[sock.send(rest[:65536]) :]
                    whole += 1
                    del left[sock]
                except BlockingIOError:
                    left[sock] = rest
                except OSError:
                    del left[sock]
            return not left

        await until(send)
        return whole

    async def served(self, port: int) -> None:
        """Others are."""
        client = self.dealer(port)
        self.assertEqual(await client.request(b"x", 5), b"x")
        client.close()

    def ends(self, sock: socket.socket) -> bool:
        """Whether the other side has hung up."""
        try:
            while sock.recv(65536):
                pass
        except BlockingIOError:
            return False
        except OSError:
            pass
        return True

    def pub(self, **options: Any) -> PubServer:
        """A publish port."""
        server = PubServer(self.zeromq, "127.0.0.1", 0, **options)
        server.listen()
        self.addCleanup(server.stop)
        return server

    async def test_unfinished(self) -> None:
        """
        Of strangers who announce large requests and never finish them so many are hung up on that
        the rest has room; small requests are answered meanwhile (T-MEM-1).
        """
        self.patch(router, "UNFINISHED", 12 * MIB)
        server = self.router(lambda frame, _, reply: reply(frame))
        socks = [self.stranger(server.port) for _ in range(10)]

        await self.push(socks, b"\x01\x00\x02" + struct.pack(">Q", 100 * MIB) + b"x" * MIB)
        await until(lambda: server.dropped["no room"] >= 6)
        await self.served(server.port)

        await until(lambda: sum(map(self.ends, socks)) == server.dropped["no room"])
        self.assertLessEqual(server._room.size, 4 * MIB)

    async def test_large_of_a_minion(self) -> None:
        """While strangers fill their part of the room, a large request of a minion arrives."""
        self.patch(router, "UNFINISHED", 30 * MIB)
        sizes: list[int] = []
        known: list[str] = []

        def handler(frame: Any, _: str, reply: Any) -> None:
            sizes.append(len(frame))
            reply(b"")

        server = self.router(handler, known=lambda: known)
        socks = [self.stranger(server.port) for _ in range(12)]
        head = b"\x01\x00\x02" + struct.pack(">Q", 15 * MIB)
        await self.push(socks, head + b"x" * MIB)
        await until(lambda: server.dropped["no room"] >= 2)
        self.patch(unfinished, "KNOWN_FOR", 0.0)
        known.append("127.0.0.1")
        minion = self.stranger(server.port)
        for _ in range(15):
            await self.push([minion], head + b"x" * MIB)
            head = b""

        await until(lambda: sizes)
        self.assertEqual(sizes, [15 * MIB])
        await until(lambda: server._room.size <= 10 * MIB)

    async def test_parts_without_end(self) -> None:
        """
        Empty parts, of which libzmq keeps thirty times the bytes that came, count as what they
        take (T-MEM-1).
        """
        self.patch(router, "UNFINISHED", 60 * MIB)
        server = self.router(lambda frame, _, reply: reply(frame))
        looked = server._peers
        assert looked is not None
        # What this process has freed before, and uses again, would not be seen to grow
        seen: dict[Any, int] = {}

        def memory() -> int:
            seen.update((peer, peer.received) for peer in looked._peers.values())
            return 32 * sum(seen.values())

        self.patch(looked, "_memory", memory)
        looked._resident = 0
        socks = [self.stranger(server.port) for _ in range(6)]

        await self.push(socks, b"\x01\x00" * 100_000)
        await until(lambda: server.dropped["no room"] >= 2)
        await self.served(server.port)

        self.assertLessEqual(server._room.size, 20 * MIB)

    async def test_growth_of_others(self) -> None:
        """
        A minion that is known does not pay for what else makes the process grow while it sends; a
        stranger may have to.
        """
        self.patch(unfinished, "KNOWN_FOR", 0.0)
        known = ["127.0.0.1"]
        for expected in (0, 31):
            server = self.router(lambda frame, _, reply: reply(frame), known=lambda: known)
            grown = 0

            def grows() -> int:
                nonlocal grown
                grown += 100 * MIB
                return grown

            assert server._peers is not None
            self.patch(server._peers, "_memory", grows)
            server._peers._resident = 0
            sock = self.stranger(server.port)
            await self.push([sock], b"\x01\x00\x02" + struct.pack(">Q", MIB) + b"x" * 500_000)
            # What comes last may be too little to be weighed
            least = 500_000 + (500_000 - peers.WEIGHED) * expected
            await until(lambda: server._room.size >= least)  # noqa: B023
            self.assertLess(server._room.size, 510_000 * (1 + expected))
            server.stop()
            known.clear()

    async def test_many_parts(self) -> None:
        """
        A message of very many parts is dropped in portions, its sender hung up on, and what
        others ask is answered (T-COST-1).
        """
        server = self.router(lambda frame, _, reply: reply(frame))
        connection = server._connection
        assert connection is not None
        sock = self.stranger(server.port)
        skipped = 0
        skip = connection._skip

        def counted(one: Any) -> None:
            nonlocal skipped
            skipped += 1
            skip(one)

        self.patch(connection, "_skip", counted)
        await self.push([sock], b"\x01\x00" * 50_000 + b"\x00\x01x")
        await until(lambda: server.dropped["framing"] == 1)
        await self.served(server.port)

        self.assertGreaterEqual(skipped, (50_000 - MOST_PARTS) // 64)
        await until(lambda: self.ends(sock))
        self.assertEqual((connection.skips, server.unanswered), (False, 0))

    async def test_stalled(self) -> None:
        """Who has begun a large request and sends nothing more is hung up on (T-MEM-1)."""
        self.patch(unfinished, "STEP_TIME", 0.2)
        self.patch(peers, "ROUNDS", 0.05)
        server = self.router(lambda frame, _, reply: reply(frame))
        sock = self.stranger(server.port)
        await self.push([sock], b"\x01\x00\x02" + struct.pack(">Q", MIB) + b"x" * 200_000)

        await until(lambda: server.dropped["slow frame"])
        await until(lambda: self.ends(sock))
        self.assertEqual(server._room.size, 0)

    async def test_many_requests(self) -> None:
        """Whole requests leave nothing that counts, however many bytes they were."""
        seen: list[int] = []

        def handler(frame: Any, _: str, reply: Any) -> None:
            seen.append(len(frame))
            reply(b"")

        server = self.router(handler, per_client=10**6)
        peer = self.peer(zmq.DEALER, server.port)
        for size in (0, 10, 255, 256, 300, 70_000, 1_000_000):
            for _ in range(5):
                peer.send_multipart([b"", b"x" * size])
        await until(lambda: len(seen) == 35)
        assert server._peers is not None
        (one,) = server._peers._peers.values()

        await until(lambda: one.size <= peers.LITTLE)
        self.assertEqual(server.dropped, {})

    async def test_whole_at_last(self) -> None:
        """What was counted as unfinished is not any more when its message is handed over."""
        sizes: list[int] = []

        def handler(frame: Any, _: str, reply: Any) -> None:
            sizes.append(server._room.size)
            reply(b"")

        server = self.router(handler)
        sock = self.stranger(server.port)
        head = b"\x01\x00\x02" + struct.pack(">Q", 2 * MIB)
        await self.push([sock], head + b"x" * MIB)
        await until(lambda: server._room.size >= MIB)
        await self.push([sock], b"x" * MIB)
        await until(lambda: sizes)

        self.assertLessEqual(sizes[0], peers.LITTLE)

    async def test_gone(self) -> None:
        """Who has gone before the end of its request has nothing in the room any more."""
        self.patch(peers, "ROUNDS", 100.0)
        server = self.router(lambda frame, _, reply: reply(frame))
        sock = self.stranger(server.port)
        await self.push([sock], b"\x01\x00\x02" + struct.pack(">Q", 4 * MIB) + b"x" * 2 * MIB)
        await until(lambda: server._room.size >= 2 * MIB)
        sock.close()

        await until(lambda: not server._room.size)

    async def test_too_many_connections(self) -> None:
        """When there are too many connections, one goes that never said anything (T-MEM-1)."""
        server = self.router(lambda frame, _, reply: reply(frame))
        assert server._peers is not None
        server._peers._connections = 5
        client = self.dealer(server.port)
        await client.request(b"x", 5)
        socks = [self.stranger(server.port) for _ in range(8)]

        await until(lambda: server.dropped["too many connections"] == 4)
        await until(lambda: [self.ends(sock) for sock in socks] == [True] * 4 + [False] * 4)
        self.assertEqual(await client.request(b"y", 5), b"y")

    async def test_not_another(self) -> None:
        """A descriptor that is another connection's by now is left alone."""
        listening = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listening.close)
        port = listening.getsockname()[1]
        made = Peers(reactor, Room(reactor, MIB, MIB), MIB, self.router(print).dropped)
        made.begin(port)
        self.addCleanup(made.stop)
        first = socket.create_connection(("127.0.0.1", port))
        accepted = listening.accept()[0]
        descriptor = accepted.fileno()
        peer = made.accepted(descriptor)
        assert peer is not None
        first.close()
        second = socket.create_connection(("127.0.0.1", port))
        self.addCleanup(second.close)
        other = listening.accept()[0]
        os.dup2(other.fileno(), descriptor)
        self.addCleanup(accepted.close)
        other.close()

        peer.end("too large")

        second.setblocking(False)
        self.assertFalse(self.ends(second))
        self.assertEqual((made.ended["too large"], made._peers), (0, {}))

    async def test_subscriptions(self) -> None:
        """A subscriber may have a few topics; who has thousands is hung up on (T-MEM-1)."""
        server = self.pub()
        good = self.peers.socket(zmq.SUB)
        good.connect(f"tcp://127.0.0.1:{server.port}")
        for topic in (b"", b"broadcast", b"a" * 64, b"b" * 64):
            good.subscribe(topic)
        sock = self.stranger(server.port, b"SUB")
        flood = b"".join(b"\x00\x09\x01%08d" % number for number in range(20_000))
        assert server._peers is not None
        self.patch(server._peers, "_most", 2 * len(flood))
        await self.push([sock], flood)

        await until(lambda: server.ended["too many topics"] == 1)
        await until(lambda: self.ends(sock) and len(server.topics) == 4)
        server.publish(b"hello")
        await until(lambda: good.poll(0))

    async def test_parts_to_the_publish_port(self) -> None:
        """A subscriber has no reason to send much: who begins to is hung up on (T-MEM-1)."""
        server = self.pub()
        socks = [self.stranger(server.port, b"SUB") for _ in range(5)]
        await self.push(socks, b"\x01\x00" * 100_000)

        await until(lambda: server.ended["too large"] == 5)
        await until(lambda: all(map(self.ends, socks)))

    async def test_no_subscription(self) -> None:
        """Who sends something else than subscriptions is hung up on."""
        server = self.pub()
        sock = self.stranger(server.port, b"SUB")
        await self.push([sock], b"\x00\x02\x07x")

        await until(lambda: server.ended["no subscription"] == 1)
        await until(lambda: self.ends(sock))

    async def test_no_reader(self) -> None:
        """A subscriber that reads nothing of what waits for it is hung up on (T-MEM-1)."""
        self.patch(peers, "UNREADING", 0.3)
        self.patch(peers, "ROUNDS", 0.05)
        server = self.pub()
        deaf = self.stranger(server.port, b"SUB")
        await self.push([deaf], b"\x00\x01\x01")
        good = self.peers.socket(zmq.SUB)
        good.connect(f"tcp://127.0.0.1:{server.port}")
        good.subscribe(b"")
        await until(lambda: server.topics[b""] == 2)
        for _ in range(30):
            server.publish(b"x" * MIB)

        def read() -> bool:
            while good.poll(0):
                good.recv()
            return bool(server.ended["it does not read"])

        await until(read)
        await until(lambda: server.topics[b""] == 1)
        self.assertEqual(publisher.UNFINISHED, 8192)
