"""
New small files, stored while the rest of the tree is still being listed.

This does the same as L{WorkTree<saltwisted.stores.roots.worktree.WorkTree>} does for each path, but
without a call for each step: 10 000 files take two thirds of the time. From the first thousand on,
a helper in another process takes part (L{saltwisted.stores.roots.filework}). Unusual files are left
to the tree.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from typing import Any

from attrs import define, field
from twisted.logger import Logger

from saltwisted.domain.roots.entry import FILE, TreeEntry
from saltwisted.domain.roots.guards import Forbidden, Limits, check_entry, is_path
from saltwisted.errors import SaltwistedError
from saltwisted.stores.progress import Progress
from saltwisted.stores.roots.filework import AT_ONCE, FEW, PATIENCE, Helper, read_request
from saltwisted.stores.roots.knowntree import Known
from saltwisted.stores.roots.objects import SMALL, ContentStore
from saltwisted.stores.roots.packs import PACK_SIZE
from saltwisted.stores.roots.treefs import Identity, TreeFs, read_small

RACY = 20_000_000
"""Nanoseconds: a file whose time stamp is that young may change without a trace."""
TOLD = 1024 * 1024
"""Bytes of small new contents that are told together."""

ASKED = 12
"""Requests whose answers may wait."""

_New = tuple[bytes, Identity, os.stat_result]
"""A small file where nothing was: its path, and what was said of it."""


@define
class Seen:
    """
    The result of a scan of the tree.

    @ivar changed: path to what is there now, if it has changed; C{None} is nothing.
    @ivar again: paths that were being written: they must be scanned again soon.
    @ivar young: paths that are too young to be sure that C{lstat} would show a later write.
    @ivar large: paths of large files that must be stored separately.
    @ivar skipped: path to the reason why something there does not take part.
    @ivar unread: those of them that would take part if the system let us read or store them.
    @ivar closed: directories that were not scanned: their contents are unchanged.
    """

    changed: dict[bytes, Known | None] = field(factory=dict)
    again: set[bytes] = field(factory=set)
    young: set[bytes] = field(factory=set)
    large: dict[bytes, int] = field(factory=dict)
    skipped: dict[bytes, str] = field(factory=dict)
    unread: dict[bytes, str] = field(factory=dict)
    closed: set[bytes] = field(factory=set)

    def add(self, more: Seen) -> None:
        """What another look has found as well."""
        self.changed.update(more.changed)
        self.again |= more.again
        self.young |= more.young
        self.large.update(more.large)
        self.skipped.update(more.skipped)
        self.unread.update(more.unread)
        self.closed |= more.closed

    def refused(self, path: bytes, error: OSError) -> None:
        """The system does not let us read or store what is at a path."""
        self.skipped[path] = self.unread[path] = error.strerror or str(error)


class NewFiles:
    """
    The new files of one scan; used in its thread.

    @param fs: the tree.
    @param others: what may have moved here from elsewhere, and then need not be read.
    @param tell: takes digest and size of new contents of the store.
    @ivar left: those that are not stored.
    """

    log = Logger()

    def __init__(
        self,
        fs: TreeFs,
        store: ContentStore,
        limits: Limits,
        seen: Seen,
        others: Iterable[Known],
        now_ns: Callable[[], int],
        progress: Progress,
        tell: Callable[[Iterable[tuple[bytes, int]]], None],
        helper: Helper | None,
    ) -> None:
        self._fs = fs
        self._store = store
        self._limits = limits
        self._seen = seen
        self._others = others
        self._moved: dict[tuple[int, ...], Known] | None = None
        self._now_ns = now_ns
        self._progress = progress
        self._tell = tell
        self._helper = helper
        self._new: list[_New] = []
        self._chunks: deque[list[_New]] = deque()
        self._asked: deque[tuple[list[_New], int, int, Future[list[Any]]]] = deque()
        self._lent: list[int] = []
        self._pack = ""
        self._room = 0
        self._done = 0
        self.left: list[tuple[bytes, os.stat_result]] = []

    @property
    def moved(self) -> Mapping[tuple[int, ...], Known]:
        """The files that may have moved here, by their identity without the mode."""
        if self._moved is None:
            self._moved = {
                one.identity[1:]: one
                for one in self._others
                if one.identity is not None and one.entry.kind == FILE
            }
        return self._moved

    def add(self, path: bytes, info: os.stat_result) -> None:
        """A small file was found where nothing was before."""
        identity = Identity.of(info)
        same = self.moved.get(identity[1:])
        if (
            same is not None
            and same.identity == identity
            and self._store.has(same.entry.content)
            and is_path(path)
        ):
            # A directory was renamed above it: not even its own times have changed
            self._seen.changed[path] = same
        elif same is not None or info.st_size > SMALL or not stat.S_ISREG(identity.mode):
            self.left.append((path, info))
        else:
            self._new.append((path, identity, info))
            if len(self._new) >= AT_ONCE and self._helper is not None:
                self._chunks.append(self._new)
                self._new = []
                self._go_on(self._helper)

    def end(self, others: int) -> None:
        """
        There are no more: store all that were added.

        @param others: how many are scanned after that, for progress reports.
        """
        helper = self._helper
        waiting = len(self._new) + sum(len(chunk) for chunk in self._chunks)
        waiting += sum(len(chunk) for chunk, *_ in self._asked)
        self._progress.begin("files read", self._done + waiting + others)
        self._progress.done = self._done
        if helper is not None and (self._chunks or self._asked or len(self._new) > FEW):
            self._chunks.append(self._new)
            self._new = []
            self._go_on(helper, to_the_end=True)
        self._read(self._new)
        self._new = []

    def close(self) -> None:
        """Whatever the result of the scan, nothing is appended to the store any more."""
        self._take_back()

    # -- by another process

    def _go_on(self, helper: Helper, to_the_end: bool = False) -> None:
        """
        Take what was answered; while one is taken here, the next is being read there. As long as
        there is more to be listed, that comes first, for the large files in it.
        """
        try:
            while self._chunks or self._asked:
                while self._chunks and len(self._asked) < ASKED:
                    self._ask(helper, self._chunks[0])
                    self._chunks.popleft()
                chunk, number, now, answer = self._asked[0]
                if not to_the_end and (len(self._asked) < ASKED or not answer.done()):
                    return
                rows = answer.result(PATIENCE)
                self._asked.popleft()
                self._take(chunk, rows, number, now)
        except (OSError, SaltwistedError, TimeoutError, CancelledError) as error:
            self.log.debug(
                "roots: the helper process that reads files failed: {error}", error=str(error)
            )
            self._no_help()
        if to_the_end:
            self._take_back()

    def _ask(self, helper: Helper, chunk: list[_New]) -> None:
        if self._room <= 0:
            number, self._pack = self._store.lent.lend()
            self._lent.append(number)
            self._room = PACK_SIZE
        files = [(path, identity.size) for path, identity, _ in chunk]
        self._room -= sum(size for _, size in files)
        root = self._fs.path, self._fs.device, self._fs.inode
        # Of a time before any of them is read: who seems younger is looked at again
        now = self._now_ns()
        answer = helper(read_request(root, self._pack, files))
        self._asked.append((chunk, self._lent[-1], now, answer))

    def _no_help(self) -> None:
        self._helper = None
        waiting = [chunk for chunk, *_ in self._asked]
        self._asked.clear()
        for chunk in (*waiting, *self._chunks):
            self._new += chunk
        self._chunks.clear()
        self._take_back()

    def _take_back(self) -> None:
        for number in self._lent:
            self._store.lent.take_back(number)
        self._lent.clear()
        self._room = 0

    def _take(self, chunk: Sequence[_New], rows: Sequence[Any], pack: int, now: int) -> None:
        objects: list[tuple[bytes, int, int]] = []
        for (path, identity, info), row in zip(chunk, rows, strict=True):
            if (
                row is not None
                and tuple(row[2:]) == identity
                and self._found(path, identity, row[0], now)
            ):
                objects.append((row[0], identity.size, row[1]))
            else:
                self.left.append((path, info))
        self._count(len(chunk))
        self._store.lent.keep(pack, objects)
        is_new = self._store.is_new
        self._tell((digest, size) for digest, size, _ in objects if is_new(digest))

    def _count(self, files: int) -> None:
        self._done += files
        self._progress.done += files

    # -- here

    def _read(self, new: Sequence[_New]) -> None:
        taken: list[tuple[bytes, bytes]] = []
        last: bytes | None = None
        folder, waiting, now = -1, 0, 0
        for path, identity, info in new:
            self._count(1)
            size = identity.size
            head, _, name = path.rpartition(b"/")
            try:
                if head != last:
                    # As above: a time before any of them is read
                    folder, last, now = self._fs.folder(head), head, self._now_ns()
                data, after = read_small(folder, name, size)
                alike = Identity.of(after) == identity
            except OSError:
                last = None
                alike, data = False, b""
            if not alike or len(data) != size:
                self.left.append((path, info))
                continue
            digest = hashlib.sha256(data).digest()
            if not self._found(path, identity, digest, now):
                self.left.append((path, info))
                continue
            taken.append((digest, data))
            waiting += size
            if waiting >= TOLD:
                self._put(taken)
                taken, waiting = [], 0
        self._put(taken)

    def _put(self, taken: Sequence[tuple[bytes, bytes]]) -> None:
        """What was found goes to the store, and is told."""
        store = self._store
        store.put_all(taken)
        self._tell((digest, len(data)) for digest, data in taken if store.is_new(digest))

    def _found(self, path: bytes, identity: Identity, digest: bytes, now: int) -> bool:
        """
        A file was read; false if the rules forbid it.

        @param now: a time before it was read.
        """
        entry = TreeEntry(FILE, identity.mode & 0o777, identity.size, identity.mtime, digest)
        try:
            check_entry(path, entry, self._limits)
        except Forbidden:
            return False
        seen = self._seen
        if now - max(identity.mtime, identity.ctime) < RACY:
            seen.young.add(path)
            seen.changed[path] = Known(entry, None)
        else:
            seen.changed[path] = Known(entry, identity)
        return True
