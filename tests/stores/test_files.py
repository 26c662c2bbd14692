"""
Files are whole or not there, with the modes that were asked for.
"""

from __future__ import annotations

import os
import resource
import stat

from saltwisted.errors import StoreError
from saltwisted.stores.files import (
    make_dir,
    read_file,
    remove,
    sweep_temporary,
    write_atomic,
)
from tests.stores.support import FolderTestCase


class WriteTests(FolderTestCase):
    """write_atomic."""

    def test_modes_whatever_the_umask(self) -> None:
        """The mode is the one that was asked for, with the most hostile and the laxest umask."""
        for mask in (0o777, 0o077, 0):
            self.umask(mask)
            write_atomic(self.path(f"private{mask}"), b"x", 0o600)
            write_atomic(self.path(f"public{mask}"), b"x", 0o644, sync=False)
            make_dir(self.path(f"dir{mask}", "sub"))
            make_dir(self.path(f"open{mask}"), 0o755)
            modes = self.modes()
            self.assertEqual(modes[f"private{mask}"], 0o600)
            self.assertEqual(modes[f"public{mask}"], 0o644)
            self.assertEqual(modes[f"dir{mask}/sub"], 0o700)
            self.assertEqual(modes[f"open{mask}"], 0o755)

    def test_T_FS_1_on_the_way(self) -> None:
        """T-FS-1: nobody else can open a file in between, whatever the umask: it begins private."""
        self.umask(0)
        seen: list[int] = []
        real = os.fchmod

        def watched(fd: int, mode: int) -> None:
            seen.append(stat.S_IMODE(os.fstat(fd).st_mode))
            real(fd, mode)

        self.patch(os, "fchmod", watched)
        write_atomic(self.path("a"), b"x", 0o644)

        self.assertEqual((seen, self.modes()["a"]), ([0o600], 0o644))

    def test_replaces(self) -> None:
        """A file is replaced by a new one: whoever has the old one open keeps the old content."""
        path = self.write("a", b"old")
        with open(path, "rb") as reader:
            write_atomic(path, b"new")

            self.assertEqual(reader.read(), b"old")
        self.assertEqual(read_file(path), b"new")
        self.assertEqual(os.listdir(self.folder), ["a"])

    def test_T_FS_1_full_disk(self) -> None:
        """A disk that takes no more is an error with the path; the old file stays as it was."""
        path = self.write("a", b"old")
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_FSIZE, (soft, hard))
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))

        error = self.assertRaises(StoreError, write_atomic, path, b"x" * 5000)

        self.assertEqual(error.path, path)
        self.assertEqual(read_file(path), b"old")
        self.assertEqual(os.listdir(self.folder), ["a"])

    def test_no_directory(self) -> None:
        """A missing directory is an error, not a traceback of the system's."""
        self.assertRaises(StoreError, write_atomic, self.path("no", "a"), b"x")
        self.assertRaises(StoreError, make_dir, self.write("file") + "/sub")

    def test_T_TMP_1_planted_link(self) -> None:
        """T-TMP-1: a link under the final name is replaced, what it points to is not touched."""
        victim = self.write("victim", b"safe")
        os.symlink(victim, self.path("a"))

        write_atomic(self.path("a"), b"new")

        self.assertEqual(read_file(victim), b"safe")
        self.assertFalse(os.path.islink(self.path("a")))

    def test_T_TMP_1_planted_in_between(self) -> None:
        """T-TMP-1: who guesses the name in between gains nothing: what lies there is not used."""
        victim = self.write("victim", b"safe")
        self.patch(os, "urandom", bytes)
        os.symlink(victim, self.path(f".tmp-{bytes(8).hex()}"))

        self.assertRaises(StoreError, write_atomic, self.path("a"), b"new")

        self.assertEqual(read_file(victim), b"safe")
        self.assertFalse(os.path.lexists(self.path("a")))

    def test_T_TMP_1_random(self) -> None:
        """T-TMP-1: the name in between is another each time, of 64 random bits."""
        names: list[str] = []
        rename = os.rename
        self.patch(os, "rename", lambda old, new: names.append(old) or rename(old, new))
        for _ in range(20):
            write_atomic(self.path("a"), b"new")

        random = {os.path.basename(name).removeprefix(".tmp-") for name in names}
        self.assertEqual(len(random), 20)
        self.assertEqual({len(each) for each in random}, {16})
        self.assertGreater(len({each[:2] for each in random}), 5, "no counter")
        self.assertGreater(len({each[-2:] for each in random}), 5, "no number of a process")

    def test_leftovers(self) -> None:
        """What a killed write left is swept away, other dot files are not."""
        self.write(".tmp-0123456789abcdef", b"half")
        self.write(".key_cache", b"x")

        self.assertEqual(sweep_temporary(self.folder), 1)
        self.assertEqual(os.listdir(self.folder), [".key_cache"])
        self.assertEqual(sweep_temporary(self.path("missing")), 0)


class ReadTests(FolderTestCase):
    """read_file and remove."""

    def test_missing(self) -> None:
        """No file is C{None}, and removing none is false."""
        self.assertIsNone(read_file(self.path("no")))
        self.assertIsNone(read_file(self.write("file") + "/below"))
        self.assertFalse(remove(self.path("no")))
        self.assertTrue(remove(self.path("file"), sync=True))

    def test_T_PATH_6_pipe(self) -> None:
        """T-PATH-6: a pipe or a directory is refused at once, and nobody waits for a writer."""
        os.mkfifo(self.path("pipe"))

        self.assertRaises(StoreError, read_file, self.path("pipe"))
        self.assertRaises(StoreError, read_file, self.folder)

    def test_limit(self) -> None:
        """More than the limit is not taken into memory, exactly the limit is."""
        path = self.write("a", b"12345")

        self.assertEqual(read_file(path, 5), b"12345")
        self.assertRaises(StoreError, read_file, path, 4)
        self.assertEqual(read_file(self.write("empty")), b"")
