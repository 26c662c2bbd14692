"""C{status.ping_master} against sockets of ZeroMQ itself, and against what is no master."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

import zmq
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.wire.envelope import decode_request, encode_clear_reply
from saltwisted.wire.frames import FrameReader, encode_frame
from saltwisted.wire.msgpack import unpack
from tests.modules.harness import load

REPLY = encode_clear_reply(True)


class Daemon:
    """What the minion's daemon was asked."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def call(self, op: str, **args: Any) -> None:
        self.calls.append((op, args))


class PingTests(SynchronousTestCase):
    """Who answers is a master."""

    def setUp(self) -> None:
        self.daemon = Daemon()
        self.opts: dict[str, Any] = {"auth_timeout": 10, "transport": "zeromq", "master_port": 1}
        self.status = load("status", opts=self.opts, daemon=self.daemon)

    def listen(self, serve: Callable[[socket.socket], None]) -> int:
        """Serve one connection in a thread."""
        server = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(server.close)

        def run() -> None:
            with server.accept()[0] as connection:
                serve(connection)

        thread = threading.Thread(target=run)
        thread.start()
        self.addCleanup(thread.join)
        return int(server.getsockname()[1])

    def zeromq(self, kind: int, reply: bytes) -> tuple[int, list[bytes]]:
        """A socket that answers once."""
        context = zmq.Context()
        sock = context.socket(kind)
        sock.linger = 0
        port = sock.bind_to_random_port("tcp://127.0.0.1")
        seen: list[bytes] = []

        def run() -> None:
            if sock.poll(10000):
                seen.extend(sock.recv_multipart())
                sock.send_multipart([*seen[:-1], reply])
                sock.poll(0)

        thread = threading.Thread(target=run)
        thread.start()

        def close() -> None:
            thread.join()
            sock.close()
            context.term()

        self.addCleanup(close)
        return port, seen

    def test_zeromq(self) -> None:
        """A master on ZeroMQ hears a ping in the clear, and its answer counts, long or short."""
        for kind in (zmq.REP, zmq.ROUTER):
            for reply in (REPLY, encode_clear_reply("x" * 300)):
                port, seen = self.zeromq(kind, reply)
                self.assertIs(self.status.ping_master(f"127.0.0.1:{port}"), True)
                request: Any = decode_request(seen[-1])
                self.assertEqual(request.load, {"cmd": "ping"})

    def test_told(self) -> None:
        """The minion's bus hears of it, and only then."""
        port, _ = self.zeromq(zmq.REP, REPLY)
        master = f"127.0.0.1:{port}"
        self.status.ping_master(master)
        told = ("fire_event", {"tag": "__master_failback", "data": {"master": master}})
        self.assertEqual(self.daemon.calls, [told])
        self.status.ping_master("127.0.0.1")
        self.assertEqual(len(self.daemon.calls), 1)

    def test_tcp(self) -> None:
        """A master on Salt's frames hears the question itself, and answers by its number."""
        seen: list[Any] = []

        def serve(connection: socket.socket) -> None:
            reader = FrameReader()
            while not seen:
                seen.extend(reader.feed(connection.recv(4096)))
            connection.sendall(encode_frame("other", {"mid": 5}))
            connection.sendall(encode_frame(unpack(REPLY), {"mid": seen[0].head["mid"]}))

        self.opts["transport"] = "tcp"
        port = self.listen(serve)

        self.assertIs(self.status.ping_master(f"127.0.0.1:{port}"), True)
        self.assertEqual(seen[0].body[b"load"], {b"cmd": b"ping"})

    def test_noMaster(self) -> None:
        """Somebody who says nothing, goes, or says something else is no master."""
        greeting = b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(16 + 32)
        for transport in ("zeromq", "tcp"):
            self.opts["transport"] = transport
            for words in (b"", b"HTTP/1.0 400 Bad\r\n" * 9, greeting + b"\x02" + b"\xff" * 8):
                port = self.listen(lambda connection, words=words: connection.sendall(words))
                self.assertIs(self.status.ping_master(f"127.0.0.1:{port}"), False)
        self.opts["auth_timeout"] = 0.05
        done = threading.Event()
        port = self.listen(lambda connection: done.wait() and None)
        self.assertIs(self.status.ping_master(f"127.0.0.1:{port}"), False)
        done.set()

    def test_nowhere(self) -> None:
        """No name, a name that is none, and a port that nobody has: no master."""
        for master in (None, "", "127.0.0.1", "[::1", "a:b:c:d:z", "127.0.0.1:99999"):
            self.assertIs(self.status.ping_master(master), False)
