"""
What is written down of orchestrations, on one disk.
"""

from __future__ import annotations

import os
from typing import Any

from twisted.internet.defer import maybeDeferred
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.orchestration.copies import Put, Record
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

        _, found = self.opened()
        kept = Record(jid=JID, promised=(1, 3), term=(1, 3), lines=(b"a", b"x"))
        self.assertEqual(found, [kept])

    def test_promise(self) -> None:
        """A promise alone is kept, and leaves the lines as they were."""
        store, _ = self.opened()
        self.successResultOf(store.write([self.put(0, b"a")]))
        promise = Put(jid=JID, promised=(1, 9), term=(1, 1), at=1, lines=())
        self.successResultOf(store.write([promise]))
        self.successResultOf(store.close())

        (record,) = self.opened()[1]
        self.assertEqual((record.promised, record.term, record.lines), ((1, 9), (1, 1), (b"a",)))

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
