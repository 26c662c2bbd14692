"""
The bulk connection of a link, without sockets: how bodies go out and how they come in.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.links.commands import BULK_HEAD, MAX_BODY
from saltwisted.cluster.links.link import Bulk


class BulkTests(SynchronousTestCase):
    """One end, and a link that keeps what it is given."""

    def setUp(self) -> None:
        self.bodies: list[tuple[int, bytes]] = []
        self.closed: list[str] = []
        link: Any = SimpleNamespace(
            note_life=lambda: None,
            resume=lambda: None,
            close=self.closed.append,
            arrivals=SimpleNamespace(body=lambda *body: self.bodies.append(body)),
        )
        self.bulk = Bulk(link)

    def test_bodies(self) -> None:
        """Bodies arrive whole, however their bytes are cut: each alone, all at once, in between."""
        sent = [(1, b"a" * 70_000), (2, b""), (3, b"b"), (4, b"c" * 200_000)]
        data = b"".join(BULK_HEAD.pack(number, len(body)) + body for number, body in sent)
        for size in (1, 5, 13, 16_384, len(data)):
            for start in range(0, len(data), size):
                self.bulk.dataReceived(data[start : start + size])
            self.assertEqual(self.bodies, sent, size)
            self.assertEqual({type(body) for _, body in self.bodies}, {bytes})
            self.bodies.clear()

    def test_oversized(self) -> None:
        """A body that is too large ends the link by its head, and nothing that follows counts."""
        head = BULK_HEAD.pack(1, MAX_BODY + 1)
        self.bulk.dataReceived(head[:5])
        self.assertEqual(self.closed, [])
        self.bulk.dataReceived(head[5:] + BULK_HEAD.pack(2, 1) + b"x")
        self.bulk.dataReceived(BULK_HEAD.pack(3, 1) + b"y")
        self.assertEqual(set(self.closed), {"an oversized body"})
        self.assertEqual(self.bodies, [])

    def test_tail(self) -> None:
        """What follows a body arrives behind it, as one body; what waits is counted whole."""
        transport: Any = StringTransport()
        transport.setTcpNoDelay = lambda on: None
        tail = memoryview(b"t" * 150_000)
        self.bulk.send(1, b"head", tail)
        self.bulk.send(2, b"x" * 100_000)
        self.assertEqual(self.bulk.waiting, 250_004)
        self.bulk.makeConnection(transport)

        self.bulk.dataReceived(transport.value())
        self.assertEqual(self.bodies, [(1, b"head" + bytes(tail)), (2, b"x" * 100_000)])
        self.assertEqual(self.bulk.waiting, 0)
