"""
The latest jobs of a cluster, with their minions, in bounded memory.

With ten thousand minions the names of one job's minions take 700 KiB as they come from another
node. Most jobs go to the same minions, so equal lists are kept once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import frozen

from saltwisted.wire.msgpack import pack_bin

MOST_BYTES = 16 * 1024 * 1024
"""Bytes, more or less, of all jobs and lists that are kept."""
_NAME = 72
"""Bytes of a minion's name and its place in a list."""


@frozen(eq=False)
class _Kept:
    job: Mapping[str, Any]
    minions: tuple[str, ...]
    size: int
    at: float


class LatestJobs:
    """
    Jobs by jid, those that came last.

    @param most: how many jobs.
    @param young: seconds for which a job is kept in any case, however many and large they are: it
        may yet have to be published again.
    @param most_bytes: how large all of them may be.
    """

    def __init__(self, most: int, young: float, most_bytes: int = MOST_BYTES) -> None:
        self._most = most
        self._young = young
        self._most_bytes = most_bytes
        self._jobs: OrderedDict[str, _Kept] = OrderedDict()
        self._lists: dict[tuple[str, ...], tuple[tuple[str, ...], int]] = {}
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._jobs)

    def put(self, jid: str, job: Mapping[str, Any], minions: Iterable[str], now: float) -> None:
        """This is the latest job, which is kept; under a known jid it takes that one's place."""
        self._forget(jid)
        size = len(pack_bin(job))
        self._jobs[jid] = _Kept(dict(job), self._joined(tuple(minions)), size, now)
        self.bytes += size
        while len(self._jobs) > self._most or self.bytes > self._most_bytes:
            oldest = next(iter(self._jobs))
            if oldest == jid or self._jobs[oldest].at > now - self._young:
                break
            self._forget(oldest)

    def get(self, jid: str) -> tuple[Mapping[str, Any], Sequence[str]] | None:
        """A job and its minions, if it is known."""
        found = self._jobs.get(jid)
        return None if found is None else (found.job, found.minions)

    def last(self, count: int) -> list[tuple[str, Sequence[str]]]:
        """The jids and the minions of so many jobs at most, the latest at the end."""
        return [(jid, each.minions) for jid, each in list(self._jobs.items())[-count:]]

    def _joined(self, minions: tuple[str, ...]) -> tuple[str, ...]:
        known, users = self._lists.get(minions, (minions, 0))
        self._lists[known] = known, users + 1
        if not users:
            self.bytes += _NAME * len(known)
        return known

    def _forget(self, jid: str) -> None:
        found = self._jobs.pop(jid, None)
        if found is None:
            return
        self.bytes -= found.size
        minions = found.minions
        users = self._lists[minions][1] - 1
        if users:
            self._lists[minions] = minions, users
        else:
            del self._lists[minions]
            self.bytes -= _NAME * len(minions)
