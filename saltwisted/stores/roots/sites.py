"""
New directories of a working tree: built under a hidden name, and made visible as a whole by one
rename.

Nobody has seen a directory that is being built, so it may be left unfinished, and removed. So the
work can begin before all contents of a large batch have arrived: L{Sites.prepare} makes what it can
while the rest arrives, and then writing the tree only has to rename.
"""

from __future__ import annotations

import os
import stat
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from attrs import define, field
from twisted.logger import Logger

from saltwisted.domain.roots.entry import DIR, FILE, GONE, LINK, TreeEntry, split
from saltwisted.domain.roots.guards import TEMPORARY
from saltwisted.errors import SaltwistedError, StoreError
from saltwisted.stores.progress import Progress
from saltwisted.stores.roots.filework import AT_ONCE, FEW, PATIENCE, Helper, make_request
from saltwisted.stores.roots.knowntree import Known
from saltwisted.stores.roots.objects import SMALL, ContentStore
from saltwisted.stores.roots.packs import PIECE
from saltwisted.stores.roots.treefs import CREATE, Identity, TreeFs, complete

BULK = 8 * 1024 * 1024
"""Bytes from which a file is taken in, or written, apart from the small ones."""
COPIERS = 2
"""Large files of a new directory that are copied at a time when all else is done."""
MOST_COPIES = 32
"""Large files of one new directory that are open at a time."""

Wanted = Mapping[bytes, TreeEntry | None]


@define
class Site:
    """
    A new directory that is built under a hidden name.

    @ivar aside: its hidden name.
    @ivar entries: path to what will be there: the directory itself, and everything in it.
    @ivar folders: the directory and those in it: path and hidden name.
    @ivar waiting: paths that are not created yet.
    @ivar copied: large files whose content is being copied.
    """

    top: bytes
    aside: bytes
    entries: Mapping[bytes, TreeEntry]
    folders: list[tuple[bytes, bytes]] = field(factory=list)
    made: dict[bytes, Known] = field(factory=dict)
    waiting: list[bytes] = field(factory=list)
    copied: list[tuple[bytes, TreeEntry, int, Future[None]]] = field(factory=list)


def _aside(site: Site, path: bytes) -> bytes:
    """Where something of a site is while that is built."""
    return site.aside + path[len(site.top) :]


def new_tops(
    wanted: Wanted, known: Mapping[bytes, Known], fs: TreeFs
) -> dict[bytes, dict[bytes, TreeEntry]]:
    """The outermost directories that do not exist yet, with everything that will be in each."""
    tops: dict[bytes, dict[bytes, TreeEntry]] = {}
    inside: dict[bytes, bytes] = {b"": b""}  # directory to the new one that holds it, if any
    for path in sorted(wanted):
        entry = wanted[path]
        if entry is None:
            continue
        head = path.rpartition(b"/")[0]
        top = inside.get(head)
        if top is None:
            # What is above comes before what is in it
            above = head
            while above and above not in tops:
                above = above.rpartition(b"/")[0]
            top = inside[head] = above
        if top:
            tops[top][path] = entry
        elif entry.kind == DIR and path not in known and fs.lstat(path) is None:
            parent = wanted.get(head)
            if not head or parent is None or head in known or parent.kind == DIR:
                tops[path] = {path: entry}
    return {top: entries for top, entries in tops.items() if len(entries) > 1}


# -- one file


def make(
    fs: TreeFs, place: bytes, entry: TreeEntry, store: ContentStore, sync: bool = False
) -> os.stat_result:
    """
    Make a new file or link under a hidden name.

    @param sync: make its content durable at once.
    """
    if entry.kind == LINK:
        fs.symlink(entry.content, place, entry.mtime)
        info = fs.lstat(place)
        if info is None:
            raise StoreError("was removed as soon as it was written", os.fsdecode(place))
        return info
    fd = fs.create(place, entry.mode)
    try:
        fill(fd, entry, store)
        return complete(fd, entry.mode, entry.mtime, sync)
    except BaseException:
        with suppress(OSError):
            fs.unlink(place)
        raise
    finally:
        os.close(fd)


