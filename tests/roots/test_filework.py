"""Many small files are read and made by another process; what goes wrong there loses nothing."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from saltwisted.domain.roots.entry import FILE, TreeEntry
from saltwisted.errors import RemoteError, StoreError
from saltwisted.stores.roots import filework, newfiles, objects, packs, treeread
from saltwisted.stores.roots import sites as rootsites
from saltwisted.stores.roots.housekeeping import drop_damaged
from saltwisted.stores.roots.objects import ContentStore
from saltwisted.stores.roots.treefs import Identity
from saltwisted.worker.process.warm import pack, unpack
from tests.roots import test_sites


class Helper:
    """
    The other process, as a thread; what is said goes through the same coding.

    @ivar bad: numbers of requests that fail, and how.
    @ivar before: called before a request is answered.
    """

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(1)
        self.asked = 0
        self.bad: dict[int, Exception] = {}
        self.before: Any = lambda request: None

    def __call__(self, request: Mapping[str, Any]) -> Future[list[Any]]:
        """Answer a request."""
        self.asked += 1
        return self.pool.submit(self._answer, self.asked, pack(request))

    def _answer(self, number: int, request: bytes) -> list[Any]:
        if number in self.bad:
            raise self.bad[number]
        value = unpack(request)
        self.before(value)
        answer: list[Any] = unpack(pack(filework.serve(value)))
        return answer


class HelperCase(test_sites.TreeCase):
    """Few files are many, so that there are several requests and packs."""

    def setUp(self) -> None:
        """With a helper."""
        super().setUp()
        self.helper = Helper()
        self.addCleanup(self.helper.pool.shutdown)
        self.tree.reader._helper = self.tree.reader._sites._helper = self.helper
        for module in (newfiles, rootsites):
            self.patch(module, "FEW", 5)
            self.patch(module, "AT_ONCE", 7)
        self.patch(newfiles, "ASKED", 2)
        for module in (newfiles, packs):
            self.patch(module, "PACK_SIZE", 600)


class ReadTests(HelperCase):
    """A look at a tree in which much is new."""

    def fill(self, count: int = 60) -> dict[bytes, bytes]:
        """Files; some are alike, one is empty, one is large."""
        made = {}
        for number in range(count):
            path = f"d{number % 5}/f{number}"
            data = b"" if number == 7 else b"content %d" % (number // 2) * (number % 9 + 1)
            if number == 11:
                data = os.urandom(objects.SMALL + 1)
            os.makedirs(f"{self.root}/d{number % 5}", exist_ok=True)
            with open(f"{self.root}/{path}", "wb") as file:
                file.write(data)
            made[path.encode()] = data
        return made

    def check_seen(self, made: Mapping[bytes, bytes], seen: newfiles.Seen) -> None:
        """Everything was found, and is in the store."""
        files = {p: one.entry for p, one in seen.changed.items() if one and one.entry.kind == FILE}
        self.assertEqual(files.keys(), made.keys())
        for path, data in made.items():
            self.assertEqual(self.store.objects.read(files[path].content), data, path)
            known = seen.changed[path]
            assert known is not None and known.identity is not None, path
            self.assertEqual(known.identity.inode, os.stat(f"{self.root}/{path.decode()}").st_ino)
        self.assertEqual((seen.again, seen.young, seen.skipped), (set(), set(), {}))

    def test_the_same_is_found(self) -> None:
        """As without help; what is new is told once it is in the store."""
        made = self.fill()
        told: list[tuple[bytes, int]] = []
        self.tree.reader.tell(lambda path, size: None, told.extend)
        self.patch(treeread, "TOLD", 1)

        seen = self.tree.reader.scan({}, self.store.objects)

        self.assertEqual(self.helper.asked, 9)
        self.check_seen(made, seen)
        self.assertEqual({size for _, size in told} - {len(data) for data in made.values()}, set())
        self.assertGreater(len(told), 20)

    def test_it_fails(self) -> None:
        """The rest is read here."""
        for error in (RemoteError("WorkerDied", "x"), OSError(28, "full"), StoreError("x")):
            with self.subTest(error=error):
                made = self.fill()
                self.helper.asked, self.helper.bad = 0, {4: error}
                self.check_seen(made, self.tree.reader.scan({}, self.store.objects))
                self.assertLessEqual(self.helper.asked, 5)

    def test_files_change_meanwhile(self) -> None:
        """What is not as it was when it was listed is looked at by who knows what to do."""
        made = self.fill()

        def change(request: Mapping[str, Any]) -> None:
            if self.helper.asked > 2:
                return
            (path, _), (other, _), (third, _), *_ = request["files"]
            os.unlink(f"{self.root}/{path.decode()}")
            made.pop(path, None)
            with open(f"{self.root}/{other.decode()}", "wb") as file:
                file.write(b"another")
            made[other] = b"another"
            with open(f"{self.root}/{third.decode()}", "r+b") as file:
                file.write(b"C")
            made[third] = b"C" + made[third][1:]

        self.helper.before = change
        seen = self.tree.reader.scan({}, self.store.objects)
        if seen.again:
            more = self.tree.reader.look(seen.again, {}, self.store.objects)
            seen.changed.update({path: one for path, one in more.changed.items() if one})
            seen.again.clear()
        self.check_seen(made, seen)

    def test_another_root(self) -> None:
        """A directory that has come in place of the root is not read."""
        self.fill()
        answer = self.helper(filework.read_request((self.root, 1, 2), "/dev/null", []))
        with self.assertRaises(OSError):
            answer.result(5)

    def test_durable(self) -> None:
        """What was committed is there after a restart; packs in which nothing is kept are not."""
        made = self.fill()
        seen = self.tree.reader.scan({}, self.store.objects)
        self.store.commit({path: one.entry for path, one in seen.changed.items() if one})
        self.tree.reader.scan({}, self.store.objects)
        packs = os.listdir(f"{self.folder}/store/packs")
        self.store.close()
        self.store = self.open()
        self.assertLessEqual(set(os.listdir(f"{self.folder}/store/packs")), set(packs))
        self.check_seen(made, self.tree.reader.scan({}, self.store.objects))
        self.assertEqual(drop_damaged(self.store), {})
        for path, data in made.items():
            entry = self.store.generation.get(path)
            assert entry is not None
            self.assertEqual(self.store.objects.read(entry.content), data)


class LentPackTests(HelperCase):
    """Packs that another process appends to."""

    def lend(self, data: bytes) -> tuple[int, bytes]:
        """A pack with one object."""
        store = self.store.objects
        number, path = store.lent.lend()
        with open(path, "ab") as file:
            file.write(b"....." + data)
        digest = objects.hashlib.sha256(data).digest()
        store.lent.keep(number, [(digest, len(data), 5)])
        return number, digest

    def test_not_synced(self) -> None:
        """A disk that refuses: what was appended does not count."""
        _, digest = self.lend(b"data")
        self.assertTrue(self.store.objects.is_new(digest))
        self.assertEqual(self.store.objects.read(digest), b"data")

        def refuse(fd: int) -> None:
            raise OSError(5, "no")

        self.patch(objects.os, "fdatasync", refuse)
        self.assertRaises(StoreError, self.store.objects.flush)
        self.assertFalse(self.store.objects.has(digest))
        self.assertEqual(self.store.objects.flush(), {})

    def test_while_it_is_lent(self) -> None:
        """A pack stays as long as somebody may append to it, or something in it is kept."""
        store: ContentStore = self.store.objects
        number, digest = self.lend(b"data")
        path = store.show_packs([number])[number]
        other, _ = store.lent.lend()
        self.assertNotEqual(other, number)
        store.put(b"own")
        self.assertEqual(store.read(digest), b"data")
        store.forget([digest])
        self.assertTrue(os.path.exists(path))
        store.lent.take_back(number)
        self.assertFalse(os.path.exists(path))
        store.lent.take_back(other)
        self.assertEqual(len(os.listdir(os.path.dirname(path))), 1)


class MakeTests(HelperCase, test_sites.PrepareTests):
    """What is prepared by the other process; with all that is true without it."""

    def test_it_was_asked(self) -> None:
        """In several requests."""
        entries = self.entries("top")
        self.prepare(entries)
        self.assertEqual(self.helper.asked, 6)
        self.assertEqual(self.made(), 40)
        self.write(entries)
        self.check(entries)

    def test_it_fails(self) -> None:
        """What was begun is given up, and all is written in the end."""
        for number in (1, 3):
            with self.subTest(number=number):
                entries = self.entries(f"top{number}")
                self.helper.asked = 0
                self.helper.bad = {number: RemoteError("WorkerDied", "x")}
                self.prepare(entries)
                self.helper.bad = {}
                self.write(entries)
                self.check(entries)
                self.assertEqual([name for name in self.listed() if name.startswith(".")], [])

    def test_a_file_cannot_be_made(self) -> None:
        """One is left to who writes in the end."""

        def occupy(request: Mapping[str, Any]) -> None:
            path = os.path.join(os.fsencode(self.root), request["files"][0][0])
            with open(path, "xb") as file:
                file.write(b"in the way")

        self.helper.before = occupy
        entries = self.entries("top")
        self.prepare(entries)
        self.helper.before = lambda request: None
        self.write(entries)
        self.check(entries)

    def large(self, top: str, entries: dict[bytes, TreeEntry], count: int = 3) -> None:
        """Some large files in that directory, the contents of all but the last in the store."""
        for number in range(count):
            data = os.urandom(objects.SMALL + 1 + number)
            digest = self.store.objects.put(data)
            if number == count - 1:
                self.store.objects.forget([digest])
            entries[f"{top}/large{number}".encode()] = TreeEntry(
                FILE, 0o600, len(data), 10**9, digest
            )

    def test_large_files_meanwhile(self) -> None:
        """They are made while the other process makes the small ones."""
        entries = self.entries("top")
        self.large("top", entries)
        go_on = threading.Event()
        self.helper.before = lambda request: go_on.wait(10)
        store = self.store.objects
        has = store.has

        def are_made(digest: bytes) -> bool:
            if digest == entries[b"top/large2"].content and not go_on.is_set():
                # Whatever is here of the large ones is made: nothing else was
                self.assertEqual(self.made(), 2)
                go_on.set()
            return has(digest)

        self.patch(store, "has", are_made)
        self.prepare(entries)
        self.assertTrue(go_on.is_set())
        self.assertEqual(self.made(), 42)
        data = os.urandom(entries[b"top/large2"].size)
        entries[b"top/large2"] = entries[b"top/large2"]._replace(content=store.put(data))
        self.write(entries)
        self.check(entries)

    def test_no_room_for_a_large_file(self) -> None:
        """What was begun is given up, and all is written in the end."""
        entries = self.entries("top")
        self.large("top", entries, 1)
        store = self.store.objects
        entries[b"top/large0"] = entries[b"top/large0"]._replace(
            content=store.put(b"x" * entries[b"top/large0"].size)
        )
        go_on = threading.Event()
        self.helper.before = lambda request: go_on.wait(10)
        full = [OSError(28, "No space left on device")]
        make = rootsites.make

        def refused(*args: Any, **more: Any) -> os.stat_result:
            if full:
                go_on.set()
                raise full.pop()
            return make(*args, **more)

        self.patch(rootsites, "make", refused)
        self.prepare(entries)
        self.assertEqual(full, [])
        self.write(entries)
        self.check(entries)
        self.assertEqual([name for name in self.listed() if name.startswith(".")], [])

    def test_somebody_waits(self) -> None:
        """Who wants to write waits for what was asked, not for all."""
        self.helper.before = lambda request: setattr(self.tree.reader._sites, "_hurried", True)
        self.prepare(self.entries("top"))
        self.assertLessEqual(self.helper.asked, 2)
        self.assertEqual(self.made(), 7 * self.helper.asked)


class ServeTests(test_sites.TreeCase):
    """The requests themselves."""

    def test_modes_and_times(self) -> None:
        """The umask takes nothing away."""
        store = self.store.objects
        digest = store.put(b"x" * 1000)
        place = store.packed(digest)
        assert place is not None
        fs = self.tree.fs
        root = self.root, fs.device, fs.inode
        old = os.umask(0o077)
        try:
            rows = filework.serve(
                filework.make_request(
                    root,
                    store.show_packs([place.pack]),
                    [(b"f", 0o666, 5 * 10**9, place.pack, place.offset, place.size)] * 2,
                )
            )
        finally:
            os.umask(old)
        self.assertEqual(rows[1], None)
        info = os.stat(f"{self.root}/f")
        self.assertEqual(info.st_mode & 0o777, 0o666)
        self.assertEqual(tuple(rows[0]), Identity.of(info))
        self.assertEqual(info.st_mtime_ns, 5 * 10**9)

    def test_no_way_out(self) -> None:
        """A link in the way is not followed."""
        os.mkdir(f"{self.folder}/out")
        os.symlink(f"{self.folder}/out", f"{self.root}/link")
        with open(f"{self.folder}/out/secret", "w") as file:
            file.write("secret")
        store = self.store.objects
        place = store.packed(store.put(b"data"))
        assert place is not None
        fs = self.tree.fs
        root = self.root, fs.device, fs.inode
        file_row = (b"link/f", 0o600, 1, place.pack, place.offset, place.size)
        packs = store.show_packs([place.pack])
        self.assertEqual(filework.serve(filework.make_request(root, packs, [file_row])), [None])
        self.assertEqual(os.listdir(f"{self.folder}/out"), ["secret"])
        _, pack_path = store.lent.lend()
        request = filework.read_request(root, pack_path, [(b"link/secret", 6)])
        self.assertEqual(filework.serve(request), [None])
        self.assertEqual(os.stat(pack_path).st_size, 0)
