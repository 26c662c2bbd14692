"""
State runs against the answers of stock that were written down, and what they cost.

The cases are those of C{tests/interop/differential}; here they run in this process, without
a stock Salt, and without those that take seconds.
"""

from __future__ import annotations

import os

from twisted.trial.unittest import SynchronousTestCase

from tests.interop.differential import runner
from tests.sim.play import count

SLOW = frozenset(("states/cmd-run", "running/parallel-limited", "wrong/retry-types"))

AS_ROOT = frozenset(
    ("files/managed", "files/links-and-removal", "formulas/nginx", "machine/archive")
)
"""Cases that give files away, or name their owner."""


class RecordedTests(SynchronousTestCase):
    """The compiler and the run, judged by stock's recorded answers."""

    def _check(self, part: str) -> None:
        answers = runner.recorded()
        passed_over = SLOW if os.getuid() == 0 else SLOW | AS_ROOT
        names = [n for n in answers if n.startswith(f"{part}/") and n not in passed_over]
        self.assertTrue(names)
        # All of them where the peers are, of which there are minutes' worth of tests anyway
        names = names[:: count(3, 1, 1)]
        # The shell of commands is that of whoever runs the minion
        self.patch(os, "environ", {**os.environ, "SHELL": "/bin/bash"})

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

    def test_arguments(self) -> None:
        """The seldom used arguments of states, and wrong ones, do what they do in stock."""
        self._check("arguments")

    def test_files(self) -> None:
        """Files, directories and links come out as stock makes them."""
        self._check("files")

    def test_formulas(self) -> None:
        """Formulas such as people write give stock's results."""
        self._check("formulas")

    def test_pillar(self) -> None:
        """Pillar is merged, included, overridden and reported as in stock."""
        self._check("pillar")

    def test_renderers(self) -> None:
        """Templates and pipes render what they render in stock, errors included."""
        self._check("renderers")

    def test_small(self) -> None:
        """Small states and functions answer as stock's."""
        self._check("small")

    def test_targets(self) -> None:
        """Matchers choose the states they choose in stock."""
        self._check("targets")

    def test_wrong(self) -> None:
        """Wrong arguments, types and modules are told of in stock's words."""
        self._check("wrong")

    def test_every_case_is_recorded(self) -> None:
        """No case lacks the answer of stock, but for those that each machine answers again."""
        known = runner.recorded()
        lacking = [n for n, c in runner.cases() if n not in known and "live" not in c]
        self.assertEqual(lacking, [])

    def test_stateconf(self) -> None:
        """The renderer C{stateconf}: names of a file's own, values, order, options."""
        self._check("stateconf")

    def test_saltcheck(self) -> None:
        """Tests beside states, all of them, one state's, and those that fail."""
        self._check("saltcheck")

    def test_every_part_is_checked(self) -> None:
        """There is a test here for each file of cases."""
        parts = {name.partition("/")[0] for name, _ in runner.cases()}
        self.assertEqual([p for p in parts if not hasattr(self, f"test_{p}")], [])
