"""
When a warm parent may end, because nobody needs what it has imported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


class ParentRest:
    """
    Ends a parent that has no children, when one of the entries that it has imported for was not
    needed for some time.

    A fetch from git each minute keeps its parent warm. One that has compiled pillars as well ends
    all the same when nobody asks for those, and the next is half its size.

    @param seconds: that time; with C{None} no parent is ended.
    @param shorter: entry to a time of its own.
    @param busy: whether it has children, or is gone.
    @param end: ends it.
    """

    def __init__(
        self,
        clock: Any,
        seconds: float | None,
        shorter: Mapping[str, float],
        busy: Callable[[], bool],
        end: Callable[[], None],
    ) -> None:
        self.seconds = seconds
        self._shorter = shorter
        self._clock = clock
        self._busy = busy
        self._end = end
        self._born = 0.0
        self._needed: dict[str, float] = {}
        self._timer: Any = None

    def born(self) -> None:
        """There is a new parent, which has imported nothing."""
        self._born = self._clock.seconds()
        self._needed = {}
        self.look_later()

    def need(self, entry: str) -> None:
        """A child of an entry was asked for, or has ended."""
        self._needed[entry] = self._clock.seconds()

    def look_later(self) -> None:
        """Look again when it may end at the earliest; the last child's end is a time to ask."""
        if self.seconds is None or self._busy():
            return
        ends = [at + self._shorter.get(entry, self.seconds) for entry, at in self._needed.items()]
        wait = max(min(ends, default=self._born + self.seconds) - self._clock.seconds(), 0.0)
        if self._timer is not None and self._timer.active():
            self._timer.reset(wait)
        else:
            self._timer = self._clock.callLater(wait, self._look)

    def stop(self) -> None:
        """Look no more."""
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()

    def _look(self) -> None:
        self._timer = None
        if not self._busy():
            self._end()
