"""
Checks whether the job cache contains what it should: sums to compare with other nodes, and
checksums of rows.

The numbers of a stream are divided into chunks. For each chunk the rows are counted and their
checksums added up: two nodes that know a chunk have the same sums, except for what one of them has
pruned. SQLite computes the sums without Python; the rows themselves are read a few at a time.

All of it blocks, and runs in the store's own threads.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping, Sequence

from attrs import frozen

from saltwisted.domain.replica.entry import Entry, Stream
from saltwisted.stores.jobs.entries import job_entry, return_entry
from saltwisted.stores.jobs.table import JOB_COLUMNS, RETURN_COLUMNS, good_job, good_return

CHUNK = 2048
"""Numbers of a stream that are compared as one."""
PAGE = 64 * CHUNK
"""Numbers that are summed up at once, some ten milliseconds."""

_HELD = """
SELECT returns.number, returns.crc FROM returns LEFT JOIN jobs USING (jid)
WHERE returns.number > ?1 AND returns.number <= ?2 AND coalesce(jobs.started, returns.at) >= ?3
UNION ALL
SELECT number, crc FROM jobs WHERE number > ?1 AND number <= ?2 AND started >= ?3
"""
_SUMS = f"SELECT (number - ?1 - 1) / {CHUNK}, count(*), sum(crc) FROM ({_HELD}) GROUP BY 1"  # noqa: S608 - fixed words

_RETURNS = f"SELECT {RETURN_COLUMNS} FROM returns WHERE number > ? ORDER BY number LIMIT ?"  # noqa: S608 - fixed words
_JOBS = f"SELECT {JOB_COLUMNS} FROM jobs WHERE number > ? ORDER BY number LIMIT ?"  # noqa: S608 - fixed words

Sums = Mapping[int, tuple[int, int]]


def sums(db: sqlite3.Connection, base: int, after: int, upto: int, since: float) -> Sums:
    """
    Number of rows and sum of their check sums, by chunk; empty ones are left out.

    @param base: where the stream's rows begin.
    @param since: jobs that began before do not count: somebody has pruned them.
    """
    rows = db.execute(_SUMS, (base + after, base + upto, since)).fetchall()
    return {int(chunk): (int(count), int(total or 0)) for chunk, count, total in rows}


def held(
    db: sqlite3.Connection, base: int, after: int, upto: int, since: float
) -> list[tuple[int, int]]:
    """The numbers that have a row, with its check sum."""
    rows = db.execute(_HELD, (base + after, base + upto, since)).fetchall()
    return sorted((number - base, int(crc or 0)) for number, crc in rows)


def entries_of(
    db: sqlite3.Connection, stream: Stream, base: int, numbers: Collection[int], limit: int
) -> list[Entry]:
    """Rows as entries, of about C{limit} bytes; those that are damaged are left out."""
    found: list[Entry] = []
    size = 0
    for number in sorted(numbers):
        if size >= limit:
            break
        entry = _entry(db, stream, base, number)
        if entry is not None:
            found.append(entry)
            size += entry.size
    return found


def _entry(db: sqlite3.Connection, stream: Stream, base: int, number: int) -> Entry | None:
    at = base + number - 1
    for row in db.execute(_RETURNS, (at, 1)).fetchall():
        if row[0] == at + 1 and good_return(row):
            return return_entry(stream, number, row[1].decode(), row[2].decode(), row[3], row[4])
    for row in db.execute(_JOBS, (at, 1)).fetchall():
        if row[0] == at + 1 and good_job(row):
            _, jid, fun, started, load, minions, _ = row
            return job_entry(stream, number, jid.decode(), fun.decode(), started, load, minions)
    return None


@frozen
class Looked:
    """
    The result of checking some rows.

    @ivar at: the table, and the number up to which it was checked; C{None} after the last.
    @ivar bad: numbers of rows that are not what was written.
    """

    at: tuple[str, int] | None
    bad: Sequence[int]


START = ("returns", -(1 << 62))


def look(db: sqlite3.Connection, at: tuple[str, int], rows: int) -> Looked:
    """
    Read some rows, and hold them against their check sums.

    @raises sqlite3.Error: the file itself is damaged.
    """
    table, after = at
    query, good = (_RETURNS, good_return) if table == "returns" else (_JOBS, good_job)
    found = db.execute(query, (after, rows)).fetchall()
    bad = [row[0] for row in found if not good(row)]
    if len(found) == rows:
        return Looked((table, found[-1][0]), bad)
    return Looked(("jobs", START[1]) if table == "returns" else None, bad)


def drop(db: sqlite3.Connection, numbers: Sequence[int]) -> int:
    """Take rows out that are damaged: they are fetched again from another node."""
    for table in ("returns", "jobs"):
        db.executemany(f"DELETE FROM {table} WHERE number = ?", [(n,) for n in numbers])  # noqa: S608
    return len(numbers)


def pages(db: sqlite3.Connection) -> str:
    """What SQLite finds wrong with the file itself, or C{""}; takes seconds for a large one."""
    found = str(db.execute("PRAGMA integrity_check(1)").fetchone()[0])
    return "" if found == "ok" else found
