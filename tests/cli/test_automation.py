"""
C{saltwisted reactor test} and C{saltwisted automation}: what is asked of the master, and shown.
"""

from __future__ import annotations

import json
from typing import Any

from saltwisted.cli.status import SERVING, judge
from tests.cli.support import CommandTestCase, Refusal, Result
from tests.cli.test_status import MASTER

FOUND = {
    "tag": "a/b",
    "entries": [{"tag": "a/*", "sls": ["/r.sls"]}],
    "reactions": [
        {
            "kind": "local",
            "fun": "test.arg",
            "id": "one",
            "sls": "/r.sls",
            "load": {"tgt": "web*", "tgt_type": "glob", "arg": [1, {"__kwarg__": True, "i": "x"}]},
        },
        {
            "kind": "runner",
            "fun": "test.arg",
            "id": "two",
            "sls": "/r.sls",
            "arg": [],
            "kwarg": {"j": 2},
        },
    ],
    "problems": [],
}
STATUS = {
    "entries": 2,
    "problems": ["reactor, a: /r.sls, line 3: arg must be a list"],
    "depth": 4,
    "oldest": 1.5,
    "running": 1,
    "figures": {"reacted": 7, "lost:hwm": 2, "lost:old": 1, "failed": 1},
    "paused": {"by": "root", "since": 1_800_000_000.0},
}


class AutomationTests(CommandTestCase):
    """Both commands."""

    def asked(self, found: Any, *words: str) -> tuple[Result, list[tuple[str, dict[str, Any]]]]:
        """Run C{saltwisted}; its result, and what the daemon was asked."""

        def answer(args: dict[str, Any]) -> Any:
            if isinstance(found, Exception):
                raise found
            return found

        names = ("reactor.test", "automation.pause", "automation.resume", "automation.status")
        daemon = self.daemon(**dict.fromkeys(names, answer))
        return self.command(words[0], *words[1:]), daemon.asked

    def test_shown(self) -> None:
        """Each call is a line with its target and arguments."""
        result, asked = self.asked(FOUND, "reactor", "test", "a/b", "--data", '{"i": 1}')

        self.assertEqual(asked, [("reactor.test", {"tag": "a/b", "data": {"i": 1}})])
        self.assertEqual(result.status, 0)
        self.assertIn("  one: local.test.arg on 'web*' (glob) 1 i='x'\n", result.out)
        self.assertIn("  two: runner.test.arg j=2\n", result.out)

    def test_problems(self) -> None:
        """What is wrong goes to standard error, and the status is 1."""
        wrong = {"sls": "/r.sls", "id": "x", "error": "needs tgt"}

        result, _ = self.asked({**FOUND, "problems": [wrong]}, "reactor", "test", "a/b")

        self.assertEqual(result.status, 1)
        self.assertEqual(result.err, "/r.sls, x: needs tgt\n")

    def test_no_entry(self) -> None:
        """An event that nothing matches is said to be one."""
        nothing = {**FOUND, "entries": [], "reactions": []}

        result, _ = self.asked(nothing, "reactor", "test", "a/b")

        self.assertEqual(result.out, "No entry of reactor matches 'a/b'.\n")

    def test_wrong_data(self) -> None:
        """Data that is no map is refused before the master is asked."""
        for data in ("[1]", "{"):
            result, asked = self.asked_once(FOUND, "reactor", "test", "a", "--data", data)
            self.assertNotEqual(result.status, 0)
            self.assertIn("--data", result.err)
            self.assertEqual(asked, [])

    def asked_once(self, found: Any, *words: str) -> tuple[Result, list[Any]]:
        """As L{asked}, without a daemon: nobody is asked."""
        return self.command(words[0], *words[1:]), []

    def test_refused(self) -> None:
        """What the master refuses is a sentence."""
        refusal = Refusal("CommandExecutionError", "reactor system is not running.")

        result, _ = self.asked(refusal, "reactor", "test", "a")

        self.assertNotEqual(result.status, 0)
        self.assertIn("Reactor system is not running.", result.err)

    def test_pause(self) -> None:
        """Pausing twice says who was first."""
        done = {"changed": False, "paused": STATUS["paused"]}

        result, asked = self.asked(done, "automation", "pause")

        self.assertEqual(asked, [("automation.pause", {})])
        self.assertIn("Automation is paused by root since ", result.out)

    def test_resume(self) -> None:
        """Going on says so."""
        result, _ = self.asked({"changed": True, "paused": None}, "automation", "resume")

        self.assertEqual(result.out, "Automation goes on.\n")

    def test_status(self) -> None:
        """Depth, age, figures and mistakes, for people and for scripts."""
        result, _ = self.asked(STATUS, "automation", "status")

        self.assertIn("reactor: 2 entries, 4 waiting (the oldest for 1.5 s), 1 run", result.out)
        self.assertIn("  lost:hwm: 2\n", result.out)
        self.assertIn("line 3: arg must be a list", result.out)

    def test_json(self) -> None:
        """C{--json} is the master's answer."""
        result, _ = self.asked(STATUS, "automation", "status", "--json")

        self.assertEqual(json.loads(result.out), STATUS)

    def test_wrong_word(self) -> None:
        """Another word is refused."""
        result = self.command("automation", "stop")

        self.assertNotEqual(result.status, 0)
        self.assertIn("pause, resume or status", result.err)

    def test_in_status(self) -> None:
        """C{saltwisted status} has the pause, the depth and what was lost."""
        code, why = judge({**MASTER, "reactor": STATUS})

        self.assertEqual(code, SERVING)
        self.assertIn("paused by root", why[1])
        self.assertEqual(
            why[2], "reactor: 4 waiting, the oldest for 1.5 s; 3 events lost, 1 failure"
        )
        self.assertIn("1 mistake in its entries", why[3])
