"""
Where root saves, restores or copies what belongs to a service's user, that user leads it nowhere.
"""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.errors import StoreError
from saltwisted.tools import takeover
from saltwisted.tools.backup import add, backup, check_folders, restore
from saltwisted.worker.beneath import parent, reading
from saltwisted.worker.process.configio import load_from_disk
from tests.harness import scratch, write_config

NOBODY = 65534


class BeneathTests(SynchronousTestCase):
    """Below a directory, without links."""

    def setUp(self) -> None:
        self.home = scratch(self)
        self.top, self.outside = Path(self.home, "top"), Path(self.home, "outside")
        for folder in (self.top, self.outside):
            folder.mkdir()
        Path(self.outside, "secret").write_text("secret")

    def read(self, path: str) -> bytes | None:
        """What lies there, as a backup reads it."""
        with parent(str(self.top), f"{self.top}/{path}") as (folder, name):
            found = reading(name, folder)
            if found is None:
                return None
            with found:
                return found.read()

    def test_T_FS_2_reading(self) -> None:
        """T-FS-2: only regular files are read: no link, no pipe (nobody waits), no directory."""
        Path(self.top, "a").mkdir()
        Path(self.top, "a/file").write_text("x")
        os.symlink(f"{self.outside}/secret", f"{self.top}/link")
        os.link(f"{self.top}/a/file", f"{self.top}/hard")
        os.mkfifo(f"{self.top}/pipe")

        self.assertEqual(self.read("a/file"), b"x")
        self.assertEqual(self.read("hard"), b"x")
        for path in ("link", "pipe", "a", "none"):
            self.assertIsNone(self.read(path), path)

    def test_T_FS_2_directories(self) -> None:
        """T-FS-2: a link in the place of a directory is none, and neither is what is above."""
        os.symlink(self.outside, f"{self.top}/a")

        self.assertRaises(OSError, self.read, "a/secret")
        self.assertRaises(OSError, self.read, "../outside/secret")
        self.assertRaises(OSError, self.read, "..")

    def test_T_FS_2_made(self) -> None:
        """T-FS-2: a directory that is to be there takes the place of a link, which is not read."""
        os.symlink(self.outside, f"{self.top}/a")
        made: list[str] = []

        def note(folder: int, path: str) -> None:
            made.append(path)

        with parent(str(self.top), f"{self.top}/a/b/file", note) as (folder, name):
            os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=folder))

        self.assertEqual(made, [f"{self.top}/a", f"{self.top}/a/b"])
        self.assertFalse(os.path.islink(f"{self.top}/a"))
        self.assertTrue(os.path.exists(f"{self.top}/a/b/file"))
        self.assertEqual(os.listdir(self.outside), ["secret"])


