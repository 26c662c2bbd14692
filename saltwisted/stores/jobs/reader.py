"""
Readers of the job cache: their own connections and threads, and the queries.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, fail
from twisted.internet.threads import deferToThreadPool
from twisted.python.threadpool import ThreadPool

from saltwisted.errors import StoreError
from saltwisted.stores.database import connect, damage, is_corrupt
from saltwisted.stores.jobs.file import JobFile
from saltwisted.stores.jobs.listing import Listing, Shown
from saltwisted.stores.jobs.log import JobLog
from saltwisted.stores.jobs.longpacking import unpacked
from saltwisted.stores.jobs.table import SPAN, ids_where, jobs_where, returns_where
from saltwisted.stores.jobs.unfinished import Unfinished, unfinished

T = TypeVar("T")


class JobReader:
    """
    Queries the file in threads, independently of the writer.

    @param reactor: for C{callFromThread}.
    @param met_damage: called with the epoch of a damaged file, and how the damage showed.
    @param met_bad: called with the numbers of rows that are not what was written.
    @ivar is_running: whether it accepts queries.
    """

    def __init__(
        self,
        reactor: Any,
        file: JobFile,
        met_damage: Callable[[int, str], None],
        met_bad: Callable[[Sequence[int]], None],
    ) -> None:
        self.is_running = False
        self._reactor = reactor
        self._file = file
        self._met_damage = met_damage
        self._met_bad = met_bad
        self._threads = ThreadPool(0, 2, "jobs-read")
        self._local = threading.local()
        self._open: list[sqlite3.Connection] = []

    def start(self) -> None:
        """Take questions."""
        self.is_running = True
        self._threads.start()

    def end(self) -> Callable[[], None]:
        """
        Take no more.

        @return: blocks until those that run are answered, and all is closed.
        """
        self.is_running = False

        def wait() -> None:
            self._threads.stop()
            for connection in self._open:
                connection.close()
            self._open.clear()

        return wait

    def read(self, query: Callable[[sqlite3.Connection], T]) -> Deferred[T]:
        """Ask the file something, in a thread."""
        if not self.is_running:
            return fail(StoreError("the job cache is closed", self._file.path))
        d: Deferred[T] = deferToThreadPool(self._reactor, self._threads, self._query, query)
        return d

    def _query(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """In a reader's thread."""
        file = self._file
        try:
            connection = getattr(self._local, "connection", None)
            if connection is None or self._local.epoch != file.epoch:
                connection = connect(file.path, "ro")
                connection.execute("PRAGMA cache_size=-1024")
                self._local.connection = connection
                self._local.epoch = file.epoch
                self._open.append(connection)
            return query(connection)
        except (sqlite3.Error, FileNotFoundError) as error:
            self._local.connection = None
            if isinstance(error, FileNotFoundError) or is_corrupt(error):
                self._reactor.callFromThread(self._met_damage, file.epoch, str(error))
            raise StoreError(str(error), file.path) from error

    def read_rows(self, query: Callable[[sqlite3.Connection, list[int]], T]) -> Deferred[T]:
        """Ask the file for rows that are checked; the query notes the numbers of the bad ones."""
        bad: list[int] = []

        def done(result: T) -> T:
            if bad:
                self._met_bad(bad)
            return result

        return self.read(lambda db: query(db, bad)).addCallback(done)

    def read_anew(self, query: Callable[[sqlite3.Connection], T]) -> Deferred[T]:
        """Ask the file itself, and nothing that was read before; damage is met here, too."""
        file = self._file

        def asked(_: sqlite3.Connection) -> T:
            if os.stat(file.path).st_ino != file.inode:
                raise damage("it is not the file that was opened")
            connection = connect(file.path, "ro")
            try:
                return query(connection)
            finally:
                connection.close()

        return self.read(asked)


