"""
Long work for minions: of each minion one piece at a time.

What takes long is done in turns of the reactor, and all who have such work wait in one queue for
them (L{saltwisted.turns}). A minion with a thousand long requests would have a thousand places in
that queue. Here its requests wait for one another, so it has one place, as everybody else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from twisted.internet.defer import DeferredLock

T = TypeVar("T")


class OneEach:
    """Reactor thread only."""

    def __init__(self) -> None:
        self._locks: dict[str, DeferredLock] = {}

    def __len__(self) -> int:
        """How many minions have long work."""
        return len(self._locks)

    async def do(self, minion_id: str, work: Callable[[], Awaitable[T]]) -> T:
        """Do it when all that this minion had asked for before is done."""
        lock = self._locks.setdefault(minion_id, DeferredLock())
        await lock.acquire()
        try:
            return await work()
        finally:
            if not lock.waiting:
                del self._locks[minion_id]
            lock.release()
