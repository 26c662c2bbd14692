"""
Stamps of versions: a hybrid logical clock of 48 bits of milliseconds and 16 of counter.

Stamps order siblings and are shown to people; causality never depends on them
(knowledge vectors do that). A stamp is never altered, and none is refused.
"""

from __future__ import annotations

FAR = 10 * 60 * 1000
"""Milliseconds: a stamp further ahead does not advance our own clock."""


class Stamps:
    """The clock of one replica: each stamp is larger than all it has made or taken in."""

    def __init__(self, last: int = 0) -> None:
        self.last = last

    def next(self, now_ms: int) -> int:
        """A new stamp at this wall-clock time."""
        self.last = max(now_ms << 16, self.last + 1)
        return self.last

    def seen(self, stamp: int, now_ms: int) -> None:
        """Take in another replica's stamp, unless its clock is far ahead of ours."""
        if stamp > self.last and (stamp >> 16) <= now_ms + FAR:
            self.last = stamp


def seconds(stamp: int) -> float:
    """The wall-clock time in a stamp, in seconds since 1970."""
    return (stamp >> 16) / 1000


def skewed(mine_ms: int, peers_ms: list[int]) -> bool:
    """Whether a clock is more than ten minutes off the median of its peers' clocks."""
    if not peers_ms:
        return False
    ordered = sorted(peers_ms)
    middle = len(ordered) // 2
    median = ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) // 2
    return abs(mine_ms - median) > FAR
