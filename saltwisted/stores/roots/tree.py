"""
Walking and reading served directories: what blocks, and so is called in the pool.

Every function touches nothing but its arguments. Which files may be served at
all is decided in L{saltwisted.stores.roots.served}.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Mapping

from attrs import frozen

from saltwisted.errors import StoreError
from saltwisted.stores.files import store_error

INLINE = 64 * 1024
"""Bytes that are read or hashed in the reactor thread; more goes to the pool."""

OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
PIECE = 1024 * 1024
NOWAIT = getattr(os, "RWF_NOWAIT", 0)
YOUNG = 2.0
"""Seconds for which a change may leave no trace in a time stamp of the one before."""


@frozen
class Listing:
    """One environment: sorted relative paths, and links with their targets."""

    files: tuple[str, ...] = ()
    dirs: tuple[str, ...] = ()
    empty_dirs: tuple[str, ...] = ()
    links: Mapping[str, str] = {}


def both(one: Listing, other: Listing) -> Listing:
    """What is in either; a link of both is that of the first."""
    return Listing(
        tuple(sorted({*one.files, *other.files})),
        tuple(sorted({*one.dirs, *other.dirs})),
        tuple(sorted({*one.empty_dirs, *other.empty_dirs})),
        dict(sorted({**other.links, **one.links}.items())),
    )


def read_now(fd: int, start: int, length: int) -> bytes | None:
    """Read what the page cache has; C{None} if that is not all."""
    if length > INLINE and not NOWAIT:
        return None
    try:
        if not NOWAIT:
            data = os.pread(fd, length, start)
            return data if len(data) == length else None
        buffer = bytearray(length)
        count = os.preadv(fd, [buffer], start, NOWAIT)
    except BlockingIOError:
        return None
    except OSError:
        # This file system cannot say whether it would wait
        return os.pread(fd, length, start) if length <= INLINE else None
    return bytes(buffer) if count == length else None


def read_file(path: str, identity: tuple[int, int], start: int, length: int) -> bytes:
    try:
        fd = os.open(path, OPEN)
        try:
            info = os.fstat(fd)
            if (info.st_dev, info.st_ino) != identity:
                raise StoreError("was replaced while it was read", path)
            pieces = []
            while length > 0:
                piece = os.pread(fd, length, start)
                if not piece:
                    break
                pieces.append(piece)
                start += len(piece)
                length -= len(piece)
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)
        finally:
            os.close(fd)
    except OSError as error:
        raise store_error(error, path) from error


def hash_file(path: str, hash_type: str) -> str:
    """Bounded memory, and no GIL while it hashes."""
    try:
        digest = hashlib.new(hash_type, usedforsecurity=False)
        fd = os.open(path, OPEN)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise StoreError("is no longer a regular file", path)
            while piece := os.read(fd, PIECE):
                digest.update(piece)
        finally:
            os.close(fd)
    except OSError as error:
        raise store_error(error, path) from error
    return digest.hexdigest()


def unchanged(folders: Mapping[str, int]) -> bool:
    try:
        return all(os.stat(path).st_mtime_ns == mtime for path, mtime in folders.items())
    except OSError:
        return False


def revisit(
    listing: Listing,
    folders: dict[str, int],
    roots: tuple[str, ...],
    follow: bool,
    ignore_links: bool,
    ignored: Callable[[str], bool],
    now: float,
) -> tuple[Listing, dict[str, int]]:
    if folders and unchanged(folders):
        return listing, folders
    return list_roots(roots, follow, ignore_links, ignored, now)


def list_roots(
    roots: tuple[str, ...],
    follow: bool,
    ignore_links: bool,
    ignored: Callable[[str], bool],
    now: float,
) -> tuple[Listing, dict[str, int]]:
    """
    Walk the roots of one environment.

    Names as in Salt: links to directories count as directories, anything else that
    is not a directory as a file, whatever it is; a link is listed as such if it points
    inside its root (or, when links are not followed, in any case).

    @return: the listing, and every directory that was read with its mtime.
    """
    files: set[str] = set()
    dirs: set[str] = set()
    empty: set[str] = set()
    links: dict[str, str] = {}
    folders: dict[str, int] = {}
    for root in roots:
        real_root = os.path.realpath(root)
        # Each with the identities of the directories above it: a link to one of those would
        # never end
        waiting: list[tuple[str, str, tuple[tuple[int, int], ...]]] = [(root, "", ())]
        while waiting:
            folder, below, above = waiting.pop()
            try:
                info = os.stat(folder)
                # Before reading, so that a change while reading is seen at the next look; and
                # another within one tick of the clock would leave no trace
                young = now - info.st_mtime_ns / 1e9 < YOUNG
                folders[folder] = -1 if young else info.st_mtime_ns
                entries = list(os.scandir(folder))
            except OSError:
                if folder == root:
                    folders[os.path.dirname(folder)] = _mtime(os.path.dirname(folder))
                    folders.pop(folder, None)
                continue
            identity = (info.st_dev, info.st_ino)
            if identity in above:
                continue
            here = (*above, identity)
            if below and not entries:
                empty.add(below)
            for entry in entries:
                rel = f"{below}/{entry.name}" if below else entry.name
                is_link = entry.is_symlink()
                is_dir = _is_dir(entry)
                if is_dir and (follow or not is_link):
                    waiting.append((entry.path, rel, here))
                if (is_link and ignore_links) or ignored(rel):
                    continue
                (dirs if is_dir else files).add(rel)
                if is_link:
                    target = _target(entry.path)
                    if not follow or _inside(entry.path, target, real_root):
                        links[rel] = target
                    if is_dir and not follow and _is_empty(entry.path):
                        empty.add(rel)
    shown = frozenset(dirs)
    return (
        Listing(
            tuple(sorted(files)),
            tuple(sorted(dirs)),
            tuple(sorted(empty & shown)),
            dict(sorted(links.items())),
        ),
        folders,
    )


def _mtime(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return -1


def _is_dir(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _is_empty(path: str) -> bool:
    try:
        return not os.listdir(path)
    except OSError:
        return False


def _target(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _inside(path: str, target: str, real_root: str) -> bool:
    """Salt's test: a target with C{..} in front is taken from the link itself, as a directory."""
    base = path if target.startswith("..") else os.path.dirname(path)
    real = os.path.realpath(os.path.normpath(os.path.join(base, target)))
    return not os.path.relpath(real, real_root).startswith("..")
