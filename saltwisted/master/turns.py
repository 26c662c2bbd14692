"""
Long loops in the reactor thread, in short turns.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from time import perf_counter, thread_time
from typing import Any, TypeVar

from twisted.internet.defer import Deferred

T = TypeVar("T")

PORTION = 0.002
"""Seconds of the reactor thread's CPU in one turn."""


def pause(clock: Any) -> Deferred[None]:
    """Fires in the reactor's next turn."""
    done: Deferred[None] = Deferred()
    clock.callLater(0, done.callback, None)
    return done


async def in_turns(clock: Any, items: Iterable[T]) -> AsyncIterator[T]:
    """The same items, with a turn of the reactor in between whenever one has lasted long enough."""
    soonest, until = perf_counter() + PORTION, thread_time() + PORTION
    for item in items:
        yield item
        # The kernel is asked for CPU time; a thread cannot have used more of it than has passed
        if perf_counter() > soonest and thread_time() > until:
            await pause(clock)
            soonest, until = perf_counter() + PORTION, thread_time() + PORTION
