"""
What comes while something is being written is the next transaction.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.errors import StoreError
from saltwisted.stores import telling
from saltwisted.stores.batches import Batches


class BatchesTests(SynchronousTestCase):
    """A disk that answers when the test says so."""

    def setUp(self) -> None:
        self.writes: list[tuple[list[str], Deferred[None]]] = []
        self.batches: Batches[str] = Batches(self.write)

    def write(self, work: list[str]) -> Deferred[None]:
        """One transaction."""
        done: Deferred[None] = Deferred()
        self.writes.append((work, done))
        return done

    def test_together(self) -> None:
        """One at a time; all that waits is written together, and fails together."""
        first, second, third = map(self.batches.add, "abc")
        self.assertEqual([work for work, _ in self.writes], [["a"]])
        written = self.batches.written()

        self.writes[0][1].callback(None)
        self.successResultOf(first)
        self.assertEqual(self.writes[1][0], ["b", "c"])
        self.assertNoResult(second)
        self.assertNoResult(written)
        self.writes[1][1].errback(StoreError("full"))

        self.failureResultOf(second, StoreError)
        self.failureResultOf(third, StoreError)
        self.successResultOf(written)
        self.successResultOf(self.batches.written())

    def test_a_turn(self) -> None:
        """What comes in one turn is one transaction, and is not written before that is over."""
        turns: list[Callable[[], None]] = []
        batches: Batches[str] = Batches(self.write, turns.append)
        first, second = map(batches.add, "ab")
        written = batches.written()
        self.assertEqual((len(turns), self.writes), (1, []))

        turns.pop()()
        self.assertEqual([work for work, _ in self.writes], [["a", "b"]])
        third = batches.add("c")
        self.assertNoResult(written)
        self.writes[0][1].callback(None)

        self.successResultOf(first)
        self.successResultOf(second)
        # What came meanwhile has waited long enough
        self.assertEqual((self.writes[1][0], turns), (["c"], []))
        self.writes[1][1].callback(None)
        self.successResultOf(third)
        self.successResultOf(written)

    def test_told_in_turns(self) -> None:
        """
        Those whose rows are on disk are told a few per turn, in their order; nobody is told of the
        next transaction before them, and all is written when the last has been told.
        """
        self.patch(telling, "PORTION", -1.0)
        turns: list[Callable[[], None]] = []
        batches: Batches[str] = Batches(self.write, turns.append)
        told: list[str] = []
        for name in "abc":
            batches.add(name).addCallback(lambda _, name=name: told.append(name))
        written = batches.written()
        turns.pop()()
        batches.add("d").addCallback(lambda _: told.append("d"))

        self.writes[0][1].callback(None)
        self.assertEqual((told, len(turns)), (["a"], 1))
        self.writes[1][1].callback(None)
        seen = []
        while turns:
            turns.pop()()
            seen.append(list(told))

        self.assertEqual(seen, [["a", "b"], ["a", "b", "c"], ["a", "b", "c", "d"]])
        self.successResultOf(written)

    def test_several_in_one_turn(self) -> None:
        """Transactions that end in the same turn of the reactor share its portion."""
        self.patch(telling, "PORTION", -1.0)
        turns: list[Callable[[], None]] = []
        told: list[str] = []
        line = telling.Telling(turns.append)
        for name in "abc":
            done: Deferred[str] = Deferred()
            done.addCallback(told.append)
            line.add([(done, name)])
            line.go()

        self.assertEqual((told, len(line), len(turns)), (["a"], 2, 1))
        turns.pop()()
        self.assertEqual(told, ["a", "b"])
        line.drain()
        self.assertEqual((told, len(line)), (["a", "b", "c"], 0))

    def test_cancelled(self) -> None:
        """Who waits no longer harms nobody else."""
        first, second = map(self.batches.add, "ab")
        second.addErrback(lambda failure: None)
        second.cancel()
        self.writes[0][1].callback(None)
        self.writes[1][1].callback(None)

        self.successResultOf(first)
        self.successResultOf(self.batches.written())
