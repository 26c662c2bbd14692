"""
What a master needs from its worker processes (L{saltwisted.transports.workers.WarmPool}).
"""

from __future__ import annotations

from typing import Any, Protocol

from twisted.internet.defer import Deferred


class Spawner(Protocol):
    """Creates processes that do one thing each."""

    def spawn(self, entry: str, payload: Any, handler: Any) -> Any:
        """Start one; see L{saltwisted.transports.workers.WarmPool.spawn}."""
        ...


class WorkerPool(Protocol):
    """A pool of worker processes."""

    def call(self, entry: str, payload: Any, timeout: float) -> Deferred[Any]:
        """Have one of them call the entry."""
        ...
