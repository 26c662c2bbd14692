"""
Space that is reserved on a disk for the day when it is full.

A daemon that was stopped on a full disk could not start again: its databases need some kilobytes to
be opened at all, before one row is written. So a file of a few mebibytes is beside them. It is
given up if the disk is full at a start, and created again as soon as there is room. When the daemon
stops, space that its databases release goes back into it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from saltwisted.transports.deferreds import let_go

NAME = "saltwisted-reserve"
SIZE = 8 * 1024 * 1024
NEEDED = 1024 * 1024
"""Bytes with which all databases can be opened; with less the reserve is given up."""
LEAST = 64 * 1024
"""What is kept at the stop of a daemon at least, if there is no more."""
PLENTY = 3 * SIZE
"""The reserve is made again where there is this much, so that it is not what fills the disk."""
PERIOD = 30.0
FULL = (errno.ENOSPC, errno.EDQUOT)

RunInPool = Callable[..., Deferred[Any]]


class Reserve:
    """
    The reserves of some directories, one on each disk.

    @ivar problem: the problem with a disk; empty if there is none.
    """

    log = Logger()

    def __init__(self, clock: Any, folders: Sequence[str], run: RunInPool) -> None:
        self._clock = clock
        self._run = run
        disks: dict[int, str] = {}
        for folder in folders:
            disks.setdefault(os.stat(folder).st_dev, f"{folder}/{NAME}")
        self._paths = list(disks.values())
        self._full: set[str] = set()
        self._loop: Any = None

    @property
    def problem(self) -> str:
        """For C{status}."""
        folders = ", ".join(sorted(os.path.dirname(path) for path in self._full))
        return f"the disk of {folders} is full: make room" if self._full else ""

    def open(self) -> None:
        """Give up the reserve where the disk is full; before anything else is opened. Blocks."""
        for path in self._paths:
            if _allocate(f"{path}.new", NEEDED):
                _remove(f"{path}.new")
                continue
            self._full.add(path)
            _remove(path)
            self.log.error(
                "no space is left on the disk of {folder}: this daemon starts on its reserve. "
                "Free some space",
                folder=os.path.dirname(path),
            )

    def startService(self) -> None:
        """Keep some room, now and again later."""
        self._loop = LoopingCall(lambda: Deferred.fromCoroutine(self._look()))
        self._loop.clock = self._clock
        let_go(self._loop.start(PERIOD), self.log, "space on the disk is no longer reserved")

    async def stopService(self) -> None:
        """What the databases have left is kept for the next start."""
        if self._loop is not None:
            self._loop.stop()
            self._loop = None
            await self._run(self._keep_rest)

    async def _look(self) -> None:
        full = await self._run(self._keep)
        for path in self._full - full:
            self.log.info("the disk of {at} has space again", at=os.path.dirname(path))
        self._full = full

    def _keep(self) -> set[str]:
        """Make the reserves that can be made. Blocks; in the pool."""
        full: set[str] = set()
        for path in self._paths:
            if _size(path) >= SIZE:
                continue
            try:
                room = os.statvfs(os.path.dirname(path))
            except OSError:
                continue
            enough = room.f_bavail * room.f_frsize >= PLENTY
            if enough and _allocate(f"{path}.new", SIZE):
                with suppress(OSError):
                    os.replace(f"{path}.new", path)
            elif path in self._full:
                full.add(path)
            _remove(f"{path}.new")
        return full

    def _keep_rest(self) -> None:
        """As much of the reserve as there is room for. Blocks; in the pool."""
        for path in self._paths:
            size = SIZE
            while _size(path) < size and size >= LEAST and not _allocate(path, size):
                size //= 2


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _allocate(path: str, size: int) -> bool:
    """Make a file with that much room; false, and no file, where the disk is full."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        return error.errno not in FULL
    try:
        os.posix_fallocate(fd, 0, size)
    except OSError as error:
        if error.errno in FULL:
            _remove(path)
            return False
    finally:
        os.close(fd)
    return True


def _remove(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)
