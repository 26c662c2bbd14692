"""In which order what a peer has asked for is sent."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.roots import sending
from saltwisted.cluster.roots.link import RootLink
from saltwisted.cluster.roots.parcels import RAW, SLICE, SLICE_HEAD, SLICES, Outgoing
from saltwisted.domain.roots import codec, frames
from saltwisted.domain.roots.frames import DATA
from saltwisted.domain.roots.guards import Forbidden
from saltwisted.stores.roots.objects import SMALL

MISSING = b"m" * 32
LARGE = b"L" * 32
OTHER = b"O" * 32
CHANGED = b"C" * 32
BASE = b"B" * 32


class Shares:
    """
    One share, and its store; work in the pool is done when the test says so.

    @ivar work: what is to be done: name and Deferred, in the order in which it was asked for.
    """

    def __init__(self) -> None:
        self.work: list[tuple[str, Deferred[Any]]] = []
        self.packs: dict[Deferred[Any], bytes] = {}
        self.slices: dict[Deferred[Any], tuple[Outgoing, int]] = {}

    def store(self, share: str) -> Shares:
        """Its store is the test's, too."""
        return self

    def number(self, share: str) -> int:
        """Of its only share."""
        return 0

    def size(self, digest: bytes) -> int:
        """Of an object, told by its digest."""
        if digest == MISSING:
            return -1
        return SMALL if digest[:1] == b"s" else 4 * SLICES * SLICE

    def has(self, digest: bytes) -> bool:
        """All but one."""
        return digest != MISSING

    def pool(self, function: Any, *args: Any) -> Deferred[Any]:
        """Something to be done in a thread."""
        d: Deferred[Any] = Deferred()
        self.work.append((function.__name__, d))
        if function is sending.make_pack:
            self.packs[d] = b"".join(want.digest[1:2] for want in args[1])
        elif function is sending.make_slices:
            self.slices[d] = args[1], args[3]
        return d

    def names(self) -> list[str]:
        """What is to be done now."""
        return [name for name, _ in self.work]

    def do(self, name: str) -> None:
        """The first of that name is done."""
        at = self.names().index(name)
        _, d = self.work.pop(at)
        if name == "make_pack":
            d.callback(b"-" + self.packs[d])
        elif name == "make_slices":
            want, start = self.slices[d]
            found = []
            for offset in range(start, min(start + SLICES * SLICE, want.size), SLICE):
                head = SLICE_HEAD.pack(RAW, want.digest, offset, SLICE)
                found.append((frames.pack_head(DATA, 0, len(head) + SLICE) + head, bytes(SLICE)))
            d.callback(found)
        else:
            d.callback(None)


class Outlet:
    """
    A stream.

    @ivar said: what was sent: packs by the numbers in them, slices by their first letter.
    """

    def __init__(self) -> None:
        self.closed = False
        self.said: list[str] = []

    def send(self, kind: int, number: int, body: bytes) -> None:
        """A pack, or that something is not here."""
        assert kind == DATA and body[:1] == b"-", body
        self.said.append(body[1:].decode() if body[1:2].isdigit() else "missing")

    def send_whole(self, head: bytes, body: bytes) -> None:
        """A slice."""
        self.said.append(head[frames.HEAD.size + 1 : frames.HEAD.size + 2].decode())


