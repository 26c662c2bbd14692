"""
Runners, wheel functions and callers of reactions: a limited number runs at a time, and the others
wait in a queue, of which each minion has a fair share (L{saltwisted.domain.sharing}).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from time import thread_time
from typing import Any

from attrs import define
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from saltwisted.domain.sharing import ByTurns, Shares
from saltwisted.transports import turns
from saltwisted.transports.reasons import why

LOST = "lost"
"""The result of a call for which there is no room."""


@define(eq=False)
class _Call:
    """One that waits."""

    work: Callable[[], Coroutine[Any, Any, str]]
    done: Deferred[str]
    since: float
    lost: Callable[[], object]


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
        self._waiting: ByTurns[_Call] = ByTurns()
        self._shares = Shares()
        self._busy = False
        self._turn: Any = None
        self.running = 0

    @property
    def depth(self) -> int:
        """How many wait."""
        return len(self._waiting)

    @property
    def oldest(self) -> float:
        """When the first of them came; now, if there is none."""
        firsts = (call.since for call in self._waiting.first())
        return min(firsts, default=float(self._clock.seconds()))

    def has_room(self, owner: str) -> bool:
        """
        Whether one more may wait. If too many do, whoever has most of them makes room for all
        others: its newest call is L{LOST}.

        @param owner: whose share it would take.
        """
        if self._shares.total < self._hwm():
            return True
        largest = self._shares.largest
        if self._shares.of(owner) >= self._shares.of(largest):
            return False
        self._push_out(largest)
        return True

    def run(
        self, owner: str, work: Callable[[], Coroutine[Any, Any, str]], lost: Callable[[], object]
    ) -> Deferred[str]:
        """
        Do C{work} when a slot is free; fires with its result, and never fails.

        @param owner: whose share it takes, for whom L{has_room} was asked.
        @param lost: called if it has to make room for another's.
        """
        call = _Call(work, Deferred(), self._clock.seconds(), lost)
        self._shares.take(owner)
        self._waiting.put(owner, call)
        self._begin()
        return call.done

    def _push_out(self, owner: str) -> None:
        call = self._waiting.drop(owner)
        self._shares.give(owner)
        if call is not None:
            call.lost()
            call.done.callback(LOST)

    def stop(self) -> None:
        """Begin nothing more; waiting work is dropped."""
        self._waiting.clear()
        self._shares.clear()
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
                owner, call = self._waiting.take()
                self._shares.give(owner)
                self.running += 1
                d = Deferred.fromCoroutine(call.work())
                d.addErrback(_failed)  # type: ignore[unused-awaitable]
                d.addCallback(self._ended, call.done)  # type: ignore[unused-awaitable]
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
