"""Archives that want more than to be unpacked."""

from __future__ import annotations

import os
import zipfile

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.worker.exceptions import CommandExecutionError
from tests.modules.harness import load


class UnzipTests(SynchronousTestCase):
    """Nothing comes to lie outside the directory that was named."""

    def setUp(self) -> None:
        self.folder = os.path.abspath(self.mktemp())
        os.mkdir(self.folder)
        self.archive = load("archive")
        self.dest = os.path.join(self.folder, "dest")
        os.mkdir(self.dest)

    def pack(self, *members: tuple[str, str, int]) -> str:
        path = os.path.join(self.folder, "x.zip")
        with zipfile.ZipFile(path, "w") as zipped:
            for name, content, mode in members:
                info = zipfile.ZipInfo(name)
                info.create_system = 3
                info.external_attr = mode << 16
                zipped.writestr(info, content)
        return path

    def check(self, *members: tuple[str, str, int]) -> None:
        path = self.pack(*members)
        self.assertRaises(CommandExecutionError, self.archive.unzip, path, self.dest)
        self.assertEqual(sorted(os.listdir(self.folder)), ["dest", "x.zip"])

    def test_above(self) -> None:
        """A name that leads upwards is refused, and nothing is written beside."""
        self.check(("../evil", "x", 0o100644))

    def test_absolute(self) -> None:
        """An absolute name is refused as well."""
        self.check((f"{self.folder}/evil", "x", 0o100644))

    def test_throughLink(self) -> None:
        """A link that leads out is no way for the members behind it."""
        self.check(("out", "..", 0o120777), ("out/evil", "x", 0o100644))

    def test_good(self) -> None:
        """Members and links that stay inside are unpacked."""
        path = self.pack(("d/a", "x", 0o100600), ("l", "d/a", 0o120777))

        self.archive.unzip(path, self.dest)

        self.assertEqual(os.readlink(os.path.join(self.dest, "l")), "d/a")
        self.assertEqual(os.stat(os.path.join(self.dest, "d/a")).st_mode & 0o777, 0o600)
