"""
Inserts rows of other nodes, inside a transaction of the writer's thread.

Whatever the order of arrival, all nodes keep the same row: of two returns of one minion to one job
the earlier; of two records of one job the later; of two jobs under one jid the one that began
first; and a published record before a derived one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import define, field

from saltwisted.domain.jobids import precedence
from saltwisted.domain.replica.entry import Entry, Stream
from saltwisted.stores.jobs.claims import Claim, Claims
from saltwisted.stores.jobs.entries import JOB, RETURN
from saltwisted.stores.jobs.longpacking import is_return, unpacked
from saltwisted.stores.jobs.table import (
    DERIVED,
    JOB_COLUMNS,
    PUBLISHED,
    SPAN,
    good_job,
    job_crc,
    return_crc,
)
from saltwisted.wire.longpack import LARGE
from saltwisted.wire.msgpack import unpack_bin


@define(eq=False)
class Merge:
    """
    Entries of other nodes, as rows.

    @ivar streams: new rows of C{streams}.
    @ivar known: index to number; written in the same transaction.
    @ivar epoch: the epoch of the file to which the indices belong.
    @ivar after: index to the number that must already be known in the file.
    @ivar unread: the positions of long returns that are not returns.
    @ivar quiet: rows about which nobody is informed: they were here before, or are history.
    """

    epoch: int
    after: dict[int, int] = field(factory=dict)
    entries: Sequence[Entry] = ()
    rows: list[tuple[Any, ...]] = field(factory=list)
    streams: list[tuple[Any, ...]] = field(factory=list)
    known: dict[int, int] = field(factory=dict)
    changed: Sequence[bool] = ()
    unread: list[int] = field(factory=list)
    source: str = ""
    quiet: bool = False


def out_of_place(db: sqlite3.Connection, merge: Merge, epoch: int) -> str:
    """Why entries cannot be put into this file now, or C{""}: to be known is to be there."""
    if merge.epoch != epoch:
        return "a new file was started"
    for idx, after in merge.after.items():
        found = db.execute("SELECT known FROM streams WHERE idx = ?", (idx,)).fetchone()
        if after > (found[0] if found else 0):
            return "what comes before these entries was not written"
    return ""


def merge_rows(
    db: sqlite3.Connection,
    merge: Merge,
    names: Mapping[int, Stream],
    derived: int,
    record: Callable[[str, str, float, Any], tuple[Any, ...]],
    claims: Claims,
) -> tuple[list[bool], int]:
    """
    Put rows of other nodes in, inside a transaction.

    @param names: the streams by index, to judge between two rows of the same return.
    @param derived: the lowest number of a derived record.
    @param record: makes the row of a derived record: jid, id, time, load.
    @param claims: the account of returns that are claims.
    @return: per entry, whether it changed anything; and the new lowest number.
    """
    for row in merge.streams:
        db.execute("INSERT OR IGNORE INTO streams VALUES (?, ?, ?, 0, 0)", row)
    changed = []
    claimed: list[Claim] = []
    merge.unread = [n for n, row in enumerate(merge.rows) if row and not _is_readable(row)]
    for place, row in enumerate(merge.rows):
        if not row or place in merge.unread:
            changed.append(False)
        elif row[0] == JOB:
            changed.append(merge_job(db, row[1:], names))
            claims.changed(row[2])
        else:
            number, jid, minion_id, at, load, published = row[1:]
            changed.append(_merge_return(db, (number, jid, minion_id, at, load), names))
            if changed[-1] and claims.is_claim(db, jid, minion_id):
                claimed.append((jid, minion_id, at, len(load)))
            if not published:
                derived -= 1
                _merge_derived(db, derived, record(jid, minion_id, at, unpacked(load)))
    gone = claims.add(db, claimed) if claimed else set()
    if gone and merge.quiet:
        # It was not lacking: this node had let it go
        for place, row in enumerate(merge.rows):
            if row and row[0] == RETURN and (row[2], row[3]) in gone:
                changed[place] = False
    for idx, known in merge.known.items():
        db.execute("UPDATE streams SET known = ? WHERE idx = ? AND known < ?", (known, idx, known))
    return changed, derived


def _is_readable(row: tuple[Any, ...]) -> bool:
    """Whether a return is one, if that was not looked at before."""
    return row[0] != RETURN or len(row[5]) <= LARGE or is_return(row[5])


def _merge_return(
    db: sqlite3.Connection, row: tuple[Any, ...], names: Mapping[int, Stream]
) -> bool:
    number, jid, minion_id, at, load = row
    row = (*row, return_crc(jid, minion_id, at, load))
    put = "INSERT OR {} INTO returns (number, jid, id, at, load, crc) VALUES (?, ?, ?, ?, ?, ?)"
    if db.execute(put.format("IGNORE"), row).rowcount == 1:
        return True
    query = "SELECT number, at FROM returns WHERE jid = ? AND id = ?"
    old, old_at = db.execute(query, (jid, minion_id)).fetchone() or (number, at)
    if (at, names[number // SPAN], number) < (old_at, names[old // SPAN], old):
        db.execute(put.format("REPLACE"), row)
    return False


def _merge_derived(db: sqlite3.Connection, number: int, row: tuple[Any, ...]) -> None:
    """The record of a job that nobody published is made of its earliest return."""
    jid, at, fun, load, minions = row
    crc = job_crc(jid, at, fun, load, minions)
    db.execute(
        "INSERT INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (jid) DO UPDATE SET started = excluded.started, fun = excluded.fun, "
        "load = excluded.load, minions = excluded.minions, crc = excluded.crc "
        "WHERE rank = ? AND (started, minions) > (excluded.started, excluded.minions)",
        (number, jid, at, fun, DERIVED, load, minions, crc, DERIVED),
    )


def merge_job(db: sqlite3.Connection, row: tuple[Any, ...], names: Mapping[int, Stream]) -> bool:
    """
    Put a published record in, if it holds against the one that is there; whether it did.

    Of two jobs under one jid that which began first holds, of two records of one job the later.
    """
    number, jid, started = row[:3]
    query = f"SELECT rank, {JOB_COLUMNS} FROM jobs WHERE jid = ?"  # noqa: S608 - fixed words
    old = db.execute(query, (jid,)).fetchone()
    # A damaged record holds against nobody
    if old is not None and old[0] == PUBLISHED and good_job(old[1:]):
        _, place, _, _, began, kept, *_ = old
        first = precedence(unpack_bin(kept), began)
        other = precedence(unpack_bin(row[5]), started)
        theirs = (started, names[number // SPAN], number)
        if other > first:
            return False
        if other == first and theirs <= (began, names[place // SPAN], place):
            return False
    _, _, _, fun, _, load, minions = row
    crc = job_crc(jid, started, fun, load, minions)
    db.execute("INSERT OR REPLACE INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*row, crc))
    return True
