"""
The part of the job cache's file that describes its streams, as the store's threads read and write
it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from attrs import frozen

from saltwisted.domain.replica.entry import Stream
from saltwisted.stores.jobs.table import SPAN


@frozen
class Book:
    """
    What the file says about its streams.

    @ivar own: index of the stream that this store appends to.
    @ivar streams: index to stream, known number and floor.
    @ivar last: the last number given out in the own stream, as rows have it.
    @ivar derived: the lowest number of a derived record.
    """

    own: int
    streams: Mapping[int, tuple[Stream, int, int]]
    last: int
    derived: int
    confirmed: int


def read_book(db: sqlite3.Connection, node: str, inode: int) -> Book:
    """
    Read the streams, and begin a new incarnation where the old one cannot be continued: the
    file belonged to another node, or it is a copy (another inode).
    """
    facts = dict(db.execute("SELECT name, value FROM facts").fetchall())
    own = facts["own"]
    was = db.execute("SELECT node FROM streams WHERE idx = ?", (own,)).fetchone()[0]
    if node and not was:
        # Nobody has seen the stream of a master without peers: the name is put in later
        db.execute("UPDATE streams SET node = ? WHERE idx = ?", (node, own))
    elif was and ((node and was != node) or inode != facts["inode"] != 0):
        begin_stream(db, node or was)
    if inode != facts["inode"]:
        db.execute("UPDATE facts SET value = ? WHERE name = 'inode'", (inode,))
    return book_of(db)


def book_of(db: sqlite3.Connection) -> Book:
    """Read the streams as they are."""
    facts = dict(db.execute("SELECT name, value FROM facts").fetchall())
    own = facts["own"]
    streams = {
        idx: (Stream(node, incarnation), known, floor)
        for idx, node, incarnation, known, floor in db.execute("SELECT * FROM streams").fetchall()
    }
    last = max(own * SPAN + streams[own][1], _top(db, own))
    streams[own] = (streams[own][0], last - own * SPAN, streams[own][2])
    lowest = db.execute("SELECT min(number) FROM jobs").fetchone()[0]
    return Book(own, streams, last, min(lowest or 0, 0), facts["confirmed"])


def begin_stream(db: sqlite3.Connection, node: str, confirmed: int | None = None) -> None:
    """
    Begin a new incarnation; what no other node had confirmed is in it again.

    @param confirmed: number in the old stream; C{None} for what the file says.
    """
    facts = dict(db.execute("SELECT name, value FROM facts").fetchall())
    old = facts["own"]
    kept = facts["confirmed"] if confirmed is None else confirmed
    top = _top(db, old)
    new = db.execute("SELECT max(idx) + 1 FROM streams").fetchone()[0]
    db.execute(
        "INSERT INTO streams VALUES (?, ?, lower(hex(randomblob(8))), 0, 0)",
        (new, node),
    )
    by = (new - old) * SPAN - kept
    for table in ("returns", "jobs"):
        db.execute(
            f"UPDATE {table} SET number = number + ? WHERE number > ? AND number < ?",  # noqa: S608
            (by, old * SPAN + kept, (old + 1) * SPAN),
        )
    # Rows that were pruned are known all the same
    was = db.execute("SELECT known FROM streams WHERE idx = ?", (old,)).fetchone()[0]
    known = min(kept, max(top - old * SPAN, was))
    db.execute("UPDATE streams SET known = ? WHERE idx = ?", (known, old))
    db.execute("UPDATE facts SET value = ? WHERE name = 'own'", (new,))
    db.execute("UPDATE facts SET value = 0 WHERE name = 'confirmed'")


def _top(db: sqlite3.Connection, idx: int) -> int:
    """The highest number of a row of a stream, or that before its first."""
    found = [idx * SPAN]
    for table in ("returns", "jobs"):
        row = db.execute(
            f"SELECT max(number) FROM {table} WHERE number > ? AND number < ?",  # noqa: S608
            (idx * SPAN, (idx + 1) * SPAN),
        ).fetchone()
        found.append(row[0] or 0)
    return max(found)


def remember_last(db: sqlite3.Connection, own: int, last: int) -> None:
    """
    Numbers of our own stay known when their rows go: another node's record of the same return may
    have replaced them. Else a new incarnation, or a start, would count from the rows that are left.
    """
    known = last - own * SPAN
    query = "UPDATE streams SET known = ? WHERE idx = ? AND known < ?"
    db.execute(query, (known, own, known))


def raise_floors(db: sqlite3.Connection, own: int, last: int, confirmed: int) -> None:
    """After pruning: remember how far each stream has no rows left, and our own last number."""
    db.execute("UPDATE streams SET known = ? WHERE idx = ?", (last - own * SPAN, own))
    db.execute("UPDATE facts SET value = ? WHERE name = 'confirmed'", (confirmed,))
    for idx, known, floor in db.execute("SELECT idx, known, floor FROM streams").fetchall():
        lowest = known + 1
        for table in ("returns", "jobs"):
            row = db.execute(
                f"SELECT min(number) FROM {table} WHERE number > ? AND number < ?",  # noqa: S608
                (idx * SPAN, (idx + 1) * SPAN),
            ).fetchone()
            if row[0] is not None:
                lowest = min(lowest, row[0] - idx * SPAN)
        if lowest - 1 > floor:
            db.execute("UPDATE streams SET floor = ? WHERE idx = ?", (lowest - 1, idx))
