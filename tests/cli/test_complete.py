"""
What a shell's completion is offered.
"""

from __future__ import annotations

import io
import os
import sys

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cli import complete
from saltwisted.cli.main import COMMANDS


class CompleteTests(SynchronousTestCase):
    """C{saltwisted complete -- WORD...}: the last word is the one being typed."""

    def offered(self, *words: str, **environ: str) -> list[str]:
        """What is printed."""
        out = io.StringIO()
        self.patch(sys, "stdout", out)
        home = os.path.abspath(self.mktemp())
        status = complete.main(["--", *words], {"XDG_CACHE_HOME": home, **environ})
        self.assertEqual(status, 0)
        return out.getvalue().split()

    def test_commands(self) -> None:
        """The first word after the executable is a command, also by a path."""
        self.assertEqual(self.offered("/usr/bin/saltwisted", "takeo"), ["takeover"])
        self.assertIn("salt-key", self.offered("saltwisted", "salt"))

    def test_options(self) -> None:
        """Options are those of the parser, of every command; values are those it allows."""
        for name in COMMANDS:
            self.assertIn("--help", self.offered("saltwisted", name, "--h"), name)
        self.assertEqual(self.offered("salt", "--out", "js"), ["json"])
        self.assertEqual(self.offered("saltwisted", "status", "--role", "c"), ["cluster"])

    def test_functions(self) -> None:
        """Functions are known by the names by which they are called, and remembered."""
        self.assertEqual(self.offered("salt", "-t", "5", "web*", "test.pi"), ["test.ping"])
        self.assertIn("jobs.lookup_jid", self.offered("salt-run", "jobs.l"))
        names = complete.functions_of(
            "system_", "__virtualname__ = 'system'\n__func_alias__ = {'list_': 'list'}\n"
            "def list_(): ...\ndef _own(): ...\n",
        )  # fmt: skip
        self.assertEqual(names, ["system.list"])

    def test_functions_of_parts(self) -> None:
        """Functions of a module's parts, imported or loaded, are offered under its name."""
        self.assertEqual(self.offered("salt", "*", "file.basen"), ["file.basename"])
        names = complete.functions_of(
            "file",
            "__parts__ = (_one, '_two')\n__func_alias__ = {'copy_': 'copy'}\ndef own(): ...\n",
            {"_one": "def _no(): ...\ndef copy_(): ...\n", "_two": "def last(): ...\n"}.__getitem__,
        )
        self.assertEqual(names, ["file.copy", "file.last", "file.own"])

    def test_ids(self) -> None:
        """Ids of minions come from the key directories, each option from its own."""
        conf = os.path.abspath(self.mktemp())
        for folder, name in (("minions", "web1"), ("minions_pre", "web2")):
            os.makedirs(os.path.join(conf, "pki", folder))
            with open(os.path.join(conf, "pki", folder, name), "w", encoding="utf-8"):
                pass
        with open(os.path.join(conf, "master"), "w", encoding="utf-8") as stream:
            stream.write(f"root_dir: {conf}\npki_dir: /pki\n")

        self.assertEqual(self.offered("salt", "-c", conf, "w"), ["web1"])
        self.assertEqual(self.offered("salt-key", "-c", conf, "-a", "w"), ["web2"])
        self.assertEqual(self.offered("salt-key", "-c", conf, "-d", "w"), ["web1", "web2"])

    def test_nonsense(self) -> None:
        """What makes no sense offers nothing, and says nothing."""
        self.assertEqual(self.offered("saltwisted", "nonsense", ""), [])
        self.assertEqual(self.offered(), [])
        self.assertEqual(complete.main(["--", "salt", "-c", "\0", "w"], {}), 1)
