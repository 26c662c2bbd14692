"""
Scanning a working tree: what is new, what has changed, what is gone.

An entry counts as unchanged if C{lstat} says the same as before; otherwise it is read. An entry
that changes while it is read is scanned again later. Everything here blocks.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress

from saltwisted.domain.roots.entry import DIR, FILE, LINK, TreeEntry, ancestors, split
from saltwisted.domain.roots.guards import (
    TEMPORARY,
    Forbidden,
    Limits,
    check_entry,
    is_path,
)
from saltwisted.stores.progress import Progress
from saltwisted.stores.roots.filework import Helper
from saltwisted.stores.roots.knowntree import Known
from saltwisted.stores.roots.newfiles import RACY, TOLD, NewFiles, Seen
from saltwisted.stores.roots.objects import SMALL, ContentStore
from saltwisted.stores.roots.packs import PIECE
from saltwisted.stores.roots.sites import BULK, Sites, discard
from saltwisted.stores.roots.treefs import Identity, TreeFs
from saltwisted.stores.roots.treeroot import GONE_AWAY, TreeRoot


def content_of(
    fs: TreeFs, path: bytes, store: ContentStore, seen: os.stat_result | None = None
) -> tuple[bytes, os.stat_result] | None:
    """
    Store a file's content; C{None} if it changed while it was read.

    @param seen: the result of the latest C{lstat}; a small file that is unchanged after it was read
        needs no check before.
    @return: its digest, and the result of C{fstat}.
    @raises OSError: it cannot be read.
    """
    fd = fs.open(path)
    try:
        if seen is not None and seen.st_size <= SMALL and stat.S_ISREG(seen.st_mode):
            with suppress(BlockingIOError):
                data = os.read(fd, seen.st_size + 1)
                after = os.fstat(fd)
                if _same_file(seen, after) and len(data) == after.st_size:
                    return store.put(data), after
                os.lseek(fd, 0, os.SEEK_SET)
        before = os.fstat(fd)
        if not stat.S_ISREG(before.st_mode):
            return None
        if before.st_size <= SMALL:
            data = os.read(fd, before.st_size + 1)
            after = os.fstat(fd)
            if not _same_file(before, after) or len(data) != after.st_size:
                return None
            return store.put(data), after
        digest = hashlib.sha256()
        temporary = store.large.temporary()
        try:
            size = _copy_hashed(fd, temporary, digest)
            after = os.fstat(fd)
            if not _same_file(before, after) or size != after.st_size:
                return None
            if not store.has(digest.digest()):
                store.adopt(digest.digest(), size, temporary)
            return digest.digest(), after
        finally:
            with suppress(OSError):
                os.unlink(temporary)
    finally:
        os.close(fd)


def _same_file(one: os.stat_result, other: os.stat_result) -> bool:
    """Whether their L{Identity} is the same."""
    return (
        one.st_mtime_ns == other.st_mtime_ns
        and one.st_ctime_ns == other.st_ctime_ns
        and one.st_ino == other.st_ino
        and one.st_size == other.st_size
        and one.st_mode == other.st_mode
        and one.st_dev == other.st_dev
    )


def _copy_hashed(source: int, path: str, digest: hashlib._Hash) -> int:
    target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    size = 0
    try:
        buffer = bytearray(PIECE)
        view = memoryview(buffer)
        while count := os.readv(source, [buffer]):
            digest.update(view[:count])
            rest = view[:count]
            while rest:
                rest = rest[os.write(target, rest) :]
            size += count
    finally:
        os.close(target)
    return size


class TreeReader:
    """
    Scans the directories and files of one root.

    @param sites: says which hidden names belong to something that is being written.
    @param helper: reads many small files in another process.
    """

    def __init__(
        self,
        root: TreeRoot,
        limits: Limits,
        now_ns: Callable[[], int],
        progress: Progress,
        sites: Sites,
        helper: Helper | None,
    ) -> None:
        self._root = root
        self._limits = limits
        self._now_ns = now_ns
        self._progress = progress
        self._sites = sites
        self._helper = helper
        self._on_large: Callable[[bytes, int], None] | None = None
        self._on_new: Callable[[list[tuple[bytes, int]]], None] | None = None
        self._new: list[tuple[bytes, int]] = []
        self._new_bytes = 0
        self._unread_large: dict[tuple[bytes, Identity], int] = {}

    def tell(
        self,
        on_large: Callable[[bytes, int], None] | None,
        on_new: Callable[[list[tuple[bytes, int]]], None] | None,
    ) -> None:
        """
        Set the functions that scans call with what they find, in the thread that scans.

        @param on_large: called with path and size of each large file, so that it can be read
            (L{take_large}) while the scan goes on.
        @param on_new: called with digest and size of small contents that were not in the store
            before, at paths where nothing was; for a mebibyte or more at a time, and not for less.
        """
        self._on_large, self._on_new = on_large, on_new
        self._new, self._new_bytes = [], 0

    def scan(
        self,
        known: Mapping[bytes, Known],
        store: ContentStore,
        tops: Iterable[bytes] = (b"",),
        left: Iterable[Known] | None = None,
    ) -> Seen:
        """
        Scan whole directories, with everything in them.

        @param tops: the directories; the root by default.
        @param left: what may have moved there from elsewhere, and then need not be read; by default
            everything known.
        """
        seen = Seen()
        self._root.fs.forget()
        found: set[bytes] = set()
        tops = outermost(tops)
        everything = tops == [b""]
        inside = tuple(top + b"/" for top in tops)
        self._progress.begin("paths looked at", len(known) if everything else 0)
        with (
            closing(self._progress),
            closing(
                NewFiles(
                    self._root.fs,
                    store,
                    self._limits,
                    seen,
                    known.values() if left is None else left,
                    self._now_ns,
                    self._progress,
                    self._tell_all,
                    self._helper,
                )
            ) as new,
        ):
            others = self._list(tops, known, store, seen, found, new)
            new.end(len(others))
            for path, info in (*others, *new.left):
                if self._look(path, info, known.get(path), store, seen, new.moved):
                    found.add(path)
        for path in known:
            if not everything and not path.startswith(inside):
                continue
            if path not in found and path not in seen.changed and path not in seen.again:
                if path in seen.large:
                    continue
                if self._stays(path, known[path], seen):
                    continue
                seen.changed[path] = None
        self._drop_below_skipped(seen)
        return seen

    def _list(
        self,
        tops: Sequence[bytes],
        known: Mapping[bytes, Known],
        store: ContentStore,
        seen: Seen,
        found: set[bytes],
        new: NewFiles,
    ) -> list[tuple[bytes, os.stat_result]]:
        """
        List these directories, and all in them; what is as it was known goes to C{found}, what is
        new and small to C{new}.

        @return: what else has to be looked at.
        """
        anew, self._root.rules_changed = self._root.rules_changed, False
        others: list[tuple[bytes, os.stat_result]] = []
        # What is near the top first: large files are mostly there, and take the longest
        waiting = deque(tops)
        while waiting:
            folder = waiting.popleft()
            for name, info in self._entries(folder, seen):
                path = folder + b"/" + name if folder else name
                is_dir = stat.S_ISDIR(info.st_mode)
                before = known.get(path)
                if (
                    before is not None
                    and not anew
                    and before.identity
                    == (
                        info.st_mode,
                        info.st_size,
                        info.st_mtime_ns,
                        info.st_ctime_ns,
                        info.st_ino,
                        info.st_dev,
                    )
                ):
                    found.add(path)
                    if is_dir:
                        waiting.append(path)
                    continue
                if not self._takes_part(path, name, info, seen):
                    continue
                if is_dir:
                    waiting.append(path)
                if before is not None and before.identity == Identity.of(info):
                    found.add(path)
                elif is_dir:
                    others.append((path, info))
                elif info.st_size < BULK:
                    if before is None:
                        new.add(path, info)
                    else:
                        others.append((path, info))
                # Large files first: they are read while the rest is listed, and read
                elif self._look(path, info, before, store, seen, new.moved):
                    found.add(path)
        return others

    def _entries(self, folder: bytes, seen: Seen) -> list[tuple[bytes, os.stat_result]]:
        """
        What is in a directory; nothing if it is not there any more, or may not be read.

        @raises OSError: it is the root.
        """
        try:
            entries = list(self._root.fs.list(folder))
        except OSError as error:
            if not folder:
                raise
            if error.errno not in GONE_AWAY:
                seen.refused(folder, error)
                seen.closed.add(folder)
            return []
        self._progress.done += len(entries)
        return entries

    def _takes_part(self, path: bytes, name: bytes, info: os.stat_result, seen: Seen) -> bool:
        """Whether something new is to be looked at, by the rules and by where it is."""
        is_dir = stat.S_ISDIR(info.st_mode)
        if self._root.ignored(path, is_dir):
            if name.startswith(TEMPORARY) and not self._sites.holds(path):
                # Of a process that was killed; or its directory was moved, or copied,
                # while something was written in it. Nothing is while the tree is looked at
                discard(self._root.fs, path)
            return False
        if is_dir and info.st_dev != self._root.fs.device:
            seen.skipped[path] = "another file system is mounted there"
            seen.closed.add(path)
            return False
        return True

    def _tell_all(self, contents: Iterable[tuple[bytes, int]]) -> None:
        if self._on_new is not None:
            for digest, size in contents:
                self._tell_new(digest, size)

    def _tell_new(self, digest: bytes, size: int) -> None:
        """Tell of a new content, with others."""
        self._new.append((digest, size))
        self._new_bytes += size
        if self._new_bytes >= TOLD and self._on_new is not None:
            self._on_new(self._new)
            self._new, self._new_bytes = [], 0

    def _stays(self, path: bytes, known: Known, seen: Seen) -> bool:
        """Whether something that was not listed is not gone but hidden, ignored, or forbidden."""
        if seen.closed and (path in seen.closed or any(p in seen.closed for p in ancestors(path))):
            return True
        if path in seen.skipped:
            return False
        return self._root.ignored(path, known.entry.kind == DIR) or self._above_ignored(path)

    def _above_ignored(self, path: bytes) -> bool:
        head, _ = split(path)
        while head:
            if self._root.ignored(head, True):
                return True
            head, _ = split(head)
        return False

    def _drop_below_skipped(self, seen: Seen) -> None:
        if not seen.skipped:
            return
        for path in [p for p in seen.changed if _below(p, list(seen.skipped))]:
            if path not in seen.skipped and seen.changed[path] is not None:
                del seen.changed[path]

    def touched(self, paths: Iterable[bytes], known: Mapping[bytes, Known]) -> set[bytes]:
        """Those that have changed since they were scanned."""
        self._root.fs.forget()
        found = set()
        for path in paths:
            before = known.get(path)
            try:
                info = self._root.fs.lstat(path)
            except OSError:
                found.add(path)
                continue
            was = before.identity if before is not None else None
            if (Identity.of(info) if info is not None else None) != was:
                found.add(path)
        return found

    def fresh_folders(self, paths: Iterable[bytes], known: Mapping[bytes, Known]) -> list[bytes]:
        """New directories at or below these paths: they must be watched first."""
        self._root.fs.forget()
        found: list[bytes] = []
        for path in paths:
            before = known.get(path)
            if before is not None and before.entry.kind == DIR:
                continue
            try:
                info = self._root.fs.lstat(path)
            except OSError:
                continue
            if (
                info is None
                or not stat.S_ISDIR(info.st_mode)
                or info.st_dev != self._root.fs.device
            ):
                continue
            waiting = [path]
            while waiting:
                folder = waiting.pop()
                if self._root.ignored(folder, True):
                    continue
                found.append(folder)
                with suppress(OSError):
                    waiting += [folder + b"/" + name for name in self._root.fs.folders(folder)]
        return found

    def look(
        self, paths: Iterable[bytes], known: Mapping[bytes, Known], store: ContentStore
    ) -> Seen:
        """Look at these paths alone; a directory that is new is read whole."""
        seen = Seen()
        self._root.fs.forget()
        wanted = set(paths)
        folders: set[bytes] = set()
        gone: set[bytes] = set()
        below: dict[bytes, bool] = {}
        for path in sorted(wanted):
            try:
                info = self._root.fs.lstat(path)
            except OSError as error:
                # The kernel names a watched directory with a slash as well
                seen.refused(path.rstrip(b"/"), error)
                continue
            is_dir = info is not None and stat.S_ISDIR(info.st_mode)
            head, _ = split(path)
            if head not in below:
                below[head] = self._above_ignored(path)
            if below[head] or self._root.ignored(path, is_dir):
                continue
            before = known.get(path)
            if info is None:
                if before is not None:
                    seen.changed[path] = None
                    if before.entry.kind == DIR:
                        gone.add(path)
                continue
            if is_dir and info.st_dev != self._root.fs.device:
                seen.skipped[path] = "another file system is mounted there"
                continue
            if before is not None and before.identity == Identity.of(info):
                continue
            self._look(path, info, before, store, seen, None)
            if is_dir and (before is None or before.entry.kind != DIR):
                folders.add(path)
            elif not is_dir and before is not None and before.entry.kind == DIR:
                gone.add(path)
        if gone:
            inside = tuple(path + b"/" for path in gone)
            for path in known:
                if path.startswith(inside):
                    seen.changed[path] = None
        if folders:
            left = [known[path] for path, one in seen.changed.items() if one is None]
            more = self.scan(known, store, folders, left)
            seen.add(more)
        return seen

    def _look(
        self,
        path: bytes,
        info: os.stat_result,
        before: Known | None,
        store: ContentStore,
        seen: Seen,
        moved: Mapping[tuple[int, ...], Known] | None,
    ) -> bool:
        """Find out what is at a path; true if it is what was known."""
        if before is None and moved:
            # A directory was renamed above it: not even its own times have changed
            same = moved.get(Identity.of(info)[1:])
            if (
                same is not None
                and same.identity is not None
                and same.identity.mode == info.st_mode
                and store.has(same.entry.content)
                and is_path(path)
            ):
                seen.changed[path] = same
                return False
        try:
            entry, info, sure = self._entry(path, info, store, seen, moved)
        except OSError as error:
            if error.errno in GONE_AWAY:
                seen.again.add(path)
                return False
            seen.refused(path, error)
            return before is not None
        except Forbidden as error:
            seen.skipped[path] = error.reason
            return False
        if entry is None:
            return False
        if before is None and self._on_new is not None and store.is_new(entry.content):
            self._tell_new(entry.content, entry.size)
        identity = Identity.of(info)
        if not sure:
            seen.young.add(path)
        if before is None or before.entry != entry or before.identity != identity:
            seen.changed[path] = Known(entry, identity if sure else None)
            return False
        return True

    def _entry(
        self,
        path: bytes,
        info: os.stat_result,
        store: ContentStore,
        seen: Seen,
        moved: Mapping[tuple[int, ...], Known] | None,
    ) -> tuple[TreeEntry | None, os.stat_result, bool]:
        mode = stat.S_IMODE(info.st_mode) & 0o777
        if stat.S_ISDIR(info.st_mode):
            # One that we may not open would be closed to the others' services too
            self._root.fs.folder(path)
            entry = TreeEntry(DIR, mode)
        elif stat.S_ISLNK(info.st_mode):
            entry = TreeEntry(LINK, 0, 0, info.st_mtime_ns, self._root.fs.readlink(path))
        elif stat.S_ISREG(info.st_mode):
            if info.st_size > self._limits.max_file:
                raise Forbidden("file-size", path)
            same = moved.get(Identity.of(info)[1:]) if moved else None
            if same is not None and store.has(same.entry.content):
                digest = same.entry.content
            elif info.st_size >= BULK and path not in seen.large:
                self._see_large(path, info)
                seen.large[path] = info.st_size
                if self._on_large is not None:
                    self._on_large(path, info.st_size)
                return None, info, True
            else:
                taken = content_of(self._root.fs, path, store, info)
                if taken is None:
                    seen.again.add(path)
                    return None, info, True
                digest, info = taken
            entry = TreeEntry(FILE, mode, info.st_size, info.st_mtime_ns, digest)
        else:
            raise Forbidden("not a file, directory or link", path)
        check_entry(path, entry, self._limits)
        young = self._now_ns() - max(info.st_mtime_ns, info.st_ctime_ns) < RACY
        return entry, info, not (young and entry.kind == FILE)

    def _see_large(self, path: bytes, info: os.stat_result) -> None:
        """
        See that a large file can be read, before somebody does.

        @raises OSError: it cannot, or could not the last time.
        """
        number = self._unread_large.pop((path, Identity.of(info)), 0)
        if number:
            raise OSError(number, os.strerror(number), os.fsdecode(path))
        os.close(self._root.fs.open(path))

    def take_large(self, path: bytes, store: ContentStore) -> Known | None:
        """
        Take in one large file; C{None} if it changes under the reader, or is gone.

        Why it cannot be read to its end says the next look.
        """
        fs = TreeFs(self._root.path)
        try:
            taken = content_of(fs, path, store)
            if taken is None:
                return None
            digest, info = taken
            mode = stat.S_IMODE(info.st_mode) & 0o777
            entry = TreeEntry(FILE, mode, info.st_size, info.st_mtime_ns, digest)
            check_entry(path, entry, self._limits)
            return Known(entry, Identity.of(info))
        except Forbidden:
            return None
        except OSError as error:
            if error.errno and error.errno not in GONE_AWAY:
                with suppress(OSError):
                    now = fs.lstat(path)
                    if now is not None:
                        self._unread_large[path, Identity.of(now)] = error.errno
            return None
        finally:
            fs.close()


def _below(path: bytes, tops: Sequence[bytes]) -> bool:
    return any(not top or path.startswith(top + b"/") for top in tops)


def outermost(tops: Iterable[bytes]) -> list[bytes]:
    """These directories without those that are in another of them."""
    wanted = set(tops)
    if b"" in wanted:
        return [b""]
    return sorted(top for top in wanted if not any(above in wanted for above in ancestors(top)))
