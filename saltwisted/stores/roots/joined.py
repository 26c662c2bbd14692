"""
Several lists as one, made once of the same lists: ten thousand names take a millisecond or two.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from functools import reduce
from typing import Any, Generic, TypeVar

from saltwisted.stores.roots.tree import Listing

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
    """

    def __init__(self, join: Callable[[Listing, Listing], Listing]) -> None:
        self._join = join
        self._made: Made[Listing] = Made(MOST, lambda listing: 1)

    def of(self, name: Hashable, listings: Sequence[Listing]) -> Listing:
        """
        All of these as one.

        @param name: the name of the list.
        """
        some = [each for each in listings if each != Listing()]
        if len(some) < 2:
            return some[0] if some else Listing()
        return self._made.of(name, some) or self._made.keep(name, some, reduce(self._join, some))
