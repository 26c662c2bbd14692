"""
What the writer of the job cache can write: one class for each kind.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any, ClassVar

from attrs import define, field
from twisted.internet.defer import Deferred

from saltwisted.stores.jobs.book import Book
from saltwisted.stores.jobs.entries import return_head
from saltwisted.stores.jobs.merging import Merge


@define(eq=False, kw_only=True)
class Write:
    """
    One thing to write, and the caller that waits for it.

    @ivar done: fires with C{result} once it is on disk.
    @ivar size: its approximate size in bytes.
    @ivar number: the number of its row, if it got one.
    @ivar is_alone: whether its transaction contains nothing else.
    """

    is_alone: ClassVar[bool] = False

    done: Deferred[Any] = field(factory=Deferred)
    size: int = 0
    number: int = 0
    result: Any = None


@define(eq=False, kw_only=True)
class JobWrite(Write):
    """
    The record of a job.

    @ivar row: jid, seconds since 1970, function, packed load, packed ids of minions.
    @ivar chosen: whether a caller chose its jid, so that another node may have a job with the same
        jid.
    """

    row: tuple[Any, ...]
    chosen: bool = False


@define(eq=False, kw_only=True)
class ReturnWrite(Write):
    """
    The return of a minion.

    @ivar row: jid, minion id, seconds since 1970, packed load.
    @ivar body: for a long one: the body of its entry, which contains the load.
    @ivar record: for a job that was not published here: its record, derived from this return.
    @ivar pieces: the packed load in pieces, which are not in C{row} yet.
    """

    row: tuple[Any, ...]
    body: bytes = b""
    record: tuple[Any, ...] | None = None
    pieces: list[bytes] = field(factory=list)

    def join(self) -> None:
        """Copy the pieces into the row, in the writer's thread, because they may be long."""
        if self.pieces:
            jid, minion_id, at, _ = self.row
            head = return_head(jid, minion_id, at, sum(map(len, self.pieces)))
            self.body = b"".join((head, *self.pieces))
            self.row = (jid, minion_id, at, memoryview(self.body)[len(head) :])
            self.pieces = []


@define(eq=False, kw_only=True)
class MergeWrite(Write):
    """Entries of other nodes."""

    merge: Merge


@define(eq=False, kw_only=True)
class PruneWrite(Write):
    """
    Deletes some hundred rows of jobs that began before a time.

    @ivar book: what the file says about its streams, once nothing is left to delete.
    """

    before: float
    book: Book | None = None


@define(eq=False, kw_only=True)
class MarkWrite(Write):
    """Remembers what was written by this time, for a later pruning."""

    at: float


@define(eq=False, kw_only=True)
class ChangeWrite(Write):
    """Changes something in the file."""

    change: Callable[[sqlite3.Connection], Any]


@define(eq=False, kw_only=True)
class RenewWrite(Write):
    """
    Begins a new incarnation of the own stream, which repeats everything beyond a number.

    @ivar book: what the file says about its streams afterwards.
    """

    is_alone: ClassVar[bool] = True

    kept: int
    book: Book | None = None


@define(eq=False, kw_only=True)
class AnewWrite(Write):
    """Moves the damaged file aside, and begins another one."""

    is_alone: ClassVar[bool] = True

    reason: str
