"""Salt's C{locale.gen_locale}, whose steps depend on what is installed."""

from __future__ import annotations

import os
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.worker import systools
from saltwisted.worker.exceptions import CommandExecutionError
from tests.modules.harness import Commands, load


class GenerateTests(SynchronousTestCase):
    """A locale is looked up, written down and made."""

    def setUp(self) -> None:
        self.edits: list[Any] = []
        self.known = True
        self.programs = ["locale-gen"]
        self.commands = Commands()
        self.patch(systools, "which", lambda name: name if name in self.programs else None)
        self.patch(os.path, "exists", lambda path: path == "/etc/locale.gen")
        salt = {
            **self.commands.salt(),
            "file.search": lambda path, pattern, **_: self.known,
            "file.replace": lambda *args, **kwargs: self.edits.append(args),
        }
        self.locale = load("localemod", salt=salt)

    def test_debian(self) -> None:
        """Debian's list gets the name with its charmap, and the line that was a comment is it."""
        self.assertTrue(self.locale.gen_locale("en_US.UTF-8"))

        full = "en_US.UTF-8 UTF-8"
        self.assertEqual(self.edits, [("/etc/locale.gen", rf"^\s*#\s*{full}\s*$", f"{full}\n")])
        self.assertEqual(self.commands.ran, [f"locale-gen {full}"])

    def test_unknown(self) -> None:
        """A locale that the system has no recipe for is not made."""
        self.known = False

        self.assertFalse(self.locale.gen_locale("xx_YY.UTF-8"))
        self.assertEqual((self.edits, self.commands.ran), ([], []))

    def test_localedef(self) -> None:
        """Without the script the compiler is called."""
        self.programs = ["localedef"]
        self.commands.answers["localedef"] = {"retcode": 1, "stderr": "no"}

        found = self.locale.gen_locale("de_DE.UTF-8", verbose=True)

        self.assertEqual(found["stderr"], "no")
        self.assertEqual(
            self.commands.ran,
            ["localedef --force -i de_DE -f UTF-8 de_DE.UTF-8 --verbose"],
        )

    def test_neither(self) -> None:
        """Without either there is an error that says so."""
        self.programs = []

        error = self.assertRaises(CommandExecutionError, self.locale.gen_locale, "de_DE.UTF-8")

        self.assertIn('"locale-gen" or "localedef" was not found', str(error))
