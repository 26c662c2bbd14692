"""Two and three nodes with real trees: an edit on one is served and written on the others."""

from __future__ import annotations

import os
import shutil
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger, formatEvent

from saltwisted.cluster.roots import commit as rootcommit
from saltwisted.cluster.roots.news import RootNews
from saltwisted.domain.roots import codec
from saltwisted.domain.roots.entry import DIR, Batch, ReplicaId, TreeEntry
from saltwisted.errors import StoreError
from saltwisted.stores.roots import worktree
from tests.roots.nodes import NodesCase, until


def size_of(path: str) -> int:
    """Bytes of a file; -1 if there is none."""
    try:
        return os.path.getsize(path)
    except OSError:
        return -1


class EditTests(NodesCase):
    """One edits, the others follow."""

    def test_first_sync_and_edits(self) -> Deferred[None]:
        """Files, empty directories, links, modes, renames and deletions arrive exactly."""

        async def story() -> None:
            a, b = await self.make("ab")
            a.write("top.sls", "base:\n  '*': [web]\n")
            a.write("web/init.sls", "one\n" * 500)
            a.write("web/big.bin", os.urandom(300_000))
            os.makedirs(a.path("empty/deep"))
            os.symlink("init.sls", a.path("web/link.sls"))
            os.chmod(a.path("top.sls"), 0o640)
            await self.start()
            await self.settle()
            self.assertEqual(b.read("top.sls"), a.read("top.sls"))

            a.write("web/init.sls", "one\n" * 250 + "changed\n" + "one\n" * 250)
            os.chmod(a.path("top.sls"), 0o600)
            await until(lambda: b.read("web/init.sls") == a.read("web/init.sls"))
            await self.settle()

            b.write("from/b.sls", "b\n")
            os.unlink(b.path("web/link.sls"))
            await until(lambda: a.read("from/b.sls") == b"b\n")
            await self.settle()

            os.rename(a.path("web"), a.path("www"))
            shutil.rmtree(a.path("empty"))
            await until(lambda: b.read("www/init.sls") and not os.path.exists(b.path("empty")))
            await self.settle()

        return self.run_coroutine(story)

    def test_many_nodes_at_once(self) -> Deferred[None]:
        """Three nodes, edits on each: all end with the union."""

        async def story() -> None:
            nodes = await self.make("abc")
            await self.start()
            await self.settle()
            for node in nodes:
                for number in range(50):
                    node.write(f"{node.name}/{number}.sls", f"{node.name} {number}\n")
            await until(
                lambda: all(node.read(f"{other.name}/49.sls") for node in nodes for other in nodes)
            )
            await self.settle()

        return self.run_coroutine(story)

    def test_offline_and_relay(self) -> Deferred[None]:
        """C has a link to B alone: what A writes reaches it through B, also what it missed."""

        async def story() -> None:
            a, b, c = await self.make("abc")
            await self.start(mesh=False)
            a.link(b)
            await until(lambda: a.sync.report.ready and b.sync.report.ready)
            a.write("before", "1")
            await until(lambda: b.read("before"))
            b.link(c)
            await until(lambda: c.read("before") == b"1")
            a.write("after", "2")
            await until(lambda: c.read("after") == b"2")
            c.write("back", "3")
            await until(lambda: a.read("back") == b"3")
            await self.settle()

        return self.run_coroutine(story)

    def test_large_file_and_small_edit(self) -> Deferred[None]:
        """A small edit made after a large file arrives before it; a change of it is a delta."""

        async def story() -> None:
            a, b = await self.make("ab")
            await self.start()
            await self.settle()
            data = os.urandom(60_000_000)
            # The network takes no more for now: what is large waits, and only that
            a.sync.streams.links["b"].pauseProducing()
            a.write("large.bin", data)
            await until(lambda: a.share.generation.get(b"large.bin"))  # type: ignore[union-attr]
            a.write("small.sls", "now\n")
            await until(lambda: b.read("small.sls"))
            first = b.read("large.bin") is None
            a.sync.streams.links["b"].resumeProducing()
            await until(lambda: size_of(b.path("large.bin")) == len(data))
            await self.settle()
            self.assertTrue(first, "the small edit waited for the large file")

            link = a.sync.streams.links["b"]
            before = link.bytes_out
            a.write("large.bin", data[:30_000_000] + b"!" + data[30_000_000:])
            await until(lambda: size_of(b.path("large.bin")) == 60_000_001)
            await self.settle()
            self.assertLess(link.bytes_out - before, 4096)

        return self.run_coroutine(story)

    def test_moved_directory(self) -> Deferred[None]:
        """A directory of 400 files that moves costs next to nothing on the wire."""

        async def story() -> None:
            a, b = await self.make("ab")
            for number in range(400):
                a.write(f"old/d{number % 20}/f{number}", f"content {number}\n" * 20)
            await self.start()
            await self.settle()
            link = a.sync.streams.links["b"]
            before = link.bytes_out + link.bytes_in

            os.rename(a.path("old"), a.path("new"))
            await until(lambda: b.read("new/d19/f399"))
            await self.settle()
            self.assertLess(link.bytes_out + link.bytes_in - before, 1000)

        return self.run_coroutine(story)


