"""
Looking at files and directories, and at what is in them. Nothing is changed here.

A part of the module C{file}: it needs nothing of the loader.
"""

from __future__ import annotations

import fnmatch
import glob
import logging
import os
import re
import stat
from collections.abc import Iterator
from typing import Any

from saltwisted.modules import _file_owners, _files
from saltwisted.worker.exceptions import (
    CommandExecutionError,
    SaltInvocationError,
)

log = logging.getLogger(__name__)


def find(path: str, *args: str, **kwargs: Any) -> Any:
    """
    Files below a path (a glob) that fit criteria, and perhaps do something with them.

    name, iname, regex, iregex
        The file's name, as a glob or a regular expression.
    type
        Letters: C{b c d f l p s}.
    owner, group
        Names or ids.
    size
        C{10k}, C{+1m}, C{-5g}: exactly, at least, at most.
    mtime
        C{1d12h}: unchanged for that long; with a minus: changed within it.
    grep
        A regular expression in its content.
    mindepth, maxdepth
        How deep to look.
    print
        What to answer with: C{path name size type mode mtime user group md5}.
    delete, exec
        Remove files of these types; run a command with C{{}} for the path.

    CLI Example::

        salt '*' file.find / type=f name=\\*.bak size=+10m
        salt '*' file.find /var mtime=+30d size=+10m print=path,size,mtime
        salt '*' file.find /var/log name=\\*.[0-9] mtime=+30d size=+10m delete
    """
    from saltwisted.modules import _find

    if "delete" in args:
        kwargs["delete"] = "f"
    elif "print" in args:
        kwargs["print"] = "path"
    try:
        finder = _find.Finder(kwargs)
    except ValueError as error:
        return f"error: {error}"
    return sorted(item for place in glob.glob(_files.expanded(path)) for item in finder.find(place))


def _windows(path: str) -> Iterator[str]:
    """A text file in pieces of 256 KiB, each with what came before but for 32 KiB."""
    step, held = 1 << 15, 1 << 18
    with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
        window = file.read(held)
        if window:
            yield window
        while block := file.read(step):
            window = window[step:] + block
            yield window


def contains(path: str, text: Any) -> bool:
    """
    Whether a text, without the white space around it, is in a file.

    CLI Example::

        salt '*' file.contains /etc/crontab 'mymaintenance.sh'
    """
    path = _files.expanded(path)
    wanted = str(text).strip()
    try:
        return any(wanted in window for window in _windows(path))
    except OSError:
        return False


def contains_regex(path: str, regex: str, lchar: str = "") -> bool:
    """
    Whether a regular expression fits a line of a file, C{lchar} stripped from its left.

    CLI Example::

        salt '*' file.contains_regex /etc/crontab '^\\*'
    """
    pattern = re.compile(regex)
    try:
        with open(
            _files.expanded(path), encoding="utf-8", errors="surrogateescape", newline=""
        ) as lines:
            return any(pattern.search(line.lstrip(lchar) if lchar else line) for line in lines)
    except OSError:
        return False


def contains_glob(path: str, glob_expr: str) -> bool:
    """
    Whether a glob fits the content of a file.

    CLI Example::

        salt '*' file.contains_glob /etc/foobar '*cheese*'
    """
    try:
        return any(fnmatch.fnmatch(window, glob_expr) for window in _windows(_files.expanded(path)))
    except OSError:
        return False


def directory_exists(path: str) -> bool:
    """
    Whether a path is a directory.

    CLI Example::

        salt '*' file.directory_exists /etc
    """
    return os.path.isdir(_files.expanded(path))


def file_exists(path: str) -> bool:
    """
    Whether a path is a file.

    CLI Example::

        salt '*' file.file_exists /etc/passwd
    """
    return os.path.isfile(_files.expanded(path))


def path_exists_glob(path: str) -> bool:
    """
    Whether anything fits a glob.

    CLI Example::

        salt '*' file.path_exists_glob /etc/pam*/pass*
    """
    return bool(glob.glob(_files.expanded(path)))


def is_hardlink(path: str) -> Any:
    """
    Whether a file has more than one name.

    CLI Example::

        salt '*' file.is_hardlink /path/to/link
    """
    found = _file_owners.lstat(path)
    return found and found["st_nlink"] > 1


def is_link(path: str, nostat: bool = False) -> bool:
    """
    Whether a path is a symbolic link; with C{nostat} found by listing its directory.

    CLI Example::

        salt '*' file.is_link /path/to/link
    """
    if nostat:
        with os.scandir(os.path.dirname(path)) as entries:
            return any(entry.path == path and entry.is_symlink() for entry in entries)
    return os.path.islink(_files.expanded(path))


def readlink(path: str, canonicalize: bool = False) -> str:
    """
    What a symbolic link points to; with C{canonicalize} the whole way to its end.

    CLI Example::

        salt '*' file.readlink /path/to/link
    """
    path = os.path.expandvars(_files.expanded(path))
    if not os.path.isabs(path):
        raise SaltInvocationError(f"Path to link must be absolute: {path}")
    if not os.path.islink(path):
        raise SaltInvocationError(f"A valid link was not specified: {path}")
    if canonicalize:
        return os.path.realpath(path)
    try:
        return os.readlink(path)
    except OSError as error:
        raise CommandExecutionError(str(error)) from error


