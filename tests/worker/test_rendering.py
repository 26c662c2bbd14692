"""
The process that renders reactions: what it is before it renders the first one.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.worker.automation import work


class NicenessTests(SynchronousTestCase):
    """C{reactor_niceness}."""

    def niceness(self, **opts: Any) -> list[int]:
        """By how much a process lowers its own priority in two calls."""
        found: list[int] = []
        self.patch(work, "_rendering", None)
        self.patch(work, "Rendering", lambda opts, daemon: SimpleNamespace(react=lambda events: []))
        self.patch(work.os, "nice", found.append)
        for _ in range(2):
            work.serve({"do": "react", "events": []}, None, {"opts": opts})
        return found

    def test_set(self) -> None:
        """The process has it before it renders the first SLS, and does not add it up."""
        self.assertEqual(self.niceness(reactor_niceness=7), [7])

    def test_not_set(self) -> None:
        """Without the option it stays as its parent is."""
        self.assertEqual(self.niceness(reactor_niceness=None), [])
