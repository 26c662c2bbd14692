"""
The job cache: published jobs and what minions returned, in one SQLite file.

One thread writes. Everything that arrives while it commits goes into its next
transaction, so the price of reaching the disk is shared and nobody waits for a timer.
A return counts as stored when its transaction is on the disk (WAL,
C{synchronous=FULL}), and only then its Deferred fires. Readers have connections and
threads of their own. What a job is, and whom it waits for, is in L{saltwisted.domain.jobs}.

Rows are handed to SQLite many per statement: every statement gives up the GIL and has to
get it back from a busy reactor, so their number, not their size, is what costs time.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from attrs import define
from twisted.internet.defer import Deferred, FirstError, fail, gatherResults
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.python.threadpool import ThreadPool

from saltwisted.domain.jid import is_jid, jid_at
from saltwisted.domain.jobids import record_of_claim
from saltwisted.domain.replica.entry import Entry, Stream
from saltwisted.errors import DeniedError, StoreError
from saltwisted.parts import IJobStore
from saltwisted.stores import files
from saltwisted.stores.database import connect, damage, is_corrupt
from saltwisted.stores.jobs.book import (
    Book,
    begin_stream,
    book_of,
    raise_floors,
    read_book,
    remember_last,
)
from saltwisted.stores.jobs.claims import Claims, prune_claims
from saltwisted.stores.jobs.entries import EMPTY, VOID, job_entry, return_entry
from saltwisted.stores.jobs.log import JobLog
from saltwisted.stores.jobs.merging import Merge, merge_job, merge_rows, out_of_place
from saltwisted.stores.jobs.table import (
    ADD_JOBS,
    ADD_RETURNS,
    DERIVED,
    PUBLISHED,
    PUT_JOBS,
    SPAN,
    ids_where,
    insert,
    job_crc,
    jobs_where,
    mark,
    open_table,
    pieces,
    prune,
    published_of,
    return_crc,
    returns_where,
)
from saltwisted.stores.stall import Stall
from saltwisted.wire.msgpack import pack_bin, unpack_bin
from saltwisted.words import counted

T = TypeVar("T")

_DROPPED = frozenset(("cmd", "id", "jid", "tok", "nonce", "sig", "ts"))
_BATCH_ROWS = 512
_BATCH_BYTES = 8 * 1024 * 1024
_QUEUE_ROWS = 50_000
_QUEUE_BYTES = 128 * 1024 * 1024
_SLICE = 16
_REMEMBERED = 10_000


@define(slots=True, eq=False)
class _Write:
    """One thing to write, and who waits for it."""

    done: Deferred[Any]
    size: int
    put_job: tuple[Any, ...] | None = None
    chosen: bool = False
    add_job: tuple[Any, ...] | None = None
    row: tuple[Any, ...] | None = None
    prune: float | None = None
    mark: float | None = None
    change: Callable[[sqlite3.Connection], Any] | None = None
    anew: str = ""
    merge: Merge | None = None
    renew: int | None = None
    number: int = 0
    book: Book | None = None
    result: Any = None

    @property
    def is_plain(self) -> bool:
        """Whether it is a job or a return of this node."""
        return (
            self.merge is None
            and self.prune is None
            and self.renew is None
            and self.change is None
            and self.mark is None
            and not self.anew
        )


@define
class Counts:
    """What the store did since the start, for metrics."""

    commits: int = 0
    returns: int = 0
    duplicates: int = 0
    jobs: int = 0
    refused: int = 0
    pruned: int = 0
    moved_aside: int = 0
    largest_batch: int = 0


class JobStore:
    """
    Jobs and returns. Reactor thread only; Deferreds fire there, a few per turn.

    @param reactor: for C{callFromThread} and C{callLater}.
    @param path: the database file; C{-wal} and C{-shm} lie beside it. All 0600.
    @param now: seconds since 1970.
    @param keep_seconds: age at which L{prune} forgets a job; 0 keeps for ever, as in Salt.
    @param claims: how many returns that no job expects are kept of one minion, and bytes of them.
    @param gather: as for L{JobLog}.
    @param heard: as for L{JobLog}.
    @ivar replica: the same rows as a log that other nodes can have.
    @ivar node: this node's id in a cluster.
    @ivar on_open: called when the file is open, before anything is written.
    @ivar loaded: the file that the log knows of: the writer may have begun another one.
    @ivar on_anew: called when another file was begun while this store runs.
    @ivar on_owed: called when other members may have more of what was here.
    @ivar on_bad: called with the numbers of rows that are not what was written.
    @ivar trouble: what is lacking here, while it is being brought back; for the status.
    @ivar pruned: the time before which jobs were forgotten.
    @ivar owed: whether other members may have more of what was here before.
    """

    log = Logger()

    def __init__(
        self,
        reactor: Any,
        path: str,
        now: Callable[[], float] = time.time,
        keep_seconds: float = 86400.0,
        claims: tuple[int, int] = (10_000, 256 * 1024 * 1024),
        node: str = "",
        gather: float = 0.0,
        heard: Callable[[], bool] = lambda: True,
    ) -> None:
        self.path = path
        self.keep_seconds = keep_seconds
        self.counts = Counts()
        self.claims = Claims(*claims)
        self._told_dropped = 1
        self._reactor = reactor
        self._now = now
        self._condition = threading.Condition()
        self._queue: deque[_Write] = deque()
        self._queued_bytes = 0
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._db: sqlite3.Connection | None = None
        self.node = node
        self.on_open: list[Callable[[], None]] = []
        self.on_anew: list[Callable[[], None]] = []
        self.on_owed: list[Callable[[], None]] = []
        self.on_bad: list[Callable[[Sequence[int]], None]] = []
        self._told_bad: set[int] = set()
        self.trouble = ""
        self.pruned = 0
        self.owed = False
        self._told_epoch = self.loaded = 0
        self._moved = False
        self._inode = 0
        self.replica = JobLog(self, gather, heard)
        self._book = Book(0, {}, 0, 0, 0)
        self._last = 0
        self._at = 0.0
        self._derived = 0
        self._readers = ThreadPool(0, 2, "jobs-read")
        self._local = threading.local()
        self.epoch = 0
        self._open_readers: list[sqlite3.Connection] = []
        self._delivering: deque[list[_Write]] = deque()
        self._known: dict[str, int] = {}
        self.stall = Stall()
        self._refusal = ""
        self._renewed = False
        # Whether no other node can have an entry by the number that comes next
        self._unused = False

    # -- life

    def startService(self) -> None:
        """
        Open or make the database, and start the threads. Blocks for a moment.

        @raises StoreError: when the disk refuses, or a newer saltwisted wrote the file.
        """
        if self._thread is not None:
            return
        files.make_dir(os.path.dirname(self.path))
        self._db = self._open_or_renew()
        self.replica.load(self._book)
        for receiver in self.on_open:
            receiver()
        self._stopping = self._unused = False
        self._told_epoch = self.loaded = self.epoch
        self._readers.start()
        self._thread = threading.Thread(target=self._write_loop, name="jobs-write", daemon=True)
        self._thread.start()

    def stopService(self) -> Deferred[None]:
        """Commit what is queued, then close; fires when the threads have ended."""
        done: Deferred[None] = Deferred()
        thread, self._thread = self._thread, None
        if thread is None:
            done.callback(None)
            return done

        def ended() -> None:
            self._drain()
            self.replica.stop()
            done.callback(None)

        def close() -> None:
            self._readers.stop()
            for connection in self._open_readers:
                connection.close()
            self._open_readers.clear()
            # The writer is the last to close, and so the one to clear the log away
            with self._condition:
                self._stopping = True
                self._condition.notify()
            thread.join()
            self._reactor.callFromThread(ended)

        threading.Thread(target=close, name="jobs-stop", daemon=True).start()
        return done

    @property
    def problem(self) -> str:
        """Why the disk does not take jobs and returns, or C{""}; for the status."""
        return self._refusal or self.stall.problem or self.trouble

    # -- writing

    def save_job(
        self, jid: str, load: Mapping[str, Any], minions: Sequence[str], chosen: bool = False
    ) -> Deferred[None]:
        """
        Remember a published job and whom it expects; fires once that is on disk.

        @param chosen: its jid was a caller's choice, so that another node may have a job by it.
        @raises DeniedError: through the Deferred, when that job holds.
        """
        try:
            packed = pack_bin({k: v for k, v in load.items() if k != "jid"})
            row = (jid, self._moment(), _fun_text(load.get("fun")), packed, pack_bin(list(minions)))
        except TypeError as error:
            return fail(StoreError(str(error), self.path))
        self._remember(jid)
        size = len(packed) + len(row[4])
        return self._add(_Write(Deferred(), size, put_job=row, chosen=chosen))

    def save_return(self, load: Mapping[str, Any], requested: bool = False) -> Deferred[bool]:
        """
        Store a return; fires once it is on disk: true if new, false if it was there.

        A return of a job that was not published here makes a record of that job as well.

        @param requested: the jid was allocated for this return (C{jid: req}).
        @raises StoreError: through the Deferred, when the disk refuses or is far behind.
        """
        jid, minion_id = load["jid"], load["id"]
        try:
            packed = stored_form(load)
            job = None
            at = self._moment()
            if requested or jid not in self._known:
                self._remember(jid, DERIVED)
                job = self._job_of_return(jid, minion_id, at, load)
        except TypeError as error:
            return fail(StoreError(str(error), self.path))
        return self._add(
            _Write(Deferred(), len(packed), add_job=job, row=(jid, minion_id, at, packed))
        )

    def bring_in(
        self, jobs: Sequence[tuple[Any, ...]], returns: Sequence[tuple[Any, ...]]
    ) -> Deferred[tuple[int, int]]:
        """
        Add records from elsewhere, with their own times; what is here already stays.

        @param jobs: jid, seconds since 1970, function, packed load, packed ids of minions.
        @param returns: jid, minion id, seconds since 1970, packed as by L{stored_form}.
        @return: how many of each were new; fires once they are on disk.
        """
        return Deferred.fromCoroutine(self._bring_in(jobs, returns))

    async def _bring_in(
        self, jobs: Sequence[tuple[Any, ...]], returns: Sequence[tuple[Any, ...]]
    ) -> tuple[int, int]:
        here = await self._read(lambda db: published_of(db, [row[0] for row in jobs]))
        waiting = []
        for row in jobs:
            if row[0] not in here and self._known.get(row[0]) != PUBLISHED:
                self._remember(row[0])
                size = len(row[3]) + len(row[4])
                waiting.append(self._add(_Write(Deferred(), size, put_job=tuple(row))))
        count = len(waiting)
        for row in returns:
            waiting.append(self._add(_Write(Deferred(), len(row[3]), row=tuple(row))))
        try:
            results = await gatherResults(waiting, consumeErrors=True)
        except FirstError as error:
            error.subFailure.raiseException()
            raise
        return count, sum(map(bool, results[count:]))

    def _job_of_return(
        self, jid: str, minion_id: str, at: float, load: Mapping[str, Any]
    ) -> tuple[Any, ...]:
        job = record_of_claim(minion_id, load)
        return (jid, at, _fun_text(job["fun"]), pack_bin(job), pack_bin([minion_id]))

    # -- damage

    def begin_anew(self, reason: str) -> Deferred[None]:
        """The file is damaged: keep it for somebody who can mend it, and begin another one."""
        return self._enqueue(_Write(Deferred(), 0, anew=reason))

    def change(self, work: Callable[[sqlite3.Connection], T]) -> Deferred[T]:
        """Change something in the file, in the writer's thread and a transaction."""
        return self._enqueue(_Write(Deferred(), 0, change=work))

    def owes(self, owed: bool = True) -> None:
        """Remember that other members may have more of what was here, or that they have not."""
        if owed != self.owed and self._thread is not None:
            self.owed = owed

            def work(db: sqlite3.Connection) -> None:
                db.execute("UPDATE facts SET value = ? WHERE name = 'owed'", (int(owed),))

            self.change(work).addErrback(lambda _: None)  # type: ignore[unused-awaitable]

    def lacks(self) -> None:
        """What came from one member may be less than another has."""
        self.owes()
        for receiver in self.on_owed:
            receiver()

    def met_bad(self, numbers: Sequence[int]) -> None:
        """Somebody has read rows that are not what was written, and left them out."""
        for receiver in self.on_bad:
            receiver(numbers)
        fresh = set(numbers) - self._told_bad
        if fresh and not self.on_bad:
            # Nobody else has them: they stay where they are
            self._told_bad |= fresh
            self.log.error(
                "{path}: the disk returned wrong data: {rows} cannot be shown, because they "
                "are not what was written",
                path=self.path,
                rows=counted(len(fresh), "row"),
            )

    def _read_rows(self, query: Callable[[sqlite3.Connection, list[int]], T]) -> Deferred[T]:
        """Ask the file for rows that are checked; the query notes the numbers of the bad ones."""
        bad: list[int] = []

        def done(result: T) -> T:
            if bad:
                self.met_bad(bad)
            return result

        return self._read(lambda db: query(db, bad)).addCallback(done)

    def read_anew(self, query: Callable[[sqlite3.Connection], T]) -> Deferred[T]:
        """Ask the file itself, and nothing that was read before; damage is met here, too."""

        def asked(_: sqlite3.Connection) -> T:
            if os.stat(self.path).st_ino != self._inode:
                raise damage("it is not the file that was opened")
            connection = connect(self.path, "ro")
            try:
                return query(connection)
            finally:
                connection.close()

        return self._read(asked)

    def _met_damage(self, epoch: int, reason: str) -> None:
        """A reader has met damage: nothing more is written into that file."""
        if self._thread is not None and epoch == self.epoch == self._told_epoch:
            self._told_epoch = -1
            self.begin_anew(reason).addErrback(lambda _: None)  # type: ignore[unused-awaitable]

    def _opened_anew(self, book: Book, epoch: int) -> None:
        self.loaded = epoch
        self.replica.load(book)
        if epoch == self._told_epoch:
            return
        self._told_epoch = epoch
        self._known = {}
        for receiver in self.on_anew:
            receiver()

    # -- for the log

    def clock(self) -> float:
        """The reactor's time."""
        return float(self._reactor.seconds())

    def later(self, delay: float, function: Callable[[], None]) -> Any:
        """Call something a moment later."""
        return self._reactor.callLater(delay, function)

    def read(self, query: Callable[[sqlite3.Connection], T]) -> Deferred[T]:
        """Ask the file something, in a thread."""
        return self._read(query)

    def write_merge(self, merge: Merge, size: int) -> Deferred[Sequence[Entry]]:
        """Write what other nodes sent; fires with its entries when it is on disk."""
        return self._enqueue(_Write(Deferred(), size, merge=merge))

    def renew(self, kept: int) -> Deferred[None]:
        """Begin a new incarnation of the own stream; what is beyond a number is in it again."""
        write = _Write(Deferred(), 0, renew=kept)
        return self._enqueue(write).addCallback(lambda _: None)

    def _moment(self) -> float:
        """The time, growing strictly: nodes compare it to agree on which row came first."""
        self._at = max(self._now(), self._at + 1e-6)
        return self._at

    def newest_jid(self, slot: int | None = None) -> str:
        """
        The newest jid of a published job, or C{""}. Blocks for a moment, at the start alone.

        @param slot: of jids that end in these two digits.
        """
        if self._db is None or self._thread is not None:
            return ""
        query = (
            "SELECT CAST(jid AS BLOB) FROM jobs WHERE rank = ? AND jid < ? "
            "ORDER BY jid DESC LIMIT 10"
        )
        values: list[Any] = [PUBLISHED, jid_at(self._now() + 86400)]
        if slot is not None:
            query = query.replace("ORDER", "AND substr(jid, 19, 2) = ? ORDER")
            values.append(f"{slot:02d}")
        rows = self._db.execute(query, values).fetchall()
        # A damaged one is none
        return next((jid for (data,) in rows if is_jid(jid := data.decode(errors="replace"))), "")

    def is_published(self, jid: str) -> bool:
        """Whether there is a published record of this job, as far as is remembered."""
        return self._known.get(jid) == PUBLISHED

    def published(self, jid: str) -> None:
        """A published record of this job is about to be written."""
        self._remember(jid)

    def _remember(self, jid: str, rank: int = PUBLISHED) -> None:
        self._known[jid] = max(rank, self._known.get(jid, rank))
        if len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]

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
        await self._enqueue(_Write(Deferred(), 0, mark=at))
        while count := await self._enqueue(_Write(Deferred(), 0, prune=before)):
            total += count
            self.counts.pruned += count
            # A late return of a forgotten job makes a record of it again
            self._known.clear()
        return total

    def _add(self, write: _Write) -> Deferred[Any]:
        """Something of this node, by the next number of its stream."""
        if not self._unused:
            self._unused = True
            self.replica.go_on().addErrback(self._use_later)  # type: ignore[unused-awaitable]
        return self._enqueue(write)

    def _use_later(self, failure: Failure) -> None:
        """No new incarnation was begun: the next one that adds something tries again."""
        self._unused = False

    def _enqueue(self, write: _Write) -> Deferred[Any]:
        with self._condition:
            if self._thread is None:
                return fail(StoreError("the job cache is closed", self.path))
            if len(self._queue) >= _QUEUE_ROWS or self._queued_bytes > _QUEUE_BYTES:
                self.counts.refused += 1
                return fail(
                    StoreError("the disk is too slow: too many writes are waiting", self.path)
                )
            self._queue.append(write)
            self._queued_bytes += write.size
            if len(self._queue) == 1:
                self._condition.notify()
        return write.done

    # -- the writer's thread

    def _write_loop(self) -> None:
        while True:
            with self._condition:
                while not self._queue and not self._stopping:
                    self._condition.wait()
                if not self._queue:
                    break
                batch = self._next_batch()
                last = not self._queue
            self.stall.begins()
            try:
                if self._renewed:
                    self._describe_jobs(batch)
                    self._renewed = not last
                self._commit(batch)
            except StoreError as error:
                for write in batch:
                    write.result, write.number = Failure(error), 0
            except Exception:
                failure = Failure()
                for write in batch:
                    write.result, write.number = failure, 0
            self.stall.ends()
            self._reactor.callFromThread(self._deliver, batch)
        self._close()

    def _next_batch(self) -> list[_Write]:
        """What is written together; a new incarnation is begun by itself, between two others."""
        batch: list[_Write] = []
        size = 0
        while self._queue and len(batch) < _BATCH_ROWS and size < _BATCH_BYTES:
            alone = self._queue[0].renew is not None or bool(self._queue[0].anew)
            if alone and batch:
                break
            write = self._queue.popleft()
            batch.append(write)
            size += write.size
            if alone:
                break
        self._queued_bytes -= size
        return batch

    def _commit(self, batch: list[_Write]) -> None:
        for attempt in (1, 2):
            try:
                if batch[0].anew and attempt == 1 and self._db is not None:
                    self._close()
                    self._move_aside(batch[0].anew)
                    self._renewed = True
                if self._db is None:
                    self._db = self._open_or_renew()
                    self._reactor.callFromThread(self._opened_anew, self._book, self.epoch)
                self._transact(self._db, batch)
                if self._refusal:
                    self._refusal = ""
                    self.log.info("{path}: the disk takes writes again", path=self.path)
                return
            except sqlite3.Error as error:
                self._rollback()
                self.claims.forget()
                if is_corrupt(error) and attempt == 1:
                    self._close()
                    self._move_aside(str(error))
                    self._renewed = True
                    self._describe_jobs(batch)
                    continue
                known, self._refusal = self._refusal, str(error)
                if not known:
                    self.log.error(
                        "{path}: the job cache cannot be written: {error}. Returns are not "
                        "acknowledged until it can; minions keep and repeat them.",
                        path=self.path,
                        error=str(error),
                    )
                raise StoreError(str(error), self.path) from error
            except BaseException:
                # What comes next must not be in a transaction that nobody ends
                self._rollback()
                self.claims.forget()
                raise

    def _describe_jobs(self, batch: list[_Write]) -> None:
        """The records of jobs were lost with the old file: make them from their returns."""
        for write in batch:
            if write.row is not None and write.add_job is None:
                jid, minion_id, at, packed = write.row
                write.add_job = self._job_of_return(jid, minion_id, at, unpack_bin(packed))

    def _rollback(self) -> None:
        if self._db is not None:
            try:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
            except sqlite3.Error:
                self._close()

    def _close(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            with suppress(sqlite3.Error):
                db.close()

    def _transact(self, db: sqlite3.Connection, batch: list[_Write]) -> None:
        jobs = [write for write in batch if write.put_job is not None]
        found = [write.add_job for write in batch if write.add_job is not None]
        rows = [write for write in batch if write.row is not None]
        others = [write for write in batch if not write.is_plain]
        chosen = any(write.chosen for write in jobs)
        for write in jobs:
            jid, _, _, load, minions = write.put_job  # type: ignore[misc]
            if write.chosen:
                self.claims.changed(jid)
            else:
                self.claims.put(jid, load, minions)
        claimed = [
            write
            for write in rows
            if self.claims.is_claim(db, write.row[0], write.row[1])  # type: ignore[index]
        ]
        # A single statement is a transaction by itself: one turn without the GIL, fsync included
        count = pieces(len(jobs)) + pieces(len(found)) + pieces(len(rows))
        whole = count == 1 and not others and not chosen and not claimed
        if not whole:
            db.execute("BEGIN IMMEDIATE")
        book = self._book
        for write in others:
            if write.renew is not None:
                begin_stream(db, self.replica.stream.node, write.renew)
                book = write.book = book_of(db)
        last, derived = self._last, self._derived
        if book is not self._book:
            last, derived = book.last, book.derived
        if found:
            first = derived - len(found)
            insert(
                db,
                ADD_JOBS,
                [
                    (
                        *(first + n, jid, at, fun, DERIVED, load, minions),
                        job_crc(jid, at, fun, load, minions),
                    )
                    for n, (jid, at, fun, load, minions) in enumerate(found)
                ],
            )
            derived = first
        if jobs:
            values = []
            for write in jobs:
                jid, at, fun, load, minions = write.put_job  # type: ignore[misc]
                row = (last + 1, jid, at, fun, PUBLISHED, load, minions)
                if write.chosen and not merge_job(db, row, self.replica.names):
                    write.result, write.number = Failure(DeniedError(f"{jid} is another job")), 0
                    continue
                write.result = None
                last += 1
                write.number = last
                if not write.chosen:
                    values.append((*row, job_crc(jid, at, fun, load, minions)))
            insert(db, PUT_JOBS, values)
        if rows:
            first = last
            for write in rows:
                last += 1
                write.number = last
            # The second row of the same (jid, id) in one batch is left out like any other
            checked = [(w.number, *w.row, return_crc(*w.row)) for w in rows]  # type: ignore[misc]
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
        news = [write.row for write in claimed if write.result]
        if news:
            self.claims.add(db, [(jid, who, at, len(load)) for jid, who, at, load in news])  # type: ignore[misc]
        for write in others:
            if write.merge is not None:
                if why := out_of_place(db, write.merge, self.epoch):
                    write.result = Failure(StoreError(why, self.path))
                    continue
                write.result, derived = merge_rows(
                    db,
                    write.merge,
                    self.replica.names,
                    derived,
                    self._job_of_return,
                    self.claims,
                )
            elif write.prune is not None:
                write.result = prune(db, write.prune)
                self.claims.forget()
                self.pruned = max(self.pruned, int(write.prune))
                if not write.result:
                    prune_claims(db, write.prune)
                    raise_floors(db, book.own, last, self.replica.confirmed_number)
                    write.book = book_of(db)
            elif write.mark is not None:
                mark(db, write.mark, write.mark - self.keep_seconds, book.own, last)
            elif write.change is not None:
                write.result = write.change(db)
        if others or claimed:
            remember_last(db, book.own, last)
        if not whole:
            db.execute("COMMIT")
        self._book, self._last, self._derived = book, last, derived
        if self.claims.dropped >= self._told_dropped:
            # At 1, 2, 4, 8, ...: a minion that goes on does not fill the log
            self._told_dropped = 2 * self.claims.dropped
            self.log.warn(
                "{minion} returned more for jobs that nobody published to it than job_claims_max "
                "and job_claims_size_max allow: its oldest are dropped ({dropped} in all)",
                minion=self.claims.latest,
                dropped=self.claims.dropped,
            )
        counts = self.counts
        counts.commits += 1
        counts.jobs += len(jobs)
        stored = sum(1 for write in rows if write.result)
        counts.returns += stored
        counts.duplicates += len(rows) - stored
        counts.largest_batch = max(counts.largest_batch, len(batch))

    # -- back in the reactor

    def _deliver(self, batch: list[_Write]) -> None:
        """Fire the Deferreds of a batch, a few per turn: what follows each may take 0.1 ms."""
        self._tell(batch)
        self._delivering.append(batch[::-1])
        if len(self._delivering) == 1:
            self._deliver_some()

    def _tell(self, batch: list[_Write]) -> None:
        """Tell the log what of a batch is on disk now, before anybody is told of its own."""
        replica = self.replica
        last = 0
        entries: list[Entry] = []
        for write in batch:
            if write.book is not None and write.prune is not None:
                replica.pruned(write.book)
            elif write.book is not None:
                replica.load(write.book)
            elif write.merge is not None and not isinstance(write.result, Failure):
                replica.merged(write.merge, write.result)
                write.result = write.merge.entries
            elif write.number > last:
                last = write.number
        if not last:
            return
        base = replica.own * SPAN
        if replica.watched:
            stream = replica.stream
            own = {write.number - base: write for write in batch if write.number}
            for number in range(replica.stored_number + 1, last - base + 1):
                entries.append(self._entry(own.get(number), stream, number))
            if entries:
                replica.appended(entries)
        else:
            replica.advance(last - base)

    def _entry(self, write: _Write | None, stream: Stream, number: int) -> Entry:
        if write is None:
            return Entry(stream, number, 0, VOID, EMPTY)
        if write.row is not None:
            return return_entry(stream, number, *write.row)
        jid, started, fun, load, minions = write.put_job or ()
        return job_entry(stream, number, jid, fun, started, load, minions)

    def _deliver_some(self) -> None:
        for _ in range(_SLICE):
            if not self._delivering:
                return
            batch = self._delivering[0]
            write = batch.pop()
            if not batch:
                self._delivering.popleft()
            if not write.done.called:
                write.done.callback(write.result)
        if self._delivering:
            self._reactor.callLater(0, self._deliver_some)

    def _drain(self) -> None:
        while self._delivering:
            for write in reversed(self._delivering.popleft()):
                if not write.done.called:
                    write.done.callback(write.result)

    # -- opening

    def _open_or_renew(self) -> sqlite3.Connection:
        try:
            return self._open()
        except sqlite3.Error as error:
            if not is_corrupt(error):
                raise StoreError(str(error), self.path) from error
            self._move_aside(str(error))
            try:
                return self._open()
            except sqlite3.Error as again:
                raise StoreError(str(again), self.path) from again

    def _open(self) -> sqlite3.Connection:
        db = open_table(self.path)
        try:
            db.execute("BEGIN IMMEDIATE")
            self._inode = os.stat(self.path).st_ino
            self._book = read_book(db, self.node, self._inode)
            db.execute("COMMIT")
        except BaseException:
            db.close()
            raise
        self._last, self._derived = self._book.last, self._book.derived
        facts = dict(db.execute("SELECT name, value FROM facts").fetchall())
        self.pruned = facts.get("pruned", 0)
        self.owed = self._moved or bool(facts.get("owed", 0))
        if self._moved:
            db.execute("UPDATE facts SET value = 1 WHERE name = 'owed'")
            self._moved = False
        return db

    def _move_aside(self, reason: str) -> None:
        """Keep a broken database for somebody who can mend it, and start again."""
        self.epoch += 1
        self._moved = True
        self.claims.forget()
        self.counts.moved_aside += 1
        self._known = {}
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(self._now()))
        aside = f"{self.path}.corrupt-{stamp}-{os.urandom(3).hex()}"
        for suffix in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.rename(self.path + suffix, aside + suffix)
        self.log.critical(
            "{path} is damaged ({reason}): it was moved to {aside}, and a new job cache "
            "was started. Earlier jobs and returns are only in that file.",
            path=self.path,
            reason=reason,
            aside=aside,
        )

    # -- reading

    def _read(self, query: Callable[[sqlite3.Connection], T]) -> Deferred[T]:
        if self._thread is None:
            return fail(StoreError("the job cache is closed", self.path))
        d: Deferred[T] = deferToThreadPool(self._reactor, self._readers, self._query, query)
        return d

    def _query(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """In a reader's thread."""
        try:
            connection = getattr(self._local, "connection", None)
            if connection is None or self._local.epoch != self.epoch:
                connection = connect(self.path, "ro")
                connection.execute("PRAGMA cache_size=-1024")
                self._local.connection = connection
                self._local.epoch = self.epoch
                self._open_readers.append(connection)
            return query(connection)
        except (sqlite3.Error, FileNotFoundError) as error:
            self._local.connection = None
            if isinstance(error, FileNotFoundError) or is_corrupt(error):
                self._reactor.callFromThread(self._met_damage, self.epoch, str(error))
            raise StoreError(str(error), self.path) from error

    def job(self, jid: str) -> Deferred[Mapping[str, Any] | None]:
        """
        Load, C{jid}, C{minions} and C{started} (seconds since 1970) of one job, or C{None}.

        C{claimed} says that nobody has published it: its record is made of a minion's return.
        """

        def query(db: sqlite3.Connection, bad: list[int]) -> Mapping[str, Any] | None:
            found = jobs_where(db, "jid = ?", (jid,), bad)
            return found[0] if found else None

        return self._read_rows(query)

    def returns(self, jid: str) -> Deferred[Mapping[str, Mapping[str, Any]]]:
        """Minion id to what it returned (C{return retcode success fun fun_args out? _stamp?})."""

        def query(db: sqlite3.Connection, bad: list[int]) -> Mapping[str, Mapping[str, Any]]:
            rows = returns_where(db, "WHERE jid = ? ORDER BY id", (jid,), bad)
            return {minion_id: unpack_bin(load) for _, minion_id, load in rows}

        return self._read_rows(query)

    def returned_ids(self, jid: str) -> Deferred[Sequence[str]]:
        """Who has returned, without what."""

        def query(db: sqlite3.Connection) -> Sequence[str]:
            return ids_where(db, "WHERE jid = ? ORDER BY id", (jid,))

        return self._read(query)

    def one_copy(self, jid: str) -> Deferred[Sequence[str]]:
        """Minions whose return of this job is on this node's disk, and no other node's yet."""
        first = self.replica.own * SPAN
        known = first + self.replica.confirmed_number

        def query(db: sqlite3.Connection) -> Sequence[str]:
            where = "WHERE jid = ? AND number > ? AND number < ? ORDER BY id"
            return ids_where(db, where, (jid, known, first + SPAN))

        return self._read(query)

    def list_jobs(self, **criteria: Any) -> Deferred[Sequence[Mapping[str, Any]]]:
        """
        Jobs, newest last, without their minions.

        @param criteria: C{limit} (the newest so many), C{fun} (exact), C{not_fun},
            C{since} and C{until} (seconds since 1970), C{minions} (true: with them).
        """
        known = {"limit", "fun", "not_fun", "since", "until", "minions"}
        if unknown := criteria.keys() - known:
            raise TypeError(f"list_jobs does not know {', '.join(sorted(unknown))}")
        where, values = ["1"], []
        for name, condition in (
            ("fun", "fun = ?"),
            ("not_fun", "fun != ?"),
            ("since", "started >= ?"),
            ("until", "started <= ?"),
        ):
            if criteria.get(name) is not None:
                where.append(condition)
                values.append(criteria[name])
        limit = criteria.get("limit")
        values.append(-1 if limit is None else int(limit))
        order = f"{' AND '.join(where)} ORDER BY started DESC, jid DESC LIMIT ?"
        minions = bool(criteria.get("minions"))

        def query(db: sqlite3.Connection, bad: list[int]) -> Sequence[Mapping[str, Any]]:
            return jobs_where(db, order, values, bad, minions)[::-1]

        return self._read_rows(query)

    @property
    def queued(self) -> int:
        """Writes that wait for the disk now."""
        return len(self._queue)

    def totals(self) -> Deferred[Mapping[str, int]]:
        """How many jobs and returns are kept."""

        def query(db: sqlite3.Connection) -> Mapping[str, int]:
            jobs, returns = db.execute(
                "SELECT (SELECT count(*) FROM jobs), (SELECT count(*) FROM returns)"
            ).fetchone()
            return {"jobs": jobs, "returns": returns}

        return self._read(query)


_JobStore: type[IJobStore] = JobStore  # mypy compares them


def stored_form(load: Mapping[str, Any]) -> bytes:
    """
    What is kept of a return: nothing that is new at each attempt.

    @raises TypeError: it cannot be packed.
    """
    return pack_bin({k: v for k, v in load.items() if k not in _DROPPED})


def _fun_text(fun: Any) -> str:
    return fun if isinstance(fun, str) else ",".join(map(str, fun)) if fun else ""
