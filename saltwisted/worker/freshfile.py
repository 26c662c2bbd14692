"""
Files that the commands and the workers write: completely or not at all, for code that cannot wait.

The temporary name is random and the file is created exclusively. So a user who may also write to
the directory (a service's user where root writes, everybody in C{/tmp}) can neither put a link
there nor know the name in advance. Where the directories above may be somebody else's, too, the
caller opens the last of them (L{saltwisted.worker.beneath}) and hands that in. The daemon writes
through L{saltwisted.stores.files}.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def private(path: str, folder: int | None = None) -> IO[bytes]:
    """A new file, readable for its owner alone; C{folder}: an open directory, which it lies in."""
    return os.fdopen(os.open(path, _FLAGS, 0o600, dir_fd=folder), "w+b")


def beside(path: str) -> str:
    """A name in the same directory that nobody knows before."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name[:100]}.{os.urandom(8).hex()}.new")


@contextmanager
def fresh(
    path: str,
    mode: int = 0o600,
    owner: tuple[int, int] | None = None,
    *,
    sync: bool = True,
    folder: int | None = None,
) -> Iterator[IO[bytes]]:
    """
    A file to write, which takes the place of C{path} when the block ends well.

    What lies there is replaced; a link is not followed.

    @param owner: user and group that it is given.
    @param folder: an open directory, which C{path} is relative to.
    @raises OSError: nothing has changed then.
    """
    temporary = beside(path)
    file = private(temporary, folder)
    try:
        with file:
            yield file
            if owner is not None:
                os.fchown(file.fileno(), *owner)
            os.fchmod(file.fileno(), mode)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        os.rename(temporary, path, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise


def fresh_link(path: str, target: str, folder: int | None = None) -> None:
    """A symbolic link that takes the place of C{path}; C{folder}: as for L{fresh}."""
    temporary = beside(path)
    os.symlink(target, temporary, dir_fd=folder)
    try:
        os.rename(temporary, path, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        os.unlink(temporary, dir_fd=folder)
        raise
