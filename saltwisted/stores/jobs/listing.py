"""
Lists of jobs that are requested again and again: each record is processed only once.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from threading import Lock
from typing import Any

from saltwisted.stores.jobs.table import checked_jobs

KEPT = 1000
"""Records of which what was made is kept: the newest ones of the lists that were asked for."""
LARGEST = 2048
"""Bytes of a record that is kept; larger ones are read each time."""
AT_ONCE = 250
"""Records that one statement reads."""

Shown = Callable[[Mapping[str, Any]], Any]
_Key = tuple[int, Any]
"""
The number of a row and its check sum: by the same two it is the same record, whatever has happened
to the file meanwhile.
"""


class Listing:
    """
    The results of a function for the records of jobs. The readers' threads share it.

    @param shown: must not change its argument; nobody may change its result.
    """

    def __init__(self, shown: Shown) -> None:
        self._shown = shown
        self._lock = Lock()
        self._kept: dict[_Key, Any] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def read(
        self, db: sqlite3.Connection, order: str, values: Sequence[Any], bad: list[int]
    ) -> list[Any]:
        """
        The results for each record, in the order of the query; damaged records are left out.

        @param order: as C{where} of L{saltwisted.stores.jobs.table.jobs_where}; the newest first.
        @param bad: takes the numbers of those that were left out.
        """
        query = f"SELECT number, CAST(crc AS INTEGER) FROM jobs WHERE {order}"  # noqa: S608 - fixed words
        with _one_view(db):
            keys: list[_Key] = db.execute(query, values).fetchall()
            found = list(map(self._kept.get, keys))
            absent = [place for place, made in enumerate(found) if made is None]
            if absent:
                made, small = self._make(db, [keys[place][0] for place in absent], bad)
                for place in absent:
                    found[place] = made.get(keys[place][0])
                self._keep([key for key in reversed(keys[:KEPT]) if key[0] in small], made)
                found = [each for each in found if each is not None]
        return found

    def _make(
        self, db: sqlite3.Connection, numbers: Sequence[int], bad: list[int]
    ) -> tuple[dict[int, Any], set[int]]:
        """By their numbers; and which of them are small enough to be kept."""
        made: dict[int, Any] = {}
        small: set[int] = set()
        rest = iter(numbers)
        while some := list(islice(rest, AT_ONCE)):
            where = f"number IN ({','.join('?' * len(some))})"
            for number, size, job in checked_jobs(db, where, some, bad, minions=False):
                made[number] = self._shown(job)
                if size <= LARGEST:
                    small.add(number)
        return made, small

    def _keep(self, keys: Sequence[_Key], made: Mapping[int, Any]) -> None:
        """The oldest first: what came last stays longest."""
        with self._lock:
            # Rows of a version without check sums may be others tomorrow
            self._kept.update((key, made[key[0]]) for key in keys if key[1] is not None)
            for key in list(islice(self._kept, max(0, len(self._kept) - KEPT))):
                del self._kept[key]


@contextmanager
def _one_view(db: sqlite3.Connection) -> Iterator[None]:
    """Several statements that see the same state of the file."""
    db.execute("BEGIN")
    try:
        yield
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")
