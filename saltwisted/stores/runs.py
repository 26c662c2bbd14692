"""
The records of orchestrations on one disk: C{runs.sqlite}.

Lines that are written together reach the disk together, by C{fsync}, before anybody is informed.
All blocking work is done in a thread, one call after another; lines that arrive meanwhile form one
transaction. L{saltwisted.domain.orchestration.words} describes the lines.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from saltwisted.domain.orchestration.copies import Put, Record
from saltwisted.domain.orchestration.words import holder_of
from saltwisted.errors import StoreError
from saltwisted.stores import files
from saltwisted.stores.batches import Batches
from saltwisted.stores.database import connect, open_database, open_or_begin
from saltwisted.stores.telling import Later, at_once

MIGRATIONS = (
    """
    CREATE TABLE records (
        jid TEXT PRIMARY KEY, promised_attempt INTEGER NOT NULL, promised INTEGER NOT NULL,
        attempt INTEGER NOT NULL, term INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE lines (
        jid TEXT NOT NULL, number INTEGER NOT NULL, line BLOB NOT NULL, PRIMARY KEY (jid, number)
    ) WITHOUT ROWID;
    """,
)

RunInThread = Callable[..., Deferred[Any]]


class RunStore:
    """
    @param run: calls in a thread.
    @param later: as for L{Batches}.
    """

    log = Logger()

    def __init__(self, path: str, run: RunInThread, later: Later = at_once) -> None:
        self.path = path
        self._run = run
        self._db: sqlite3.Connection | None = None
        self._batches: Batches[tuple[list[Put], list[str]]] = Batches(
            lambda work: self._run(self._write, work), later
        )

    def load(self) -> Deferred[list[Record]]:
        """
        Open it, and read all, but for the lines of runs that have ended; a damaged file is put
        aside.
        """
        return self._run(self._load)

    def _load(self) -> list[Record]:
        return open_or_begin(self.path, self._open, self._damaged)

    def _damaged(self, error: str) -> None:
        self.log.error(
            "{path} is damaged ({error}) and was put aside: the record of orchestrations is now "
            "only on other nodes",
            path=self.path,
            error=error,
        )

    def _open(self) -> list[Record]:
        files.make_dir(os.path.dirname(self.path))
        self._db = open_database(self.path, MIGRATIONS)
        try:
            return read(self._db)
        except BaseException:
            self._close()
            raise

    def lines(self, jid: str) -> Deferred[Sequence[bytes]]:
        """
        Those of one run, as far as they are on disk.

        @return: fails with L{StoreError} when they cannot be read.
        """
        return self._run(self._lines, jid)

    def _lines(self, jid: str) -> Sequence[bytes]:
        try:
            # The other connection is in use when something is written
            with closing(connect(self.path, "ro")) as db:
                return lines_of(db, jid)
        except sqlite3.Error as error:
            raise StoreError(str(error), self.path) from error

    def close(self) -> Deferred[None]:
        """When all is written."""
        return self._batches.written().addCallback(lambda _: self._close())

    def _close(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            db.close()

    def write(self, puts: Iterable[Put], forget: Iterable[str] = ()) -> Deferred[None]:
        """
        Fires when all of it is on disk.

        @param forget: runs that are deleted completely.
        @return: fails with L{StoreError} if the disk refuses; then nothing is written.
        """
        return self._batches.add((list(puts), list(forget)))

    def _write(self, work: Sequence[tuple[Sequence[Put], Sequence[str]]]) -> None:
        if self._db is None:
            raise StoreError("it is closed", self.path)
        try:
            commit(self._db, work)
        except sqlite3.Error as error:
            raise StoreError(str(error), self.path) from error


def commit(db: sqlite3.Connection, work: Sequence[tuple[Sequence[Put], Sequence[str]]]) -> None:
    """One transaction."""
    db.execute("BEGIN IMMEDIATE")
    try:
        for puts, forget in work:
            for put in puts:
                db.execute(
                    "INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?, ?)",
                    (put.jid, *put.promised, *put.term),
                )
                db.execute("DELETE FROM lines WHERE jid = ? AND number >= ?", (put.jid, put.at))
                db.executemany(
                    "INSERT INTO lines VALUES (?, ?, ?)",
                    [(put.jid, put.at + number, line) for number, line in enumerate(put.lines)],
                )
            gone = [(jid,) for jid in forget]
            db.executemany("DELETE FROM records WHERE jid = ?", gone)
            db.executemany("DELETE FROM lines WHERE jid = ?", gone)
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def lines_of(db: sqlite3.Connection, jid: str) -> list[bytes]:
    """Those of one run."""
    found = db.execute("SELECT line FROM lines WHERE jid = ? ORDER BY number", (jid,))
    return [line for (line,) in found.fetchall()]


def read(db: sqlite3.Connection) -> list[Record]:
    """All records; of runs that have ended without their lines."""
    heads = db.execute(
        "SELECT jid, promised_attempt, promised, attempt, term FROM records"
    ).fetchall()
    found = []
    for jid, promised_attempt, promised, attempt, term in heads:
        lines = tuple(lines_of(db, jid))
        record = Record(
            jid=jid, promised=(promised_attempt, promised), term=(attempt, term), lines=lines
        )
        # One at a time: in a day there may be more of them than there is memory
        found.append(record.shed() if lines and holder_of(lines) is None else record)
    return found
