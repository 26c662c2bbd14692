"""
Files in directories that belong to somebody else, for commands that run as root.

A daemon's user owns its caches and keys. Where root saves or restores them, that user must not lead
root elsewhere: by a link in the place of a file or of a directory, planted before or swapped in
meanwhile. So each directory is opened in the one before, and no link is followed on the way.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

Made = Callable[[int, str], None]
"""Told of each directory that was made: its descriptor, and its path."""


@contextmanager
def parent(top: str, path: str, made: Made | None = None) -> Iterator[tuple[int, str]]:
    """
    The directory in which C{path} lies, open, and the name of C{path} in it.

    @param top: a directory above, which is found as its path says.
    @param made: directories that are missing are made (0700), also in the place of something that
        is none; without it they are not.
    @raises OSError: there is no such directory: a link is none.
    """
    folders = os.path.relpath(path, top).split(os.sep)
    name = folders.pop()
    if os.pardir in folders or name in (os.curdir, os.pardir):
        raise NotADirectoryError(f"{path} is not below {top}")
    here = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        way = top
        for each in folders:
            way = os.path.join(way, each)
            below = _into(here, way, made)
            os.close(here)
            here = below
        yield here, name
    finally:
        os.close(here)


def _into(here: int, path: str, made: Made | None) -> int:
    name = os.path.basename(path)
    try:
        return os.open(name, _FOLDER, dir_fd=here)
    except OSError:
        if made is None:
            raise
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=here)
    os.mkdir(name, 0o700, dir_fd=here)
    below = os.open(name, _FOLDER, dir_fd=here)
    made(below, path)
    return below


def reading(name: str, folder: int) -> IO[bytes] | None:
    """
    A regular file in an open directory, to be read; C{None} for anything else, links too, and for
    what is not there. Never waits for a pipe.

    @raises OSError: it must not be read.
    """
    try:
        fd = os.open(name, _FILE, dir_fd=folder)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        with suppress(OSError):
            if stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                raise
        return None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        return None
    return os.fdopen(fd, "rb")
