"""
The threat model in C{docs/security.md} and the ids in C{docs/threats.md} name tests that are there.
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


def carried(top: str) -> set[str]:
    """The ids in a tree of sources, but in this file."""
    found: set[str] = set()
    for path in (Path(ROOT) / top).rglob("*.py"):
        # What takes a defence out is not the test that notices it
        if path.name != Path(__file__).name and path.parent.name != "mutants":
            found |= ids(path.read_text(encoding="utf-8"))
    return found


class ThreatTests(SynchronousTestCase):
    """Ids."""

    def test_every_id_has_a_test(self) -> None:
        """Whatever id the page names, some test has in its name or its words."""
        named = self.page("security") | self.page("threats")

        self.assertGreater(len(named), 40)
        self.assertEqual(named - carried("tests"), set())

    def test_every_id_is_explained(self) -> None:
        """Whatever id the model, the code or a test names, the page of ids explains, once."""
        explained = re.findall(r"^\| (T-[A-Z]+-[0-9]+) \|", self.text("threats"), re.M)
        used = self.page("security") | carried("tests") | carried("saltwisted")

        self.assertEqual(sorted(explained), sorted(set(explained)))
        self.assertEqual(used - set(explained), set())

    def text(self, name: str) -> str:
        """A page."""
        return (Path(ROOT) / "docs" / f"{name}.md").read_text(encoding="utf-8")

    def page(self, name: str) -> set[str]:
        """The ids on a page."""
        return ids(self.text(name))