class BreakTests(NodesCase):
    """Connections and disks that fail."""

    def test_resume(self) -> Deferred[None]:
        """A large file goes on where the stream broke."""

        async def story() -> None:
            a, b = await self.make("ab")
            await self.start()
            await self.settle()
            data = os.urandom(80_000_000)
            a.write("large.bin", data)
            parts = f"{b.folder}/store/file-base-0/part"
            await until(lambda: any(e.stat().st_size > 2_000_000 for e in os.scandir(parts)))
            sent = a.sync.streams.links["b"].bytes_out
            a.cut()
            await until(lambda: not a.sync.streams.links and not b.sync.streams.links)
            kept = sum(entry.stat().st_size for entry in os.scandir(parts))
            self.assertGreater(kept, 1_000_000)
            self.assertLess(kept, len(data))
            a.link(b)
            await until(lambda: size_of(b.path("large.bin")) == len(data), 40)
            self.assertEqual(b.read("large.bin"), data)
            again = a.sync.streams.links["b"].bytes_out
            self.assertLess(sent + again, len(data) * 1.2 + 20_000_000)
            self.assertLess(again, len(data) - kept + 5_000_000)
            await self.settle()

        return self.run_coroutine(story)

    def test_damaged_store(self) -> Deferred[None]:
        """Contents that a disk has lost come back from a peer; what is served stays whole."""

        async def story() -> None:
            a, b = await self.make("ab")
            a.write("large.bin", b"x" * 300_000)
            a.write("small", "small\n")
            await self.start()
            await self.settle()
            digest = a.digest
            await b.sync.stopService()
            shutil.rmtree(f"{b.folder}/store/file-base-0/objects")
            shutil.rmtree(f"{b.folder}/store/file-base-0/packs")
            b.sync = b._make()
            await Deferred.fromCoroutine(b.sync.startService())
            self.assertEqual(len(b.share.catchup.damaged), 2)
            a.link(b)
            await until(lambda: not b.share.catchup.damaged)
            await until(lambda: b.share.is_settled)
            store = b.share.store
            assert store is not None
            self.assertEqual(store.objects.check(), [])
            self.assertEqual(b.digest, digest)
            entry = store.generation.get(b"large.bin")
            assert entry is not None
            self.assertEqual(store.objects.read(entry.content), b"x" * 300_000)

        return self.run_coroutine(story)


