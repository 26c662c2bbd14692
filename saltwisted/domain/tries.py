"""
Whose password is checked next, and how long a refusal takes. No clock here: time is an argument.

Two aims conflict: somebody who guesses must be slow, and must not, from anywhere, lock the real
user out. So

 - attempts for one user from one place (a I{lane}) are checked one at a time, and the lane pauses
   a second after a refusal; a place and a user as a whole pause a fraction of that. A pause never
   grows.
 - among those that may be checked, the place comes first whose last check was longest ago, or
   never; then the user; then the newest attempt. So a new attempt goes before a crowd of old ones.
 - an attempt that finds no room replaces the oldest one of the longest lane or of the fullest
   place.

The delay of one refusal makes nobody else wait.
"""

from __future__ import annotations

from collections import Counter

from attrs import define, field, frozen

LANE = 16
"""
Tries of one user from one place that may wait while it rests; with one more the oldest is refused.
A place from which nobody was refused of late may have as many as there is room for: a script that
logs in many times at once guesses nothing.
"""
IN_ALL = 256
"""Tries that may wait."""
AT_ONCE = 4
"""Tries that are judged at the same time: as many as there are processes for it."""
REST = 1.0
"""Seconds between a refusal and the next judgement of the same user from the same place."""
OF_PLACE = REST / 16
OF_USER = REST / 32
REMEMBERED = 1000
"""Places and users of which it is known when they were judged last."""

LEAST = 1.0
"""Seconds that a refusal takes at least."""
MOST = 10.0
"""Seconds that a refusal is made to take at most."""
SPREAD = 0.25
"""What dice add to that time at most, as a part of it."""
WINDOW = 300.0
"""Seconds for which a slow judgement counts, at least; at most twice as long."""


@frozen
class Try:
    """
    A password that waits to be checked.

    @ivar number: in the order of arrival.
    """

    eauth: str
    user: str
    source: str
    number: int

    @property
    def lane(self) -> tuple[str, str, str]:
        """One user from one place."""
        return (self.eauth, self.user, self.source)

    @property
    def place(self) -> tuple[str]:
        """Wherever it comes from."""
        return (self.source,)

    @property
    def whom(self) -> tuple[str, str]:
        """One user, from wherever."""
        return (self.eauth, self.user)


@define
class Tries:
    """The attempts that wait and those that are being checked."""

    _number: int = 0
    _waiting: list[Try] = field(factory=list)
    _judged: set[tuple[str, ...]] = field(factory=set)
    _rests: dict[tuple[str, ...], float] = field(factory=dict)
    _served: dict[tuple[str, ...], int] = field(factory=dict)
    _turn: int = 0

    @property
    def idle(self) -> bool:
        """Whether nobody waits and nobody is judged."""
        return not self._waiting and not self._judged

    def offer(self, eauth: str, user: str, source: str, now: float) -> tuple[Try, Try | None]:
        """
        An attempt arrives.

        @return: the attempt, and the one that made room for it and is refused, if any.
        """
        self._number += 1
        mine = Try(eauth, user, source, self._number)
        self._waiting.append(mine)
        lane = [each for each in self._waiting if each.lane == mine.lane]
        if len(lane) > LANE and self._rests.get(mine.lane, 0.0) > now:
            self._waiting.remove(lane[0])
            return mine, lane[0]
        if len(self._waiting) <= IN_ALL:
            return mine, None
        crowd = Counter(each.source for each in self._waiting)
        most = max(crowd.values())
        out = next(each for each in self._waiting if crowd[each.source] == most)
        self._waiting.remove(out)
        return mine, out

    def take(self, now: float) -> Try | None:
        """The next one to be judged, if one may be now."""
        if len(self._judged) >= AT_ONCE:
            return None
        ready = [each for each in self._waiting if self._rested(each) <= now]
        if not ready:
            return None
        mine = min(ready, key=self._order)
        self._waiting.remove(mine)
        self._judged.add(mine.lane)
        self._turn += 1
        for key in (mine.place, mine.lane):
            self._served.pop(key, None)
            self._served[key] = self._turn
        while len(self._served) > REMEMBERED:
            del self._served[next(iter(self._served))]
        return mine

    def done(self, mine: Try, refused: bool, now: float) -> None:
        """It was judged."""
        self._judged.discard(mine.lane)
        self._rests = {key: until for key, until in self._rests.items() if until > now}
        if refused:
            for key, rest in ((mine.lane, REST), (mine.place, OF_PLACE), (mine.whom, OF_USER)):
                self._rests[key] = now + rest

    def withdraw(self, mine: Try) -> None:
        """A waiting caller goes away."""
        if mine in self._waiting:
            self._waiting.remove(mine)

    def pause(self, now: float) -> float | None:
        """Seconds until L{take} has somebody, unless a judgement ends before; C{None}: never."""
        if len(self._judged) >= AT_ONCE:
            return None
        times = [self._rested(each) for each in self._waiting if each.lane not in self._judged]
        return max(0.0, min(times) - now) if times else None

    def _rested(self, each: Try) -> float:
        if each.lane in self._judged:
            return float("inf")
        return max(self._rests.get(key, 0.0) for key in (each.lane, each.place, each.whom))

    def _order(self, each: Try) -> tuple[int, int, int]:
        served = self._served
        return (served.get(each.place, 0), served.get(each.lane, 0), -each.number)


@define
class Slowness:
    """
    How long checks have taken recently, and so how long refusals take.

    All refusals at a time take equally long, whatever was wrong: as long as the slowest check of
    the last five minutes, so that existing users cannot be told from others. After one slow answer,
    the time comes down again by itself.

    Dice add up to a quarter, as stock's do: a hundred that were refused together must not all come
    again in the same moment, where a good login would stand behind them.
    """

    _since: float = 0.0
    _now: float = 0.0
    _before: float = 0.0

    def judged(self, took: float, now: float) -> None:
        """One was judged, or refused, after so many seconds."""
        self._turn(now)
        self._now = max(self._now, took)

    def seconds(self, now: float, dice: float) -> float:
        """
        What a refusal takes.

        @param dice: from 0 to 1; it knows nothing of what was wrong.
        """
        self._turn(now)
        return min(MOST, max(LEAST, self._now, self._before) * (1 + dice * SPREAD))

    def _turn(self, now: float) -> None:
        passed = now - self._since
        if passed >= WINDOW:
            self._before = self._now if passed < 2 * WINDOW else 0.0
            self._now, self._since = 0.0, now