def access(path: str, mode: Any) -> bool:
    """
    Whether this process may use a path: C{f} it is there, C{r} read, C{w} write, C{x} run.

    CLI Example::

        salt '*' file.access /path/to/file w
    """
    path = _files.absolute(path, "Path to link must be absolute.")
    modes = {"f": os.F_OK, "r": os.R_OK, "w": os.W_OK, "x": os.X_OK}
    if mode in modes:
        return os.access(path, modes[mode])
    if mode in modes.values():
        return os.access(path, mode)
    raise SaltInvocationError("Invalid mode specified.")


def read(path: str, binary: bool = False) -> Any:
    """
    The content of a file; as bytes with C{binary}.

    CLI Example::

        salt '*' file.read /path/to/file
    """
    with open(path, "rb") as file:
        data = file.read()
    return data if binary is True else data.decode("utf-8")


def readdir(path: str) -> list[str]:
    """
    The names in a directory, with C{.} and C{..}.

    CLI Example::

        salt '*' file.readdir /path/to/dir/
    """
    path = _files.absolute(path, "Dir path must be absolute.")
    if not os.path.isdir(path):
        raise SaltInvocationError(f"A valid directory was not specified: {path}")
    return [".", "..", *os.listdir(path)]


def statvfs(path: str) -> dict[str, Any]:
    """
    The file system that a path is on, as C{statvfs(3)} gives it.

    CLI Example::

        salt '*' file.statvfs /path/to/file
    """
    path = _files.absolute(path, "File path must be absolute.")
    try:
        found = os.statvfs(path)
    except OSError as error:
        raise CommandExecutionError(f"Could not statvfs '{path}'") from error
    names = "bavail bfree blocks bsize favail ffree files flag frsize namemax"
    return {f"f_{name}": getattr(found, f"f_{name}") for name in names.split()}


def diskusage(path: str) -> int:
    """
    The size in bytes of a file, or of all files below a directory, each counted once.

    CLI Example::

        salt '*' file.diskusage /path/to/check
    """
    if os.path.isfile(path):
        return os.stat(path).st_size
    total = 0
    seen: set[tuple[int, int]] = set()
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                found = os.stat(os.path.join(folder, name))
            except OSError:
                continue
            if (found.st_dev, found.st_ino) not in seen:
                seen.add((found.st_dev, found.st_ino))
                total += found.st_size
    return total


def open_files(by_pid: bool = False) -> dict[Any, list[Any]]:
    """
    The files that processes have open, with their process ids; or the other way round.

    CLI Example::

        salt '*' file.open_files
        salt '*' file.open_files by_pid=True
    """
    files: dict[str, set[int]] = {}
    pids: dict[int, set[str]] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        pid = int(entry)
        names = pids.setdefault(pid, set())
        try:
            links = [f"/proc/{entry}/fd/{name}" for name in os.listdir(f"/proc/{entry}/fd")]
        except OSError:
            continue
        for link_path in [f"/proc/{entry}/exe", *links]:
            try:
                name = os.path.realpath(link_path)
                os.stat(name)
            except OSError:
                continue
            names.add(name)
            files.setdefault(name, set()).add(pid)
    if by_pid:
        return {pid: sorted(found) for pid, found in pids.items()}
    return {name: sorted(found) for name, found in files.items()}


def seek_read(path: str, size: Any, offset: Any) -> bytes:
    """
    Some bytes of a file, from a place on.

    CLI Example::

        salt '*' file.seek_read /path/to/file 4096 0
    """
    with open(_files.expanded(path), "rb", buffering=0) as file:
        file.seek(int(offset))
        return file.read(int(size)) or b""


def get_devmm(name: str) -> tuple[int, int]:
    """
    The major and minor number of a device; zeros for anything else.

    CLI Example::

        salt '*' file.get_devmm /dev/chr
    """
    name = _files.expanded(name)
    if is_chrdev(name) or is_blkdev(name):
        device = os.stat(name).st_rdev
        return os.major(device), os.minor(device)
    return 0, 0


def _mode_of(name: str) -> int:
    try:
        return os.stat(_files.expanded(name)).st_mode
    except FileNotFoundError:
        return 0


def is_chrdev(name: str) -> bool:
    """
    Whether a path is a character device.

    CLI Example::

        salt '*' file.is_chrdev /dev/chr
    """
    return stat.S_ISCHR(_mode_of(name))


def is_blkdev(name: str) -> bool:
    """
    Whether a path is a block device.

    CLI Example::

        salt '*' file.is_blkdev /dev/blk
    """
    return stat.S_ISBLK(_mode_of(name))


def is_fifo(name: str) -> bool:
    """
    Whether a path is a named pipe.

    CLI Example::

        salt '*' file.is_fifo /dev/fifo
    """
    return stat.S_ISFIFO(_mode_of(name))


def pardir() -> str:
    """
    The name of the parent directory.

    CLI Example::

        salt '*' file.pardir
    """
    return os.path.pardir


def normpath(path: str) -> str:
    """
    A path without double slashes, C{.} and C{..}.

    CLI Example::

        salt '*' file.normpath 'a/b/c/..'
    """
    return os.path.normpath(path)


def basename(path: str) -> str:
    """
    The last part of a path.

    CLI Example::

        salt '*' file.basename 'test/test.config'
    """
    return os.path.basename(path)


def dirname(path: str) -> str:
    """
    A path without its last part.

    CLI Example::

        salt '*' file.dirname 'test/path/filename.config'
    """
    return os.path.dirname(path)


def join(*args: str) -> str:
    """
    Parts of a path put together.

    CLI Example::

        salt '*' file.join '/' 'usr' 'local' 'bin'
    """
    return os.path.join(*args)