def fill(fd: int, entry: TreeEntry, store: ContentStore) -> None:
    """Write its content into a new file."""
    if entry.size <= SMALL:
        data = store.read(entry.content)
        written = os.write(fd, data) if data else 0
        while written < len(data):
            written += os.write(fd, memoryview(data)[written:])
        return
    path, offset, size = store.locate(entry.content)
    source = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        while size > 0:
            try:
                count = os.copy_file_range(source, fd, size, offset)
            except OSError:
                data = os.pread(source, PIECE, offset)
                count = os.write(fd, data)
            if not count:
                raise StoreError("is shorter than it was", path)
            offset += count
            size -= count
    finally:
        os.close(source)


# -- one directory


def begin(fs: TreeFs, site: Site) -> None:
    """Make its directories, and nothing in them yet."""
    for path in sorted(site.entries):
        if site.entries[path].kind == DIR:
            place = _aside(site, path)
            fs.mkdir(place, 0o700)
            site.folders.append((path, place))
        else:
            site.waiting.append(path)


def build(
    fs: TreeFs,
    site: Site,
    store: ContentStore,
    copier: ThreadPoolExecutor | None = None,
    leave: Callable[[], bool] = lambda: False,
    sync: bool = False,
    progress: Progress | None = None,
) -> None:
    """
    Create everything that does not exist yet and whose content is here.

    @param copier: copies large files at the same time.
    @param sync: make each file durable at once.
    @param leave: whether to stop.
    """
    waiting, later, done = site.waiting, [], 0
    progress = progress or Progress()
    last: bytes | None = None
    folder = -1
    try:
        # In order: the store reads ahead
        for path in waiting:
            if leave():
                break
            entry = site.entries[path]
            place = _aside(site, path)
            if entry.kind == FILE and not store.has(entry.content):
                later.append(path)
            elif entry.kind == FILE and entry.size <= SMALL:
                head, _, name = place.rpartition(b"/")
                if head != last:
                    folder, last = fs.folder(head), head
                fd = os.open(name, CREATE, entry.mode, dir_fd=folder)
                try:
                    fill(fd, entry, store)
                    info = complete(fd, entry.mode, entry.mtime, sync)
                finally:
                    os.close(fd)
                site.made[path] = Known(entry, Identity.of(info))
            elif entry.kind == FILE and entry.size >= BULK and copier is not None:
                if len(site.copied) >= MOST_COPIES:
                    end_copies(site, sync)
                fd = fs.create(place, entry.mode)
                site.copied.append((path, entry, fd, copier.submit(fill, fd, entry, store)))
            else:
                site.made[path] = Known(entry, Identity.of(make(fs, place, entry, store, sync)))
            done += 1
            progress.done += 1
    finally:
        site.waiting = later + waiting[done:]


def _make_next(fs: TreeFs, large: list[tuple[Site, bytes]], store: ContentStore) -> bool:
    """Make one of these files whose content is here; false if there is none."""
    for number, (site, path) in enumerate(large):
        entry = site.entries[path]
        if store.has(entry.content):
            info = make(fs, _aside(site, path), entry, store)
            site.made[path] = Known(entry, Identity.of(info))
            del large[number]
            return True
    return False


def end_copies(site: Site, sync: bool = False) -> None:
    """Wait until large files are copied."""
    while site.copied:
        path, entry, fd, copy = site.copied[0]
        copy.result()
        site.made[path] = Known(entry, Identity.of(complete(fd, entry.mode, entry.mtime, sync)))
        del site.copied[0]
        os.close(fd)


def show(fs: TreeFs, site: Site, sync: bool = False) -> None:
    """What was built appears under its name."""
    end_copies(site, sync)
    if site.waiting:
        raise StoreError("is not built yet", os.fsdecode(site.top))
    for path, place in reversed(site.folders):
        fs.chmod_folder(place, site.entries[path].mode)
    fs.forget()
    fs.rename_new(site.aside, site.top)
    for path, _ in site.folders:
        info = fs.lstat(path)
        if info is not None:
            site.made[path] = Known(site.entries[path], Identity.of(info))


