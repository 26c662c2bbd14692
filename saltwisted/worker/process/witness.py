"""
Says which site file has ended a command, such as C{salt-call}.

A daemon sees that a worker process has ended, and knows what it executed last. A command has no
daemon, so a separate process waits until it ends. It is started when the first site file is
executed; without site files there is none.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from saltwisted.worker.process import asbefore

_DONE = b"\0"


class Witness:
    """Which site files one command has executed."""

    def __init__(self) -> None:
        self._before: asbefore.AsBefore | None = None
        self._pipe = -1
        asbefore.watching.append(self)

    def begins(self, path: str) -> None:
        """A file of the site's is executed now, or a function of it is called."""
        if self._before is None:
            self._before = asbefore.AsBefore()
            self._pipe = _start()
        self._write(os.fsencode(path) + b"\n")

    def put_back(self) -> None:
        """
        Put back what code of the site's has changed of the process. Of two processes that come
        here, since it has forked, one goes on.
        """
        if self._before is not None:
            self._before.put_back()

    def close(self) -> None:
        """All is done: whatever ends the process now is nobody's fault."""
        self.put_back()
        if self in asbefore.watching:
            asbefore.watching.remove(self)
        if self._pipe >= 0:
            self._write(_DONE)
            with suppress(OSError):
                os.close(self._pipe)
            self._pipe = -1

    def _write(self, data: bytes) -> None:
        # The function may have closed what it did not open
        with suppress(OSError):
            os.write(self._pipe, data)


@contextmanager
def witnessed() -> Iterator[None]:
    """
    Within this block code of the site's runs in a command's process: which file of it ends the
    process is said, and what it changes is put back.
    """
    present = [each for each in asbefore.watching if isinstance(each, Witness)]
    witness = present[0] if present else Witness()
    try:
        yield
    finally:
        witness.put_back()
        if not present:
            witness.close()


def _start() -> int:
    """Start the process that waits; the pipe that it reads."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child:
        os.close(ours)
        os.waitpid(child, 0)
        return theirs
    # Nobody's child: a function that waits for its own children does not meet it
    if os.fork():
        os._exit(0)
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.close(theirs)
        for number in (0, 1):
            os.close(number)
        _watch(ours)
    finally:
        os._exit(0)


def _watch(pipe: int) -> None:
    said = b""
    while not said.endswith(_DONE):
        data = os.read(pipe, 65536)
        if not data:
            path = os.fsdecode(said.splitlines()[-1]) if said else ""
            os.write(2, f"[ERROR   ] {path} has ended this process\n".encode())
            return
        said = (said + data)[-65536:]
