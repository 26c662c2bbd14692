"""
Which jobs were served from more than one tree: one small SQLite file, the same on all nodes.

A row says that a minion was served another generation than the one to which its job is pinned. Rows
are only added, and deleted together with their jobs. Everything here blocks.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import NamedTuple

from saltwisted.errors import StoreError
from saltwisted.stores.database import open_database

_SCHEMA = """
CREATE TABLE mark(jid TEXT, minion TEXT, name TEXT, at REAL, PRIMARY KEY(jid, minion, name))
    WITHOUT ROWID;
"""


class Mark(NamedTuple):
    """A generation that a minion was served in addition to that of its job."""

    jid: str
    minion: str
    name: str
    at: float


class RootMarks:
    """@param path: the file; opened by L{open}."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._db: sqlite3.Connection | None = None

    def open(self, oldest: float) -> list[Mark]:
        """
        Open the file, delete what is older, and read the rest.

        @raises StoreError: the disk refuses.
        """
        try:
            self._db = db = open_database(self.path, (_SCHEMA,))
            db.execute("DELETE FROM mark WHERE at < ?", (oldest,))
            return [Mark(*row) for row in db.execute("SELECT * FROM mark ORDER BY at")]
        except sqlite3.Error as error:
            raise StoreError(str(error), self.path) from error

    def add(self, marks: Iterable[Mark]) -> None:
        """@raises StoreError: the disk refuses."""
        if self._db is None:
            return
        try:
            self._db.executemany("INSERT OR IGNORE INTO mark VALUES(?,?,?,?)", list(marks))
        except sqlite3.Error as error:
            raise StoreError(str(error), self.path) from error

    def close(self) -> None:
        """Close the file."""
        if self._db is not None:
            self._db.close()
            self._db = None
