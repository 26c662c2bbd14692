"""
Adding to files, writing them whole, and moving, linking and removing them.

A part of the module C{file}: it needs nothing of the loader.
"""

from __future__ import annotations

import logging
import os
import shutil
import time
from typing import Any

from saltwisted.modules import _files
from saltwisted.worker.exceptions import (
    CommandExecutionError,
    SaltInvocationError,
)

log = logging.getLogger(__name__)


def _lines_given(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    if "args" in kwargs:
        given = kwargs["args"]
        return given if isinstance(given, list) else [given]
    return list(args)


def append(path: str, *args: Any, **kwargs: Any) -> str:
    """
    Add lines at the end of a file.

    CLI Example::

        salt '*' file.append /etc/motd "With all thine offerings" "thou shalt offer salt."
        salt '*' file.append /etc/motd args='cheese=spam'
    """
    path = _files.expanded(path)
    lines = _lines_given(args, kwargs)
    with open(path, "rb+") as file:
        size = file.seek(0, os.SEEK_END)
        data = "".join(f"{text}\n" for text in lines).encode()
        if size:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                data = b"\n" + data
        file.seek(0, os.SEEK_END)
        file.write(data)
    return f'Wrote {len(lines)} lines to "{path}"'


def prepend(path: str, *args: Any, **kwargs: Any) -> str:
    """
    Add lines at the beginning of a file.

    CLI Example::

        salt '*' file.prepend /etc/motd "With all thine offerings" "thou shalt offer salt."
    """
    path = _files.expanded(path)
    lines = _lines_given(args, kwargs)
    try:
        with open(path, "rb") as file:
            rest = file.read()
    except OSError:
        rest = b""
    data = "".join(f"{text}\n" for text in lines).encode() + rest
    if os.path.exists(path):
        _files.write_atomically(path, data)
    else:
        with open(path, "wb") as file:
            file.write(data)
    return f'Prepended {len(lines)} lines to "{path}"'


def write(path: str, *args: Any, **kwargs: Any) -> str:
    """
    Write lines into a file, over what it had.

    CLI Example::

        salt '*' file.write /etc/motd "With all thine offerings" "thou shalt offer salt."
    """
    path = _files.expanded(path)
    lines = _lines_given(args, kwargs)
    with open(path, "wb") as file:
        file.write("".join(f"{text}\n" for text in lines).encode())
    return f'Wrote {len(lines)} lines to "{path}"'


def touch(name: str, atime: Any = None, mtime: Any = None) -> bool:
    """
    Make an empty file if there is none, and set its times (Unix seconds, or now).

    CLI Example::

        salt '*' file.touch /var/log/emptyfile
    """
    name = _files.expanded(name)
    atime = int(atime) if atime and str(atime).isdigit() else atime
    mtime = int(mtime) if mtime and str(mtime).isdigit() else mtime
    try:
        if not os.path.exists(name):
            with open(name, "ab"):
                pass
        if atime is None and mtime is None:
            os.utime(name)
        else:
            now = time.time()
            os.utime(name, (now if atime is None else atime, now if mtime is None else mtime))
    except TypeError as error:
        raise SaltInvocationError("atime and mtime must be integers") from error
    except OSError as error:
        raise CommandExecutionError(error.strerror) from error
    return os.path.exists(name)


def seek_write(path: str, data: Any, offset: Any) -> int:
    """
    Write into a file at a place; answers how many bytes.

    CLI Example::

        salt '*' file.seek_write /path/to/file 'some data' 4096
    """
    raw = data if isinstance(data, bytes) else str(data).encode()
    descriptor = os.open(_files.expanded(path), os.O_WRONLY)
    try:
        os.lseek(descriptor, int(offset), os.SEEK_SET)
        written = os.write(descriptor, raw)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return written


def truncate(path: str, length: Any) -> None:
    """
    Cut a file to a length in bytes.

    CLI Example::

        salt '*' file.truncate /path/to/file 512
    """
    with open(_files.expanded(path), "rb+") as file:
        file.truncate(int(length))


def link(src: str, path: str) -> bool:
    """
    Make a hard link.

    CLI Example::

        salt '*' file.link /path/to/file /path/to/link
    """
    src = _files.absolute(src, "File path must be absolute.")
    try:
        os.link(src, path)
    except OSError as error:
        raise CommandExecutionError(f"Could not create '{path}': {error}") from error
    return True


def symlink(
    src: str, path: str, force: bool = False, atomic: bool = False, follow_symlinks: bool = True
) -> bool:
    """
    Make a symbolic link at C{path} that points to C{src}.

    force
        Over a link or file that is there.
    atomic
        The same in one step, so that there is always something.
    follow_symlinks
        Whether something is there is asked through links.

    CLI Example::

        salt '*' file.symlink /path/to/file /path/to/link
    """
    path = _files.expanded(path)
    exists = os.path.exists if follow_symlinks else os.path.lexists
    if not os.path.isabs(path):
        raise SaltInvocationError(f"Link path must be absolute: {path}")
    if os.path.islink(path):
        try:
            if os.path.normpath(os.readlink(path)) == os.path.normpath(src):
                return True
        except OSError:
            pass
        if not force and not atomic:
            raise CommandExecutionError(f"Found existing symlink: {path}")
    if exists(path) and not force and not atomic:
        raise CommandExecutionError(f"Existing path is not a symlink: {path}")
    if force and not atomic and (os.path.islink(path) or exists(path)):
        os.unlink(path)
    try:
        if atomic:
            temporary = f"{os.path.dirname(path)}/.{os.urandom(8).hex()}"
            os.symlink(src, temporary)
            try:
                os.replace(temporary, path)
            except OSError:
                os.remove(temporary)
                raise
            return True
        os.symlink(src, path)
    except OSError as error:
        raise CommandExecutionError(f"Could not create '{path}'") from error
    return True


def rename(src: str, dst: str) -> bool:
    """
    Rename a file or directory.

    CLI Example::

        salt '*' file.rename /path/to/src /path/to/dst
    """
    src = _files.absolute(src, "File path must be absolute.")
    dst = _files.expanded(dst)
    try:
        os.rename(src, dst)
    except OSError as error:
        raise CommandExecutionError(f"Could not rename '{src}' to '{dst}'") from error
    return True


def move(src: str, dst: str, disallow_copy_and_unlink: bool = False) -> Any:
    """
    Move a file or directory, also to another file system unless that is disallowed.

    CLI Example::

        salt '*' file.move /path/to/src /path/to/dst
    """
    if disallow_copy_and_unlink:
        return rename(src, dst)
    src = _files.absolute(src, "Source path must be absolute.")
    dst = _files.absolute(dst, "Destination path must be absolute.")
    try:
        shutil.move(src, dst)
    except OSError as error:
        raise CommandExecutionError(f"Unable to move '{src}' to '{dst}': {error}") from error
    return {"result": True, "comment": f"'{src}' moved to '{dst}'"}


def rmdir(path: str, recurse: bool = False, verbose: bool = False, older_than: Any = None) -> Any:
    """
    Remove an empty directory; with C{recurse} the empty directories below it too.

    verbose
        Answer with what was removed and what failed.
    older_than
        Only what has not changed for that many days.

    CLI Example::

        salt '*' file.rmdir /tmp/foo/
    """
    path = _files.absolute(path, "File path must be absolute.")
    if not os.path.isdir(path):
        raise SaltInvocationError(f"A valid directory was not specified: {path}")
    limit = 0.0
    if older_than:
        try:
            limit = time.time() - int(older_than) * 86400
        except (TypeError, ValueError):
            log.error("Unable to set 'older_than'. Defaulting to 0 days.")
    deleted: list[str] = []
    errors: list[list[str]] = []

    def remove_one(folder: str) -> bool:
        if limit and os.path.getmtime(folder) >= limit:
            return False
        try:
            os.rmdir(folder)
        except OSError as error:
            errors.append([folder, str(error)])
            log.error("Could not remove '%s': %s", folder, error.strerror)
            return False
        deleted.append(folder)
        return True

    result = False
    if recurse:
        for folder, names, _ in os.walk(path, topdown=False):
            for name in names:
                remove_one(os.path.join(folder, name))
        result = not errors
    if not limit or os.path.getmtime(path) < limit:
        removed = remove_one(path)
        result = removed and (result or not recurse)
    if verbose:
        return {"deleted": deleted, "errors": errors, "result": result}
    return result


def remove(path: str, **kwargs: Any) -> bool:
    """
    Remove a file, a link, or a directory with all in it; false if there is nothing.

    CLI Example::

        salt '*' file.remove /tmp/foo
    """
    path = _files.expanded(path)
    if not os.path.isabs(path):
        raise SaltInvocationError(f"File path must be absolute: {path}")
    try:
        if os.path.islink(path) or (os.path.exists(path) and not os.path.isdir(path)):
            os.remove(path)
            return True
        if os.path.isdir(path):
            shutil.rmtree(path)
            return True
    except OSError as error:
        raise CommandExecutionError(f"Could not remove '{path}': {error}") from error
    return False
