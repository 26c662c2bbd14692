"""
Acts on keys, on their way into a log that a test holds in its hands.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.facts.keyacts import WRITTEN_SECONDS, KeyActs
from saltwisted.domain.replica.keyset import MANY, KeySet, finger_of
from saltwisted.errors import StoreError

PUB = b"a key\n"


class KeyActsTests(SynchronousTestCase):
    """What goes into the log, and what is known of it."""

    def setUp(self) -> None:
        """A log that writes at once."""
        self.clock, self.keyset = Clock(), KeySet()
        self.logged: list[Mapping[str, Any]] = []
        self.lost: list[str] = []
        self.disk: Deferred[Any] = succeed(None)
        self.acts = KeyActs(
            self.clock, self.keyset, self.append, lambda: "the disk stalls", self.lost.extend
        )

    def append(self, kind: str, body: Mapping[str, Any]) -> Deferred[Any]:
        """Take an entry."""
        self.logged.append(body)
        return self.disk

    def accept(self, minion_id: str) -> None:
        """An operator accepts a key."""
        self.acts.do(self.keyset.act("accept", minion_id, PUB, "a"))

    def test_one_entry(self) -> None:
        """What is done to many keys at once is one entry; what is done alone is its own."""
        self.accept("m1")
        with self.acts.in_one():
            self.accept("m2")
            self.assertTrue(self.acts.collects("m2", [finger_of(PUB)]))
            with self.acts.in_one():
                self.accept("m3")
        self.assertFalse(self.acts.collects("m2", [finger_of(PUB)]))
        self.assertEqual([body["act"] for body in self.logged], ["accept", MANY])
        self.assertEqual([act["id"] for act in self.logged[1]["acts"]], ["m2", "m3"])

    def test_twice_the_same(self) -> None:
        """A second act on a key comes in an entry after the first."""
        with self.acts.in_one():
            self.accept("m1")
            self.accept("m1")
        self.assertEqual([body["act"] for body in self.logged], ["accept", "accept"])

    def test_refused(self) -> None:
        """Whoever waits is told that the disk refused, and who did it which ids are concerned."""
        self.disk = Deferred()
        with self.acts.in_one():
            self.accept("m2")
            self.accept("m1")
        waiting = Deferred.fromCoroutine(self.acts.written())
        self.assertNoResult(waiting)

        self.disk.errback(StoreError("full"))

        self.assertIn("full", str(self.failureResultOf(waiting, StoreError).value))
        self.assertEqual(self.lost, ["m1", "m2"])

    def test_unknown(self) -> None:
        """Nobody waits for ever: after some seconds it is said that nothing is known."""
        self.disk = Deferred()
        self.accept("m1")
        waiting = Deferred.fromCoroutine(self.acts.written())
        self.clock.advance(WRITTEN_SECONDS)
        self.assertIn("the disk stalls", str(self.failureResultOf(waiting, StoreError).value))
