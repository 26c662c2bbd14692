"""
The votes of a member on its disk, and with them the receipts: C{claims.sqlite}.

Rows that are written together reach the disk together, by C{fsync}, before anybody is informed. All
blocking work is done in a thread, one call after another.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

from twisted.internet.defer import Deferred, DeferredLock
from twisted.logger import Logger

from saltwisted.domain.claims.electorate import decode_electorate, encode_electorate
from saltwisted.domain.claims.voter import (
    Adopt,
    Delete,
    Floor,
    Memory,
    Put,
    Vote,
    Whole,
    Write,
    node_of,
)
from saltwisted.domain.claims.words import Receipt
from saltwisted.domain.targeting.globs import globbed
from saltwisted.errors import StoreError, WireError
from saltwisted.stores.batches import Batches
from saltwisted.stores.database import (
    change_many,
    damage,
    insert_many,
    open_database,
    open_or_begin,
    pieces,
    transaction,
)
from saltwisted.stores.telling import Later, at_once
from saltwisted.wire.msgpack import pack_bin, unpack_bin

MIGRATIONS = (
    """
    CREATE TABLE votes (
        number INTEGER PRIMARY KEY, key TEXT NOT NULL, term INTEGER NOT NULL, holder TEXT NOT NULL,
        is_duty INTEGER NOT NULL, plan BLOB, accepted INTEGER NOT NULL, is_first INTEGER NOT NULL,
        what TEXT NOT NULL, event TEXT NOT NULL, begun REAL NOT NULL, ended REAL,
        result TEXT NOT NULL
    );
    CREATE INDEX votes_ended ON votes (ended);
    CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB);
    """,
    "ALTER TABLE votes ADD COLUMN came TEXT NOT NULL DEFAULT '';",
)
COLUMNS = (
    "number, key, term, holder, is_duty, plan, accepted, is_first, what, event, begun, ended,"
    " result, came"
)
MOST_RECEIPTS = 1_000_000
"""Of a master alone."""
MOST_ENDED = 20_000
"""Ended acts that are remembered after a start, so that they are not begun again."""

Run = Callable[..., Deferred[Any]]


class ClaimStore:
    """
    @param run: calls in a thread.
    """

    log = Logger()

    def __init__(
        self,
        path: str,
        run: Run,
        cluster: str,
        key: str,
        damaged: str = "what was voted is lost",
        most: int = 0,
        later: Later = at_once,
    ) -> None:
        """
        @param cluster: whose votes these are, with C{key}: what this node voted in another cluster
            is no vote in this one. A master that was alone keeps its key when it joins.
        @param damaged: what it means that the file is.
        @param most: how many rows of what has ended stay at most; 0: all that are young enough.
        @param later: as for L{Batches}.
        """
        self.path = path
        self._owner = cluster, key
        self._damaged, self._most = damaged, most
        self._run = run
        self._turn = DeferredLock()
        self._db: sqlite3.Connection | None = None
        self._batches: Batches[list[Write]] = Batches(
            lambda work: self._in_turn(self._write, work), later
        )

    # -- start and end

    def load(self) -> Deferred[Memory]:
        """Open the file, and read the votes; a damaged file is moved aside, as if it were lost."""
        return self._in_turn(self._load)

    def _in_turn(self, function: Callable[..., Any], *args: Any) -> Deferred[Any]:
        """In a thread, when what was asked for before is done: all have one connection."""
        return self._turn.run(lambda: self._run(function, *args))

    def _load(self) -> Memory:
        return open_or_begin(self.path, self._open, self._tell_damage)

    def _tell_damage(self, error: str) -> None:
        self.log.error(
            "{path} is damaged ({error}) and was put aside: {means}",
            path=self.path,
            error=error,
            means=self._damaged,
        )

    def _open(self) -> Memory:
        self._db = open_database(self.path, MIGRATIONS)
        try:
            own(self._db, *self._owner)
            return read(self._db)
        except WireError as error:
            self._close()
            raise damage(str(error)) from error
        except BaseException:
            self._close()
            raise

    def close(self) -> Deferred[None]:
        """When all is written."""
        return self._batches.written().addCallback(lambda _: self._turn.run(self._close))

    def _close(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            db.close()

    # -- writes

    def write(self, writes: Iterable[Write]) -> Deferred[None]:
        """
        Fires when all of it is on disk.

        @return: fails with L{StoreError} when the disk refuses; nothing is written then.
        """
        return self._batches.add(list(writes))

    def _write(self, work: Sequence[Sequence[Write]]) -> None:
        if self._db is None:
            raise StoreError("it is closed", self.path)
        try:
            commit(self._db, chain.from_iterable(work))
        except sqlite3.Error as error:
            raise StoreError(str(error), self.path) from error

    # -- receipts

    def receipts(self, event: str, limit: int) -> Deferred[Sequence[Receipt]]:
        """The newest, oldest first."""
        return self._in_turn(self._receipts, event, limit)

    def _receipts(self, event: str, limit: int) -> Sequence[Receipt]:
        if self._db is None:
            return []
        try:
            return read_receipts(self._db, event, limit)
        except sqlite3.Error as error:
            raise StoreError(str(error), self.path) from error

    def prune(self, before: float) -> Deferred[int]:
        """Delete the receipts of what had ended before then."""
        return self._in_turn(self._prune, before)

    def _prune(self, before: float) -> int:
        if self._db is None:
            return 0
        try:
            return delete_receipts(self._db, before, self._most)
        except sqlite3.Error as error:
            raise StoreError(str(error), self.path) from error


def own(db: sqlite3.Connection, cluster: str, key: str) -> None:
    """
    From now on these are the votes of this member of this cluster. Of another member's votes only
    the receipts stay; they do not count as votes.
    """
    owner = f"{cluster}/{key}"
    found = db.execute("SELECT value FROM meta WHERE name = 'owner'").fetchone()
    if found is not None and found[0] == owner:
        return
    db.execute("BEGIN IMMEDIATE")
    db.execute("DELETE FROM votes WHERE ended IS NULL OR key LIKE 'electorate/%'")
    db.execute("DELETE FROM meta")
    _set(db, "owner", owner)
    _set(db, "past", db.execute("SELECT max(number) FROM votes").fetchone()[0] or 0)
    db.execute("COMMIT")


def commit(db: sqlite3.Connection, work: Iterable[Write]) -> None:
    """One transaction."""
    # In their order: a row may be put and deleted in one transaction
    votes: dict[int, Vote | None] = {}
    others: list[Adopt | Whole | Floor] = []
    for write in work:
        if isinstance(write, Put):
            votes[write.vote.number] = write.vote
        elif isinstance(write, Delete):
            votes[write.number] = None
        else:
            others.append(write)
    rows = [_row(vote) for _, vote in sorted(votes.items()) if vote is not None]
    gone = [number for number, vote in votes.items() if vote is None]
    # What is not a vote may take two statements
    with transaction(db, pieces(len(rows)) + pieces(len(gone)) + 2 * len(others)):
        for other in others:
            if isinstance(other, Adopt):
                _set(db, "electorate", pack_bin(encode_electorate(other.electorate)))
            elif isinstance(other, Whole):
                _set(db, "whole", b"1")
            else:
                _raise_floor(db, other.term)
        insert_many(db, f"INSERT OR REPLACE INTO votes ({COLUMNS})", rows)
        change_many(db, "DELETE FROM votes WHERE number", gone)


def _set(db: sqlite3.Connection, name: str, value: Any) -> None:
    db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))


def _raise_floor(db: sqlite3.Connection, term: int) -> None:
    known = db.execute("SELECT value FROM meta WHERE name = 'floor'").fetchone()
    _set(db, "floor", max(term, int(known[0]) if known else 0))


def _row(vote: Vote) -> tuple[Any, ...]:
    return (
        vote.number,
        vote.key,
        vote.term,
        vote.holder,
        vote.is_duty,
        vote.plan,
        vote.accepted,
        vote.is_first,
        vote.what,
        vote.event,
        vote.begun,
        vote.ended,
        vote.result,
        vote.came,
    )


def _vote(row: Sequence[Any]) -> Vote:
    return Vote(
        number=row[0],
        key=row[1],
        term=row[2],
        holder=row[3],
        is_duty=bool(row[4]),
        plan=row[5],
        accepted=row[6],
        is_first=bool(row[7]),
        what=row[8],
        event=row[9],
        begun=row[10],
        ended=row[11],
        result=row[12],
        came=row[13],
    )


def read(db: sqlite3.Connection) -> Memory:
    """
    All votes that have not ended, and the newest of the others.

    @raises WireError: the stored data is invalid.
    """
    meta = dict(db.execute("SELECT name, value FROM meta"))
    past = int(meta.get("past") or 0)
    open_rows = db.execute(f"SELECT {COLUMNS} FROM votes WHERE ended IS NULL")  # noqa: S608
    votes = [_vote(row) for row in open_rows]
    ended = db.execute(
        f"SELECT {COLUMNS} FROM votes WHERE ended IS NOT NULL"  # noqa: S608 - a constant
        " AND number > ? ORDER BY number DESC LIMIT ?",
        (past, MOST_ENDED),
    ).fetchall()
    votes += [_vote(row) for row in ended]
    floor = int(meta.get("floor") or 0)
    if len(ended) == MOST_ENDED:
        oldest = db.execute(
            "SELECT max(term) FROM votes WHERE ended IS NOT NULL AND number > ? AND number < ?",
            (past, ended[-1][0]),
        ).fetchone()[0]
        floor = max(floor, oldest or 0)
    packed = meta.get("electorate")
    electorate = decode_electorate(unpack_bin(packed)) if packed else None
    return Memory(
        sorted(votes, key=lambda vote: vote.number), electorate, floor, "whole" not in meta, past
    )


def read_receipts(db: sqlite3.Connection, event: str, limit: int) -> list[Receipt]:
    """Those of short acts whose event's tag fits, oldest first."""
    found: list[Receipt] = []
    rows = db.execute(
        "SELECT key, term, holder, what, event, begun, ended, result FROM votes"
        " WHERE is_duty = 0 AND key NOT LIKE 'electorate/%' ORDER BY number DESC"
    )
    for key, term, holder, what, tag, begun, ended, result in rows:
        if event and not globbed(tag, event):
            continue
        found.append(
            Receipt(
                key=key,
                term=term,
                node=node_of(holder),
                what=what,
                event=tag,
                begun=begun,
                ended=ended,
                result=result,
            )
        )
        if len(found) >= limit:
            break
    return found[::-1]


def delete_receipts(db: sqlite3.Connection, before: float, most: int = 0) -> int:
    """
    Delete receipts of what had ended before then, or had begun and was abandoned; their highest
    term is kept.

    @param most: how many receipts of ended claims stay, the newest; 0: all.
    """
    old = (
        "ended < ? OR (ended IS NULL AND is_duty = 0 AND begun < ?)"
        " OR (ended IS NOT NULL AND number <= ?)"
    )
    db.execute("BEGIN IMMEDIATE")
    try:
        newest = db.execute("SELECT max(number) FROM votes").fetchone()[0] or 0
        what = (before, before, newest - most if most else -1)
        query = f"SELECT max(term) FROM votes WHERE {old}"  # noqa: S608 - a constant
        highest = db.execute(query, what).fetchone()[0]
        if highest is not None:
            _raise_floor(db, int(highest))
        count = db.execute(f"DELETE FROM votes WHERE {old}", what).rowcount  # noqa: S608
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise
    return int(count)
