"""
What a master asks of its worker processes (L{saltwisted.transports.workers.WarmPool}).
"""

from __future__ import annotations

from typing import Any, Protocol

from twisted.internet.defer import Deferred


class WorkerPool(Protocol):
    """A pool of worker processes."""

    def call(self, entry: str, payload: Any, timeout: float) -> Deferred[Any]:
        """Have one of them call the entry."""
        ...
