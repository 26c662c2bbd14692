"""
What is in a backup, and what a restore leaves alone; the daemons' part is in C{tests.care}.
"""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cli.progress import Counter
from saltwisted.tools.backup import backup, restore
from saltwisted.worker.process.configio import load_from_disk
from tests.harness import scratch, write_config


class BackupTests(SynchronousTestCase):
    """A master's directories, without a master."""

    def setUp(self) -> None:
        self.home = scratch(self)
        self.roots = Path(self.home, "cache/saltwisted/roots")
        self.roots.mkdir(parents=True)
        self.keys = Path(self.home, "pki/minions")
        self.keys.mkdir(parents=True)
        Path(self.keys, "web1").write_text("key")
        Path(self.roots, "pack").write_bytes(b"x" * 1000)
        values = {"id": "m", "pki_dir": f"{self.home}/pki", "cachedir": f"{self.home}/cache"}
        write_config(f"{self.home}/etc/master", values)
        self.config = load_from_disk("master", f"{self.home}/etc").master
        self.file = f"{self.home}/backup.tgz"

    def names(self) -> set[str]:
        """The base names in the backup, as any tar reads it."""
        with tarfile.open(self.file) as archive:
            return {os.path.basename(member.name) for member in archive}

    def test_roots(self) -> None:
        """The generations of roots are in it only when they are asked for."""
        backup(self.config, self.file)
        plain = self.names()
        backup(self.config, self.file, roots=True)

        self.assertEqual(plain, {"manifest.json", "master", "web1"})
        self.assertEqual(self.names(), {*plain, "pack"})

    def test_left_alone(self) -> None:
        """A restore takes away what came later, but not the roots that the backup left out."""
        backup(self.config, self.file)
        Path(self.keys, "web1").write_text("other")
        Path(self.keys, "late").write_text("late")

        restore(self.file, False)

        self.assertEqual(Path(self.keys, "web1").read_text(), "key")
        self.assertEqual(os.listdir(self.keys), ["web1"])
        self.assertTrue(Path(self.roots, "pack").exists())

    def test_many(self) -> None:
        """Files go in one by one and come back in one reading: a thousand need no second copy."""
        for number in range(1000):
            Path(self.keys, f"m{number}").write_bytes(os.urandom(300))
        heard: list[tuple[int, int]] = []
        before = {path.name: path.read_bytes() for path in self.keys.iterdir()}

        backup(self.config, self.file, say=lambda files, size: heard.append((files, size)))
        for path in self.keys.iterdir():
            path.unlink()
        restore(self.file, False)

        self.assertEqual([files for files, _ in heard], list(range(1, 1003)))
        after = {path.name: path.read_bytes() for path in self.keys.iterdir()}
        self.assertEqual(after, before)


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        """It is one."""
        return True


class CounterTests(SynchronousTestCase):
    """The line that counts."""

    def test_counts(self) -> None:
        """On a terminal it counts and is wiped; a file, and what is quick, see nothing."""
        screen, file, quick = Screen(), io.StringIO(), Screen()
        for stream, after in ((screen, 0.0), (file, 0.0), (quick, 60.0)):
            counter = Counter("{} files", stream, after)
            counter.show(1)
            counter.end()

        self.assertEqual(screen.getvalue(), "\r1 files\r\033[K")
        self.assertEqual((file.getvalue(), quick.getvalue()), ("", ""))
