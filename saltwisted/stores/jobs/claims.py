"""
Limits on returns that only a minion vouches for.

A return is a claim if no published record of its job expects it: nobody has published the job, or
the minion was not among its targets. The rows themselves show at any time whether a return is one,
so a claim is joined to its job as soon as the record arrives. The table C{claims} is the account by
which claims are limited: it lists the returns that were claims when they arrived, and is searched
only if a minion has too many.

Everything here runs in the writer's thread of L{saltwisted.stores.jobs.store}, in its transactions.
"""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Iterable

from saltwisted.domain.jobids import expected_of
from saltwisted.stores.jobs.table import DERIVED, JOB_COLUMNS, PUBLISHED, good_job
from saltwisted.wire.msgpack import unpack_bin

LATEST = 64
"""Jobs whose minions are kept at hand, to tell claims from returns without a query."""
SLICE = 200
"""Claims that are looked at in one statement."""

Claim = tuple[str, str, float, int]
"""Jid, minion id, when it came, bytes."""


class Claims:
    """
    The account of claims.

    @ivar dropped: how many were deleted since the start, because their minion had too many.
    @ivar latest: the minion whose claims were deleted last.
    """

    def __init__(self, most: int, most_bytes: int) -> None:
        """
        @param most: how many are kept of one minion.
        @param most_bytes: and how many bytes; the newest claim stays in any case.
        """
        self.dropped = 0
        self.latest = ""
        self._most = max(most, 1)
        self._most_bytes = most_bytes
        self._expected: OrderedDict[str, tuple[bytes, bytes] | frozenset[str]] = OrderedDict()
        self._sums: dict[str, list[int]] = {}

    def forget(self) -> None:
        """A transaction failed, or rows were removed: the remembered state may be wrong."""
        self._expected.clear()
        self._sums.clear()

    def put(self, jid: str, load: bytes, minions: bytes) -> None:
        """A published record of this job is being written."""
        self._expected[jid] = (load, minions)
        self._expected.move_to_end(jid)
        while len(self._expected) > LATEST:
            self._expected.popitem(last=False)

    def changed(self, jid: str) -> None:
        """The record of this job may be another than before."""
        self._expected.pop(jid, None)

    def is_claim(self, db: sqlite3.Connection, jid: str, minion_id: str) -> bool:
        """Whether no published record expects this return."""
        found = self._expected.get(jid)
        if found is None:
            query = f"SELECT {JOB_COLUMNS} FROM jobs WHERE jid = ? AND rank = ?"  # noqa: S608 - fixed words
            row = db.execute(query, (jid, PUBLISHED)).fetchone()
            if row is None or not good_job(row):
                # A damaged record expects nobody, and must not keep returns from being stored
                return True
            self.put(jid, row[4], row[5])
            found = self._expected[jid]
        if isinstance(found, tuple):
            load, minions = found
            found = self._expected[jid] = expected_of(unpack_bin(load), unpack_bin(minions))
        return minion_id not in found

    def add(self, db: sqlite3.Connection, claims: Iterable[Claim]) -> set[tuple[str, str]]:
        """
        Add new claims to the account, and delete those beyond the limit.

        @return: jid and minion id of the deleted ones, possibly including new ones.
        """
        gone: set[tuple[str, str]] = set()
        minions = set()
        for jid, minion_id, at, size in claims:
            total = self._sum(db, minion_id)
            put = "INSERT OR IGNORE INTO claims VALUES (?, ?, ?, ?)"
            if db.execute(put, (minion_id, at, jid, size)).rowcount:
                total[0] += 1
                total[1] += size
            minions.add(minion_id)
        for minion_id in sorted(minions):
            gone.update((jid, minion_id) for jid in self._trim(db, minion_id))
        return gone

    def _sum(self, db: sqlite3.Connection, minion_id: str) -> list[int]:
        found = self._sums.get(minion_id)
        if found is None:
            query = "SELECT count(*), coalesce(sum(size), 0) FROM claims WHERE id = ?"
            found = self._sums[minion_id] = list(db.execute(query, (minion_id,)).fetchone())
        return found

    def _trim(self, db: sqlite3.Connection, minion_id: str) -> list[str]:
        all_gone: list[str] = []
        total = self._sum(db, minion_id)
        while total[0] > 1 and (total[0] > self._most or total[1] > self._most_bytes):
            query = "SELECT at, jid, size FROM claims WHERE id = ? ORDER BY at, jid LIMIT ?"
            gone: list[tuple[float, str]] = []
            kept: list[tuple[float, str]] = []
            for at, jid, size in db.execute(query, (minion_id, SLICE)).fetchall():
                if total[0] <= 1 or (total[0] <= self._most and total[1] <= self._most_bytes):
                    break
                # Its record may have come since: then it is a return like any other
                (gone if self.is_claim(db, jid, minion_id) else kept).append((at, jid))
                total[0] -= 1
                total[1] -= size
            db.executemany(
                "DELETE FROM claims WHERE id = ? AND at = ? AND jid = ?",
                [(minion_id, at, jid) for at, jid in (*gone, *kept)],
            )
            db.executemany(
                "DELETE FROM returns WHERE jid = ? AND id = ?",
                [(jid, minion_id) for _, jid in gone],
            )
            db.executemany(
                "DELETE FROM jobs WHERE jid = ? AND rank = ? "
                "AND NOT EXISTS (SELECT 1 FROM returns WHERE returns.jid = jobs.jid)",
                [(jid, DERIVED) for _, jid in gone],
            )
            if gone:
                self.dropped += len(gone)
                self.latest = minion_id
                all_gone += [jid for _, jid in gone]
        return all_gone


def prune_claims(db: sqlite3.Connection, before: float) -> None:
    """What is too old leaves the account with its return."""
    db.execute(
        "DELETE FROM claims WHERE at < ? AND NOT EXISTS (SELECT 1 FROM returns "
        "WHERE returns.jid = claims.jid AND returns.id = claims.id)",
        (before,),
    )
