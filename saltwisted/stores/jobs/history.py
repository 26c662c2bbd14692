"""
The history of jobs that a takeover has left beside the job cache, imported after the start.

The file is a stream of msgpack rows, each preceded by its length, as L{saltwisted.tools.jobhistory}
writes them. It is deleted when everything in it is on disk. If the master stops before that, the
next start begins again; rows that are there already stay unchanged.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from struct import Struct
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger

from saltwisted.domain.jid import is_jid
from saltwisted.domain.keys import valid_minion_id
from saltwisted.errors import WireError
from saltwisted.parts import IJobStore
from saltwisted.wire.msgpack import unpack_bin
from saltwisted.words import counted

FILE = "history.msgpack"
JOB, RETURN = "job", "return"
MOST_ROWS = 200
MOST_BYTES = 1 << 20
HEAD = Struct(">I")
"""Before each row: its length."""
PAUSE = 0.02
"""Seconds between two slices: the master has minions to serve meanwhile."""

Row = tuple[Any, ...]


class JobHistory:
    """
    Imports one file into one store. Reactor thread only, except for the reading.

    @param run: calls something in a thread.
    @param write_file: writes the file at a path first, if there is a history to be read.
    @ivar jobs: how many jobs have been imported.
    @ivar returns: how many returns have been imported.
    """

    log = Logger()

    def __init__(
        self,
        reactor: Any,
        store: IJobStore,
        folder: str,
        run: Callable[..., Deferred[Any]],
        write_file: Callable[[str], Deferred[Any]] | None = None,
    ) -> None:
        self.path = os.path.join(folder, FILE)
        self.jobs = self.returns = 0
        self._reactor = reactor
        self._store = store
        self._run = run
        self._write_file = write_file
        self._work: Deferred[None] | None = None

    def startService(self) -> None:
        """Begin, if there is something to import; nobody waits for it."""
        if os.path.exists(self.path) or self._write_file is not None:
            self._work = Deferred.fromCoroutine(self._bring_in()).addErrback(self._failed)

    def stopService(self) -> None:
        """Leave the rest for the next start."""
        if self._work is not None:
            self._work.cancel()
            self._work = None

    def _failed(self, failure: Any) -> None:
        self._work = None
        if failure.check(CancelledError):
            return
        self.log.error(
            "{path}: the job history was not imported completely: {error}",
            path=self.path,
            error=failure.getErrorMessage(),
        )

    async def _bring_in(self) -> None:
        if self._write_file is not None:
            await self._write_file(self.path)
        reader = Reader(self.path)
        try:
            while rows := await self._run(reader.rows):
                jobs = [row[1:] for row in rows if row[0] == JOB]
                returns = [row[1:] for row in rows if row[0] == RETURN]
                new_jobs, new_returns = await self._store.bring_in(jobs, returns)
                self.jobs += new_jobs
                self.returns += new_returns
                await self._pause()
        finally:
            reader.close()
        with suppress(FileNotFoundError):
            os.unlink(self.path)
        self._work = None
        self.log.info(
            "imported {jobs} and {returns} of the stock master into the job cache",
            jobs=counted(self.jobs, "job"),
            returns=counted(self.returns, "return"),
        )

    def _pause(self) -> Deferred[None]:
        done: Deferred[None] = Deferred(lambda _: timer.cancel())
        timer = self._reactor.callLater(PAUSE, done.callback, None)
        return done


class Reader:
    """Reads the file in slices. It blocks, and one thread at a time uses it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._stream: Any = None

    def rows(self) -> list[Row]:
        """
        The next rows; none at the end. A truncated last row is left out.

        @raises WireError: the file has another format.
        @raises OSError: it cannot be read.
        """
        if self._stream is None:
            self._stream = open(self._path, "rb")  # noqa: SIM115 - closed by close()
        found: list[Row] = []
        size = 0
        while len(found) < MOST_ROWS and size < MOST_BYTES:
            head = self._stream.read(HEAD.size)
            data = self._stream.read(*HEAD.unpack(head)) if len(head) == HEAD.size else b""
            if not data or len(data) != HEAD.unpack(head)[0]:
                break
            found.append(_checked(unpack_bin(data)))
            size += len(data)
        return found

    def close(self) -> None:
        """Close the file."""
        if self._stream is not None:
            self._stream.close()


def _checked(row: Any) -> Row:
    """
    One row of the right form.

    @raises WireError: it has not.
    """
    kinds: dict[str, Sequence[type]] = {
        JOB: (str, str, float, str, bytes, bytes),
        RETURN: (str, str, str, float, bytes),
    }
    expected = kinds.get(row[0]) if isinstance(row, list) and row else None
    if expected is None or [type(part) for part in row] != list(expected) or not is_jid(row[1]):
        raise WireError("history of jobs")
    if row[0] == RETURN and not valid_minion_id(row[2]):
        raise WireError("history of jobs")
    return tuple(row)
