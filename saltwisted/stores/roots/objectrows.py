"""
Where objects are, as it is on disk, and how long an object without references is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from saltwisted.stores.roots.index import IndexDatabase
from saltwisted.stores.roots.places import Place


class ObjectRows:
    """Stored in the database; changed inside a transaction."""

    def __init__(self, database: IndexDatabase) -> None:
        self._database = database

    def places(self) -> dict[bytes, Place]:
        """Where all objects are."""
        rows = self._database.execute("SELECT hash, size, pack, off FROM object")
        return {bytes(digest): Place(size, pack, offset) for digest, size, pack, offset in rows}

    def put(self, places: Mapping[bytes, Place]) -> None:
        """Remember where objects are."""
        rows = [(digest, *place, None) for digest, place in sorted(places.items())]
        self._database.insert("INSERT OR REPLACE INTO object", rows)

    def drop(self, digests: Iterable[bytes]) -> None:
        """Forget objects."""
        self._database.change("DELETE FROM object WHERE hash", digests)

    def ends(self) -> dict[bytes, float | None]:
        """Object to the time until which it is kept though nothing refers to it."""
        rows = self._database.execute("SELECT hash, until FROM object")
        return {bytes(digest): until for digest, until in rows}

    def put_ends(self, ends: Mapping[bytes, float | None]) -> None:
        """Change until when objects are kept."""
        digests: dict[float | None, list[bytes]] = {}
        for digest, until in ends.items():
            digests.setdefault(until, []).append(digest)
        for until, some in digests.items():
            self._database.change("UPDATE object SET until=? WHERE hash", some, until)
