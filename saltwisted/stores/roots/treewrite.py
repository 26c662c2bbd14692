"""
Writing a generation to a working tree without losing any edit.

The new file is made under a hidden name and exchanged with the old one. Then the displaced file is
inspected: if it is not the expected one, somebody wrote it meanwhile, and it becomes a version of
its own. Everything here blocks.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from typing import Any

from saltwisted.domain.roots.entry import DIR, FILE, LINK, Batch, Move, TreeEntry, ancestors, split
from saltwisted.domain.roots.guards import (
    TEMPORARY,
    TRASH,
)
from saltwisted.errors import StoreError
from saltwisted.stores.progress import Progress
from saltwisted.stores.roots.displaced import Displaced, Written
from saltwisted.stores.roots.knowntree import Known
from saltwisted.stores.roots.objects import ContentStore
from saltwisted.stores.roots.sites import Sites, make
from saltwisted.stores.roots.treefs import Identity
from saltwisted.stores.roots.treeread import TreeReader, content_of
from saltwisted.stores.roots.treeroot import TreeRoot

MANY = 16
"""Files from which on they are made durable all together."""


class TreeWriter:
    """
    Makes a tree match a generation.

    @param reader: scans what is to be moved as a whole.
    @param sites: creates many files under hidden names.
    @param token: begins the hidden names of this process.
    """

    def __init__(
        self,
        root: TreeRoot,
        reader: TreeReader,
        displaced: Displaced,
        sites: Sites,
        progress: Progress,
        token: bytes,
    ) -> None:
        self._root = root
        self._reader = reader
        self._displaced = displaced
        self._sites = sites
        self._progress = progress
        self._token = token
        self._sync_each = False
        self._counter = 0

    def prepare(self, batch: Batch, known: Mapping[bytes, Known], store: ContentStore) -> None:
        """Make aside what a batch will need, as far as its contents are here; in any thread."""
        fs = self._root.opened
        if fs is not None:
            root = fs.device, fs.inode
            self._sites.prepare(batch.name, root, batch.entries, known, store)

    def drop_prepared(self) -> None:
        """Discard what was prepared."""
        self._sites.drop()

    def write(
        self,
        wanted: Mapping[bytes, TreeEntry | None],
        known: Mapping[bytes, Known],
        store: ContentStore,
        moves: Sequence[Move] = (),
    ) -> Written:
        """
        Make the tree match at these paths.

        @param wanted: path to the wanted entry; C{None} for nothing.
        @param moves: directories among them that moved as a whole.
        """
        done = Written()
        self._root.fs.forget()
        wanted = dict(wanted)
        progress = self._progress
        for move in moves:
            self._guarded(self._move, move.old, known, store, done, wanted, move)
        # A few are made durable one by one: syncing the file system waits for everybody's writes
        many = sum(1 for e in wanted.values() if e is not None and e.kind == FILE) > MANY
        self._sync_each = not many
        progress.begin("paths written", len(wanted))
        with closing(progress):
            done.known.update(
                self._sites.write(self._root.fs, wanted, known, store, self._sync_each)
            )
            removed = sorted(
                (
                    path
                    for path, entry in wanted.items()
                    if (before := known.get(path)) is not None
                    and (entry is None or (entry.kind == DIR) != (before.entry.kind == DIR))
                ),
                reverse=True,
            )
            for path in self._remove_files(removed, known, store, done):
                self._guarded(self._remove, path, known, store, done)
            progress.done += len(removed)
            folders = sorted(p for p, e in wanted.items() if e is not None and e.kind == DIR)
            for path in folders:
                self._guarded(self._make_folder, path, known, store, done, wanted[path])
                progress.done += 1
            for path, entry in sorted(wanted.items()):
                if entry is not None and entry.kind != DIR and path not in done.failed:
                    self._guarded(self._put, path, known, store, done, entry)
                    progress.done += 1
            if many:
                self._root.fs.sync()
        return done

    def _guarded(
        self,
        act: Callable[..., None],
        path: bytes,
        known: Mapping[bytes, Known],
        store: ContentStore,
        done: Written,
        *more: Any,
    ) -> None:
        try:
            act(path, known, store, done, *more)
        except (OSError, StoreError) as error:
            done.failed[path] = getattr(error, "strerror", None) or str(error)
            done.again.add(path)

    def _move(
        self,
        path: bytes,
        known: Mapping[bytes, Known],
        store: ContentStore,
        done: Written,
        wanted: dict[bytes, TreeEntry | None],
        move: Move,
    ) -> None:
        """
        Rename a directory as a whole, if it holds here what it held where it was moved.

        What is ignored in it goes with it; anything else that we do not know, and it is not done.
        """
        old, new = move.old + b"/", move.new + b"/"
        inside = {path: one for path, one in known.items() if path.startswith(old)}
        if known.get(move.old) is None or self._root.fs.lstat(move.new) is not None:
            return
        for path, one in inside.items():
            target = new + path[len(old) :]
            if wanted.get(path, one) is not None or wanted.get(target) != one.entry:
                return
        found = self._reader.scan(known, store, [move.old])
        if found.changed or found.again or found.young or found.large or found.skipped:
            return
        for above in sorted(ancestors(move.new)):
            entry = wanted.get(above)
            if entry is not None and entry.kind == DIR:
                self._make_folder(above, known, store, done, entry)
        self._root.fs.forget()
        self._root.fs.rename_new(move.old, move.new)
        self._root.fs.forget()
        top = wanted[move.new]
        info = self._root.fs.lstat(move.new)
        if top is not None and info is not None:
            done.known[move.new] = Known(top, Identity.of(info))
        done.known[move.old] = None
        done.moved.append((move.old, move.new))
        wanted.pop(move.old, None)
        wanted.pop(move.new, None)
        for path, one in inside.items():
            target = new + path[len(old) :]
            done.known[path], done.known[target] = None, one
            wanted.pop(path, None)
            wanted.pop(target, None)

    def _temporary(self, path: bytes) -> bytes:
        """A hidden name of ours beside a path."""
        head, _ = split(path)
        self._counter += 1
        name = TEMPORARY + b"%s-%d" % (self._token, self._counter)
        return head + b"/" + name if head else name

    def _unexpected(
        self, path: bytes, info: os.stat_result, known: Known | None, done: Written
    ) -> bool:
        """Whether somebody changed this path since; then it is looked at before it is written."""
        if known is not None and known.identity == Identity.of(info):
            return False
        if known is not None and known.entry.kind == DIR and stat.S_ISDIR(info.st_mode):
            return False
        done.again.add(path)
        return True

    def _remove_files(
        self,
        paths: Sequence[bytes],
        known: Mapping[bytes, Known],
        store: ContentStore,
        done: Written,
    ) -> list[bytes]:
        """
        Put aside files that are as we know them, and still were once they were aside; what is left.

        What L{_remove} does, without a call for each step: 1000 files take half of the time.
        Whatever is unusual in any way is left to it.
        """
        left: list[bytes] = []
        last, folder = None, -1
        if len(paths) < MANY:
            return list(paths)
        aside = self._displaced.name()
        trash, first = -1, aside.rpartition(b"/")[2]
        for number, path in enumerate(paths):
            was = known[path].identity
            if was is None or not stat.S_ISREG(was.mode):
                left.append(path)
                continue
            head, _, name = path.rpartition(b"/")
            put = b"%s%06d" % (first, number)
            try:
                if head != last:
                    folder, trash, last = (
                        self._root.fs.folder(head),
                        self._root.fs.folder(TRASH),
                        head,
                    )
                if Identity.of(os.stat(name, dir_fd=folder, follow_symlinks=False)) != was:
                    left.append(path)
                    continue
                os.rename(name, put, src_dir_fd=folder, dst_dir_fd=trash)
                info = os.stat(put, dir_fd=trash, follow_symlinks=False)
            except OSError:
                last = None
                left.append(path)
                continue
            done.known[path] = None
            put = TRASH + b"/" + put
            self._displaced.remember(path, put, info)
            if Identity.of(info)[:3] != was[:3] or info.st_ino != was.inode:
                self._displaced.keep_edit(path, put, info, store, done)
        return left

    def _remove(
        self, path: bytes, known: Mapping[bytes, Known], store: ContentStore, done: Written
    ) -> None:
        info = self._root.fs.lstat(path)
        if info is None:
            done.known[path] = None
            return
        if self._unexpected(path, info, known.get(path), done):
            return
        if stat.S_ISDIR(info.st_mode):
            try:
                self._root.fs.rmdir(path)
            except OSError as error:
                if error.errno not in (39, 17):
                    raise
                done.kept.add(path)
                return
            done.known[path] = None
            return
        aside = self._displaced.name()
        self._root.fs.rename_new(path, aside)
        done.known[path] = None
        self._displaced.inspect(path, aside, known.get(path), store, done)

    def _make_folder(
        self,
        path: bytes,
        known: Mapping[bytes, Known],
        store: ContentStore,
        done: Written,
        entry: TreeEntry,
    ) -> None:
        info = self._root.fs.lstat(path)
        if info is None:
            self._root.fs.mkdir(path, entry.mode)
        elif not stat.S_ISDIR(info.st_mode):
            done.again.add(path)
            return
        elif stat.S_IMODE(info.st_mode) & 0o777 != entry.mode:
            self._root.fs.chmod_folder(path, entry.mode)
        info = self._root.fs.lstat(path)
        if info is not None:
            done.known[path] = Known(entry, Identity.of(info))

    def _put(
        self,
        path: bytes,
        known: Mapping[bytes, Known],
        store: ContentStore,
        done: Written,
        entry: TreeEntry,
    ) -> None:
        before = known.get(path)
        info = self._root.fs.lstat(path)
        if done.known.get(path, before) is None:
            before = None
        if info is not None:
            if before is None and not self._same(path, info, entry, store):
                done.again.add(path)
                return
            if before is not None and self._unexpected(path, info, before, done):
                return
            if (
                before is not None
                and before.entry.same_content(entry)
                and entry.kind == FILE
                and self._touch(path, info, entry, done)
            ):
                return
        temporary = self._temporary(path)
        inode = make(self._root.fs, temporary, entry, store, self._sync_each).st_ino
        try:
            if info is None:
                try:
                    self._root.fs.rename_new(temporary, path)
                except FileExistsError:
                    done.again.add(path)
                    self._root.fs.unlink(temporary)
                    return
            else:
                was = before or Known(entry, Identity.of(info))
                self._displaced.inspect(path, self._exchanged(temporary, path), was, store, done)
        except OSError:
            with suppress(OSError):
                self._root.fs.unlink(temporary)
            raise
        after = self._root.fs.lstat(path)
        if after is None or after.st_ino != inode:
            done.again.add(path)
        elif entry.kind == FILE and (
            after.st_mtime_ns != entry.mtime or after.st_size != entry.size
        ):
            # Written in place since: that is an edit of what we have just put there
            done.known[path] = Known(entry, None)
            done.again.add(path)
            return
        done.known[path] = Known(entry, Identity.of(after) if after is not None else None)

    def _exchanged(self, temporary: bytes, path: bytes) -> bytes:
        """Put what we made in the place of what is there; answers with where that is now."""
        fs = self._root.fs
        if fs.exchange(temporary, path):
            aside = self._displaced.name()
            fs.rename_new(temporary, aside)
        else:
            aside = self._displaced.name()
            fs.rename_new(path, aside)
            fs.rename_new(temporary, path)
        return aside

    def _same(
        self, path: bytes, info: os.stat_result, entry: TreeEntry, store: ContentStore
    ) -> bool:
        """Whether an unknown file is what should be there already (a tree that is adopted)."""
        if entry.kind == LINK:
            return stat.S_ISLNK(info.st_mode) and self._root.fs.readlink(path) == entry.content
        if not stat.S_ISREG(info.st_mode) or info.st_size != entry.size:
            return False
        taken = content_of(self._root.fs, path, store)
        return taken is not None and taken[0] == entry.content

    def _touch(self, path: bytes, info: os.stat_result, entry: TreeEntry, done: Written) -> bool:
        """Only mode or time differ: change those in place."""
        fd = self._root.fs.open(path)
        try:
            now = os.fstat(fd)
            if Identity.of(now) != Identity.of(info):
                return False
            if now.st_nlink > 1:
                return False
            os.fchmod(fd, entry.mode)
            os.utime(fd, ns=(entry.mtime, entry.mtime))
            done.known[path] = Known(entry, Identity.of(os.fstat(fd)))
        finally:
            os.close(fd)
        return True
