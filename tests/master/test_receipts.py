"""
The receipts of a master alone outlive its process.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from typing import Any

from twisted.internet.defer import Deferred, execute
from twisted.internet.task import Clock
from twisted.logger import globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.claims.words import Came, Claim, NoMajority, Taken
from saltwisted.master import receipts
from saltwisted.master.loneclaims import MOST_REMEMBERED, REMEMBERED, LoneClaims
from saltwisted.master.receipts import PRUNE_EVERY, TICK, ReceiptBook
from saltwisted.stores import claims
from saltwisted.stores.claims import ClaimStore
from saltwisted.transports import turns
from saltwisted.transports.deferreds import as_deferred
from tests.fakes.disk import Disk
from tests.master.test_automation_turns import one_turn

PLAN = {"tag": "tag/x", "steps": [{"kind": "runner", "fun": "test.arg"}]}


class Life:
    """One life of a master, on a file."""

    def __init__(self, test: ReceiptTests, life: str, most: int = 0, full: bool = False) -> None:
        self.test, self.disk = test, Disk()
        self.disk.full = full
        self.store = ClaimStore(test.path, self.disk.run, "", "alone", most=most)
        self.book = ReceiptBook(test.clock, self.store, lambda: test.before)
        seconds = test.clock.seconds
        self.claims = LoneClaims("m", seconds, seconds, None, life, self.book)
        self.left: list[tuple[str, Any, Claim]] = []
        test.successResultOf(self.book.startService())
        test.addCleanup(self.kill)

    def kill(self) -> None:
        """Nothing more is written."""
        if self.book._loop is not None:
            self.book._loop.stop()
            self.book._loop = None
        self.book.is_open = False
        self.store._close()

    def recover(self) -> None:
        """Note what earlier lives have left."""
        self.claims.on_recover("k", lambda *left: self.left.append(left))
        self.test.clock.advance(TICK)

    def begin(self, key: str) -> Any:
        """The answer, which is there at once; and what follows when this turn is over."""
        answer = self.test.successResultOf(self.claims.begin(key, PLAN, "a thing", "tag/x"))
        self.test.clock.advance(0)
        return answer

    def end(self, claim: Claim, result: str = "done") -> None:
        """It has ended, and this turn is over."""
        self.test.successResultOf(self.claims.end(claim, result))
        self.test.clock.advance(0)

    def shown(self, event: str = "", limit: int = 1000) -> list[tuple[str, int, float | None, str]]:
        """Of each receipt the key, the term, when it ended, and how."""
        found = self.test.successResultOf(self.claims.receipts(event, limit))
        return [(each.key, each.term, each.ended, each.result) for each in found]


class ReceiptTests(SynchronousTestCase):
    """Lives of a master on one file, without threads."""

    def setUp(self) -> None:
        self.path = os.path.abspath(self.mktemp())
        self.clock = Clock()
        self.clock.advance(1000)
        self.before: float | None = None
        # What has ended waits here for the end of a turn alone
        self.patch(receipts, "PATIENCE", 0.0)

    def on_disk(self) -> list[tuple[str, int, float | None, str]]:
        """The receipts that the next life would find."""
        with closing(sqlite3.connect(self.path)) as db:
            found = claims.read_receipts(db, "", 1000)
        return [(each.key, each.term, each.ended, each.result) for each in found]

    def again(self, life: Life, name: str = "2", **how: Any) -> Life:
        """The next one, after that one was killed."""
        life.kill()
        return Life(self, name, **how)

    def test_after_a_start(self) -> None:
        """They are shown after a start, and terms only grow."""
        first = Life(self, "1")
        first.end(first.begin("k/1"))
        first.end(first.begin("k/2"), "failed: no such function")

        second = self.again(first)
        second.end(second.begin("k/3"))

        self.assertEqual(
            second.shown("tag/*"),
            [
                ("k/1", 1, 1000.0, "done"),
                ("k/2", 2, 1000.0, "failed: no such function"),
                ("k/3", 3, 1000.0, "done"),
            ],
        )
        self.assertEqual(second.shown("", 1), [("k/3", 3, 1000.0, "done")])
        self.assertEqual(second.shown("other"), [])

    def test_once_over_a_start(self) -> None:
        """What an earlier life has claimed is taken, whether it has ended or not."""
        first = Life(self, "1")
        first.end(first.begin("k/1"), "fine")
        first.begin("k/2")

        second = self.again(first)

        self.assertEqual(
            second.begin("k/1"), Taken(key="k/1", holder="m", ended=True, result="fine")
        )
        self.assertEqual(second.begin("k/2"), Taken(key="k/2", holder="m"))

    def test_nobody_waits(self) -> None:
        """What begins does not wait for the disk, which has it all in two transactions."""
        life = Life(self, "1")
        life.disk.holding = True
        for number in range(20):
            life.end(life.begin(f"k/{number}"))
            event = self.successResultOf(life.claims.begin_event("m1", "t", {"n": number}, PLAN))
            self.assertIsInstance(event, Claim)

        self.assertEqual(len(life.disk.held), 1)
        life.disk.release()

        self.assertEqual(len(life.shown()), 40)

    def test_what_is_written_down_itself_waits(self) -> None:
        """An event that the next life would take up is claimed when its claim is on disk."""
        life = Life(self, "1")
        key = life.claims.keys.of("m1", "t", {})
        assert key is not None
        life.disk.holding = True

        d: Any = life.claims.begin_event("m1", "t", {}, PLAN, "w", Came(key=key))
        self.clock.advance(0)
        self.assertNoResult(d)
        life.disk.release()

        self.assertIsInstance(self.successResultOf(d), Claim)

    def test_in_turns(self) -> None:
        """Thousands of earlier claims are read, and those who wait for the disk told, in turns."""
        first = Life(self, "1")
        for number in range(30):
            first.end(first.begin(f"k/{number}"))
        first.kill()
        self.patch(turns, "PORTION", -1.0)
        store = ClaimStore(self.path, Disk().run, "", "alone")
        book = ReceiptBook(self.clock, store, lambda: None)
        self.addCleanup(store._close)
        claims = LoneClaims("m", self.clock.seconds, self.clock.seconds, None, "2", book)
        opened, count = book.startService(), 0
        while not opened.called:
            one_turn(self.clock)
            count += 1
        self.assertGreaterEqual(count, 30)
        self.assertIsInstance(self.successResultOf(claims.begin("k/29", PLAN)), Taken)

        waiting: list[Deferred[Any]] = []
        for number in range(5):
            key = claims.keys.of("m1", "t", {"n": number})
            assert key is not None
            came = Came(key=key)
            waiting.append(as_deferred(claims.begin_event("m1", "t", {}, PLAN, "w", came)))
        seen = []
        while not all(each.called for each in waiting):
            one_turn(self.clock)
            seen.append(sum(each.called for each in waiting))
        self.assertEqual(seen[-5:], [1, 2, 3, 4, 5])
        self.successResultOf(as_deferred(book.stopService()))

    def test_left(self) -> None:
        """What had begun is handed over once, and has ended as that says, or is lost."""
        first = Life(self, "1")
        for key in ("k/1", "k/2", "other/1"):
            first.begin(key)

        second = self.again(first)
        second.recover()
        self.assertEqual(
            [(key, plan) for key, plan, _ in second.left], [("k/1", PLAN), ("k/2", PLAN)]
        )
        third = self.again(second, "3")
        third.recover()

        self.assertEqual(third.left, [])
        self.assertEqual([row[3] for row in third.shown()], ["lost", "lost", ""])
        # Nobody had asked for it
        third.claims.on_recover("other", lambda *left: third.end(left[2], "again"))
        self.clock.advance(TICK)
        self.assertEqual(third.shown()[2], ("other/1", 3, 1000.0 + 3 * TICK, "again"))

    def test_left_takes_long(self) -> None:
        """It has not ended before who finishes it has ended it."""
        first = Life(self, "1")
        first.begin("k/1")
        second = self.again(first)
        finished: Deferred[None] = Deferred()

        def recover(key: str, plan: Any, claim: Claim) -> Deferred[None]:
            return finished.addCallback(lambda _: second.end(claim, "after all"))

        second.claims.on_recover("k", recover)
        self.clock.advance(TICK)
        self.assertEqual(second.begin("k/1"), Taken(key="k/1", holder="m"))
        finished.callback(None)

        self.assertEqual([row[3] for row in second.shown()], ["after all"])

    def test_not_allowed(self) -> None:
        """A master that may claim nothing finishes nothing."""
        first = Life(self, "1")
        first.begin("k/1")
        second = self.again(first)
        second.claims.set_leader(False)
        second.recover()
        self.assertEqual((second.left, type(second.begin("k/2"))), ([], NoMajority))

        second.claims.set_leader(True)
        self.clock.advance(TICK)

        self.assertEqual(len(second.left), 1)

    def test_disk_refuses(self) -> None:
        """What begins goes on; it is said, and written when the disk takes it again."""
        life = Life(self, "1")
        said: list[Any] = []
        globalLogPublisher.addObserver(said.append)
        self.addCleanup(globalLogPublisher.removeObserver, said.append)
        life.disk.full = True
        life.begin("k/0")
        claim = life.begin("k/1")
        self.assertIn("full", life.book.problem)
        self.assertEqual(
            [event["log_format"].partition(",")[0] for event in said],
            ["receipts cannot be written"],
        )
        key = life.claims.keys.of("m1", "t", {})
        assert key is not None
        event = life.claims.begin_event("m1", "t", {}, PLAN, "w", Came(key=key))
        self.assertIsInstance(self.successResultOf(event), Claim)
        life.end(claim)

        life.disk.full = False
        self.clock.advance(TICK)

        self.assertEqual(life.book.problem, "")
        self.assertEqual([row[3] for row in self.again(life).shown()], ["", "done", ""])

    def test_opened_late(self) -> None:
        """A disk that refuses to be read at the start: what was there stays."""
        first = Life(self, "1")
        first.end(first.begin("k/1"))
        second = self.again(first, full=True)
        self.assertIn("full", second.book.problem)
        second.end(second.begin("k/2"))

        second.disk.full = False
        self.clock.advance(TICK)

        self.assertEqual([row[0] for row in second.shown()], ["k/1", "k/2"])
        self.assertEqual([row[0] for row in self.again(second, "3").shown()], ["k/1", "k/2"])

    def test_pruned(self) -> None:
        """They are deleted by their age, and beyond a number."""
        life = Life(self, "1", most=3)
        for number in range(2):
            life.end(life.begin(f"old/{number}"))
        self.clock.advance(10)
        self.before = self.clock.seconds()
        for number in range(5):
            life.end(life.begin(f"k/{number}"))
        self.assertEqual(len(life.shown()), 7)
        self.clock.advance(PRUNE_EVERY)
        self.assertEqual([row[0] for row in life.shown()], ["k/2", "k/3", "k/4"])

        self.before = None
        life.end(life.begin("k/5"))
        self.clock.advance(PRUNE_EVERY)

        self.assertEqual([row[0] for row in life.shown()], ["k/3", "k/4", "k/5"])

    def test_memory(self) -> None:
        """Only so many keys that have ended are remembered, and not for long."""
        life = Life(self, "1")
        life.disk.holding = True
        for number in range(MOST_REMEMBERED + 500):
            life.end(life.begin(f"k/{number}"))
        life.disk.release()
        self.assertLessEqual(len(life.claims._over), MOST_REMEMBERED + 1)

        self.clock.advance(REMEMBERED)
        life.end(life.begin("k"))

        self.assertEqual(list(life.claims._over), ["k"])
        self.assertEqual((life.book._rows, life.book._writing, life.claims._acts), ({}, {}, {}))

    def test_keys(self) -> None:
        """No key of an event is given in two lives; that of one call is the same one."""
        first = Life(self, "1")

        def keys(life: Life) -> list[str | None]:
            of = life.claims.keys.of
            return [of("m1", "t", {}), of("m1", "t", {"__pub_jid": "1"})]

        before = keys(first)
        after = keys(self.again(first))

        self.assertNotEqual(before[0], after[0])
        self.assertEqual(before[1], after[1])

    def test_becomes_a_member(self) -> None:
        """A master that joins a cluster keeps its receipts, and they are no votes there."""
        first = Life(self, "1")
        first.end(first.begin("k/1"))
        first.begin("k/2")
        first.kill()

        store = ClaimStore(self.path, execute, "one", "me")
        memory = self.successResultOf(store.load())
        self.addCleanup(store._close)

        self.assertEqual((list(memory.votes), memory.is_new), ([], True))
        receipts = self.successResultOf(store.receipts("", 10))
        self.assertEqual([receipt.key for receipt in receipts], ["k/1"])

    def test_stops_with_all_written(self) -> None:
        """A stop waits for what is on its way to the disk."""
        life = Life(self, "1")
        life.disk.holding = True
        life.begin("k/1")
        life.begin("k/2")
        stopped = Deferred.fromCoroutine(life.book.stopService())
        self.assertNoResult(stopped)

        life.disk.release()

        self.successResultOf(stopped)
        self.assertEqual([row[0] for row in Life(self, "2").shown()], ["k/1", "k/2"])

    def test_what_has_ended_waits(self) -> None:
        """It goes to the disk with what begins next, or by itself a moment later."""
        self.patch(receipts, "PATIENCE", 0.05)
        life = Life(self, "1")
        first = life.begin("k/1")
        life.disk.holding = True

        life.end(first)
        self.assertEqual(len(life.disk.held), 0)
        second = life.begin("k/2")
        self.assertEqual(len(life.disk.held), 1)
        life.end(second)
        life.disk.release()

        self.assertEqual([row[3] for row in self.on_disk()], ["done", ""])
        self.clock.advance(0.05)
        self.assertEqual([row[3] for row in self.on_disk()], ["done", "done"])

    def test_stops_with_what_has_ended(self) -> None:
        """A stop does not wait for something else to write, and leaves no timer behind."""
        self.patch(receipts, "PATIENCE", 0.05)
        life = Life(self, "1")
        life.end(life.begin("k/1"))
        second = life.begin("k/2")
        life.disk.holding = True
        life.begin("k/3")
        life.end(second)
        stopped = Deferred.fromCoroutine(life.book.stopService())

        life.disk.release()

        self.successResultOf(stopped)
        self.assertEqual([row[3] for row in self.on_disk()], ["done", "done", ""])
        self.assertEqual(self.clock.getDelayedCalls(), [])
