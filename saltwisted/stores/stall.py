"""
For callers that wait for a disk: what they may do, and what is reported, if it does not answer.
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
    Detects a disk that accepts a write and never finishes it: no error reports that.

    It is started and ended in the writer's thread, and may be asked in any thread.

    @ivar since: when the write in progress began; 0.0 if there is none.
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
        """The text for the status, or C{""}."""
        since = self.since
        if not since:
            return ""
        waited = self._runtime() - since
        if waited < PATIENCE:
            return ""
        return f"the disk has not finished a write for {waited:.0f} s"


def apart(work: Deferred[T]) -> Deferred[T]:
    """
    The result of C{work}, for a caller that may lose patience: cancelling it does not affect the
    work, and what has to be done afterwards is done all the same.
    """
    told: Deferred[T] = Deferred()

    def tell(result: Any) -> None:
        if not told.called:
            told.callback(result)

    work.addBoth(tell)  # type: ignore[unused-awaitable]
    return told
