"""
C{saltwisted orch}: what is asked of the master, and shown.
"""

from __future__ import annotations

import json
from typing import Any

from saltwisted.cli import orch
from saltwisted.domain.orchestration.words import (
    begun_line,
    ended_line,
    interrupted_line,
    pack_line,
    read_run,
    result_line,
    step_line,
)
from tests.cli.support import CommandTestCase, Refusal, Result, captured

JID = "20261123100000000000"
LOWS = [
    {"state": "salt", "fun": "state", "__id__": "web", "name": "web"},
    {"state": "salt", "fun": "runner", "__id__": "dns", "name": "cache.clear_all"},
]
ABOUT = {"chunks": LOWS, "fun": "state.orchestrate", "user": "kim", "options": {"arg": ["deploy"]}}
LINES = [
    begun_line("a", 100.0, ABOUT),
    step_line(0, "20261123100000000001", "a", 101.0),
    result_line(0, {"result": True}, "a", 103.0),
    step_line(1, "20261123100000000002", "a", 104.0),
    interrupted_line(1, "a died", 110.0),
    ended_line("interrupted", 110.0, "a died in dns"),
]


def shown(lines: int = len(LINES), **how: Any) -> dict[str, Any]:
    """What a master says after so many lines."""
    return read_run(JID, [pack_line(line) for line in LINES[:lines]]).shown(**how)


class OrchTests(CommandTestCase):
    """The command and its words."""

    def asked(self, found: Any, *words: str) -> tuple[Result, list[tuple[str, dict[str, Any]]]]:
        """Run it; its result, and what the daemon was asked."""

        self.found = found
        before = len(self.made.asked)
        return self.command("orch", *words), self.made.asked[before:]

    def setUp(self) -> None:
        """A daemon that answers with what the test has found."""
        super().setUp()

        def answer(args: dict[str, Any]) -> Any:
            if isinstance(self.found, list) and "jid" in args:
                return self.found.pop(0)
            if isinstance(self.found, Exception):
                raise self.found
            return self.found

        names = ("orch.list", "orch.show", "orch.resume", "orch.stop")
        self.made = self.daemon(**dict.fromkeys(names, answer))

    def test_list(self) -> None:
        """Each run is a row; C{--json} is what the master says; none is said in a sentence."""
        found, asked = self.asked([shown(steps=False)], "list")
        self.assertEqual((found.status, asked), (0, [("orch.list", {})]))
        self.assertRegex(found.out, f"{JID} +interrupted +1/2 +a ")
        self.assertIn("state.orchestrate deploy", found.out)

        found, _ = self.asked([shown(steps=False)], "list", "--json")
        self.assertEqual(json.loads(found.out)[0]["jid"], JID)
        found, _ = self.asked([], "list")
        self.assertEqual((found.status, found.out), (0, "No orchestration is known here.\n"))

    def test_newest(self) -> None:
        """C{--limit} lists the newest; it is a number above 0, and for C{list}."""
        found, asked = self.asked([shown(steps=False)], "list", "--limit", "20")
        self.assertEqual((found.status, asked), (0, [("orch.list", {"limit": 20})]))
        for wrong in (
            ("list", "--limit", "-1"),
            ("list", "--limit", "x"),
            ("show", JID, "--limit", "1"),
        ):
            found, asked = self.asked([], *wrong)
            self.assertEqual((found.status, asked), (64, []), wrong)

    def test_show(self) -> None:
        """Steps are shown with state, node, jid and time; one that is not well exits with 1."""
        found, asked = self.asked(shown(results=False), "show", JID)
        self.assertEqual((found.status, asked), (1, [("orch.show", {"jid": JID})]))
        self.assertIn(f"{JID} is interrupted on a (a died in dns)", found.out)
        self.assertRegex(found.out, r"1 +web +salt.state +done +a +2026\d+1 +2\.0 s")
        self.assertRegex(found.out, r"2 +dns +salt.runner +interrupted .*a died")

        found, _ = self.asked(shown(4, results=False), "show", JID)
        self.assertEqual(found.status, 0)
        found, asked = self.asked(shown(), "show", JID, "--json")
        self.assertEqual(asked[0][1], {"jid": JID, "results": True})
        self.assertEqual(json.loads(found.out)["steps"][0]["result"], {"result": True})

    def test_follow(self) -> None:
        """Each step is printed when it has changed, until the run has ended."""
        left = self.found = [shown(2), shown(3), shown(3), shown(4), shown()]
        pauses: list[float] = []
        with captured("") as (out, _):
            code = orch.main(["-c", self.root, "show", JID, "--follow"], {}, pauses.append)

        self.assertEqual((code, left, len(pauses)), (1, [], 4))
        words = [line.split()[3] for line in out.getvalue().splitlines()[:4]]
        self.assertEqual(words, ["running", "done", "running", "interrupted"])

    def test_acts(self) -> None:
        """C{resume} takes a step, C{stop} none; a refusal is a sentence."""
        found, asked = self.asked(shown(2), "resume", JID, "--from", "dns")
        self.assertEqual((found.status, asked), (0, [("orch.resume", {"jid": JID, "step": "dns"})]))
        found, asked = self.asked(shown(), "stop", JID)
        self.assertEqual((found.status, asked), (0, [("orch.stop", {"jid": JID})]))
        found, _ = self.asked(Refusal("SaltInvocationError", "it is done"), "stop", JID)
        self.assertNotEqual(found.status, 0)
        self.assertIn("It is done", found.err)

    def test_usage(self) -> None:
        """Words that make no sense are refused before anybody is asked."""
        for words in (
            (),
            ("list", JID),
            ("show",),
            ("shwo", JID),
            ("stop", JID, "--from", "x"),
            ("list", "--follow"),
        ):
            self.assertNotEqual(self.command("orch", *words).status, 0, words)
