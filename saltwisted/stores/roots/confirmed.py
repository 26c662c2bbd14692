"""
What each peer has confirmed to know. It is kept because it later reveals an old copy of the index.
"""

from __future__ import annotations

from saltwisted.domain.causality.knowledge import joined
from saltwisted.domain.roots.entry import Knowledge, ReplicaId
from saltwisted.stores.roots.index import IndexDatabase


class Confirmed:
    """
    In memory and in the database.

    @ivar peers: node to what it is known to have.
    """

    def __init__(self, database: IndexDatabase) -> None:
        self.peers: dict[str, dict[ReplicaId, int]] = {}
        self._database = database

    def reload(self) -> None:
        """Read it again from the disk."""
        found: dict[str, dict[ReplicaId, int]] = {}
        rows = self._database.execute("SELECT master, rid, ctr FROM peer")
        for peer, rid, counter in rows:
            found.setdefault(peer, {})[self._database.replica(rid)] = counter
        self.peers = found

    def add(self, peer: str, knowledge: Knowledge) -> None:
        """A peer has said what it knows."""
        known = self.peers.get(peer, {})
        if all(known.get(replica, 0) >= counter for replica, counter in knowledge.items()):
            return
        known = self.peers[peer] = joined(known, knowledge)
        database = self._database
        with database.transaction():
            database.execute("DELETE FROM peer WHERE master=?", (peer,))
            rows = [(peer, database.number(replica), last) for replica, last in known.items()]
            database.insert("INSERT INTO peer", rows)

    def all(self) -> dict[ReplicaId, int]:
        """What one of them knows at least."""
        found: dict[ReplicaId, int] = {}
        for vector in self.peers.values():
            found = joined(found, vector)
        return found
