"""
The working tree of a share: what people edit, read by scanning and written by exchange.

Reading: an entry counts as unchanged when C{lstat} says what it said before; else it is read,
and what changed while it was read is looked at again later. Writing never
loses an edit: the new file is made under a hidden name and exchanged with the old one,
and the displaced one is inspected: if it is not what was expected, somebody wrote it
meanwhile, and it becomes a version of its own. Everything here blocks.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from typing import Any

from attrs import define, field

from saltwisted.domain.roots.entry import DIR, FILE, LINK, Batch, Entry, Move, ancestors, split
from saltwisted.domain.roots.guards import (
    MARKER,
    TEMPORARY,
    TRASH,
    Forbidden,
    Limits,
    check_entry,
    is_path,
)
from saltwisted.domain.roots.ignore import RULES_FILE, Ignored, ignorer, what_excludes
from saltwisted.errors import StoreError
from saltwisted.stores.progress import Progress
from saltwisted.stores.roots.filework import Helper
from saltwisted.stores.roots.index import Known
from saltwisted.stores.roots.newfiles import RACY, TOLD, NewFiles, Seen
from saltwisted.stores.roots.objects import PIECE, SMALL, ContentStore
from saltwisted.stores.roots.sites import BULK, Sites, discard, make
from saltwisted.stores.roots.treefs import Identity, TreeFs

MANY = 16
"""Files from which on they are made durable all together."""
MARKER_TIME = 1_000_000_000
_IGNORED_RULES = 64 * 1024
GONE_AWAY = frozenset((errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV, errno.ENXIO))
"""What the system says where something else is now than was a moment ago."""


@define
class Written:
    """
    What writing a generation to the tree did.

    @ivar known: path to what is there now.
    @ivar edits: path to what somebody wrote there meanwhile, taken into the store.
    @ivar again: paths to be looked at, and written later.
    @ivar kept: directories that hold things which do not take part, and so stay.
    @ivar failed: path to what the system said.
    @ivar moved: directories that were renamed whole, from and to.
    """

    known: dict[bytes, Known | None] = field(factory=dict)
    edits: dict[bytes, Known] = field(factory=dict)
    again: set[bytes] = field(factory=set)
    kept: set[bytes] = field(factory=set)
    failed: dict[bytes, str] = field(factory=dict)
    moved: list[tuple[bytes, bytes]] = field(factory=list)


def content_of(
    fs: TreeFs, path: bytes, store: ContentStore, seen: os.stat_result | None = None
) -> tuple[bytes, os.stat_result] | None:
    """
    Take a file's content into the store; C{None} if it changed while it was read.

    @param seen: what C{lstat} has just said of it; a small file that is still the same after it
        was read needs no look before.
    @return: its digest, and what C{fstat} said.
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
        temporary = store.temporary()
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


