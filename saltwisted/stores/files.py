"""
Writing files completely or not at all, with explicit modes, and only inside their directory.

Everything here blocks: call it in the pool, or inline for a tiny file without C{sync}. A full,
read-only or broken disk raises a L{StoreError} that names the path, and the old file stays
unchanged. This module does not know the meaning of any file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress

from saltwisted.errors import StoreError

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_AT_ONCE = 64
"""Files that are open at a time while they are made durable."""


def store_error(error: OSError, path: str) -> StoreError:
    """The L{StoreError} for a system error."""
    return StoreError(error.strerror or str(error), path)


def make_dir(path: str, mode: int = 0o700) -> None:
    """
    Make a directory and its parents, those that are new with exactly C{mode}.

    A directory that is there keeps its mode.
    """
    try:
        missing: list[str] = []
        probe = path
        while probe and not os.path.isdir(probe):
            missing.append(probe)
            parent = os.path.dirname(probe)
            if parent == probe:
                break
            probe = parent
        for name in reversed(missing):
            with suppress(FileExistsError):
                os.mkdir(name, 0o700)
                if mode != 0o700:
                    os.chmod(name, mode)  # mkdir obeys the umask, chmod does not
                elif stat.S_IMODE(os.stat(name).st_mode) != mode:
                    os.chmod(name, mode)
    except OSError as error:
        raise store_error(error, path) from error
    if not os.path.isdir(path):
        raise StoreError("exists and is not a directory", path)


def sync_dir(path: str) -> None:
    """Make the names in a directory durable."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        raise store_error(error, path) from error


def sync_dirs(paths: Iterable[str]) -> None:
    """Make the names in these directories durable; one that is gone, or refuses, is left out."""
    for path in paths:
        with suppress(StoreError):
            sync_dir(path)


def sync_files(paths: Iterable[str]) -> None:
    """
    Make the content of small files durable; one that is gone again needs no syncing.

    Of each L{_AT_ONCE} files all are begun to be written before the first is waited for: what the
    file system has to commit for them is then one commit, and not one for each.
    """
    rest = list(paths)
    while rest:
        some, rest = rest[:_AT_ONCE], rest[_AT_ONCE:]
        opened: list[int] = []
        try:
            for path in some:
                with suppress(OSError):
                    fd = os.open(path, _READ)
                    opened.append(fd)
                    # Linux begins to write what is dirty, and does not wait
                    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            for fd in opened:
                with suppress(OSError):
                    os.fsync(fd)
        finally:
            for fd in opened:
                os.close(fd)


def write_atomic(
    path: str, data: bytes | memoryview, mode: int = 0o600, *, sync: bool = True
) -> None:
    """
    Put C{data} under C{path} so that every reader sees the old file or the new one.

    The bytes go to a random name in the same directory, which is opened with
    C{O_EXCL} (nobody can plant a link), and that is renamed. The mode is set
    whatever the umask says.

    @param sync: wait until file and name are on the disk. Without it a killed
        process loses nothing, a power failure may.
    @raises StoreError: nothing has changed then.
    """
    folder = os.path.dirname(path) or "."
    temporary = f"{folder}/.tmp-{os.urandom(8).hex()}"
    fd = -1
    try:
        fd = os.open(temporary, _CREATE, 0o600)
        os.fchmod(fd, mode)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(fd, rest) :]
        if sync:
            os.fsync(fd)
        os.close(fd)
        fd = -1
        os.rename(temporary, path)
    except OSError as error:
        if fd >= 0:
            with suppress(OSError):
                os.close(fd)
        with suppress(OSError):
            os.unlink(temporary)
        raise store_error(error, path) from error
    if sync:
        sync_dir(folder)


def read_file(path: str, limit: int = 1 << 30) -> bytes | None:
    """
    The contents of a regular file, or C{None} if it does not exist.

    A pipe, a device or a directory is refused without blocking on it.

    @param limit: the largest size, in bytes, that is read into memory.
    @raises StoreError: it cannot be read, is too large, or is not a regular file.
    """
    try:
        fd = os.open(path, _READ)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise store_error(error, path) from error
    try:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            raise StoreError("is not a regular file", path)
        if info.st_size > limit:
            raise StoreError(f"is larger than {limit} bytes", path)
        pieces = []
        size = 0
        while piece := os.read(fd, max(info.st_size - size, 0) + 1):
            size += len(piece)
            if size > limit:
                raise StoreError(f"is larger than {limit} bytes", path)
            pieces.append(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)
    except OSError as error:
        raise store_error(error, path) from error
    finally:
        os.close(fd)


def remove(path: str, *, sync: bool = False) -> bool:
    """Remove a file; false if there was none."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise store_error(error, path) from error
    if sync:
        sync_dir(os.path.dirname(path) or ".")
    return True


def sweep_temporary(folder: str) -> int:
    """Remove what writes that were killed half-way left in a directory; returns how many."""
    count = 0
    try:
        names = os.listdir(folder)
    except OSError:
        return 0
    for name in names:
        if name.startswith(".tmp-") and len(name) == 21:
            with suppress(OSError):
                os.unlink(f"{folder}/{name}")
                count += 1
    return count
