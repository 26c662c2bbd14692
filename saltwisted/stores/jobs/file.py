"""
The file of the job cache, as its writer sees it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress

from attrs import define
from twisted.logger import Logger

from saltwisted.errors import StoreError
from saltwisted.stores.database import is_corrupt, put_aside
from saltwisted.stores.jobs.book import Book, read_book
from saltwisted.stores.jobs.claims import Claims
from saltwisted.stores.jobs.table import open_table


@define
class Counts:
    """What the store has done since the start, for metrics."""

    commits: int = 0
    returns: int = 0
    duplicates: int = 0
    jobs: int = 0
    refused: int = 0
    pruned: int = 0
    moved_aside: int = 0
    largest_batch: int = 0


class JobFile:
    """
    Opens the file, moves it aside if it is damaged, and keeps its numbers.

    Only the writer's thread uses it while it runs; others read single values.

    @ivar db: the connection; C{None} while there is none.
    @ivar book: what the file says of its streams.
    @ivar last: the last number that was given out in the own stream, as rows have it.
    @ivar derived: the lowest number of a derived record.
    @ivar epoch: how many files were moved aside before this one.
    @ivar inode: the inode of the open file.
    @ivar claims: the account of returns that no job expects.
    @ivar pruned: the time before which jobs were deleted.
    @ivar owed: whether other members may have more of this file's earlier contents.
    @ivar moved: whether a file was moved aside, and the next one has not recorded it yet.
    """

    log = Logger()

    def __init__(
        self,
        path: str,
        node: str,
        now: Callable[[], float],
        claims: Claims,
        counts: Counts,
        on_aside: Callable[[], None],
    ) -> None:
        """
        @param on_aside: called, in the writer's thread, when a file was put aside.
        """
        self.path = path
        self.node = node
        self.claims = claims
        self.db: sqlite3.Connection | None = None
        self.book = Book(0, {}, 0, 0, 0)
        self.last = 0
        self.derived = 0
        self.epoch = 0
        self.inode = 0
        self.pruned = 0
        self.owed = False
        self.moved = False
        self._now = now
        self._counts = counts
        self._on_aside = on_aside

    def open_or_renew(self) -> sqlite3.Connection:
        """
        Open the file; put it aside and begin another one if it is damaged.

        @raises StoreError: when the disk refuses, or a newer saltwisted wrote the file.
        """
        try:
            self.db = self.open()
        except sqlite3.Error as error:
            if not is_corrupt(error):
                raise StoreError(str(error), self.path) from error
            self.move_aside(str(error))
            try:
                self.db = self.open()
            except sqlite3.Error as again:
                raise StoreError(str(again), self.path) from again
        return self.db

    def open(self) -> sqlite3.Connection:
        """
        Open or create the file, and read its facts.

        @raises sqlite3.Error: it is damaged, or the disk refuses.
        """
        db = open_table(self.path)
        try:
            db.execute("BEGIN IMMEDIATE")
            self.inode = os.stat(self.path).st_ino
            book = read_book(db, self.node, self.inode)
            db.execute("COMMIT")
        except BaseException:
            db.close()
            raise
        self.read_facts(db, book)
        return db

    def read_facts(self, db: sqlite3.Connection, book: Book) -> None:
        """Read the facts that are stored besides the rows."""
        self.book = book
        self.last, self.derived = book.last, book.derived
        facts = dict(db.execute("SELECT name, value FROM facts").fetchall())
        self.pruned = facts.get("pruned", 0)
        self.owed = self.moved or bool(facts.get("owed", 0))
        if self.moved:
            db.execute("UPDATE facts SET value = 1 WHERE name = 'owed'")
            self.moved = False

    def move_aside(self, reason: str) -> None:
        """Keep a broken database for somebody who can repair it, and start again."""
        self.epoch += 1
        self.moved = True
        self.claims.forget()
        self._counts.moved_aside += 1
        self._on_aside()
        aside = put_aside(self.path, self._now())
        self.log.critical(
            "{path} is damaged ({reason}): it was moved to {aside}, and a new job cache "
            "was started. Earlier jobs and returns are only in that file.",
            path=self.path,
            reason=reason,
            aside=aside,
        )

    def rollback(self) -> None:
        if self.db is not None:
            try:
                if self.db.in_transaction:
                    self.db.execute("ROLLBACK")
            except sqlite3.Error:
                self.close()

    def close(self) -> None:
        """Close it, whatever it says."""
        db, self.db = self.db, None
        if db is not None:
            with suppress(sqlite3.Error):
                db.close()
