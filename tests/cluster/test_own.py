"""
What a node adds to the log, and which members have it.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.facts.own import OwnFacts
from saltwisted.errors import StoreError


class OwnFactsTests(SynchronousTestCase):
    """Of three members, one of which is not linked."""

    def setUp(self) -> None:
        self.added: list[tuple[str, Any]] = []
        self.asked: list[Any] = []
        self.late: Sequence[str] = ()
        self.why = ""
        parts: Any = SimpleNamespace(append=self.add, settled=self.wait, links=self.links)
        self.own = OwnFacts(parts, parts, parts, lambda: ["b", "c"], lambda: self.why)

    def add(self, kind: str, body: Any) -> Any:
        """The log's part."""
        self.added.append((kind, body))
        return succeed(len(self.added))

    def wait(self, entry: Any, seconds: float) -> Any:
        """The part of shipping."""
        self.asked.append(entry)
        return succeed(self.late)

    def links(self) -> list[Any]:
        """Only one of the two."""
        return [SimpleNamespace(node="b")]

    def get(self, work: Any) -> Any:
        """What a coroutine gives."""
        return self.successResultOf(Deferred.fromCoroutine(work))

    def test_settled(self) -> None:
        """Unlinked members have not confirmed; linked ones are waited for, for the last fact."""
        self.assertEqual(self.get(self.own.settled()), ["c"])
        self.assertEqual(self.asked, [], "nothing was said here yet")

        self.get(self.own.append("key", {"a": 1}))
        self.get(self.own.append("key", {"a": 2}))
        self.late = ["b"]

        self.assertEqual(self.get(self.own.settled()), ["b", "c"])
        self.assertEqual(self.asked, [2])

    def test_closed(self) -> None:
        """A node that has said that it leaves adds nothing: nobody would take it."""
        self.why = "it leaves"

        work = Deferred.fromCoroutine(self.own.append("key", {}))

        self.assertIn("it leaves", str(self.failureResultOf(work, StoreError).value))
        self.assertEqual(self.added, [])