class WorkTree:
    """
    One root directory that people edit.

    @param path: the directory; made if it is not there.
    @param share: the share's name, written into the marker file.
    @param helper: reads and makes many small files in another process.
    """

    def __init__(
        self,
        path: str,
        share: str,
        limits: Limits,
        now_ns: Callable[[], int],
        extra_rules: tuple[bytes, ...] = (),
        trash: str = "",
        helper: Helper | None = None,
    ) -> None:
        self.path = path
        self.share = share
        self.limits = limits
        self._now_ns = now_ns
        self._extra = extra_rules
        self._trash = trash
        self._displaced: dict[bytes, tuple[bytes, int, int]] = {}
        self._fs: TreeFs | None = None
        self.ignored: Ignored = ignorer(b"", extra_rules)
        self._rules = b""
        self._rules_changed = False
        self._sync_each = False
        self._counter = 0
        self._token = os.urandom(4).hex().encode()
        self.progress = Progress()
        self._helper = helper
        self._sites = Sites(path, self._token, self.progress, helper)
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
        Whom looks tell of what they find, in the thread that looks.

        @param on_large: told path and size of each large file, so that it can be read
            (L{take_large}) while the look goes on.
        @param on_new: told digest and size of small contents that were not in the store before,
            at paths where nothing was; a mebibyte or more at a time, and of less not at all.
        """
        self._on_large, self._on_new = on_large, on_new
        self._new, self._new_bytes = [], 0

    # -- the root itself

    @property
    def fs(self) -> TreeFs:
        """The open root."""
        if self._fs is None:
            self._fs = TreeFs(self.path, self._trash)
        return self._fs

    def open(self, remembered: tuple[int, int] | None) -> str:
        """
        Open the root and see that it is the one of last time.

        @param remembered: L{root_identity} of last time, which may have a device's number for the
            file system; C{None} the first time.
        @return: why the root cannot be trusted; empty if it can.
        """
        self.close()
        if remembered is None:
            with suppress(OSError):
                os.makedirs(self.path, mode=0o755, exist_ok=True)
        try:
            fs = self.fs
        except StoreError as error:
            return f"the root cannot be opened: {error.reason}"
        if remembered is None:
            marker = self._marker()
            if marker not in (None, self.share):
                return self._stranger()
            if marker is None:
                # Where we may not write, device and inode alone tell the root from another
                with suppress(PermissionError):
                    self.mark()
        else:
            stranger = self._stranger()
            if stranger:
                return stranger
            volume, inode = remembered
            # A disk that is mounted again, or a machine that was, may have numbered it again
            if inode != fs.inode or volume not in (fs.volume, fs.device):
                return "the root is not the directory that it was before"
        self.read_rules()
        return ""

    def check(self) -> str:
        """Why the root cannot be trusted any more; empty if it can."""
        if self._fs is None:
            return "the root is not open"
        if not self._fs.same_root():
            return "the root is not the directory that it was before"
        return self._stranger()

    def _stranger(self) -> str:
        """What the marker file says against this directory; empty if nothing."""
        marker = self._marker()
        if marker is None:
            # Where we may not write we could not leave one, either
            return (
                "the marker file .saltwisted-root is missing: is the disk mounted?"
                if self.is_writable()
                else ""
            )
        if marker == self.share:
            return ""
        return f"the marker file .saltwisted-root says that this is the root of {marker}"

    def is_writable(self) -> bool:
        """Whether this process may write into the root."""
        return os.access(self.path, os.W_OK)

    def _marker(self) -> str | None:
        try:
            fd = self.fs.open(MARKER)
        except OSError:
            return None
        try:
            return os.read(fd, 1000).decode("utf-8", "replace").strip()
        finally:
            os.close(fd)

    def mark(self) -> None:
        """Write the marker file."""
        with suppress(FileExistsError):
            fd = self.fs.create(MARKER)
            try:
                os.write(fd, self.share.encode() + b"\n")
                os.fchmod(fd, 0o644)
                os.utime(fd, ns=(MARKER_TIME * 10**9, MARKER_TIME * 10**9))
                os.fsync(fd)
            finally:
                os.close(fd)

    def mark_anew(self) -> None:
        """Write the marker file whether there is one or not."""
        with suppress(OSError):
            self.fs.unlink(MARKER)
        self.mark()

    @property
    def root_identity(self) -> tuple[int, int]:
        """File system and inode, for L{open}."""
        return self.fs.volume, self.fs.inode

    def read_rules(self) -> None:
        """Take in C{.rootsignore} as it is now."""
        data = b""
        try:
            fd = self.fs.open(RULES_FILE)
        except OSError as error:
            # While it may not be read, what it excluded stays excluded; a look names it
            if error.errno not in GONE_AWAY:
                return
        else:
            try:
                data = os.read(fd, _IGNORED_RULES)
            finally:
                os.close(fd)
        self._rules_changed = self._rules_changed or data != self._rules
        self._rules = data
        self.ignored = ignorer(data, self._extra)

    def why_excluded(self, path: bytes) -> str:
        """What keeps a path from taking part, for who misses it; empty if nothing does."""
        found = what_excludes(path, self.ignored)
        if found is None:
            return ""
        name, always = os.fsdecode(found[0]), found[1]
        if always:
            return f"{name} is excluded: editors, version control and compilers use such names"
        return f"{name} is excluded by {os.fsdecode(RULES_FILE)} or by the configuration"

    def is_busy(self) -> bool:
        """Whether git, hg or svn is in the middle of something."""
        for name in (b".git/index.lock", b".hg/wlock", b".svn/wc.db-journal"):
            # Not while somebody has closed that directory to us: we should wait for ever
            with suppress(PermissionError):
                if self.fs.lstat(name) is not None:
                    return True
        return False

    def close(self) -> None:
        """Close the root."""
        if self._fs is not None:
            self._fs.close()
            self._fs = None

    # -- reading

    def scan(
        self,
        known: Mapping[bytes, Known],
        store: ContentStore,
        tops: Iterable[bytes] = (b"",),
        left: Iterable[Known] | None = None,
    ) -> Seen:
        """
        Look at whole directories, with all that is in them.

        @param tops: the directories; the root by default.
        @param left: what may have moved there from elsewhere, and need not be read then; by default
            all that is known.
        """
        seen = Seen()
        self.fs.forget()
        found: set[bytes] = set()
        tops = outermost(tops)
        everything = tops == [b""]
        inside = tuple(top + b"/" for top in tops)
        self.progress.begin("paths looked at", len(known) if everything else 0)
        with (
            closing(self.progress),
            closing(
                NewFiles(
                    self.fs,
                    store,
                    self.limits,
                    seen,
                    known.values() if left is None else left,
                    self._now_ns,
                    self.progress,
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
        anew, self._rules_changed = self._rules_changed, False
        others: list[tuple[bytes, os.stat_result]] = []
        # What is near the top first: large files are mostly there, and take the longest
        waiting = deque(tops)
        while waiting:
            folder = waiting.popleft()
            try:
                entries = list(self.fs.list(folder))
            except OSError as error:
                if not folder:
                    raise
                if error.errno not in GONE_AWAY:
                    seen.refused(folder, error)
                    seen.closed.add(folder)
                continue
            self.progress.done += len(entries)
            for name, info in entries:
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
                if self.ignored(path, is_dir):
                    if name.startswith(TEMPORARY) and not self._sites.holds(path):
                        # Of a process that was killed; or its directory was moved, or copied,
                        # while something was written in it. Nothing is while the tree is looked at
                        discard(self.fs, path)
                    continue
                if is_dir and info.st_dev != self.fs.device:
                    seen.skipped[path] = "another file system is mounted there"
                    seen.closed.add(path)
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
        return self.ignored(path, known.entry.kind == DIR) or self._above_ignored(path)

    def _above_ignored(self, path: bytes) -> bool:
        head, _ = split(path)
        while head:
            if self.ignored(head, True):
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
        """Those that are not what they were when they were looked at."""
        self.fs.forget()
        found = set()
        for path in paths:
            before = known.get(path)
            try:
                info = self.fs.lstat(path)
            except OSError:
                found.add(path)
                continue
            was = before.identity if before is not None else None
            if (Identity.of(info) if info is not None else None) != was:
                found.add(path)
        return found

    def fresh_folders(self, paths: Iterable[bytes], known: Mapping[bytes, Known]) -> list[bytes]:
        """Directories at or below these paths that were not there before: to be watched first."""
        self.fs.forget()
        found: list[bytes] = []
        for path in paths:
            before = known.get(path)
            if before is not None and before.entry.kind == DIR:
                continue
            try:
                info = self.fs.lstat(path)
            except OSError:
                continue
            if info is None or not stat.S_ISDIR(info.st_mode) or info.st_dev != self.fs.device:
                continue
            waiting = [path]
            while waiting:
                folder = waiting.pop()
                if self.ignored(folder, True):
                    continue
                found.append(folder)
                with suppress(OSError):
                    waiting += [folder + b"/" + name for name in self.fs.folders(folder)]
        return found

    def look(
        self, paths: Iterable[bytes], known: Mapping[bytes, Known], store: ContentStore
    ) -> Seen:
        """Look at these paths alone; a directory that is new is read whole."""
        seen = Seen()
        self.fs.forget()
        wanted = set(paths)
        folders: set[bytes] = set()
        gone: set[bytes] = set()
        below: dict[bytes, bool] = {}
        for path in sorted(wanted):
            try:
                info = self.fs.lstat(path)
            except OSError as error:
                # The kernel names a watched directory with a slash as well
                seen.refused(path.rstrip(b"/"), error)
                continue
            is_dir = info is not None and stat.S_ISDIR(info.st_mode)
            head, _ = split(path)
            if head not in below:
                below[head] = self._above_ignored(path)
            if below[head] or self.ignored(path, is_dir):
                continue
            before = known.get(path)
            if info is None:
                if before is not None:
                    seen.changed[path] = None
                    if before.entry.kind == DIR:
                        gone.add(path)
                continue
            if is_dir and info.st_dev != self.fs.device:
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
    ) -> tuple[Entry | None, os.stat_result, bool]:
        mode = stat.S_IMODE(info.st_mode) & 0o777
        if stat.S_ISDIR(info.st_mode):
            # One that we may not open would be closed to the others' services too
            self.fs.folder(path)
            entry = Entry(DIR, mode)
        elif stat.S_ISLNK(info.st_mode):
            entry = Entry(LINK, 0, 0, info.st_mtime_ns, self.fs.readlink(path))
        elif stat.S_ISREG(info.st_mode):
            if info.st_size > self.limits.max_file:
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
                taken = content_of(self.fs, path, store, info)
                if taken is None:
                    seen.again.add(path)
                    return None, info, True
                digest, info = taken
            entry = Entry(FILE, mode, info.st_size, info.st_mtime_ns, digest)
        else:
            raise Forbidden("not a file, directory or link", path)
        check_entry(path, entry, self.limits)
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
        os.close(self.fs.open(path))

    def take_large(self, path: bytes, store: ContentStore) -> Known | None:
        """
        Take in one large file; C{None} if it changes under the reader, or is gone.

        Why it cannot be read to its end says the next look.
        """
        fs = TreeFs(self.path)
        try:
            taken = content_of(fs, path, store)
            if taken is None:
                return None
            digest, info = taken
            mode = stat.S_IMODE(info.st_mode) & 0o777
            entry = Entry(FILE, mode, info.st_size, info.st_mtime_ns, digest)
            check_entry(path, entry, self.limits)
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

    # -- writing

    def prepare(self, batch: Batch, known: Mapping[bytes, Known], store: ContentStore) -> None:
        """Make aside what a batch will need, as far as its contents are here; in any thread."""
        fs = self._fs
        if fs is not None:
            root = fs.device, fs.inode
            self._sites.prepare(batch.name, root, batch.entries, known, store)

    def drop_prepared(self) -> None:
        """What was prepared is not wanted any more."""
        self._sites.drop()

    def write(
        self,
        wanted: Mapping[bytes, Entry | None],
        known: Mapping[bytes, Known],
        store: ContentStore,
        moves: Sequence[Move] = (),
    ) -> Written:
        """
        Make the tree what it should be at these paths.

        @param wanted: C{None} for what should not be there.
        @param moves: directories among them that moved whole.
        """
        done = Written()
        self.fs.forget()
        wanted = dict(wanted)
        progress = self.progress
        for move in moves:
            self._guarded(self._move, move.old, known, store, done, wanted, move)
        # A few are made durable one by one: syncing the file system waits for everybody's writes
        many = sum(1 for e in wanted.values() if e is not None and e.kind == FILE) > MANY
        self._sync_each = not many
        progress.begin("paths written", len(wanted))
        with closing(progress):
            done.known.update(self._sites.write(self.fs, wanted, known, store, self._sync_each))
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
                self.fs.sync()
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
        wanted: dict[bytes, Entry | None],
        move: Move,
    ) -> None:
        """
        Rename a directory as a whole, if it holds here what it held where it was moved.

        What is ignored in it goes with it; anything else that we do not know, and it is not done.
        """
        old, new = move.old + b"/", move.new + b"/"
        inside = {path: one for path, one in known.items() if path.startswith(old)}
        if known.get(move.old) is None or self.fs.lstat(move.new) is not None:
            return
        for path, one in inside.items():
            target = new + path[len(old) :]
            if wanted.get(path, one) is not None or wanted.get(target) != one.entry:
                return
        found = self.scan(known, store, [move.old])
        if found.changed or found.again or found.young or found.large or found.skipped:
            return
        for above in sorted(ancestors(move.new)):
            entry = wanted.get(above)
            if entry is not None and entry.kind == DIR:
                self._make_folder(above, known, store, done, entry)
        self.fs.forget()
        self.fs.rename_new(move.old, move.new)
        self.fs.forget()
        top = wanted[move.new]
        info = self.fs.lstat(move.new)
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
        aside = self._trash_name()
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
                    folder, trash, last = self.fs.folder(head), self.fs.folder(TRASH), head
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
            self._displaced[put] = (path, info.st_size, info.st_mtime_ns)
            if Identity.of(info)[:3] != was[:3] or info.st_ino != was.inode:
                self._keep_edit(path, put, info, store, done)
        return left

    def _remove(
        self, path: bytes, known: Mapping[bytes, Known], store: ContentStore, done: Written
    ) -> None:
        info = self.fs.lstat(path)
        if info is None:
            done.known[path] = None
            return
        if self._unexpected(path, info, known.get(path), done):
            return
        if stat.S_ISDIR(info.st_mode):
            try:
                self.fs.rmdir(path)
            except OSError as error:
                if error.errno not in (39, 17):
                    raise
                done.kept.add(path)
                return
            done.known[path] = None
            return
        aside = self._trash_name()
        self.fs.rename_new(path, aside)
        done.known[path] = None
        self._inspect(path, aside, known.get(path), store, done)

    def _make_folder(
        self,
        path: bytes,
        known: Mapping[bytes, Known],
        store: ContentStore,
        done: Written,
        entry: Entry,
    ) -> None:
        info = self.fs.lstat(path)
        if info is None:
            self.fs.mkdir(path, entry.mode)
        elif not stat.S_ISDIR(info.st_mode):
            done.again.add(path)
            return
        elif stat.S_IMODE(info.st_mode) & 0o777 != entry.mode:
            self.fs.chmod_folder(path, entry.mode)
        info = self.fs.lstat(path)
        if info is not None:
            done.known[path] = Known(entry, Identity.of(info))

    def _put(
        self,
        path: bytes,
        known: Mapping[bytes, Known],
        store: ContentStore,
        done: Written,
        entry: Entry,
    ) -> None:
        before = known.get(path)
        info = self.fs.lstat(path)
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
        inode = make(self.fs, temporary, entry, store, self._sync_each).st_ino
        try:
            if info is None:
                try:
                    self.fs.rename_new(temporary, path)
                except FileExistsError:
                    done.again.add(path)
                    self.fs.unlink(temporary)
                    return
            elif self.fs.exchange(temporary, path):
                aside = self._trash_name()
                self.fs.rename_new(temporary, aside)
                self._inspect(path, aside, before or Known(entry, Identity.of(info)), store, done)
            else:
                aside = self._trash_name()
                self.fs.rename_new(path, aside)
                self.fs.rename_new(temporary, path)
                self._inspect(path, aside, before or Known(entry, Identity.of(info)), store, done)
        except OSError:
            with suppress(OSError):
                self.fs.unlink(temporary)
            raise
        after = self.fs.lstat(path)
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

    def _same(self, path: bytes, info: os.stat_result, entry: Entry, store: ContentStore) -> bool:
        """Whether an unknown file is what should be there already (a tree that is adopted)."""
        if entry.kind == LINK:
            return stat.S_ISLNK(info.st_mode) and self.fs.readlink(path) == entry.content
        if not stat.S_ISREG(info.st_mode) or info.st_size != entry.size:
            return False
        taken = content_of(self.fs, path, store)
        return taken is not None and taken[0] == entry.content

    def _touch(self, path: bytes, info: os.stat_result, entry: Entry, done: Written) -> bool:
        """Only mode or time differ: change those in place."""
        fd = self.fs.open(path)
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

    # -- what was displaced

    def _trash_name(self) -> bytes:
        if self.fs.trash_fd < 0:
            with suppress(FileExistsError):
                os.mkdir(TRASH, 0o700, dir_fd=self.fs.fd)
        self._counter += 1
        return TRASH + b"/%d-%d-%d" % (os.getpid(), self._now_ns(), self._counter)

    def _inspect(
        self,
        path: bytes,
        aside: bytes,
        expected: Known | None,
        store: ContentStore,
        done: Written,
    ) -> None:
        """See that what was displaced is what we knew; else it is somebody's edit."""
        info = self.fs.lstat(aside)
        if info is None:
            return
        identity = Identity.of(info)
        self._displaced[aside] = (path, info.st_size, info.st_mtime_ns)
        if expected is not None and expected.identity is not None:
            was = expected.identity
            if (identity.inode, identity.size, identity.mtime, identity.mode) == (
                was.inode,
                was.size,
                was.mtime,
                was.mode,
            ):
                return
        self._keep_edit(path, aside, info, store, done)

    def _keep_edit(
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
            taken = content_of(self.fs, aside, store)
            if taken is not None:
                digest, now = taken
                mode = stat.S_IMODE(now.st_mode) & 0o777
                entry = Entry(FILE, mode, now.st_size, now.st_mtime_ns, digest)
                done.edits[path] = Known(entry, None)
                return

    def empty_trash(self, older_than: float, store: ContentStore) -> tuple[bool, Written]:
        """
        Remove what was displaced before that many seconds.

        What was written to meanwhile, through a descriptor that an editor kept open, is an
        edit of the path where it was.

        @return: whether something is left, and the edits.
        """
        done = Written()
        try:
            names = list(self.fs.list(TRASH))
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
            was = self._displaced.pop(aside, None)
            if was is not None and (info.st_size, info.st_mtime_ns) != was[1:]:
                self._keep_edit(was[0], aside, info, store, done)
            with suppress(OSError):
                self.fs.unlink(aside)
        if not left:
            with suppress(OSError):
                self.fs.rmdir(TRASH)
        return left, done


def _below(path: bytes, tops: Sequence[bytes]) -> bool:
    return any(not top or path.startswith(top + b"/") for top in tops)


def outermost(tops: Iterable[bytes]) -> list[bytes]:
    """These directories without those that are in another of them."""
    wanted = set(tops)
    if b"" in wanted:
        return [b""]
    return sorted(top for top in wanted if not any(above in wanted for above in ancestors(top)))
