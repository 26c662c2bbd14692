"""
Long work of requests, in short turns of the reactor that they share with all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import thread_time
from typing import Any, TypeVar

from twisted.internet.defer import CancelledError
from twisted.internet.task import Cooperator

from saltwisted.turns import turns_of

T = TypeVar("T")

PORTION = 0.002
"""Seconds of the reactor thread's CPU in one turn at most, for all requests together."""
FIRST = 4
"""Steps that are done at once: most work is no longer, and need not wait for a turn."""


class Turns:
    """However many requests have long work, minions wait for only one portion of it."""

    def __init__(self, reactor: Any) -> None:
        turns = turns_of(reactor)
        later: Any = turns.later
        self._cooperator = Cooperator(
            terminationPredicateFactory=lambda: _portion(turns.left(PORTION)),
            scheduler=later,
            started=True,
        )

    def stop(self) -> None:
        """Do no more work; waiting callers are told."""
        self._cooperator.stop()

    async def all(self, steps: Iterator[T]) -> list[T]:
        """What all steps give; each has to be short."""
        made: list[T] = []
        for _ in range(FIRST):
            for step in steps:
                made.append(step)
                break
            else:
                return made
        task = self._cooperator.cooperate(map(made.append, steps))
        try:
            await task.whenDone()
        except CancelledError:
            # Whoever waited has gone
            task.stop()
            raise
        return made


def _portion(seconds: float) -> Callable[[], bool]:
    until = thread_time() + seconds
    return lambda: thread_time() > until
