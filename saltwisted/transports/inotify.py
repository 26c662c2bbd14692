"""
Changes in directory trees, as the Linux kernel reports them.

We have our own reader because Twisted's loses events on overflow, when directories are moved in or
renamed, and when a watched directory is deleted. Events only say I{where to look}; C{lstat} says
what is there. After an overflow, or if the kernel has no watches left, the receiver is told to look
everywhere.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Callable, Iterable
from typing import Any

from twisted.logger import Logger

_libc = ctypes.CDLL(None, use_errno=True)

CLOSE_WRITE = 0x8
ATTRIB = 0x4
MOVED_FROM, MOVED_TO = 0x40, 0x80
CREATE, DELETE = 0x100, 0x200
DELETE_SELF, MOVE_SELF = 0x400, 0x800
MODIFY = 0x2
UNMOUNT = 0x2000
OVERFLOW = 0x4000
GONE = 0x8000
IS_DIR = 0x40000000
_ONLYDIR, _DONT_FOLLOW = 0x01000000, 0x02000000
_MASK = (
    MODIFY
    | CLOSE_WRITE
    | ATTRIB
    | MOVED_FROM
    | MOVED_TO
    | CREATE
    | DELETE
    | DELETE_SELF
    | MOVE_SELF
    | _ONLYDIR
    | _DONT_FOLLOW
)
_HEAD = struct.Struct("iIII")
_READ = 64 * 1024
_TURNS = 8


class TreeWatch:
    """
    Watches one directory with everything below it. Reactor thread only.

    @param changed: called with a path below the root, and the event's mask.
    @param lost: called when events were lost: everything has to be scanned.
    @ivar overflows: how often events were lost.
    @ivar complete: false when the kernel's limit left directories unwatched.
    """

    log = Logger()

    def __init__(
        self,
        reactor: Any,
        root: str,
        changed: Callable[[bytes, int], None],
        lost: Callable[[], None],
    ) -> None:
        self._reactor = reactor
        self._root = os.fsencode(root)
        self._changed = changed
        self._lost = lost
        self._fd = -1
        self._paused = False
        self._paths: dict[int, bytes] = {}
        self._numbers: dict[bytes, int] = {}
        self.overflows = 0
        self.complete = True

    def start(self) -> None:
        """
        Begin; directories are added by L{add}.

        @raises OSError: the kernel gives no instance.
        """
        fd = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if fd < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        self._fd = fd
        self._reactor.addReader(self)

    def stop(self) -> None:
        """End."""
        if self._fd >= 0:
            self.pause()
            self._paused = False
            os.close(self._fd)
            self._fd = -1
        self._paths.clear()
        self._numbers.clear()

    def pause(self) -> None:
        """Leave events with the kernel (16 384 by default) until L{resume}, or read by hand."""
        if self._fd >= 0 and not self._paused:
            self._paused = True
            self._reactor.removeReader(self)

    def resume(self) -> None:
        """Take them as they come again."""
        if self._fd >= 0 and self._paused:
            self._paused = False
            self._reactor.addReader(self)

    def add(self, folders: Iterable[bytes]) -> list[bytes]:
        """
        Watch these directories; returns those that were not watched before.

        They have to be listed afterwards, because their present contents cause no event.
        """
        fresh = []
        for folder in folders:
            if folder in self._numbers:
                continue
            full = self._root + b"/" + folder if folder else self._root
            number = _libc.inotify_add_watch(self._fd, ctypes.c_char_p(full), _MASK)
            if number < 0:
                if ctypes.get_errno() == errno.ENOSPC:
                    self.complete = False
                continue
            old = self._paths.get(number)
            if old is not None:
                # The same directory under another name: it has moved
                self._numbers.pop(old, None)
            self._paths[number] = folder
            self._numbers[folder] = number
            fresh.append(folder)
        return fresh

    @property
    def watched(self) -> int:
        """How many directories."""
        return len(self._numbers)

    # -- as a reader of the reactor

    def fileno(self) -> int:
        """The descriptor."""
        return self._fd

    def logPrefix(self) -> str:
        """For the reactor's log."""
        return "inotify"

    def connectionLost(self, reason: Any) -> None:
        """The reactor gave up the descriptor."""

    def doRead(self) -> None:
        """Take what the kernel has, up to a bound per turn."""
        for _ in range(_TURNS):
            if self._fd < 0:
                return
            try:
                data = os.read(self._fd, _READ)
            except BlockingIOError:
                return
            except OSError as error:
                self.log.error("inotify: {error}", error=str(error))
                self._overflow()
                return
            self._events(data)

    def _events(self, data: bytes) -> None:
        at = 0
        while at + _HEAD.size <= len(data):
            number, mask, _, length = _HEAD.unpack_from(data, at)
            at += _HEAD.size
            name = data[at : at + length].rstrip(b"\0")
            at += length
            if mask & OVERFLOW:
                self._overflow()
                continue
            folder = self._paths.get(number)
            if folder is None:
                continue
            if mask & (GONE | UNMOUNT):
                self._drop(number)
                continue
            if mask & (DELETE_SELF | MOVE_SELF):
                if not folder:
                    self._overflow()
                continue
            path = folder + b"/" + name if folder else name
            if mask & IS_DIR and mask & (MOVED_FROM | DELETE):
                self._unwatch(path)
            self._changed(path, mask)

    def _overflow(self) -> None:
        self.overflows += 1
        self._lost()

    def _drop(self, number: int) -> None:
        folder = self._paths.pop(number, None)
        if folder is not None and self._numbers.get(folder) == number:
            del self._numbers[folder]

    def _unwatch(self, top: bytes) -> None:
        """A directory left: its watches would speak of paths that it has no more."""
        inside = top + b"/"
        for folder in [f for f in self._numbers if f == top or f.startswith(inside)]:
            number = self._numbers.pop(folder)
            self._paths.pop(number, None)
            _libc.inotify_rm_watch(self._fd, number)
