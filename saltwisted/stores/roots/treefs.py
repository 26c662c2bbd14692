"""
File system calls below one directory that cannot be led outside it.

Every name is resolved relative to a directory descriptor, and never through a link: by
C{openat2(RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)} if the kernel has it,
otherwise component by component with C{O_NOFOLLOW}. Only that mechanism takes paths of more than
one component. C{renameat2} and C{syncfs} are called through ctypes.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from saltwisted.domain.roots.entry import split
from saltwisted.domain.roots.guards import TEMPORARY, TRASH
from saltwisted.errors import StoreError
from saltwisted.stores.files import store_error

_libc = ctypes.CDLL(None, use_errno=True)
_RENAME_NOREPLACE = 1
_RENAME_EXCHANGE = 2
_SYS_OPENAT2 = 437
_RESOLVE = 0x08 | 0x04 | 0x02  # beneath, no symlinks, no magic links
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
"""How a file is opened to be read: a link or a pipe is not followed nor waited for."""
CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
"""How a new file is opened: what is there already is not touched."""
_MOST_OPEN = 256
_MOST_INTEGER = (1 << 63) - 1


class _How(ctypes.Structure):
    _fields_ = [
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    ]


def _raise(path: bytes) -> None:
    number = ctypes.get_errno()
    raise OSError(number, os.strerror(number), os.fsdecode(path))


class Identity(NamedTuple):
    """What C{lstat} says about a file, as long as nobody has touched it."""

    mode: int
    size: int
    mtime: int
    ctime: int
    inode: int
    device: int

    @classmethod
    def of(cls, info: os.stat_result) -> Identity:
        """The identity in a C{stat} result."""
        return cls(
            info.st_mode,
            info.st_size,
            info.st_mtime_ns,
            info.st_ctime_ns,
            info.st_ino,
            info.st_dev,
        )


def read_small(folder: int, name: bytes, size: int) -> tuple[bytes, os.stat_result]:
    """
    A file of this size, and the result of C{fstat} after reading. If the file is longer or shorter
    now, the length of the data shows it.

    @raises OSError: it cannot be read.
    """
    fd = os.open(name, READ, dir_fd=folder)
    try:
        return os.read(fd, size + 1), os.fstat(fd)
    finally:
        os.close(fd)


def complete(fd: int, mode: int, mtime: int, sync: bool = False) -> os.stat_result:
    """
    A new file has its content: now time and mode.

    @param sync: make it durable at once.
    """
    os.utime(fd, ns=(mtime, mtime))
    if sync:
        os.fdatasync(fd)
    info = os.fstat(fd)
    if stat.S_IMODE(info.st_mode) != mode:
        # The umask took something away
        os.fchmod(fd, mode)
        info = os.fstat(fd)
    return info


class TreeFs:
    """
    One root directory, held open. Used by one thread at a time.

    @param path: the root itself may be reached through links: its administrator chose it.
    @param trash: a directory outside that replaces C{.saltwisted-trash}, if files can be renamed to
        it from the root.
    @ivar device: the number of its device, which may differ each time it is mounted.
    @ivar volume: the identity that its file system reports (mostly its UUID), which stays the same
        when it is mounted again; without one, the device.
    @raises StoreError: it cannot be opened.
    """

    def __init__(self, path: str, trash: str = "") -> None:
        self.path = path
        self.trash_fd = -1
        try:
            self.fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise store_error(error, path) from error
        info = os.fstat(self.fd)
        self.device, self.inode = info.st_dev, info.st_ino
        self.volume = (os.fstatvfs(self.fd).f_fsid & _MOST_INTEGER) or self.device
        self._open: OrderedDict[bytes, int] = OrderedDict()
        self._has_openat2 = True
        self._has_renameat2 = True
        if trash:
            self._open_trash(trash)

    def _open_trash(self, trash: str) -> None:
        name = TEMPORARY + b"probe-%d" % os.getpid()
        try:
            os.makedirs(trash, mode=0o700, exist_ok=True)
            fd = os.open(trash, _FOLDER)
        except OSError:
            return
        try:
            os.close(os.open(name, CREATE, 0o600, dir_fd=self.fd))
            os.rename(name, name, src_dir_fd=self.fd, dst_dir_fd=fd)
            os.unlink(name, dir_fd=fd)
        except OSError:
            # Another file system, or a bind mount of this one
            with suppress(OSError):
                os.unlink(name, dir_fd=self.fd)
            os.close(fd)
            return
        self.trash_fd = fd

    def close(self) -> None:
        """Close all descriptors."""
        self.forget()
        if self.trash_fd >= 0:
            os.close(self.trash_fd)
            self.trash_fd = -1
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def forget(self) -> None:
        """Close the descriptors of directories: they may have been moved meanwhile."""
        for fd in self._open.values():
            os.close(fd)
        self._open.clear()

    def same_root(self) -> bool:
        """Whether the path still leads to the directory that was opened."""
        try:
            info = os.stat(self.path)
        except OSError:
            return False
        return (info.st_dev, info.st_ino) == (self.device, self.inode)

    # -- directories

    def folder(self, path: bytes) -> int:
        """
        A descriptor of a directory below the root; this object keeps it.

        @raises OSError: it does not exist, is not a directory, or a link is on the way.
        """
        if not path:
            return self.fd
        if path == TRASH and self.trash_fd >= 0:
            return self.trash_fd
        fd = self._open.get(path)
        if fd is not None:
            self._open.move_to_end(path)
            return fd
        fd = self._open_below(path)
        self._open[path] = fd
        if len(self._open) > _MOST_OPEN:
            os.close(self._open.popitem(last=False)[1])
        return fd

    def _open_below(self, path: bytes) -> int:
        if self._has_openat2:
            how = _How(_FOLDER, 0, _RESOLVE)
            while True:
                fd = int(
                    _libc.syscall(
                        _SYS_OPENAT2,
                        self.fd,
                        ctypes.c_char_p(path),
                        ctypes.byref(how),
                        ctypes.sizeof(how),
                    )
                )
                if fd >= 0:
                    return fd
                number = ctypes.get_errno()
                if number == errno.EAGAIN:
                    continue
                if number in (errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.E2BIG):
                    self._has_openat2 = False
                    break
                _raise(path)
        at = os.dup(self.fd)
        try:
            for name in path.split(b"/"):
                if name in (b"", b".", b".."):
                    raise OSError(errno.EXDEV, "points outside the root", os.fsdecode(path))
                below = os.open(name, _FOLDER, dir_fd=at)
                os.close(at)
                at = below
        except OSError:
            os.close(at)
            raise
        return at

    def list(self, path: bytes) -> Iterator[tuple[bytes, os.stat_result]]:
        """
        Name and C{lstat} of the entries of a directory; entries that vanish meanwhile are left out.
        """
        for entry in os.scandir(self.folder(path)):
            try:
                # The name comes as text from a descriptor
                yield os.fsencode(entry.name), entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue

    def folders(self, path: bytes) -> Sequence[bytes]:
        """Names of the directories in a directory."""
        with os.scandir(self.folder(path)) as entries:
            return [os.fsencode(e.name) for e in entries if e.is_dir(follow_symlinks=False)]

    # -- looking

    def lstat(self, path: bytes) -> os.stat_result | None:
        """What is at a path; C{None} for nothing, also when something above is not a directory."""
        head, tail = split(path)
        try:
            return os.stat(tail, dir_fd=self.folder(head), follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EXDEV):
                return None
            raise

    def open(self, path: bytes) -> int:
        """A descriptor to read a file; a link or a pipe is not followed nor waited for."""
        head, tail = split(path)
        return os.open(tail, READ, dir_fd=self.folder(head))

    def readlink(self, path: bytes) -> bytes:
        """The target of a link."""
        head, tail = split(path)
        return os.fsencode(os.readlink(tail, dir_fd=self.folder(head)))

    # -- changing

    def create(self, path: bytes, mode: int = 0o600) -> int:
        """A new file to write, which must not be there; the umask may take of its mode."""
        head, tail = split(path)
        return os.open(tail, CREATE, mode, dir_fd=self.folder(head))

    def mkdir(self, path: bytes, mode: int) -> None:
        """A new directory with exactly this mode."""
        head, tail = split(path)
        os.mkdir(tail, 0o700, dir_fd=self.folder(head))
        self.chmod_folder(path, mode)

    def chmod_folder(self, path: bytes, mode: int) -> None:
        """Change the mode of a directory."""
        os.fchmod(self.folder(path), mode)

    def symlink(self, target: bytes, path: bytes, mtime: int) -> None:
        """A new link with this time."""
        head, tail = split(path)
        fd = self.folder(head)
        os.symlink(target, tail, dir_fd=fd)
        os.utime(tail, ns=(mtime, mtime), dir_fd=fd, follow_symlinks=False)

    def rmdir(self, path: bytes) -> None:
        """Remove an empty directory."""
        if path == TRASH and self.trash_fd >= 0:
            return
        fd = self._open.pop(path, None)
        if fd is not None:
            os.close(fd)
        head, tail = split(path)
        os.rmdir(tail, dir_fd=self.folder(head))

    def unlink(self, path: bytes) -> None:
        """Remove a name."""
        head, tail = split(path)
        os.unlink(tail, dir_fd=self.folder(head))

    def exchange(self, one: bytes, other: bytes) -> bool:
        """Swap two names in one step; false where the file system cannot."""
        return self._rename(one, other, _RENAME_EXCHANGE)

    def rename_new(self, old: bytes, new: bytes) -> None:
        """
        Rename to a name that must be free.

        @raises FileExistsError: it is not.
        """
        if not self._rename(old, new, _RENAME_NOREPLACE):
            # Without the system call: a link first fails if the name is taken
            (old_head, old_tail), (new_head, new_tail) = split(old), split(new)
            info = self.lstat(old)
            if info is not None and stat.S_ISDIR(info.st_mode):
                if self.lstat(new) is not None:
                    raise FileExistsError(errno.EEXIST, "exists", os.fsdecode(new))
                os.rename(
                    old_tail,
                    new_tail,
                    src_dir_fd=self.folder(old_head),
                    dst_dir_fd=self.folder(new_head),
                )
                return
            os.link(
                old_tail,
                new_tail,
                src_dir_fd=self.folder(old_head),
                dst_dir_fd=self.folder(new_head),
                follow_symlinks=False,
            )
            os.unlink(old_tail, dir_fd=self.folder(old_head))

    def _rename(self, old: bytes, new: bytes, flags: int) -> bool:
        if not self._has_renameat2:
            return False
        (old_head, old_tail), (new_head, new_tail) = split(old), split(new)
        done = _libc.renameat2(
            self.folder(old_head),
            ctypes.c_char_p(old_tail),
            self.folder(new_head),
            ctypes.c_char_p(new_tail),
            flags,
        )
        if done == 0:
            return True
        if ctypes.get_errno() in (errno.ENOSYS, errno.EINVAL):
            self._has_renameat2 = False
            return False
        _raise(new)
        return False

    def sync(self) -> None:
        """Make everything on this file system durable."""
        if _libc.syncfs(self.fd) != 0:
            raise StoreError(os.strerror(ctypes.get_errno()), self.path)