class JobQueries:
    """
    What callers may ask about stored jobs and returns.

    @ivar reader: queries the file.
    @ivar replica: knows what other nodes have.
    @ivar listings: by the functions that build lists of jobs.
    """

    reader: JobReader
    replica: JobLog
    listings: dict[Shown, Listing]

    def job(self, jid: str) -> Deferred[Mapping[str, Any] | None]:
        """
        Load, C{jid}, C{minions} and C{started} (seconds since 1970) of one job, or C{None}.

        C{claimed} says that nobody has published it: its record is made of a minion's return.
        """

        def query(db: sqlite3.Connection, bad: list[int]) -> Mapping[str, Any] | None:
            found = jobs_where(db, "jid = ?", (jid,), bad)
            return found[0] if found else None

        return self.reader.read_rows(query)

    def returns(self, jid: str) -> Deferred[Mapping[str, Mapping[str, Any]]]:
        """Minion id to its return (C{return retcode success fun fun_args out? _stamp?})."""

        def query(db: sqlite3.Connection, bad: list[int]) -> Mapping[str, Mapping[str, Any]]:
            rows = returns_where(db, "WHERE jid = ? ORDER BY id", (jid,), bad)
            return {minion_id: unpacked(load) for _, minion_id, load in rows}

        return self.reader.read_rows(query)

    def returned_ids(self, jid: str) -> Deferred[Sequence[str]]:
        """Who has returned, without what."""

        def query(db: sqlite3.Connection) -> Sequence[str]:
            return ids_where(db, "WHERE jid = ? ORDER BY id", (jid,))

        return self.reader.read(query)

    def unfinished(self, since: float) -> Deferred[Sequence[Unfinished]]:
        """
        Jobs that read files and have not returned: jid, record, and the minions that are missing.

        @param since: seconds since 1970; what was published before does not count.
        """
        return self.reader.read_rows(lambda db, bad: unfinished(db, since, bad))

    def one_copy(self, jid: str) -> Deferred[Sequence[str]]:
        """Minions whose return of this job is on this node's disk, and no other node's yet."""
        first = self.replica.streams.own * SPAN
        known = first + self.replica.streams.confirmed

        def query(db: sqlite3.Connection) -> Sequence[str]:
            where = "WHERE jid = ? AND number > ? AND number < ? ORDER BY id"
            return ids_where(db, where, (jid, known, first + SPAN))

        return self.reader.read(query)

    def list_jobs(self, **criteria: Any) -> Deferred[Sequence[Any]]:
        """
        Jobs, newest last, without their minions.

        @param criteria: C{limit} (the newest so many), C{fun} (exact), C{not_fun}, C{since} and
            C{until} (seconds since 1970), C{minions} (true: with them), C{below} (in the order of
            jids, and only those before this one; all, if it is empty), C{shown} (a function of a
            module: its result for each job replaces the job, and is cached).
        """
        known = {"limit", "fun", "not_fun", "since", "until", "minions", "below", "shown"}
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
        if criteria.get("below"):
            where.append("jid < ?")
            values.append(criteria["below"])
        limit = criteria.get("limit")
        values.append(-1 if limit is None else int(limit))
        by_time = criteria.get("below") is None
        order = f"{' AND '.join(where)} ORDER BY {'started DESC, ' * by_time}jid DESC LIMIT ?"
        minions, shown = bool(criteria.get("minions")), criteria.get("shown")
        listing = None if shown is None else self.listings.setdefault(shown, Listing(shown))

        def query(db: sqlite3.Connection, bad: list[int]) -> Sequence[Any]:
            if listing is not None:
                return listing.read(db, order, values, bad)[::-1]
            return jobs_where(db, order, values, bad, minions)[::-1]

        return self.reader.read_rows(query)

    def totals(self) -> Deferred[Mapping[str, int]]:
        """How many jobs and returns are kept."""

        def query(db: sqlite3.Connection) -> Mapping[str, int]:
            jobs, returns = db.execute(
                "SELECT (SELECT count(*) FROM jobs), (SELECT count(*) FROM returns)"
            ).fetchone()
            return {"jobs": jobs, "returns": returns}

        return self.reader.read(query)
