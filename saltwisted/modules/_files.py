"""
Handling of files that several modules share.

New content always goes to a temporary file with a random name in the target's own
directory and is moved over it, with owner and mode set before the move: a reader sees
the old file or the new one, and never one with wrong permissions.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import stat
import tempfile
import time
import urllib.parse
from contextlib import suppress
from typing import Any

from saltwisted.worker.exceptions import CommandExecutionError, SaltInvocationError

LOCAL_PROTOS = ("", "file")
REMOTE_PROTOS = ("http", "https", "ftp", "swift", "s3")
VALID_PROTOS = ("salt", "file", *REMOTE_PROTOS)
"""Where files may come from, in Salt's order."""

TEMPFILE_PREFIX = "__salt.tmp."

COPIED_AT_ONCE = 1024 * 1024
"""Bytes."""

HASHES = {"sha512": 128, "sha384": 96, "sha256": 64, "sha224": 56, "sha1": 40, "md5": 32}
"""Hash kinds that Salt knows, with the length of their hexadecimal text."""

HASHES_REVMAP = {length: kind for kind, length in HASHES.items()}


def expanded(path: str) -> str:
    """A path with its C{~} replaced by the home directory."""
    return os.path.expanduser(path)


def absolute(path: str, text: str) -> str:
    """
    The same, of a path that has to begin at the root.

    @raises SaltInvocationError: with this text, for one that does not.
    """
    path = expanded(path)
    if not os.path.isabs(path):
        raise SaltInvocationError(text)
    return path


def normalize_mode(mode: Any) -> str | None:
    """C{644}, C{"0o644"} or C{"00644"} as C{"0644"}; C{None} and C{keep} as they are."""
    if mode is None:
        return None
    text = str(mode).replace("0o", "0")
    return text.strip('"').strip("'").lstrip("0").zfill(4)


def mode_text(bits: int) -> str:
    """The permission bits of a C{st_mode} as Salt writes them: C{0644}, C{4755}."""
    return f"{stat.S_IMODE(bits):04o}"


def parse_url(url: str) -> tuple[str, str | None]:
    """The path and environment of C{salt://path?saltenv=env}; another address as it is."""
    if not url.startswith("salt://"):
        return url, None
    rest = url[len("salt://") :]
    path, saltenv = rest, None
    if "?env=" in rest:
        path = rest.split("?env=", 1)[0]
    elif "?saltenv=" in rest:
        path, saltenv = rest.split("?saltenv=", 1)
    return path.lstrip("/"), saltenv


def create_url(path: str, saltenv: str | None = None) -> str:
    """C{salt://path}, with the environment if one is given."""
    query = f"saltenv={saltenv}" if saltenv else ""
    joined = urllib.parse.urlunsplit(("", "", path.replace("\\", "/"), query, ""))
    return f"salt://{joined}"


def split_env(url: str) -> tuple[str, str | None]:
    """An address without its environment, and the environment."""
    if not url.startswith("salt://"):
        return url, None
    path, saltenv = parse_url(url)
    return create_url(path), saltenv


def hidden_credentials(url: str) -> str:
    """An address to show: user and password replaced as Salt does."""
    parts = urllib.parse.urlparse(url)
    if parts.username or parts.password:
        return re.sub(r"://[^/@]*@", "://<redacted>@", url, count=1)
    return url


def digest(path: str, kind: str = "sha256", chunk: int = 1 << 18) -> str:
    """
    The hash of a file's content.

    @raises ValueError: no such hash.
    """
    try:
        summed = hashlib.new(kind)
    except (TypeError, ValueError) as error:
        raise ValueError(f"Invalid hash type: {kind}") from error
    with open(path, "rb") as file:
        while data := file.read(chunk):
            summed.update(data)
    return str(summed.hexdigest())


def mark(path: str) -> None:
    """
    Make an empty file, for our own eyes, unless it is there.

    @raises OSError: it cannot be made.
    """
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


def make_private(folder: str) -> None:
    """
    Make a directory of the cache and its parents, each new one 0700.

    @raises OSError: it cannot be made.
    """
    missing = []
    while folder and not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for path in reversed(missing):
        with suppress(FileExistsError):
            os.mkdir(path, 0o700)


def mkstemp(**kwargs: Any) -> str:
    """The path of a new empty file with a random name, mode 0600."""
    kwargs.setdefault("prefix", TEMPFILE_PREFIX)
    descriptor, path = tempfile.mkstemp(**kwargs)
    os.close(descriptor)
    return str(path)


def temporary_with(data: bytes, **kwargs: Any) -> str:
    """
    The path of a new file with this content and a random name, mode 0600.

    It is written as it is made: ext4 brings a file that is opened again with C{O_TRUNC} to
    the disk at once, and a process that removes it a moment later waits for that.
    """
    kwargs.setdefault("prefix", TEMPFILE_PREFIX)
    descriptor, path = tempfile.mkstemp(**kwargs)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    return str(path)


