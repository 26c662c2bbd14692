"""
What the parts of the module C{file} share, and what is not a function of it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import struct
from collections.abc import Iterable
from typing import Any

from saltwisted.modules import _files
from saltwisted.worker.exceptions import CommandExecutionError

_FS_IOC_GETFLAGS = 0x80086601
_FS_IOC_SETFLAGS = 0x40086602
FLAGS = {
    "s": 0x1,
    "u": 0x2,
    "S": 0x8,
    "D": 0x10000,
    "i": 0x10,
    "a": 0x20,
    "d": 0x40,
    "A": 0x80,
    "c": 0x4,
    "j": 0x4000,
    "t": 0x8000,
    "T": 0x20000,
    "e": 0x80000,
    "C": 0x800000,
    "P": 0x20000000,
}
"""Letters of C{chattr}, in the order in which C{lsattr} prints them."""


def inode_flags(path: str, change: Any = None) -> int | None:
    """
    The attribute bits of a file, C{None} where its file system has none.

    @param change: called with the bits, gives the new ones.
    @raises OSError: they cannot be changed.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        buffer = bytearray(8)
        try:
            fcntl.ioctl(descriptor, _FS_IOC_GETFLAGS, buffer)
        except OSError as error:
            if change is None and error.errno in (errno.ENOTTY, errno.EOPNOTSUPP, errno.EINVAL):
                return None
            raise
        (bits,) = struct.unpack_from("I", buffer)
        if change is not None:
            struct.pack_into("I", buffer, 0, change(bits))
            fcntl.ioctl(descriptor, _FS_IOC_SETFLAGS, buffer)
        return int(bits)
    finally:
        os.close(descriptor)


def change_attrs(files: Iterable[str], operator: str, attributes: str) -> bool:
    """
    Add or remove attributes of files; answers whether that went.

    @param operator: C{add} or C{remove}.
    """
    mask = 0
    for letter in attributes:
        if letter not in FLAGS:
            return False
        mask |= FLAGS[letter]
    try:
        for path in files:
            if operator == "add":
                inode_flags(path, lambda bits: bits | mask)
            else:
                inode_flags(path, lambda bits: bits & ~mask)
    except OSError:
        return False
    return True


def sed_text(text: str, escape_all: bool = False) -> str:
    # The program gets its expression as one word, so only its own special characters matter.
    text = text.replace("'", "'\"'\"'").replace("/", "\\/")
    if escape_all is True:
        for char in "^.[$()|*+?{":
            text = text.replace(char, "\\" + char)
    return text


def read_text(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
        return file.read()


def keep_copy(path: str, backup: Any) -> None:
    """Put a copy with the same owner and mode beside a file: C{path.bak}."""
    source = os.path.realpath(path)
    temporary = _files.mkstemp(dir=os.path.dirname(source))
    try:
        shutil.copy2(source, temporary)
        status = os.stat(source)
        os.chown(temporary, status.st_uid, status.st_gid)
        os.chmod(temporary, stat.S_IMODE(status.st_mode))
        os.rename(temporary, f"{path}{backup}")
    except OSError as error:
        _files.safe_remove(temporary)
        raise CommandExecutionError(
            f"Unable to copy the file '{path}' to the backup file '{path}{backup}'. "
            f"Exception: {error}"
        ) from error


def put_content(path: str, data: bytes, keep_inode: bool) -> None:
    """Replace the content of a file, in place or in one step."""
    try:
        if keep_inode:
            with open(path, "r+b") as file:
                file.write(data)
                file.truncate()
        else:
            _files.write_atomically(path, data)
    except OSError as error:
        raise CommandExecutionError(f"Unable to write file '{path}'. Exception: {error}") from error


def link_backup(link: str, backup: Any) -> None:
    """The backup of a file that was reached by a link gets a link of its own."""
    target, name = f"{os.readlink(link)}{backup}", f"{link}{backup}"
    try:
        if os.path.lexists(name):
            os.remove(name)
        os.symlink(target, name)
    except OSError as error:
        raise CommandExecutionError(
            f"Unable create backup symlink '{name}'. Target was '{target}'. Exception: {error}"
        ) from error


_BOMS = (
    ("UTF-32-BE", b"\x00\x00\xfe\xff"),
    ("UTF-32-LE", b"\xff\xfe\x00\x00"),
    ("UTF-16-BE", b"\xfe\xff"),
    ("UTF-16-LE", b"\xff\xfe"),
    ("UTF-8", b"\xef\xbb\xbf"),
    ("UTF-7", b"+/v8"),
    ("UTF-7", b"+/v9"),
    ("UTF-7", b"+/v+"),
    ("UTF-7", b"+/v/"),
)


def encoding_of(path: str) -> str | None:
    """What a text file is written in, from its first 2 KiB: a mark, or UTF-8 if it fits."""
    try:
        with open(path, "rb") as file:
            data = file.read(2048)
    except OSError:
        return None
    for name, mark in _BOMS:
        if data.startswith(mark):
            return name
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        # A character that the 2 KiB cut in two is none of the file's faults.
        if error.reason != "unexpected end of data":
            return None
    return "UTF-8"


def copy_tree(source: str, target: str) -> None:
    for folder, _, names in os.walk(source):
        below = os.path.relpath(folder, source)
        place = target if below == "." else os.path.join(target, below)
        os.makedirs(place, exist_ok=True)
        for name in names:
            shutil.copyfile(os.path.join(folder, name), os.path.join(place, name))
