"""
Those who wait for a disk: what they may do, and what is said when it does not answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from twisted.internet.defer import Deferred

T = TypeVar("T")
PATIENCE = 5.0
"""Seconds after which a write that is under way counts as stalled."""


class Stall:
    """
    Notices a disk that takes a write and does not come back: no error says so.

    Begun and ended in the writer's thread, asked in any.

    @ivar since: when the write began that is under way; 0.0 while none is.
    """

    def __init__(self, runtime: Callable[[], float] = time.monotonic) -> None:
        """
        @param runtime: seconds on a clock that does not jump.
        """
        self._runtime = runtime
        self.since = 0.0

    def begins(self) -> None:
        """A write is handed to the disk."""
        self.since = self._runtime() or 1e-9

    def ends(self) -> None:
        """It is on the disk, or was refused."""
        self.since = 0.0

    @property
    def problem(self) -> str:
        """What to say of it, or C{""}."""
        since = self.since
        if not since:
            return ""
        waited = self._runtime() - since
        if waited < PATIENCE:
            return ""
        return f"the disk has not finished a write for {waited:.0f} s"


def apart(work: Deferred[T]) -> Deferred[T]:
    """
    What C{work} fires with, for somebody who may lose patience: to cancel this leaves the work
    alone, and what has to be done after it is done all the same.
    """
    told: Deferred[T] = Deferred()

    def tell(result: Any) -> None:
        if not told.called:
            told.callback(result)

    work.addBoth(tell)  # type: ignore[unused-awaitable]
    return told
