"""
Files that were displaced from a working tree: kept aside for a while, because somebody may still
write to them.

Everything here blocks.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress

from attrs import define, field

from saltwisted.domain.roots.entry import FILE, TreeEntry
from saltwisted.domain.roots.guards import (
    TRASH,
)
from saltwisted.stores.roots.knowntree import Known
from saltwisted.stores.roots.objects import ContentStore
from saltwisted.stores.roots.treefs import Identity
from saltwisted.stores.roots.treeread import content_of
from saltwisted.stores.roots.treeroot import TreeRoot


@define
class Written:
    """
    The result of writing a generation to the tree.

    @ivar known: path to what is there now.
    @ivar edits: path to what somebody wrote there meanwhile, taken into the store.
    @ivar again: paths to be scanned, and written later.
    @ivar kept: directories that contain things which do not take part, and so stay.
    @ivar failed: path to the system's error.
    @ivar moved: directories that were renamed as a whole, from and to.
    """

    known: dict[bytes, Known | None] = field(factory=dict)
    edits: dict[bytes, Known] = field(factory=dict)
    again: set[bytes] = field(factory=set)
    kept: set[bytes] = field(factory=set)
    failed: dict[bytes, str] = field(factory=dict)
    moved: list[tuple[bytes, bytes]] = field(factory=list)


class Displaced:
    """
    The hidden directory of a tree in which displaced files wait to be removed.

    If somebody edited a file through a descriptor that was open, the edit is found here.
    """

    def __init__(self, root: TreeRoot, now_ns: Callable[[], int]) -> None:
        self._root = root
        self._now_ns = now_ns
        self._there: dict[bytes, tuple[bytes, int, int]] = {}
        self._counter = 0

    def remember(self, path: bytes, aside: bytes, info: os.stat_result) -> None:
        """Where something was, and how it was when it was put aside."""
        self._there[aside] = (path, info.st_size, info.st_mtime_ns)

    def name(self) -> bytes:
        if self._root.fs.trash_fd < 0:
            with suppress(FileExistsError):
                os.mkdir(TRASH, 0o700, dir_fd=self._root.fs.fd)
        self._counter += 1
        return TRASH + b"/%d-%d-%d" % (os.getpid(), self._now_ns(), self._counter)

    def inspect(
        self,
        path: bytes,
        aside: bytes,
        expected: Known | None,
        store: ContentStore,
        done: Written,
    ) -> None:
        """Check that the displaced file is the expected one; otherwise it is somebody's edit."""
        info = self._root.fs.lstat(aside)
        if info is None:
            return
        identity = Identity.of(info)
        self._there[aside] = (path, info.st_size, info.st_mtime_ns)
        if expected is not None and expected.identity is not None:
            was = expected.identity
            if (identity.inode, identity.size, identity.mtime, identity.mode) == (
                was.inode,
                was.size,
                was.mtime,
                was.mode,
            ):
                return
        self.keep_edit(path, aside, info, store, done)

    def keep_edit(
        self,
        path: bytes,
        aside: bytes,
        info: os.stat_result,
        store: ContentStore,
        done: Written,
    ) -> None:
        if not stat.S_ISREG(info.st_mode):
            return
        for _ in range(3):
            taken = content_of(self._root.fs, aside, store)
            if taken is not None:
                digest, now = taken
                mode = stat.S_IMODE(now.st_mode) & 0o777
                entry = TreeEntry(FILE, mode, now.st_size, now.st_mtime_ns, digest)
                done.edits[path] = Known(entry, None)
                return

    def empty(self, older_than: float, store: ContentStore) -> tuple[bool, Written]:
        """
        Remove files that were displaced more than so many seconds ago.

        If a file was written meanwhile, through a descriptor that an editor kept open, that is an
        edit of its original path.

        @return: whether something is left, and the edits.
        """
        done = Written()
        try:
            names = list(self._root.fs.list(TRASH))
        except OSError:
            return False, done
        limit = self._now_ns() - int(older_than * 1e9)
        left = False
        for name, info in names:
            aside = TRASH + b"/" + name
            made = name.split(b"-")
            if len(made) == 3 and made[1].isdigit() and int(made[1]) > limit:
                left = True
                continue
            was = self._there.pop(aside, None)
            if was is not None and (info.st_size, info.st_mtime_ns) != was[1:]:
                self.keep_edit(was[0], aside, info, store, done)
            with suppress(OSError):
                self._root.fs.unlink(aside)
        if not left:
            with suppress(OSError):
                self._root.fs.rmdir(TRASH)
        return left, done
