"""
How a node stands in its cluster, and what is advised: never to remove a majority.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain import standing
from saltwisted.domain.doctor import Finding


def state(states: str, **more: Any) -> dict[str, Any]:
    """
    What the first of some nodes says.

    @param states: each node's, by its first letter: Serving, Degraded, Up but starting, doWn,
        sUspended as C{s d u w x}.
    """
    words = {"s": "serving", "d": "degraded", "u": "starting", "w": "down", "x": "suspended"}
    rows = [
        {"node": chr(97 + number), "state": words[letter], "this": number == 0}
        for number, letter in enumerate(states)
    ]
    ready = states[:1] in ("s", "d")
    return {"node": "a", "ready": ready, "members": rows, "claims": {}, **more}


def advised(found: list[Finding]) -> list[str]:
    """The commands."""
    return [one.command for one in found if one.command]


class StandingTests(SynchronousTestCase):
    """Findings from the answer to C{members}."""

    def test_well(self) -> None:
        """All serve: nothing is said; a member that is behind, and one that is away, are."""
        self.assertEqual(list(standing.findings(state("sss"))), [])
        found = state("ssw")
        found["members"][1]["lag"] = {"keys": 5000, "roots": None}
        found["members"][2]["problem"] = "no word for 9 s"

        behind, away = standing.findings(found)

        self.assertEqual((behind.id, behind.node), ("member.lag", "b"))
        self.assertEqual((away.id, away.node), ("member.state", "c"))
        self.assertEqual(away.evidence, ["no word for 9 s"])
        self.assertEqual(away.command, "saltwisted remove c")

    def test_never_a_majority(self) -> None:
        """
        Whatever is in reach: who is told to remove somebody has more than half of the members on
        its side, or of half the word of the claims; and who has less is told so, first.
        """
        for size in range(1, 7):
            for rest in product("swx", repeat=size - 1):
                for problem in ("", "no majority"):
                    given = state("s" + "".join(rest), claims={"problem": problem})
                    found = list(standing.findings(given))
                    seats = 1 + sum(letter != "x" for letter in rest)
                    reached = 1 + rest.count("s")
                    if standing.is_majority(given):
                        self.assertGreaterEqual(reached * 2, seats)
                    removes = [one for one in advised(found) if " remove " in one]
                    if removes:
                        self.assertGreaterEqual(reached * 2, seats)
                        self.assertTrue(reached * 2 > seats or not problem)
                    if reached * 2 <= seats and seats > 2:
                        self.assertTrue(found[0].id.startswith("cluster."), given)
                        self.assertEqual(removes, [])

    def test_cause(self) -> None:
        """What explains all else comes first, once, and what it explains is not said again."""
        for states, name in (("sww", "cut-off"), ("sswww", "minority"), ("ssww", "half")):
            found = list(standing.findings(state(states)))
            self.assertEqual([one.id for one in found], [f"cluster.{name}"])
            self.assertEqual(advised(found), [])

    def test_outside(self) -> None:
        """A node that is no member says why, and what to do, by its own words."""
        rows = [{"node": "a", "state": "waiting", "this": True, "problem": "lost"}]
        given = {"ready": False, "problem": "lost", "advice": "cluster.lost-disk", "members": rows}

        (found,) = standing.findings(given)

        self.assertEqual((found.id, found.text), ("cluster.outside", "not serving: lost"))
        self.assertEqual(found.command, "saltwisted join -")
        (starting,) = standing.findings(state("uss", problem="it waits for roots"))
        self.assertEqual(starting.text, "not serving: it waits for roots")

    def test_clock(self) -> None:
        """A clock that was set back is said, one that a time service moves is not."""
        self.assertEqual(list(standing.clock(standing.seconds_back(100.0, 101.0))), [])
        self.assertEqual(list(standing.clock(standing.seconds_back(5000.0, 100.0))), [])
        (found,) = standing.clock(standing.seconds_back(-3500.0, 100.0))
        self.assertEqual(found.text, "the clock was set back by 3600 s while the daemon ran")

    def test_lines(self) -> None:
        """For people: what it is, what was seen, and what to do."""
        given = state("ssw")
        given["members"][2]["problem"] = "refused"
        (found,) = standing.findings(given)
        first, second = standing.lines(found)
        self.assertEqual(first, "c is down: refused")
        self.assertIn("saltwisted remove c", second)

    def test_drift(self) -> None:
        """Options that differ are named."""
        self.assertEqual(list(standing.drift([])), [])
        (found,) = standing.drift([{"option": "peer"}])
        self.assertEqual((found.id, found.evidence), ("option.drift", ["peer"]))
