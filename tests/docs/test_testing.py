"""
C{docs/testing.md}: what it shows works, and every fake is shown.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "testing.md"


def sections(page: str) -> dict[str, str]:
    """Heading to all Python of that section."""
    found: dict[str, str] = {}
    for part in re.split(r"^(?=## )", page, flags=re.M):
        blocks = re.findall(r"^```python\n(.*?)^```$", part, re.M | re.S)
        if blocks:
            found[part.partition("\n")[0].strip("# ")] = "\n".join(blocks)
    return found


class TestingPageTests(SynchronousTestCase):
    """The page for other people's tests."""

    def test_works(self) -> None:
        """Each section can be copied into a test as it stands, and what it claims holds."""
        shown = sections(PAGE.read_text())

        for heading, source in shown.items():
            names: dict[str, Any] = {}
            exec(compile(source, f"{PAGE}: {heading}", "exec"), names)
            self.assertIn("\nassert ", source, heading)

        self.assertGreater(len(shown), 0)

    def test_whole(self) -> None:
        """Every public class of C{saltwisted.testing} is used on the page."""
        classes = {
            node.name
            for path in (ROOT / "saltwisted" / "testing").glob("*.py")
            for node in ast.parse(path.read_text()).body
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        }
        code = "\n".join(sections(PAGE.read_text()).values())

        self.assertEqual({n for n in classes if not re.search(rf"\b{n}\(", code)}, set())
        self.assertGreater(len(classes), 0)
