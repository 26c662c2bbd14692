"""
Files: opened, looked at, removed.
"""

from __future__ import annotations

import asyncio
import codecs
import errno
import fcntl
import os
import re
import shutil
import sys
import tempfile
import time
import urllib.parse
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import IO, Any

from attrs import frozen

from saltwisted.modules import _files
from saltwisted.utils._own import own
from saltwisted.worker import renderfilters
from saltwisted.worker.exceptions import CommandExecutionError, FileLockError

backup_minion = own(__name__, _files.backup)
copyfile = own(__name__, _files.copyfile)
is_text = own(__name__, renderfilters.is_text_file)
is_binary = own(__name__, renderfilters.is_bin_file)
is_empty = own(__name__, renderfilters.is_empty)
list_files = own(__name__, renderfilters.list_files)
normalize_mode = own(__name__, _files.normalize_mode)
safe_rm = own(__name__, _files.safe_remove)

_UNITS = "KMGTP"
TEMPFILE_PREFIX = "__salt.tmp."
LOCAL_PROTOS = ("", "file")
REMOTE_PROTOS = ("http", "https", "ftp", "swift", "s3")
VALID_PROTOS = ("salt", "file", *REMOTE_PROTOS)
HASHES = {"sha512": 128, "sha384": 96, "sha256": 64, "sha224": 56, "sha1": 40, "md5": 32}
HASHES_REVMAP = {digits: name for name, digits in HASHES.items()}
_MARKS = (
    # A mark of UTF-16 begins one of UTF-32
    ("UTF-32-BE", codecs.BOM_UTF32_BE),
    ("UTF-32-LE", codecs.BOM_UTF32_LE),
    ("UTF-16-BE", codecs.BOM_UTF16_BE),
    ("UTF-16-LE", codecs.BOM_UTF16_LE),
    ("UTF-8", codecs.BOM_UTF8),
    *(("UTF-7", b"+/v" + digit) for digit in (b"8", b"9", b"+", b"/")),
)


def fopen(*args: Any, **kwargs: Any) -> IO[Any]:
    """
    A file, as C{open} opens it; text is UTF-8, and its ends of lines stay as they are.

    @param kwargs: C{binary}: without decoding, whatever the mode says.
    """
    if args and args[0] in (0, 1, 2):
        raise TypeError(f"{args[0]} is not a permitted file descriptor")
    mode = str(args[1] if len(args) > 1 else kwargs.pop("mode", "r"))
    if kwargs.pop("binary", None) and "b" not in mode:
        mode = mode.replace("t", "") + "b"
    if "b" not in mode:
        kwargs.setdefault("encoding", "utf-8")
        kwargs["newline"] = kwargs.get("newline") or ""
    if len(args) > 2:
        kwargs["buffering"] = args[2]
    file: IO[Any] = open(args[0], mode, **kwargs)  # noqa: SIM115 - the caller closes it
    return file


@contextmanager
def flopen(*args: Any, **kwargs: Any) -> Iterator[IO[Any]]:
    """A file that is locked while it is open."""
    with fopen(*args, **kwargs) as file:
        fcntl.flock(file.fileno(), fcntl.LOCK_SH)
        try:
            yield file
        finally:
            fcntl.flock(file.fileno(), fcntl.LOCK_UN)


@contextmanager
def fpopen(*args: Any, **kwargs: Any) -> Iterator[IO[Any]]:
    """
    A file that is open, with C{uid}, C{gid} and C{mode} (a number) set if they are given.
    """
    uid, gid, mode = kwargs.pop("uid", -1), kwargs.pop("gid", -1), kwargs.pop("mode", None)
    with fopen(*args, **kwargs) as file:
        if (uid, gid) != (-1, -1):
            os.chown(args[0], uid, gid)
        if mode is not None:
            os.chmod(args[0], mode)
        yield file


