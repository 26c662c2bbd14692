"""
Small files that are made durable in groups, shortly after they were written.

A rename makes a file complete whenever the process is killed, but it is not yet safe from a power
failure. A thread makes durable everything that arrived meanwhile. It starts to write every file of
a group before it waits for the first, so the file system commits once for all of them; and it makes
each directory durable once for all names in it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock

from saltwisted.stores import files

Background = Callable[[Callable[[], None]], object]


class Durable:
    """
    Records which files were written, and makes them durable.

    @param background: runs a blocking call in a thread; one runs at a time, until nothing is left.
    """

    def __init__(self, background: Background) -> None:
        self._background = background
        self._files: set[str] = set()
        self._folders: set[str] = set()
        self._lock = Lock()
        self._working = Lock()
        self._busy = False
        self._groups = 0

    def wrote(self, path: str) -> None:
        """A file has got this name just now."""
        with self._lock:
            self._files.add(path)
        self._start()

    def removed(self, folder: str) -> None:
        """A name has gone from this directory just now."""
        with self._lock:
            self._folders.add(folder)
        self._start()

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is written in here is one group: the thread begins with it at the end."""
        self._groups += 1
        try:
            yield
        finally:
            self._groups -= 1
            self._start()

    def _start(self) -> None:
        if self._groups:
            return
        with self._lock:
            if self._busy or not (self._files or self._folders):
                return
            self._busy = True
        self._background(self._work)

    def _work(self) -> None:
        """In a thread: until nothing is left."""
        while True:
            self.flush()
            with self._lock:
                if not (self._files or self._folders):
                    self._busy = False
                    return

    def flush(self) -> None:
        """Block until everything that was written so far is durable; in any thread."""
        # Not before the thread has done what it has taken
        with self._working:
            while self._one():
                pass

    def _one(self) -> bool:
        with self._lock:
            paths, self._files = self._files, set()
            folders, self._folders = self._folders, set()
        files.sync_files(paths)
        files.sync_dirs(folders | {os.path.dirname(path) for path in paths})
        return bool(paths or folders)
