"""The kernel's events, and what is served from a generation."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.logger import globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.roots.entry import DIR, FILE, LINK, TreeEntry, lanes
from saltwisted.domain.roots.index import Index
from saltwisted.domain.roots.pins import UNUSED, Pins, reads_files
from saltwisted.errors import StoreError
from saltwisted.master.chunks import Chunks
from saltwisted.master.fileserver import FileServer
from saltwisted.stores.roots import generations as module
from saltwisted.stores.roots.generations import GenerationFile, GenerationRoots
from saltwisted.stores.roots.objects import ContentStore
from saltwisted.stores.roots.tree import Listing, list_roots
from saltwisted.transports.inotify import IS_DIR, TreeWatch
from tests.roots.nodes import NodesCase, until


class NoReactor:
    """Takes a reader and never calls it: the test reads."""

    def addReader(self, reader: Any) -> None:
        """As a reactor."""

    def removeReader(self, reader: Any) -> None:
        """As a reactor."""


class WatchTests(SynchronousTestCase):
    """The four ways in which Twisted's own reader loses events, and others."""

    def setUp(self) -> None:
        """A tree with one directory, watched."""
        self.root = tempfile.mkdtemp(prefix="watch-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.root, True)
        os.mkdir(f"{self.root}/d")
        self.seen: list[tuple[bytes, int]] = []
        self.lost = 0
        self.watch = TreeWatch(
            NoReactor(), self.root, lambda path, mask: self.seen.append((path, mask)), self._lose
        )
        self.watch.start()
        self.addCleanup(self.watch.stop)
        self.watch.add([b"", b"d"])

    def _lose(self) -> None:
        self.lost += 1

    def paths(self) -> set[bytes]:
        """What was told since the last time."""
        self.seen.clear()
        self.watch.doRead()
        return {path for path, _ in self.seen}

    def write(self, name: str) -> None:
        """Write a file."""
        with open(f"{self.root}/{name}", "w") as file:
            file.write("x")

    def test_moved_in(self) -> None:
        """A directory moved in from outside is told, and once added it is watched."""
        away = tempfile.mkdtemp(prefix="watch-", dir="/tmp")
        os.rename(away, f"{self.root}/in")
        self.assertIn(b"in", self.paths())
        self.assertTrue(any(mask & IS_DIR for _, mask in self.seen))

        self.assertEqual(self.watch.add([b"in"]), [b"in"])
        self.write("in/x")
        self.assertIn(b"in/x", self.paths())

    def test_renamed(self) -> None:
        """Events in a renamed directory carry its new path."""
        os.rename(f"{self.root}/d", f"{self.root}/e")
        self.assertEqual(self.paths() >= {b"d", b"e"}, True)
        self.watch.add([b"e"])
        self.write("e/x")
        self.assertEqual(self.paths(), {b"e/x"})

    def test_removed(self) -> None:
        """The end of one watched directory is not the end of the others."""
        os.rmdir(f"{self.root}/d")
        self.assertIn(b"d", self.paths())
        self.write("x")
        self.assertIn(b"x", self.paths())
        os.mkdir(f"{self.root}/d")
        self.paths()
        self.assertEqual(self.watch.add([b"d"]), [b"d"])

    def test_overflow(self) -> None:
        """More events than the kernel keeps: the receiver is told to look everywhere."""
        with open("/proc/sys/fs/inotify/max_queued_events") as file:
            most = int(file.read())
        path = f"{self.root}/d/x"
        for number in range(most // 2 + 10):
            # Alternately, since equal events in a row are told once
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
            os.chmod(path, 0o600 | (number & 1))
        while self.lost == 0:
            before = len(self.seen)
            self.watch.doRead()
            if len(self.seen) == before and not self.lost:
                break

        self.assertGreaterEqual(self.lost, 1)
        self.assertEqual(self.watch.overflows, self.lost)


class ServedTests(SynchronousTestCase):
    """The file server's store over a manifest."""

    def setUp(self) -> None:
        """A generation with links of all kinds."""
        self.folder = tempfile.mkdtemp(prefix="served-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.store = ContentStore(self.folder, {})
        self.addCleanup(self.store.close)
        index = Index(*lanes("m", b"12345678"))
        top = TreeEntry(FILE, 0o644, 4, 5 * 10**9, self.store.put(b"top\n"))
        tree = {
            b"top.sls": top,
            b"d": TreeEntry(DIR, 0o755),
            b"d/init.sls": TreeEntry(FILE, 0o600, 100_000, 1, self._large()),
            b"empty": TreeEntry(DIR, 0o755),
            b"in": TreeEntry(LINK, 0, 0, 0, b"d"),
            b"d/up": TreeEntry(LINK, 0, 0, 0, b"../top.sls"),
            b"loop": TreeEntry(LINK, 0, 0, 0, b"loop"),
            b"out": TreeEntry(LINK, 0, 0, 0, b"../etc/passwd"),
        }
        index.commit(tree, 1)
        self.generation = index.generation()

    def _large(self) -> bytes:
        import hashlib

        data = b"x" * 100_000
        digest = hashlib.sha256(data).digest()
        self.store.put_known(digest, data)
        return digest

    def roots(self, more: Sequence[str] = (), **changes: Any) -> GenerationRoots:
        """A store with one replicated root, and more directories."""
        options: dict[str, Any] = {
            "fileserver_followsymlinks": True,
            "fileserver_ignoresymlinks": False,
            "fileserver_list_cache_time": 20,
            "file_ignore_regex": [],
            "file_ignore_glob": [],
            "hash_type": "sha256",
            "pki_dir": "",
            "cluster_pki_dir": "",
            **changes,
        }
        return GenerationRoots(
            {"base": ["/srv/salt", *more]},
            lambda function, *args: succeed(function(*args)),
            SimpleNamespace(**options),  # type: ignore[arg-type]
            {"/srv/salt": lambda: (self.generation, self.store)},
        )

    def test_damaged(self) -> None:
        """
        A content that is not what it should be is not served and has no hash, whole or in part;
        what was served in part does not seem to end there.
        """
        roots = self.roots(hash_type="md5")
        config = SimpleNamespace(
            file_buffer_size=1000,
            file_recv=False,
            file_recv_max_size=1,
            cachedir="/nowhere",
            hash_type="md5",
        )
        files = FileServer([roots], config, maybeDeferred)
        for path, size in (("in/init.sls", 100_000), ("d/up", 4)):
            found = roots.find("base", path)
            assert isinstance(found, GenerationFile)
            good = maybeDeferred(roots.read, found, size - 2, 100)
            name, offset, _ = self.store.locate(found.entry.content)
            fd = os.open(name, os.O_WRONLY)
            os.pwrite(fd, b"!", offset + size - 1)
            os.close(fd)

            self.assertEqual(len(self.successResultOf(good)), 2)
            again = maybeDeferred(roots.read, found, size - 2, 100)
            self.failureResultOf(again, StoreError)
            self.failureResultOf(maybeDeferred(roots.hash, found), StoreError)
            place = Chunks().place()
            start = self.successResultOf(
                maybeDeferred(files.serve_file, path, "base", size - 3, None, place)
            )
            self.assertEqual(start, "")

    def test_find_and_read(self) -> None:
        """Files are found, also through links inside; never through others."""
        roots = self.roots()
        found = roots.find("base", "in/init.sls")
        assert isinstance(found, GenerationFile)
        self.assertEqual(found.rel, "in/init.sls")
        self.assertEqual(found.info.st_size, 100_000)
        self.assertEqual(found.info.st_mode & 0o777, 0o600)
        self.assertEqual(roots.hash(found), found.entry.content.hex())
        data = roots.read(found, 99_990, 100)
        if isinstance(data, Deferred):
            data = self.successResultOf(data)
        self.assertEqual(data, b"x" * 10)
        up = roots.find("base", "d/up")
        assert up is not None
        self.assertEqual(roots.read(up, 0, 100), b"top\n")
        for path in ("loop", "out", "d", "top.sls/x", "nothing", "../top.sls", "d/../top.sls"):
            self.assertIsNone(roots.find("base", path), path)
        self.assertIsNone(roots.find("dev", "top.sls"))
        self.assertIsNone(self.roots(fileserver_followsymlinks=False).find("base", "d/up"))
        self.assertIsNone(self.roots(file_ignore_glob=["*/top.sls"]).find("base", "top.sls"))

    def test_listing(self) -> None:
        """Lists come from the manifest."""
        listing = self.roots().listing("base")
        assert isinstance(listing, Listing)
        self.assertEqual(
            listing.files,
            ("d/init.sls", "d/up", "in/init.sls", "in/up", "loop", "out", "top.sls"),
        )
        self.assertEqual(listing.dirs, ("d", "empty", "in"))
        self.assertEqual(listing.empty_dirs, ("empty",))
        self.assertEqual(listing.links["in"], "d")

    def test_long_listing(self) -> None:
        """A long list is made in the pool, once for all who ask meanwhile, and is the same."""
        expected = self.roots().listing("base")
        began: list[Any] = []
        running: Deferred[Any] = Deferred()
        roots = self.roots()
        roots.run = lambda *call: began.append(call) or running  # type: ignore[func-returns-value]
        self.patch(module, "FEW", 3)
        asked: list[Any] = [roots.listing("base") for _ in range(3)]
        ((function, generations),) = began
        running.callback(function(generations))

        self.assertEqual([self.successResultOf(each) for each in asked], [expected] * 3)
        self.assertEqual(roots.listing("base"), expected)

    def test_long_listing_beside(self) -> None:
        """A root that is served from its directory is beside it in the list, however it comes."""
        top = self.mktemp()
        os.makedirs(top)
        Path(f"{top}/beside").touch()
        self.patch(module, "FEW", 3)
        roots = self.roots([top])
        for _ in range(2):
            listed: Any = maybeDeferred(roots.listing, "base")
            files = self.successResultOf(listed).files
            self.assertEqual(files, tuple(sorted(files)))
            self.assertLessEqual({"beside", "top.sls"}, {*files})

    def tangle(self, links: dict[str, str]) -> None:
        """Serve C{a/x}, C{b/y}, an empty directory, and these links."""
        index = Index(*lanes("m", b"12345678"))
        text = TreeEntry(FILE, 0o644, 4, 5 * 10**9, self.store.put(b"top\n"))
        tree = {
            b"a": TreeEntry(DIR, 0o755),
            b"a/x": text,
            b"b": TreeEntry(DIR, 0o755),
            b"b/y": text,
            b"none": TreeEntry(DIR, 0o755),
        }
        for name, target in links.items():
            tree[name.encode()] = TreeEntry(LINK, 0, 0, 0, target.encode())
        index.commit(tree, 1)
        self.generation = index.generation()

    def test_listed_as_the_directory_is(self) -> None:
        """A generation lists what the same directory lists on a lone master, by every way."""
        links = {
            "second": "a",
            "third": "a/../a",
            "a/round": "../b",
            "b/round": "../a",
            "b/self": ".",
            "whole": ".",
            "nothing": "none",
            "broken": "gone",
            "file": "a/x",
        }
        self.tangle(links)
        top = self.mktemp()
        for name in ("a", "b", "none"):
            os.makedirs(f"{top}/{name}")
        for name in ("a/x", "b/y"):
            with open(f"{top}/{name}", "w") as stream:
                stream.write("top\n")
        for name, target in links.items():
            os.symlink(target, f"{top}/{name}")
        for follow in (True, False):
            for without in (True, False):
                options = {
                    "fileserver_followsymlinks": follow,
                    "fileserver_ignoresymlinks": without,
                }
                mine = self.roots(**options).listing("base")
                theirs, _ = list_roots((top,), follow, without, lambda path: False, 0.0)
                assert isinstance(mine, Listing)
                self.assertEqual(mine.files, theirs.files, options)
                self.assertEqual(mine.dirs, theirs.dirs, options)
                self.assertEqual(mine.empty_dirs, theirs.empty_dirs, options)
                if follow:
                    for name in mine.files:
                        found = self.roots(**options).find("base", name)
                        self.assertEqual(found is None, name.endswith("broken"), name)

    def test_too_many_ways(self) -> None:
        """Links from everywhere to everywhere do not hold the listing up, and it is logged."""
        count = 12
        tree = {}
        for one in range(count):
            tree[b"d%d" % one] = TreeEntry(DIR, 0o755)
            for other in range(count):
                tree[b"d%d/to%d" % (one, other)] = TreeEntry(LINK, 0, 0, 0, b"../d%d" % other)
        index = Index(*lanes("m", b"12345678"))
        index.commit(tree, 1)
        self.generation = index.generation()
        said: list[Any] = []
        globalLogPublisher.addObserver(said.append)
        self.addCleanup(globalLogPublisher.removeObserver, said.append)

        listing = self.roots().listing("base")

        assert isinstance(listing, Listing)
        self.assertEqual(len(listing.dirs), count + count * count)
        self.assertTrue(any("paths through links" in str(one.get("why")) for one in said), said)

    def test_other_hash(self) -> None:
        """Other hash types are computed from the contents."""
        import hashlib

        roots = self.roots(hash_type="md5")
        found = roots.find("base", "top.sls")
        assert found is not None
        self.assertEqual(roots.hash(found), hashlib.md5(b"top\n").hexdigest())


class PinTests(SynchronousTestCase):
    """What a minion is served while its jobs run."""

    def digests(self, pins: Pins, minion: str) -> object:
        """What a minion is served now."""
        pin = pins.of(minion, 1)
        return None if pin is None else pin.digests

    def test_older_job_counts(self) -> None:
        """Of two jobs the older, until it has returned."""
        pins = Pins()
        pins.add("2", ["m"], {"s": b"new"}, 0)
        pins.add("1", ["m", "n"], {"s": b"old"}, 0)
        self.assertEqual(self.digests(pins, "m"), {"s": b"old"})
        pins.release("1", "m")
        self.assertEqual(self.digests(pins, "m"), {"s": b"new"})
        pins.release("2", "m")
        self.assertIsNone(pins.of("m", 1))
        self.assertEqual(self.digests(pins, "n"), {"s": b"old"})

    def test_ends(self) -> None:
        """A pin that nobody used ends soon, one in use after a day."""
        pins = Pins()
        pins.add("1", ["m", "n"], {"s": b"x"}, 0)
        self.assertIsNotNone(pins.of("m", UNUSED - 1))
        pins.used("1", "m")
        self.assertEqual([minion for minion, _ in pins.all(UNUSED + 1)], ["m"])
        self.assertIsNone(pins.of("n", UNUSED + 1))
        self.assertIsNotNone(pins.of("m", UNUSED + 1))
        self.assertIsNone(pins.of("m", 90_000))
        self.assertEqual(pins.pinned(), set())

    def test_which_jobs(self) -> None:
        """State runs and copies read files; a ping does not."""
        for fun, reads in (
            ("state.apply", True),
            ("cp.get_file", True),
            (["test.ping", "state.sls"], True),
            ("saltutil.sync_all", True),
            ("test.ping", False),
            ("cmd.run", False),
        ):
            self.assertEqual(reads_files(fun), reads, fun)


class PolicyTests(NodesCase):
    """The other policies for conflicts."""

    def test_keep_both(self) -> Deferred[None]:
        """The loser's origin writes its version beside the winner, once, on all nodes."""

        async def story() -> None:
            a, b = await self.make("ab", conflict="keep-both")
            a.write("d/x.sls", "first\n")
            await self.start()
            await self.settle()
            a.cut()
            await until(lambda: not a.sync.streams.links and not b.sync.streams.links)
            a.write("d/x.sls", "from a\n")
            await until(lambda: a.share.store.knowledge != b.share.store.knowledge)  # type: ignore
            b.write("d/x.sls", "from b\n")
            b.write("d/y.sls", "only b\n")
            await until(lambda: b.share.generation.get(b"d/y.sls"))  # type: ignore[union-attr]
            a.link(b)
            await until(lambda: len(os.listdir(b.path("d"))) == 3)
            await self.settle()
            (kept,) = set(os.listdir(a.path("d"))) - {"x.sls", "y.sls"}
            self.assertTrue(kept.startswith("x.sls.conflict-"), kept)
            self.assertEqual(b.read(f"d/{kept}"), b"from a\n")
            self.assertEqual(a.read("d/x.sls"), b"from b\n")

        return self.run_coroutine(story)

    def test_primary(self) -> Deferred[None]:
        """The primary's version wins though it is older."""

        async def story() -> None:
            a, b = await self.make("ab", conflict={"primary": "a"})
            a.write("x.sls", "first\n")
            await self.start()
            await self.settle()
            a.cut()
            await until(lambda: not a.sync.streams.links and not b.sync.streams.links)
            a.write("x.sls", "from a\n")
            await until(lambda: a.share.store.knowledge != b.share.store.knowledge)  # type: ignore
            b.write("x.sls", "from b\n")
            b.write("y.sls", "only b\n")
            await until(lambda: b.share.generation.get(b"y.sls"))  # type: ignore[union-attr]
            a.link(b)
            await until(lambda: a.read("y.sls") and b.read("x.sls") == b"from a\n")
            await self.settle()

        return self.run_coroutine(story)

    def test_clock(self) -> Deferred[None]:
        """A writer whose clock is far off its peers' waits and says so, until it is right."""

        async def story() -> None:
            a, b = await self.make("ab")
            b.ahead = 1200.0
            await self.start()
            await until(lambda: a.sync.clocks.problem)
            status = a.sync.clocks.problem
            self.assertIn("ten minutes", status)
            # What was said when the link began is not all that counts
            a.sync.streams.clocks_compared({"b": 2.0})
            self.assertEqual(a.sync.clocks.problem, "")

        return self.run_coroutine(story)
