"""Directories that are built aside, many files at once, and what is remembered of them later."""

from __future__ import annotations

import os
import time
from shutil import copytree, rmtree
from tempfile import mkdtemp
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.roots.entry import DIR, FILE, Batch, ReplicaId, TreeEntry
from saltwisted.domain.roots.guards import Limits
from saltwisted.stores.roots import displaced, treewrite
from saltwisted.stores.roots.knowntree import Known
from saltwisted.stores.roots.store import RootStore
from saltwisted.stores.roots.worktree import WorkTree

MTIME = 1_700_000_000 * 10**9
COUNT = 40


class TreeCase(SynchronousTestCase):
    """A store, and a tree that is written from it."""

    def setUp(self) -> None:
        """Empty ones."""
        self.folder = mkdtemp(prefix="sites-")
        self.addCleanup(rmtree, self.folder, True)
        self.store = self.open()
        self.root = f"{self.folder}/tree"
        # All that is young is looked at again: this clock makes everything old
        self.tree = WorkTree(self.root, "s", Limits(), lambda: time.time_ns() + 10**9)
        self.addCleanup(self.tree.close)
        self.assertEqual(self.tree.open(None), "")

    def open(self) -> RootStore:
        """The store, as it is on the disk."""
        store = RootStore(f"{self.folder}/store", "a", os.urandom, time.time)
        self.addCleanup(store.close)
        return store

    def entries(self, top: str, here: int = COUNT) -> dict[bytes, TreeEntry]:
        """A directory with files in it and below; the contents of the first are in the store."""
        found = {os.fsencode(p): TreeEntry(DIR, 0o755) for p in (top, f"{top}/sub", f"{top}/empty")}
        for number in range(COUNT):
            data = b"content %d of %s" % (number, top.encode())
            digest = self.store.objects.put(data)
            if number >= here:
                self.store.objects.forget([digest])
            path = f"{top}/sub/{number}" if number % 2 else f"{top}/{number}"
            found[os.fsencode(path)] = TreeEntry(FILE, 0o640, len(data), MTIME, digest)
        return found

    def listed(self) -> set[str]:
        """What is in the root, hidden things too."""
        return set(os.listdir(self.root)) - {".saltwisted-root"}

    def check(self, entries: dict[bytes, TreeEntry]) -> None:
        """All of it is there, as it should be."""
        for path, entry in entries.items():
            full = os.path.join(os.fsencode(self.root), path)
            info = os.lstat(full)
            self.assertEqual(info.st_mode & 0o777, entry.mode, path)
            if entry.kind == FILE:
                self.assertEqual(info.st_mtime_ns, entry.mtime)
                with open(full, "rb") as file:
                    self.assertEqual(file.read(), self.store.objects.read(entry.content))

    def write(self, entries: Any) -> displaced.Written:
        """Write to the tree, and remember."""
        done = self.tree.writer.write(entries, self.store.tree.known, self.store.objects)
        self.store.tree.remember(done.known, done.moved)
        return done


class PrepareTests(TreeCase):
    """What is made before a batch is complete."""

    def batch(self, entries: dict[bytes, TreeEntry]) -> Batch:
        """As a peer would send it."""
        replica = ReplicaId("b", b"12345670")
        return Batch(
            replica=replica, lo=1, stamp=1, deps={}, entries=tuple(sorted(entries.items()))
        )

    def prepare(self, entries: dict[bytes, TreeEntry]) -> None:
        """Make what can be made."""
        self.tree.writer.prepare(self.batch(entries), self.store.tree.known, self.store.objects)

    def made(self) -> int:
        """How many files are in hidden directories."""
        return sum(
            len(names)
            for top in self.listed()
            if top.startswith(".")
            for _, _, names in os.walk(f"{self.root}/{top}")
        )

    def test_contents_arrive_one_by_one(self) -> None:
        """Nothing shows before it is written; what is here is made once."""
        entries = self.entries("top", here=10)
        self.prepare(entries)
        self.assertEqual(self.made(), 10)
        self.assertFalse(os.path.exists(f"{self.root}/top"))
        self.assertEqual(self.tree.reader.scan({}, self.store.objects).changed, {})
        entries = self.entries("top", here=30)
        self.prepare(entries)
        self.assertEqual(self.made(), 30)
        inodes = {
            os.stat(f"{folder}/{name}").st_ino
            for folder, _, names in os.walk(self.root)
            for name in names
        }
        entries = self.entries("top")
        done = self.write(entries)
        self.assertEqual(self.listed(), {"top"})
        self.check(entries)
        self.assertEqual(done.known.keys(), entries.keys())
        after = {known.identity.inode for known in done.known.values() if known and known.identity}
        self.assertLessEqual(inodes - after, {os.stat(f"{self.root}/.saltwisted-root").st_ino})
        # What is remembered is what is there
        self.assertEqual(
            self.tree.reader.scan(self.store.tree.known, self.store.objects).changed, {}
        )

    def test_dropped(self) -> None:
        """A batch that never becomes complete leaves nothing."""
        self.prepare(self.entries("top", here=10))
        self.assertNotEqual(self.listed(), set())
        self.tree.writer.drop_prepared()
        self.assertEqual(self.listed(), set())

    def test_another_is_written(self) -> None:
        """What is wanted in the end differs from what was prepared."""
        entries = self.entries("top")
        self.prepare(entries)
        del entries[b"top/0"]
        entries[b"top/more"] = entries[b"top/2"]
        self.write(entries)
        self.assertEqual(self.listed(), {"top"})
        self.assertFalse(os.path.exists(f"{self.root}/top/0"))
        self.check(entries)

    def test_somebody_makes_the_directory(self) -> None:
        """Nothing of a user's directory is lost."""
        entries = self.entries("top")
        self.prepare(entries)
        os.mkdir(f"{self.root}/top")
        with open(f"{self.root}/top/2", "w") as file:
            file.write("mine")
        done = self.write(entries)
        self.assertEqual(done.again, {b"top/2"})
        with open(f"{self.root}/top/2") as file:
            self.assertEqual(file.read(), "mine")
        self.tree.writer.drop_prepared()
        self.assertEqual(self.listed(), {"top"})

    def test_another_root(self) -> None:
        """Nothing is written to a directory that has come in place of the root."""
        entries = self.entries("top")
        os.rename(self.root, f"{self.folder}/away")
        os.mkdir(self.root)
        self.prepare(entries)
        self.assertEqual(os.listdir(self.root), [])


