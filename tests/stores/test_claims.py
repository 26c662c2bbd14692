"""
The votes of a member on its disk.
"""

from __future__ import annotations

import os
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred, execute
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.claims.electorate import Seat, found
from saltwisted.domain.claims.messages import WANT, Question
from saltwisted.domain.claims.voter import Adopt, Delete, Floor, Memory, Put, Vote, Voter, Whole
from saltwisted.errors import StoreError
from saltwisted.stores.claims import ClaimStore

ALL = found([Seat("a", "a"), Seat("b", "b")])
VOTE = Vote(
    number=1,
    key="event/x/1",
    term=7,
    holder="a#1",
    plan=b"P",
    accepted=7,
    what="w",
    event="tag/1",
    begun=10.0,
)
ENDED = evolve(VOTE, number=2, key="event/y/1", term=9, ended=20.0, plan=None, result="done")
DUTY = Vote(number=3, key="duty/d", term=4, holder="b#2", is_duty=True)


class ClaimStoreTests(SynchronousTestCase):
    """A file, and calls that are made at once instead of in a thread."""

    def setUp(self) -> None:
        self.path = os.path.join(self.mktemp())
        self.store = self.open("me")

    def open(self, key: str, cluster: str = "one", run: Any = execute) -> ClaimStore:
        """Anew."""
        store = ClaimStore(self.path, run, cluster, key)
        self.memory: Memory = self.successResultOf(store.load())
        self.addCleanup(store._close)
        return store

    def again(self, key: str = "me", cluster: str = "one") -> Memory:
        """What another life finds."""
        self.successResultOf(self.store.close())
        self.store = self.open(key, cluster)
        return self.memory

    def test_written(self) -> None:
        """All of it is found again, and that it is whole."""
        self.assertTrue(self.memory.is_new)
        self.successResultOf(self.store.write([Adopt(ALL), Put(VOTE), Put(ENDED), Put(DUTY)]))
        self.assertTrue(self.again().is_new)
        self.successResultOf(self.store.write([Whole()]))
        self.successResultOf(self.store.write([Delete(3), Put(evolve(VOTE, term=8))]))

        memory = self.again()

        self.assertEqual(list(memory.votes), [evolve(VOTE, term=8), ENDED])
        self.assertEqual((memory.electorate, memory.is_new), (ALL, False))

    def test_floor(self) -> None:
        """How far terms have been given is found again; it never falls."""
        self.successResultOf(self.store.write([Floor(900)]))
        self.successResultOf(self.store.write([Floor(30)]))

        self.assertEqual(self.again().floor, 900)

    def test_together(self) -> None:
        """What comes while something is being written is written next, in one go."""
        calls: list[tuple[Any, Any, Deferred[Any]]] = []

        def run(function: Any, *args: Any) -> Deferred[Any]:
            done: Deferred[Any] = Deferred()
            calls.append((function, args, done))
            return done

        self.store._run = run
        first = self.store.write([Put(VOTE)])
        second, third = self.store.write([Put(ENDED)]), self.store.write([Put(DUTY)])
        self.assertEqual(len(calls), 1)
        calls[0][2].callback(calls[0][0](*calls[0][1]))
        self.successResultOf(first)
        self.assertNoResult(second)

        calls[1][2].callback(calls[1][0](*calls[1][1]))

        self.successResultOf(second)
        self.successResultOf(third)
        self.assertEqual(len(calls), 2)

    def test_one_after_another(self) -> None:
        """
        All calls have one connection: none begins before the one before it has ended, whatever it
        is, since two transactions at a time would be refused.
        """
        calls: list[tuple[Any, Any, Deferred[Any]]] = []

        def run(function: Any, *args: Any) -> Deferred[Any]:
            done: Deferred[Any] = Deferred()
            calls.append((function, args, done))
            return done

        self.store._run = run
        pruned, written = self.store.prune(1.0), self.store.write([Put(ENDED)])
        shown, closed = self.store.receipts("", 10), self.store.close()
        for number in range(3):
            self.assertEqual(len(calls), number + 1)
            self.assertNoResult(closed)
            function, args, done = calls[number]
            done.callback(function(*args))

        self.assertEqual(self.successResultOf(pruned), 0)
        self.successResultOf(written)
        self.assertEqual([each.key for each in self.successResultOf(shown)], [ENDED.key])
        self.successResultOf(closed)

    def test_refused(self) -> None:
        """A disk that refuses is told to who wrote, and nothing of it is there."""
        assert self.store._db is not None
        self.store._db.execute("DROP TABLE votes")

        self.failureResultOf(self.store.write([Put(VOTE)]), StoreError)

    def test_damaged(self) -> None:
        """A damaged file is put aside, and what was voted counts as lost."""
        self.successResultOf(self.store.write([Put(VOTE)]))
        self.successResultOf(self.store.close())
        with open(self.path, "r+b") as stream:
            stream.write(b"nonsense" * 1000)

        self.store = self.open("me")

        self.assertEqual((list(self.memory.votes), self.memory.is_new), ([], True))
        folder = os.path.dirname(self.path) or "."
        name = os.path.basename(self.path)
        aside = [each for each in os.listdir(folder) if each.startswith(f"{name}.corrupt-")]
        self.assertEqual(len([each for each in aside if not each.endswith(("-wal", "-shm"))]), 1)

    def test_another_member(self) -> None:
        """Votes of a member that this node was before are no votes; its receipts stay."""
        self.successResultOf(self.store.write([Adopt(ALL), Put(VOTE), Put(ENDED), Put(DUTY)]))

        memory = self.again("another")

        self.assertEqual(list(memory.votes), [])
        self.assertEqual((memory.electorate, memory.is_new), (None, True))
        receipts = self.successResultOf(self.store.receipts("", 10))
        self.assertEqual([receipt.key for receipt in receipts], [ENDED.key])

    def test_another_cluster(self) -> None:
        """
        A master that was alone decided by itself. It keeps its key when it joins others, but not
        the electorate of which it is the only member, nor what it voted; no receipt is lost.
        """
        alone = found([Seat("me", "me")])
        self.successResultOf(self.store.write([Adopt(alone), Put(VOTE), Put(ENDED), Put(DUTY)]))

        memory = self.again(cluster="two")

        self.assertEqual((list(memory.votes), memory.floor), ([], 0))
        self.assertEqual((memory.electorate, memory.is_new), (None, True))
        voter = Voter("me", memory, 0.0, 10.0)
        voter.found(alone, 0.0)
        _, writes = voter.ask(alone, [Question(act=WANT, key="event/z/1", term=1)], 0.0)
        self.successResultOf(self.store.write(writes))
        receipts = self.successResultOf(self.store.receipts("", 10))
        self.assertEqual([receipt.key for receipt in receipts], [ENDED.key, "event/z/1"])
        again = self.again(cluster="two")
        self.assertEqual([vote.key for vote in again.votes], ["event/z/1"])

    def test_receipts(self) -> None:
        """Of short acts, by their event's tag, the newest."""
        self.successResultOf(self.store.write([Put(VOTE), Put(ENDED), Put(DUTY)]))

        every = self.successResultOf(self.store.receipts("", 10))
        one = self.successResultOf(self.store.receipts("tag/*", 1))
        none = self.successResultOf(self.store.receipts("other", 10))

        self.assertEqual([receipt.key for receipt in every], ["event/x/1", "event/y/1"])
        self.assertEqual([(r.key, r.node, r.result) for r in one], [("event/y/1", "a", "done")])
        self.assertEqual(none, [])

    def test_pruned(self) -> None:
        """What ended long ago is deleted; the highest term is not forgotten, nor are duties."""
        self.successResultOf(self.store.write([Put(VOTE), Put(ENDED), Put(DUTY)]))

        self.assertEqual(self.successResultOf(self.store.prune(15.0)), 1)
        self.assertEqual(self.successResultOf(self.store.prune(21.0)), 1)
        memory = self.again()

        self.assertEqual((list(memory.votes), memory.floor), ([DUTY], 9))
