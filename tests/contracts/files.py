"""
What every source of files has to do (L{saltwisted.parts.IFileSource}).
"""

from __future__ import annotations

import gc
import hashlib
import stat
import sys
from typing import Any

from attrs import field, frozen
from twisted.internet.defer import Deferred

from saltwisted.parts import IFileSource
from saltwisted.stores.roots.tree import Listing

LARGE = b"".join(b"%07d\n" % number for number in range(40_000))


@frozen
class Tree:
    """An environment: its files with their content, its links, its empty directories."""

    files: dict[str, bytes]
    links: dict[str, str] = field(factory=dict)
    empty: tuple[str, ...] = ()


TREES = {
    "base": Tree(
        {
            "top.sls": b"base:\n",
            "web/init.sls": b"nginx:\n  pkg.installed\n",
            "web/files/large": LARGE,
            "web/files/nothing": b"",
            "odd/a b&c=d?|\u00fc.txt": b"odd",
            "odd/-x": b"-",
        },
        {
            "same.sls": "top.sls",
            "web/up.sls": "../top.sls",
            "www": "web",
            "lost": "nowhere",
            "round": "round",
        },
        ("hollow", "web/hollow"),
    ),
    "dev": Tree({"top.sls": b"dev:\n"}),
}
THROUGH_LINKS = {
    "same.sls": "top.sls",
    "web/up.sls": "top.sls",
    "www/init.sls": "web/init.sls",
    "www/up.sls": "top.sls",
    "www/files/large": "web/files/large",
}
NOTHING = (
    "", ".", "/", "..", "web", "web/", "hollow", "www", "lost", "round", "lost/x", "top.sls/x",
    "/top.sls", "../top.sls", "../base/top.sls", "web/../top.sls", "web/../../base/top.sls",
    "top.sl", "TOP.SLS", "top.sls\0", "web\0/init.sls", "*", "web/*.sls", "x" * 5000, "~/top.sls",
    "%2e%2e/top.sls", "..\\top.sls", "-x", "odd", "top.sls\n", "/etc/passwd", "web//../top.sls",
)  # fmt: skip


