"""
Fair shares: a bounded place that many want, of whom one must not take what the others need.

Each thing has an owner, such as the minion that it is for. Things are taken out by turns, one of
each owner, and where there is no room left, whoever has most in there gives up its newest. So one
that brings too much loses its own, whatever it brings, and the others are served as if it was not
there.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Shares:
    """How many places each owner has; who has most is known without looking at all of them."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._owners: dict[int, dict[str, None]] = {}
        self._most = 0
        self.total = 0

    def of(self, owner: str) -> int:
        """How many it has."""
        return self._counts.get(owner, 0)

    @property
    def largest(self) -> str:
        """
        Who has most, of several the one that came to it first.

        @raises KeyError: nobody has any.
        """
        return next(iter(self._owners[self._most]))

    def take(self, owner: str) -> None:
        """One more."""
        self._move(owner, 1)
        self._most = max(self._most, self._counts[owner])

    def give(self, owner: str) -> None:
        """
        One less.

        @raises KeyError: it has none.
        """
        if owner not in self._counts:
            raise KeyError(owner)
        self._move(owner, -1)
        if self._most not in self._owners:
            self._most -= 1

    def clear(self) -> None:
        """Nobody has any."""
        self._counts.clear()
        self._owners.clear()
        self._most = self.total = 0

    def _move(self, owner: str, by: int) -> None:
        count = self._counts.pop(owner, 0)
        if count:
            same = self._owners[count]
            del same[owner]
            if not same:
                del self._owners[count]
        self.total += by
        if count + by:
            self._counts[owner] = count + by
            self._owners.setdefault(count + by, {})[owner] = None


class ByTurns(Generic[T]):
    """A queue that gives out one thing of each owner after the other, of each in its order."""

    def __init__(self) -> None:
        self._of: OrderedDict[str, deque[T]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, owner: str, thing: T) -> None:
        """Behind what this owner has in it already."""
        if owner not in self._of:
            self._of[owner] = deque()
        self._of[owner].append(thing)
        self._count += 1

    def take(self) -> tuple[str, T]:
        """
        The oldest thing of the owner whose turn it is.

        @raises KeyError: there is nothing.
        """
        owner, things = next(iter(self._of.items())) if self._of else (None, None)
        if owner is None or things is None:
            raise KeyError("nothing waits")
        thing = things.popleft()
        self._count -= 1
        if things:
            self._of.move_to_end(owner)
        else:
            del self._of[owner]
        return owner, thing

    def drop(self, owner: str) -> T | None:
        """Take back the newest thing of this owner; C{None} if it has none."""
        things = self._of.get(owner)
        if things is None:
            return None
        thing = things.pop()
        self._count -= 1
        if not things:
            del self._of[owner]
        return thing

    def first(self) -> Iterator[T]:
        """The oldest thing of each owner."""
        return (things[0] for things in self._of.values())

    def clear(self) -> None:
        """Nothing is left."""
        self._of.clear()
        self._count = 0
