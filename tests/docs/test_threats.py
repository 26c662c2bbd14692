"""
The threat model in C{docs/security.md} names tests that are there.
"""

from __future__ import annotations

import re
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.harness import ROOT

ID = re.compile(r"T[-_]([A-Z]+)[-_]([0-9]+)(?: to T-[A-Z]+-([0-9]+))?")


def ids(text: str) -> set[str]:
    """The ids in a text, ranges spelt out."""
    found = set()
    for family, first, last in ID.findall(text):
        for number in range(int(first), int(last or first) + 1):
            found.add(f"T-{family}-{number}")
    return found


class ThreatTests(SynchronousTestCase):
    """Ids."""

    def test_every_id_has_a_test(self) -> None:
        """Whatever id the page names, some test has in its name or its words."""
        page = (Path(ROOT) / "docs" / "security.md").read_text(encoding="utf-8")
        named = ids(page)
        tests = set()
        for path in (Path(ROOT) / "tests").rglob("test_*.py"):
            if path.name != Path(__file__).name:
                tests |= ids(path.read_text(encoding="utf-8"))

        self.assertGreater(len(named), 40)
        self.assertEqual(named - tests, set())
