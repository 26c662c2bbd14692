"""
Several lists as one, made once of the same lists: ten thousand names take a millisecond or two, and
very many are put together in a thread.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from functools import reduce
from typing import Any, Generic, TypeVar

from twisted.internet.defer import Deferred

from saltwisted.stores.roots.served import RunInPool, Shared
from saltwisted.stores.roots.tree import AT_ONCE, Listing

MOST = 16
"""Lists that are kept."""

T = TypeVar("T")


class Made(Generic[T]):
    """
    What was made of some objects lately, by the name of what it is. It is no longer known when it
    would be made of others, even of equal ones: those are not compared.

    @param most: of all that is kept.
    @param size: of one of them.
    """

    def __init__(self, most: int, size: Callable[[T], int]) -> None:
        self._most, self._size = most, size
        self._made: OrderedDict[Hashable, tuple[Sequence[Any], T]] = OrderedDict()
        self._held = 0

    def of(self, name: Hashable, source: Sequence[Any]) -> T | None:
        """What is known."""
        known = self._made.get(name)
        if known is None or len(known[0]) != len(source):
            return None
        if known[0] is not source and any(
            one is not other for one, other in zip(known[0], source, strict=True)
        ):
            return None
        self._made.move_to_end(name)
        return known[1]

    def keep(self, name: Hashable, source: Sequence[Any], made: T) -> T:
        """Know it from now on."""
        self._forget(self._made.pop(name, None))
        self._made[name] = source, made
        self._held += self._size(made)
        while self._held > self._most and len(self._made) > 1:
            self._forget(self._made.popitem(last=False)[1])
        return made

    def _forget(self, known: tuple[Sequence[Any], T] | None) -> None:
        if known is not None:
            self._held -= self._size(known[1])


class Joined:
    """
    Lists of several places as one.

    @param join: makes one of two.
    @param run: runs a blocking call in the pool.
    """

    def __init__(self, join: Callable[[Listing, Listing], Listing], run: RunInPool) -> None:
        self._join, self._run = join, run
        self._made: Made[Listing] = Made(MOST, lambda listing: 1)
        self._coming: dict[Hashable, tuple[Sequence[Listing], Shared]] = {}

    def of(self, name: Hashable, listings: Sequence[Listing]) -> Listing | Deferred[Listing]:
        """
        All of these as one.

        @param name: the name of the list.
        """
        some = [each for each in listings if each != Listing()]
        if len(some) < 2:
            return some[0] if some else Listing()
        known = self._made.of(name, some)
        if known is not None:
            return known
        if sum(len(each.files) + len(each.dirs) for each in some) <= AT_ONCE:
            return self._made.keep(name, some, reduce(self._join, some))
        coming = self._coming.get(name)
        if coming is None or list(map(id, coming[0])) != list(map(id, some)):
            coming = self._coming[name] = some, Shared()
            coming[1].follow(self._run(reduce, self._join, some).addBoth(self._came, name, some))
        return coming[1].join()

    def _came(self, outcome: Any, name: Hashable, some: Sequence[Listing]) -> Any:
        coming = self._coming.get(name)
        if coming is not None and coming[0] is some:
            del self._coming[name]
        return self._made.keep(name, some, outcome) if isinstance(outcome, Listing) else outcome
