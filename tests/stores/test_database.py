"""Many rows with few statements; files that are damaged."""

from __future__ import annotations

import os
import sqlite3

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.errors import StoreError
from saltwisted.stores.database import (
    change_many,
    damage,
    insert_many,
    open_or_begin,
    pieces,
    transaction,
)
from saltwisted.stores.roots.index import IndexDatabase
from tests.stores.support import FolderTestCase


def opened() -> sqlite3.Connection:
    """An empty table."""
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b)")
    return db


class ManyRowsTests(SynchronousTestCase):
    """C{insert_many} and C{change_many}."""

    @given(st.integers(0, 650))
    @settings(max_examples=60, deadline=None)
    def test_all_of_them(self, count: int) -> None:
        """However many there are, each row is there once, and each change is made."""
        db = opened()
        insert_many(db, "INSERT INTO t", ((number, number * 2) for number in range(count)))
        rows = db.execute("SELECT a, b FROM t ORDER BY a").fetchall()
        self.assertEqual(rows, [(number, number * 2) for number in range(count)])

        change_many(db, "UPDATE t SET b=? WHERE a", range(0, count, 2), -1)
        change_many(db, "DELETE FROM t WHERE a", range(0, count, 3))

        rows = db.execute("SELECT a, b FROM t ORDER BY a").fetchall()
        left = [number for number in range(count) if number % 3]
        self.assertEqual(rows, [(number, number * 2 if number % 2 else -1) for number in left])

    def test_named_columns(self) -> None:
        """Columns may be named; the others get their defaults."""
        db = opened()
        insert_many(db, "INSERT INTO t (b)", [("x",)] * 11)
        self.assertEqual(db.execute("SELECT count(*), max(a) FROM t").fetchone(), (11, 11))

    def test_statements(self) -> None:
        """
        A row takes far less than a statement of its own, for each lets another thread compute.
        """
        db = opened()
        seen: list[str] = []
        db.set_trace_callback(seen.append)
        insert_many(db, "INSERT INTO t", [(number, 0) for number in range(10_219)])
        change_many(db, "DELETE FROM t WHERE a", range(10_219))
        self.assertEqual(len(seen), 2 * (51 + 1 + 2 + 1))

    @given(st.integers(0, 650))
    @settings(max_examples=60, deadline=None)
    def test_pieces(self, count: int) -> None:
        """How many statements it will take is known before."""
        db = opened()
        seen: list[str] = []
        db.set_trace_callback(seen.append)
        insert_many(db, "INSERT INTO t", [(number, 0) for number in range(count)])
        self.assertEqual(len(seen), pieces(count))

    def test_transaction(self) -> None:
        """One statement is a transaction by itself; several are written whole or not at all."""
        db = opened()
        seen: list[str] = []
        db.set_trace_callback(seen.append)
        with transaction(db, 1):
            insert_many(db, "INSERT INTO t", [(1, "x"), (2, "x")])
        self.assertEqual((len(seen), db.in_transaction), (1, False))

        with self.assertRaises(sqlite3.IntegrityError), transaction(db, 2):
            insert_many(db, "INSERT INTO t", [(3, "x")])
            insert_many(db, "INSERT INTO t", [(1, "x")])
        self.assertEqual(
            (seen[1], seen[-1], db.in_transaction), ("BEGIN IMMEDIATE", "ROLLBACK", False)
        )
        with transaction(db, 2):
            change_many(db, "DELETE FROM t WHERE a", [1])
            insert_many(db, "INSERT INTO t", [(4, "x")])

        self.assertEqual(seen[-1], "COMMIT")
        self.assertEqual(db.execute("SELECT a FROM t ORDER BY a").fetchall(), [(2,), (4,)])


class DamagedTextTests(FolderTestCase):
    """Bits of a text have flipped."""

    def test_index(self) -> None:
        """An index with a text that is none is put aside at its start, and another one made."""
        path = self.path("index.sqlite")
        IndexDatabase(path).close()
        db = sqlite3.connect(path)
        db.execute("INSERT INTO replica VALUES (1, CAST(X'FF' AS TEXT), X'0102')")
        db.commit()
        db.close()

        index = IndexDatabase(path)
        self.addCleanup(index.close)

        self.assertTrue(index.put_aside)

    def test_mark_left_behind(self) -> None:
        """
        A process ends between putting a damaged index aside and taking its mark away: the one that
        was begun then stays.
        """
        path = self.path("index.sqlite")
        IndexDatabase(path).close()
        index = IndexDatabase(path)
        index.mark("nonsense")
        index.close()
        os.rename(path, f"{path}.aside")

        for _ in range(2):
            index = IndexDatabase(path)
            index.close()
            self.assertEqual(index.put_aside, "")


class BeginningTests(FolderTestCase):
    """Files that are damaged, and disks that refuse."""

    def setUp(self) -> None:
        super().setUp()
        self.file = self.path("x.sqlite")
        self.errors: list[sqlite3.Error] = []
        self.told: list[str] = []

    def opened(self) -> str:
        """What opens it: it fails with what is left of the errors."""
        if self.errors:
            raise self.errors.pop(0)
        return "rows"

    def begin(self) -> str:
        """Open it."""
        return open_or_begin(self.file, self.opened, self.told.append)

    def test_damaged(self) -> None:
        """A damaged file and its log are kept under one other name, and it is said."""
        for suffix in ("", "-wal"):
            with open(self.file + suffix, "w"):
                pass
        self.errors = [damage("broken")]

        self.assertEqual((self.begin(), self.told), ("rows", ["broken"]))
        kept = sorted(os.listdir(os.path.dirname(self.file)))
        self.assertEqual(len(kept), 2, kept)
        self.assertEqual(kept[1], f"{kept[0]}-wal")
        self.assertRegex(kept[0], r"^x\.sqlite\.corrupt-\d{8}T\d{6}-[0-9a-f]{6}$")

    def test_refused(self) -> None:
        """A full disk is an error of the store, also when another file is begun."""
        full = sqlite3.OperationalError("database or disk is full")
        for errors in ([full], [damage("broken"), full]):
            self.errors = list(errors)
            self.assertIn("full", str(self.assertRaises(StoreError, self.begin)))
            self.assertEqual(len(self.told), len(errors) - 1)
