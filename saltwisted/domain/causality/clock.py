"""
Hybrid logical clock: stamps that order the acts of several nodes, and can be shown to people.

Facts, jobs and versions of files have stamps of the same kind.

A stamp is one integer: 48 bits of milliseconds since 1970 and 16 bits of count (the node's id,
which is sent with it, breaks ties). Stamps decide only between acts that did not know of each
other; knowledge, and never a clock, says which act had seen which. So a clock that is far off only
wins or loses ties: whoever has seen an act gives his own a later stamp. That there always is a
later one, stamps more than a century ahead (L{latest_stamp}) are not applied; no others are refused
or altered.

After Kulkarni and others, "Logical Physical Clocks" (2014), with a bound on how far others may push
the clock.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define

COUNT_BITS = 16
MAX_AHEAD_SECONDS = 600
"""A stamp more than this far ahead of a node's own time does not advance that node's clock."""

CENTURY = 100 * 365.25 * 86400
WRITTEN = 1_700_000_000.0
"""A moment before this program was written: no right clock says less."""
_AHEAD = (MAX_AHEAD_SECONDS * 1000) << COUNT_BITS
_LARGEST = (1 << 64) - 1


def stamp_at(now: float) -> int:
    """The smallest stamp of a moment, in seconds since 1970."""
    return min(max(0, int(now * 1000)) << COUNT_BITS, _LARGEST)


def latest_stamp(now: float) -> int:
    """
    Later stamps are not applied: a century from now, so that a clock may be wrong by decades. A
    clock that says a time before this was written counts as one that says L{WRITTEN}.
    """
    return stamp_at(max(now, WRITTEN) + CENTURY)


def stamp_seconds(stamp: int) -> float:
    """When a stamp was made, in seconds since 1970 by the clock of the node that made it."""
    return (stamp >> COUNT_BITS) / 1000.0


def is_stamp(value: object) -> bool:
    """Whether a value from the wire has the form of a stamp."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST


@define
class HybridClock:
    """
    One node's clock.

    Its stamps grow, unless its own time is set back by more than L{MAX_AHEAD_SECONDS}. Then it
    follows, because a clock that was a year ahead must not stay there for a year.

    @ivar last: the newest stamp that it has given or received.
    """

    last: int = 0

    def tick(self, now: float) -> int:
        """A new stamp, at or just after C{now}."""
        wall = stamp_at(now)
        self.last = self.last + 1 if wall <= self.last <= wall + _AHEAD else wall
        return self.last

    def seconds(self, now: float) -> float:
        """The time that the newest stamp shows, if it is ahead of C{now} within the bound."""
        shown = stamp_seconds(self.last)
        return shown if now < shown <= now + MAX_AHEAD_SECONDS else now

    def observe(self, stamp: int, now: float) -> None:
        """Take a stamp of another node (or of this node's past) into account."""
        wall = stamp_at(now)
        if stamp <= wall + _AHEAD and (stamp > self.last or self.last > wall + _AHEAD):
            self.last = stamp


def skewed(mine: float, peers: Sequence[float]) -> bool:
    """Whether a clock is more than L{MAX_AHEAD_SECONDS} off the median of its peers' clocks."""
    if not peers:
        return False
    ordered, half = sorted(peers), len(peers) // 2
    median = (ordered[half] + ordered[~half]) / 2
    return abs(mine - median) > MAX_AHEAD_SECONDS