@frozen(kw_only=True)
class _Lock:
    """
    A lock that is a file: it is held while the file is there.

    @ivar name: the file.
    @ivar start: since when somebody waits for it, seconds since 1970.
    @ivar timeout: seconds after which that is given up.
    """

    name: str
    start: float
    timeout: float

    def look(self) -> None:
        """
        See that it can be a lock.

        @raises FileLockError: it cannot.
        """
        if os.path.exists(self.name) and not os.path.isfile(self.name):
            raise self.error(f"lock_fn {self.name} exists and is not a file")

    def take(self) -> bool:
        """
        Whether it is ours now; somebody else has it if not.

        @raises FileLockError: there is no more time to wait, or the file cannot be made.
        """
        if time.time() - self.start >= self.timeout:
            raise self.error(
                f"Timeout of {self.timeout} seconds exceeded waiting for lock_fn {self.name}"
                " to be released"
            )
        try:
            os.close(os.open(self.name, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            return False
        except OSError as error:
            raise self.error(
                f"Error {error.errno} encountered obtaining file lock {self.name}: {error.strerror}"
            ) from error
        return True

    def error(self, words: str) -> FileLockError:
        """The error that says why it is not to be had."""
        return FileLockError(words, time_start=self.start)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Give it back in the end; whatever goes wrong meanwhile is an error of the lock."""
        try:
            yield
        except FileLockError:
            raise
        except Exception as error:
            raise self.error(
                f"Error encountered obtaining file lock {self.name}: {error}"
            ) from error
        finally:
            os.remove(self.name)


def _lock(path: Any, lock_fn: str | None, timeout: float, start: float | None) -> _Lock:
    if not isinstance(path, str):
        raise FileLockError("path must be a string")
    lock = _Lock(
        name=path + ".w" if lock_fn is None else lock_fn,
        start=time.time() if start is None else start,
        timeout=timeout,
    )
    lock.look()
    return lock


@contextmanager
def wait_lock(
    path: str,
    lock_fn: str | None = None,
    timeout: float = 5,
    sleep: float = 0.1,
    time_start: float | None = None,
) -> Iterator[None]:
    """
    Hold a lock that is the file C{path.w}, once nobody else does.

    @param lock_fn: another name for that file.
    @param timeout: seconds to wait, from C{time_start} on if that is given.
    @raises FileLockError: it was not to be had; also for what goes wrong while it is held.
    """
    lock = _lock(path, lock_fn, timeout, time_start)
    while not lock.take():
        time.sleep(sleep)
    with lock.held():
        yield


@asynccontextmanager
async def await_lock(
    path: str,
    lock_fn: str | None = None,
    timeout: float = 5,
    sleep: float = 0.1,
    time_start: float | None = None,
) -> AsyncIterator[None]:
    """The same lock, for C{async with}: others of an C{asyncio} loop go on while it waits."""
    lock = _lock(path, lock_fn, timeout, time_start)
    while not lock.take():  # noqa: ASYNC110 - the other holder may be another process
        await asyncio.sleep(sleep)
    with lock.held():
        yield


@contextmanager
def set_umask(mask: int | None) -> Iterator[None]:
    """Another umask for a while; C{None} for none."""
    if mask is None:
        yield
        return
    old = os.umask(mask)
    try:
        yield
    finally:
        os.umask(old)


def get_umask() -> int:
    """The umask of this process."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def mkstemp(*args: Any, **kwargs: Any) -> Any:
    """A new file that nobody else may read: its path, or with C{close_fd=False} its number too."""
    kwargs.setdefault("prefix", TEMPFILE_PREFIX)
    close = kwargs.pop("close_fd", True)
    number, path = tempfile.mkstemp(*args, **kwargs)
    if not close:
        return number, path
    os.close(number)
    return path


def remove(path: str) -> None:
    """Remove a file; that there is none is all right."""
    try:
        os.remove(path)
    except FileNotFoundError:
        pass


def rename(src: str, dst: str) -> None:
    """Rename a file over another."""
    os.rename(src, dst)


def rm_rf(path: str) -> None:
    """Remove a file, or a directory with all that is in it."""
    if os.path.islink(path) or not os.path.isdir(path):
        os.remove(path)
    else:
        shutil.rmtree(path)


def safe_filename_leaf(file_basename: str) -> str:
    """A name without the signs that no file of any system may have; they are quoted."""
    return re.sub(
        '[\\\\:/*?"<>|]', lambda found: urllib.parse.quote(found[0], safe=""), file_basename
    )


def safe_filepath(file_path_name: str, dir_sep: str | None = None) -> str:
    """The same for each part of a path."""
    sep = dir_sep or os.sep
    return sep.join(safe_filename_leaf(part) for part in file_path_name.split(sep))


def st_mode_to_octal(mode: Any) -> str:
    """The last four digits of a mode."""
    try:
        return oct(mode)[-4:]
    except TypeError:
        return ""


def human_size_to_bytes(human_size: Any) -> int:
    """Bytes of a size such as C{10M}."""
    found = re.match(r"^(\d+)([KMGTP])?$", str(human_size))
    if not found:
        raise ValueError("Size must be all digits, with an optional unit type (K, M, G, T, or P)")
    power = _UNITS.index(found[2]) + 1 if found[2] else 0
    return int(int(found[1]) * 1024**power)


def is_fcntl_available(check_sunos: bool = False) -> bool:
    """Whether files can be locked."""
    return True


def guess_archive_type(name: str) -> str | None:
    """What kind of archive a name's ending says; C{None}: none that is known."""
    lower = name.lower()
    for kind in ("zip", "rar"):
        if lower.endswith(f".{kind}"):
            return kind
    return "tar" if _TAR.search(lower) else None


_TAR = re.compile(r"\.(?:tar(?:\.(?:gz|bz2|xz|lzma))?|tgz|tbz2?|txz|tlz)$")


def process_read_exception(exc: OSError, path: str, ignore: Any = None) -> None:
    """
    Say why a file cannot be read.

    @param ignore: an error number, or several, of which nothing is said.
    @raises CommandExecutionError: with the sentence.
    """
    if exc.errno in ((ignore,) if isinstance(ignore, int) else ignore or ()):
        return
    if exc.errno == errno.ENOENT:
        raise CommandExecutionError(f"{path} does not exist")
    if exc.errno == errno.EACCES:
        raise CommandExecutionError(f"Permission denied reading from {path}")
    raise CommandExecutionError(
        f"Error {exc.errno} encountered reading from {path}: {exc.strerror}"
    )


def recursive_copy(source: str, dest: str) -> None:
    """Copy the files of a directory into another one; what else is there stays."""
    for folder, _, names in os.walk(source):
        target = os.path.join(dest, os.path.relpath(folder, source))
        os.makedirs(target, exist_ok=True)
        for name in names:
            shutil.copyfile(os.path.join(folder, name), os.path.join(target, name))


def safe_walk(
    top: str,
    topdown: bool = True,
    onerror: Callable[[OSError], Any] | None = None,
    followlinks: bool = True,
    _seen: set[tuple[int, int]] | None = None,
) -> Iterator[tuple[str, list[str], list[str]]]:
    """
    As C{os.walk}; links to directories are followed, and no directory is walked twice.

    @param onerror: is called with the error of a directory that cannot be read.
    """
    seen = set() if _seen is None else _seen
    try:
        names = os.listdir(top)
    except OSError as error:
        if onerror is not None:
            onerror(error)
        return
    if followlinks:
        status = os.stat(top)
        # Some file systems number no files
        if status.st_ino:
            if (status.st_dev, status.st_ino) in seen:
                return
            seen.add((status.st_dev, status.st_ino))
    folders: list[str] = []
    others: list[str] = []
    for name in names:
        (folders if os.path.isdir(os.path.join(top, name)) else others).append(name)
    if topdown:
        yield top, folders, others
    for name in folders:
        path = os.path.join(top, name)
        if followlinks or not os.path.islink(path):
            yield from safe_walk(path, topdown, onerror, followlinks, seen)
    if not topdown:
        yield top, folders, others


def case_insensitive_filesystem(path: str | None = None) -> bool:
    """Whether a directory, by default that of temporary files, has one file for C{A} and C{a}."""
    with tempfile.NamedTemporaryFile(prefix="TmP", dir=path) as file:
        return os.path.exists(file.name.lower())


def get_encoding(path: str) -> str:
    """
    The encoding of a file, by its mark or its first 2048 bytes.

    @raises CommandExecutionError: it is no file, or in none that is known here.
    """
    if not os.path.isfile(path):
        raise CommandExecutionError("Not a file")
    try:
        with open(path, "rb") as file:
            data = file.read(2048)
    except OSError:
        raise CommandExecutionError("Failed to open file") from None
    for name, mark in _MARKS:
        if data.startswith(mark):
            return name
    for name in ("UTF-8", sys.getdefaultencoding()):
        try:
            data.decode(name)
        except UnicodeDecodeError:
            continue
        return name
    raise CommandExecutionError("Could not detect file encoding")