class ConflictTests(NodesCase):
    """Two edit at once."""

    def test_concurrent_edit(self) -> Deferred[None]:
        """Both show the same version, both keep the other and say so, and it can be taken."""
        said: list[str] = []
        self.patch(RootNews, "log", Logger(observer=lambda event: said.append(formatEvent(event))))

        async def story() -> None:
            a, b = await self.make("ab")
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
            await until(lambda: a.read("y.sls"))
            await self.settle()

            self.assertEqual(a.read("x.sls"), b"from b\n")
            for node in (a, b):
                store = node.share.store
                assert store is not None
                (lost,) = store.conflicts.all()
                self.assertEqual(lost[0], b"x.sls")
                self.assertEqual(store.objects.read(lost[1].entry.content), b"from a\n")
                self.assertIn("salt/roots/conflict", [tag for tag, _ in node.events])
            lines = [line for line in said if "changed on two masters at once" in line]
            self.assertEqual(len(lines), 2, said)
            self.assertIn("file/base/0: x.sls: changed", lines[0])
            self.assertIn("the change of a is kept, but not served", lines[0])
            await a.share.orders.resolve(b"x.sls", lost[1].dot, "root")
            await until(lambda: b.read("x.sls") == b"from a\n")
            await self.settle()
            for node in (a, b):
                store = node.share.store
                assert store is not None
                self.assertEqual(store.conflicts.open, 0)

        return self.run_coroutine(story)

    def test_delete_against_edit(self) -> Deferred[None]:
        """The edit wins, on both; a directory that one removed stays for what is in it."""

        async def story() -> None:
            a, b = await self.make("ab")
            a.write("d/x.sls", "first\n")
            a.write("d/y.sls", "first\n")
            a.write("other.sls", "first\n")
            await self.start()
            await self.settle()
            a.cut()
            await until(lambda: not a.sync.streams.links and not b.sync.streams.links)
            shutil.rmtree(a.path("d"))
            b.write("d/x.sls", "edited\n")
            await until(lambda: a.share.generation.get(b"d") is None)  # type: ignore[union-attr]
            await until(lambda: b.share.is_settled)
            a.link(b)
            await until(lambda: a.read("d/x.sls"))
            await self.settle()
            self.assertEqual(sorted(os.listdir(b.path("d"))), ["x.sls"])

        return self.run_coroutine(story)

    def test_joiner_with_a_tree(self) -> Deferred[None]:
        """A joiner's equal files join; others are kept as conflicts; the cluster's tree stays."""

        async def story() -> None:
            a, b = await self.make("ab")
            a.write("same", "same\n")
            a.write("differs", "a\n")
            b.write("same", "same\n")
            b.write("differs", "b\n")
            b.write("own", "own\n")
            await a.start()
            a.members = []
            await until(lambda: a.sync.report.ready, what="a founds alone")
            await b.start()
            a.link(b)
            await until(lambda: b.sync.report.ready and b.read("own") is None)
            await self.settle()
            self.assertEqual(b.read("differs"), b"a\n")
            store = b.share.store
            assert store is not None
            kept = {
                one[0]: store.objects.read(one[1].entry.content) for one in store.conflicts.all()
            }
            self.assertEqual(kept, {b"differs": b"b\n", b"own": b"own\n"})

        return self.run_coroutine(story)

    def test_joiner_from_another_cluster(self) -> Deferred[None]:
        """A node that was a cluster of its own does not push its tree into the one it joins."""

        async def story() -> None:
            a, b = await self.make("ab")
            a.write("same", "same\n")
            b.write("same", "same\n")
            b.write("own", "own\n")
            for node in (a, b):
                node.members, node.cluster = [], node.name
                node.sync = node._make()
                await node.start()
                await until(lambda node=node: node.sync.report.ready)  # type: ignore[misc]
            await b.sync.stopService()
            b.cluster, b.members, a.members = "a", ["a"], ["b"]
            b.sync = b._make()
            await Deferred.fromCoroutine(b.sync.startService())
            self.assertFalse(b.sync.report.ready)
            a.link(b)
            await until(lambda: b.sync.report.ready and b.read("own") is None)
            await self.settle()
            self.assertIsNone(a.read("own"))
            store = b.share.store
            assert store is not None
            (kept,) = store.conflicts.all()
            self.assertEqual(store.objects.read(kept[1].entry.content), b"own\n")

        return self.run_coroutine(story)


