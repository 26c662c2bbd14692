"""
The job cache: published jobs and the returns of minions, in one SQLite file.

One thread writes (L{saltwisted.stores.jobs.writer}). A return counts as stored when its transaction
is on disk (WAL, C{synchronous=FULL}), and only then does its Deferred fire. Readers have their own
connections and threads (L{saltwisted.stores.jobs.reader}). L{saltwisted.domain.jobs} says what a
job is, and for whom it waits.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from threading import Thread
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, FirstError, fail, gatherResults
from twisted.python.failure import Failure

from saltwisted.domain.jid import is_jid, jid_at
from saltwisted.domain.replica.entry import Entry
from saltwisted.errors import StoreError
from saltwisted.stores import files
from saltwisted.stores.jobs.claims import Claims
from saltwisted.stores.jobs.delivery import Delivery
from saltwisted.stores.jobs.entries import fun_text, record_of_return
from saltwisted.stores.jobs.file import Counts, JobFile
from saltwisted.stores.jobs.health import JobHealth
from saltwisted.stores.jobs.known import KnownJobs
from saltwisted.stores.jobs.log import JobLog, JobRows
from saltwisted.stores.jobs.longpacking import is_long, pack_in_turns
from saltwisted.stores.jobs.merging import Merge
from saltwisted.stores.jobs.reader import JobQueries, JobReader
from saltwisted.stores.jobs.table import DERIVED, PUBLISHED, published_of
from saltwisted.stores.jobs.writer import JobWriter
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
from saltwisted.wire.msgpack import pack_bin

T = TypeVar("T")

_DROPPED = frozenset(("cmd", "id", "jid", "tok", "nonce", "sig", "ts"))


class LogRows:
    """What the log needs from the store whose rows it represents (C{JobRows})."""

    def __init__(self, store: JobStore, clock: Any) -> None:
        """
        @param clock: for C{seconds} and C{callLater}.
        """
        self._store = store
        self._clock = clock

    @property
    def loaded(self) -> int:
        """The file that the log knows of."""
        return self._store.health.loaded

    def read(self, query: Callable[[sqlite3.Connection], T]) -> Deferred[T]:
        """Ask the file something, in a thread."""
        return self._store.reader.read(query)

    def met_bad(self, numbers: Sequence[int]) -> None:
        """Rows are not what was written, and were left out."""
        self._store.health.met_bad(numbers)

    def lacks(self) -> None:
        """What came from one member may be less than another has."""
        self._store.health.lacks()

    def write_merge(self, merge: Merge, size: int) -> Deferred[Sequence[Entry]]:
        """Write what other nodes sent; fires with its entries when it is on disk."""
        return self._store.writer.enqueue(MergeWrite(size=size, merge=merge))

    def renew(self, kept: int) -> Deferred[None]:
        """Begin a new incarnation of the own stream, which repeats everything beyond a number."""
        return self._store.writer.enqueue(RenewWrite(kept=kept)).addCallback(lambda _: None)

    def is_published(self, jid: str) -> bool:
        """Whether there is a published record of this job, as far as is remembered."""
        return self._store.known.is_published(jid)

    def published(self, jid: str) -> None:
        """A published record of this job is about to be written."""
        self._store.known.add(jid)

    def clock(self) -> float:
        """The reactor's time."""
        return float(self._clock.seconds())

    def later(self, delay: float, function: Callable[[], None]) -> Any:
        """Call something a moment later."""
        return self._clock.callLater(delay, function)


