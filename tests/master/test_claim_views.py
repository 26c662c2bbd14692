"""
What a master says of its claims: receipts, status, and the runner's two functions.
"""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.doctor import claims as findings
from saltwisted.master.automation.claimviews import ClaimViews
from saltwisted.master.loneclaims import LoneClaims
from saltwisted.master.runners import reactor


class ClaimViewTests(SynchronousTestCase):
    """Of a master alone."""

    def setUp(self) -> None:
        counters: Counter[str] = Counter(claims_lost=2)
        self.claims = LoneClaims("m", lambda: 7.0, lambda: 7.0, counters)
        self.views = ClaimViews(self.claims, "m", counters)

    def ask(self, **args: Any) -> Any:
        """The row's answer."""
        call: Any = SimpleNamespace(args=args)
        return self.successResultOf(Deferred.fromCoroutine(self.views.receipts(call)))

    def test_receipts(self) -> None:
        """They are plain data, those of the wanted events, as many as were wanted."""
        for number in range(3):
            self.successResultOf(self.claims.begin(f"k/{number}", {}, "w", f"tag/{number}"))

        self.assertEqual([one["key"] for one in self.ask(event="tag/1")], ["k/1"])
        self.assertEqual([one["key"] for one in self.ask(limit=2)], ["k/1", "k/2"])
        self.assertEqual(len(self.ask()), 3)

    def test_status(self) -> None:
        """It says who has which duty, and why nothing is claimed; the doctor finds that."""
        self.claims.duty("schedule", lambda claim: None, lambda why: None)
        well = self.views.status()
        self.claims.set_leader(False)
        told = self.views.status()

        figures = well.pop("figures")
        self.assertEqual(
            well,
            {"would_claim": True, "problem": "", "duties": {"schedule": ["m", 1]}, "held": 1},
        )
        self.assertEqual(
            figures, {"granted": 0, "taken": 0, "refused": 0, "recovered": 0, "lost": 2}
        )
        self.assertEqual(list(findings(well)), [])
        self.assertFalse(told["would_claim"])
        self.assertEqual(told["held"], 0)
        (found,) = findings(told)
        self.assertIn("set_leader", found.evidence[0])

    def test_figures(self) -> None:
        """What is granted, taken and refused is counted, and the status says it."""
        event = {"__pub_jid": "1"}
        for what in (
            lambda: self.claims.begin("k/1", {}),
            lambda: self.claims.begin("k/1", {}),
            lambda: self.claims.begin_event("web1", "a", event, {}),
            lambda: self.claims.begin_event("web1", "a", event, {}),
        ):
            self.successResultOf(what())
        self.claims.set_leader(False)
        self.successResultOf(self.claims.begin("k/2", {}))

        figures = self.views.status()["figures"]
        self.assertEqual((figures["granted"], figures["taken"], figures["refused"]), (2, 2, 1))

    def test_runner(self) -> None:
        """C{reactor.set_leader} says what C{reactor.is_leader} answers."""
        run: Any = SimpleNamespace(ctx=SimpleNamespace(seams=SimpleNamespace(claims=self.claims)))

        def leads() -> Any:
            return self.successResultOf(Deferred.fromCoroutine(reactor.is_leader(run)))

        def put(*value: bool) -> Any:
            return self.successResultOf(Deferred.fromCoroutine(reactor.set_leader(run, *value)))

        self.assertTrue(leads())
        self.assertTrue(put(False))
        self.assertFalse(leads())
        put()
        self.assertTrue(leads())
