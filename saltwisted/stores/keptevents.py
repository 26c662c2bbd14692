"""
Events that await their reactions, on disk until these begin: C{events.sqlite}.

The minions were promised these reactions. Rows that are written together reach the disk together,
by C{fsync}, before anybody is informed. All blocking work is done in a thread, one call after
another; what arrives meanwhile is one transaction.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from saltwisted.domain.reactions.keeping import Id, Kept
from saltwisted.errors import StoreError
from saltwisted.stores import files
from saltwisted.stores.batches import Batches
from saltwisted.stores.database import (
    change_many,
    insert_many,
    open_database,
    open_or_begin,
    pieces,
    transaction,
)
from saltwisted.stores.telling import Later, at_once

MIGRATIONS = (
    """
    CREATE TABLE events (
        source TEXT NOT NULL, number INTEGER NOT NULL, part INTEGER NOT NULL,
        minion TEXT NOT NULL, tag TEXT NOT NULL, key TEXT NOT NULL, at REAL NOT NULL,
        data BLOB NOT NULL, PRIMARY KEY (source, number, part)
    ) WITHOUT ROWID;
    """,
)
DELETE = "DELETE FROM events WHERE source = ? AND part = ? AND number"
COLUMNS = "source, number, part, minion, tag, key, at, data"

Run = Callable[..., Deferred[Any]]


class KeptEventStore:
    """
    @param run: calls in a thread.
    @param later: as for L{Batches}.
    """

    log = Logger()

    def __init__(self, path: str, run: Run, later: Later = at_once) -> None:
        self.path = path
        self._run = run
        self._db: sqlite3.Connection | None = None
        self._batches: Batches[tuple[list[Kept], list[Id]]] = Batches(
            lambda work: self._run(self._write, work), later
        )

    def load(self) -> Deferred[list[Kept]]:
        """Open the file, and read the events that are owed; a damaged file is moved aside."""
        return self._run(self._load)

    def _load(self) -> list[Kept]:
        return open_or_begin(self.path, self._open, self._damaged)

    def _damaged(self, error: str) -> None:
        self.log.error(
            "{path} is damaged ({error}) and was put aside: this node loses the events in it "
            "that nobody has reacted to",
            path=self.path,
            error=error,
        )

    def _open(self) -> list[Kept]:
        files.make_dir(os.path.dirname(self.path))
        self._db = open_database(self.path, MIGRATIONS)
        try:
            rows = self._db.execute(f"SELECT {COLUMNS} FROM events ORDER BY at, number")  # noqa: S608
            names = COLUMNS.split(", ")
            return [Kept(**dict(zip(names, row, strict=True))) for row in rows.fetchall()]
        except BaseException:
            self._close()
            raise

    def close(self) -> Deferred[None]:
        """When all is written."""
        return self._batches.written().addCallback(lambda _: self._close())

    def _close(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            db.close()

    def write(self, put: Iterable[Kept], delete: Iterable[Id] = ()) -> Deferred[None]:
        """
        Fires when all of it is on disk.

        @return: fails with L{StoreError} when the disk refuses; nothing is written then.
        """
        return self._batches.add((list(put), list(delete)))

    def _write(self, work: Sequence[tuple[Sequence[Kept], Sequence[Id]]]) -> None:
        # In their order: a row may be put and deleted in one batch
        rows: dict[Id, Kept | None] = {}
        for each, delete in work:
            rows.update((row.id, row) for row in each)
            rows.update(dict.fromkeys(delete))
        db = self._db
        if db is None:
            raise StoreError("it is closed", self.path)
        put = [row for row in rows.values() if row is not None]
        gone: dict[tuple[str, int], list[int]] = {}
        for (source, number, part), row in rows.items():
            if row is None:
                gone.setdefault((source, part), []).append(number)
        statements = pieces(len(put)) + sum(pieces(len(numbers)) for numbers in gone.values())
        try:
            with transaction(db, statements):
                insert_many(db, "INSERT OR REPLACE INTO events", [_row(row) for row in put])
                for (source, part), numbers in gone.items():
                    change_many(db, DELETE, sorted(numbers), source, part)
        except sqlite3.Error as error:
            raise StoreError(str(error), self.path) from error


def _row(row: Kept) -> tuple[Any, ...]:
    return (
        row.source,
        row.number,
        row.part,
        row.minion,
        row.tag,
        row.key,
        row.at,
        row.data,
    )
