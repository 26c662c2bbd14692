"""
Whose pillar has errors, for C{status}, C{doctor} and the metrics: an error that only the log of one
master and the pillar of one minion name is noticed when states no longer run.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection
from heapq import nsmallest

from attrs import frozen

MOST = 10_000
"""Minions of which it is known."""
TOLD = 3
"""Minions that are named; of the others only the number is told."""
LONGEST = 200
"""Characters of one error."""
LASTS = 24 * 3600.0
"""Seconds after which a minion that has not asked again no longer counts."""


@frozen
class _Wrong:
    text: str
    is_served: bool
    at: float


class PillarErrors:
    """
    Reactor thread only.

    @param now: seconds since the epoch.
    @param known: returns the minions that there are.
    """

    def __init__(self, now: Callable[[], float], known: Callable[[], Collection[str]]) -> None:
        self._now, self._known = now, known
        self._wrong: OrderedDict[str, _Wrong] = OrderedDict()

    def found(self, minion: str, text: str, is_served: bool) -> None:
        """
        The pillar that a minion has asked for has an error.

        @param text: the error, without data of the pillar.
        @param is_served: whether the minion gets it so, and not its last good one.
        """
        self._wrong.pop(minion, None)
        self._wrong[minion] = _Wrong(text[:LONGEST], is_served, self._now())
        if len(self._wrong) > MOST:
            self._wrong.popitem(last=False)

    def mended(self, minion: str) -> None:
        """The pillar that a minion has asked for has none."""
        self._wrong.pop(minion, None)

    def clear(self) -> None:
        """All pillars are compiled again."""
        self._wrong.clear()

    @property
    def problem(self) -> str:
        """Whose pillars have errors, and which; C{""} if there are none."""
        if not self._wrong:
            return ""
        since, known = self._now() - LASTS, set(self._known())
        found = [
            minion for minion, wrong in self._wrong.items() if wrong.at > since and minion in known
        ]
        told = [
            f"the pillar of {minion} has errors ({wrong.text}"
            f"{'' if wrong.is_served else '; its last good pillar is served'})"
            for minion in nsmallest(TOLD, found)
            for wrong in (self._wrong[minion],)
        ]
        if len(found) > TOLD:
            more = len(found) - TOLD
            told.append(f"so have those of {more} more minions" if more > 1 else "one more has")
        return "; ".join(told)
