"""
The files that share a block of logrotate.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.modules import harness


def _replace(path: str, pattern: str, repl: str, flags: int, **words: Any) -> bool:
    """What C{file.replace} does for these calls."""
    file = Path(path)
    text, count = re.subn(pattern, repl, file.read_text(), flags=flags)
    if not count:
        text += f"{repl}\n"
    file.write_text(text)
    return True


class NamesTests(SynchronousTestCase):
    """Blocks with several names, however these are written."""

    def setUp(self) -> None:
        self.module: Any = harness.load("logrotate", salt={"file.replace": _replace})
        self.path = Path(self.mktemp())

    def _shown(self, text: str) -> Any:
        self.path.write_text(text)
        return self.module.show_conf(str(self.path))

    def test_names(self) -> None:
        """Each name has the block: on lines of their own, on one line, on the line of the brace."""
        block = {"missingok": True, "rotate": 3}
        for names in ("/a\n/b\n/c\n{", "/a /b\n/c\n{", "/a\n/b /c {", "/a /b /c\n{", "/a /b /c{"):
            shown = self._shown(f"weekly\ncompress\n{names}\n missingok\n rotate 3\n}}\ndateext\n")
            directives = {"weekly": True, "compress": True, "dateext": True}
            self.assertEqual(shown, {**directives, "/a": block, "/b": block, "/c": block})

    def test_notNames(self) -> None:
        """A directive above a block is not one of its names, and names without a block are kept."""
        shown = self._shown("compress\n{\n rotate 1\n}\n/x\n")

        self.assertEqual(shown, {"compress": True, "/x": True})

    def test_set(self) -> None:
        """A setting is changed for all names of its block; no name and no other block is lost."""
        self._shown("/a\n/b\n{\n rotate 3\n}\n/ab {\n rotate 1\n}\n/var/*.log {\n rotate 2\n}\n")
        path = str(self.path)

        self.module.set_("/b", "rotate", 5, conf_file=path)
        self.module.set_("/var/*.log", "rotate", 6, conf_file=path)
        self.module.set_("/new", "rotate", 7, conf_file=path)

        expected = {"/a": 5, "/b": 5, "/ab": 1, "/var/*.log": 6, "/new": 7}
        shown = self.module.show_conf(path)
        self.assertEqual(shown, {name: {"rotate": number} for name, number in expected.items()})

    def test_script(self) -> None:
        """Braces and backslashes of a script stay where they are."""
        script = "postrotate\n  a ${x} \\\\1 b\n endscript\n"
        self._shown(f"/a {{\n rotate 3\n {script}}}\nweekly\n")
        path = str(self.path)

        self.module.set_("/a", "rotate", 5, conf_file=path)

        block = {"rotate": 5, "postrotate": ["a ${x} \\\\1 b"]}
        self.assertEqual(self.module.show_conf(path), {"/a": block, "weekly": True})
