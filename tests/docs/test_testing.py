"""
C{docs/testing.md}: what it shows works, and every fake is shown.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
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

    def test_trial(self) -> None:
        """What is shown as a file of tests is one: trial finds tests in it, and they pass."""
        shown = re.findall(r"^```python trial\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
        top = Path(self.mktemp()).resolve()
        top.mkdir()
        for number, source in enumerate(shown):
            (top / f"test_shown{number}.py").write_text(source)
            done = subprocess.run(
                [sys.executable, "-m", "twisted.trial", f"test_shown{number}"],
                cwd=top, env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{top}"},
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            )  # fmt: skip
            self.assertEqual(done.returncode, 0, done.stdout[-4000:])
            self.assertRegex(done.stdout, r"PASSED \(successes=[1-9]")
        self.assertEqual(len(shown), 1)

    def test_whole(self) -> None:
        """Every public class of C{saltwisted.testing} is used on the page."""
        classes = {
            node.name
            for path in (ROOT / "saltwisted" / "testing").glob("*.py")
            for node in ast.parse(path.read_text()).body
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        }
        code = "\n".join(re.findall(r"^```python[^\n]*\n(.*?)^```$", PAGE.read_text(), re.M | re.S))

        # A node is what a cluster has
        unshown = {name for name in classes if not re.search(rf"\b{name}\(", code)}
        self.assertEqual(unshown, {"LocalNode"})
        self.assertGreater(len(classes), 0)
