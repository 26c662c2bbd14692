"""
The rows of the job cache as entries of a log, and how they are read for sending.

If the row of a number is gone (a repeated return, a replaced record, a pruned row), it is sent as
C{void}, so that streams have no gaps.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from attrs import define, field

from saltwisted.domain.causality.clock import stamp_at
from saltwisted.domain.jobids import record_of_claim
from saltwisted.domain.replica.entry import Entry, Stream
from saltwisted.stores.jobs.table import (
    JOB_COLUMNS,
    RETURN_COLUMNS,
    SPAN,
    good_job,
    good_return,
)
from saltwisted.wire.msgpack import pack_bin

JOB, RETURN, VOID = "job", "return", "void"
EMPTY = b"\x80"
_ROWS = 2000

_SINCE = f"""
SELECT 0, {RETURN_COLUMNS}, NULL FROM returns WHERE number > ?1 AND number <= ?2
UNION ALL
SELECT 1, {JOB_COLUMNS} FROM jobs WHERE number > ?1 AND number <= ?2
ORDER BY 2 LIMIT ?3
"""  # noqa: S608 - fixed words


@define
class Since:
    """
    Entries that were read for sending.

    @ivar bad: numbers of rows that are not what was written, as the rows have them.
    """

    entries: list[Entry] = field(factory=list)
    bad: list[int] = field(factory=list)


def read_since(
    db: sqlite3.Connection,
    wanted: Sequence[tuple[int, Stream, int, int]],
    limit: int,
    lost: Collection[int] = (),
) -> Since:
    """
    Entries of several streams, of about C{limit} bytes together.

    A stream is read up to its first damaged row. Otherwise others would believe that nothing was
    written there; and another node may still have the row.

    @param wanted: index, stream, the number after which to begin, and the last number.
    @param lost: numbers, as rows have them, of damaged rows that were already removed.
    """
    since = Since()
    found, size = since.entries, 0
    for idx, stream, at, stop in wanted:
        base = idx * SPAN
        stop = min((n - base - 1 for n in lost if base + at < n <= base + stop), default=stop)
        while at < stop and size < limit:
            rows = db.execute(_SINCE, (base + at, base + stop, _ROWS)).fetchall()
            whole = len(rows) < _ROWS
            for kind, *row in rows:
                number = row[0] - base
                if not (good_job(row) if kind else good_return(row[:-1])):
                    since.bad.append(row[0])
                    stop, whole = min(stop, number - 1), True
                elif number <= stop:
                    at = _fill(found, stream, at, number - 1)
                    found.append(_entry(stream, number, kind, row))
                    at = number
                    size += found[-1].size
                if size >= limit:
                    break
            else:
                if whole:
                    at = _fill(found, stream, at, stop)
        if size >= limit:
            break
    return since


def _fill(found: list[Entry], stream: Stream, at: int, until: int) -> int:
    found += [Entry(stream, number, 0, VOID, EMPTY) for number in range(at + 1, until + 1)]
    return max(at, until)


def _entry(stream: Stream, number: int, kind: int, row: Sequence[Any]) -> Entry:
    _, jid, name, at, *rest = row
    if kind:
        load, minions, _ = rest
        return job_entry(stream, number, jid.decode(), name.decode(), at, load, minions)
    return return_entry(stream, number, jid.decode(), name.decode(), at, rest[0])


def job_entry(
    stream: Stream, number: int, jid: str, fun: str, started: float, load: bytes, minions: bytes
) -> Entry:
    """The entry of a published job's record."""
    body = pack_bin({"jid": jid, "fun": fun, "at": started, "load": load, "minions": minions})
    return Entry(stream, number, stamp_at(started), JOB, body)


def return_entry(
    stream: Stream, number: int, jid: str, minion_id: str, at: float, load: bytes
) -> Entry:
    """The entry of a return."""
    body = pack_bin({"jid": jid, "id": minion_id, "at": at, "load": load})
    return entry_of_return(stream, number, at, body)


def entry_of_return(stream: Stream, number: int, at: float, body: bytes) -> Entry:
    """The entry of a return whose body is made already."""
    return Entry(stream, number, stamp_at(at), RETURN, body)


def return_head(jid: str, minion_id: str, at: float, size: int) -> bytes:
    """How the body of a return's entry begins, whose load has so many bytes; the load follows."""
    head = pack_bin({"jid": jid, "id": minion_id, "at": at, "load": b""})
    width = 1 if size < 256 else 2 if size < 65_536 else 4
    kind = {1: b"\xc4", 2: b"\xc5", 4: b"\xc6"}[width]
    return head[: -len(pack_bin(b""))] + kind + size.to_bytes(width, "big")


def record_of_return(
    jid: str, minion_id: str, at: float, load: Mapping[str, Any]
) -> tuple[Any, ...]:
    """The record of a job that nobody has published here: it is made of a return."""
    job = record_of_claim(minion_id, load)
    return (jid, at, fun_text(job["fun"]), pack_bin(job), pack_bin([minion_id]))


def fun_text(fun: Any) -> str:
    """The function of a job, or those of several, as one text."""
    return fun if isinstance(fun, str) else ",".join(map(str, fun)) if fun else ""