class GuardTests(NodesCase):
    """What must not be replicated by accident."""

    def test_mass_deletion_is_held(self) -> Deferred[None]:
        """C{rm -rf} of most files is held; other changes go on; an approval lets it through."""

        async def story() -> None:
            a, b = await self.make("ab")
            for number in range(300):
                a.write(f"d/{number}", "x\n")
            a.write("keep", "1")
            await self.start()
            await self.settle()

            shutil.rmtree(a.path("d"))
            await until(lambda: a.share.core.held)
            a.write("keep", "2")
            await until(lambda: b.read("keep") == b"2")
            self.assertEqual(len(os.listdir(b.path("d"))), 300)
            self.assertIn("salt/roots/held", [tag for tag, _ in a.events])

            await a.share.orders.approve("root")
            await until(lambda: not os.path.exists(b.path("d")))
            await self.settle()

        return self.run_coroutine(story)

    def test_mass_deletion_is_restored(self) -> Deferred[None]:
        """The other answer: the tree is refilled from the store."""

        async def story() -> None:
            a, _ = await self.make("ab")
            for number in range(300):
                a.write(f"d/{number}", f"{number}\n")
            await self.start()
            await self.settle()
            shutil.rmtree(a.path("d"))
            await until(lambda: a.share.core.held)

            await a.share.orders.restore()
            await until(lambda: a.read("d/299") == b"299\n")
            await self.settle()

        return self.run_coroutine(story)

    def test_root_is_gone(self) -> Deferred[None]:
        """An unmounted disk deletes nothing; a new marker alone does not resume."""

        async def story() -> None:
            a, b = await self.make("ab")
            a.write("x", "1")
            await self.start()
            await self.settle()
            os.rename(a.tree, a.tree + ".away")
            os.makedirs(a.tree)
            await a.share.rescan()
            self.assertTrue(a.share.core.suspended)
            shutil.copy(a.tree + ".away/.saltwisted-root", a.tree)
            await a.share.rescan()
            self.assertTrue(a.share.core.suspended)
            self.assertEqual(b.read("x"), b"1")

            await a.share.orders.restore()
            await until(lambda: a.read("x") == b"1")
            await self.settle()

        return self.run_coroutine(story)

    def test_ignored_and_forbidden(self) -> Deferred[None]:
        """What does not take part is neither sent nor removed, and is named."""

        async def story() -> None:
            a, b = await self.make("ab")
            await self.start()
            await self.settle()
            a.write(".git/config", "x")
            a.write("a.sls.swp", "x")
            os.symlink("/etc/passwd", a.path("outside"))
            os.mkfifo(a.path("pipe"))
            b.write("d/.x.swp", "b")
            b.write("d/y", "b")
            a.write("last", "1")
            await until(lambda: b.read("last") and a.read("d/y"))
            self.assertEqual(set(os.listdir(b.tree)), {".saltwisted-root", "d", "last"})
            self.assertEqual(
                a.share.look.skipped.keys() & {b"outside", b"pipe"}, {b"outside", b"pipe"}
            )
            shutil.rmtree(a.path("d"))
            await until(lambda: b.read("d/y") is None)
            self.assertEqual(b.read("d/.x.swp"), b"b")

        return self.run_coroutine(story)

    def test_read_only_root(self) -> Deferred[None]:
        """A root that the service may only read is still sent to the others, without a marker."""

        async def story() -> None:
            a, b = await self.make("ab")
            a.write("x.sls", "1")
            os.chmod(a.tree, 0o555)
            self.addCleanup(os.chmod, a.tree, 0o755)
            self.patch(os, "access", lambda path, mode: path != a.tree)
            mark = worktree.WorkTree.mark

            def refused(tree: worktree.WorkTree) -> None:
                if tree.path == a.tree:
                    raise PermissionError(13, "Permission denied", tree.path)
                mark(tree)

            self.patch(worktree.WorkTree, "mark", refused)
            await self.start()
            await until(lambda: b.read("x.sls") == b"1")
            self.assertEqual(a.share.core.suspended, "")
            self.assertEqual(os.listdir(a.tree), ["x.sls"])

        return self.run_coroutine(story)

    def test_rollback(self) -> Deferred[None]:
        """An earlier generation comes back on all, under its old name."""

        async def story() -> None:
            a, b = await self.make("ab")
            a.write("x", "1")
            a.write("d/y", "1")
            await self.start()
            await self.settle()
            name = a.digest
            a.write("x", "2")
            shutil.rmtree(a.path("d"))
            await until(lambda: b.read("x") == b"2" and not os.path.exists(b.path("d")))
            await self.settle()

            await b.share.orders.rollback(name, "root")
            await until(lambda: a.read("x") == b"1" and a.read("d/y") == b"1")
            await self.settle()
            self.assertEqual(a.digest, name)

        return self.run_coroutine(story)

    def test_rollback_on_a_full_disk(self) -> Deferred[None]:
        """An order whose batch the disk refuses is not reported as done, and changes nothing."""

        async def story() -> None:
            (a,) = await self.make("a")
            a.write("x", "1")
            await self.start()
            await self.settle()
            name = a.digest
            a.write("x", "2")
            await until(lambda: a.digest != name)
            await self.settle()
            kept = rootcommit.commit_and_pack

            def full(*args: Any) -> Any:
                raise StoreError("No space left on device")

            self.patch(rootcommit, "commit_and_pack", full)
            try:
                await a.share.orders.rollback(name, "root")
            except StoreError as error:
                said = str(error)
            else:
                said = "done"
            self.patch(rootcommit, "commit_and_pack", kept)

            self.assertIn("not done: No space left on device", said)
            self.assertEqual(a.read("x"), b"2")
            self.flushLoggedErrors()

        return self.run_coroutine(story)


