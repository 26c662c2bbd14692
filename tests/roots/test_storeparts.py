"""The parts of a share's store, each by itself on a database."""

from __future__ import annotations

import os

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.roots import codec
from saltwisted.domain.roots.entry import FILE, GONE, Batch, ReplicaId, TreeEntry
from saltwisted.domain.roots.guards import Limits
from saltwisted.domain.roots.index import Index
from saltwisted.stores.roots.batchlog import BatchLog
from saltwisted.stores.roots.confirmed import Confirmed
from saltwisted.stores.roots.index import IndexDatabase
from saltwisted.stores.roots.indexrows import IndexRows
from saltwisted.stores.roots.knowntree import Known, KnownTree
from saltwisted.stores.roots.unwritten import UnwrittenRows

A, B = ReplicaId("a", b"1" * 8), ReplicaId("b", b"2" * 8)


def entry(content: bytes) -> TreeEntry:
    """A file."""
    return TreeEntry(FILE, 0o644, len(content), 1, content.ljust(32, b"."))


def known(content: bytes) -> Known:
    """A file in the tree."""
    return Known(entry(content), None)


class PartsCase(SynchronousTestCase):
    """A database in a folder of its own."""

    def setUp(self) -> None:
        self.folder = self.mktemp()
        os.makedirs(self.folder)
        self.database = self.open()

    def open(self) -> IndexDatabase:
        """As a process that starts."""
        database = IndexDatabase(f"{self.folder}/index.sqlite")
        self.addCleanup(database.close)
        return database


class BatchLogTests(PartsCase):
    """What is kept for peers."""

    def add(self, log: BatchLog, replica: ReplicaId, lo: int, at: float = 0.0) -> Batch:
        """A batch of one file is committed."""
        batch = Batch(
            replica=replica,
            lo=lo,
            stamp=0,
            deps={replica: lo - 1},
            entries=((b"f%d" % lo, entry(b"data")),),
        )
        with self.database.transaction():
            log.put(batch, at, b"", None)
        log.added(batch)
        return batch

    def test_missing(self) -> None:
        """A peer is told what it lacks, in the order in which it came; also after a start."""
        log = BatchLog(self.database)
        for replica, lo in ((A, 1), (B, 1), (A, 2)):
            self.add(log, replica, lo)
        for each in (log, BatchLog(self.open())):
            self.assertEqual(each.missing_for({}), [(A, 1), (B, 1), (A, 2)])
            self.assertEqual(each.missing_for({A: 1}), [(B, 1), (A, 2)])
            self.assertEqual(each.missing_for({A: 2, B: 1}), [])
            self.assertEqual(each.next_number, 4)

    def test_last_packed(self) -> None:
        """The batch that was added last is at hand as it travels."""
        log = BatchLog(self.database)
        batch = self.add(log, A, 1)
        assert log.last_packed is not None
        name, body = log.last_packed
        self.assertEqual(name, batch.name)
        self.assertEqual(codec.unpack_batch(body, Limits())[0].entries, batch.entries)
        self.assertEqual(log.body(A, 1), body)

    def test_floor(self) -> None:
        """Who knows less than where the log begins needs the whole state."""
        log = BatchLog(self.database)
        self.add(log, A, 1, at=10)
        self.add(log, A, 2, at=20)
        with self.database.transaction():
            log.drop_old(15)
        log.reload()
        for each in (log, BatchLog(self.open())):
            self.assertIsNone(each.missing_for({}))
            self.assertEqual(each.missing_for({A: 1}), [(A, 2)])
        log.raise_floor({A: 2}, {A: 2, B: 7})
        self.assertIsNone(log.missing_for({A: 1, B: 6}))
        self.assertEqual(log.missing_for({A: 1, B: 7}), [(A, 2)])


class KnownTreeTests(PartsCase):
    """What is known of the working tree."""

    def setUp(self) -> None:
        super().setUp()
        self.waits = False
        self.tree = KnownTree(self.database, lambda: self.waits)

    def written(self) -> list[bytes]:
        """The paths that are known on the disk."""
        return sorted(KnownTree(self.database, lambda: False).known)

    def test_waits(self) -> None:
        """What may wait is known at once, and written with what comes next."""
        self.tree.remember({b"a": known(b"a"), b"b": known(b"b")})
        self.waits = True
        self.tree.remember({b"a": None, b"c": known(b"c")})
        self.assertEqual(sorted(self.tree.known), [b"b", b"c"])
        self.assertEqual(self.written(), [b"a", b"b"])
        with self.database.transaction():
            self.tree.put({b"d": known(b"d")})
        self.tree.written()
        self.assertEqual(self.written(), [b"b", b"c", b"d"])

    def test_pending(self) -> None:
        """What is to be written, and removed, for the tree to be as a generation says."""
        index = Index(A)
        index.commit({b"d/same": entry(b"s"), b"d/new": entry(b"n"), b"d/old": entry(b"2")}, 1)
        generation = index.generation()
        self.tree.remember(
            {path: Known(one, None) for path, one in generation.walk() if path != b"d/new"}
        )
        self.tree.remember({b"d/old": known(b"1"), b"gone": known(b"g")})
        self.assertEqual(
            self.tree.pending(generation),
            {b"d/new": entry(b"n"), b"d/old": entry(b"2"), b"gone": None},
        )


class UnwrittenRowsTests(PartsCase):
    """Rows that the log alone has."""

    def test_later(self) -> None:
        """They are written with the next, as the index has them then; then the mark is gone."""
        index, stored = Index(A), IndexRows(self.database)
        rows = UnwrittenRows(self.database, stored)
        index.commit({b"a": entry(b"1"), b"b": entry(b"1")}, 1)
        with self.database.transaction():
            rows.begin(5)
        rows.add({b"a", b"b"}, {b"a", b"b"})
        self.assertTrue(rows)
        self.assertEqual(self.database.get("behind"), 5)
        index.commit({b"a": entry(b"2"), b"c": entry(b"1")}, 2)
        with self.database.transaction():
            rows.begin(6)
        self.assertEqual(self.database.get("behind"), 5)
        with self.database.transaction():
            rows.put(index, {b"a", b"c"}, {b"c"})
        rows.written()
        self.assertFalse(rows)
        self.assertEqual(self.database.get("behind"), 0)
        self.assertEqual(stored.all(), index.rows)


class ConfirmedTests(PartsCase):
    """What peers know."""

    def test_grows(self) -> None:
        """What a peer has once confirmed stays confirmed, in a later life, too."""
        for _ in range(2):
            confirmed = Confirmed(self.open())
            confirmed.reload()
            confirmed.add("b", {A: 3})
            confirmed.add("b", {A: 2, B: 1})
            confirmed.add("c", {A: 5})
            self.assertEqual(confirmed.peers, {"b": {A: 3, B: 1}, "c": {A: 5}})
            self.assertEqual(confirmed.all(), {A: 5, B: 1})


class OldCopyTests(SynchronousTestCase):
    """An index that was copied back."""

    def test_old_copy(self) -> None:
        """A peer that knows changes of ours that we have not made tells it; others' do not."""
        index = Index(A)
        index.commit({b"a": entry(b"1"), b"b": GONE}, 1)
        self.assertFalse(index.is_old_copy({A: 1, B: 9}))
        self.assertTrue(index.is_old_copy({A: 2}))
