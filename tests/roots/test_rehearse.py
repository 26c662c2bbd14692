"""A large batch is worked out on a copy of the index, before all of its contents are here."""

from __future__ import annotations

import os
import shutil
import tempfile

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.roots.entry import DIR, FILE, GONE, Batch, TreeEntry
from saltwisted.domain.roots.index import Index
from saltwisted.errors import StoreError
from saltwisted.stores.roots.store import RootStore


class RehearsalTests(SynchronousTestCase):
    """Two masters' stores."""

    def setUp(self) -> None:
        """Both empty, and a batch of one of them."""
        self.folder = tempfile.mkdtemp(prefix="rehearse-")
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.now = 1_800_000_000.0
        self.a, self.b = self.open("a"), self.open("b")
        made = self.a.commit(
            {
                b"d%d" % (n // 50): TreeEntry(DIR, 0o755) for n in range(300)
            } | {
                b"d%d/%d" % (n // 50, n): self.entry(self.a, b"%d" % n) for n in range(300)
            }
        )  # fmt: skip
        assert made is not None
        self.batch: Batch = made[0]
        for number in range(300):
            self.b.objects.put(b"%d" % number)

    def open(self, name: str) -> RootStore:
        """A store, as it is on the disk."""
        store = RootStore(f"{self.folder}/{name}", name, os.urandom, lambda: self.now)
        self.addCleanup(store.close)
        return store

    def entry(self, store: RootStore, data: bytes) -> TreeEntry:
        """A file with this content."""
        return TreeEntry(FILE, 0o644, len(data), 10**18, store.objects.put(data))

    def check(self, extra: frozenset[bytes] = frozenset()) -> None:
        """The tree is there, also after a restart, and the way back from it."""
        for store in (self.b, self.open("b")):
            there = dict(store.generation.walk())
            self.assertEqual(there.keys() - extra, dict(self.batch.entries).keys())
            fresh = Index(store.index.main, store.index.bulk)
            fresh.load(store.index.rows, store.index.knowledge)
            self.assertEqual(fresh.generation().digest, store.generation.digest)
            self.assertEqual(fresh.generation().counts(), store.generation.counts())
            self.assertEqual(store.knowledge[self.batch.replica], self.batch.hi)
            back = store.history.way_back(store.generation.number - 1)
            self.assertEqual(back.keys(), dict(self.batch.entries).keys())
            self.assertEqual(set(back.values()), {GONE})

    def test_nothing_happens_meanwhile(self) -> None:
        """What was worked out is taken; until then nothing has changed."""
        before, digest = self.b.index, self.b.generation.digest
        self.b.rehearse(self.batch)
        self.assertEqual((dict(before.rows), before.knowledge, before.number), ({}, {}, 0))
        self.assertEqual(self.b.generation.digest, digest)
        self.now += 5

        outcome = self.b.apply(self.batch)

        assert outcome is not None
        self.assertIsNot(self.b.index, before)
        self.assertEqual(outcome.shown.keys(), dict(self.batch.entries).keys())
        self.assertEqual(self.b.generation.digest, self.a.generation.digest)
        self.assertEqual(self.b.generation.at, self.now)
        self.assertEqual(self.b.apply(self.batch), None)
        self.check()

    def test_something_happens_meanwhile(self) -> None:
        """Then it was in vain."""
        self.b.rehearse(self.batch)
        self.b.commit({b"own": self.entry(self.b, b"own")})
        before = self.b.index
        self.b.apply(self.batch)
        self.assertIs(self.b.index, before)
        self.check(frozenset([b"own"]))

    def test_deletions_are_forgotten_meanwhile(self) -> None:
        """That is not a commit, and yet a change."""
        self.b.commit({b"own": self.entry(self.b, b"own")})
        self.b.commit({b"own": GONE})
        self.b.rehearse(self.batch)
        self.assertEqual(self.b.index.purge([b"own"]), [b"own"])
        self.b.apply(self.batch)
        self.assertNotIn(b"own", self.b.index.rows)

    def test_what_is_worked_out_is_apart(self) -> None:
        """A commit after a rehearsal does not show in what was worked out, nor the other way."""
        self.b.commit({b"d0": TreeEntry(DIR, 0o755), b"d0/own": self.entry(self.b, b"own")})
        index = self.b.index
        copy = index.copy()
        copy.apply(self.batch)
        self.assertEqual(set(index.rows), {b"d0", b"d0/own"})
        self.assertEqual(dict(self.b.index.generation().walk()).keys(), {b"d0", b"d0/own"})
        index.commit({b"d0/more": self.entry(self.b, b"more")}, 5)
        self.assertIsNone(copy.visible(b"d0/more"))
        self.assertIsNotNone(copy.visible(b"d0/own"))

    def test_the_disk_refuses(self) -> None:
        """Nothing has changed, and it can be tried again."""
        self.b.rehearse(self.batch)

        def refuse(*args: object) -> None:
            raise StoreError("full")

        # The log is read again from the disk then, by another object
        self.patch(self.b.batches, "_add", refuse)
        self.assertRaises(StoreError, self.b.apply, self.batch)
        self.assertEqual(dict(self.b.index.rows), {})
        for number in range(300):
            self.b.objects.put(b"%d" % number)
        self.b.rehearse(self.batch)
        self.b.apply(self.batch)
        self.check()