class JoinTests(NodesCase):
    """A node that comes to a tree with a history."""

    def test_joiner_takes_the_last_tree_alone(self) -> Deferred[Any]:
        """It is ready with the whole of it; trees of before are not for minions nor its disk."""

        async def story() -> None:
            one, two = await self.make("ab", mesh=False)
            await one.start()
            await until(lambda: one.share.ready, what="founded")
            for number in range(6):
                one.write(f"f{number}", str(number))
                one.write("same", str(number))
                await until(lambda: one.share.is_settled, what="settled")
                await one.share.flush()
            two.write("f5", "5")
            two.write("other", "mine")
            seen: list[tuple[bool, str]] = []
            two.sync.news.on_generation.append(
                lambda name: seen.append((two.share.ready, two.digest))
            )
            await two.start()
            self.assertFalse(two.share.ready)
            # Nor does somebody who asks too early make its tree the cluster's
            await two.share.flush()
            self.assertEqual(two.digest, "e3b0c44298fc")
            one.link(two)
            await until(lambda: two.share.ready, what="ready")
            self.assertEqual([digest for ready, digest in seen if ready], [one.digest])
            self.assertGreater(len(seen), 1)
            await self.settle()
            kept = {path for path, *_ in two.share.store.conflicts.all()}  # type: ignore[union-attr]
            self.assertEqual(kept, {b"other"})

        return self.run_coroutine(story)

    def test_two_joiners(self) -> Deferred[Any]:
        """That another joiner has as little is no sign that all is here."""

        async def story() -> None:
            one, two, three = await self.make("abc", mesh=False)
            await one.start()
            await until(lambda: one.share.ready, what="founded")
            for number in range(6):
                one.write("f", str(number))
                await one.share.flush()
            seen: list[str] = []
            two.sync.news.on_generation.append(
                lambda name: seen.append(two.digest) if two.share.ready else None
            )
            await two.start()
            await three.start()
            two.link(three)
            await until(lambda: "c" in two.sync.streams.links, what="the other joiner")
            one.link(two)
            await until(lambda: two.share.ready, what="ready")
            await until(lambda: three.share.ready, what="the other, too")
            self.assertEqual(seen, [one.digest])

        return self.run_coroutine(story)

    def test_joiner_that_was_stopped_goes_on_joining(self) -> Deferred[Any]:
        """What it had was not whole: it serves nothing after the restart, either."""

        async def story() -> None:
            one, two = await self.make("ab", mesh=False)
            await one.start()
            await until(lambda: one.share.ready, what="founded")
            for number in range(4):
                one.write("f", str(number))
                await one.share.flush()
            two.write("other", "mine")
            # One batch comes through, and then no more
            await two.start()
            store = one.share.store
            replica, lo = store.batches.missing_for({})[0]  # type: ignore[index, union-attr]
            batch, _ = codec.unpack_batch(store.batches.body(replica, lo), two.share.core.limits)  # type: ignore[union-attr, arg-type]
            for _, entry in batch.entries:
                if entry.kind == "f":
                    data = store.objects.read(entry.content)  # type: ignore[union-attr]
                    two.share.store.objects.put_known(entry.content, data)  # type: ignore[union-attr]
            outcome = two.share.store.apply(batch)  # type: ignore[union-attr]
            await two.share.core.locked(two.share.inbox.applied, batch, outcome)
            self.assertFalse(two.share.ready)
            await two.sync.stopService()
            two.sync = two._make()
            await two.sync.startService()
            self.assertFalse(two.share.ready)
            self.assertEqual(two.read("other"), b"mine")
            one.link(two)
            await until(lambda: two.share.ready, what="ready")
            await self.settle()
            self.assertEqual(two.read("f"), b"3")

        return self.run_coroutine(story)