class JobStore(JobQueries):
    """
    Jobs and returns. Reactor thread only; Deferreds fire there, a few per turn.

    @param reactor: for C{callFromThread} and C{callLater}.
    @param path: the database file; C{-wal} and C{-shm} lie beside it. All 0600.
    @param now: seconds since 1970.
    @param keep_seconds: age at which L{prune} forgets a job; 0 keeps for ever, as in Salt.
    @param claims: how many returns that no job expects are kept of one minion, and how many bytes
        of them.
    @param collecting: as for L{JobLog}.
    @param all_told: as for L{JobLog}.
    @ivar replica: the same rows as a log that other nodes can have.
    @ivar health: what is damaged or missing, and who is informed.
    @ivar known: jobs that have a record, as far as the store remembers.
    @ivar on_open: called when the file is open, before anything is written.
    """

    def __init__(
        self,
        reactor: Any,
        path: str,
        now: Callable[[], float] = time.time,
        keep_seconds: float = 86400.0,
        claims: tuple[int, int] = (10_000, 256 * 1024 * 1024),
        node: str = "",
        collecting: float = 0.0,
        all_told: Callable[[], bool] = lambda: True,
    ) -> None:
        self.path = path
        self.keep_seconds = keep_seconds
        self.counts = Counts()
        self.known = KnownJobs()
        self.on_open: list[Callable[[], None]] = []
        self.listings = {}
        self._reactor = reactor
        self._now = now
        self._at = 0.0
        # Whether no other node can have an entry by the number that comes next
        self._unused = False
        self.replica = JobLog(LogRows(self, reactor), collecting, all_told)
        self.file = self._make_file(node, Claims(*claims))
        self.health = JobHealth(
            self.file,
            self.known,
            lambda write: self.writer.enqueue(write),
            lambda: self.writer.is_running,
            self.replica.load,
        )
        self._delivery = Delivery(reactor, self.replica)
        self.writer = self._make_writer(self._delivery)
        self.reader = self._make_reader()

    def _make_file(self, node: str, claims: Claims) -> JobFile:
        return JobFile(self.path, node, self._now, claims, self.counts, self.known.forget)

    def _make_writer(self, delivery: Delivery) -> JobWriter:
        return JobWriter(
            self._reactor,
            self.file,
            self.replica.streams,
            self.counts,
            lambda: self.keep_seconds,
            delivery.written,
            self.health.opened_anew,
        )

    def _make_reader(self) -> JobReader:
        return JobReader(self._reactor, self.file, self.health.met_damage, self.health.met_bad)

    # -- life

    def startService(self) -> None:
        """
        Open or make the database, and start the threads. Blocks for a moment.

        @raises StoreError: when the disk refuses, or a newer saltwisted wrote the file.
        """
        if self.writer.is_running:
            return
        files.make_dir(os.path.dirname(self.path))
        self.file.open_or_renew()
        self.replica.load(self.file.book)
        for receiver in self.on_open:
            receiver()
        self._unused = False
        self.health.started()
        self.reader.start()
        self.writer.start()

    def stopService(self) -> Deferred[None]:
        """Commit what is queued, then close; fires when the threads have ended."""
        done: Deferred[None] = Deferred()
        if not self.writer.is_running:
            done.callback(None)
            return done
        readers_end, writer_ends = self.reader.end(), self.writer.end()

        def ended() -> None:
            self._delivery.drain()
            self.replica.told.stop()
            done.callback(None)

        def close() -> None:
            readers_end()
            # The writer is the last to close, and so the one to clear the log away
            writer_ends()
            self._reactor.callFromThread(ended)

        Thread(target=close, name="jobs-stop", daemon=True).start()
        return done

    @property
    def problem(self) -> str:
        """Why the disk does not take jobs and returns, or C{""}; for the status."""
        return self.writer.problem or self.health.trouble

    @property
    def queued(self) -> int:
        """Writes that wait for the disk now."""
        return self.writer.queued

    # -- writing

    def save_job(
        self, jid: str, load: Mapping[str, Any], minions: Sequence[str], chosen: bool = False
    ) -> Deferred[None]:
        """
        Store a published job and the minions that it expects; fires once that is on disk.

        @param chosen: whether a caller chose its jid, so that another node may have a job with the
            same jid.
        @raises DeniedError: through the Deferred, if the other job wins.
        """
        try:
            packed = pack_bin({k: v for k, v in load.items() if k != "jid"})
            row = (jid, self._moment(), fun_text(load.get("fun")), packed, pack_bin(list(minions)))
        except TypeError as error:
            return fail(StoreError(str(error), self.path))
        self.known.add(jid)
        size = len(packed) + len(row[4])
        return self._add(JobWrite(size=size, row=row, chosen=chosen))

    def save_return(self, load: Mapping[str, Any], requested: bool = False) -> Deferred[bool]:
        """
        Store a return; fires once it is on disk: true if new, false if it was there.

        A return of a job that was not published here makes a record of that job as well.

        @param requested: the jid was allocated for this return (C{jid: req}).
        @raises StoreError: through the Deferred, when the disk refuses or is far behind.
        """
        kept = kept_of(load)
        if is_long(kept):
            return Deferred.fromCoroutine(self._save_long(load, kept, requested))
        try:
            return self._add(self._return(load, [pack_bin(kept)], requested))
        except TypeError as error:
            return fail(StoreError(str(error), self.path))

    async def _save_long(
        self, load: Mapping[str, Any], kept: Mapping[str, Any], requested: bool
    ) -> bool:
        try:
            packed = await pack_in_turns(self._reactor, kept)
            write = self._return(load, packed, requested)
        except TypeError as error:
            raise StoreError(str(error), self.path) from None
        new: bool = await self._add(write)
        return new

    def _return(self, load: Mapping[str, Any], packed: list[bytes], requested: bool) -> ReturnWrite:
        """
        What is written of a return; the times of these grow in the order in which they are added.

        @raises TypeError: it cannot be packed.
        """
        jid, minion_id, at, record = load["jid"], load["id"], self._moment(), None
        if requested or jid not in self.known:
            self.known.add(jid, DERIVED)
            record = record_of_return(jid, minion_id, at, load)
        size = sum(map(len, packed))
        row = (jid, minion_id, at, packed[0] if len(packed) == 1 else b"")
        pieces = packed if len(packed) > 1 else []
        return ReturnWrite(size=size, row=row, record=record, pieces=pieces)

    def bring_in(
        self, jobs: Sequence[tuple[Any, ...]], returns: Sequence[tuple[Any, ...]]
    ) -> Deferred[tuple[int, int]]:
        """
        Add records from elsewhere, with their own times; existing records stay.

        @param jobs: jid, seconds since 1970, function, packed load, packed ids of minions.
        @param returns: jid, minion id, seconds since 1970, packed as by L{stored_form}.
        @return: how many of each were new; fires once they are on disk.
        """
        return Deferred.fromCoroutine(self._bring_in(jobs, returns))

    async def _bring_in(
        self, jobs: Sequence[tuple[Any, ...]], returns: Sequence[tuple[Any, ...]]
    ) -> tuple[int, int]:
        here = await self.reader.read(lambda db: published_of(db, [row[0] for row in jobs]))
        waiting = []
        for row in jobs:
            if row[0] not in here and not self.known.is_published(row[0]):
                self.known.add(row[0])
                size = len(row[3]) + len(row[4])
                waiting.append(self._add(JobWrite(size=size, row=tuple(row))))
        count = len(waiting)
        for row in returns:
            waiting.append(self._add(ReturnWrite(size=len(row[3]), row=tuple(row))))
        try:
            results = await gatherResults(waiting, consumeErrors=True)
        except FirstError as error:
            error.subFailure.raiseException()
            raise
        return count, sum(map(bool, results[count:]))

    def change(self, work: Callable[[sqlite3.Connection], T]) -> Deferred[T]:
        """Change something in the file, in the writer's thread and a transaction."""
        return self.writer.enqueue(ChangeWrite(change=work))

    def prune(self, by: Callable[[], float | None] | None = None) -> Deferred[int]:
        """
        Forget jobs older than C{keep_seconds}, a few hundred rows per transaction.

        Others' writes go in between; fires with the number of rows removed.

        @param by: what time it is for who forgets; C{None}: nothing may be forgotten now. Without
            it, this store's own clock.
        """
        return Deferred.fromCoroutine(self._prune_all(by or self._now))

    async def _prune_all(self, by: Callable[[], float | None]) -> int:
        at = by()
        if self.keep_seconds <= 0 or at is None:
            return 0
        before = at - self.keep_seconds
        total = 0
        await self.writer.enqueue(MarkWrite(at=at))
        while count := await self.writer.enqueue(PruneWrite(before=before)):
            total += count
            self.counts.pruned += count
            # A late return of a forgotten job makes a record of it again
            self.known.forget()
        return total

    def _add(self, write: Write) -> Deferred[Any]:
        """Something of this node, by the next number of its stream."""
        if not self._unused:
            self._unused = True
            self.replica.go_on().addErrback(self._use_later)  # type: ignore[unused-awaitable]
        return self.writer.enqueue(write)

    def _use_later(self, failure: Failure) -> None:
        """No new incarnation was begun: the next one that adds something tries again."""
        self._unused = False

    def _moment(self) -> float:
        """The time, growing strictly: nodes compare it to agree on which row came first."""
        self._at = max(self._now(), self._at + 1e-6)
        return self._at

    def newest_jid(self, slot: int | None = None) -> str:
        """
        The newest jid of a published job, or C{""}. Blocks for a moment, at the start alone.

        @param slot: of jids that end in these two digits.
        """
        if self.file.db is None or self.writer.is_running:
            return ""
        query = (
            "SELECT CAST(jid AS BLOB) FROM jobs WHERE rank = ? AND jid < ? "
            "ORDER BY jid DESC LIMIT 10"
        )
        values: list[Any] = [PUBLISHED, jid_at(self._now() + 86400)]
        if slot is not None:
            query = query.replace("ORDER", "AND substr(jid, 19, 2) = ? ORDER")
            values.append(f"{slot:02d}")
        rows = self.file.db.execute(query, values).fetchall()
        # A damaged one is none
        return next((jid for (data,) in rows if is_jid(jid := data.decode(errors="replace"))), "")


_LogRows: type[JobRows] = LogRows  # mypy compares them


def stored_form(load: Mapping[str, Any]) -> bytes:
    """
    What is kept of a return: nothing that is new at each attempt.

    @raises TypeError: it cannot be packed.
    """
    return pack_bin(kept_of(load))


def kept_of(load: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a return that is kept: nothing that is new at each attempt."""
    return {k: v for k, v in load.items() if k not in _DROPPED}
