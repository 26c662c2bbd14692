"""
Jobs whose minions may still ask for files of theirs: what has to be pinned again after a start.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from saltwisted.domain.roots.pins import READING, reads_files
from saltwisted.stores.jobs.table import PUBLISHED, ids_where, jobs_where

MOST = 10_000
"""Jobs that are looked at, the newest."""

Unfinished = tuple[str, Mapping[str, Any], Sequence[str]]

_READS = " OR ".join("instr(',' || fun, ?)" for _ in READING)


def unfinished(db: sqlite3.Connection, since: float, bad: list[int]) -> list[Unfinished]:
    """
    Jid, record and missing minions of each job that reads files and has not returned.

    @param since: seconds since 1970; what was published before is left out.
    @param bad: takes the numbers of rows that are not what was written.
    """
    where = f"rank = {PUBLISHED} AND started >= ? AND ({_READS}) ORDER BY started DESC LIMIT {MOST}"
    words = [f",{word}" for word in READING]
    jids = [
        jid
        for (jid,) in db.execute(f"SELECT jid FROM jobs WHERE {where}", (since, *words))  # noqa: S608 - fixed words
    ]
    found: list[Unfinished] = []
    for jid in jids:
        # One at a time: all of them may be more than there is memory
        for job in jobs_where(db, "jid = ?", (jid,), bad):
            returned = set(ids_where(db, "WHERE jid = ?", (jid,)))
            missing = [minion for minion in job["minions"] if minion not in returned]
            if missing and job.get("generation") and reads_files(job.get("fun")):
                few = {
                    name: job[name] for name in ("generation", "trees", "commits") if name in job
                }
                found.append((jid, few, missing))
    return found
