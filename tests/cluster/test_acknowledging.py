"""
When a return may be acknowledged, without links and without a job cache.
"""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.jobs.acknowledging import Acknowledging
from saltwisted.errors import StoreError
from saltwisted.stores.jobs import longpacking
from saltwisted.stores.jobs.store import stored_form
from saltwisted.transports.deferreds import as_deferred

JID = "20260101000000000000"


class AcknowledgingTests(SynchronousTestCase):
    """A node with one other, and returns that wait for it."""

    def setUp(self) -> None:
        """Nothing is confirmed yet."""
        self.clock, self.linked = Clock(), 1
        self.counters: Counter[str] = Counter()
        self.confirm: list[Any] = []
        told = SimpleNamespace(on_confirmed=self.confirm.append)
        known = SimpleNamespace(is_published=lambda jid: False)
        jobs: Any = SimpleNamespace(replica=SimpleNamespace(told=told), known=known)
        self.returns = Acknowledging(self.clock, "a", jobs, lambda: self.linked, self.counters)

    def waiting(self, minion: str = "web1", number: int = 1) -> Any:
        """A return that is on disk here."""
        self.returns.stored([(number, JID, minion)])
        return self.returns.return_stored(JID, minion)

    def test_confirmed(self) -> None:
        """It is acknowledged when another node has it, and those after it are not."""
        first, second = self.waiting(), self.waiting("web2", 2)
        self.assertNoResult(first)
        self.confirm[0](1)
        self.successResultOf(first)
        self.assertNoResult(second)
        self.assertEqual(self.counters, {"returns:copies-2": 1})

    def test_long(self) -> None:
        """What a long return says is hashed in a thread, and known as a repeated one then."""
        hashing: list[Any] = []

        def in_thread(function: Any, *args: Any) -> Deferred[Any]:
            hashing.append(Deferred())
            return hashing[-1].addCallback(lambda _: function(*args))

        self.returns._in_thread = in_thread
        loads = [{"fun": "test.echo", "return": text} for text in ("x", "x" * 100_000)]
        for load in loads:
            self.returns.noted(JID, "web1", stored_form(load), "b")
        known = [self.returns.repeated("web1", load) for load in loads]
        self.assertEqual((known, len(hashing)), ([JID, None], 1))
        hashing[0].callback(None)

        self.assertEqual(self.returns.repeated("web1", loads[1]), JID)

    def test_very_long(self) -> None:
        """One that takes long to pack is packed in turns, too, before it is told from others."""
        self.patch(longpacking, "PORTION", 0.0)
        load = {"fun": "test.echo", "return": {f"k{n}": [n, "x" * 20] for n in range(9000)}}
        for jid, expected in ((JID, None), ("", JID)):
            asked = as_deferred(self.returns.repeated("web1", load))
            self.assertNoResult(asked)
            self.assertGreater(len(self.clock.getDelayedCalls()), 0)
            self.clock.pump([0] * 2000)
            self.assertEqual(self.successResultOf(asked), expected)
            if jid:
                self.returns.noted(jid, "web1", stored_form(load), "b")

    def test_slow(self) -> None:
        """Nobody waits for ever: by its time it is acknowledged with one copy."""
        waiting = self.waiting()
        due = self.returns.next_tick()
        assert due is not None
        self.clock.advance(due - self.clock.seconds())
        self.returns.tick(self.clock.seconds())
        self.successResultOf(waiting)
        self.assertEqual(self.counters, {"returns:copies-1": 1})
        self.assertIsNone(self.returns.next_tick())

    def test_alone(self) -> None:
        """Where nobody is linked there is nothing to wait for; a link that ends says so."""
        waiting = self.waiting()
        self.returns.unlinked()
        self.assertNoResult(waiting)
        self.linked = 0
        self.returns.unlinked()
        self.successResultOf(waiting)
        self.assertIsNone(self.waiting("web2", 2))

    def test_damaged(self) -> None:
        """What was in a file that is put aside is not acknowledged: the minion brings it again."""
        waiting = self.waiting()
        self.returns.begun_anew()
        self.failureResultOf(waiting, StoreError)
