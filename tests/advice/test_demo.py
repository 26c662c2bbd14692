"""
What the demonstration tells, word by word.
"""

from __future__ import annotations

import os

from twisted.trial.unittest import SynchronousTestCase

from saltwisted import advice
from tests.advice.carrying import Shell, printed
from tests.harness import scratch


class DemoTests(SynchronousTestCase):
    """Daemons that are left running."""

    def test_keep(self) -> None:
        """Each line that is told does what one expects, and the last one ends all."""
        place = scratch(self)
        shell = Shell(self, TMPDIR=place)

        said = shell.run(advice.command("demo.keep"), seconds=150)
        end = printed(said, "demo.end")
        self.addCleanup(shell.run, f"{end} 2>/dev/null", allowed=(0, 1))

        for row, text in (
            ("demo.ping", "demo-1:\n    True"),
            ("demo.keys", "demo-1"),
            ("demo.jobs", "Function:"),
            ("demo.grains", "os:"),
        ):
            self.assertIn(text, shell.run(printed(said, row)), row)
        shell.run(end)
        self.assertEqual(os.listdir(place), [])
