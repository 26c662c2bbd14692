"""
What is damaged or missing in the job cache, and who is informed about it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from saltwisted.stores.jobs.book import Book
from saltwisted.stores.jobs.file import JobFile
from saltwisted.stores.jobs.known import KnownJobs
from saltwisted.stores.jobs.writes import AnewWrite, ChangeWrite, Write
from saltwisted.words import counted


class JobHealth:
    """
    Receives reports of damage, has a damaged file replaced, and remembers what other members still
    owe it.

    @ivar loaded: the file that the log knows; the writer may have begun another one.
    @ivar on_anew: called when another file was begun while the store runs.
    @ivar on_owed: called when other members may have more of the earlier contents.
    @ivar on_bad: called with the numbers of rows that are not what was written.
    @ivar trouble: what is missing here while it is being fetched; for the status.
    """

    log = Logger()

    def __init__(
        self,
        file: JobFile,
        known: KnownJobs,
        enqueue: Callable[[Write], Deferred[Any]],
        is_running: Callable[[], bool],
        opened: Callable[[Book], None],
    ) -> None:
        """
        @param enqueue: has something written.
        @param is_running: whether anything is written now.
        @param opened: told first of another file that was begun.
        """
        self._file = file
        self._known = known
        self._enqueue = enqueue
        self._is_running = is_running
        self._opened = opened
        self._told_bad: set[int] = set()
        self._told_epoch = 0
        self.loaded = 0
        self.on_anew: list[Callable[[], None]] = []
        self.on_owed: list[Callable[[], None]] = []
        self.on_bad: list[Callable[[Sequence[int]], None]] = []
        self.trouble = ""

    def started(self) -> None:
        """The store has opened its file."""
        self._told_epoch = self.loaded = self._file.epoch

    # -- a damaged file

    def begin_anew(self, reason: str) -> Deferred[None]:
        """The file is damaged: keep it for somebody who can repair it, and begin another one."""
        return self._enqueue(AnewWrite(reason=reason))

    def met_damage(self, epoch: int, reason: str) -> None:
        """A reader has met damage: nothing more is written into that file."""
        if self._is_running() and epoch == self._file.epoch == self._told_epoch:
            self._told_epoch = -1
            self.begin_anew(reason).addErrback(lambda _: None)  # type: ignore[unused-awaitable]

    def opened_anew(self, book: Book, epoch: int) -> None:
        """The writer has opened a file while it ran: the same again, or another one."""
        self.loaded = epoch
        self._opened(book)
        if epoch == self._told_epoch:
            return
        self._told_epoch = epoch
        self._known.forget()
        for receiver in self.on_anew:
            receiver()

    # -- what others may have

    @property
    def owed(self) -> bool:
        """Whether other members may have more of the earlier contents."""
        return self._file.owed

    def owes(self, owed: bool = True) -> None:
        """Remember whether other members may have more of the earlier contents."""
        if owed != self._file.owed and self._is_running():
            self._file.owed = owed

            def work(db: sqlite3.Connection) -> None:
                db.execute("UPDATE facts SET value = ? WHERE name = 'owed'", (int(owed),))

            self._enqueue(ChangeWrite(change=work)).addErrback(  # type: ignore[unused-awaitable]
                lambda _: None
            )

    def lacks(self) -> None:
        """What came from one member may be less than another has."""
        self.owes()
        for receiver in self.on_owed:
            receiver()

    # -- damaged rows

    def met_bad(self, numbers: Sequence[int]) -> None:
        """A reader has found rows that are not what was written, and left them out."""
        for receiver in self.on_bad:
            receiver(numbers)
        fresh = set(numbers) - self._told_bad
        if fresh and not self.on_bad:
            # Nobody else has them: they stay where they are
            self._told_bad |= fresh
            self.log.error(
                "{path}: the disk returned wrong data: {rows} cannot be shown, because they "
                "are not what was written",
                path=self._file.path,
                rows=counted(len(fresh), "row"),
            )
