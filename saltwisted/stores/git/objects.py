"""
The objects of a repository, by their names, read by libgit2.

Small blobs and directories are read immediately: an object of 64 KiB takes a fraction of a
millisecond. What takes longer to read has a row in L{Repository.large}: for blobs a worker process
lays out a file, and for directories it makes a L{Table}, which is searched here. Reactor thread
only.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections import OrderedDict
from typing import Any

from saltwisted.domain.git.sizes import Large, heard
from saltwisted.domain.git.trees import MOST_LINK, Table
from saltwisted.errors import ConfigError, StoreError

OLDEST = (1, 11)
PACKAGE = "python3-pygit2"
MOST_TREE = 4 * 1024 * 1024
"""Bytes of a directory, some 80 000 names; in a larger one nothing is found."""
AT_ONCE = 1024 * 1024
"""Bytes of a directory that libgit2 reads in the reactor's thread, in some 3 ms."""
_MOST_NAMES = 200_000
"""Names in the directories that are kept, some 100 bytes each."""
_LEAST_TREES = 8
"""Directories that are kept however many names they have: those of one path."""
_MOST_ENTRIES = 4096
_MOST_SIZES = 200_000
_MOST_BYTES = 4 * 1024 * 1024


def library() -> Any:
    """
    The module C{pygit2}.

    @raises ConfigError: it is not installed, or too old.
    """
    try:
        import pygit2
    except ImportError as error:
        raise ConfigError(
            f"gitfs needs pygit2: install the package {PACKAGE} (or pip install 'saltwisted[git]')"
        ) from error
    said = str(getattr(pygit2, "__version__", "0.0"))
    version = tuple(int(part) for part in said.split(".")[:2] if part.isdigit())
    if version < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise ConfigError(
            f"gitfs needs pygit2 {oldest} or newer, and this is {said}: install the"
            f" package {PACKAGE}"
        )
    # What is worth keeping is kept here; libgit2 would keep 256 MiB of what was read, as well
    pygit2.settings.enable_caching(False)
    return pygit2


class Damaged(StoreError):
    """An object is missing, or does not match its name."""


class Elsewhere(StoreError):
    """
    A directory is too large to be read here. When L{Repository.keep} has it, it can be searched.

    @ivar oid: its name.
    """

    def __init__(self, oid: str) -> None:
        super().__init__("is too large to be read at once", oid)
        self.oid = oid