class BackupTests(SynchronousTestCase):
    """Backup and restore, in directories of another user."""

    def setUp(self) -> None:
        self.home = scratch(self)
        self.cache, self.outside = Path(self.home, "m/cache"), Path(self.home, "outside")
        self.outside.mkdir()
        values = {"id": "m", "pki_dir": f"{self.home}/m/pki", "cachedir": str(self.cache)}
        Path(self.home, "m/pki").mkdir(parents=True)
        Path(self.home, "m/pki/master.pem").write_text("a key")
        Path(self.cache, "a/b").mkdir(parents=True)
        Path(self.cache, "a/b/passwd").write_text("planted")
        write_config(f"{self.home}/etc/master", values)
        self.config = load_from_disk("master", f"{self.home}/etc").master
        self.file = f"{self.home}/backup.tgz"

    def swap(self) -> None:
        """The directory of the planted file is a link to elsewhere now."""
        os.rename(f"{self.cache}/a/b", f"{self.cache}/a/c")
        os.symlink(self.outside, f"{self.cache}/a/b")

    def test_T_FS_2_restore(self) -> None:
        """T-FS-2: a link in the place of a directory of the backup leads a restore nowhere."""
        Path(self.outside, "passwd").write_text("root")
        backup(self.config, self.file)
        self.swap()

        _, changes = restore(self.file, False)

        self.assertEqual(Path(self.outside, "passwd").read_text(), "root")
        self.assertFalse(os.path.islink(f"{self.cache}/a/b"))
        self.assertEqual(Path(self.cache, "a/b/passwd").read_text(), "planted")
        self.assertFalse(os.path.exists(f"{self.cache}/a/c/passwd"))
        self.assertIn(("new", f"{self.cache}/a/b/passwd"), self.told(changes))

    def told(self, changes: Any) -> list[tuple[str, str]]:
        """A file that is the same behind the link counts as missing."""
        return [(each.what.replace("changed", "new"), each.path) for each in changes]

    def test_T_FS_2_backup(self) -> None:
        """T-FS-2: what is swapped for a link after the directory was read is not saved."""
        Path(self.outside, "passwd").write_text("root")
        scratch_folder = f"{self.home}/scratch"
        os.mkdir(scratch_folder)
        path = f"{self.cache}/a/b/passwd"
        self.swap()
        with tarfile.open(fileobj=io.BytesIO(), mode="w:gz") as archive:
            self.assertIsNone(add(archive, str(self.cache), path, scratch_folder))
            os.unlink(f"{self.cache}/a/b")
            os.mkdir(f"{self.cache}/a/b")
            os.mkfifo(path)
            self.assertIsNone(add(archive, str(self.cache), path, scratch_folder))
            os.unlink(path)
            os.symlink(f"{self.outside}/passwd", path)
            entry = add(archive, str(self.cache), path, scratch_folder)
        assert entry is not None
        self.assertEqual((entry.kind, entry.digest), ("link", f"{self.outside}/passwd"))

    def test_T_FS_2_modes(self) -> None:
        """T-FS-2: no file of a restore has the rights of its owner, whatever it had."""
        path = f"{self.cache}/a/b/passwd"
        os.chmod(path, 0o6755)
        manifest = backup(self.config, self.file)
        os.unlink(path)

        restore(self.file, False)

        self.assertEqual([e["mode"] for e in manifest["entries"] if e["path"] == path], [0o755])
        self.assertEqual(os.stat(path).st_mode & 0o7777, 0o755)

    def test_T_FS_2_folders(self) -> None:
        """T-FS-2: a backup that would replace a directory of the system is refused."""
        for folder in ("/", "/etc", "/etc/ssh", "/usr/bin", "/var/lib", "x", "/a/../etc", "//a/b"):
            self.assertRaises(StoreError, check_folders, [folder], "backup")
        for odd in (None, "/etc/salt", [None], [5], {"/etc/salt": 1}):
            self.assertRaises(StoreError, check_folders, odd, "backup")
        check_folders(["/etc/saltwisted", "/var/cache/saltwisted/master"], "backup")


class TakeoverTests(SynchronousTestCase):
    """The directories of keys, which are a service's."""

    def setUp(self) -> None:
        self.home = scratch(self)
        Path(self.home, "ssh").mkdir()
        Path(self.home, "ssh/id_rsa").write_text("secret")
        Path(self.home, "pki").mkdir()
        os.symlink(f"{self.home}/ssh", f"{self.home}/pki/minions")

    def test_T_FS_2_keys(self) -> None:
        """T-FS-2: a service's user has no files of root's taken for keys of minions."""
        if os.geteuid() == 0:
            os.lchown(f"{self.home}/pki/minions", NOBODY, NOBODY)
        else:
            self.patch(takeover.os, "geteuid", lambda: NOBODY)

        self.assertEqual(takeover.read_keys(f"{self.home}/pki"), {})

    def test_T_FS_2_link_of_ours(self) -> None:
        """T-FS-2: a link that root made, as for directories that masters share, is followed."""
        self.assertEqual(list(takeover.read_keys(f"{self.home}/pki")), [("minions", "id_rsa")])

    def test_T_FS_2_written(self) -> None:
        """T-FS-2: nothing is written through a link of the user whose directory it is."""
        writer = takeover.Writer("root" if os.geteuid() == 0 else os.environ.get("USER", "root"))
        writer.owner = None
        if os.geteuid() == 0:
            os.lchown(f"{self.home}/pki/minions", NOBODY, NOBODY)
        else:
            self.patch(takeover.os, "geteuid", lambda: NOBODY)

        self.assertRaises(OSError, writer.file, f"{self.home}/pki/minions/web1", b"key")

        self.assertEqual(os.listdir(f"{self.home}/ssh"), ["id_rsa"])