class FileSourceContract:
    """
    The claims. A test case gives a source of C{TREES}, the pool of which is this thread.

    @cvar hash_type: what the source is told of the option of this name.
    """

    hash_type = "sha256"

    def source(self) -> IFileSource:
        """A started source of C{TREES}."""
        raise NotImplementedError

    def value(self: Any, answer: Any) -> Any:
        """What is at hand, or comes of the pool."""
        return self.successResultOf(answer) if isinstance(answer, Deferred) else answer

    def content(self: Any, source: IFileSource, path: str, env: str = "base") -> bytes:
        """All of a file, as a minion asks for it."""
        found, data = source.find(env, path), b""
        while piece := self.value(source.read(found, len(data), 65_536)):
            data += piece
        return data

    def test_keeps_nothing(self: Any) -> None:
        """However often a minion asks, of what it asked nothing stays in memory."""
        source = self.source()

        def ask(number: int) -> None:
            for path in ("web/files/nothing", "www/init.sls", f"web/{number % 2}", "web/up.sls"):
                found = source.find("base", "/".join(path.split("/")))
                if found is not None:
                    self.value(source.hash(found))

        kept = []
        for _ in range(3):
            for number in range(200):
                ask(number)
            gc.collect()
            kept.append(sys.getallocatedblocks())

        self.assertLess(kept[2] - kept[1], 100)

    def test_envs(self: Any) -> None:
        """The environments are known by name, in order."""
        self.assertEqual(list(self.source().envs()), ["base", "dev"])

    def test_found(self: Any) -> None:
        """Each file is found, with its size, as a plain file of this source."""
        source = self.source()
        for env, tree in TREES.items():
            for path, content in tree.files.items():
                found = source.find(env, path)
                self.assertIsNotNone(found, path)
                self.assertEqual((found.rel, found.back), (path, source.name))
                self.assertEqual(found.info.st_size, len(content), path)
                self.assertTrue(stat.S_ISREG(found.info.st_mode), path)
                self.assertTrue(found.full.startswith("/"), path)
                self.assertEqual(len(list(found.info)), 10)

    def test_written_otherwise(self: Any) -> None:
        """A path may have more slashes and dots than it needs; the answer has not."""
        source = self.source()
        for path in ("./web/init.sls", "web//init.sls", "web/./init.sls"):
            self.assertEqual(source.find("base", path).rel, "web/init.sls")

    def test_nothing(self: Any) -> None:
        """T-PATH-4: what is no file is not found, however it is asked for; nor what is outside."""
        source = self.source()
        for path in NOTHING:
            self.assertIsNone(source.find("base", path), path[:40])
        for env in ("", ".", "..", "prod", "base/web", "../base", "BASE", "base\0", "__env__"):
            self.assertIsNone(source.find(env, "init.sls"), env)
            self.assertIsNone(source.find(env, "top.sls"), env)
        self.assertIsNone(source.find("dev", "web/init.sls"))

    def test_links(self: Any) -> None:
        """A link inside is the file that it leads to, by the name that was asked for."""
        source = self.source()
        for path, real in THROUGH_LINKS.items():
            found = source.find("base", path)
            self.assertEqual(found.rel, path)
            self.assertEqual(self.content(source, path), TREES["base"].files[real], path)

    def test_content(self: Any) -> None:
        """All pieces together are the file: an empty one, a small one, and a large one."""
        source = self.source()
        for env, tree in TREES.items():
            for path, content in tree.files.items():
                self.assertEqual(self.content(source, path, env), content, path)

    def test_ranges(self: Any) -> None:
        """A range is as much as there is of it, from the start, the middle and beyond the end."""
        source, size = self.source(), len(LARGE)
        found = source.find("base", "web/files/large")
        for start in (0, 1, 4095, 65_536, size // 2, size - 1, size, size + 1, 1 << 40, 1 << 70):
            for most in (0, 1, 100, 65_537, size, size * 2):
                data = self.value(source.read(found, start, most))
                self.assertEqual(data, LARGE[start : start + most], (start, most))
                self.assertIs(type(data), bytes)
        self.assertEqual(self.value(source.read(found, -1, 10)), b"")

    def test_hashes(self: Any) -> None:
        """The hash is that of the content, the first time and later, for whoever asks at once."""
        source = self.source()
        for path, content in TREES["base"].files.items():
            found = source.find("base", path)
            wanted = hashlib.new(self.hash_type, content).hexdigest()
            answers = [source.hash(found), source.hash(found)]
            self.assertEqual([self.value(each) for each in answers], [wanted] * 2, path)
            self.assertEqual(self.value(source.hash(source.find("base", path))), wanted, path)

    def test_listed(self: Any) -> None:
        """Lists are sorted; they have all files and directories, also by way of links."""
        source = self.source()
        listing = self.value(source.listing("base"))

        files = {*TREES["base"].files, *THROUGH_LINKS, "lost", "round"}
        files |= {"www/files/nothing"}
        dirs = {"hollow", "odd", "web", "web/files", "web/hollow", "www", "www/files", "www/hollow"}
        self.assertEqual(listing.files, tuple(sorted(files)))
        self.assertEqual(listing.dirs, tuple(sorted(dirs)))
        self.assertEqual(listing.empty_dirs, ("hollow", "web/hollow", "www/hollow"))

    def test_listed_links(self: Any) -> None:
        """The list of links says where each leads, in its own words."""
        listing = self.value(self.source().listing("base"))
        links = {path: listing.links.get(path) for path in TREES["base"].links}

        self.assertEqual(links, TREES["base"].links)

    def test_listed_is_served(self: Any) -> None:
        """Each listed file can be fetched, but for links that lead to none."""
        source = self.source()
        for env in TREES:
            for path in self.value(source.listing(env)).files:
                found = source.find(env, path)
                self.assertEqual(found is None, path in ("lost", "round"), path)

    def test_listed_nothing(self: Any) -> None:
        """An environment that is not there has nothing in it."""
        source = self.source()
        for env in ("", "prod", "..", "base/web", "__env__"):
            self.assertEqual(self.value(source.listing(env)), Listing())

    def test_refreshed(self: Any) -> None:
        """To look again changes nothing where nothing has changed; what was found is still read."""
        source = self.source()
        found, before = source.find("base", "top.sls"), self.value(source.listing("base"))

        source.refresh()

        self.assertEqual(self.value(source.listing("base")), before)
        self.assertEqual(self.value(source.read(found, 0, 100)), b"base:\n")
        self.assertEqual(list(source.envs()), ["base", "dev"])
