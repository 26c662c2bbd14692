"""
Singular, plural, and lists in sentences.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.words import HAVE, WERE, are, counted, listed

SOURCE = Path(__file__).resolve().parents[2] / "saltwisted"
SALTS = ("config/gitpillar.py", "worker/pillar/git.py", "domain/highstate/sls.py")
"""Where Salt's own words have it."""


class WordsTests(SynchronousTestCase):
    """What sentences are put together from."""

    def test_counted(self) -> None:
        """One is singular, all else is plural, and nothing is a word."""
        self.assertEqual(counted(1, "conflict"), "1 conflict")
        self.assertEqual(counted(2, "conflict"), "2 conflicts")
        self.assertEqual(counted(0, "conflict"), "no conflicts")
        self.assertEqual(counted(3, "entry", "entries"), "3 entries")
        self.assertEqual(counted(1, "entry", "entries"), "1 entry")

    def test_verbs(self) -> None:
        """The verb goes with the number."""
        self.assertEqual(are(1, "path"), "1 path is")
        self.assertEqual(are(0, "path"), "no paths are")
        self.assertEqual(are(2, "entry", "entries", WERE), "2 entries were")
        self.assertEqual(are(1, "minion", verbs=HAVE), "1 minion has")

    def test_everywhere(self) -> None:
        """No text of ours leaves it to the reader whether it is one or many."""
        found = []
        for path in sorted(SOURCE.rglob("*.py")):
            name = str(path.relative_to(SOURCE))
            if name.startswith(("modules/", "states/")) or name in SALTS:
                continue
            source = path.read_text()
            if not re.search(r"\((s|es|ies)\)", source):
                continue
            for node in ast.walk(ast.parse(source)):
                text = node.value if isinstance(node, ast.Constant) else ""
                if isinstance(text, str) and re.search(r"[a-z]\((s|es|ies)\)", text):
                    found.append(f"{name}:{node.lineno}: {text[:60]}")

        self.assertEqual(found, [])

    def test_listed(self) -> None:
        """Commas, and a word before the last."""
        self.assertEqual(listed([]), "")
        self.assertEqual(listed(["a"]), "a")
        self.assertEqual(listed(["a", "b"]), "a and b")
        self.assertEqual(listed(["a", "b", "c"], "or"), "a, b or c")
