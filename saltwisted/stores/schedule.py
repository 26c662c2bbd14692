"""
What a lone master knows about its schedule besides the configuration: changes, and what has run.

One file, C{cachedir/saltwisted/schedule}, which is always written as a whole: its size depends on
the number of entries, not of runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from saltwisted.domain.masterschedule import IScheduleFacts
from saltwisted.errors import StoreError, WireError
from saltwisted.stores import files
from saltwisted.wire.msgpack import pack_bin, unpack_bin

LARGEST = 1 << 26


class ScheduleFile:
    """Everything is in memory, and on disk before L{put} confirms it."""

    log = Logger()
    alone = True

    def __init__(self, path: str, run: Callable[..., Deferred[Any]]) -> None:
        """
        @param run: calls in a thread.
        """
        self._path = path
        self._run = run
        self._items: dict[str, dict[str, Any]] = {}
        self._durable: dict[str, dict[str, Any]] = {}
        self._writing: Deferred[None] | None = None
        self._again: list[Deferred[None]] = []

    def startService(self) -> None:
        """
        Read the file.

        @raises StoreError: it cannot be read.
        """
        try:
            content = files.read_file(self._path, LARGEST)
        except OSError as error:
            raise files.store_error(error, self._path) from error
        if content is None:
            return
        try:
            self._items = {str(key): dict(body) for key, body in dict(unpack_bin(content)).items()}
            self._durable = dict(self._items)
        except (WireError, ValueError, TypeError) as error:
            self.log.error(
                "{path} is damaged, and changes of the schedule are lost ({error})",
                path=self._path,
                error=error,
            )

    def stopService(self) -> Deferred[Any]:
        """
        Fires when everything that was put is written, or its caller has been told that it is not.
        """
        if self._writing is None:
            return succeed(None)
        last: Deferred[None] = Deferred()
        self._again.append(last)
        return last.addErrback(lambda failure: None)

    def items(self) -> Mapping[str, Mapping[str, Any]]:
        """All that is kept."""
        return self._items

    def put(self, key: str, body: Mapping[str, Any] | None) -> Deferred[None]:
        """Keep it; fires when it is on disk, or fails with L{StoreError}: then it does not hold."""
        if body is None:
            self._items.pop(key, None)
        else:
            self._items[key] = dict(body)
        waiting: Deferred[None] = Deferred()
        self._again.append(waiting)
        if self._writing is None:
            self._write()
        return waiting

    def settled(self) -> Deferred[Sequence[str]]:
        """There is nobody else to inform."""
        return succeed(())

    def listen(self, receiver: Callable[[Sequence[str]], None]) -> None:
        """Nobody else changes anything."""

    def _write(self) -> None:
        """Write what is known now, for all who wait; what comes meanwhile is written next."""
        waiting, self._again = self._again, []
        if not waiting:
            return
        content, written = pack_bin(self._items), dict(self._items)
        self._writing = self._run(files.write_atomic, self._path, content, 0o600)

        def done(result: Any) -> None:
            self._writing = None
            self._durable = written
            self._write()
            for each in waiting:
                each.callback(None)

        def failed(failure: Any) -> None:
            self._writing = None
            failing, self._again = [*waiting, *self._again], []
            self._items = dict(self._durable)
            error = failure.value
            for each in failing:
                if isinstance(error, OSError):
                    error = files.store_error(error, self._path)
                each.errback(error if isinstance(error, StoreError) else failure)

        self._writing.addCallbacks(done, failed)  # type: ignore[unused-awaitable]


_ScheduleFile: type[IScheduleFacts] = ScheduleFile
