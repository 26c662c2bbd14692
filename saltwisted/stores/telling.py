"""
Those who wait for a disk, told a few per turn: what each of them does next may take a millisecond,
and a transaction may end the waiting of hundreds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from time import thread_time
from typing import Any

from twisted.internet.defer import Deferred

PORTION = 0.001
"""Seconds of the reactor thread's CPU for which those who waited are told in one turn."""
Later = Callable[[Callable[[], None]], object]
"""Calls something when this turn of the reactor is over."""


def at_once(call: Callable[[], None]) -> None:
    """For callers without a reactor."""
    call()


class Telling:
    """
    Fires Deferreds in the order in which they come, with a result each. Reactor thread only.

    @param later: decides when those are told for whom a turn has no time.
    @param all_told: called whenever nobody waits any more.
    """

    def __init__(self, later: Later, all_told: Callable[[], object] = lambda: None) -> None:
        self._later = later
        self._all_told = all_told
        self._waiting: deque[tuple[Deferred[Any], Any]] = deque()
        self._comes = self._busy = False
        self._used = 0.0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, some: Iterable[tuple[Deferred[Any], Any]]) -> None:
        """These have a result, or a failure; L{go} tells them, behind those that came before."""
        self._waiting.extend(some)

    def go(self) -> None:
        """Tell some now, and the others in the next turns."""
        if self._comes or self._busy:
            return
        # What was used in earlier turns counts too: several transactions may end in one turn
        if not self._used or self._used <= PORTION or self._later is at_once:
            self._go()
        else:
            self._wait()

    def drain(self) -> None:
        """Tell all of them: there may be no other turn."""
        while self._waiting and not self._busy:
            self._tell_one()

    def _wait(self) -> None:
        self._comes = True
        self._later(self._next)

    def _next(self) -> None:
        self._comes, self._used = False, 0.0
        self._go()

    def _go(self) -> None:
        self._busy, began = True, thread_time()
        try:
            while self._waiting:
                self._tell_one()
                now = thread_time()
                self._used, began = self._used + now - began, now
                if self._waiting and self._used > PORTION and self._later is not at_once:
                    self._wait()
                    return
        finally:
            self._busy = False
        self._all_told()

    def _tell_one(self) -> None:
        done, result = self._waiting.popleft()
        # Whoever waited may have cancelled
        if not done.called:
            done.callback(result)
