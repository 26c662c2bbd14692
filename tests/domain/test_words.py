"""
Singular, plural, and lists in sentences.
"""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.words import HAVE, WERE, are, counted, listed


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

    def test_listed(self) -> None:
        """Commas, and a word before the last."""
        self.assertEqual(listed([]), "")
        self.assertEqual(listed(["a"]), "a")
        self.assertEqual(listed(["a", "b"]), "a and b")
        self.assertEqual(listed(["a", "b", "c"], "or"), "a, b or c")
