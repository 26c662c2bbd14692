"""
The batches that are kept for peers that lack them, in the order of their arrival.
"""

from __future__ import annotations

from collections.abc import Iterable

from saltwisted.domain.roots import codec
from saltwisted.domain.roots.entry import Batch, Coded, Knowledge, ReplicaId
from saltwisted.stores.roots.index import IndexDatabase

LOG_BYTES = 64 * 1024 * 1024


class BatchLog:
    """
    Stored in the database, with an index in memory.

    @ivar rows: number, replica, lo and hi of each.
    @ivar floor: for each replica, the number up to which batches are no longer kept.
    @ivar last_packed: the batch that was added last, by its name, in its encoded form.
    """

    def __init__(self, database: IndexDatabase) -> None:
        self._database = database
        self.rows = self._read()
        self.floor = database.vector("floor")
        self.last_packed: tuple[tuple[ReplicaId, int], bytes] | None = None

    @property
    def next_number(self) -> int:
        """Of the batch that is added next."""
        return self.rows[-1][0] + 1 if self.rows else 1

    def put(self, batch: Batch, now: float, came: bytes, coded: Coded | None) -> None:
        """
        Write a batch; inside a transaction, after which it is L{added}.

        @param came: the batch as it arrived, with its moves folded; stored like that for others.
        @param coded: its paths, if they are coded already.
        """
        body = came if came and not batch.moves else codec.pack_batch(batch, coded=coded)
        short = (came or codec.pack_batch(batch, folded=True)) if batch.moves else b""
        self.last_packed = batch.name, short or body
        self._add(batch, now, body, short)

    def _add(self, batch: Batch, at: float, body: bytes, short: bytes) -> None:
        """Keep a batch, as it travels: plain, and folded (empty if that is no shorter)."""
        replica = self._database.number(batch.replica)
        self._database.execute(
            "INSERT INTO batch(n, rid, lo, hi, at, body, short) VALUES(?,?,?,?,?,?,?)",
            (self.next_number, replica, batch.lo, batch.hi, at, body, short),
        )

    def _read(self) -> list[tuple[int, ReplicaId, int, int]]:
        return [
            (number, self._database.replica(rid), lo, hi)
            for number, rid, lo, hi in self._database.execute(
                "SELECT n, rid, lo, hi FROM batch ORDER BY n"
            )
        ]

    def body(self, replica: ReplicaId, lo: int, short: bool = False) -> bytes | None:
        """A batch as it travels; nothing if it is not kept."""
        row = self._database.execute(
            "SELECT body, short FROM batch WHERE rid=? AND lo=?",
            (self._database.find_number(replica), lo),
        ).fetchone()
        if row is None:
            return None
        return bytes(row[1]) if short and row[1] else bytes(row[0])

    def added(self, batch: Batch) -> None:
        """The transaction in which it was put is done."""
        self.rows.append((self.next_number, batch.replica, batch.lo, batch.hi))

    def raise_floor(self, before: Knowledge, knowledge: Knowledge) -> None:
        """What is known now and was not before came without its batches."""
        for replica, counter in knowledge.items():
            if counter > before.get(replica, 0):
                self.floor[replica] = max(counter, self.floor.get(replica, 0))

    def put_floor(self) -> None:
        """Write the floor; inside a transaction."""
        self._database.put_vector("floor", self.floor)

    def drop_old(self, before: float) -> None:
        """Forget batches that are too old, or too many; inside a transaction."""
        old = []
        total = 0
        for number, rid, hi, at, size in self._database.execute(
            "SELECT n, rid, hi, at, length(body) + length(short) FROM batch ORDER BY n DESC"
        ):
            total += size
            if at < before or total > LOG_BYTES:
                old.append(number)
                replica = self._database.replica(rid)
                self.floor[replica] = max(hi, self.floor.get(replica, 0))
        self._drop(old)
        self.put_floor()

    def _drop(self, numbers: Iterable[int]) -> None:
        self._database.change("DELETE FROM batch WHERE n", numbers)

    def drop_unknown(self, replicas: tuple[ReplicaId, ...], knowledge: Knowledge) -> None:
        """Forget batches of these replicas of which we know nothing; inside a transaction."""
        self._drop(
            number
            for number, replica, _, hi in self.rows
            if replica in replicas and hi > knowledge.get(replica, 0)
        )

    def reload(self) -> None:
        """Batches were dropped: look again which are kept."""
        self.rows = self._read()

    def missing_for(self, theirs: Knowledge) -> list[tuple[ReplicaId, int]] | None:
        """
        The batches that a peer lacks, in an order in which it can apply them.

        C{None} if the log does not reach back to what the peer knows: it needs the whole state.
        """
        for replica, low in self.floor.items():
            if theirs.get(replica, 0) < low:
                return None
        return [(replica, lo) for _, replica, lo, hi in self.rows if hi > theirs.get(replica, 0)]
