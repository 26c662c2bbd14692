"""
What recorded answers cannot show of C{saltcheck}: several states, JUnit, and processes that fail.
"""

from __future__ import annotations

import os
from typing import Any
from xml.etree import ElementTree

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.modules._saltcheck_asserts import as_junit
from saltwisted.worker.exceptions import CommandExecutionError
from saltwisted.worker.shares import shared
from tests.interop.differential.runner import Machine, here

PASS = "{module_and_function: test.ping, assertion: assertTrue}"
FAIL = "{module_and_function: test.ping, assertion: assertFalse}"


class SaltcheckTests(SynchronousTestCase):
    """C{saltcheck.run_state_tests}."""

    def answers(self, *commands: str, **opts: Any) -> list[dict[str, Any]]:
        case = {
            "files": {
                "top.sls": "base: {'*': [one, two]}\n",
                "one.sls": "o: {test.nop: []}\n",
                "two.sls": "include: [one]\nt: {test.nop: []}\n",
                "one/saltcheck-tests/init.tst": f"a: {PASS}\nb: {PASS}\nc: {PASS}\n",
                "two/saltcheck-tests/init.tst": f"d: {FAIL}\n",
            },
            "opts": opts,
            "run": list(commands),
        }
        folder = os.path.abspath(self.mktemp())
        os.makedirs(folder)
        return here(Machine(folder, "ours", case), case)

    def sums(self, answer: dict[str, Any]) -> Any:
        """What was counted, in the order of the answer."""
        told = dict(answer["return"][-1]["map"])["TEST RESULTS"]
        counts = dict(told["map"])
        return [counts[word] for word in ("Passed", "Failed", "Skipped", "Missing Tests")]

    def test_several(self) -> None:
        """All states that are named, or in the top file, are tested; stock 3008 tests one."""
        named, top = self.answers(
            "saltcheck.run_state_tests one,two,three", "saltcheck.run_highstate_tests"
        )

        self.assertEqual(self.sums(named), [3, 1, 0, 1])
        self.assertEqual(self.sums(top), [3, 1, 0, 0])
        self.assertEqual((named["status"], top["status"]), (1, 1))

    def test_shared(self) -> None:
        """Processes that share the tests find what one finds."""
        alone = self.answers("saltcheck.run_state_tests one,two")
        together = self.answers(
            "saltcheck.run_state_tests one,two", saltcheck_parallel=True, saltcheck_processes=2
        )

        self.assertEqual(str(alone[0]["return"]), str(together[0]["return"]))

    def test_junit(self) -> None:
        """The XML has each test, what failed or was left out, and the sums."""
        results = {
            "web": {
                "a": {"status": "Pass", "duration": 0.5},
                "b": {"status": "Fail: 1 < 2", "duration": 0.25},
                "c": {"status": "Skip", "duration": 0.0},
            },
            "db": {},
        }

        suite = ElementTree.fromstring(as_junit(results))[0]

        self.assertEqual(
            {key: suite.get(key) for key in ("tests", "failures", "skipped", "time")},
            {"tests": "4", "failures": "1", "skipped": "1", "time": "0.75"},
        )
        cases = {case.get("name"): [child.tag for child in case] for case in suite}
        self.assertEqual(
            cases, {"a": [], "b": ["failure"], "c": ["skipped"], "missing_test": ["system-out"]}
        )
        self.assertEqual(suite[1][0].get("message"), "Fail: 1 < 2")


class SharedTests(SynchronousTestCase):
    """C{shared}."""

    def test_order(self) -> None:
        """Answers are in the order of the items, each made in one of so many processes."""
        answers = shared(lambda item: [item, os.getpid()], list(range(7)), 3)

        self.assertEqual([item for item, _ in answers], list(range(7)))
        self.assertEqual(len({pid for _, pid in answers} - {os.getpid()}), 3)

    def test_failures(self) -> None:
        """A process that fails, or is killed, ends the work with the reason, and none stays."""

        def fails(item: int) -> int:
            return 1 // item

        def dies(item: int) -> int:
            os.kill(os.getpid(), 9)
            return item

        error = self.assertRaises(CommandExecutionError, shared, fails, [1, 0], 2)
        self.assertIn("ZeroDivisionError", str(error))
        error = self.assertRaises(CommandExecutionError, shared, dies, [1, 0], 2)
        self.assertIn("without an answer", str(error))
        self.assertRaises(ChildProcessError, os.waitpid, -1, os.WNOHANG)


class AssertionTests(SynchronousTestCase):
    """One test's assertions."""

    def test_unknown(self) -> None:
        """An unknown assertion among others fails by itself; stock ends with an exception."""
        case = {
            "run": [
                "saltcheck.run_test test='{module_and_function: test.arg, args: [x], assertions:"
                " [{assertion: nosuch, expected_return: 1}, {assertion: assertNotEmpty}]}'"
            ]
        }
        folder = os.path.abspath(self.mktemp())
        os.makedirs(folder)

        (answer,) = here(Machine(folder, "ours", case), case)

        told = str(answer["return"])
        self.assertIn("Fail - bad assertion", told)
        self.assertIn("['status', 'Fail']", told)
