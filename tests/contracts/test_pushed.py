"""
C{minionfs} serves what minions have pushed, and nothing else of this machine.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred

from saltwisted.config.options import MasterConfig
from saltwisted.master.fileserver import FileServer
from saltwisted.stores.roots.tree import Listing
from saltwisted.stores.sources.table import FILE_SOURCES
from tests.contracts.files import LARGE, NOTHING
from tests.stores.support import FolderTestCase


class PushedTests(FolderTestCase):
    """Two minions have pushed files."""

    def setUp(self) -> None:
        """A folder as C{FileServer.receive} makes it."""
        super().setUp()
        self.now = 0.0
        for path, content in (
            ("web1/files/etc/fstab", b"fstab"),
            ("web1/files/etc/large", LARGE),
            ("web1/files/top.sls", b"base: {}"),
            ("db1/files/odd/a b?\u00fc", b"odd"),
            ("db1/data.p", b"secret"),
            ("empty/other", b""),
        ):
            full = Path(self.folder, "minions", path)
            full.parent.mkdir(parents=True, exist_ok=True)
            full.write_bytes(content)
        Path(self.folder, "outside").mkdir()
        Path(self.folder, "outside/x").write_bytes(b"outside")
        Path(self.folder, "minions/web1/files/link").symlink_to("etc/fstab")
        Path(self.folder, "minions/web1/files/out").symlink_to(f"{self.folder}/outside")

    def source(self, **options: Any) -> Any:
        """Made of the configuration, as a master does it."""
        given = {"cachedir": self.folder, "pki_dir": f"{self.folder}/pki", "file_recv": True}
        source: Any = FILE_SOURCES.take("minionfs")(
            MasterConfig(**{**given, **options}), maybeDeferred
        )
        source.startService()
        self.addCleanup(source.stopService)
        source._monotonic = lambda: self.now
        return source

    def value(self, answer: Any) -> Any:
        """What is at hand, or comes of the pool."""
        return self.successResultOf(answer) if isinstance(answer, Deferred) else answer

    def listing(self, source: Any, env: str = "base") -> Listing:
        """Everything that is there."""
        found: Listing = self.value(source.listing(env))
        return found

    def test_served(self) -> None:
        """A file has the id of its minion before its path; content and hash are its own."""
        source = self.source()
        for path, content in (
            ("web1/etc/fstab", b"fstab"),
            ("web1/etc/large", LARGE),
            ("db1/odd/a b?\u00fc", b"odd"),
        ):
            found = source.find("base", path)
            self.assertEqual((found.rel, found.back), (path, "minionfs"))
            self.assertEqual(self.value(source.hash(found)), hashlib.sha256(content).hexdigest())
            self.assertEqual(self.value(source.read(found, 0, len(content))), content)

    def test_listed(self) -> None:
        """Lists have files and their directories, and neither links nor empty directories."""
        listing = self.listing(self.source())

        self.assertEqual(
            listing.files,
            ("db1/odd/a b?\u00fc", "web1/etc/fstab", "web1/etc/large", "web1/top.sls"),
        )
        self.assertEqual(listing.dirs, ("db1/odd", "web1/etc"))
        self.assertEqual((listing.empty_dirs, dict(listing.links)), ((), {}))

    def test_nothing(self) -> None:
        """
        T-PATH-4: a path leads nowhere but to a pushed file: not to what else is known of a minion,
        not through a link, not to a C{top.sls}.
        """
        source = self.source()
        for path in (
            *NOTHING, "web1", "web1/top.sls", "web1/etc", "web1/link", "web1/out/x", "db1/data.p",
            "web1/../db1/odd/a b?\u00fc", "web1/files/etc/fstab", "../minions/web1/etc/fstab",
            "db1/../data.p", "*/etc/fstab",
        ):  # fmt: skip
            self.assertIsNone(source.find("base", path), path[:40])
        for env in ("", "dev", "__env__", "BASE"):
            self.assertIsNone(source.find(env, "web1/etc/fstab"))
            self.assertEqual(self.listing(source, env), Listing())

    def test_options(self) -> None:
        """Mount point, environment and lists are Salt's; with C{file_recv} off nothing is there."""
        source = self.source(
            minionfs_env="pushed",
            minionfs_mountpoint="salt://a/b",
            minionfs_whitelist=["web*", "db1"],
            minionfs_blacklist=["d.1"],
        )
        self.assertEqual(source.envs(), ["pushed"])
        self.assertEqual(source.find("pushed", "a/b/web1/etc/fstab").rel, "a/b/web1/etc/fstab")
        for path in ("web1/etc/fstab", "x/y/web1/etc/fstab", "a/b/db1/odd/a b?\u00fc"):
            self.assertIsNone(source.find("pushed", path))
        self.assertEqual(
            self.listing(source, "pushed").files,
            ("a/b/web1/etc/fstab", "a/b/web1/etc/large", "a/b/web1/top.sls"),
        )

        source = self.source(file_recv=False)
        self.assertEqual((source.envs(), source.find("base", "web1/etc/fstab")), ([], None))
        self.assertEqual(self.listing(source).files, ())

    def test_pushed_now(self) -> None:
        """What is pushed is found at once, and listed a second later or after a refresh."""
        source = self.source()
        before = self.listing(source).files
        server = FileServer(
            [source], MasterConfig(file_recv=True, cachedir=self.folder), maybeDeferred
        )
        self.value(server.receive("new", ["etc/x"], 0, b"x"))

        self.assertIsNotNone(source.find("base", "new/etc/x"))
        self.assertEqual(self.listing(source).files, before)
        self.now += 1.0
        self.assertIn("new/etc/x", self.listing(source).files)
        os.unlink(f"{self.folder}/minions/new/files/etc/x")
        source.refresh()
        self.assertEqual(self.listing(source).files, before)
