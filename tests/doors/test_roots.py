"""
What directories may cost who serves them, as they are on a disk and as members send them
(T-COST-2).
"""

from __future__ import annotations

import os
from typing import Any

from twisted.internet.defer import maybeDeferred
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.options import MasterConfig
from saltwisted.domain.git.trees import MOST_HOPS
from saltwisted.domain.roots.entry import DIR, FILE, LINK, TreeEntry
from saltwisted.master import fileserver
from saltwisted.master.fileserver import FileServer, parse_path
from saltwisted.stores.roots.generations import resolve
from saltwisted.stores.roots.served import Roots
from saltwisted.stores.roots.tree import real_path
from tests.stores.support import FolderTestCase

AROUND = 700
"""How often each link goes into a directory and out of it again."""
LINKS = 39


class DiskTests(FolderTestCase):
    """Directories on a disk."""

    def setUp(self) -> None:
        """Links that lead each other through a directory and back, very often."""
        super().setUp()
        self.write("srv/end", b"x")
        os.mkdir(self.path("srv/a"))
        for number in range(LINKS):
            after = f"l{number + 1}" if number + 1 < LINKS else "end"
            os.symlink("a/../" * AROUND + after, self.path(f"srv/l{number}"))
        self.config = MasterConfig(cachedir=self.path("cache"), pki_dir=self.path("pki"))
        self.roots = Roots({"base": [self.path("srv")]}, maybeDeferred, self.config)

    def test_links(self) -> None:
        """T-COST-2: the kernel says where links lead; nobody follows them part by part."""
        self.patch(os.path, "realpath", lambda path: self.fail(f"{path} is followed"))

        for number in (0, 1, LINKS - 1):
            self.assertIsNotNone(self.roots.find("base", f"l{number}"))

    def test_real_path(self) -> None:
        """It is what Python says, also of what is not there, and of links that lead nowhere."""
        os.symlink("nothing/x", self.path("srv/lost"))
        os.symlink("round", self.path("srv/round"))
        os.symlink("srv", self.path("other"))
        for path in ("srv/l0", "srv/end", "srv", "srv/lost", "srv/none", "srv/round", "other/l1",
                     "other/a/../end", "other/end/x", "srv/a\0b"):  # fmt: skip
            full = self.path(path)
            if "\0" in path:
                self.assertRaises(ValueError, real_path, full)
            else:
                self.assertEqual(real_path(full), os.path.realpath(full), path)

    def test_long_requests(self) -> None:
        """
        T-COST-1: a path or an environment of megabytes is not taken apart, and a number of very
        many digits is none.
        """
        server = FileServer([self.roots], self.config, maybeDeferred)
        self.patch(fileserver, "parse_path", lambda *asked: self.fail("it is taken apart"))
        long = "a/" * 1_000_000
        for path, env in ((long, "base"), ("end", long), ("x?saltenv=" + long, "base")):
            self.assertEqual(server.file_find(path, env), {"path": "", "rel": ""})
        for answer in (server.list_now("files", long, ""), server.links_now(long, "")):
            self.assertEqual(len(self.value(answer)), 0)

        self.assertEqual(parse_path("end?index=" + "9" * 5000, "base"), ("end", "base", -1))
        self.assertEqual(parse_path("end?index=0", "base"), ("end", "base", 0))

    def value(self, answer: Any) -> Any:
        """What is at hand, or comes."""
        return self.successResultOf(maybeDeferred(lambda: answer))


class SentTests(SynchronousTestCase):
    """Trees that members send."""

    def test_links(self) -> None:
        """T-COST-2: a way of very many parts leads nowhere, and costs no more than others."""

        class Tree:
            """Counts who looks."""

            looks = 0

            def get(self, path: bytes) -> TreeEntry | None:
                self.looks += 1
                name = path.rpartition(b"/")[2]
                if name == b"a":
                    return TreeEntry(DIR, 0o755)
                if name == b"end":
                    return TreeEntry(FILE, 0o644)
                number = int(name)
                after = b"%d" % (number + 1) if number < 30 else b"end"
                return TreeEntry(LINK, 0o777, content=b"a/../" * 90 + after)

        found = {}
        for first in (b"30", b"27", b"0"):
            tree: Any = Tree()
            found[first] = resolve(tree, first, True)
            self.assertLessEqual(tree.looks, MOST_HOPS)

        self.assertEqual(found, {b"30": b"end", b"27": b"end", b"0": None})
