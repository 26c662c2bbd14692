"""Roots that the service may not read whole: named, never taken for empty."""

from __future__ import annotations

import errno
import os
import stat
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import globalLogPublisher

from saltwisted.cluster.roots.control import RootControl
from saltwisted.domain.operations.table import Operations
from saltwisted.domain.roots.health import of_share
from saltwisted.stores.roots import treeread
from saltwisted.stores.roots.sites import BULK
from tests.fakes.operations import ROOT, nobody_listens
from tests.roots.nodes import SHARE, Node, NodesCase, clock, until

NOBODY = 65534


class UnreadTests(NodesCase):
    """What a person sees of a file that another user keeps for itself."""

    def setUp(self) -> None:
        """As a user whom modes bind: root reads everything."""
        super().setUp()
        self.said: list[Any] = []
        globalLogPublisher.addObserver(self.said.append)
        self.addCleanup(globalLogPublisher.removeObserver, self.said.append)
        if os.geteuid() == 0:
            os.chown(self.folder, NOBODY, NOBODY)
            os.seteuid(NOBODY)
            self.addCleanup(os.seteuid, 0)

    def lines(self) -> list[str]:
        """What the log said of paths that are not taken in."""
        return [str(e["names"]) for e in self.said if "cannot be read" in str(e["log_format"])]

    async def ask(self, node: Node, what: str, **args: Any) -> Any:
        """An answer of C{saltwisted roots}."""
        table = Operations("this master", RootControl(node.sync, clock).operations())
        return await table.call(f"roots.{what}", args, ROOT, nobody_listens)

    def test_file(self) -> Deferred[None]:
        """A file that may not be read keeps C{sync} from being done, and is named everywhere."""

        async def story() -> None:
            a, b = await self.make("ab")
            a.write("open.sls", "1")
            a.write("secret.sls", "1")
            os.chmod(a.path("secret.sls"), 0)
            await self.start()
            await self.settle_open(a, b)

            result = await self.ask(a, "sync", wait=True, timeout=0.2)
            status = await self.ask(a, "status")
            self.assertFalse(result["done"])
            self.assertIn("secret.sls (Permission denied)", result["problems"][SHARE])
            self.assertTrue((await self.ask(a, "sync"))["problems"])
            (finding,) = of_share(SHARE, status["shares"][SHARE])
            self.assertEqual((finding.id, finding.severity.value), ("roots.unread", "error"))
            self.assertIn("secret.sls: Permission denied", finding.evidence)
            self.assertTrue(finding.command.startswith("setfacl -R -m u:"), finding.command)
            told = [data["paths"] for tag, data in a.events if tag == "salt/roots/unread"]
            self.assertEqual(told, [["secret.sls"]])
            await self.ask(a, "scan")
            self.assertEqual(len(self.lines()), 1, "it is logged once")

            os.chmod(a.path("secret.sls"), 0o600)
            await until(lambda: b.read("secret.sls") == b"1")
            result = await self.ask(a, "sync", wait=True, timeout=10)
            self.assertTrue(result["done"], result)

        return self.run_coroutine(story)

    async def settle_open(self, a: Node, b: Node) -> None:
        """Wait until what can be read is there."""
        await until(lambda: b.read("open.sls") and a.share.look.unread)

    def test_directory(self) -> Deferred[None]:
        """A directory that is closed later deletes nothing anywhere; opened, it goes on."""

        async def story() -> None:
            a, b = await self.make("ab")
            a.write("open.sls", "1")
            for number in range(3):
                a.write(f"shut/deep/{number}.sls", "1")
            await self.start()
            await self.settle()
            os.chmod(a.path("shut"), 0)
            await until(lambda: a.share.look.unread == {b"shut": "Permission denied"})
            await self.ask(a, "scan")
            a.write("after.sls", "1")
            await until(lambda: b.read("after.sls"))
            self.assertEqual(stat.S_IMODE(os.stat(b.path("shut")).st_mode), 0o755)

            self.assertFalse(a.share.core.held)
            self.assertEqual(b.read("shut/deep/2.sls"), b"1")
            generation = a.share.generation
            assert generation is not None
            self.assertIsNotNone(generation.get(b"shut/deep/2.sls"))

            os.chmod(a.path("shut"), 0o755)
            a.write("shut/deep/new.sls", "2")
            await until(lambda: b.read("shut/deep/new.sls") == b"2")
            result = await self.ask(a, "sync", wait=True, timeout=10)
            self.assertTrue(result["done"], result)
            self.assertEqual(b.read("shut/deep/0.sls"), b"1")

        return self.run_coroutine(story)

    def test_new_directory(self) -> Deferred[None]:
        """What is in a directory that was closed from the first is taken in when it is opened."""

        async def story() -> None:
            a, b = await self.make("ab")
            a.write("open.sls", "1")
            a.write("shut/x.sls", "1")
            os.chmod(a.path("shut"), 0)
            await self.start()
            await self.settle_open(a, b)
            self.assertEqual(a.share.look.unread, {b"shut": "Permission denied"})

            os.chmod(a.path("shut"), 0o755)
            await until(lambda: b.read("shut/x.sls") == b"1")
            self.assertEqual(a.share.look.unread, {})

        return self.run_coroutine(story)

    def test_large_file(self) -> Deferred[None]:
        """A large file that may not be read, or fails on the way, is named as well."""

        async def story() -> None:
            a, b = await self.make("ab")
            a.write("open.sls", "1")
            a.write("large", bytes(BULK))
            os.chmod(a.path("large"), 0)
            await self.start()
            await self.settle_open(a, b)
            self.assertEqual(set(a.share.look.unread), {b"large"})

            usual = treeread.content_of

            def broken(fs: Any, path: bytes, store: Any, seen: Any = None) -> Any:
                if path == b"large":
                    raise OSError(errno.EIO, os.strerror(errno.EIO), "large")
                return usual(fs, path, store, seen)

            self.patch(treeread, "content_of", broken)
            os.chmod(a.path("large"), 0o644)
            await until(lambda: a.share.look.unread == {b"large": os.strerror(errno.EIO)})

        return self.run_coroutine(story)

    def test_repository(self) -> Deferred[None]:
        """A C{.git} that is closed to the service does not hold up everything else."""

        async def story() -> None:
            a, b = await self.make("ab")
            a.write(".git/HEAD", "x")
            os.chmod(a.path(".git"), 0)
            self.addCleanup(os.chmod, a.path(".git"), 0o755)
            await self.start()
            a.write("open.sls", "1")
            await until(lambda: b.read("open.sls"))
            self.assertEqual(a.share.look.unread, {})

        return self.run_coroutine(story)

    def test_rules(self) -> Deferred[None]:
        """While C{.rootsignore} may not be read, what it excluded stays excluded."""

        async def story() -> None:
            a, b = await self.make("ab")
            a.write(".rootsignore", "*.key\n")
            a.write("x.key", "1")
            a.write("open.sls", "1")
            await self.start()
            await self.settle_rules(b)
            os.chmod(a.path(".rootsignore"), 0)
            await self.ask(a, "scan")
            a.write("last.sls", "1")
            await until(lambda: b.read("last.sls"))
            self.assertIsNone(b.read("x.key"))
            self.assertEqual(set(a.share.look.unread), {b".rootsignore"})

        return self.run_coroutine(story)

    async def settle_rules(self, b: Node) -> None:
        """Wait until the other node has the rules."""
        await until(lambda: b.read("open.sls") and b.read(".rootsignore"))
