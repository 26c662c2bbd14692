"""
What the writer of the job cache is given to write: one class for each kind.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any, ClassVar

from attrs import define, field
from twisted.internet.defer import Deferred

from saltwisted.stores.jobs.book import Book
from saltwisted.stores.jobs.merging import Merge


@define(eq=False, kw_only=True)
class Write:
    """
    One thing to write, and who waits for it.

    @ivar done: fires with C{result} once it is on disk.
    @ivar size: about how many bytes it has.
    @ivar number: of its row, where it got one.
    @ivar is_alone: whether nothing else is in its transaction.
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
    @ivar chosen: its jid was a caller's choice, so that another node may have a job by it.
    """

    row: tuple[Any, ...]
    chosen: bool = False


@define(eq=False, kw_only=True)
class ReturnWrite(Write):
    """
    What a minion returned.

    @ivar row: jid, minion id, seconds since 1970, packed load.
    @ivar record: of a job that was not published here: its record, made of this return.
    @ivar pieces: the packed load in pieces, which are not in C{row} yet.
    """

    row: tuple[Any, ...]
    record: tuple[Any, ...] | None = None
    pieces: list[bytes] = field(factory=list)

    def join(self) -> None:
        """Copy the pieces into the row: in the writer's thread, since they may be long."""
        if self.pieces:
            jid, minion_id, at, _ = self.row
            self.row = (jid, minion_id, at, b"".join(self.pieces))
            self.pieces = []


@define(eq=False, kw_only=True)
class MergeWrite(Write):
    """Entries of other nodes."""

    merge: Merge


@define(eq=False, kw_only=True)
class PruneWrite(Write):
    """
    Some hundred rows of jobs that began before a time are removed.

    @ivar book: what the file says of its streams, once nothing is left to be removed.
    """

    before: float
    book: Book | None = None


@define(eq=False, kw_only=True)
class MarkWrite(Write):
    """What was written by this time is remembered, for a later pruning."""

    at: float


@define(eq=False, kw_only=True)
class ChangeWrite(Write):
    """Something is changed in the file."""

    change: Callable[[sqlite3.Connection], Any]


@define(eq=False, kw_only=True)
class RenewWrite(Write):
    """
    A new incarnation of the own stream is begun; what is beyond a number is in it again.

    @ivar book: what the file says of its streams then.
    """

    is_alone: ClassVar[bool] = True

    kept: int
    book: Book | None = None


@define(eq=False, kw_only=True)
class AnewWrite(Write):
    """The file is damaged: it is put aside, and another one is begun."""

    is_alone: ClassVar[bool] = True

    reason: str
