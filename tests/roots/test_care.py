"""What a share does for its health, and what it refuses: quota, roles, files that never rest."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.roots import control as rootcontrol
from saltwisted.cluster.roots import join as rootjoin
from saltwisted.cluster.roots.choice import RootChoice
from saltwisted.cluster.roots.control import BY_WORD, RootControl
from saltwisted.cluster.roots.parcels import Want
from saltwisted.cluster.roots.questions import RootQuestions
from saltwisted.cluster.roots.settings import Root
from saltwisted.cluster.roots.streams import READ_ONLY
from saltwisted.cluster.roots.sync import RootSync
from saltwisted.domain.operations.table import Operations
from saltwisted.domain.roots import hot
from saltwisted.domain.roots.hot import FIRST, LONGEST, OFTEN, HotFiles
from saltwisted.errors import DeniedError, StoreError, TransportClosed
from saltwisted.stores.progress import Progress
from saltwisted.stores.roots import deep as rootdeep
from tests.fakes.operations import ROOT, call_of
from tests.roots.nodes import SHARE, NodesCase, clock, until


def overwrite(path: str, data: bytes) -> None:
    """Write over the first bytes of a file, which is made if there is none."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    os.write(fd, data)
    os.close(fd)


def flip_pages(path: str) -> None:
    """Write over the beginning of each page but the first."""
    for page in range(1, os.path.getsize(path) // 4096):
        fd = os.open(path, os.O_WRONLY)
        os.pwrite(fd, b"\xff" * 64, 4096 * page)
        os.close(fd)


def is_there(path: str) -> bool:
    """Whether there is anything."""
    return os.path.lexists(path)


class HotTests(SynchronousTestCase):
    """Files that change all the time."""

    def test_pause_grows_and_ends(self) -> None:
        """Twenty commits in a minute begin it; each more doubles it, a quiet minute ends it."""
        files = HotFiles()
        for number in range(OFTEN):
            self.assertEqual(files.committed([b"f"], number), [])
        self.assertEqual(files.until(b"f", 20), 20)
        self.assertEqual(files.committed([b"f"], 20), [b"f"])
        self.assertEqual(files.until(b"f", 20), 20 + FIRST)
        self.assertEqual(files.until(b"g", 20), 20)
        for _ in range(12):
            self.assertEqual(files.committed([b"f"], 21), [])
        self.assertEqual(files.pauses(21), {b"f": LONGEST})
        self.assertEqual(files.until(b"f", 22), 21 + LONGEST)
        self.assertEqual(files.pauses(81), {})
        self.assertEqual(files.until(b"f", 81), 81)
        self.assertEqual(files.committed([b"f"], 90), [])
        self.assertEqual(files.pauses(90), {})


class CareTests(NodesCase):
    """Real directories."""

    def test_hot_file_waits_and_others_do_not(self) -> Deferred[Any]:
        """A file that is written all the time is left alone for a while; another goes at once."""
        # However slow the machine is
        self.patch(hot, "LONGEST", 300.0)

        async def story() -> None:
            one, two = await self.make("ab")
            await self.start()
            one.write("busy", "0")
            one.write("calm", "0")
            await self.settle()
            for _ in range(60):
                one.share.care.committed([b"busy"])
            one.write("busy", "1")
            one.write("calm", "1")
            await until(lambda: two.read("calm") == b"1", what="the calm one")
            self.assertEqual(two.read("busy"), b"0")
            self.assertEqual(one.share.care.pauses(), {b"busy": 300.0})
            self.assertIn("salt/roots/hot", [tag for tag, _ in one.events])
            # Who asks for all gets all
            await one.share.flush()
            await until(lambda: two.read("busy") == b"1", what="the busy one")

        return self.run_coroutine(story)

    def test_deep_look(self) -> Deferred[Any]:
        """Damaged contents come back, from the tree or a peer; a rotten file is named, not sent."""

        async def story() -> None:
            one, two = await self.make("ab")
            await self.start()
            names = [f"f{number}" for number in range(6)]
            for name in names:
                one.write(name, name * 10)
            one.write("large", os.urandom(100_000))
            await self.settle()
            store = two.share.store
            assert store is not None
            # Files that were just written are not compared by their times yet
            known_files = one.share.store.tree.known.values  # type: ignore[union-attr]
            await until(
                lambda: all(one.identity for one in known_files() if one.entry.kind == "f"),
                what="old enough",
            )
            large = store.generation.get(b"large")
            assert large is not None
            path = store.objects.large.path(large.content)
            os.chmod(path, 0o600)
            overwrite(path, b"rot")
            # No byte of the tree may serve here, so that the peer has to
            os.unlink(two.path("large"))
            two.share.watch.dirty.clear()
            rotten = one.path("f3")
            identity = os.stat(rotten)
            known = one.share.store.tree.known[b"f3"]  # type: ignore[union-attr]
            overwrite(rotten, b"ROT")
            self.assertEqual(os.stat(rotten).st_size, identity.st_size)
            # What the kernel says of a sector that went bad: nothing
            now = rootdeep.Identity.of(os.stat(rotten))
            one.share.store.tree.known[b"f3"] = known._replace(identity=now)  # type: ignore[union-attr]
            found = rootdeep.Found()
            for part in range(rootdeep.PARTS):
                some = rootdeep.look(
                    one.tree,
                    one.share.store.tree.known,
                    one.share.store.objects,
                    part,  # type: ignore
                )
                found.read += some.read
                found.rotten |= some.rotten
            self.assertEqual(found.rotten, {b"f3"})
            self.assertGreaterEqual(found.read, 14)

            part = int.from_bytes(large.content[:4], "big") % rootdeep.PARTS
            damaged = await two.share.care.look_deep(part)

            self.assertEqual(list(damaged.damaged), [large.content])
            await until(lambda: store.objects.has(large.content), what="the content")
            self.assertEqual(
                (await two.share.care.look_deep(part)).damaged, {}, "it is sound again"
            )
            self.assertIn("salt/roots/alarm", [tag for tag, _ in two.events])

        return self.run_coroutine(story)

    def test_flipped_rows(self) -> Deferred[Any]:
        """Rows of the index that are not what was written are found, and rewritten."""

        async def story() -> None:
            (one,) = await self.make("a")
            for number in range(40):
                one.write(f"f{number}", str(number))
            await self.start()
            await self.settle()
            store: Any = one.share.store
            await one.share.care.look_at_index(0)
            self.assertEqual(one.sync.alarms, {})
            db = sqlite3.connect(store.database.path)
            db.execute("UPDATE version SET content = X'00' WHERE path = CAST('f7' AS BLOB)")
            db.execute("UPDATE version SET rid = 999 WHERE path = CAST('f8' AS BLOB)")
            db.execute("DELETE FROM version WHERE path = CAST('f9' AS BLOB)")
            db.commit()
            db.close()

            for part in range(rootdeep.PARTS):
                await one.share.care.look_at_index(part)

            rows = {path: set(row) for path, row in store.index.rows.items()}
            there = {path: set(row) for path, row in store.rows.all().items()}
            self.assertEqual(there, rows)
            self.assertIn("rewritten", one.sync.alarms[SHARE])
            self.flushLoggedErrors()

        return self.run_coroutine(story)

    def test_damaged_index(self) -> Deferred[Any]:
        """
        An index that is damaged under a running node is told, and put aside when it is opened
        again: the tree comes from the others, and what is in the working tree stays.
        """

        async def story() -> None:
            one, two = await self.make("ab")
            for number in range(300):
                one.write(f"f{number}", str(number))
            await self.start()
            await self.settle()
            told: list[str] = []
            two.sync.news.on_damaged.append(told.append)
            path = two.share.store.database.path  # type: ignore[union-attr]
            db = sqlite3.connect(path)
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            db.close()
            flip_pages(path)

            await two.share.care.look_at_index(0)
            self.assertEqual(told, [SHARE])
            await two.sync.stopService()
            two.sync = two._make()
            await two.sync.startService()
            one.link(two)
            await self.settle()

            self.assertEqual(two.digest, one.digest)
            self.assertEqual(two.read("f7"), b"7")
            aside = two.share.store.database.put_aside  # type: ignore[union-attr]
            self.assertTrue(is_there(aside))
            self.flushLoggedErrors()

        return self.run_coroutine(story)

    def test_repair(self) -> Deferred[Any]:
        """Two that know the same and hold other trees become alike, with an alarm."""

        async def story() -> None:
            one, two = await self.make("ab")
            await self.start()
            one.write("a", "a")
            one.write("b", "b")
            await self.settle()
            index = two.share.store.index  # type: ignore[union-attr]
            # A fault of the program: a row is gone, and nobody did that
            del index.rows[b"b"]
            index._set(b"", b"b", None)
            two.write("c", "c")
            await until(lambda: one.read("c") == b"c", what="c")
            await until(lambda: one.digest == two.digest, what="one tree")
            await self.settle()
            self.assertEqual((one.read("b"), two.read("b")), (b"b", b"b"))
            alarms = [data["reason"] for tag, data in two.events if tag == "salt/roots/alarm"]
            self.assertIn("although both know the same changes", alarms[0])

        return self.run_coroutine(story)

    def test_quota(self) -> Deferred[Any]:
        """What does not fit into the quota waits, and is said; nothing is dropped."""

        async def story() -> None:
            one, two = await self.make("ab")
            await self.start()
            two.sync.room._quota = 50_000
            one.write("small", "s")
            one.write("big", os.urandom(400_000))
            await until(lambda: "quota" in two.share.core.last_error, what="refused")
            self.assertIsNone(two.read("big"))
            two.sync.room._quota = 0
            two.share.consider()
            await self.settle()

        return self.run_coroutine(story)


class RoleTests(NodesCase):
    """What the membership says that a node may do."""

    async def make_with_pillars(self, without: dict[str, set[str]]) -> Any:
        """
        Two nodes with a pillar root each.

        @param without: node to the rights that it has not, as all know but the node b itself.
        """
        one, two = await self.make("ab")
        share = "pillar/base/0"
        one.rights = without
        for node in (one, two):
            root = f"{node.folder}/pillar"
            os.makedirs(root)
            node.sync = RootSync(
                node.host(),
                [Root("file/base/0", node.tree), Root(share, root)],
                f"{node.folder}/store",
                {"free_mib": 1},
            )
        overwrite(f"{one.folder}/pillar/secret.sls", b"x: y\n")
        return one, two, share

    def test_no_pillar_without_the_right(self) -> Deferred[Any]:
        """A node without the right gets no pillar, though it thinks it has it, and asks for it."""

        async def story() -> None:
            one, two, share = await self.make_with_pillars({"b": {"pillar"}})
            await self.start()
            one.write("f", "f")
            await until(lambda: two.read("f") == b"f", what="f")
            self.assertTrue(one.sync.shares[share].store.knowledge)
            link = next(iter(two.sync.streams.links.values()))
            self.assertEqual(link.peer.knowledge[share], {})
            link.pull(share, {})
            # Nor by the name of its content, which it could have from somebody
            digest = one.sync.shares[share].generation.get(b"secret.sls").content
            fetched = link.objects.fetch(
                share, two.sync.shares[share].store.objects, [Want(digest, 5)]
            )
            fetched.addErrback(lambda failure: failure.trap(TransportClosed))
            one.write("g", "g")
            await until(lambda: two.read("g") == b"g", what="g")
            self.assertFalse(fetched.called)
            self.assertEqual(two.sync.shares[share].store.knowledge, {})
            self.assertNotIn("secret.sls", os.listdir(f"{two.folder}/pillar"))
            self.assertEqual(one.sync.streams.flags, {})
            # Who waits for all does not wait for what b may not have
            result = await RootControl(one.sync, clock).sync(call_of(wait=True))
            self.assertTrue(result["done"], result)

        return self.run_coroutine(story)

    def test_progress_is_told(self) -> Deferred[Any]:
        """Who asks for what takes long hears how far it is."""
        waiting, told = threading.Event(), []

        def export(objects: Any, tree: Any, target: str, progress: Progress) -> int:
            progress.done = 3
            if not waiting.wait(60):
                raise AssertionError("nothing was told")
            return len(tree)

        def stream(item: dict[str, Any]) -> None:
            # On a slow machine it is told first that nothing is being done yet
            if item["work"]:
                told.append(item)
                waiting.set()

        self.patch(rootcontrol, "export", export)
        self.patch(rootcontrol, "TELL", 0.05)

        async def story() -> None:
            (one,) = await self.make("a")
            one.write("f", "f")
            await self.start()
            await self.settle()
            args = {"do": "export", "directory": f"{one.folder}/out"}
            table = Operations("this master")
            table.add(RootControl(one.sync, clock).operations(), BY_WORD)
            answer = await table.call("roots", args, ROOT, stream)
            self.assertEqual(answer["entries"], 1)
            (work,) = told[0]["work"]
            self.assertEqual(work, {"share": SHARE, "doing": "paths written", "done": 3, "of": 1})

        return self.run_coroutine(story)

    def test_a_path_that_takes_no_part(self) -> Deferred[Any]:
        """Who asks for it is told why: its name, a rule of the root, or what it is."""

        async def story() -> None:
            (one,) = await self.make("a")
            one.write(".rootsignore", "*.bak\nbuild/\n")
            for name in ("f", "4913", "old.bak", ".git/config", "build/x"):
                one.write(name, name)
            os.mkfifo(f"{one.tree}/pipe")
            await self.start()
            await self.settle()
            questions = RootQuestions(one.sync, RootChoice(one.sync))
            for path, why in (
                ("4913", "does not take part: 4913 is excluded: editors, "),
                (
                    f"{one.tree}/.git/config",
                    "does not take part: .git is excluded: editors, ",
                ),
                ("old.bak", "does not take part: old.bak is excluded by .rootsignore"),
                ("build/x", "does not take part: build is excluded by .rootsignore"),
                ("pipe", "does not take part: pipe: "),
                ("nothing", "is in no share"),
                ("/etc/passwd", "is in no share"),
            ):
                try:
                    await questions.trace(call_of(path=path))
                except StoreError as error:
                    self.assertIn(why, str(error))
                else:
                    self.fail(path)
            found = await questions.trace(call_of(path="f"))
            self.assertEqual([row["visible"] for row in found], [True])

        return self.run_coroutine(story)

    def test_pillars_go_with_the_right(self) -> Deferred[Any]:
        """A node that knows itself that it has no right keeps nothing of the pillars it had."""

        async def story() -> None:
            _, two, share = await self.make_with_pillars({})
            await self.start()
            await until(lambda: is_there(f"{two.folder}/pillar/secret.sls"), what="the pillar")
            store = f"{two.folder}/store/pillar-base-0"
            self.assertTrue(is_there(store))
            await two.sync.stopService()
            again = RootSync(
                two.host(may=lambda name, right: right != "pillar"),
                [Root("file/base/0", two.tree), Root(share, f"{two.folder}/pillar")],
                f"{two.folder}/store",
            )
            two.sync = again
            await again.startService()
            self.assertFalse(is_there(store))
            self.assertEqual(list(again.shares), ["file/base/0"])
            self.assertIn("no right to pillars", again.left_out[share])

        return self.run_coroutine(story)

    def test_read_only_node_is_undone(self) -> Deferred[Any]:
        """What a read-only node's user does is kept there as a conflict, and undone."""

        async def story() -> None:
            one, two = await self.make("ab")
            one.rights = two.rights = {"b": {"write"}}
            await self.start()
            one.write("f", "one")
            one.write("d/g", "g")
            one.write("gone", "stays")
            await self.settle()
            two.write("f", "two")
            two.write("new/h", "h")
            os.unlink(two.path("gone"))
            await until(
                lambda: two.read("f") == b"one" and two.read("gone") == b"stays", what="undone"
            )
            await until(lambda: not is_there(two.path("new")), what="new is gone")
            await self.settle()
            self.assertEqual(one.read("f"), b"one")
            self.assertFalse(is_there(one.path("new")))
            kept = {(p, v.entry.size, s) for p, v, _, s in two.share.store.conflicts.all()}
            self.assertEqual(kept, {(b"f", 3, "adopted"), (b"new/h", 1, "adopted")})
            refused = [data for tag, data in two.events if tag == "salt/roots/refused"]
            self.assertIn("403", refused[0]["reason"])
            one.write("f", "again")
            await until(lambda: two.read("f") == b"again", what="it goes on")
            with self.assertRaises(DeniedError):
                await RootControl(two.sync, clock).rollback(call_of(generation="x"))

        return self.run_coroutine(story)

    def test_read_only_node_ahead_of_all_writers(self) -> Deferred[Any]:
        """It alone knows what a writer has lost: it starts again, and keeps it as a conflict."""
        self.patch(rootjoin, "STRANDED", 0.2)

        async def story() -> None:
            one, two = await self.make("ab")
            one.rights = two.rights = {"b": {"write"}}
            await self.start()
            one.write("f", "f")
            one.write("g", "g")
            await self.settle()
            two.write("h", "h")
            await until(lambda: not is_there(two.path("h")), what="undone")
            stranded: list[str] = []
            two.sync.news.on_stranded.append(stranded.append)
            # The only writer loses all
            await one.sync.stopService()
            shutil.rmtree(f"{one.folder}/store")
            os.unlink(one.path("g"))
            one.sync = one._make()
            await one.sync.startService()
            one.link(two)
            await until(lambda: one.share.ready and stranded, what="stranded")
            await two.sync.stopService()
            two.sync = two._make()
            await two.sync.startService()
            one.link(two)
            await until(lambda: two.share.ready and one.digest == two.digest, what="alike")
            await until(lambda: two.read("g") is None, what="the writer's tree")
            kept = {path for path, *_ in two.share.store.conflicts.all()}
            self.assertEqual(kept, {b"g", b"h"})

        return self.run_coroutine(story)

    def test_nobody_may_write(self) -> Deferred[Any]:
        """What nobody else has stays, where nobody is left whose tree could come instead."""

        async def story() -> None:
            one, two = await self.make("ab")
            await self.start()
            one.write("f", "f")
            await self.settle()
            one.cut()
            await until(lambda: not two.sync.streams.links, what="apart")
            two.write("alone", "x")
            await until(lambda: two.share.generation.get(b"alone"), what="committed")
            two.rights = {"a": {"write"}, "b": {"write"}}
            await two.sync.stopService()
            two.sync = two._make()
            await two.sync.startService()

            self.assertTrue(two.share.ready)
            self.assertIsNotNone(two.share.generation.get(b"alone"))

        return self.run_coroutine(story)

    def test_writes_of_read_only_node_are_refused(self) -> Deferred[Any]:
        """A node that writes although it may not: nobody takes it, nor what it says of others."""

        async def story() -> None:
            one, two = await self.make("ab")
            one.rights = {"b": {"write"}}
            await self.start()
            one.write("f", "one")
            await self.settle()
            two.write("f", "two")
            two.write("h", "h")
            await until(lambda: "b" in one.sync.streams.flags, what="refused")
            self.assertEqual(one.sync.streams.flags["b"], READ_ONLY)
            await until(
                lambda: any("403" in link.error for link in two.sync.streams.links.values()),
                what="it is told",
            )
            one.write("g", "g")
            await until(lambda: two.read("g") == b"g", what="the stream lives")
            self.assertEqual(one.read("f"), b"one")
            self.assertIsNone(one.read("h"))
            self.assertEqual(one.sync.report.members_state(), "in step")
            refused = [data for tag, data in one.events if tag == "salt/roots/refused"]
            self.assertEqual(len(refused), 1)
            # It hears of its rights, starts again, and takes the cluster's tree
            await two.sync.stopService()
            two.rights = {"b": {"write"}}
            two.sync = two._make()
            await two.sync.startService()
            one.link(two)
            await until(lambda: two.read("f") == b"one", what="the cluster's f")
            await until(lambda: two.read("h") is None, what="no h")
            await until(lambda: one.digest == two.digest, what="one tree")
            kept = {p for p, _, _, _ in two.share.store.conflicts.all()}
            self.assertEqual(kept, {b"f", b"h"})

        return self.run_coroutine(story)