class SendingTests(SynchronousTestCase):
    """A peer has asked for small and large objects."""

    def setUp(self) -> None:
        self.patch(sending, "PACK", 1)
        self.shares = Shares()
        self.out = Outlet()
        self.sender = sending.ObjectSender(self.shares, self.out)

    def ask(self, *digests: bytes, base: bytes = b"") -> None:
        """The peer wants these; of the last it has a version already, if C{base} is given."""
        last = len(digests) - 1
        self.sender.asked(
            "share", [[d, base if n == last else b"", 0] for n, d in enumerate(digests)]
        )

    def small(self, *numbers: int) -> list[bytes]:
        """Digests of small objects, which make a pack each."""
        return [b"s%d" % number + b"." * 30 for number in numbers]

    def sent(self) -> list[str]:
        """What was sent since."""
        said, self.out.said = self.out.said, []
        return said

    def test_side_by_side(self) -> None:
        """Slices go out while packs are made, two at a time; a pack goes before the next slice."""
        self.ask(LARGE)
        self.shares.do("make_slices")
        self.assertEqual(self.sent(), ["L"] * SLICES)
        self.ask(*self.small(1, 2, 3))
        self.shares.do("make_slices")
        self.assertEqual(self.sent(), ["L"] * SLICES)
        self.assertEqual(self.shares.names().count("make_pack"), 2)
        self.shares.do("make_pack")
        self.shares.do("make_slices")
        self.assertEqual(self.sent(), ["L", "1", "L", "L", "L"])
        self.assertEqual(self.shares.names().count("make_pack"), 2)
        self.shares.do("make_pack")
        self.shares.do("make_pack")
        self.shares.do("make_slices")
        self.assertEqual(self.sent(), ["L", "2", "3", "L", "L", "L"])
        self.assertEqual(self.shares.names(), [])

    def test_packs_alone(self) -> None:
        """In the order in which they were asked for."""
        self.ask(*self.small(1, 2, 3, 4))
        for number in range(4):
            self.assertEqual(self.shares.names(), ["make_pack"] * min(2, 4 - number))
            self.shares.do("make_pack")
        self.assertEqual(self.sent(), ["1", "2", "3", "4"])

    def test_large_ones_in_order(self) -> None:
        """One after the other, and the next is being read while the last of one goes out."""
        self.ask(LARGE, OTHER)
        for _ in range(8):
            self.shares.do("make_slices")
        self.assertEqual(self.sent(), ["L"] * 4 * SLICES + ["O"] * 4 * SLICES)
        self.assertEqual(self.shares.names(), [])

    def test_delta(self) -> None:
        """What has to be compared first, for up to a second, comes after the packs before it."""
        self.ask(*self.small(1), CHANGED, base=BASE)
        self.assertEqual(self.shares.names(), ["make_pack"])
        self.shares.do("make_pack")
        self.assertEqual(self.sent(), ["1"])
        self.assertEqual(self.shares.names(), ["find_delta"])
        self.shares.do("find_delta")
        self.shares.do("make_slices")
        self.assertEqual(self.sent(), ["C"] * SLICES)

    def test_missing(self) -> None:
        """What is not here is said at once."""
        self.ask(MISSING, *self.small(1))
        self.assertEqual(self.sent(), ["missing"])
        self.shares.do("make_pack")
        self.assertEqual(self.sent(), ["1"])

    def test_mistakes(self) -> None:
        """If something cannot be sent, that is said, and what was asked for after it is sent."""
        self.ask(*self.small(1, 2, 3), CHANGED, OTHER, base=BASE)
        for name in ("make_pack", "make_slices"):
            at = self.shares.names().index(name)
            self.shares.work.pop(at)[1].errback(ZeroDivisionError(name))
        self.assertEqual(self.sent(), ["missing", "missing"])
        for _ in range(2):
            self.shares.do("make_pack")
        self.assertEqual(self.sent(), ["2", "3"])
        self.shares.do("find_delta")
        self.shares.do("make_slices")

        self.assertEqual(self.sent(), ["O"] * SLICES)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 2)

    def test_back_pressure(self) -> None:
        """While the peer does not keep up, nothing is begun."""
        self.sender.pause()
        self.ask(LARGE, *self.small(1))
        self.assertEqual(self.shares.names(), [])
        self.sender.resume()
        self.assertEqual(self.shares.names(), ["make_pack", "make_slices"])
        self.sender.pause()
        self.shares.do("make_slices")
        self.assertEqual(self.sent(), ["L"])
        self.shares.do("make_pack")
        self.assertEqual(self.sent(), [])
        self.sender.resume()
        self.assertEqual(self.sent(), ["1", "L", "L", "L"])

    def test_lost(self) -> None:
        """What was being made for a stream that is lost goes nowhere."""
        self.ask(LARGE, *self.small(1, 2))
        self.out.closed = True
        self.sender.drop()
        for name in self.shares.names():
            self.shares.do(name)
        self.assertEqual(self.sent(), [])
        self.assertEqual(self.shares.names(), [])

    def test_rules(self) -> None:
        """What is no request, and one too many, are against the rules, and nothing is done."""
        good = [LARGE, b"", 0]
        for bad in (None, [None], [[b"short", b"", 0]], [[LARGE, b"b", 0]], [[LARGE, b"", -1]]):
            self.assertRaises(Forbidden, self.sender.asked, "share", bad)
        self.sender.pause()
        self.patch(sending, "MOST_WANTED", 3)
        self.sender.asked("share", [good] * 3)
        refused = self.assertRaises(Forbidden, self.sender.asked, "share", [good])
        self.assertEqual((refused.reason, self.sender.queued), ("too-many-wanted", 3))
        self.assertEqual(self.shares.names(), [])


class Owner(Shares):
    """Of a stream."""

    def hello(self, node: str) -> list[Any]:
        """What is said first."""
        return []

    def serves(self, link: RootLink, share: str) -> bool:
        """Everything is taken."""
        return True

    def link_down(self, link: RootLink) -> None:
        """It is over."""


class StreamTests(SynchronousTestCase):
    """A stream is what the sender goes by."""

    def setUp(self) -> None:
        self.owner = Owner()
        self.link = RootLink(self.owner, "peer", True, Clock())
        self.wire = StringTransport()
        self.wire.setTcpNoDelay = lambda on: None  # type: ignore[method-assign]
        self.link.makeConnection(self.wire)
        self.link.peer.greeted = True
        self.link.peer.shares.append("share")

    def test_paused_and_lost(self) -> None:
        """While its transport is full nothing is begun; when it is lost, nothing is sent."""
        body = codec.pack([[LARGE, b"", 0]])
        self.link.pauseProducing()
        for frame in frames.pack_frames(frames.WANT, 0, body):
            self.link.dataReceived(frame)
        self.assertEqual(self.owner.names(), [])
        self.link.resumeProducing()
        self.assertEqual(self.owner.names(), ["make_slices"])
        self.wire.clear()
        self.owner.do("make_slices")
        self.assertEqual(len(self.wire.value()), SLICES * (SLICE + SLICE_HEAD.size + 7))
        self.wire.clear()
        self.link.connectionLost()
        self.owner.do("make_slices")
        self.assertEqual((self.wire.value(), self.owner.names()), (b"", []))
