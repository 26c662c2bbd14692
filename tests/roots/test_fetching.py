"""How a node asks for what it lacks, and how what comes is stored in order."""

from __future__ import annotations

import hashlib
from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.roots import fetching, intake
from saltwisted.cluster.roots.fetching import Fetch, ObjectFetcher
from saltwisted.cluster.roots.intake import WINDOW, Intake
from saltwisted.cluster.roots.parcels import Outgoing, Want, make_pack
from saltwisted.domain.roots import codec
from saltwisted.domain.roots.frames import WANT
from saltwisted.domain.roots.guards import Forbidden
from saltwisted.errors import StoreError, TransportClosed
from saltwisted.stores.roots.objects import SMALL, ContentStore


def wants(*sizes: int) -> list[Want]:
    """Objects of these sizes."""
    return [Want(b"%032d" % number, size) for number, size in enumerate(sizes)]


class Stream:
    """A stream with nothing behind it."""

    node = "peer"

    def __init__(self) -> None:
        self.closed = False
        self.asked: list[bytes] = []
        self.broken: list[str] = []
        self.changes: list[bool] = []
        self.intake = Intake(self)

    def tell(self, kind: int, share: str, body: bytes) -> None:
        """A request."""
        assert (kind, share) == (WANT, "share")
        self.asked += [item[0] for item in codec.unpack(body)]

    def broke(self, error: Forbidden) -> None:
        """The peer broke the rules."""
        self.broken.append(error.reason)
        self.closed = True

    def close(self, reason: str) -> None:
        """We cannot go on."""
        self.broken.append(reason)
        self.closed = True

    def room_changed(self) -> None:
        """It is too much, or no longer."""
        self.changes.append(self.intake.is_full)


