"""
Versions that lost against others. They are kept until an operator has looked at them, or time has
passed.
"""

from __future__ import annotations

from collections.abc import Iterable

from saltwisted.domain.causality.knowledge import Dot
from saltwisted.domain.roots.entry import ReplicaId, Version
from saltwisted.stores.roots.index import IndexDatabase


class Conflicts:
    """
    Stored in the database. Versions are added, closed and dropped inside a transaction.

    @ivar open: how many wait for an operator, according to the last L{count}.
    """

    def __init__(self, database: IndexDatabase) -> None:
        self.open = 0
        self._database = database
        self.count()

    def count(self) -> None:
        """Count those that are open."""
        self.open = sum(1 for one in self.all() if one[3] == "open")

    def all(self) -> list[tuple[bytes, Version, float, str]]:
        """Path, version, when it was noticed, and C{open}, C{adopted} or C{settled}."""
        rows = self._database.execute("SELECT * FROM conflict ORDER BY path")
        return [
            (bytes(path), self._database.version(rest), at, state)
            for path, *rest, at, state in rows
        ]

    def add(self, lost: Iterable[tuple[bytes, Version]], at: float, state: str = "open") -> int:
        """Keep versions that lost; how many are new."""
        count = 0
        for path, version in lost:
            cursor = self._database.execute(
                "INSERT OR IGNORE INTO conflict VALUES(?,?,?,?,?,?,?,?,?,?,?)",
                (path, *self._database.flat(version), at, state),
            )
            count += cursor.rowcount
        return count

    def close(self, path: bytes, dot: Dot[ReplicaId]) -> None:
        """An operator closed a conflict."""
        self._database.execute(
            "UPDATE conflict SET state='settled' WHERE path=? AND rid=? AND ctr=?",
            (path, self._database.number(dot.source), dot.number),
        )

    def drop(self, before: float) -> None:
        """Forget conflicts that are older."""
        self._database.execute("DELETE FROM conflict WHERE at<?", (before,))
