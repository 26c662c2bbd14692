"""
What happens when a batch of the job cache is on disk: first the log is informed, then the waiting
callers.
"""

from __future__ import annotations

from collections import deque
from time import thread_time
from typing import Any

from twisted.python.failure import Failure

from saltwisted.domain.replica.entry import Entry, Stream
from saltwisted.stores.jobs.entries import (
    EMPTY,
    VOID,
    entry_of_return,
    job_entry,
    return_entry,
)
from saltwisted.stores.jobs.log import JobLog
from saltwisted.stores.jobs.table import SPAN
from saltwisted.stores.jobs.writes import (
    JobWrite,
    MergeWrite,
    PruneWrite,
    RenewWrite,
    ReturnWrite,
    Write,
)
from saltwisted.turns import turns_of

_SLICE = 16
PORTION = 0.001
"""Seconds of the reactor thread's CPU in one turn, for however many batches come in it."""


class Delivery:
    """
    Informs the log and fires Deferreds, a few per turn: the consequences may take 0.1 ms for a
    return, and ten times as long for a job, which is then signed and published.

    @param reactor: for C{callLater}.
    @param portion: CPU seconds of the thread after which the rest waits for another turn.
    """

    def __init__(self, reactor: Any, replica: JobLog, portion: float = PORTION) -> None:
        self.portion = portion
        self._turns = turns_of(reactor)
        self._replica = replica
        self._waiting: deque[list[Write]] = deque()
        self._used = 0.0
        self._comes = False

    def written(self, batch: list[Write]) -> None:
        """A batch is on disk, or was refused."""
        began = thread_time()
        self.tell(batch)
        self._waiting.append(batch[::-1])
        used = thread_time() - began
        self._used += used
        self._turns.spent(used)
        # What was used in earlier turns counts too: a turn more now and then costs nothing, and
        # the batches that come in one turn, one for each of many requests, share its portion
        if self._comes:
            return
        if self._used <= self.portion and self._turns.has_room:
            self._deliver_some()
        else:
            self._later()

    def tell(self, batch: list[Write]) -> None:
        """
        Inform the log about the rows of a batch that are on disk, before callers are informed about
        their own.
        """
        replica, streams = self._replica, self._replica.streams
        last = 0
        for write in batch:
            match write:
                case PruneWrite(book=book) if book is not None:
                    replica.streams.pruned(book)
                case RenewWrite(book=book) if book is not None:
                    replica.load(book)
                case MergeWrite(merge=merge) if not isinstance(write.result, Failure):
                    replica.merged(merge, write.result)
                    write.result = merge.entries
                case _ if write.number > last:
                    last = write.number
        if not last:
            return
        base = streams.own * SPAN
        if not replica.told.watched:
            streams.advance(last - base)
            return
        stream = streams.stream
        own = {write.number - base: write for write in batch if write.number}
        entries = [
            _entry(own.get(number), stream, number)
            for number in range(replica.told.stored_number + 1, last - base + 1)
        ]
        if entries:
            replica.told.appended(entries)

    def drain(self) -> None:
        """Fire all that wait."""
        while self._waiting:
            for write in reversed(self._waiting.popleft()):
                if not write.done.called:
                    write.done.callback(write.result)

    def _later(self) -> None:
        self._comes = True
        self._turns.later(self._next)

    def _next(self) -> None:
        self._comes, self._used = False, 0.0
        self._deliver_some()

    def _deliver_some(self) -> None:
        began = now = thread_time()
        until = began + self._turns.left(self.portion - self._used)
        for _ in range(_SLICE):
            if not self._waiting:
                break
            batch = self._waiting[0]
            write = batch.pop()
            if not batch:
                self._waiting.popleft()
            if not write.done.called:
                write.done.callback(write.result)
            now = thread_time()
            if now > until:
                break
        self._used += now - began
        self._turns.spent(now - began)
        if self._waiting:
            self._later()


def _entry(write: Write | None, stream: Stream, number: int) -> Entry:
    if isinstance(write, ReturnWrite) and write.body:
        return entry_of_return(stream, number, write.row[2], write.body)
    if isinstance(write, ReturnWrite):
        return return_entry(stream, number, *write.row)
    if isinstance(write, JobWrite):
        jid, started, fun, load, minions = write.row
        return job_entry(stream, number, jid, fun, started, load, minions)
    return Entry(stream, number, 0, VOID, EMPTY)