class WindowTests(SynchronousTestCase):
    """What is asked for, and when more is."""

    def fetch(self, *sizes: int) -> Fetch:
        """These are to come."""
        fetch = Fetch("share", None, Deferred())  # type: ignore[arg-type]
        fetch.add(wants(*sizes))
        return fetch

    def test_half_of_it(self) -> None:
        """As much as a window is asked for, and more only when half of that has come."""
        fetch = self.fetch(*[SMALL] * 300)
        first = fetch.ask()
        self.assertEqual(len(first), WINDOW // SMALL)
        for want in first[: len(first) // 2 - 1]:
            self.assertEqual(fetch.ask(), [])
            fetch.take(want)
        self.assertEqual(fetch.ask(), [])
        fetch.take(first[-1])
        self.assertEqual(len(fetch.ask()), len(first) // 2)
        self.assertEqual(fetch.bytes_asked, WINDOW)

    def test_large(self) -> None:
        """Small ones are asked for first; of large ones, however large, two at a time."""
        fetch = self.fetch(WINDOW * 9, WINDOW * 9, 5, WINDOW * 9)
        self.assertEqual([want.size for want in fetch.ask()], [5, WINDOW * 9, WINDOW * 9])
        self.assertEqual(fetch.bytes_asked, 5 + WINDOW)

    def test_many(self) -> None:
        """Of empty files only so many are asked for at once; all come in the end, each once."""
        fetch = self.fetch(*[0] * 2500)
        count = 0
        while (some := fetch.ask()) and len(some) <= fetching.ASKED_AT_ONCE:
            count += len(some)
            self.assertEqual([fetch.take(want) for want in some], [True] * len(some))
            self.assertFalse(fetch.take(some[0]))
        self.assertEqual((count, fetch.came, fetch.bytes_asked), (2500, 2500, 0))
        self.assertTrue(fetch.is_over)


class IntakeTests(SynchronousTestCase):
    """What has come is stored by one writer."""

    def setUp(self) -> None:
        self.stream = Stream()
        self.intake = self.stream.intake
        self.begun: list[Deferred[Any]] = []
        self.stored: list[Any] = []

    def add(self, size: int) -> None:
        """Something has come."""

        def work() -> Deferred[Any]:
            self.begun.append(Deferred())
            return self.begun[-1]

        self.intake.add(size, work, self.stored.append)

    def test_in_order(self) -> None:
        """The next is begun when the one before it is stored."""
        for size in (1, 2, 3):
            self.add(size)
        for number in range(3):
            self.assertEqual(len(self.begun), number + 1)
            self.begun[number].callback(number)
        self.assertEqual(self.stored, [0, 1, 2])

    def test_mistake(self) -> None:
        """
        After a mistake of ours the peer is told to begin again, and what waits is stored: it does
        not depend on something more coming, which a full intake does not read.
        """
        for size in (WINDOW, 1):
            self.add(size)
        self.begun[0].errback(ZeroDivisionError("a mistake"))
        self.assertEqual(len(self.begun), 2)
        self.begun[1].callback("second")

        self.assertEqual(self.stream.broken, ["not stored"])
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_full(self) -> None:
        """Above a window it is full, and is so until less than half of one is left."""
        for _ in range(5):
            self.add(WINDOW // 4)
        self.assertEqual(self.stream.changes, [True])
        for number in range(3):
            self.begun[number].callback(None)
        self.assertEqual(self.stream.changes, [True])
        self.begun[3].callback(None)
        self.assertEqual(self.stream.changes, [True, False])

    def test_ends(self) -> None:
        """A rule that is broken, and a disk that refuses, end the stream; the rest goes nowhere."""
        for _ in range(3):
            self.add(1)
        self.begun[0].errback(Forbidden("object-digest"))
        self.begun[1].callback(None)
        self.begun[2].errback(StoreError("full", "disk"))
        self.assertEqual(self.stream.broken, ["object-digest", "disk"])
        self.assertEqual(self.stored, [])


class FetcherTests(SynchronousTestCase):
    """Objects of a peer, by a stream."""

    def setUp(self) -> None:
        self.stream = Stream()
        self.fetcher = ObjectFetcher(self.stream, self.pool, self.stream.intake)
        self.theirs, self.ours = (ContentStore(self.mktemp(), {}) for _ in range(2))
        for store in (self.theirs, self.ours):
            self.addCleanup(store.close)

    def pool(self, function: Any, *args: Any) -> Deferred[Any]:
        """At once."""
        try:
            return succeed(function(*args))
        except Exception:
            return fail()

    def pack(self, *digests: bytes) -> bytes:
        """What the peer sends."""
        asked = [Outgoing("share", digest, self.theirs.size(digest)) for digest in digests]
        return make_pack(self.theirs, asked)

    def test_pack(self) -> None:
        """Objects come in a pack; meanwhile it is told how many have come."""
        one, two = (self.theirs.put(data) for data in (b"one", b"second"))
        done = self.fetcher.fetch("share", self.ours, [Want(one, 3), Want(two, 6)])
        self.assertEqual(self.stream.asked, [one, two])
        self.fetcher.data("share", self.pack(two))
        coming = self.fetcher.coming("share")
        assert coming is not None
        self.assertEqual((coming.done, coming.of), (1, 2))
        self.assertEqual((coming.bytes_done, coming.bytes_of), (6, 9))
        self.assertNoResult(done)
        self.fetcher.data("share", self.pack(one))
        self.successResultOf(done)
        self.assertEqual((self.ours.read(one), self.ours.read(two)), (b"one", b"second"))
        self.assertIsNone(self.fetcher.coming("share"))

    def test_missing(self) -> None:
        """An object that the peer has not got fails what waits for it, and nothing else."""
        one = self.theirs.put(b"one")
        lost = hashlib.sha256(b"lost").digest()
        good = self.fetcher.fetch("share", self.ours, [Want(one, 3)])
        bad = self.fetcher.fetch("share", self.ours, [Want(lost, 4)])
        self.fetcher.data("share", self.pack(lost))
        self.failureResultOf(bad, StoreError)
        self.fetcher.data("share", self.pack(one))
        self.successResultOf(good)

    def test_full(self) -> None:
        """While too much waits to be stored nothing is asked for; then it is."""
        self.patch(intake, "WINDOW", 4)
        stuck: Deferred[None] = Deferred()
        self.stream.intake.add(5, lambda: stuck, lambda _: None)
        self.fetcher.fetch("share", self.ours, wants(3))  # type: ignore[unused-awaitable]
        self.assertEqual(self.stream.asked, [])
        stuck.callback(None)
        self.fetcher.ask_more()
        self.assertEqual(len(self.stream.asked), 1)

    def test_lost(self) -> None:
        """With the stream ends what was asked for, and what is asked for afterwards."""
        done = self.fetcher.fetch("share", self.ours, wants(3))
        self.stream.closed = True
        self.fetcher.lost()
        self.failureResultOf(done, TransportClosed)
        self.failureResultOf(self.fetcher.fetch("share", self.ours, wants(3)), TransportClosed)

    def test_not_asked(self) -> None:
        """What was given up may still come, but not for ever."""
        self.patch(fetching, "MOST_UNASKED", 3)
        pack = self.pack(self.theirs.put(b"one"))
        for _ in range(3):
            self.fetcher.data("share", pack)
        refused = self.assertRaises(Forbidden, self.fetcher.data, "share", pack)
        self.assertEqual(refused.reason, "not-asked")
        self.assertEqual(self.ours.total(), 0)
