"""
The versions of all paths, as they are on disk.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from saltwisted.domain.roots.entry import Version
from saltwisted.stores.roots.index import IndexDatabase

_COLUMNS = "path, rid, ctr, stamp, kind, mode, size, mtime, content"


class IndexRows:
    """Read at a start, and written after each change of the index."""

    def __init__(self, database: IndexDatabase) -> None:
        self._database = database

    def all(self) -> dict[bytes, tuple[Version, ...]]:
        """All versions; siblings of a path in no particular order."""
        found: dict[bytes, tuple[Version, ...]] = {}
        for path, *rest in self._database.execute(f"SELECT {_COLUMNS} FROM version"):  # noqa: S608
            path = bytes(path)
            found[path] = (*found.get(path, ()), self._database.version(rest))
        return found

    def paths(self) -> set[bytes]:
        """All paths that have a version."""
        rows = self._database.execute("SELECT DISTINCT path FROM version")
        return {bytes(path) for (path,) in rows}

    def some(self, part: int, parts: int) -> dict[bytes, tuple[Version, ...]]:
        """The versions of one part of all paths; none if they are invalid."""
        execute = self._database.execute
        paths = execute("SELECT count(DISTINCT path) FROM version").fetchone()[0]
        each = paths // parts + 1
        found: dict[bytes, tuple[Version, ...]] = {}
        for path, *rest in execute(
            f"SELECT {_COLUMNS} FROM version WHERE path IN "  # noqa: S608 -- our own names
            "(SELECT DISTINCT path FROM version ORDER BY path LIMIT ? OFFSET ?)",
            (each, each * part),
        ):
            path = bytes(path)
            try:
                found[path] = (*found.get(path, ()), self._database.version(rest))
            except (KeyError, TypeError, ValueError):
                found[path] = ()
        return found

    def put(
        self, rows: Iterable[tuple[bytes, Sequence[Version]]], fresh: Container[bytes] = ()
    ) -> None:
        """Replace the versions of these paths; C{fresh} had none before."""
        rows = sorted(rows)
        database = self._database
        old = [path for path, _ in rows if path not in fresh]
        database.change("DELETE FROM version WHERE path", old)
        database.insert(
            "INSERT OR REPLACE INTO version",
            [(path, *database.flat(version)) for path, row in rows for version in row],
        )
