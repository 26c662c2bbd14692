"""
What is written down of orchestrations, on one disk.
"""

from __future__ import annotations

import os
from typing import Any

from twisted.internet.defer import maybeDeferred
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.orchestration.copies import Put, Record
from saltwisted.domain.orchestration.words import begun_line, ended_line, pack_line
from saltwisted.errors import StoreError
from saltwisted.stores.runs import RunStore

JID = "20261123100000000000"


class RunStoreTests(SynchronousTestCase):
    """Lines and promises are there after a start."""

    def setUp(self) -> None:
        """A file that is not there yet."""
        self.path = os.path.join(self.mktemp(), "runs.sqlite")

    def opened(self) -> tuple[RunStore, list[Record]]:
        """One that is open, and what it has read."""
        store = RunStore(self.path, maybeDeferred)
        found: list[Record] = self.successResultOf(store.load())
        self.addCleanup(store.close)
        return store, found

    def put(self, at: int, *lines: bytes, term: int = 1) -> Put:
        """What a writer of this term adds."""
        return Put(jid=JID, promised=(1, term), term=(1, term), at=at, lines=lines)

    def test_kept(self) -> None:
        """Lines are added behind those that stay; what follows them is gone."""
        store, found = self.opened()
        self.assertEqual(found, [])
        self.successResultOf(store.write([self.put(0, b"a", b"b"), self.put(2, b"c")]))
        self.successResultOf(store.write([self.put(0, b"a", b"x", term=3)]))
        self.successResultOf(store.close())

        store, found = self.opened()
        self.assertEqual(found, [Record(jid=JID, promised=(1, 3), term=(1, 3), unread=2)])
        self.assertEqual(self.successResultOf(store.lines(JID)), [b"a", b"x"])

    def test_ended(self) -> None:
        """Of a run that goes on the lines are read, of one that has ended their number."""
        going, other = pack_line(begun_line("a", 1.0, {})), "20261123100000000001"
        lines = [going, pack_line(ended_line("done", 2.0))]
        store, _ = self.opened()
        ended = Put(jid=other, promised=(1, 1), term=(1, 1), at=0, lines=tuple(lines))
        self.successResultOf(store.write([self.put(0, going), ended]))
        self.successResultOf(store.close())

        store, found = self.opened()
        self.assertEqual([(each.lines, each.unread) for each in found], [((going,), 0), ((), 2)])
        self.assertEqual(self.successResultOf(store.lines(other)), lines)
        self.assertEqual(self.successResultOf(store.lines("20261123100000000002")), [])

    def test_promise(self) -> None:
        """A promise alone is kept, and leaves the lines as they were."""
        store, _ = self.opened()
        self.successResultOf(store.write([self.put(0, b"a")]))
        promise = Put(jid=JID, promised=(1, 9), term=(1, 1), at=1, lines=())
        self.successResultOf(store.write([promise]))
        self.successResultOf(store.close())

        store, (record,) = self.opened()
        self.assertEqual((record.promised, record.rank), ((1, 9), ((1, 1), 1)))
        self.assertEqual(self.successResultOf(store.lines(JID)), [b"a"])

    def test_forgotten(self) -> None:
        """Of a run that is too old nothing stays."""
        store, _ = self.opened()
        self.successResultOf(store.write([self.put(0, b"a")]))
        self.successResultOf(store.write([], [JID]))
        self.successResultOf(store.close())

        self.assertEqual(self.opened()[1], [])

    def test_damaged(self) -> None:
        """A damaged file is put aside, said, and replaced by an empty one."""
        os.makedirs(os.path.dirname(self.path))
        with open(self.path, "wb") as stream:
            stream.write(b"no database at all" * 1000)
        store, found = self.opened()

        self.assertEqual(found, [])
        self.successResultOf(store.write([self.put(0, b"a")]))
        names: list[Any] = sorted(os.listdir(os.path.dirname(self.path)))
        self.assertTrue(any(".corrupt-" in name for name in names), names)

    def test_closed(self) -> None:
        """Who writes to a store that is closed is told."""
        store, _ = self.opened()
        self.successResultOf(store.close())
        self.failureResultOf(store.write([self.put(0, b"a")]), StoreError)

    def test_lines_cannot_be_read(self) -> None:
        """Who asks for lines of a file that is gone is told."""
        store, _ = self.opened()
        os.rename(self.path, f"{self.path}.away")
        self.failureResultOf(store.lines(JID), StoreError)
