"""In which order a stream sends what a peer has asked for."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.roots import link as rootlink
from saltwisted.cluster.roots.link import RAW, SLICE, SLICE_HEAD, SLICES, RootLink, Want
from saltwisted.domain.roots import codec, frames
from saltwisted.domain.roots.frames import DATA, HELLO, WANT
from saltwisted.stores.roots.objects import SMALL

MISSING = b"m" * 32
LARGE = b"L" * 32
OTHER = b"O" * 32
CHANGED = b"C" * 32
BASE = b"B" * 32


class Owner:
    """
    Of the stream, and its store; work in the pool is done when the test says so.

    @ivar work: what is to be done: name and Deferred, in the order in which it was asked for.
    """

    def __init__(self) -> None:
        self.work: list[tuple[str, Deferred[Any]]] = []
        self.packs: dict[Deferred[Any], bytes] = {}
        self.slices: dict[Deferred[Any], tuple[Want, int]] = {}

    def hello(self, node: str) -> list[Any]:
        """What is said first."""
        return []

    def link_down(self, link: RootLink) -> None:
        """It is over."""

    def serves(self, link: RootLink, share: str) -> bool:
        """Everything is taken."""
        return True

    def store(self, share: str) -> Owner:
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
        if function is rootlink._make_pack:
            self.packs[d] = b"".join(want.digest[1:2] for want in args[1])
        elif function is rootlink._make_slices:
            self.slices[d] = args[1], args[3]
        return d

    def names(self) -> list[str]:
        """What is to be done now."""
        return [name for name, _ in self.work]

    def do(self, name: str) -> None:
        """The first of that name is done."""
        at = self.names().index(name)
        _, d = self.work.pop(at)
        if name == "_make_pack":
            d.callback(b"-" + self.packs[d])
        elif name == "_make_slices":
            want, start = self.slices[d]
            found = []
            for offset in range(start, min(start + SLICES * SLICE, want.size), SLICE):
                head = SLICE_HEAD.pack(RAW, want.digest, offset, SLICE)
                found.append((frames.pack_head(DATA, 0, len(head) + SLICE) + head, bytes(SLICE)))
            d.callback(found)
        else:
            d.callback(None)


class SendingTests(SynchronousTestCase):
    """A stream whose peer asks for small and large objects."""

    def setUp(self) -> None:
        self.patch(rootlink, "PACK", 1)
        self.owner = Owner()
        self.clock = Clock()
        self.link = RootLink(self.owner, "peer", True, self.clock)  # type: ignore[arg-type]
        self.wire = StringTransport()
        self.wire.setTcpNoDelay = lambda on: None  # type: ignore[method-assign]
        self.link.makeConnection(self.wire)
        self.link.greeted = True
        self.link.shares.append("share")
        self.frames = frames.Frames()
        self.sent()

    def ask(self, *digests: bytes, base: bytes = b"") -> None:
        """The peer wants these; of the last it has a version already, if C{base} is given."""
        last = len(digests) - 1
        body = codec.pack([[d, base if n == last else b"", 0] for n, d in enumerate(digests)])
        for frame in frames.pack_frames(WANT, 0, body):
            self.link.dataReceived(frame)

    def small(self, *numbers: int) -> list[bytes]:
        """Digests of small objects, which make a pack each."""
        return [b"s%d" % number + b"." * 30 for number in numbers]

    def sent(self) -> list[str]:
        """What was sent since: packs by the numbers in them, slices by their first letter."""
        said = []
        for kind, _, body in self.frames.feed(self.wire.value()):
            if kind == DATA and body[:1] == b"-" and body[1:2].isdigit():
                said.append(body[1:].decode())
            elif kind == DATA and body[:1] == b"-":
                said.append("missing")
            elif kind == DATA:
                said.append(body[1:2].decode())
            elif kind != HELLO:
                said.append(str(kind))
        self.wire.clear()
        return said

    def test_side_by_side(self) -> None:
        """Slices go out while packs are made, two at a time; a pack goes before the next slice."""
        self.ask(LARGE)
        self.owner.do("_make_slices")
        self.assertEqual(self.sent(), ["L"] * SLICES)
        self.ask(*self.small(1, 2, 3))
        self.owner.do("_make_slices")
        self.assertEqual(self.sent(), ["L"] * SLICES)
        self.assertEqual(self.owner.names().count("_make_pack"), 2)
        self.owner.do("_make_pack")
        self.owner.do("_make_slices")
        self.assertEqual(self.sent(), ["L", "1", "L", "L", "L"])
        self.assertEqual(self.owner.names().count("_make_pack"), 2)
        self.owner.do("_make_pack")
        self.owner.do("_make_pack")
        self.owner.do("_make_slices")
        self.assertEqual(self.sent(), ["L", "2", "3", "L", "L", "L"])
        self.assertEqual(self.owner.names(), [])

    def test_packs_alone(self) -> None:
        """In the order in which they were asked for."""
        self.ask(*self.small(1, 2, 3, 4))
        for number in range(4):
            self.assertEqual(self.owner.names(), ["_make_pack"] * min(2, 4 - number))
            self.owner.do("_make_pack")
        self.assertEqual(self.sent(), ["1", "2", "3", "4"])

    def test_large_ones_in_order(self) -> None:
        """One after the other, and the next is being read while the last of one goes out."""
        self.ask(LARGE, OTHER)
        for _ in range(8):
            self.owner.do("_make_slices")
        self.assertEqual(self.sent(), ["L"] * 4 * SLICES + ["O"] * 4 * SLICES)
        self.assertEqual(self.owner.names(), [])

    def test_delta(self) -> None:
        """What has to be compared first, for up to a second, comes after the packs before it."""
        self.ask(*self.small(1), CHANGED, base=BASE)
        self.assertEqual(self.owner.names(), ["_make_pack"])
        self.owner.do("_make_pack")
        self.assertEqual(self.sent(), ["1"])
        self.assertEqual(self.owner.names(), ["_large_delta"])
        self.owner.do("_large_delta")
        self.owner.do("_make_slices")
        self.assertEqual(self.sent(), ["C"] * SLICES)

    def test_missing(self) -> None:
        """What is not here is said at once."""
        self.ask(MISSING, *self.small(1))
        self.assertEqual(self.sent(), ["missing"])
        self.owner.do("_make_pack")
        self.assertEqual(self.sent(), ["1"])

    def test_back_pressure(self) -> None:
        """While the peer does not keep up, nothing is begun."""
        self.link.pauseProducing()
        self.ask(LARGE, *self.small(1))
        self.assertEqual(self.owner.names(), [])
        self.link.resumeProducing()
        self.assertEqual(self.owner.names(), ["_make_pack", "_make_slices"])
        self.link.pauseProducing()
        self.owner.do("_make_slices")
        self.assertEqual(self.sent(), ["L"])
        self.owner.do("_make_pack")
        self.assertEqual(self.sent(), [])
        self.link.resumeProducing()
        self.assertEqual(self.sent(), ["1", "L", "L", "L"])

    def test_lost(self) -> None:
        """What was being made for a stream that is lost goes nowhere."""
        self.ask(LARGE, *self.small(1, 2))
        self.link.connectionLost()
        for name in self.owner.names():
            self.owner.do(name)
        self.assertEqual(self.sent(), [])
        self.assertEqual(self.owner.names(), [])
