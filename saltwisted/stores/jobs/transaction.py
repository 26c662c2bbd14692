"""
One transaction of the job cache: a batch of writes, the numbers of their rows, and the result of
each.

Many rows are passed to SQLite per statement. Every statement gives up the GIL and has to get it
back from a busy reactor, so the time depends on the number of statements, not on their size.
"""

from __future__ import annotations

import sqlite3

from twisted.python.failure import Failure

from saltwisted.errors import DeniedError, StoreError
from saltwisted.stores.jobs.book import begin_stream, book_of, raise_floors, remember_last
from saltwisted.stores.jobs.claims import prune_claims
from saltwisted.stores.jobs.entries import record_of_return
from saltwisted.stores.jobs.file import Counts, JobFile
from saltwisted.stores.jobs.merging import merge_job, merge_rows, out_of_place
from saltwisted.stores.jobs.streams import JobStreams
from saltwisted.stores.jobs.table import (
    ADD_JOBS,
    ADD_RETURNS,
    DERIVED,
    PUBLISHED,
    PUT_JOBS,
    insert,
    job_crc,
    mark,
    pieces,
    prune,
    return_crc,
)
from saltwisted.stores.jobs.writes import (
    ChangeWrite,
    JobWrite,
    MarkWrite,
    MergeWrite,
    PruneWrite,
    RenewWrite,
    ReturnWrite,
    Write,
)


class Transaction:
    """Writes a batch into the file, completely or not at all. It runs in the writer's thread."""

    def __init__(
        self, file: JobFile, streams: JobStreams, keep_seconds: float, batch: list[Write]
    ) -> None:
        self._file = file
        self._streams = streams
        self._keep_seconds = keep_seconds
        self._batch = batch
        self._jobs = [write for write in batch if isinstance(write, JobWrite)]
        self._returns = [write for write in batch if isinstance(write, ReturnWrite)]
        self._records = [write.record for write in self._returns if write.record is not None]
        self._others = [write for write in batch if not isinstance(write, JobWrite | ReturnWrite)]
        self._book, self._last, self._derived = file.book, file.last, file.derived

    def commit(self, db: sqlite3.Connection) -> None:
        """
        Write all of it; the file's numbers are those after it.

        @raises sqlite3.Error: nothing of it was written.
        """
        file = self._file
        claimed = self._claims(db)
        others = self._others
        # A single statement is a transaction by itself: one turn without the GIL, fsync included
        count = pieces(len(self._jobs)) + pieces(len(self._records)) + pieces(len(self._returns))
        chosen = any(write.chosen for write in self._jobs)
        whole = count == 1 and not others and not chosen and not claimed
        if not whole:
            db.execute("BEGIN IMMEDIATE")
        for write in others:
            if isinstance(write, RenewWrite):
                begin_stream(db, self._streams.stream.node, write.kept)
                self._book = write.book = book_of(db)
                self._last, self._derived = self._book.last, self._book.derived
        self._add_records(db)
        self._put_jobs(db)
        self._add_returns(db)
        news = [write.row for write in claimed if write.result]
        if news:
            file.claims.add(db, [(jid, who, at, len(load)) for jid, who, at, load in news])
        for write in others:
            self._do(db, write)
        if others or claimed:
            remember_last(db, self._book.own, self._last)
        if not whole:
            db.execute("COMMIT")
        file.book, file.last, file.derived = self._book, self._last, self._derived

    def count(self, counts: Counts) -> None:
        """Add what was done."""
        counts.commits += 1
        counts.jobs += len(self._jobs)
        stored = sum(1 for write in self._returns if write.result)
        counts.returns += stored
        counts.duplicates += len(self._returns) - stored
        counts.largest_batch = max(counts.largest_batch, len(self._batch))

    def _claims(self, db: sqlite3.Connection) -> list[ReturnWrite]:
        """The returns that no published record expects."""
        claims = self._file.claims
        for write in self._jobs:
            jid, _, _, load, minions = write.row
            if write.chosen:
                claims.changed(jid)
            else:
                claims.put(jid, load, minions)
        return [write for write in self._returns if claims.is_claim(db, write.row[0], write.row[1])]

    def _add_records(self, db: sqlite3.Connection) -> None:
        """The records of jobs that were not published here."""
        if not self._records:
            return
        first = self._derived - len(self._records)
        insert(
            db,
            ADD_JOBS,
            [
                (
                    *(first + n, jid, at, fun, DERIVED, load, minions),
                    job_crc(jid, at, fun, load, minions),
                )
                for n, (jid, at, fun, load, minions) in enumerate(self._records)
            ],
        )
        self._derived = first

    def _put_jobs(self, db: sqlite3.Connection) -> None:
        if not self._jobs:
            return
        values = []
        for write in self._jobs:
            jid, at, fun, load, minions = write.row
            row = (self._last + 1, jid, at, fun, PUBLISHED, load, minions)
            if write.chosen and not merge_job(db, row, self._streams.names):
                write.result, write.number = Failure(DeniedError(f"{jid} is another job")), 0
                continue
            write.result = None
            self._last += 1
            write.number = self._last
            if not write.chosen:
                values.append((*row, job_crc(jid, at, fun, load, minions)))
        insert(db, PUT_JOBS, values)

    def _add_returns(self, db: sqlite3.Connection) -> None:
        rows = self._returns
        if not rows:
            return
        first = last = self._last
        for write in rows:
            last += 1
            write.number = last
        # The second row of the same (jid, id) in one batch is left out like any other
        checked = [(write.number, *write.row, return_crc(*write.row)) for write in rows]
        inserted = insert(db, ADD_RETURNS, checked)
        if inserted == len(rows):
            for write in rows:
                write.result = True
        else:
            query = "SELECT number FROM returns WHERE number > ? AND number <= ?"
            fresh = {number for (number,) in db.execute(query, (first, last)).fetchall()}
            for write in rows:
                write.result = write.number in fresh
                if not write.result:
                    write.number = 0
            last = max(fresh, default=first)
        self._last = last

    def _do(self, db: sqlite3.Connection, write: Write) -> None:
        file = self._file
        match write:
            case MergeWrite(merge=merge):
                if why := out_of_place(db, merge, file.epoch):
                    write.result = Failure(StoreError(why, file.path))
                    return
                names = self._streams.names
                write.result, self._derived = merge_rows(
                    db, merge, names, self._derived, record_of_return, file.claims
                )
            case PruneWrite(before=before):
                write.result = prune(db, before)
                file.claims.forget()
                file.pruned = max(file.pruned, int(before))
                if not write.result:
                    prune_claims(db, before)
                    confirmed = self._streams.confirmed
                    raise_floors(db, self._book.own, self._last, confirmed)
                    write.book = book_of(db)
            case MarkWrite(at=at):
                mark(db, at, at - self._keep_seconds, self._book.own, self._last)
            case ChangeWrite(change=change):
                write.result = change(db)
