"""
Delayed writes of small files whose newest content is also in memory.

This is for data that can be computed or received again (sessions, cached grains): a crash of the
machine may lose the last moments, a killed process at most the writes that still waited. Several
writes to one path while a thread is busy become one. Keys and returns are not written in this way.
If the disk refuses a write, it is kept, and L{WriteBehind.retry} tries it again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import Lock

from twisted.logger import Logger

from saltwisted.errors import StoreError
from saltwisted.stores import files

_MOST_REFUSED = 64 * 1024 * 1024
"""Bytes that wait for a disk which refuses; beyond that the oldest are given up."""
Background = Callable[[Callable[[], None]], object]


class WriteBehind:
    """
    Writes whole files in a thread, in the order of their first change.

    @param background: runs a blocking call in a thread; C{None} writes at once.
    @param mode: the mode of every file; missing directories are created with 0700.
    @ivar problem: why the last write failed, or C{""}; for the status.
    """

    log = Logger()

    def __init__(self, background: Background | None, mode: int = 0o600) -> None:
        self._background = background
        self._mode = mode
        self._waiting: dict[str, bytes] = {}
        self._lock = Lock()
        self._writing = Lock()
        self._busy = False
        self._refused: dict[str, bytes] = {}
        self._refused_bytes = 0
        self.problem = ""
        self.failed = 0

    def put(self, path: str, data: bytes) -> None:
        """Have C{data} written under C{path} soon. Never raises for the disk."""
        with self._lock:
            self._give_up(path)
            self._waiting[path] = data
        self._start()

    def retry(self) -> None:
        """Try again to write what the disk refused; the owner calls this now and then."""
        with self._lock:
            if not self._refused:
                return
            self._again()
        self._start()

    def _again(self) -> None:
        """Under the lock: what was refused waits again."""
        self._waiting = {**self._refused, **self._waiting}
        self._refused = {}
        self._refused_bytes = 0

    def _give_up(self, path: str) -> bool:
        """Under the lock: forget what was refused for this path."""
        data = self._refused.pop(path, None)
        self._refused_bytes -= len(data or b"")
        return data is not None

    def _start(self) -> None:
        with self._lock:
            start, self._busy = not self._busy, True
        if not start:
            return
        if self._background is None:
            self._work()
        else:
            self._background(self._work)

    def delete(self, path: str) -> bool:
        """
        Remove a file now, and whatever was still to be written to it.

        @return: whether there was a file.
        @raises StoreError: when it is there and cannot be removed.
        """
        with self._writing:
            with self._lock:
                waiting = self._give_up(path)
                waiting = self._waiting.pop(path, None) is not None or waiting
            return files.remove(path) or waiting

    def pending(self, path: str) -> bytes | None:
        """What is still to be written to this path."""
        with self._lock:
            return self._waiting.get(path, self._refused.get(path))

    def flush(self) -> None:
        """Block until everything is written, or was refused."""
        with self._lock:
            self._again()
        while self._one():
            pass

    def _work(self) -> None:
        while True:
            while self._one():
                pass
            with self._lock:
                if not self._waiting:
                    self._busy = False
                    return

    def _one(self) -> bool:
        # Held while writing, so that a delete cannot fall between taking and writing
        with self._writing:
            with self._lock:
                if not self._waiting:
                    return False
                path = next(iter(self._waiting))
                data = self._waiting.pop(path)
            try:
                self._write(path, data)
                if self.problem and not (self._refused or self._waiting):
                    self.problem = ""
                    self.log.info("{path}: the disk takes writes again", path=path)
            except StoreError as error:
                self.failed += 1
                self._keep(path, data)
                known, self.problem = self.problem, str(error)
                if not known:
                    self.log.error("cannot be written to disk: {error}", error=error)
        return True

    def _keep(self, path: str, data: bytes) -> None:
        with self._lock:
            if path in self._waiting:
                return
            self._refused[path] = data
            self._refused_bytes += len(data)
            while self._refused_bytes > _MOST_REFUSED:
                self._give_up(next(iter(self._refused)))

    def _write(self, path: str, data: bytes) -> None:
        try:
            files.write_atomic(path, data, self._mode, sync=False)
        except StoreError:
            if os.path.isdir(os.path.dirname(path)):
                raise
            files.make_dir(os.path.dirname(path))
            files.write_atomic(path, data, self._mode, sync=False)
