"""
SQLite files: how they are opened, and how their schema is upgraded from version to version.

Everything here blocks. The store decides who calls it, and in which thread.

With each row that it takes, C{sqlite3} lets other threads have the interpreter and has to get it
back. While another thread computes, ten thousand rows take ten seconds instead of thirty
milliseconds. So many rows go into one statement (L{insert_many}, L{change_many}), and changes that
fit into one statement are transactions by themselves (L{transaction}).
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from saltwisted.errors import StoreError
from saltwisted.stores.files import store_error

T = TypeVar("T")

TOGETHER = (200, 50, 10, 4, 2, 1)
"""
Rows in one statement, the largest number that fits: with ten columns below the 32 766 values of
SQLite 3.32, and few different statements, since each is compiled once.
"""


def connect(path: str, mode: str) -> sqlite3.Connection:
    """
    A connection, C{rw} or C{ro}, for one thread at a time; the caller manages transactions.

    @raises sqlite3.Error: the file does not exist, or cannot be opened.
    """
    # file: URIs need the characters of their own syntax escaped
    quoted = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    return sqlite3.connect(
        f"file:{quoted}?mode={mode}",
        uri=True,
        timeout=10.0,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=64,
    )


def open_database(path: str, migrations: Sequence[str]) -> sqlite3.Connection:
    """
    Open the file for writing. It is created or upgraded as needed; 0600, durable at each commit.

    @param migrations: creates the schema of each version from the one before; C{PRAGMA
        user_version} counts them. Each is applied completely or not at all.
    @raises StoreError: a newer saltwisted wrote it, or it cannot be opened at all.
    @raises sqlite3.Error: it is damaged, or the disk refuses.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        os.fchmod(fd, 0o600)
        os.close(fd)
    except OSError as error:
        raise store_error(error, path) from error
    db = connect(path, "rw")
    try:
        db.execute("PRAGMA journal_mode=WAL").fetchall()
        db.execute("PRAGMA synchronous=FULL")
        db.execute("PRAGMA journal_size_limit=67108864")
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version > len(migrations):
            raise StoreError(
                f"was written by a newer saltwisted (schema {version}, this one knows "
                f"{len(migrations)}): use that version, or move the file away",
                path,
            )
        for number in range(version, len(migrations)):
            db.executescript(
                f"BEGIN IMMEDIATE; {migrations[number]} PRAGMA user_version={number + 1}; COMMIT;"
            )
        return db
    except BaseException:
        db.close()
        raise


def is_corrupt(error: sqlite3.Error) -> bool:
    """
    Whether the file itself is damaged, not only the disk full.

    A text that is not UTF-8 was never written: SQLite returns it, and Python's module reports it
    without an error code.
    """
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if str(error).startswith("Could not decode to UTF-8"):
        return True
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def damage(text: str) -> sqlite3.DatabaseError:
    """Damage as SQLite itself says it."""
    error = sqlite3.DatabaseError(text)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error


def put_aside(
    path: str, now: float | None = None, entropy: Callable[[int], bytes] = os.urandom
) -> str:
    """
    Keep a damaged database for somebody who can repair it; returns its new path.

    The file is moved before its log of writes. In the other order, a process that is killed in
    between would leave a file that may be intact without the latest writes. Without its file,
    SQLite ignores the log and deletes it.
    """
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now))
    aside = f"{path}.corrupt-{stamp}-{entropy(3).hex()}"
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.rename(path + suffix, aside + suffix)
    return aside


def open_or_begin(path: str, opened: Callable[[], T], tell: Callable[[str], object]) -> T:
    """
    The result of C{opened}; a damaged file is moved aside, and another one is begun.

    @param opened: opens the file and reads it. If it raises, it closes what it has opened.
    @param tell: called with the problem of a damaged file.
    @raises StoreError: the disk refuses.
    """
    try:
        return opened()
    except sqlite3.Error as error:
        if not is_corrupt(error):
            raise StoreError(str(error), path) from error
        tell(str(error))
        put_aside(path)
    try:
        return opened()
    except sqlite3.Error as error:
        raise StoreError(str(error), path) from error


def pieces(rows: int) -> int:
    """How many statements it takes to write so many rows."""
    count = 0
    for size in TOGETHER:
        count += rows // size
        rows %= size
    return count


@contextmanager
def transaction(db: sqlite3.Connection, statements: int) -> Iterator[None]:
    """
    All that is written in it, or nothing, and on disk when it is left.

    @param statements: how many there will be. One needs nothing around it: the thread gives the
        interpreter away once, C{fsync} included, and not three times.
    """
    if statements == 1:
        yield
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def insert_many(db: sqlite3.Connection, into: str, rows: Iterable[Sequence[Any]]) -> None:
    """
    Insert rows, many with each statement; inside a transaction, so that it is all or nothing.

    @param into: how the statement begins, as C{"INSERT OR REPLACE INTO table"}; C{" (a, b)"} may
        follow.
    @param rows: all of the same length. In the order of the key they are written the fastest.
    """
    rows = list(rows)
    at = 0
    for size in TOGETHER:
        if len(rows) - at < size:
            continue
        row = f"({','.join('?' * len(rows[0]))})"
        statement = f"{into} VALUES {','.join([row] * size)}"
        while len(rows) - at >= size:
            db.execute(statement, [value for row in rows[at : at + size] for value in row])
            at += size


def change_many(db: sqlite3.Connection, statement: str, keys: Iterable[Any], *values: Any) -> None:
    """
    Change or delete the rows with these keys, many with each statement; inside a transaction.

    @param statement: up to the key, as C{"DELETE FROM table WHERE key"}.
    @param values: the values for its question marks.
    """
    keys = list(keys)
    at = 0
    for size in TOGETHER:
        while len(keys) - at >= size:
            some = (*values, *keys[at : at + size])
            db.execute(f"{statement} IN ({','.join('?' * size)})", some)
            at += size
