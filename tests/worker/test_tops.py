"""
C{master_tops} through a program that classifies nodes.
"""

from __future__ import annotations

import os
import stat

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.worker.pillar.tops import master_tops


class ExtNodesTests(SynchronousTestCase):
    """What a program's output assigns."""

    def program(self, prints: str) -> dict[str, dict[str, str]]:
        """Options that name a program which prints this."""
        path = os.path.abspath(self.mktemp())
        with open(path, "w") as handle:
            handle.write(f"#!/bin/sh\ncat <<EOF\n{prints}\nEOF\n")
        os.chmod(path, stat.S_IRWXU)
        return {"master_tops": {"ext_nodes": path}}

    def test_classes(self) -> None:
        """A list or a map of classes is assigned in the environment that is named."""
        listed = self.program("environment: dev\nclasses: [one, $1]")
        mapped = self.program("classes: {two: {a: 1}}")

        self.assertEqual(master_tops(listed, "web1"), {"dev": ["one", "web1"]})
        self.assertEqual(master_tops(mapped, "web1"), {"base": ["two"]})

    def test_failures(self) -> None:
        """A program that is missing, or prints no classes, assigns nothing."""
        for opts in (
            {"master_tops": {"ext_nodes": "/does/not/exist"}},
            self.program("- a list"),
            self.program("key: value"),
            self.program("bad: [yaml"),
            {"master_tops": {"cobbler": {}}},
            {},
        ):
            self.assertEqual(master_tops(opts, "web1"), {})
