"""
How fast the master admits minions that all come at once and can wait a little.

After the publish key has changed, each stock minion signs in again when it cannot read the next
publication: all minions of a node at the same moment. Each sign-in costs two private RSA
operations. So they are admitted evenly, as slowly as their patience allows: a stock minion asks
again after five seconds (C{auth_timeout}), and gives up after seven such times (C{auth_tries}). No
clock here: time is an argument.
"""

from __future__ import annotations

from attrs import define

SLOWEST = 200.0
"""A second; slower than this spares nobody anything."""
WITHIN = 4.0
"""Seconds in which all that wait are admitted: before the first of them asks again."""
BURST = 16
"""How many may come at once, after a pause."""
LATE = 0.05
"""Seconds of the rate that a late caller may make up for."""


@define
class Pace:
    """
    A bucket of admissions that fills at a rate, which is decided when a crowd is seen.

    While somebody waits, the rate only grows, so that the last of a crowd does not wait longer than
    was promised to the crowd as a whole. It falls back when nobody waits.

    @ivar rate: admissions a second, at present.
    """

    slowest: float = SLOWEST
    within: float = WITHIN
    burst: int = BURST
    rate: float = SLOWEST
    _left: float = BURST
    _seen: float = 0.0

    def room(self, now: float, waiting: int) -> int:
        """
        How many may come in now.

        @param now: seconds of a clock that only goes forward.
        @param waiting: how many want to.
        """
        most = max(float(self.burst), self.rate * LATE)
        self._left = min(most, self._left + max(0.0, now - self._seen) * self.rate)
        self._seen = now
        self.rate = max(self.rate if waiting else 0.0, self.slowest, waiting / self.within)
        return min(int(self._left), waiting)

    def took(self, count: int = 1) -> None:
        """This many of them were admitted."""
        self._left -= count

    def delay(self, count: int) -> float:
        """Seconds from the last look until so many, or a burst, may come."""
        return max(0.0, (min(count, self.burst) - self._left) / self.rate)
