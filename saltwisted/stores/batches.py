"""
Writes to one database: one transaction at a time, and what comes meanwhile is the next one.

Reaching the disk costs the same for one row and for many. So what comes in one turn of the reactor
is written together: the first row of it does not go alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from twisted.internet.defer import Deferred

T = TypeVar("T")

Later = Callable[[Callable[[], None]], object]
"""Calls something when this turn of the reactor is over."""


def at_once(call: Callable[[], None]) -> None:
    """For who has no turns."""
    call()


class Batches(Generic[T]):
    """
    Reactor thread only.

    @param write: write all of these in one transaction, in a thread; fires when it is on disk.
    @param later: when to begin with what comes while nothing is written.
    """

    def __init__(self, write: Callable[[list[T]], Deferred[None]], later: Later = at_once) -> None:
        self._write = write
        self._later = later
        self._queue: list[tuple[T, Deferred[None]]] = []
        # From the first row of a turn to the end of its transaction
        self._busy = False
        self._idle: list[Deferred[None]] = []

    def add(self, work: T) -> Deferred[None]:
        """
        Fires when it is on disk.

        @return: fails as the transaction does; nothing of it is written then.
        """
        done: Deferred[None] = Deferred()
        self._queue.append((work, done))
        if not self._busy:
            self._busy = True
            self._later(self._go)
        return done

    def written(self) -> Deferred[None]:
        """Fires when nothing waits any more."""
        done: Deferred[None] = Deferred()
        if self._busy:
            self._idle.append(done)
        else:
            done.callback(None)
        return done

    def _go(self) -> None:
        if not self._queue:
            self._busy = False
            idle, self._idle = self._idle, []
            for each in idle:
                each.callback(None)
            return
        batch, self._queue = self._queue, []

        def ended(result: Any) -> None:
            self._go()
            for _, done in batch:
                if done.called:
                    # Whoever waited has cancelled
                    continue
                if result is None:
                    done.callback(None)
                else:
                    done.errback(result)

        self._write([work for work, _ in batch]).addBoth(ended)  # type: ignore[unused-awaitable]
