"""
What is known of a working tree: what was at each path when it was last scanned or written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from saltwisted.domain.roots.entry import TreeEntry
from saltwisted.domain.roots.manifest import Generation
from saltwisted.stores.roots.index import IndexDatabase
from saltwisted.stores.roots.treefs import Identity


class Known(NamedTuple):
    """
    What is in the working tree at a path, as far as we know. Without an identity, it must be
    scanned again.
    """

    entry: TreeEntry
    identity: Identity | None


_Changes = tuple[Sequence[tuple[bytes, bytes]], Mapping[bytes, Known | None]]
"""Directories that were renamed whole, then what is at these paths."""


class KnownTree:
    """
    In memory and in the database.

    @param may_wait: whether it may be written later, together with other things.
    @ivar known: path to what is there.
    """

    def __init__(self, database: IndexDatabase, may_wait: Callable[[], bool]) -> None:
        self._database = database
        self.known = self._read()
        self._may_wait = may_wait
        self._unwritten: list[_Changes] = []

    def remember(
        self, tree: Mapping[bytes, Known | None], moved: Sequence[tuple[bytes, bytes]] = ()
    ) -> None:
        """
        What is in the working tree at these paths now.

        If rows wait to be written, this waits with them, and delays nobody who waits for a large
        change (50 ms for 10 000 paths). After a crash before that, the tree is found to match what
        is committed.

        @param moved: directories that were renamed as a whole, from and to: what is known of a path
            in them applies to the new path, if the same is to be remembered of it.
        """
        if not tree:
            return
        moves, rest = self._moves_whole(tree, moved) if moved else ((), tree)
        if self._may_wait():
            self._unwritten.append((moves, rest))
        else:
            with self._database.transaction():
                self._put((moves, rest))
        self.take(tree)

    def put(self, tree: Mapping[bytes, Known | None] | None = None) -> None:
        """
        Write what is known of these paths, after what was left to be written; in a transaction.
        """
        self._put(((), tree or {}))

    def _put(self, *more: _Changes) -> None:
        for moves, rest in (*self._unwritten, *more):
            for old, new in moves:
                self._move(old, new)
            self._write(rest.items())

    def _read(self) -> dict[bytes, Known]:
        found = {}
        rows = self._database.execute("SELECT * FROM tree")
        for path, kind, mode, size, mtime, content, stat in rows:
            identity = None
            if stat:
                identity = Identity(*(int(part) for part in bytes(stat).split()))
            entry = TreeEntry(kind, mode, size, mtime, bytes(content))
            found[bytes(path)] = Known(entry, identity)
        return found

    def _write(self, known: Iterable[tuple[bytes, Known | None]]) -> None:
        known = sorted(known, key=itemgetter(0))
        gone = [path for path, one in known if one is None]
        self._database.change("DELETE FROM tree WHERE path", gone)
        self._database.insert(
            "INSERT OR REPLACE INTO tree",
            [
                (
                    path,
                    one.entry.kind,
                    one.entry.mode,
                    one.entry.size,
                    one.entry.mtime,
                    one.entry.content,
                    b"%d %d %d %d %d %d" % one.identity if one.identity else b"",
                )
                for path, one in known
                if one is not None
            ],
        )

    def _move(self, old: bytes, new: bytes) -> None:
        """What is known of all that is below one directory, holds below another one now."""
        inside = (old + b"/", old + b"0")
        self._database.execute(
            "INSERT OR REPLACE INTO tree SELECT CAST(? || substr(path, ?) AS BLOB), kind, mode, "
            "size, mtime, content, stat FROM tree WHERE path > ? AND path < ?",
            (new, len(old) + 1, *inside),
        )
        self._database.execute("DELETE FROM tree WHERE path > ? AND path < ?", inside)

    def written(self) -> None:
        """The transaction in which all was put is done."""
        self._unwritten.clear()

    def take(self, tree: Mapping[bytes, Known | None]) -> None:
        """Replace what is known, in memory."""
        for path, known in tree.items():
            if known is None:
                self.known.pop(path, None)
            else:
                self.known[path] = known

    def _moves_whole(
        self, tree: Mapping[bytes, Known | None], moved: Sequence[tuple[bytes, bytes]]
    ) -> _Changes:
        """The moves that say all about what is in those directories, and the paths elsewhere."""
        moves = []
        rest = dict(tree)
        for old, new in moved:
            before, after = old + b"/", new + b"/"
            inside = [path for path in self.known if path.startswith(before)]
            pairs = [(path, after + path[len(before) :]) for path in inside]
            same = all(
                rest.get(target) is self.known[path] and path in rest and rest[path] is None
                for path, target in pairs
            )
            if same and not any(path.startswith(after) for path in self.known):
                moves.append((old, new))
                for path, target in pairs:
                    del rest[path], rest[target]
        return moves, rest

    def pending(self, generation: Generation) -> dict[bytes, TreeEntry | None]:
        """Where the working tree is not what a generation says; C{None}: to be removed."""
        tree = self.known
        found: dict[bytes, TreeEntry | None] = {}
        there = 0
        for head, folder in generation.folders.items():
            above = head + b"/" if head else b""
            for name, entry in folder.items():
                known = tree.get(above + name)
                if known is None:
                    found[above + name] = entry
                    continue
                there += 1
                if known.entry is not entry and known.entry != entry:
                    found[above + name] = entry
        if there < len(tree):
            found.update((path, None) for path in tree if generation.get(path) is None)
        return found
