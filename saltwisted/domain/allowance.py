"""
How long each of several parties may keep others waiting: a purse of seconds for each, which fills
again as time passes.
"""

from __future__ import annotations


class Allowance:
    """
    Seconds, by party. A party that was never here has the whole purse.

    @param most: seconds in a full purse.
    @param refill: seconds that come back in each second that passes, below 1.
    """

    def __init__(self, most: float, refill: float) -> None:
        self._most = most
        self._refill = refill
        self._spent: dict[str, tuple[float, float]] = {}

    def left(self, party: str, now: float) -> float:
        """Seconds that a party may still take."""
        return self._most - self._debt(party, now)

    def take(self, party: str, seconds: float, now: float) -> None:
        """A party has taken so many seconds, up to now."""
        debt = self._debt(party, now)
        self._spent[party] = (min(self._most, debt + seconds), now)

    def _debt(self, party: str, now: float) -> float:
        spent, since = self._spent.get(party, (0.0, now))
        debt = spent - (now - since) * self._refill
        if debt <= 0:
            self._spent.pop(party, None)
        return max(0.0, debt)
