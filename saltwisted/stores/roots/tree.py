"""
Walking and reading served directories. These functions block, so they are called in the pool.

No function touches anything but its arguments. L{saltwisted.stores.roots.served} decides which
files may be served at all.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Collection, Iterable, Mapping
from heapq import merge
from itertools import groupby, islice

from attrs import frozen

from saltwisted.errors import StoreError
from saltwisted.stores.files import store_error

AT_ONCE = 20_000
"""Names with which something is done in the reactor thread, in a millisecond or two."""
RUN = 1000
"""Names after which a thread of the pool may be interrupted: one call for all holds up others."""
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
        _either(one.files, other.files),
        _either(one.dirs, other.dirs),
        _either(one.empty_dirs, other.empty_dirs),
        either_link(one.links, other.links),
    )


def either_link(first: Mapping[str, str], second: Mapping[str, str]) -> Mapping[str, str]:
    """Sorted links, the first ones before equal others. Very many are for a thread."""
    if not first or not second:
        return first or second
    names = _either(tuple(first), tuple(second))
    # No one call is as long as the list: a thread may be interrupted
    return {name: first[name] if name in first else second[name] for name in names}


def _either(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    if not one or not other:
        return one or other
    if len(one) + len(other) > AT_ONCE:
        return _once(merge(one, other))
    # Two sorted runs are merged, a set would have to be sorted anew
    return tuple(dict.fromkeys(sorted((*one, *other))))


def in_order(names: Collection[str]) -> tuple[str, ...]:
    """Sorted names, each once; very many are sorted in runs, for a thread."""
    if len(names) <= AT_ONCE:
        return tuple(sorted({*names}))
    left = iter(names)
    runs = []
    while run := list(islice(left, RUN)):
        runs.append(sorted(run))
    return _once(merge(*runs))


def _once(names: Iterable[str]) -> tuple[str, ...]:
    """Sorted names without repetitions."""
    return tuple([name for name, _ in groupby(names)])


def real_path(path: str) -> str:
    """
    Where a path leads, by way of all links.

    The kernel says it, in one look. Python goes link by link: with 40 links, each of 800 parts, it
    takes a tenth of a second.
    """
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            info, real = os.fstat(fd), os.readlink(f"/proc/self/fd/{fd}")
            if os.path.samestat(info, os.lstat(real)):
                return real
        finally:
            os.close(fd)
    except (OSError, ValueError):
        pass
    # It leads to nothing, or has just been replaced, or there is no /proc
    return os.path.realpath(path)


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


class _Walk:
    """
    What is found in the roots of one environment.

    @ivar folders: every directory that was read, with its mtime.
    """

    def __init__(
        self, follow: bool, ignore_links: bool, ignored: Callable[[str], bool], now: float
    ) -> None:
        self.folders: dict[str, int] = {}
        self._follow = follow
        self._ignore_links = ignore_links
        self._ignored = ignored
        self._now = now
        self._files: set[str] = set()
        self._dirs: set[str] = set()
        self._empty: set[str] = set()
        self._links: dict[str, str] = {}

    def root(self, root: str) -> None:
        """Add the contents of a root."""
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
                young = self._now - info.st_mtime_ns / 1e9 < YOUNG
                self.folders[folder] = -1 if young else info.st_mtime_ns
                entries = list(os.scandir(folder))
            except OSError:
                if folder == root:
                    self.folders[os.path.dirname(folder)] = _mtime(os.path.dirname(folder))
                    self.folders.pop(folder, None)
                continue
            identity = (info.st_dev, info.st_ino)
            if identity in above:
                continue
            here = (*above, identity)
            if below and not entries:
                self._empty.add(below)
            for entry in entries:
                rel = f"{below}/{entry.name}" if below else entry.name
                if self._entry(entry, rel, real_root):
                    waiting.append((entry.path, rel, here))

    def _entry(self, entry: os.DirEntry[str], rel: str, real_root: str) -> bool:
        """Add an entry of a directory; whether what is in it is to be added, too."""
        is_link = entry.is_symlink()
        is_dir = _is_dir(entry)
        enter = is_dir and (self._follow or not is_link)
        if (is_link and self._ignore_links) or self._ignored(rel):
            return enter
        (self._dirs if is_dir else self._files).add(rel)
        if is_link:
            target = _target(entry.path)
            if not self._follow or _inside(entry.path, target, real_root):
                self._links[rel] = target
            if is_dir and not self._follow and _is_empty(entry.path):
                self._empty.add(rel)
        return enter

    def listing(self) -> Listing:
        """All that was added."""
        return Listing(
            in_order(self._files),
            in_order(self._dirs),
            in_order(self._empty & self._dirs),
            {name: self._links[name] for name in in_order(self._links)},
        )


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
    walk = _Walk(follow, ignore_links, ignored, now)
    for root in roots:
        walk.root(root)
    return walk.listing(), walk.folders


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
    real = real_path(os.path.normpath(os.path.join(base, target)))
    return not os.path.relpath(real, real_root).startswith("..")
