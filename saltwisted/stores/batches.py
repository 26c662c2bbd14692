"""
Batched writes to one database: one transaction at a time; writes that arrive meanwhile form the
next one.

Reaching the disk costs the same for one row and for many. So the rows of one reactor turn are
written together; the first of them does not go alone. Waiting callers are informed a few per turn,
because what each of them does next may take a millisecond.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import thread_time
from typing import Any, Generic, TypeVar

from twisted.internet.defer import Deferred

T = TypeVar("T")

PORTION = 0.001
"""Seconds of the reactor thread's CPU for which those who waited are told in one turn."""
Later = Callable[[Callable[[], None]], object]
"""Calls something when this turn of the reactor is over."""


def at_once(call: Callable[[], None]) -> None:
    """For callers without a reactor."""
    call()


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
        self._ended: deque[tuple[Deferred[None], Any]] = deque()

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
        if self._busy or self._ended:
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
            tells = bool(self._ended)
            self._ended.extend((done, result) for _, done in batch)
            self._go()
            if not tells:
                self._tell()

        self._write([work for work, _ in batch]).addBoth(ended)  # type: ignore[unused-awaitable]

    def _tell(self) -> None:
        """Those whose transaction has ended, in their order."""
        until = thread_time() + PORTION
        while self._ended:
            done, result = self._ended.popleft()
            if done.called:
                # Whoever waited has cancelled
                continue
            if result is None:
                done.callback(None)
            else:
                done.errback(result)
            if self._ended and self._later is not at_once and thread_time() > until:
                self._later(self._tell)
                return
        if not self._busy:
            idle, self._idle = self._idle, []
            for each in idle:
                each.callback(None)