class FailedLookTests(TreeCase):
    """A look, or a write, that comes to nothing."""

    def test_nothing_is_being_done(self) -> None:
        """Who asks how far it is hears nothing of it any more."""

        def refuse(*args: Any) -> Any:
            self.assertNotEqual(self.tree.progress.doing, "")
            raise OSError(5, "broken")

        self.patch(self.tree.fs, "list", refuse)
        self.assertRaises(OSError, self.tree.reader.scan, {}, self.store.objects)
        self.assertEqual(self.tree.progress.doing, "")
        self.patch(self.tree.fs, "sync", refuse)
        self.assertRaises(OSError, self.write, self.entries("top"))
        self.assertEqual(self.tree.progress.doing, "")


class LeftOverTests(TreeCase):
    """Hidden names that nothing is behind any more."""

    def test_copied_while_written(self) -> None:
        """Who copies or moves a directory in which a file is being written takes its half along."""
        self.write(self.entries("top"))
        seen: list[str] = []
        real = treewrite.make

        def make(fs: Any, path: bytes, *args: Any) -> Any:
            info = real(fs, path, *args)
            copytree(f"{self.root}/top", f"{self.root}/copy")
            seen.extend(name for name in os.listdir(f"{self.root}/copy") if name.startswith("."))
            return info

        self.patch(treewrite, "make", make)
        digest = self.store.objects.put(b"other")
        self.write({b"top/2": TreeEntry(FILE, 0o640, 5, MTIME, digest)})
        self.assertEqual(len(seen), 1)
        self.tree.reader.scan(self.store.tree.known, self.store.objects)
        self.assertEqual([n for n in os.listdir(f"{self.root}/copy") if n.startswith(".")], [])


class ManyTests(TreeCase):
    """Shorter ways for many files: nothing is lost on them."""

    def test_removed_at_once(self) -> None:
        """What was changed since it was known stays; the rest is gone."""
        entries = self.entries("top")
        self.write(entries)
        with open(f"{self.root}/top/4", "w") as file:
            file.write("an edit that nobody knows of")
        gone = [path for path, entry in entries.items() if entry.kind == FILE]
        done = self.write(dict.fromkeys(gone))
        self.assertEqual(done.again, {b"top/4"})
        self.assertEqual(os.listdir(f"{self.root}/top/sub"), [])
        self.assertEqual(set(os.listdir(f"{self.root}/top")), {"4", "sub", "empty"})

    def test_edited_while_removed(self) -> None:
        """Who replaces a file between the look and the removal finds it as a version."""
        entries = self.entries("top")
        self.write(entries)
        real, edited = os.rename, []

        def rename(name: bytes, *args: Any, **more: Any) -> None:
            if name == b"4" and not edited:
                edited.append(name)
                with open(f"{self.root}/top/new", "w") as file:
                    file.write("an edit")
                real(f"{self.root}/top/new", f"{self.root}/top/4")
            real(name, *args, **more)

        self.patch(treewrite.os, "rename", rename)
        gone = [path for path, entry in entries.items() if entry.kind == FILE]
        done = self.write(dict.fromkeys(gone))
        self.assertEqual(edited, [b"4"])
        self.assertEqual(list(done.edits), [b"top/4"])
        known = done.edits[b"top/4"]
        self.assertEqual(self.store.objects.read(known.entry.content), b"an edit")

    def test_changed_while_read(self) -> None:
        """A new file that changes under the reader is looked at again."""
        for number in range(COUNT):
            os.makedirs(f"{self.root}/top", exist_ok=True)
            with open(f"{self.root}/top/{number}", "w") as file:
                file.write(f"content {number}")
        real = os.read

        def read(fd: int, size: int) -> bytes:
            data = real(fd, size)
            if data == b"content 7":
                with open(f"{self.root}/top/7", "a") as file:
                    file.write("!")
            return data

        self.patch(treewrite.os, "read", read)
        seen = self.tree.reader.scan({}, self.store.objects)
        self.assertEqual(len(seen.changed) + len(seen.again), COUNT + 1)
        known = seen.changed.get(b"top/7")
        if known is not None:
            self.assertEqual(self.store.objects.read(known.entry.content), b"content 7!")
        for path, one in seen.changed.items():
            if one is not None and one.entry.kind == FILE:
                with open(f"{self.root}/{path.decode()}", "rb") as file:
                    self.assertEqual(self.store.objects.read(one.entry.content), file.read())

    def test_young(self) -> None:
        """What is too young to be sure of is looked at again."""
        self.tree = WorkTree(self.root, "s", Limits(), time.time_ns)
        self.addCleanup(self.tree.close)
        self.tree.open((os.stat(self.root).st_dev, os.stat(self.root).st_ino))
        with open(f"{self.root}/a", "w") as file:
            file.write("a")
        seen = self.tree.reader.scan({}, self.store.objects)
        self.assertEqual(seen.young, {b"a"})
        known = seen.changed[b"a"]
        assert known is not None
        self.assertIsNone(known.identity)


