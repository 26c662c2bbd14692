"""
The database of one share: rows of the index, its log, generations, conflicts, and places.

One SQLite file, WAL, C{synchronous=FULL}. Each change of the index is one transaction together
with the places of the objects that it needs: after a crash all of it is there,
or nothing. What rows mean is in L{saltwisted.domain.roots.index}.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from operator import itemgetter
from typing import Any, NamedTuple

from twisted.logger import Logger

from saltwisted.domain.causality.knowledge import Dot
from saltwisted.domain.roots.entry import Entry, ReplicaId, Version
from saltwisted.errors import StoreError
from saltwisted.stores.database import (
    change_many,
    connect,
    damage,
    insert_many,
    is_corrupt,
    open_database,
)
from saltwisted.stores.files import write_atomic
from saltwisted.stores.roots.places import Place, Step, no_step
from saltwisted.stores.roots.treefs import Identity

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


class Known(NamedTuple):
    """What is in the working tree at a path, as far as we know; no identity: look again."""

    entry: Entry
    identity: Identity | None


class Change(NamedTuple):
    """A generation in the log: which it is, when it came, whose change it was."""

    number: int
    at: float
    digest: bytes
    origin: str
    note: str
    files: int
    size: int


class IndexDatabase:
    """
    @param path: the file; made if there is none.
    """

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
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
        self.put_aside = f"{self.path}.corrupt-{stamp}-{os.urandom(3).hex()}"
        for suffix in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.rename(self.path + suffix, self.put_aside + suffix)
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

    def paths(self) -> set[bytes]:
        """All paths that have a version on the disk."""
        return {bytes(path) for (path,) in self._db.execute("SELECT DISTINCT path FROM version")}

    def some_rows(self, part: int, parts: int) -> dict[bytes, tuple[Version, ...]]:
        """The versions of one part of all paths, as they are on the disk."""
        paths = self._db.execute("SELECT count(DISTINCT path) FROM version").fetchone()[0]
        each = paths // parts + 1
        found: dict[bytes, tuple[Version, ...]] = {}
        for path, *rest in self._db.execute(
            "SELECT path, rid, ctr, stamp, kind, mode, size, mtime, content FROM version "
            "WHERE path IN (SELECT DISTINCT path FROM version ORDER BY path LIMIT ? OFFSET ?)",
            (each, each * part),
        ):
            path = bytes(path)
            try:
                found[path] = (*found.get(path, ()), self._version(rest))
            except (KeyError, TypeError, ValueError):
                found[path] = ()
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

    # -- single values

    def get(self, name: str, default: Any = None) -> Any:
        """A value of the share."""
        row = self._db.execute("SELECT value FROM meta WHERE name=?", (name,)).fetchone()
        return default if row is None else row[0]

    def set(self, name: str, value: Any) -> None:
        """Keep a value of the share."""
        self._db.execute("INSERT OR REPLACE INTO meta VALUES(?, ?)", (name, value))

    # -- the index

    def rows(self) -> dict[bytes, tuple[Version, ...]]:
        """All versions; siblings of a path in no particular order."""
        found: dict[bytes, tuple[Version, ...]] = {}
        for path, *rest in self._db.execute(
            "SELECT path, rid, ctr, stamp, kind, mode, size, mtime, content FROM version"
        ):
            path = bytes(path)
            found[path] = (*found.get(path, ()), self._version(rest))
        return found

    def _version(self, row: Sequence[Any]) -> Version:
        rid, counter, stamp, kind, mode, size, mtime, content = row
        entry = Entry(kind, mode, size, mtime, bytes(content))
        return Version(Dot(self._replicas[rid], counter), stamp, entry)

    def put_rows(
        self, rows: Iterable[tuple[bytes, Sequence[Version]]], fresh: Container[bytes] = ()
    ) -> None:
        """Replace the versions of these paths; C{fresh} had none before."""
        rows = sorted(rows)
        old = [path for path, _ in rows if path not in fresh]
        change_many(self._db, "DELETE FROM version WHERE path", old)
        insert_many(
            self._db,
            "INSERT OR REPLACE INTO version",
            [(path, *self._flat(version)) for path, row in rows for version in row],
        )

    def _flat(self, version: Version) -> tuple[Any, ...]:
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
        insert_many(self._db, f"INSERT INTO {name}", rows)

    # -- the working tree

    def tree(self) -> dict[bytes, Known]:
        """What is known of the working tree."""
        found = {}
        for path, kind, mode, size, mtime, content, stat in self._db.execute("SELECT * FROM tree"):
            identity = None
            if stat:
                identity = Identity(*(int(part) for part in bytes(stat).split()))
            entry = Entry(kind, mode, size, mtime, bytes(content))
            found[bytes(path)] = Known(entry, identity)
        return found

    def put_tree(self, known: Iterable[tuple[bytes, Known | None]]) -> None:
        """Remember what is in the tree at these paths; C{None} for nothing."""
        known = sorted(known, key=itemgetter(0))
        gone = [path for path, one in known if one is None]
        change_many(self._db, "DELETE FROM tree WHERE path", gone)
        insert_many(
            self._db,
            "INSERT OR REPLACE INTO tree",
            [
                (
                    path,
                    one.entry.kind,
                    one.entry.mode,
                    one.entry.size,
                    one.entry.mtime,
                    one.entry.content,
                    b"%d %d %d %d %d %d" % one.identity if one.identity else b"",
                )
                for path, one in known
                if one is not None
            ],
        )

    def move_tree(self, old: bytes, new: bytes) -> None:
        """What is known of all that is below one directory, holds below another one now."""
        inside = (old + b"/", old + b"0")
        self._db.execute(
            "INSERT OR REPLACE INTO tree SELECT CAST(? || substr(path, ?) AS BLOB), kind, mode, "
            "size, mtime, content, stat FROM tree WHERE path > ? AND path < ?",
            (new, len(old) + 1, *inside),
        )
        self._db.execute("DELETE FROM tree WHERE path > ? AND path < ?", inside)

    # -- the log

    def add_batch(
        self,
        number: int,
        replica: ReplicaId,
        lo: int,
        hi: int,
        at: float,
        body: bytes,
        short: bytes,
    ) -> None:
        """Keep a batch, as it travels: plain, and folded (empty if that is no shorter)."""
        self._db.execute(
            "INSERT INTO batch(n, rid, lo, hi, at, body, short) VALUES(?,?,?,?,?,?,?)",
            (number, self.number(replica), lo, hi, at, body, short),
        )

    def log(self) -> list[tuple[int, ReplicaId, int, int]]:
        """Number, replica, lo and hi of the batches that are kept, in the order they came."""
        return [
            (number, self._replicas[rid], lo, hi)
            for number, rid, lo, hi in self._db.execute(
                "SELECT n, rid, lo, hi FROM batch ORDER BY n"
            )
        ]

    def body(self, replica: ReplicaId, lo: int, short: bool = False) -> bytes | None:
        """A batch as it travels."""
        row = self._db.execute(
            "SELECT body, short FROM batch WHERE rid=? AND lo=?",
            (self._numbers.get(replica, -1), lo),
        ).fetchone()
        if row is None:
            return None
        return bytes(row[1]) if short and row[1] else bytes(row[0])

    def drop_batches(self, numbers: Iterable[int]) -> None:
        """Forget batches."""
        change_many(self._db, "DELETE FROM batch WHERE n", numbers)

    def old_batches(self, before: float, most_bytes: int) -> list[tuple[int, ReplicaId, int]]:
        """Number, replica and hi of batches that are too old, or beyond the room for them."""
        found = []
        total = 0
        for number, rid, hi, at, size in self._db.execute(
            "SELECT n, rid, hi, at, length(body) + length(short) FROM batch ORDER BY n DESC"
        ):
            total += size
            if at < before or total > most_bytes:
                found.append((number, self._replicas[rid], hi))
        return found

    # -- generations

    def add_generation(self, change: Change, undo: bytes) -> None:
        """Keep a line of the history, and how to go back over it."""
        self._db.execute("INSERT OR REPLACE INTO gen VALUES(?,?,?,?,?,?,?,?)", (*change, undo))

    def generations(self, most: int = 1000) -> list[Change]:
        """The history, newest first."""
        return [
            Change(number, at, bytes(digest), origin, note, files, size)
            for number, at, digest, origin, note, files, size in self._db.execute(
                "SELECT n, at, digest, origin, note, files, bytes FROM gen ORDER BY n DESC LIMIT ?",
                (most,),
            )
        ]

    def undo(self, number: int) -> bytes:
        """How to go back over one generation."""
        row = self._db.execute("SELECT undo FROM gen WHERE n=?", (number,)).fetchone()
        if row is None:
            raise StoreError(f"generation {number} is no longer kept", self.path)
        return bytes(row[0])

    def drop_generations(self, below: int) -> None:
        """Forget the history before a generation."""
        self._db.execute("DELETE FROM gen WHERE n<?", (below,))

    def forget_tree(self) -> None:
        """Rows, knowledge, log and history; conflicts and contents stay."""
        for table in ("know", "floor", "version", "tree", "batch", "gen", "peer"):
            self._db.execute(f"DELETE FROM {table}")  # noqa: S608 - names of our own

    # -- conflicts

    def add_conflicts(
        self, lost: Iterable[tuple[bytes, Version]], at: float, state: str = "open"
    ) -> int:
        """Keep versions that lost; how many are new."""
        count = 0
        for path, version in lost:
            cursor = self._db.execute(
                "INSERT OR IGNORE INTO conflict VALUES(?,?,?,?,?,?,?,?,?,?,?)",
                (path, *self._flat(version), at, state),
            )
            count += cursor.rowcount
        return count

    def conflicts(self) -> list[tuple[bytes, Version, float, str]]:
        """Path, version, when it was noticed, and C{open}, C{adopted} or C{settled}."""
        return [
            (bytes(path), self._version(rest), at, state)
            for path, *rest, at, state in self._db.execute("SELECT * FROM conflict ORDER BY path")
        ]

    def settle(self, path: bytes, dot: Dot[ReplicaId]) -> None:
        """An operator closed a conflict."""
        self._db.execute(
            "UPDATE conflict SET state='settled' WHERE path=? AND rid=? AND ctr=?",
            (path, self.number(dot.source), dot.number),
        )

    def drop_conflicts(self, before: float) -> None:
        """Forget conflicts that are older."""
        self._db.execute("DELETE FROM conflict WHERE at<?", (before,))

    # -- objects

    def places(self) -> dict[bytes, Place]:
        """Where all objects are."""
        return {
            bytes(digest): Place(size, pack, offset)
            for digest, size, pack, offset in self._db.execute(
                "SELECT hash, size, pack, off FROM object"
            )
        }

    def put_places(self, places: Mapping[bytes, Place]) -> None:
        """Remember where objects are."""
        rows = [(digest, *place, None) for digest, place in sorted(places.items())]
        insert_many(self._db, "INSERT OR REPLACE INTO object", rows)

    def drop_places(self, digests: Iterable[bytes]) -> None:
        """Forget objects."""
        change_many(self._db, "DELETE FROM object WHERE hash", digests)

    def ends(self) -> dict[bytes, float | None]:
        """Object to the time until which it is kept though nothing refers to it."""
        return {
            bytes(digest): until
            for digest, until in self._db.execute("SELECT hash, until FROM object")
        }

    def put_ends(self, ends: Mapping[bytes, float | None]) -> None:
        """Change until when objects are kept."""
        digests: dict[float | None, list[bytes]] = {}
        for digest, until in ends.items():
            digests.setdefault(until, []).append(digest)
        for until, some in digests.items():
            change_many(self._db, "UPDATE object SET until=? WHERE hash", some, until)

    # -- peers

    def peers(self) -> dict[str, dict[ReplicaId, int]]:
        """What each peer has confirmed to know."""
        found: dict[str, dict[ReplicaId, int]] = {}
        for master, rid, counter in self._db.execute("SELECT master, rid, ctr FROM peer"):
            found.setdefault(master, {})[self._replicas[rid]] = counter
        return found

    def put_peer(self, master: str, vector: Mapping[ReplicaId, int]) -> None:
        """Remember what a peer confirmed."""
        self._db.execute("DELETE FROM peer WHERE master=?", (master,))
        rows = [(master, self.number(rid), counter) for rid, counter in vector.items()]
        insert_many(self._db, "INSERT INTO peer", rows)

    def close(self) -> None:
        """Close the file."""
        self._db.close()
