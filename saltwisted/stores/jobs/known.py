"""
Which jobs have a record in the job cache, as far as the store remembers.
"""

from __future__ import annotations

from saltwisted.stores.jobs.table import PUBLISHED

_REMEMBERED = 10_000


class KnownJobs:
    """Saves a query for each return: the newest jobs whose records were written."""

    def __init__(self) -> None:
        self._ranks: dict[str, int] = {}

    def __contains__(self, jid: str) -> bool:
        return jid in self._ranks

    def is_published(self, jid: str) -> bool:
        """Whether there is a published record of this job, as far as is remembered."""
        return self._ranks.get(jid) == PUBLISHED

    def add(self, jid: str, rank: int = PUBLISHED) -> None:
        """A record is about to be written."""
        self._ranks[jid] = max(rank, self._ranks.get(jid, rank))
        if len(self._ranks) > _REMEMBERED:
            del self._ranks[next(iter(self._ranks))]

    def forget(self) -> None:
        """Records were removed, or the file is another one."""
        self._ranks = {}
