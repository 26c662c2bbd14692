"""
The tables of the fact log, and the statements that fill, read and prune them.

Everything here blocks. The store's own threads (L{saltwisted.stores.facts.log}) call it, or it is
called before they start.
"""

from __future__ import annotations

import sqlite3
from binascii import crc32
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from saltwisted.domain.causality.knowledge import Dot
from saltwisted.domain.replica.entry import Entry, Stream, fields_of
from saltwisted.domain.replica.fold import Fact
from saltwisted.domain.replica.knowledge import Knowledge
from saltwisted.errors import WireError
from saltwisted.stores.database import damage, insert_many, open_database
from saltwisted.wire.msgpack import pack_bin

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
    CREATE TABLE streams (
        id INTEGER PRIMARY KEY, node TEXT NOT NULL, incarnation TEXT NOT NULL,
        known INTEGER NOT NULL DEFAULT 0, floor INTEGER NOT NULL DEFAULT 0,
        forgotten INTEGER NOT NULL DEFAULT 0, folded INTEGER NOT NULL DEFAULT 0,
        UNIQUE (node, incarnation)
    );
    CREATE TABLE entries (
        stream INTEGER NOT NULL, number INTEGER NOT NULL, stamp INTEGER NOT NULL,
        kind TEXT NOT NULL, body BLOB NOT NULL, PRIMARY KEY (stream, number)
    ) WITHOUT ROWID;
    CREATE TABLE facts (
        number INTEGER PRIMARY KEY, kind TEXT NOT NULL, stream INTEGER NOT NULL,
        place INTEGER NOT NULL, stamp INTEGER NOT NULL, body BLOB NOT NULL
    );
    CREATE TABLE marks (day INTEGER NOT NULL, stream INTEGER NOT NULL, known INTEGER NOT NULL);
    """,
    """
    ALTER TABLE entries ADD COLUMN crc INTEGER;
    ALTER TABLE facts ADD COLUMN crc INTEGER;
    """,
)
"""C{crc} is of kind, number, stamp and body: SQLite does not notice a flipped bit in those."""
_SIGN = 1 << 63


def signed(stamp: int) -> int:
    """A 64-bit stamp as SQLite keeps integers."""
    return stamp - _SIGN


def unsigned(value: int) -> int:
    """The reverse."""
    return value + _SIGN


def open_tables(path: str) -> sqlite3.Connection:
    """
    The fact log, open for writing.

    @raises StoreError: as L{open_database}.
    @raises sqlite3.Error: as L{open_database}.
    """
    return open_database(path, MIGRATIONS)


@frozen
class Meta:
    """
    What the file says about itself.

    @ivar inode: the inode of the file in which it was written; if the inode differs, the file is a
        copy.
    """

    node: str = ""
    incarnation: str = ""
    inode: int = 0
    proven: int = 0


def read_meta(db: sqlite3.Connection) -> Meta:
    """What the file says about itself; empty for a new one."""
    rows = dict(db.execute("SELECT name, value FROM meta").fetchall())
    return Meta(
        str(rows.get("node", "")),
        str(rows.get("incarnation", "")),
        int(rows.get("inode", 0)),
        int(rows.get("proven", 0)),
    )


def write_meta(db: sqlite3.Connection, **values: Any) -> None:
    """Set some of it."""
    db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", list(values.items()))


class Streams:
    """The small numbers that stand for streams in the tables."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        rows = db.execute("SELECT id, node, incarnation FROM streams").fetchall()
        self._ids = {Stream(node, incarnation): i for i, node, incarnation in rows}

    def of(self, stream: Stream) -> int:
        """The number of a stream; a new stream gets one."""
        found = self._ids.get(stream)
        if found is None:
            cursor = self._db.execute(
                "INSERT INTO streams (node, incarnation) VALUES (?, ?)", tuple(stream)
            )
            found = self._ids[stream] = int(cursor.lastrowid or 0)
        return found

    def forget(self) -> None:
        """A transaction was rolled back: the numbers that it assigned are void."""
        rows = self._db.execute("SELECT id, node, incarnation FROM streams").fetchall()
        self._ids = {Stream(node, incarnation): i for i, node, incarnation in rows}

    def set(self, column: str, knowledge: Knowledge, lower: bool = False) -> None:
        """Raise C{known}, C{floor}, C{forgotten} or C{folded}; or set it, also to less."""
        wanted = "?" if lower else f"max({column}, ?)"
        self._db.executemany(
            f"UPDATE streams SET {column} = {wanted} WHERE id = ?",  # noqa: S608 - fixed words
            [(number, self.of(stream)) for stream, number in knowledge.items()],
        )

    def lower(self, column: str, stream: Stream, number: int) -> None:
        """Set a column of one stream to at most so much."""
        self._db.execute(
            f"UPDATE streams SET {column} = min({column}, ?) WHERE id = ?",  # noqa: S608 - fixed words
            (number, self.of(stream)),
        )


def add_entries(db: sqlite3.Connection, streams: Streams, entries: Sequence[Entry]) -> None:
    """Write entries, and how far their streams are known by that."""
    insert_many(
        db,
        "INSERT OR REPLACE INTO entries",
        [
            (
                *(streams.of(e.stream), e.number, signed(e.stamp), e.kind, e.body),
                row_crc(e.kind, e.number, signed(e.stamp), e.body),
            )
            for e in entries
        ],
    )
    streams.set("known", {e.stream: e.number for e in entries})


