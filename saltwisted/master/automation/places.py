"""
Runners, wheel functions and callers of reactions: a limited number runs at a time, and the others
wait in a queue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine
from time import thread_time
from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from saltwisted.transports import turns
from saltwisted.transports.reasons import why


class Places:
    """
    Reactor thread only.

    @param most: how many run at the same time; called each time.
    @param hwm: how many may wait.
    """

    def __init__(self, clock: Any, most: Callable[[], int], hwm: Callable[[], int]) -> None:
        self._clock = clock
        self._most = most
        self._hwm = hwm
        self._waiting: deque[tuple[Callable[[], Coroutine[Any, Any, str]], Deferred[str], float]]
        self._waiting = deque()
        self._busy = False
        self._turn: Any = None
        self.running = 0

    @property
    def full(self) -> bool:
        """Whether no more may wait."""
        return len(self._waiting) >= self._hwm()

    @property
    def depth(self) -> int:
        """How many wait."""
        return len(self._waiting)

    @property
    def oldest(self) -> float:
        """When the first of them came; now, if there is none."""
        return self._waiting[0][2] if self._waiting else float(self._clock.seconds())

    def run(self, work: Callable[[], Coroutine[Any, Any, str]]) -> Deferred[str]:
        """Do C{work} when a slot is free; fires with its result, and never fails."""
        done: Deferred[str] = Deferred()
        self._waiting.append((work, done, self._clock.seconds()))
        self._begin()
        return done

    def stop(self) -> None:
        """Begin nothing more; waiting work is dropped."""
        self._waiting.clear()
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None

    def _begin(self) -> None:
        """As many as may, for one turn of the reactor; none is begun inside of another."""
        if self._busy or self._turn is not None:
            return
        self._busy = True
        until = thread_time() + turns.PORTION
        try:
            while self._waiting and self.running < self._most():
                work, done, _ = self._waiting.popleft()
                self.running += 1
                d = Deferred.fromCoroutine(work())
                d.addErrback(_failed)  # type: ignore[unused-awaitable]
                d.addCallback(self._ended, done)  # type: ignore[unused-awaitable]
                if self._waiting and thread_time() > until:
                    self._turn = self._clock.callLater(0, self._next)
                    return
        finally:
            self._busy = False

    def _next(self) -> None:
        self._turn = None
        self._begin()

    def _ended(self, result: str, done: Deferred[str]) -> None:
        self.running -= 1
        done.callback(result)
        self._begin()


def _failed(failure: Failure) -> str:
    return f"failed: {why(failure)}"
