"""
Batched writes to one database: one transaction at a time; writes that arrive meanwhile form the
next one.

Reaching the disk costs the same for one row and for many. So the rows of one reactor turn are
written together; the first of them does not go alone. Waiting callers are informed a few per turn,
because what each of them does next may take a millisecond.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from twisted.internet.defer import Deferred

from saltwisted.stores.telling import Later, Telling, at_once

T = TypeVar("T")


class Batches(Generic[T]):
    """
    Reactor thread only.

    @param write: writes all of these in one transaction, in a thread; fires when they are on disk.
    @param later: decides when to begin with writes that arrive while nothing is being written.
    """

    def __init__(self, write: Callable[[list[T]], Deferred[None]], later: Later = at_once) -> None:
        self._write = write
        self._later = later
        self._queue: list[tuple[T, Deferred[None]]] = []
        # From the first row of a turn to the end of its transaction
        self._busy = False
        self._idle: list[Deferred[None]] = []
        self._telling = Telling(later, self._all_told)

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
        """Fires when no write waits any more."""
        done: Deferred[None] = Deferred()
        if self._busy or self._telling:
            self._idle.append(done)
        else:
            done.callback(None)
        return done

    def _go(self) -> None:
        if not self._queue:
            self._busy = False
            return
        batch, self._queue = self._queue, []

        def ended(result: Any) -> None:
            self._telling.add((done, result) for _, done in batch)
            self._go()
            self._telling.go()

        self._write([work for work, _ in batch]).addBoth(ended)  # type: ignore[unused-awaitable]

    def _all_told(self) -> None:
        if not self._busy:
            idle, self._idle = self._idle, []
            for each in idle:
                each.callback(None)