class Repository:
    """
    One repository on disk.

    @ivar large: what is not read here: blobs with their sizes, and anything else with the number
        of bytes that have to be unpacked to read it.
    @ivar reads: how many directories were read.
    """

    def __init__(self, path: str, large: Large) -> None:
        self.path, self.large = path, heard(large)
        self.reads = 0
        self._pygit2 = library()
        self._opened: Any = None
        self._trees: OrderedDict[str, Any] = OrderedDict()
        self._names = 0
        self._entries: OrderedDict[tuple[str, str], tuple[int, str, int]] = OrderedDict()
        self._sizes: OrderedDict[str, int] = OrderedDict()
        self._contents: OrderedDict[str, bytes] = OrderedDict()
        self._held = 0

    @property
    def _repo(self) -> Any:
        if self._opened is None:
            try:
                self._opened = self._pygit2.Repository(self.path)
            except (KeyError, self._pygit2.GitError, OSError) as error:
                raise Damaged(f"git cannot open it: {error}", self.path) from error
        return self._opened

    def learn(self, large: Large) -> None:
        """More objects have come."""
        self.large = heard(large)

    def move(self, path: str, large: Large) -> None:
        """
        The repository was recreated elsewhere. All readers of this object read from there, because
        the old place will soon be removed; that includes readers of an earlier commit.
        """
        if path != self.path:
            self.close()
            self.path = path
        self.large = heard(large)

    def close(self) -> None:
        """Let its files go; it opens itself again."""
        opened, self._opened = self._opened, None
        self._trees.clear()
        self._entries.clear()
        self._names = 0
        if opened is not None:
            opened.free()

    def look(self, tree: str, name: str) -> tuple[int, str, int] | None:
        """
        What a directory has by a name, and how many names it has.

        @raises Damaged: it cannot be read.
        @raises Elsewhere: it is too large.
        """
        known = self._entries.get((tree, name))
        if known is not None:
            self._entries.move_to_end((tree, name))
            return known
        where = self._tree(tree)
        if isinstance(where, Table):
            found = where.get(name)
        else:
            there = _entry(where, name)
            found = (int(there.filemode), str(there.id)) if there is not None else None
        if found is None:
            return None
        entry = self._entries[tree, name] = *found, len(where)
        if len(self._entries) > _MOST_ENTRIES:
            self._entries.popitem(last=False)
        return entry

    def keep(self, oid: str, table: Table) -> None:
        """This is a directory that is too large to be read here."""
        self._keep(oid, table)

    def _tree(self, oid: str) -> Any:
        known = self._trees.get(oid)
        if known is not None:
            self._trees.move_to_end(oid)
            return known
        if self.large.get(oid, 0) > AT_ONCE:
            raise Elsewhere(oid)
        tree = self._object(oid)
        if tree.type_str != "tree":
            raise Damaged("is not a directory", f"{self.path}:{oid}")
        self.reads += 1
        return self._keep(oid, tree)

    def _keep(self, oid: str, tree: Any) -> Any:
        self._trees[oid] = tree
        self._names += len(tree) + 1
        while self._names > _MOST_NAMES and len(self._trees) > _LEAST_TREES:
            self._names -= len(self._trees.popitem(last=False)[1]) + 1
        return tree

    def target(self, oid: str) -> str | None:
        """The target of a link; C{None} if it is not text."""
        if oid in self.large:
            return None
        data = self.content(oid)
        try:
            return data.decode() if len(data) <= MOST_LINK else None
        except UnicodeDecodeError:
            return None

    def size(self, oid: str) -> int:
        """
        The size of a blob.

        @raises Damaged: it cannot be read.
        """
        size = self.large.get(oid)
        if size is None:
            size = self._sizes.get(oid)
        if size is None:
            size = len(self.content(oid))
        return size

    def content(self, oid: str) -> bytes:
        """
        A small blob, which is what its name says.

        @raises Damaged: it cannot be read.
        """
        known = self._contents.get(oid)
        if known is not None:
            self._contents.move_to_end(oid)
            return known
        blob = self._object(oid)
        if blob.type_str != "blob":
            raise Damaged("is not a file", f"{self.path}:{oid}")
        data = bytes(blob.data)
        named = hashlib.new("sha1" if len(oid) == 40 else "sha256", usedforsecurity=False)
        named.update(b"blob %d\0" % len(data))
        named.update(data)
        if named.hexdigest() != oid:
            raise Damaged("is damaged", f"{self.path}:{oid}")
        self._sizes[oid] = len(data)
        if len(self._sizes) > _MOST_SIZES:
            self._sizes.popitem(last=False)
        self._contents[oid] = data
        self._held += len(data) + 100
        while self._held > _MOST_BYTES and len(self._contents) > 1:
            self._held -= len(self._contents.popitem(last=False)[1]) + 100
        return data

    def has(self, oid: str) -> bool:
        """Whether there is such an object."""
        try:
            return oid in self._repo
        except (Damaged, ValueError, self._pygit2.GitError):
            return False

    def commit(self, prefix: str) -> tuple[str, str] | None:
        """The commit whose name begins so, and its tree; C{None} if there is not exactly one."""
        try:
            # What has this name may be anything, of any size
            if str(self._repo.expand_id(prefix)) in self.large:
                return None
            found = self._repo[prefix]
        except (KeyError, ValueError, self._pygit2.GitError):
            return None
        if found.type_str != "commit":
            return None
        return str(found.id), str(found.tree_id)

    def _object(self, oid: str) -> Any:
        try:
            return self._repo[oid]
        except (KeyError, ValueError, self._pygit2.GitError) as error:
            reason = f"cannot be read: {error}"
            raise Damaged(reason, f"{self.path}:{oid}") from error


def _entry(tree: Any, name: str) -> Any:
    """
    The entry of a tree by its name; C{None} if there is none.

    Not C{tree[name]}: each time, that keeps a reference to the name for good (pygit2 1.15 to 1.21),
    which is 64 bytes of every file that a minion asks for. Git sorts a directory as if its name
    ended with a slash.
    """
    try:
        raw = name.encode()
    except UnicodeEncodeError:
        return None
    places = range(len(tree))
    for wanted in (raw, raw + b"/"):
        place = bisect_left(places, wanted, key=lambda number: _sorted_by(tree[number]))
        if place < len(places) and tree[place].raw_name == raw:
            return tree[place]
    return None


def _sorted_by(entry: Any) -> bytes:
    raw: bytes = entry.raw_name
    return raw + b"/" if entry.type_str == "tree" else raw
