"""
Files that change all the time: each gets a pause of its own, so that it does not drown the rest.

More than L{OFTEN} commits within a minute make a file hot; each further one doubles its pause, from
L{FIRST} to L{LONGEST}. A minute without a commit makes it an ordinary file again.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import define, field

OFTEN = 20
WINDOW = 60.0
FIRST = 0.05
LONGEST = 10.0
MOST = 1000


@define
class _Hot:
    times: list[float] = field(factory=list)
    pause: float = 0.0


class HotFiles:
    """Of one share; times in seconds."""

    def __init__(self) -> None:
        self._files: dict[bytes, _Hot] = {}

    def committed(self, paths: Iterable[bytes], now: float) -> list[bytes]:
        """These were committed; those that have become hot by it."""
        fresh = []
        for path in paths:
            one = self._files.get(path)
            if one is None:
                if len(self._files) >= MOST:
                    self._forget(now)
                    if len(self._files) >= MOST:
                        continue
                one = self._files[path] = _Hot()
            if one.times and now - one.times[-1] >= WINDOW:
                one.times, one.pause = [], 0.0
            one.times = [*[at for at in one.times if now - at < WINDOW][-OFTEN:], now]
            if one.pause:
                one.pause = min(2 * one.pause, LONGEST)
            elif len(one.times) > OFTEN:
                one.pause = FIRST
                fresh.append(path)
        return fresh

    def until(self, path: bytes, now: float) -> float:
        """The moment before which this path is left alone; C{now} for an ordinary one."""
        one = self._files.get(path)
        if one is None or not one.pause or now - one.times[-1] >= WINDOW:
            return now
        return max(one.times[-1] + one.pause, now)

    def pauses(self, now: float) -> dict[bytes, float]:
        """The hot files, and how long each pauses."""
        return {
            path: one.pause
            for path, one in self._files.items()
            if one.pause and now - one.times[-1] < WINDOW
        }

    def _forget(self, now: float) -> None:
        for path in [p for p, one in self._files.items() if now - one.times[-1] >= WINDOW]:
            del self._files[path]
