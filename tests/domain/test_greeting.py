"""What nodes say of themselves on a stream of roots."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.roots import codec
from saltwisted.domain.roots.entry import ReplicaId
from saltwisted.domain.roots.greeting import VERSION, PeerState, greeting
from saltwisted.domain.roots.guards import Forbidden

A = ReplicaId("a", b"1" * 8)
NAME = "file/base/0"


def said(*knows: int, clock: Any = 5000) -> Any:
    """A greeting as it comes: one share for each number."""
    shares = [(f"file/base/{n}", {A: count}, b"d%d" % count) for n, count in enumerate(knows)]
    return codec.unpack(codec.pack(greeting(clock, shares)))


class GreetingTests(SynchronousTestCase):
    """The state of a peer follows what it says."""

    def setUp(self) -> None:
        self.peer = PeerState()

    def refused(self, value: Any) -> str:
        """Why a first greeting is refused."""
        return str(self.assertRaises(Forbidden, PeerState().introduced, value).reason)

    def test_introduced(self) -> None:
        """Shares have the numbers of their places; the clock is the peer's."""
        self.peer.introduced(said(3, 4))
        self.assertEqual((self.peer.share(0), self.peer.share(1)), (NAME, "file/base/1"))
        self.assertEqual(self.peer.knowledge[NAME], {A: 3})
        self.assertEqual(self.peer.digests[NAME], b"d3")
        self.assertEqual(self.peer.clock_ms, 5000)
        self.assertEqual(self.assertRaises(Forbidden, self.peer.share, 2).reason, "unknown-share")

    def test_said_again(self) -> None:
        """A later greeting says what the peer knows now; what it began with stays known."""
        self.peer.introduced(said(3, 4))
        value = said(7)
        value[2].append(["file/other/0", codec.pack_knowledge({}), b""])
        value[2].append("nonsense")
        self.assertEqual(list(self.peer.said_again(value)), [NAME])
        self.assertEqual(self.peer.knowledge, {NAME: {A: 7}, "file/base/1": {A: 4}})
        self.assertEqual(self.peer.began[NAME], {A: 3})
        self.peer.knows(NAME, {A: 8}, None)
        self.assertEqual((self.peer.knowledge[NAME], self.peer.digests[NAME]), ({A: 8}, b""))

    def test_refused(self) -> None:
        """What is no greeting is against the rules, also a second first one, and other versions."""
        for value in (None, [], [VERSION, 0, 0], [VERSION, 0, [["x", {}]]], [VERSION, 0, [None]]):
            self.assertEqual(self.refused(value), "hello")
        self.assertEqual(self.refused([VERSION, 0, [[NAME, [], b""]] * 256]), "hello")
        self.assertEqual(self.refused([VERSION + 1, 0, []]), f"protocol version {VERSION + 1}")
        self.peer.introduced(said(1))
        self.assertRaises(Forbidden, self.peer.introduced, said(1))
        self.assertRaises(Forbidden, list, self.peer.said_again([VERSION, 0]))

    def test_clock(self) -> None:
        """A clock that says nothing sensible is not taken."""
        for clock in (-1, 1 << 53, "5", True, None):
            self.peer.introduced(said(clock=clock))
            self.assertEqual(self.peer.clock_ms, 0)
            self.peer = PeerState()
