"""
Files of the C{.ini} kind lose nothing when an option of theirs is set.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.modules import harness


class IndentedTests(SynchronousTestCase):
    """Files whose options are indented, as git writes them."""

    def setUp(self) -> None:
        self.ini: Any = harness.load("ini_manage", salt={}, opts={"test": False})
        self.path = Path(self.mktemp())

    def _set(self, text: str, sections: dict[str, Any]) -> str:
        self.path.write_text(text)
        self.ini.set_option(str(self.path), sections)
        return self.path.read_text()

    def test_firstOptions(self) -> None:
        """The first options of a section are options although they are indented."""
        after = self._set("[s]\n  a = 1\n  b = 2\nc = 3\n", {"s": {"c": 4}})

        self.assertEqual(after, "[s]\na = 1\nb = 2\nc = 4\n")

    def test_everyOption(self) -> None:
        """A file of git's is read whole; one option changes and all others stay."""
        text = '[core]\n\trepo = 1\n\tbare = false\n[remote "o"]\n\turl = x\n\tfetch = y\n'
        self.path.write_text(text)
        expected = {
            "core": {"repo": "1", "bare": "false"},
            'remote "o"': {"url": "x", "fetch": "y"},
        }
        self.assertEqual(self.ini.get_ini(str(self.path)), expected)

        after = self._set(text, {"core": {"bare": "true"}})

        expected["core"]["bare"] = "true"
        self.assertEqual(self.ini.get_ini(str(self.path)), expected)
        self.assertEqual(
            after, '[core]\nrepo = 1\nbare = true\n\n[remote "o"]\nurl = x\nfetch = y\n'
        )

    def test_aboveSections(self) -> None:
        """Indented options above the first section are kept, too."""
        after = self._set("  a = 1\nb = 2\n", {"b": 3})

        self.assertEqual(after, "a = 1\nb = 3\n")

    def test_belowComment(self) -> None:
        """A comment above the first option does not swallow it, as in stock it does."""
        after = self._set("[s]\n\t# note\n\n\ta = 1\n\tb = 2\n", {"s": {"a": 5}})

        self.assertEqual(self.ini.get_ini(str(self.path)), {"s": {"a": "5", "b": "2"}})
        self.assertEqual(after.count("a = "), 1)
        self.assertIn("# note", after)

    def test_continued(self) -> None:
        """Below an option a deeper line still belongs to its value, also behind a comment."""
        text = "[s]\na = 1\n  = more\n# note\n  b = 2\nc = 3\n"
        after = self._set(text, {"s": {"c": 4}})

        self.assertEqual(after, text.replace("c = 3", "c = 4"))
