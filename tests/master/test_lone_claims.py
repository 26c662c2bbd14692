"""
A master alone grants to itself.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.claims.words import Claim, NoMajority, Taken
from saltwisted.master.loneclaims import LoneClaims


class LoneClaimsTests(SynchronousTestCase):
    """At once, and once."""

    def setUp(self) -> None:
        self.time = 100.0
        self.claims = LoneClaims("m", lambda: self.time, lambda: self.time)

    def begin(self, key: str) -> Any:
        """The answer, which is there at once."""
        return self.successResultOf(self.claims.begin(key, {"p": 1}, "a thing", "tag/x"))

    def test_once(self) -> None:
        """A key is given once, and says afterwards how it ended."""
        claim = self.begin("k/1")
        self.assertIsInstance(claim, Claim)
        self.assertTrue(self.claims.holds(claim))
        self.assertEqual(self.begin("k/1"), Taken(key="k/1", holder="m"))

        self.time = 101.5
        self.successResultOf(self.claims.end(claim, "done"))

        self.assertEqual(self.begin("k/1").result, "done")
        self.assertGreater(self.begin("k/2").term, claim.term)

    def test_receipts(self) -> None:
        """They say what, for which event, from when to when, and how it ended."""
        claim = self.begin("k/1")
        self.time = 101.5
        self.successResultOf(self.claims.end(claim, "done"))

        (receipt,) = self.successResultOf(self.claims.receipts("tag/*"))

        self.assertEqual(
            receipt.shown(),
            {
                "key": "k/1",
                "term": claim.term,
                "node": "m",
                "what": "a thing",
                "event": "tag/x",
                "begun": 100.0,
                "ended": 101.5,
                "result": "done",
            },
        )
        self.assertEqual(self.successResultOf(self.claims.receipts("other")), [])

    def test_events(self) -> None:
        """Each event is claimed, those of one call once, also when an hour lies between two."""

        def came(**data: Any) -> Any:
            return self.successResultOf(self.claims.begin_event("m", "t", data, {}))

        kinds = [type(came()), type(came()), type(came(__pub_jid="1")), type(came(__pub_jid="1"))]
        self.time += 3600
        kinds += [type(came()), type(came())]

        self.assertEqual(kinds, [Claim, Claim, Claim, Taken, Claim, Claim])

    def test_duty(self) -> None:
        """A duty begins at once, and ends when it is released."""
        said: list[str] = []
        self.claims.duty("d", lambda claim: said.append("begun"), said.append)
        self.assertEqual(list(self.claims.holders()), ["d"])

        self.successResultOf(self.claims.release("d"))

        self.assertEqual(said, ["begun", "released"])
        self.assertEqual(self.claims.holders(), {})

    def test_release_waits(self) -> None:
        """A release waits for what was begun to end."""
        ended: Deferred[None] = Deferred()
        self.claims.duty("d", lambda claim: None, lambda why: ended)

        released = self.claims.release("d")
        self.assertNoResult(released)
        ended.callback(None)

        self.successResultOf(released)

    def test_set_leader(self) -> None:
        """Told not to, it claims nothing and its duties end; told that it may, they begin again."""
        said: list[str] = []
        problems: list[str] = []
        self.claims.on_problem(problems.append)
        self.claims.duty("d", lambda claim: said.append("begun"), lambda why: said.append("ended"))

        self.claims.set_leader(False)
        answer = self.begin("k/1")
        would = self.claims.would_claim()
        self.claims.set_leader(True)

        self.assertIsInstance(answer, NoMajority)
        self.assertFalse(would)
        self.assertEqual(said, ["begun", "ended", "begun"])
        self.assertEqual((len(problems), problems[1]), (2, ""))
        self.assertIsInstance(self.begin("k/1"), Claim)
