"""
State runs against the answers of stock that were written down, and what they cost.

The cases are those of C{tests/interop/differential}; here they run in this process, without
a stock Salt, and without those that take seconds.
"""

from __future__ import annotations

import logging

from twisted.trial.unittest import SynchronousTestCase

from tests.interop.differential import runner

SLOW = frozenset(("states/cmd-run", "running/parallel-limited"))


class RecordedTests(SynchronousTestCase):
    """The compiler and the run, judged by stock's recorded answers."""

    def setUp(self) -> None:
        """What modules log belongs to no test's output."""
        logging.disable(logging.CRITICAL)
        self.addCleanup(logging.disable, logging.NOTSET)

    def _check(self, part: str) -> None:
        answers = runner.recorded()
        names = [n for n in answers if n.startswith(f"{part}/") and n not in SLOW]
        self.assertTrue(names)

        found = runner.compare_recorded(names)

        texts = [f"== {name}\n{runner.explained(*pair)}" for name, pair in found.items()]
        self.assertEqual(texts, [], "\n" + "\n".join(texts))

    def test_requisites(self) -> None:
        """Every requisite in every form lets states run, or not, as in stock."""
        self._check("requisites")

    def test_compiler(self) -> None:
        """Includes, extensions, names, broken files: high data and errors are stock's."""
        self._check("compiler")

    def test_tops(self) -> None:
        """Top files of several environments give a minion what they give it in stock."""
        self._check("tops")

    def test_running(self) -> None:
        """Conditions, repetition, parallel states and custom modules behave as in stock."""
        self._check("running")

    def test_states(self) -> None:
        """The states test, cmd and module answer as stock's."""
        self._check("states")

    def test_machine(self) -> None:
        """Archives, checkouts, keys and schedules are made in a directory as by stock."""
        self._check("machine")

    def test_every_case_is_recorded(self) -> None:
        """
        No case lacks the answer of stock, but for those that each machine answers anew, and for
        the parts that are judged beside a stock Salt alone.
        """
        known = runner.recorded()
        parts = {name.partition("/")[0] for name in known}
        lacking = [n for n, c in runner.cases() if n not in known and "live" not in c]
        self.assertEqual([n for n in lacking if n.partition("/")[0] in parts], [])
