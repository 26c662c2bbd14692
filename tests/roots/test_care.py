"""What a share does for its health, and what it refuses: quota, roles, files that never rest."""

from __future__ import annotations

import os
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.rootsync import Root, RootSync
from saltwisted.domain.roots import hot
from saltwisted.domain.roots.hot import FIRST, LONGEST, OFTEN, HotFiles
from saltwisted.stores import rootdeep
from tests.roots.nodes import NodesCase, until


def overwrite(path: str, data: bytes) -> None:
    """Write over the first bytes of a file, which is made if there is none."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    os.write(fd, data)
    os.close(fd)


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
            large = store.generation.get(b"large")
            assert large is not None
            path = store.objects.path(large.content)
            os.chmod(path, 0o600)
            overwrite(path, b"rot")
            # No byte of the tree may serve here, so that the peer has to
            os.unlink(two.path("large"))
            two.share._dirty.clear()
            rotten = one.path("f3")
            identity = os.stat(rotten)
            known = one.share.store.tree[b"f3"]  # type: ignore[union-attr]
            overwrite(rotten, b"ROT")
            self.assertEqual(os.stat(rotten).st_size, identity.st_size)
            # What the kernel says of a sector that went bad: nothing
            now = rootdeep.Identity.of(os.stat(rotten))
            one.share.store.tree[b"f3"] = known._replace(identity=now)  # type: ignore[union-attr]
            found = rootdeep.Found()
            for part in range(rootdeep.PARTS):
                some = rootdeep.look(
                    one.tree,
                    one.share.store.tree,
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
            self.assertIn("at equal knowledge", alarms[0])

        return self.run_coroutine(story)

    def test_quota(self) -> Deferred[Any]:
        """What does not fit into the quota waits, and is said; nothing is dropped."""

        async def story() -> None:
            one, two = await self.make("ab")
            await self.start()
            two.sync._quota = 50_000
            one.write("small", "s")
            one.write("big", os.urandom(400_000))
            await until(lambda: "quota" in two.share.last_error, what="refused")
            self.assertIsNone(two.read("big"))
            two.sync._quota = 0
            two.share.consider()
            await self.settle()

        return self.run_coroutine(story)


class RoleTests(NodesCase):
    """Who may have pillars."""

    def test_pillar_nodes(self) -> Deferred[Any]:
        """A node that is not named gets no pillar, though it asks for it."""

        async def story() -> None:
            one, two = await self.make("ab", pillar_nodes=["a"])
            share = "pillar/base/0"
            for node, options in ((one, {"pillar_nodes": ["a"]}), (two, {})):
                root = f"{node.folder}/pillar"
                os.makedirs(root)
                node.sync = RootSync(
                    node.sync._reactor,
                    node.name,
                    [Root("file/base/0", node.tree), Root(share, root)],
                    f"{node.folder}/store",
                    node.threads.run,
                    lambda tag, data: None,
                    lambda node=node: node.members,  # type: ignore[misc]
                    {"free_mib": 1, **options},
                )
            overwrite(f"{one.folder}/pillar/secret.sls", b"x: y\n")
            await self.start()
            one.write("f", "f")
            await until(lambda: two.read("f") == b"f", what="f")
            self.assertTrue(one.sync.shares[share].store.knowledge)  # type: ignore[union-attr]
            link = next(iter(two.sync._links.values()))
            self.assertEqual(link.knowledge[share], {})
            link.pull(share, {})
            one.write("g", "g")
            await until(lambda: two.read("g") == b"g", what="g")
            self.assertEqual(two.sync.shares[share].store.knowledge, {})  # type: ignore[union-attr]
            self.assertNotIn("secret.sls", os.listdir(f"{two.folder}/pillar"))
            self.assertEqual(one.sync.flags, {})

        return self.run_coroutine(story)
