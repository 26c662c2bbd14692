"""
Files that the commands write, where others may write as well.
"""

from __future__ import annotations

import os
import stat

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.worker.freshfile import beside, fresh, fresh_link, private


class FreshTests(SynchronousTestCase):
    """T-TMP-1 for commands and workers."""

    def setUp(self) -> None:
        """A directory, and a file that is somebody's."""
        self.folder = self.mktemp()
        os.mkdir(self.folder)
        self.path = os.path.join(self.folder, "a")
        self.victim = self.put("victim", "safe")

    def put(self, name: str, text: str) -> str:
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def read(self, path: str) -> str:
        with open(path, encoding="utf-8") as file:
            return file.read()

    def test_T_TMP_1_planted(self) -> None:
        """T-TMP-1: a link under either name, even under one that was guessed, is not followed."""
        os.symlink(self.victim, self.path)
        with fresh(self.path) as file:
            file.write(b"new")
        self.assertEqual(self.read(self.path), "new")
        self.assertFalse(os.path.islink(self.path))

        self.patch(os, "urandom", bytes)
        for plant in (os.symlink, os.link):
            plant(self.victim, beside(self.path))
            with self.assertRaises(FileExistsError), fresh(self.path) as file:
                file.write(b"more")
            with self.assertRaises(FileExistsError):
                fresh_link(self.path, "x")
            os.unlink(beside(self.path))
        os.symlink(self.victim, beside(self.path))
        self.assertRaises(FileExistsError, private, beside(self.path))

        self.assertEqual(self.read(self.victim), "safe")
        self.assertEqual(self.read(self.path), "new")

    def test_T_TMP_1_random(self) -> None:
        """T-TMP-1: the name in between has 64 random bits, and is another each time."""
        names = {beside(self.path) for _ in range(20)}
        self.assertEqual(len(names), 20)
        self.assertEqual({os.path.dirname(name) for name in names}, {self.folder})
        self.assertGreater(len({name[-20:-18] for name in names}), 5)
        self.assertLessEqual(len(os.path.basename(beside("x" * 255))), 255)

    def test_modes(self) -> None:
        """A file is its owner's alone until it is whole, and then has the mode that was asked."""
        self.addCleanup(os.umask, os.umask(0))
        with fresh(self.path, 0o644) as file:
            self.assertEqual(stat.S_IMODE(os.fstat(file.fileno()).st_mode), 0o600)
        self.assertEqual(stat.S_IMODE(os.stat(self.path).st_mode), 0o644)
        with fresh(self.path):
            pass
        self.assertEqual(stat.S_IMODE(os.stat(self.path).st_mode), 0o600)

    def test_failure(self) -> None:
        """What fails half-way changes nothing and leaves nothing."""
        self.put("a", "old")
        with self.assertRaises(ZeroDivisionError), fresh(self.path) as file:
            file.write(b"half")
            raise ZeroDivisionError
        os.mkdir(os.path.join(self.folder, "folder"))
        with self.assertRaises(OSError), fresh(os.path.join(self.folder, "folder")) as file:
            file.write(b"x")
        self.assertRaises(OSError, fresh_link, os.path.join(self.folder, "folder"), "x")

        self.assertEqual(self.read(self.path), "old")
        self.assertEqual(sorted(os.listdir(self.folder)), ["a", "folder", "victim"])

    def test_link(self) -> None:
        """A link takes the place of what was there."""
        os.symlink(self.victim, self.path)
        fresh_link(self.path, "elsewhere")
        self.assertEqual(os.readlink(self.path), "elsewhere")
