"""
Pieces of files between the disk and the wire: limits how many large ones are in memory at once.

A piece is read faster than it is sealed. Without a limit, if thousands of minions asked at the same
moment, each would have a megabyte waiting for a thread. Here the requests wait, which are small;
they are served in the order of their arrival.
"""

from __future__ import annotations

from collections import deque

from twisted.internet.defer import Deferred

from saltwisted.doors import FILES

LARGE = 64 * 1024
"""Bytes from which on a piece is sealed in a thread, and needs a place."""
MOST = FILES.memory_all // FILES.memory
"""Places: enough to keep all threads busy; what waits in ZeroMQ for a slow client is a multiple."""


class Chunks:
    """The slots of a master."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._waiting: deque[tuple[Place, Deferred[None]]] = deque()
        self._giving = False
        self.held = 0

    def place(self) -> Place:
        """For one request; it holds nothing yet."""
        return Place(self)

    def _take(self) -> bool:
        # Nobody overtakes those who wait
        if self._waiting or self.held >= self._most:
            return False
        self.held += 1
        return True

    def _wait(self, place: Place) -> Deferred[None]:
        done: Deferred[None] = Deferred()
        self._waiting.append((place, done))
        return done

    def _give(self) -> None:
        self.held -= 1
        if self._giving:
            return  # the loop below goes on: a caller that gives back at once must not make it deep
        self._giving = True
        try:
            while self._waiting and self.held < self._most:
                place, done = self._waiting.popleft()
                self.held += 1
                place.taken = True
                done.callback(None)
        finally:
            self._giving = False


class Place:
    """The slot of one request. It must be released when its piece is sealed, or was none."""

    __slots__ = ("_chunks", "taken")

    def __init__(self, chunks: Chunks) -> None:
        self._chunks = chunks
        self.taken = False

    def take(self) -> bool:
        """Whether it holds a place, now or already."""
        if not self.taken:
            self.taken = self._chunks._take()
        return self.taken

    def wait(self) -> Deferred[None]:
        """Fires when it holds one."""
        return self._chunks._wait(self)

    def give_back(self) -> None:
        """Release it. Idempotent."""
        taken, self.taken = self.taken, False
        if taken:
            self._chunks._give()