class MarkerTests(TreeCase):
    """The file that says which root a directory is."""

    def remembered(self) -> tuple[int, int]:
        """The directory as it was found the last time."""
        info = os.stat(self.root)
        return info.st_dev, info.st_ino

    def test_read_only(self) -> None:
        """A root that the service may only read has no marker, and is trusted at every start."""
        marker = f"{self.root}/.saltwisted-root"
        self.assertEqual(self.tree.open(self.remembered()), "")
        os.unlink(marker)
        self.assertIn("is missing", self.tree.open(self.remembered()))
        self.patch(self.tree, "is_writable", lambda: False)

        self.assertEqual(self.tree.open(self.remembered()), "")
        self.assertEqual(self.tree.check(), "")
        device, inode = self.remembered()
        self.assertIn("not the directory", self.tree.open((device, inode + 1)))

    def test_mounted_again(self) -> None:
        """A root whose disk was mounted again under another number is the same root."""
        self.assertEqual(self.tree.open(self.remembered()), "")
        kept = self.tree.root_identity
        real = os.fstat

        def renumbered(fd: int) -> os.stat_result:
            fields = list(real(fd))
            fields[2] += 7  # the device
            return os.stat_result(fields)

        self.patch(os, "fstat", renumbered)
        self.assertEqual(self.tree.open(kept), "")
        self.patch(self.tree, "is_writable", lambda: False)
        self.assertIn("not the directory", self.tree.open((kept[0] + 1, kept[1])))

    def test_other(self) -> None:
        """The marker of another share is named, at the start and later."""
        with open(f"{self.root}/.saltwisted-root", "w") as file:
            file.write("t\n")
        for problem in (self.tree.open(self.remembered()), self.tree.open(None), self.tree.check()):
            self.assertIn("is the root of t", problem)


class BehindTests(TreeCase):
    """What is known of the tree, written after a large change."""

    def test_behind(self) -> None:
        """In memory at once, on the disk with the rows; in the order of the changes."""
        entries = {
            **self.entries("top"),
            **{b"n%d" % n: TreeEntry(DIR, 0o755) for n in range(2 * treewrite.MANY + 200)},
        }
        self.store.commit(entries)
        self.assertTrue(self.store.unwritten)
        self.write(entries)
        known = dict(self.store.tree.known)
        self.assertEqual(known.keys(), entries.keys())
        self.assertEqual(self.open().tree.known, {})
        moved: dict[bytes, Known | None] = {}
        for path, one in known.items():
            if path.startswith(b"top/") or path == b"top":
                moved[path] = None
                moved[b"other" + path[3:]] = one
        self.store.tree.remember(moved, [(b"top", b"other")])
        self.store.tree.remember({b"n1": None})
        expected = dict(self.store.tree.known)
        self.assertNotIn(b"n1", expected)
        self.assertIn(b"other/sub/1", expected)
        # The power goes: what was not written is found by looking
        self.assertEqual(self.open().tree.known, {})
        self.store.write_behind()
        self.assertEqual(self.open().tree.known, expected)

    def test_small_change_follows(self) -> None:
        """A small change that is written at once brings with it what was left to be written."""
        entries = {b"n%d" % n: TreeEntry(DIR, 0o755) for n in range(300)}
        self.store.commit(entries)
        self.write(entries)
        self.store.write_behind()
        self.assertFalse(self.store.unwritten)
        self.write({b"n5": None})
        self.assertNotIn(b"n5", self.open().tree.known)
