"""
The tables of the job cache, and the statements that fill and empty them.

Everything here blocks and is called in the store's own threads (L{saltwisted.stores.jobs.store}),
which also manage the transactions.
"""

from __future__ import annotations

import sqlite3
from binascii import crc32
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from saltwisted.errors import WireError
from saltwisted.stores.database import open_database
from saltwisted.wire.msgpack import unpack_bin

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE jobs (
        jid TEXT PRIMARY KEY, started REAL NOT NULL, fun TEXT NOT NULL,
        load BLOB NOT NULL, minions BLOB NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX jobs_started ON jobs (started);
    CREATE TABLE returns (
        number INTEGER PRIMARY KEY, jid TEXT NOT NULL, id TEXT NOT NULL, load BLOB NOT NULL,
        UNIQUE (jid, id)
    );
    """,
    """
    CREATE TABLE streams (
        idx INTEGER PRIMARY KEY, node TEXT NOT NULL, incarnation TEXT NOT NULL,
        known INTEGER NOT NULL, floor INTEGER NOT NULL, UNIQUE (node, incarnation)
    );
    CREATE TABLE facts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
    INSERT INTO streams VALUES (0, '', lower(hex(randomblob(8))), 0, 0);
    INSERT INTO facts VALUES ('own', 0), ('inode', 0), ('confirmed', 0);
    ALTER TABLE returns ADD COLUMN at REAL NOT NULL DEFAULT 0;
    CREATE TABLE numbered_jobs (
        number INTEGER PRIMARY KEY, jid TEXT NOT NULL UNIQUE, started REAL NOT NULL,
        fun TEXT NOT NULL, rank INTEGER NOT NULL, load BLOB NOT NULL, minions BLOB NOT NULL
    );
    INSERT INTO numbered_jobs
        SELECT row_number() OVER (ORDER BY started, jid)
            + (SELECT coalesce(max(number), 0) FROM returns), jid, started, fun, 1, load, minions
        FROM jobs;
    DROP TABLE jobs;
    ALTER TABLE numbered_jobs RENAME TO jobs;
    CREATE INDEX jobs_started ON jobs (started);
    """,
    """
    CREATE TABLE claims (
        id TEXT NOT NULL, at REAL NOT NULL, jid TEXT NOT NULL, size INTEGER NOT NULL,
        PRIMARY KEY (id, at, jid)
    ) WITHOUT ROWID;
    INSERT INTO claims SELECT id, at, jid, length(returns.load)
        FROM returns JOIN jobs USING (jid) WHERE rank = 0;
    """,
    """
    ALTER TABLE returns ADD COLUMN crc INTEGER;
    ALTER TABLE jobs ADD COLUMN crc INTEGER;
    INSERT INTO facts VALUES ('pruned', 0), ('owed', 0);
    CREATE TABLE marks (at INTEGER NOT NULL, idx INTEGER NOT NULL, known INTEGER NOT NULL);
    """,
)
"""
What makes the schema of each version from the one before; C{PRAGMA user_version} counts them.

A row's C{number} is its place in the replicated log as well: the index of its stream, times
L{SPAN}, and its number in that stream. So the log costs no row and no index of its own.
C{rank} is L{DERIVED} for the record of a job that only its returns told of; those have
numbers below 0, as every node derives them for itself. C{claims} is explained in
L{saltwisted.stores.jobs.claims}.
C{crc} is of the other columns: SQLite does not notice a flipped bit in what a row holds. The fact
C{pruned} is the time before which jobs were forgotten, C{owed} that the other members may have
more than this file.

C{load} is a msgpack map, and readers ignore keys they do not know: a job's or
return's new fact needs a column only if it is searched for.
"""

_CHUNKS = (256, 64, 16, 4, 1)


def _statements(head: str, columns: int) -> dict[int, str]:
    row = "(" + ",".join("?" * columns) + ")"
    return {rows: head + ",".join([row] * rows) for rows in _CHUNKS}


ADD_RETURNS = _statements(
    "INSERT OR IGNORE INTO returns (number, jid, id, at, load, crc) VALUES ", 6
)
ADD_JOBS = _statements("INSERT OR IGNORE INTO jobs VALUES ", 8)
PUT_JOBS = _statements("INSERT OR REPLACE INTO jobs VALUES ", 8)

SPAN = 1 << 40
"""How many entries a stream may have."""
DERIVED, PUBLISHED = 0, 1

RETURN_COLUMNS = (
    "number, CAST(jid AS BLOB), CAST(id AS BLOB), CAST(at AS REAL), "
    "CAST(load AS BLOB), CAST(crc AS INTEGER)"
)
JOB_COLUMNS = (
    "number, CAST(jid AS BLOB), CAST(fun AS BLOB), CAST(started AS REAL), "
    "CAST(load AS BLOB), CAST(minions AS BLOB), CAST(crc AS INTEGER)"
)
"""
What L{good_return} and L{good_job} look at. A flipped bit may have made a text of a number, and of
a text what nobody can decode: one such value would keep a reader from all rows.
"""

_PRUNE_ROWS = 500
MARKS = 24
"""How many marks are made in the time for which history is kept."""


def open_table(path: str) -> sqlite3.Connection:
    """
    The job cache, open for writing, and its newest job readable.

    @raises StoreError: as L{open_database}.
    @raises sqlite3.Error: as L{open_database}.
    """
    db = open_database(path, MIGRATIONS)
    try:
        db.execute("PRAGMA cache_size=-4096")
        db.execute("SELECT number FROM jobs ORDER BY started DESC LIMIT 1").fetchall()
        return db
    except BaseException:
        db.close()
        raise


def jobs_where(
    db: sqlite3.Connection,
    where: str,
    values: Sequence[Any],
    bad: list[int],
    minions: bool = True,
) -> list[dict[str, Any]]:
    """
    Records of jobs; records that are not what was written are left out.

    @param where: conditions in fixed words, and what follows them.
    @param bad: takes the numbers of those that were left out.
    """
    return [job for _, _, job in checked_jobs(db, where, values, bad, minions)]


def checked_jobs(
    db: sqlite3.Connection, where: str, values: Sequence[Any], bad: list[int], minions: bool
) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """As L{jobs_where}: the number of each row, how many bytes it has, and the record."""
    query = f"SELECT rank, {JOB_COLUMNS} FROM jobs WHERE {where}"  # noqa: S608 - fixed words
    for rank, *row in db.execute(query, values).fetchall():
        number, jid, _, started, load, expected, _ = row
        if good_job(row):
            job = _job_of(jid.decode(), started, rank, load, expected if minions else None)
            yield number, len(load) + len(expected), job
        else:
            bad.append(number)


def returns_where(
    db: sqlite3.Connection, rest: str, values: Sequence[Any], bad: list[int]
) -> list[tuple[str, str, bytes]]:
    """
    Jid, minion id and load of returns; returns that are not what was written are left out.

    @param rest: what follows the table, in fixed words.
    @param bad: takes the numbers of those that were left out.
    """
    found = []
    query = f"SELECT {RETURN_COLUMNS} FROM returns {rest}"  # noqa: S608 - fixed words
    for row in db.execute(query, values).fetchall():
        number, jid, minion_id, _, load, _ = row
        if good_return(row):
            found.append((jid.decode(), minion_id.decode(), load))
        else:
            bad.append(number)
    return found


def ids_where(db: sqlite3.Connection, rest: str, values: Sequence[Any]) -> list[str]:
    """
    The minions of returns, without their contents; rows that cannot be decoded are left out.

    @param rest: what follows the table, in fixed words.
    """
    rows = db.execute(f"SELECT CAST(id AS BLOB) FROM returns {rest}", values)  # noqa: S608 - fixed words
    found = []
    for (data,) in rows.fetchall():
        with suppress(UnicodeDecodeError):
            found.append(data.decode())
    return found


def _job_of(
    jid: str, started: float, rank: int, load: bytes, minions: bytes | None
) -> dict[str, Any]:
    job = unpack_bin(load)
    job.pop("claimed", None)
    if rank == DERIVED:
        # Made of a return: a minion says that there was such a job
        job["claimed"] = True
    job["jid"] = jid
    job["started"] = started
    if minions is not None:
        job["minions"] = unpack_bin(minions)
    return job  # type: ignore[no-any-return]


def return_crc(jid: str, minion_id: str, at: float, load: bytes) -> int:
    """The check sum of a return's row."""
    return crc32(load, crc32(f"{jid}\0{minion_id}\0{at!r}".encode("utf-8", "surrogatepass")))


def job_crc(jid: str, started: float, fun: str, load: bytes, minions: bytes) -> int:
    """The check sum of a job's row."""
    head = f"{jid}\0{fun}\0{started!r}".encode("utf-8", "surrogatepass")
    return crc32(minions, crc32(load, crc32(head)))


def good_return(row: Sequence[Any]) -> bool:
    """
    Whether a return is intact.

    @param row: C{RETURN_COLUMNS}.
    """
    _, jid, minion_id, at, load, crc = row
    try:
        found = return_crc(jid.decode(), minion_id.decode(), float(at), load)
    except (UnicodeDecodeError, AttributeError, TypeError, ValueError):
        return False
    return crc == found or (crc is None and _is_map(load))


def good_job(row: Sequence[Any]) -> bool:
    """
    Whether the record of a job is intact.

    @param row: C{JOB_COLUMNS}.
    """
    _, jid, fun, started, load, minions, crc = row
    try:
        found = job_crc(jid.decode(), float(started), fun.decode(), load, minions)
    except (UnicodeDecodeError, AttributeError, TypeError, ValueError):
        return False
    return crc == found or (crc is None and _is_map(load))


def _is_map(load: bytes) -> bool:
    """Of a row of a version without check sums: whether it can be read at all."""
    try:
        return isinstance(unpack_bin(load), dict)
    except WireError:
        return False


def pieces(rows: int) -> int:
    """How many statements it takes to insert so many rows."""
    count = 0
    for size in _CHUNKS:
        count += rows // size
        rows %= size
    return count


def insert(db: sqlite3.Connection, statements: Mapping[int, str], rows: Sequence[Any]) -> int:
    """Insert rows; returns how many were new."""
    count = start = 0
    for size in _CHUNKS:
        while len(rows) - start >= size:
            values = [value for row in rows[start : start + size] for value in row]
            count += db.execute(statements[size], values).rowcount
            start += size
    return count


_OLD = f"""
WITH old AS (
    SELECT idx * {SPAN} AS low, idx * {SPAN} + max(known) AS high FROM marks
    WHERE at <= ?2 GROUP BY idx
)
SELECT number FROM jobs WHERE started < ?1 AND (
    EXISTS (SELECT 1 FROM old WHERE jobs.number > low AND jobs.number <= high)
    OR jobs.number < 0 AND NOT EXISTS (
        SELECT 1 FROM returns WHERE returns.jid = jobs.jid AND NOT EXISTS (
            SELECT 1 FROM old WHERE returns.number > low AND returns.number <= high
        )
    )
) ORDER BY started LIMIT 50
"""  # noqa: S608 - a number


def mark(db: sqlite3.Connection, at: float, before: float, own: int, last: int) -> None:
    """
    Store what is known at this time, so that later it is known what was here then.

    @param before: the time before which history is forgotten.
    @param own: the index of the own stream, whose last row has the number C{last}.
    """
    newest = db.execute("SELECT max(at) FROM marks").fetchone()[0]
    if newest is not None and newest <= at < newest + (at - before) / MARKS:
        return
    db.execute("DELETE FROM marks WHERE at > ?", (int(at),))
    db.execute(
        "INSERT INTO marks SELECT ?, idx, CASE idx WHEN ? THEN ? ELSE known END FROM streams",
        (int(at), own, last - own * SPAN),
    )
    db.execute(
        "DELETE FROM marks WHERE at < (SELECT max(at) FROM marks WHERE at <= ?)", (int(before),)
    )


def prune(db: sqlite3.Connection, before: float) -> int:
    """
    Delete one slice of old rows; returns how many. Everything before that time is recorded as gone.

    A job is old if it began before that time and was here then: the clock of the node that
    published it may have been slow.
    """
    db.execute("UPDATE facts SET value = max(value, ?) WHERE name = 'pruned'", (int(before),))
    rows = db.execute(_OLD, (before, int(before))).fetchall()
    removed = 0
    # By their numbers: a damaged jid may be no text at all
    for (number,) in rows:
        left = _PRUNE_ROWS - removed
        if left <= 0:
            break
        count = db.execute(
            "DELETE FROM returns WHERE number IN (SELECT number FROM returns "
            "WHERE jid = (SELECT jid FROM jobs WHERE number = ?) LIMIT ?)",
            (number, left),
        ).rowcount
        removed += count
        if count < left:
            db.execute("DELETE FROM jobs WHERE number = ?", (number,))
            removed += 1
    return removed


def published_of(db: sqlite3.Connection, jids: Sequence[str]) -> set[str]:
    """Those of these jobs that have a published record."""
    found: set[str] = set()
    for start in range(0, len(jids), 500):
        some = jids[start : start + 500]
        marks = ",".join("?" * len(some))
        query = f"SELECT jid FROM jobs WHERE rank = ? AND jid IN ({marks})"  # noqa: S608
        found.update(jid for (jid,) in db.execute(query, (PUBLISHED, *some)).fetchall())
    return found
