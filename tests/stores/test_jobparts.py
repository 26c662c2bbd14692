"""
The parts of the job cache, each without a file: its streams, who hears of entries, and delivery.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.replica.entry import Entry, Stream
from saltwisted.stores.jobs.announcements import Announcements
from saltwisted.stores.jobs.book import Book
from saltwisted.stores.jobs.known import KnownJobs
from saltwisted.stores.jobs.merging import Merge
from saltwisted.stores.jobs.streams import JobStreams
from saltwisted.stores.jobs.table import DERIVED, SPAN

OURS, THEIRS = Stream("a", "1" * 16), Stream("b", "2" * 16)
BOOK = Book(0, {0: (OURS, 5, 2), 1: (THEIRS, 7, 0)}, 5, 0, 3)


class StreamsTests(SynchronousTestCase):
    """How far each stream is."""

    def setUp(self) -> None:
        """Those of a file."""
        self.streams = JobStreams()
        self.streams.load(BOOK)

    def test_loaded(self) -> None:
        """What the file says is known; where nothing was pruned there is no floor."""
        self.assertEqual(self.streams.knowledge(), {OURS: 5, THEIRS: 7})
        self.assertEqual(self.streams.floor(), {OURS: 2})
        self.assertEqual((self.streams.last, self.streams.confirmed), (5, 3))
        self.assertEqual(self.streams.range_of(THEIRS), (SPAN, 7))

    def test_new(self) -> None:
        """A stream that is new here gets the next index, once, and nothing of it is known."""
        stream = Stream("c", "3" * 16)
        names = self.streams.names

        self.assertEqual([self.streams.index_of(stream) for _ in range(2)], [2, 2])
        self.assertEqual(self.streams.names[2], stream)
        self.assertNotIn(2, names)
        self.assertIsNone(self.streams.range_of(stream))

    def test_refused(self) -> None:
        """What the disk did not take may come again; what came meanwhile stays."""
        self.streams.taken[THEIRS] = 9
        self.streams.merged({1: 8})
        self.assertEqual((self.streams.known[THEIRS], self.streams.taken[THEIRS]), (8, 9))
        self.streams.refused()
        self.assertEqual(self.streams.taken[THEIRS], 8)


class AnnouncementsTests(SynchronousTestCase):
    """Who hears of entries, and when."""

    def setUp(self) -> None:
        """Those of two streams, collected for a second."""
        self.time, self.told, self.stored = Clock(), [], []
        self.streams = JobStreams()
        self.streams.load(BOOK)
        timer: Any = self
        self.announcements = Announcements(timer, self.streams, 1.0)
        self.announcements.on_entries(
            lambda entries, source: self.told.append([entry.number for entry in entries])
        )
        self.announcements.on_stored(
            lambda entries, source: self.stored.append([entry.number for entry in entries])
        )

    def clock(self) -> float:
        """Of the reactor."""
        return self.time.seconds()

    def later(self, delay: float, function: Callable[[], None]) -> Any:
        """By the reactor."""
        return self.time.callLater(delay, function)

    def add(self, number: int) -> None:
        """An own entry is on disk."""
        self.announcements.appended([Entry(OURS, number, 0, "return", b"")])

    def test_collected(self) -> None:
        """The first goes at once, those after it together; it is known to others only then."""
        for number in (6, 7, 8):
            self.add(number)
        self.assertEqual((self.stored, self.told), ([[6], [7], [8]], [[6]]))
        self.assertEqual((self.streams.last, self.announcements.stored_number), (6, 8))

        self.time.advance(1.0)

        self.assertEqual((self.told, self.streams.last), ([[6], [7, 8]], 8))

    def test_stop(self) -> None:
        """Nothing is told after the end, and no timer is left."""
        self.add(6)
        self.add(7)
        self.announcements.stop()
        self.assertEqual(self.time.getDelayedCalls(), [])
        self.assertEqual(self.told, [[6]])

    def test_one_fails(self) -> None:
        """Whoever fails keeps nobody else from hearing."""
        self.announcements._receivers.insert(0, lambda entries, source: 1 / 0)
        entry = Entry(THEIRS, 8, 0, "return", b"")
        self.announcements.merged(Merge(0, entries=[entry], source="b"), [True])
        self.assertEqual(self.told, [[8]])
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)


class KnownTests(SynchronousTestCase):
    """Which jobs have a record."""

    def test_ranks(self) -> None:
        """A record made of a return is none that was published, and does not replace one."""
        known = KnownJobs()
        known.add("1", DERIVED)
        self.assertTrue("1" in known and not known.is_published("1"))
        known.add("1")
        known.add("1", DERIVED)
        self.assertTrue(known.is_published("1"))
        known.forget()
        self.assertNotIn("1", known)