class OrphanTests(NodesCase):
    """Batches whose origin has lost them."""

    def test_orphans_are_forgotten(self) -> Deferred[Any]:
        """What depends on a batch that nobody has any more does not keep a node busy for ever."""

        async def story() -> None:
            one, two = await self.make("ab")
            await self.start()
            one.write("f", "f")
            await self.settle()
            replica = ReplicaId("b", b"longlost")
            batch = Batch(
                replica=replica,
                lo=2,
                stamp=5 << 16,
                deps={replica: 1},
                entries=((b"x", TreeEntry(DIR, 0o755)),),
            )
            link = next(iter(one.sync.streams.links.values()))
            one.share.inbox.batch_here(link, 10, [codec.pack_batch(batch), []], batch, batch.hi)
            self.assertFalse(one.share.is_settled)
            one.cut()
            await until(lambda: link.closed, what="the end of the stream")
            one.link(two)
            await until(lambda: one.share.is_settled, what="forgotten")
            await self.settle()

        return self.run_coroutine(story)

    def test_full_look_covers_what_was_to_be_listed(self) -> Deferred[Any]:
        """A look at everything leaves nothing to be listed apart, or nobody is ever settled."""

        async def story() -> None:
            (one,) = await self.make("a")
            await self.start()
            one.write("d/f", "f")
            await self.settle()
            one.share.watch.unlisted.add(b"d")
            await one.share.rescan()
            self.assertTrue(one.share.is_settled)

        return self.run_coroutine(story)

    def test_tree_of_a_job_keeps_to_the_quota(self) -> Deferred[Any]:
        """A job that is pinned to a tree does not bring in more than there is room for."""

        async def story() -> None:
            one, two = await self.make("ab")
            await self.start()
            two.sync.room._quota = 50_000
            one.write("big", os.urandom(400_000))
            await until(lambda: "quota" in two.share.core.last_error, what="refused")
            digest = one.share.generation.digest  # type: ignore[union-attr]
            self.assertIsNone(await two.share.trees.bring(digest, "a"))
            self.assertIsNone(two.read("big"))

        return self.run_coroutine(story)