def write_atomically(path: str, data: bytes, mode: int | None = None) -> None:
    """
    Replace a file's content; its owner stays, and its mode unless one is given.

    A symbolic link stays a link: what it points to is replaced.
    """
    path = os.path.realpath(path)
    temporary = mkstemp(dir=os.path.dirname(path), prefix=f".{os.path.basename(path)}.")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        _adopt(temporary, path, mode)
        os.rename(temporary, path)
    except BaseException:
        safe_remove(temporary)
        raise


def _adopt(temporary: str, path: str, mode: int | None = None) -> None:
    """Give a new file the owner and mode of the one that it will replace."""
    try:
        old = os.stat(path)
    except FileNotFoundError:
        old = None
    if old is not None and (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
        os.chown(temporary, old.st_uid, old.st_gid)
    if mode is not None:
        os.chmod(temporary, mode)
    elif old is not None:
        os.chmod(temporary, stat.S_IMODE(old.st_mode))


def copyfile(source: str, target: str, backup_mode: Any = "", cachedir: str = "") -> None:
    """
    Put a copy of a file in the place of another, whose owner and mode stay.

    @param backup_mode: C{minion} or C{both}: the old content is kept under C{cachedir}.
    @raises OSError: no source, or no directory for the target.
    """
    if not os.path.isfile(source):
        raise OSError(f"[Errno 2] No such file or directory: {source}")
    folder = os.path.dirname(os.path.abspath(target))
    if not os.path.isdir(os.path.dirname(target) or "."):
        raise OSError(f"[Errno 2] No such file or directory: {target}")
    descriptor, temporary = tempfile.mkstemp(prefix=os.path.basename(target), dir=folder)
    try:
        with os.fdopen(descriptor, "wb") as copy, open(source, "rb") as original:
            shutil.copyfileobj(original, copy, COPIED_AT_ONCE)
        if backup_mode in ("minion", "both") and cachedir and os.path.exists(target):
            backup(target, os.path.join(cachedir, "file_backup"))
        _adopt(temporary, target)
        shutil.move(temporary, target)
    except BaseException:
        safe_remove(temporary)
        raise


def backup(path: str, root: str) -> str:
    """Keep a copy below C{root}, named after path and time as C{file.list_backups} reads it."""
    folder, name = os.path.split(path)
    now = time.time()
    stamp = time.strftime("%a_%b_%d_%H:%M:%S_%Y", time.localtime(now))
    stamp = f"{stamp[:-4]}{int(now * 1000000) % 1000000:06d}_{stamp[-4:]}"
    place = os.path.join(root, folder[1:], f"{name}_{stamp}")
    make_private(os.path.dirname(place))
    # The copy of a private file must not be open to others for a moment either.
    descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(path, "rb") as source, os.fdopen(descriptor, "wb") as copy:
        shutil.copyfileobj(source, copy)
        status = os.fstat(source.fileno())
        os.fchown(copy.fileno(), status.st_uid, status.st_gid)
        os.fchmod(copy.fileno(), stat.S_IMODE(status.st_mode))
    return place


def private_directories(path: str) -> None:
    """Make a directory and those above it that are missing, for their owner alone."""
    if not os.path.isdir(path):
        private_directories(os.path.dirname(path))
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            if not os.path.isdir(path):
                raise


def safe_remove(path: str) -> None:
    """Remove a file if it is there."""
    try:
        os.remove(path)
    except OSError:
        pass


def forget_cached(path: str, cachedir: str) -> None:
    """Remove a file that was fetched into the cache; a file that is elsewhere is its owner's."""
    top = os.path.realpath(cachedir)
    if os.path.commonpath([top, os.path.realpath(path)]) == top:
        safe_remove(path)


def remove_tree(path: str) -> None:
    """Remove a file, a link or a whole directory."""
    if os.path.islink(path) or not os.path.isdir(path):
        os.remove(path)
    else:
        shutil.rmtree(path)


def read_error(error: OSError, path: str, ignore: tuple[int, ...] = ()) -> None:
    """
    Say in Salt's words why a file cannot be read.

    @raises CommandExecutionError: always, unless the error's number is ignored.
    """
    if error.errno in ignore:
        return
    if error.errno == errno.ENOENT:
        raise CommandExecutionError(f"{path} does not exist")
    if error.errno == errno.EACCES:
        raise CommandExecutionError(f"Permission denied reading from {path}")
    raise CommandExecutionError(
        f"Error {error.errno} encountered reading from {path}: {error.strerror}"
    )


def is_text(path: str, block: int = 512) -> bool | None:
    """
    Whether the beginning of a file is text, by Salt's rule; C{None} if there is no file.

    A NUL byte is binary, UTF-8 is text, else up to three in ten strange bytes are text.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(block)
    except OSError:
        return None
    if b"\0" in data:
        return False
    if not data:
        return True
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        pass
    else:
        return True
    plain = bytes(range(32, 127)) + b"\n\r\t\b\f"
    return len(data.translate(None, plain)) / len(data) <= 0.30
