"""
Writes to one database: one transaction at a time, and what comes meanwhile is the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from twisted.internet.defer import Deferred

T = TypeVar("T")


class Batches(Generic[T]):
    """
    Reactor thread only.

    @param write: write all of these in one transaction, in a thread; fires when it is on disk.
    """

    def __init__(self, write: Callable[[list[T]], Deferred[None]]) -> None:
        self._write = write
        self._queue: list[tuple[T, Deferred[None]]] = []
        self._busy = False
        self._idle: list[Deferred[None]] = []

    def add(self, work: T) -> Deferred[None]:
        """
        Fires when it is on disk.

        @return: fails as the transaction does; nothing of it is written then.
        """
        done: Deferred[None] = Deferred()
        self._queue.append((work, done))
        self._go()
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
        if self._busy:
            return
        if not self._queue:
            idle, self._idle = self._idle, []
            for each in idle:
                each.callback(None)
            return
        batch, self._queue = self._queue, []
        self._busy = True

        def ended(result: Any) -> None:
            self._busy = False
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
