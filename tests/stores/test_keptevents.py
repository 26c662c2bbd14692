"""
What is owed to minions, on disk.
"""

from __future__ import annotations

import os
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred, execute
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.reactions.keeping import Kept
from saltwisted.errors import StoreError
from saltwisted.stores.keptevents import DELETE, KeptEventStore

ROW = Kept(
    source="a#1",
    number=1,
    part=0,
    minion="m\u00e4",
    tag="site/x",
    key="event/k/1",
    at=10.5,
    data=b"\x80",
)
OTHER = evolve(ROW, number=2, at=11.0, data=b"P")


class KeptEventStoreTests(SynchronousTestCase):
    """A file, and calls that are made at once instead of in a thread."""

    def setUp(self) -> None:
        self.path = os.path.abspath(self.mktemp())
        self.store, self.found = self.open()

    def open(self, run: Any = execute) -> tuple[KeptEventStore, list[Kept]]:
        """Anew."""
        store = KeptEventStore(self.path, run)
        self.addCleanup(store._close)
        return store, self.successResultOf(store.load())

    def again(self) -> list[Kept]:
        """What another life finds."""
        self.successResultOf(self.store.close())
        self.store, self.found = self.open()
        return self.found

    def test_written(self) -> None:
        """All that is not deleted is found again, in the order of time."""
        self.assertEqual(self.found, [])
        self.successResultOf(self.store.write([OTHER, ROW]))
        self.assertEqual(self.again(), [ROW, OTHER])

        self.successResultOf(self.store.write([evolve(ROW, data=b"Q")], [OTHER.id]))

        self.assertEqual(self.again(), [evolve(ROW, data=b"Q")])
        self.assertEqual(os.stat(self.path).st_mode & 0o777, 0o600)

    def test_many_at_once(self) -> None:
        """
        A row takes far less than a statement of its own, for each lets another thread compute; and
        no statement looks through the whole table.
        """
        rows = [evolve(ROW, number=n, part=n % 2, at=float(n)) for n in range(1000)]
        self.successResultOf(self.store.write(rows))
        seen: list[str] = []
        assert self.store._db is not None
        self.store._db.set_trace_callback(seen.append)

        self.successResultOf(self.store.write([], [row.id for row in rows[:-3]]))

        self.assertLess(len(seen), 50)
        plan = f"EXPLAIN QUERY PLAN {DELETE} IN (1, 2)"
        found = self.store._db.execute(plan, ("a#1", 0)).fetchall()
        self.assertIn("SEARCH events USING PRIMARY KEY", str(found))
        self.assertEqual(self.again(), rows[-3:])

    def test_order_in_a_batch(self) -> None:
        """What is put, deleted and put while the disk is busy ends as it was said last."""
        waiting: list[tuple[Deferred[Any], Any, tuple[Any, ...]]] = []

        def later(function: Any, *args: Any) -> Deferred[Any]:
            waiting.append((Deferred(), function, args))
            return waiting[-1][0]

        self.store._run = later
        done = [
            self.store.write([ROW]),
            self.store.write([OTHER]),
            self.store.write([], [ROW.id, OTHER.id]),
            self.store.write([OTHER]),
        ]
        for _ in range(2):
            d, function, args = waiting.pop()
            execute(function, *args).chainDeferred(d)

        for each in done:
            self.assertIsNone(self.successResultOf(each))
        self.assertEqual(waiting, [])
        self.store._run = execute
        self.assertEqual(self.again(), [OTHER])

    def test_refused(self) -> None:
        """A disk that refuses is said to each who waits, and nothing is half written."""
        assert self.store._db is not None
        self.store._db.execute("PRAGMA max_page_count = 3").fetchall()

        self.failureResultOf(self.store.write([ROW, evolve(OTHER, data=b"x" * 99999)]), StoreError)

        self.assertEqual(self.again(), [])
        self.successResultOf(self.store.write([ROW]))

    def test_closed(self) -> None:
        """Nothing is taken after the end."""
        self.successResultOf(self.store.close())

        self.failureResultOf(self.store.write([ROW]), StoreError)

    def test_damaged(self) -> None:
        """A damaged file is put aside and said; the next one works."""
        self.successResultOf(self.store.write([ROW]))
        self.successResultOf(self.store.close())
        with open(self.path, "r+b") as stream:
            stream.write(b"no database" * 20)

        self.store, found = self.open()

        self.assertEqual(found, [])
        self.successResultOf(self.store.write([ROW]))
        self.assertEqual(self.again(), [ROW])
        names = os.listdir(os.path.dirname(self.path))
        base = os.path.basename(self.path)
        self.assertEqual(len([name for name in names if name.startswith(f"{base}.corrupt-")]), 1)
