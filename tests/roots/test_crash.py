"""
The store killed before every write, fsync, rename and commit, and what was not synced lost.

After each the store opens again, serves a whole generation (the one before or the one
after), has every content of it, and takes the rest of the story.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.roots import codec
from saltwisted.domain.roots.entry import DIR, FILE, GONE, Batch, TreeEntry
from saltwisted.domain.roots.index import NotYet
from saltwisted.stores.roots import objects
from saltwisted.stores.roots.housekeeping import clean
from saltwisted.stores.roots.knowntree import Known
from saltwisted.stores.roots.store import RootStore
from saltwisted.stores.roots.treefs import Identity


class Crash(BaseException):
    """The power went."""


class Faults:
    """Counts the acts of a store, and ends it before the n-th; loses what was not synced."""

    def __init__(self, at: int = -1) -> None:
        self.at = at
        self.count = 0
        self.names: list[str] = []

    def __call__(self, what: str) -> None:
        self.names.append(what)
        self.count += 1
        if self.count == self.at:
            raise Crash(what)


class CrashTests(SynchronousTestCase):
    """One writer, one receiver, every act of both."""

    def setUp(self) -> None:
        """A folder, and knowledge of what is durable."""
        self.folder = tempfile.mkdtemp(prefix="crash-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.synced: dict[str, int] = {}
        real = os.fdatasync

        def fdatasync(fd: int) -> None:
            real(fd)
            self.synced[os.readlink(f"/proc/self/fd/{fd}")] = os.fstat(fd).st_size

        self.patch(objects.os, "fdatasync", fdatasync)
        self.large = os.urandom(200_000)

    def open(self, name: str, faults: Faults) -> RootStore:
        """A store in a folder of its own."""
        store = RootStore(f"{self.folder}/{name}", name, os.urandom, lambda: 1000.0, step=faults)
        self.addCleanup(store.close)
        return store

    def story(self, store: RootStore, batches: list[Batch], source: RootStore | None) -> None:
        """What a node does: its own edits, or another's batches."""
        if source is not None:
            for batch in batches:
                for _, entry in batch.entries:
                    if entry.kind == FILE and not store.objects.has(entry.content):
                        store.objects.put(source.objects.read(entry.content))
                try:
                    outcome = store.apply(batch)
                except NotYet:
                    continue
                if outcome is not None:
                    identity = Identity(0, 0, 0, 0, 0, 0)
                    store.tree.remember(
                        {
                            p: Known(e, identity) if e else None
                            for p, (_, e) in outcome.shown.items()
                        }
                    )
            return
        for number, contents in enumerate(
            (
                {b"a": b"one", b"d/x": b"x"},
                {b"a": b"two", b"large": self.large},
                {b"d/x": b"", b"b": b"new"},
                {b"a": b"three"},
            )
        ):
            wanted: dict[bytes, TreeEntry] = {b"d": TreeEntry(DIR, 0o755)}
            for path, data in contents.items():
                if data:
                    wanted[path] = TreeEntry(
                        FILE, 0o644, len(data), number, store.objects.put(data)
                    )
                else:
                    wanted[path] = GONE
            made = store.commit(wanted)
            if made is not None:
                batches.append(made[0])

    def lose(self, store: RootStore) -> None:
        """The process ends; what was written and not synced is gone."""
        store.close()
        packs = f"{store.folder}/packs"
        for name in os.listdir(packs):
            path = f"{packs}/{name}"
            os.truncate(path, min(os.path.getsize(path), self.synced.get(path, 0)))

    def check(self, store: RootStore, allowed: set[str]) -> None:
        """A whole generation, with all its contents."""
        self.assertIn(store.generation.name, allowed)
        for path, entry in store.generation.walk():
            if entry.kind == FILE:
                data = store.objects.read(entry.content)
                self.assertEqual(hashlib.sha256(data).digest(), entry.content, path)
        self.assertEqual(store.objects.check(), [])

    def test_every_act(self) -> None:
        """Crash before each act of the writer and of the receiver."""
        faults = Faults()
        batches: list[Batch] = []
        whole = self.open("whole", faults)
        names = {whole.generation.name}
        self.story(whole, batches, None)
        names |= {one.digest.hex()[:12] for one in whole.history.newest()}
        acts = faults.count
        self.assertGreater(acts, 12)
        self.assertEqual(
            set(faults.names) - {"dir-fsync"},
            {
                "pack-create",
                "pack-write",
                "pack-fsync",
                "commit",
                "object-write",
                "object-fsync",
                "object-rename",
            },
        )
        end = whole.generation.name
        for at in range(1, acts + 1):
            for role in ("writer", "receiver"):
                name = f"{role}{at}"
                source = whole if role == "receiver" else None
                try:
                    store = self.open(name, Faults(at))
                except Crash:
                    continue
                try:
                    self.story(store, [] if source is None else batches, source)
                except Crash:
                    self.lose(store)
                    store = self.open(name, Faults())
                self.check(store, names)
                self.story(store, [] if source is None else batches, source)
                self.check(store, {end})
                if source is not None:
                    # What was committed and not written to the tree is known to be pending
                    late = store.tree.pending(store.generation)
                    store.tree.remember({p: Known(e, None) if e else None for p, e in late.items()})
                    self.assertEqual(store.tree.pending(store.generation), {})
                    self.assertEqual(
                        {path: known.entry for path, known in store.tree.known.items()},
                        dict(store.generation.walk()),
                    )
                store.close()

    def test_full_disk(self) -> None:
        """A disk that refuses changes nothing in memory either; later it goes on."""
        store = self.open("full", Faults())
        self.story(store, [], None)
        before = store.generation
        store.database._db.execute("PRAGMA max_page_count=1")
        content = store.objects.put(b"more")
        # Names that no compression makes small: there must not be room for them
        names = [os.urandom(16).hex().encode() for _ in range(3000)]
        many = {name: TreeEntry(FILE, 0o644, 4, 1, content) for name in names}

        from saltwisted.errors import StoreError

        self.assertRaises(StoreError, store.commit, many)
        self.assertEqual(store.generation.digest, before.digest)
        store.database._db.execute("PRAGMA max_page_count=1000000")
        content = store.objects.put(b"more")
        self.assertIsNotNone(store.commit(many))

    def test_rows_behind(self) -> None:
        """Rows that only the log had are there again, with what was written over them since."""
        store = self.open("behind", Faults())
        entry = TreeEntry(FILE, 0o644, 4, 1, store.objects.put(b"many"))
        store.commit({b"d/f%d" % n: entry for n in range(300)})
        self.assertTrue(store.unwritten)
        store.commit({b"d/f7": GONE, b"d/f8": TreeEntry(FILE, 0o600, 4, 1, entry.content)})
        foreign = self.open("foreign", Faults())
        foreign.objects.put(b"many")
        for replica, lo in store.batches.missing_for({}) or []:
            body = store.batches.body(replica, lo)
            assert body is not None
            foreign.apply(codec.unpack_batch(body, foreign.limits)[0])
        lost = dict(store.index.rows)
        store.close()

        again = self.open("behind", Faults())

        self.assertEqual(again.index.rows, lost)
        again.write_behind()
        self.assertEqual(again.rows.all(), lost)
        self.assertEqual(again.generation.digest, store.generation.digest)
        self.assertEqual(again.index.knowledge, store.index.knowledge)
        self.assertEqual(again.generation.digest, foreign.generation.digest)
        foreign.write_behind()
        self.assertEqual(foreign.rows.all(), lost)

    def test_copied_index(self) -> None:
        """An index file that was copied back goes on under a new incarnation."""
        store = self.open("copied", Faults())
        self.story(store, [], None)
        old = store.index.main
        store.close()
        path = f"{self.folder}/copied/index.sqlite"
        shutil.copy(path, path + ".copy")
        os.rename(path + ".copy", path)

        again = self.open("copied", Faults())

        self.assertNotEqual(again.index.main, old)
        self.assertEqual(again.generation.digest, store.generation.digest)

    def test_adopted_are_apart(self) -> None:
        """A file that was kept when a tree was adopted hides no version that loses later."""
        store = self.open("adopted", Faults())
        entry = TreeEntry(FILE, 0o644, 3, 1, store.objects.put(b"own"))
        store.keep_adopted([(b"a", entry)])
        first = TreeEntry(FILE, 0o644, 3, 1, store.objects.put(b"one"))
        store.commit({b"a": first})
        other = self.open("other", Faults())
        other.now = lambda: 2000.0
        later = TreeEntry(FILE, 0o644, 5, 1, other.objects.put(b"later"))
        made = other.commit({b"a": later})
        assert made is not None
        store.objects.put(b"later")
        store.apply(made[0])
        self.assertEqual(store.generation.get(b"a"), later)
        kept = {version.entry.content for _, version, _, _ in store.conflicts.all()}
        self.assertEqual(kept, {entry.content, first.content})

    def test_history(self) -> None:
        """Earlier generations are found by name and rebuilt; housekeeping keeps what is needed."""
        store = self.open("history", Faults())
        batches: list[Batch] = []
        self.story(store, batches, None)
        history = store.history.newest()
        first = store.history.manifest(history[-1].number)
        self.assertEqual(sorted(first), [b"a", b"d", b"d/x"])
        wanted = store.history.way_back(history[-1].number)

        store.commit(wanted, approved="root", note="rollback")

        self.assertEqual(store.generation.digest, history[-1].digest)
        self.assertEqual(
            store.history.find(history[-1].digest.hex()[:8]).digest, history[-1].digest
        )
        store.now = lambda: 1000.0 + 40 * 86400
        clean(store, [])
        store.now = lambda: 1000.0 + 80 * 86400
        removed = clean(store, [])
        self.assertGreater(removed, 0)
        self.check(store, {store.generation.name})
        self.assertNotIn(b"b", store.index.rows)
