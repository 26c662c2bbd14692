"""
The writer of the job cache: one thread, and a queue.

Everything that arrives while it commits goes into its next transaction. So the writes share the
cost of reaching the disk, and nobody waits for a timer.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, fail
from twisted.logger import Logger
from twisted.python.failure import Failure

from saltwisted.errors import StoreError
from saltwisted.stores.database import is_corrupt
from saltwisted.stores.jobs.book import Book
from saltwisted.stores.jobs.entries import record_of_return
from saltwisted.stores.jobs.file import Counts, JobFile
from saltwisted.stores.jobs.longpacking import unpacked
from saltwisted.stores.jobs.streams import JobStreams
from saltwisted.stores.jobs.transaction import Transaction
from saltwisted.stores.jobs.writes import AnewWrite, ReturnWrite, Write
from saltwisted.stores.stall import Stall

_BATCH_ROWS = 512
_BATCH_BYTES = 8 * 1024 * 1024
_QUEUE_ROWS = 50_000
_QUEUE_BYTES = 128 * 1024 * 1024


class JobWriter:
    """
    Accepts writes in the reactor thread, and commits them in batches in its own thread.

    @ivar is_running: whether it accepts writes.
    @ivar stall: detects a disk that does not respond.
    """

    log = Logger()

    def __init__(
        self,
        reactor: Any,
        file: JobFile,
        streams: JobStreams,
        counts: Counts,
        keep_seconds: Callable[[], float],
        written: Callable[[list[Write]], None],
        opened_anew: Callable[[Book, int], None],
    ) -> None:
        """
        @param reactor: for C{callFromThread}.
        @param written: gets each batch, in the reactor thread, with what became of it.
        @param opened_anew: told there of another file that was begun, and its epoch.
        """
        self.file = file
        self.is_running = False
        self.stall = Stall()
        self._reactor = reactor
        self._streams = streams
        self._counts = counts
        self._keep_seconds = keep_seconds
        self._written = written
        self._opened_anew = opened_anew
        self._condition = threading.Condition()
        self._queue: deque[Write] = deque()
        self._queued_bytes = 0
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._refusal = ""
        self._renewed = False
        self._told_dropped = 1

    def start(self) -> None:
        """The file is open: take writes."""
        self._stopping = False
        self.is_running = True
        self._thread = threading.Thread(target=self._run, name="jobs-write", daemon=True)
        self._thread.start()

    def end(self) -> Callable[[], None]:
        """
        Accept no more writes.

        @return: blocks until the queue is committed and the file is closed.
        """
        self.is_running = False
        thread, self._thread = self._thread, None

        def wait() -> None:
            with self._condition:
                self._stopping = True
                self._condition.notify()
            if thread is not None:
                thread.join()

        return wait

    @property
    def problem(self) -> str:
        """Why the disk does not take writes, or C{""}."""
        return self._refusal or self.stall.problem

    @property
    def queued(self) -> int:
        """Writes that wait for the disk now."""
        return len(self._queue)

    def enqueue(self, write: Write) -> Deferred[Any]:
        """
        Write something; C{write.done} fires with the result.

        @raises StoreError: through the Deferred: closed, too many wait, or the disk refuses.
        """
        with self._condition:
            if not self.is_running:
                return fail(StoreError("the job cache is closed", self.file.path))
            if len(self._queue) >= _QUEUE_ROWS or self._queued_bytes > _QUEUE_BYTES:
                self._counts.refused += 1
                return fail(
                    StoreError("the disk is too slow: too many writes are waiting", self.file.path)
                )
            self._queue.append(write)
            self._queued_bytes += write.size
            if len(self._queue) == 1:
                self._condition.notify()
        return write.done

    # -- in its thread

    def _run(self) -> None:
        while True:
            with self._condition:
                while not self._queue and not self._stopping:
                    self._condition.wait()
                if not self._queue:
                    break
                batch = self.next_batch()
                last = not self._queue
            self.stall.begins()
            try:
                if self._renewed:
                    self._describe_jobs(batch)
                    self._renewed = not last
                self.commit(batch)
            except StoreError as error:
                for write in batch:
                    write.result, write.number = Failure(error), 0
            except Exception:
                failure = Failure()
                for write in batch:
                    write.result, write.number = failure, 0
            self.stall.ends()
            self._reactor.callFromThread(self._written, batch)
        self.file.close()

    def next_batch(self) -> list[Write]:
        """What is written together; a new incarnation is begun by itself, between two others."""
        batch: list[Write] = []
        size = 0
        while self._queue and len(batch) < _BATCH_ROWS and size < _BATCH_BYTES:
            alone = self._queue[0].is_alone
            if alone and batch:
                break
            write = self._queue.popleft()
            batch.append(write)
            size += write.size
            if alone:
                break
        self._queued_bytes -= size
        return batch

    def commit(self, batch: list[Write]) -> None:
        """
        Write a batch; into another file, if this one is damaged.

        @raises StoreError: the disk refuses.
        """
        file = self.file
        first = batch[0]
        for write in batch:
            if isinstance(write, ReturnWrite):
                write.join()
        if isinstance(first, AnewWrite) and file.db is not None:
            self._put_aside(first.reason)
        for attempt in (1, 2):
            try:
                if file.db is None:
                    file.open_or_renew()
                    self._reactor.callFromThread(self._opened_anew, file.book, file.epoch)
                self._transact(batch)
                return
            except sqlite3.Error as error:
                file.rollback()
                file.claims.forget()
                if is_corrupt(error) and attempt == 1:
                    self._put_aside(str(error))
                    self._describe_jobs(batch)
                    continue
                self._refused(str(error))
                raise StoreError(str(error), file.path) from error
            except BaseException:
                # What comes next must not be in a transaction that nobody ends
                file.rollback()
                file.claims.forget()
                raise

    def _transact(self, batch: list[Write]) -> None:
        file = self.file
        assert file.db is not None
        transaction = Transaction(file, self._streams, self._keep_seconds(), batch)
        transaction.commit(file.db)
        transaction.count(self._counts)
        if file.claims.dropped >= self._told_dropped:
            # At 1, 2, 4, 8, ...: a minion that goes on does not fill the log
            self._told_dropped = 2 * file.claims.dropped
            self.log.warn(
                "{minion} returned more for jobs that nobody published to it than job_claims_max "
                "and job_claims_size_max allow: its oldest are dropped ({dropped} in all)",
                minion=file.claims.latest,
                dropped=file.claims.dropped,
            )
        if self._refusal:
            self._refusal = ""
            self.log.info("{path}: the disk takes writes again", path=file.path)

    def _put_aside(self, reason: str) -> None:
        self.file.close()
        self.file.move_aside(reason)
        self._renewed = True

    def _refused(self, reason: str) -> None:
        known, self._refusal = self._refusal, reason
        if not known:
            self.log.error(
                "{path}: the job cache cannot be written: {error}. Returns are not "
                "acknowledged until it can; minions keep and repeat them.",
                path=self.file.path,
                error=reason,
            )

    def _describe_jobs(self, batch: list[Write]) -> None:
        """The records of jobs were lost with the old file: make them from their returns."""
        for write in batch:
            if isinstance(write, ReturnWrite) and write.record is None:
                write.join()
                jid, minion_id, at, packed = write.row
                write.record = record_of_return(jid, minion_id, at, unpacked(packed))
