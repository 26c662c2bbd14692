"""
Stock Salt is the judge: every case of C{cases/} on both sides, compared field by field.
"""

from __future__ import annotations

import os

from twisted.trial.unittest import SynchronousTestCase

from tests.harness import needs_peers, peer_venv
from tests.interop.differential.runner import cases, compare, explained

LONG = os.environ.get("SALTWISTED_LONG") == "1"
EACH = 12


@needs_peers
class DifferentialTests(SynchronousTestCase):
    """Trees and commands given to stock's C{salt-call --local} and to ours."""

    timeout = 1800

    def test_all_cases(self) -> None:
        """
        Our results, errors, order and exit codes are those of stock 3008.

        All cases with C{SALTWISTED_LONG=1}; else each twelfth, and those whose answers each
        machine gives again: C{tests.worker.test_states} compares all others with what the same
        release of stock said to them.
        """
        python = os.path.join(peer_venv("3008"), "bin", "python")
        names = [
            name
            for number, (name, case) in enumerate(cases())
            if LONG or "live" in case or number % EACH == 0
        ]

        found = compare(python, names)

        texts = [f"== {name}\n{explained(*pair)}" for name, pair in found.items()]
        self.assertEqual(texts, [], "\n" + "\n".join(texts))

    def test_enough_cases(self) -> None:
        """There are at least 150 cases, each with a name of its own."""
        names = [name for name, _ in cases()]

        self.assertGreaterEqual(len(names), 150)
        self.assertEqual(len(names), len(set(names)))