def abandon(fs: TreeFs, site: Site) -> None:
    """Nobody has seen it: away with it."""
    for _, _, fd, copy in site.copied:
        copy.cancel()
        with suppress(CancelledError, OSError, StoreError):
            copy.result()
        os.close(fd)
    site.copied.clear()
    fs.forget()
    discard(fs, site.aside)


def discard(fs: TreeFs, path: bytes) -> None:
    """Remove something of ours that nobody has seen."""
    with suppress(OSError):
        info = fs.lstat(path)
        if info is not None and stat.S_ISDIR(info.st_mode):
            fs.chmod_folder(path, 0o700)
            for name, _ in list(fs.list(path)):
                discard(fs, path + b"/" + name)
            fs.rmdir(path)
        elif info is not None:
            fs.unlink(path)


class Sites:
    """
    The sites of one tree.

    @param path: the root.
    @param token: part of hidden names, by which this process recognises its own.
    @param progress: counts the paths that L{write} creates.
    @param helper: creates many small files in another process.
    """

    log = Logger()

    def __init__(
        self, path: str, token: bytes, progress: Progress, helper: Helper | None = None
    ) -> None:
        self._path = path
        self._helper = helper
        self._token = token
        self._progress = progress
        self._lock = threading.Lock()
        self._prepared: dict[bytes, Site] = {}
        self._planned: set[object] = set()
        self._hurried = False
        self._counter = 0

    def _site(self, top: bytes, entries: Mapping[bytes, TreeEntry]) -> Site:
        head, _ = split(top)
        self._counter += 1
        name = TEMPORARY + b"%s-s%d" % (self._token, self._counter)
        return Site(top, head + b"/" + name if head else name, entries)

    def holds(self, aside: bytes) -> bool:
        """Whether something is being built under this hidden name."""
        return any(site.aside == aside for site in tuple(self._prepared.values()))

    def prepare(
        self,
        name: object,
        root: tuple[int, int],
        entries: Iterable[tuple[bytes, TreeEntry]],
        known: Mapping[bytes, Known],
        store: ContentStore,
    ) -> None:
        """
        Create as much as possible of the new directories in a batch that is not complete yet.

        It does not hold the share's lock: it has descriptors of its own, touches only what it has
        created, and stops when somebody wants to write. What fails here is tried again when the
        batch is written.

        @param name: the name of the batch; its directories are determined once.
        @param root: device and inode of the root, as of the last scan.
        """
        with self._lock:
            try:
                fs = TreeFs(self._path)
            except StoreError:
                return
            try:
                if (fs.device, fs.inode) == root:
                    self._prepare(fs, name, entries, known, store)
            finally:
                fs.close()

    def _prepare(
        self,
        fs: TreeFs,
        name: object,
        entries: Iterable[tuple[bytes, TreeEntry]],
        known: Mapping[bytes, Known],
        store: ContentStore,
    ) -> None:
        if name not in self._planned:
            self._planned.add(name)
            wanted = {path: entry for path, entry in entries if entry != GONE}
            for top, inside in new_tops(wanted, known, fs).items():
                if top not in self._prepared:
                    site = self._prepared[top] = self._site(top, inside)
                    with suppress(OSError):
                        begin(fs, site)
                        continue
                    abandon(fs, self._prepared.pop(top))
        if self._helper is not None:
            self._build_elsewhere(self._helper, fs, store)
        made = True
        while made and not self._hurried:
            # More has come while these were made
            made = False
            for top, site in list(self._prepared.items()):
                waiting = len(site.waiting)
                with suppress(OSError, StoreError):
                    build(fs, site, store, leave=self._is_hurried)
                    made = made or len(site.waiting) < waiting
                    continue
                abandon(fs, self._prepared.pop(top))

    def _build_elsewhere(self, helper: Helper, fs: TreeFs, store: ContentStore) -> None:
        """Have another process make the small files whose contents are here."""
        jobs = [
            (site, path, site.entries[path], place)
            for site in self._prepared.values()
            for path in site.waiting
            if (place := store.packed(site.entries[path].content)) is not None
            and site.entries[path].kind == FILE
        ]
        if len(jobs) <= FEW:
            return
        large = [
            (site, path)
            for site in self._prepared.values()
            for path in site.waiting
            if site.entries[path].kind == FILE and site.entries[path].size > SMALL
        ]
        root = self._path, fs.device, fs.inode
        chunks = [jobs[at : at + AT_ONCE] for at in range(0, len(jobs), AT_ONCE)]
        asked: deque[Future[list[Any]]] = deque()
        try:
            packs = store.show_packs({place.pack for _, _, _, place in jobs})
            for number, chunk in enumerate(chunks):
                while len(asked) < 2 and number + len(asked) < len(chunks) and not self._hurried:
                    files = [
                        (_aside(s, path), e.mode, e.mtime, place.pack, place.offset, place.size)
                        for s, path, e, place in chunks[number + len(asked)]
                    ]
                    asked.append(helper(make_request(root, packs, files)))
                if not asked:
                    return
                while not (asked[0].done() or self._hurried) and _make_next(fs, large, store):
                    pass
                rows = asked.popleft().result(PATIENCE)
                for (site, path, entry, _), row in zip(chunk, rows, strict=True):
                    if row is not None:
                        site.made[path] = Known(entry, Identity(*row))
        except (OSError, SaltwistedError, TimeoutError, CancelledError) as error:
            self.log.debug(
                "roots: the helper process that writes files failed: {error}", error=str(error)
            )
            for answer in asked:
                with suppress(OSError, SaltwistedError, TimeoutError, CancelledError):
                    answer.result(PATIENCE)
            # What may be half made is not gone on with
            for top in {site.top for site, _, _, _ in jobs}:
                abandon(fs, self._prepared.pop(top))
        finally:
            for site in self._prepared.values():
                site.waiting = [path for path in site.waiting if path not in site.made]

    def _is_hurried(self) -> bool:
        return self._hurried

    def drop(self) -> None:
        """Discard what was prepared."""
        if not self._prepared and not self._planned:
            return
        with self._lock:
            self._planned.clear()
            sites, self._prepared = self._prepared, {}
            if not sites:
                return
            with suppress(StoreError):
                fs = TreeFs(self._path)
                try:
                    for site in sites.values():
                        abandon(fs, site)
                finally:
                    fs.close()

    def write(
        self,
        fs: TreeFs,
        wanted: dict[bytes, TreeEntry | None],
        known: Mapping[bytes, Known],
        store: ContentStore,
        sync: bool,
    ) -> dict[bytes, Known]:
        """
        Make all new directories visible; their contents are removed from C{wanted}.

        A directory that cannot be created as a whole stays in C{wanted}: when its files are tried
        one by one, those that cannot be written are named.

        @param sync: make each file durable at once; prepared files are not.
        @return: what is there now.
        """
        self._hurried = True
        with self._lock:
            self._hurried = False
            return self._write(fs, wanted, known, store, sync)

    def _write(
        self,
        fs: TreeFs,
        wanted: dict[bytes, TreeEntry | None],
        known: Mapping[bytes, Known],
        store: ContentStore,
        sync: bool,
    ) -> dict[bytes, Known]:
        done: dict[bytes, Known] = {}
        sites: list[Site] = []
        # The contents of large ones are copied in threads, while the small ones are made
        with ThreadPoolExecutor(COPIERS) as copier:
            try:
                for top, entries in new_tops(wanted, known, fs).items():
                    site = self._prepared.pop(top) if top in self._prepared else None
                    if site is not None and (sync or site.entries != entries):
                        abandon(fs, site)
                        site = None
                    sites.append(site or self._site(top, entries))
                    with suppress(OSError, StoreError):
                        if not sites[-1].folders:
                            begin(fs, sites[-1])
                        build(fs, sites[-1], store, copier, sync=sync, progress=self._progress)
                        continue
                    abandon(fs, sites.pop())
                while sites:
                    site = sites[-1]
                    with suppress(OSError, StoreError):
                        show(fs, site, sync)
                        done.update(site.made)
                        for path in site.entries:
                            del wanted[path]
                        sites.pop()
                        continue
                    abandon(fs, sites.pop())
            finally:
                for site in sites:
                    abandon(fs, site)
        return done
