"""
Rows of the index that are only in the log so far.

Of a large batch only the log is written at first. Its rows follow when nobody waits; if the process
ends before that, the next start makes them from the log.
"""

from __future__ import annotations

from collections.abc import Collection

from saltwisted.domain.roots.index import Index
from saltwisted.stores.roots.index import IndexDatabase
from saltwisted.stores.roots.indexrows import IndexRows


class UnwrittenRows:
    """The paths whose rows still have to be written; true if there are any."""

    def __init__(self, database: IndexDatabase, rows: IndexRows) -> None:
        self._database = database
        self._rows = rows
        self._paths: set[bytes] = set()
        self._fresh: set[bytes] = set()

    def __bool__(self) -> bool:
        return bool(self._paths)

    def add(self, paths: Collection[bytes], fresh: Collection[bytes] = ()) -> None:
        """
        These are written later.

        @param fresh: those of them that had no row before.
        """
        self._fresh.update(path for path in fresh if path not in self._paths)
        self._paths.update(paths)

    def put(self, index: Index, paths: set[bytes], fresh: set[bytes]) -> None:
        """Write these rows, and those that were left to be written; inside a transaction."""
        fresh = (fresh - self._paths) | self._fresh
        rows = [(path, index.rows.get(path, ())) for path in paths | self._paths]
        self._rows.put(rows, fresh)
        self._database.set("behind", 0)

    def begin(self, number: int) -> None:
        """
        From this batch on the log has what the rows have not; inside a transaction.
        """
        if not self._paths:
            self._database.set("behind", number)

    def written(self) -> None:
        """The transaction in which all were put is done."""
        self._paths.clear()
        self._fresh.clear()
