"""
The database of one share: the file, its transactions, and what all its tables share.

One SQLite file, WAL, C{synchronous=FULL}. Each change of the index is one transaction, together
with the places of the objects that it needs: after a crash all of it is there, or nothing.
L{saltwisted.domain.roots.index} describes the rows; each part of the store reads and writes its own
tables.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from twisted.logger import Logger

from saltwisted.domain.causality.knowledge import Dot
from saltwisted.domain.roots.entry import ReplicaId, TreeEntry, Version
from saltwisted.errors import StoreError
from saltwisted.stores.database import (
    change_many,
    connect,
    damage,
    insert_many,
    is_corrupt,
    open_database,
    put_aside,
)
from saltwisted.stores.files import write_atomic
from saltwisted.stores.roots.places import Step, no_step

SCHEMA = """
CREATE TABLE IF NOT EXISTS meta(name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS replica(rid INTEGER PRIMARY KEY, master TEXT, incarnation BLOB,
    UNIQUE(master, incarnation));
CREATE TABLE IF NOT EXISTS know(rid INTEGER PRIMARY KEY, ctr INTEGER);
CREATE TABLE IF NOT EXISTS floor(rid INTEGER PRIMARY KEY, ctr INTEGER);
CREATE TABLE IF NOT EXISTS version(path BLOB, rid INTEGER, ctr INTEGER, stamp INTEGER, kind TEXT,
    mode INTEGER, size INTEGER, mtime INTEGER, content BLOB, PRIMARY KEY(path, rid, ctr))
    WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS tree(path BLOB PRIMARY KEY, kind TEXT, mode INTEGER, size INTEGER,
    mtime INTEGER, content BLOB, stat BLOB) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS batch(n INTEGER PRIMARY KEY, rid INTEGER, lo INTEGER, hi INTEGER,
    at REAL, body BLOB, short BLOB);
CREATE TABLE IF NOT EXISTS gen(n INTEGER PRIMARY KEY, at REAL, digest BLOB, origin TEXT,
    note TEXT, files INTEGER, bytes INTEGER, undo BLOB);
CREATE TABLE IF NOT EXISTS conflict(path BLOB, rid INTEGER, ctr INTEGER, stamp INTEGER, kind TEXT,
    mode INTEGER, size INTEGER, mtime INTEGER, content BLOB, at REAL, state TEXT,
    PRIMARY KEY(path, rid, ctr)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS object(hash BLOB PRIMARY KEY, size INTEGER, pack INTEGER, off INTEGER,
    until REAL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS peer(master TEXT, rid INTEGER, ctr INTEGER, PRIMARY KEY(master, rid))
    WITHOUT ROWID;
"""


DAMAGED = ".damaged"
"""A file beside the database, when it was marked as damaged while it was in use."""


class IndexDatabase:
    """@param path: the file; created if it does not exist."""

    logger = Logger()

    def __init__(self, path: str, step: Step = no_step) -> None:
        self.path = path
        self._step = step
        self._lock = threading.RLock()
        self._numbers: dict[ReplicaId, int] = {}
        self._replicas: dict[int, ReplicaId] = {}
        self.broken = ""
        self.put_aside = ""
        """Where the file lies that was here and is damaged."""
        try:
            self._open(path)
        except sqlite3.Error as error:
            if not is_corrupt(error):
                raise StoreError(str(error), path) from error
            self._put_aside(str(error))
            try:
                self._open(path)
            except sqlite3.Error as again:
                raise StoreError(str(again), path) from again

    def _open(self, path: str) -> None:
        marked = os.path.exists(path + DAMAGED)
        fresh = not os.path.exists(path)
        if marked and not fresh:
            raise damage("it was marked as damaged while it was in use")
        if marked:
            # It was put aside, and the process ended before it took the mark away
            os.unlink(path + DAMAGED)
        self._db = open_database(path, (SCHEMA,))
        try:
            self._db.execute("PRAGMA wal_autocheckpoint=4000")
            self._db.execute("PRAGMA cache_size=-4000")
            if self._db.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
                raise damage("quick_check failed")
            self._read_replicas()
        except BaseException:
            self._db.close()
            raise
        self.fresh = fresh

    def _read_replicas(self) -> None:
        rows = self._db.execute("SELECT * FROM replica").fetchall()
        self._numbers.clear()
        self._replicas.clear()
        for number, master, incarnation in rows:
            self._remember(number, ReplicaId(master, bytes(incarnation)))

    def mark(self, reason: str) -> None:
        """The file is damaged: it is put aside when it is opened again."""
        self.broken = reason
        with suppress(StoreError):
            write_atomic(self.path + DAMAGED, reason.encode(), 0o600)

    def _put_aside(self, reason: str) -> None:
        self.put_aside = put_aside(self.path)
        with suppress(FileNotFoundError):
            os.unlink(self.path + DAMAGED)
        self.logger.critical(
            "{path} is damaged ({reason}): it was moved to {aside}, and the tree comes from the "
            "other members; what is in the working tree stays",
            path=self.path,
            reason=reason,
            aside=self.put_aside,
        )

    def check(self) -> str:
        """What SQLite finds wrong with the file, or C{""}; it is marked, to be put aside then."""
        try:
            db = connect(self.path, "ro")
            try:
                found = str(db.execute("PRAGMA integrity_check(1)").fetchone()[0])
            finally:
                db.close()
        except sqlite3.Error as error:
            if not is_corrupt(error):
                raise StoreError(str(error), self.path) from error
            found = str(error)
        if found == "ok":
            return ""
        self.mark(found)
        return found

    def _remember(self, number: int, replica: ReplicaId) -> None:
        self._numbers[replica] = number
        self._replicas[number] = replica

    def number(self, replica: ReplicaId) -> int:
        """The small number of a replica; inside a transaction."""
        found = self._numbers.get(replica)
        if found is None:
            cursor = self._db.execute(
                "INSERT INTO replica(master, incarnation) VALUES(?, ?)",
                (replica.master, replica.incarnation),
            )
            found = int(cursor.lastrowid or 0)
            self._remember(found, replica)
        return found

    def find_number(self, replica: ReplicaId) -> int:
        """The small number of a replica; -1 if it has none."""
        return self._numbers.get(replica, -1)

    def replica(self, number: int) -> ReplicaId:
        """The replica that has this small number."""
        return self._replicas[number]

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """
        All of it or nothing.

        @raises StoreError: nothing has changed; also replica numbers are read again.
        """
        with self._lock:
            try:
                self._db.execute("BEGIN IMMEDIATE")
                yield
                self._step("commit")
                self._db.execute("COMMIT")
            except BaseException as error:
                with suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
                with suppress(sqlite3.Error):
                    self._read_replicas()
                if isinstance(error, sqlite3.Error):
                    if is_corrupt(error):
                        self.mark(str(error))
                    raise StoreError(str(error), self.path) from error
                raise

    # -- statements

    def execute(self, statement: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        """One statement."""
        return self._db.execute(statement, values)

    def insert(self, into: str, rows: Iterable[Sequence[Any]]) -> None:
        """Rows of one table, see L{insert_many}; inside a transaction."""
        insert_many(self._db, into, rows)

    def change(self, statement: str, keys: Iterable[Any], *values: Any) -> None:
        """Rows with these keys, see L{change_many}; inside a transaction."""
        change_many(self._db, statement, keys, *values)

    # -- single values

    def get(self, name: str, default: Any = None) -> Any:
        """A value of the share."""
        row = self._db.execute("SELECT value FROM meta WHERE name=?", (name,)).fetchone()
        return default if row is None else row[0]

    def set(self, name: str, value: Any) -> None:
        """Keep a value of the share."""
        self._db.execute("INSERT OR REPLACE INTO meta VALUES(?, ?)", (name, value))

    # -- rows of versions, and of what is known

    def version(self, row: Sequence[Any]) -> Version:
        """A version from its columns, from C{rid} on."""
        rid, counter, stamp, kind, mode, size, mtime, content = row
        entry = TreeEntry(kind, mode, size, mtime, bytes(content))
        return Version(Dot(self._replicas[rid], counter), stamp, entry)

    def flat(self, version: Version) -> tuple[Any, ...]:
        """The columns of a version; inside a transaction."""
        (replica, counter), stamp, entry = version
        return (
            self.number(replica),
            counter,
            stamp,
            entry.kind,
            entry.mode,
            entry.size,
            entry.mtime,
            entry.content,
        )

    def vector(self, table: str) -> dict[ReplicaId, int]:
        """C{know} or C{floor}."""
        query = "SELECT rid, ctr FROM know" if table == "know" else "SELECT rid, ctr FROM floor"
        return {self._replicas[rid]: counter for rid, counter in self._db.execute(query)}

    def put_vector(self, table: str, vector: Mapping[ReplicaId, int]) -> None:
        """Replace C{know} or C{floor}."""
        name = "know" if table == "know" else "floor"
        self._db.execute(f"DELETE FROM {name}")  # noqa: S608 -- one of two literals
        rows = [(self.number(replica), counter) for replica, counter in vector.items()]
        self.insert(f"INSERT INTO {name}", rows)

    def forget_tree(self) -> None:
        """
        Rows, knowledge, log and history; conflicts and contents stay. Inside a transaction.
        """
        for table in ("know", "floor", "version", "tree", "batch", "gen", "peer"):
            self._db.execute(f"DELETE FROM {table}")  # noqa: S608 - names of our own

    def close(self) -> None:
        """Close the file."""
        self._db.close()