def add_facts(db: sqlite3.Connection, streams: Streams, facts: Iterable[tuple[str, Fact]]) -> None:
    """Write facts."""
    insert_many(
        db,
        "INSERT INTO facts (kind, stream, place, stamp, body, crc)",
        [_fact_row(streams, kind, fact) for kind, fact in facts],
    )


def _fact_row(streams: Streams, kind: str, fact: Fact) -> tuple[Any, ...]:
    place, stamp, body = fact.origin.number, signed(fact.stamp), packed(fact)
    stream = streams.of(fact.origin.source)
    return (kind, stream, place, stamp, body, row_crc(kind, place, stamp, body))


def row_crc(kind: str, number: int, stamp: int, body: bytes | memoryview) -> int:
    """The check sum of a row, its stamp as SQLite keeps it."""
    return crc32(body, crc32(f"{kind}\0{number}\0{stamp}".encode("utf-8", "surrogatepass")))


def _check(kind: str, number: int, stamp: int, body: bytes, crc: int | None) -> None:
    if crc is not None and crc != row_crc(kind, number, stamp, body):
        raise damage(f"a row of the kind {kind!r:.20} is not what was written")


def check_some(db: sqlite3.Connection, at: int, rows: int) -> int:
    """
    Hold some rows of the two tables against their check sums; where to go on, 0 after the last.

    @raises sqlite3.Error: damage.
    """
    facts = db.execute(
        "SELECT kind, place, stamp, body, crc FROM facts ORDER BY number LIMIT ? OFFSET ?",
        (rows, at),
    ).fetchall()
    entries = db.execute(
        "SELECT kind, number, stamp, body, crc FROM entries ORDER BY stream, number "
        "LIMIT ? OFFSET ?",
        (rows, at),
    ).fetchall()
    for row in (*facts, *entries):
        _check(*row)
    return at + rows if max(len(facts), len(entries)) == rows else 0


def check_pages(db: sqlite3.Connection) -> None:
    """
    Have SQLite check the file.

    @raises sqlite3.Error: damage.
    """
    found = str(db.execute("PRAGMA integrity_check(1)").fetchone()[0])
    if found != "ok":
        raise damage(found)


def packed(fact: Fact) -> bytes:
    """The body of a fact."""
    return pack_bin(dict(fact.body))


def read_streams(db: sqlite3.Connection) -> dict[Stream, tuple[int, int, int]]:
    """Known, floor and forgotten of each stream."""
    rows = db.execute("SELECT node, incarnation, known, floor, forgotten FROM streams").fetchall()
    return {Stream(node, incarnation): (k, f, o) for node, incarnation, k, f, o in rows}


def read_facts(db: sqlite3.Connection) -> Iterator[tuple[str, Fact]]:
    """All facts, in the order in which they were written."""
    rows = db.execute(
        "SELECT kind, node, incarnation, place, stamp, body, crc FROM facts "
        "JOIN streams ON streams.id = facts.stream ORDER BY number"
    )
    for kind, node, incarnation, place, stamp, body, crc in rows:
        _check(kind, place, stamp, body, crc)
        try:
            fields = fields_of(body)
        except WireError:
            continue
        yield kind, Fact(fields, unsigned(stamp), Dot(Stream(node, incarnation), place))


def read_entries(
    db: sqlite3.Connection, stream: Stream | None = None, after: int = -1, upto: int = _SIGN - 1
) -> Iterator[Entry]:
    """
    The entries that are not in the facts yet, or those of one stream; in order within each.
    """
    where, values = "number > floor AND number > folded", []
    if stream is not None:
        where = "node = ? AND incarnation = ? AND number > ? AND number <= ?"
        values = [stream.node, stream.incarnation, after, upto]
    rows = db.execute(
        "SELECT node, incarnation, number, stamp, kind, body, crc FROM entries "  # noqa: S608 - fixed words
        f"JOIN streams ON streams.id = entries.stream WHERE {where} ORDER BY stream, number",
        values,
    )
    for node, incarnation, number, stamp, kind, body, crc in rows:
        _check(kind, number, stamp, body, crc)
        yield Entry(Stream(node, incarnation), number, unsigned(stamp), kind, body)


def read_since(
    db: sqlite3.Connection, after: Knowledge, upto: Knowledge, limit: int
) -> list[Entry]:
    """Entries beyond C{after}, up to C{upto}, of about C{limit} bytes and at least one."""
    found: list[Entry] = []
    size = 0
    for stream, number in sorted(upto.items()):
        if number <= after.get(stream, 0):
            continue
        for entry in read_entries(db, stream, after.get(stream, 0), number):
            if found and size + entry.size > limit:
                return found
            found.append(entry)
            size += entry.size
    return found


def drop_entries(db: sqlite3.Connection, streams: Streams, floor: Mapping[Stream, int]) -> None:
    """Remove entries up to a floor."""
    db.executemany(
        "DELETE FROM entries WHERE stream = ? AND number <= ?",
        [(streams.of(stream), number) for stream, number in floor.items()],
    )
