"""
What a long-lived worker remembers between renderings: compiled templates and parsed texts.

Keys contain everything on which a value depends (a file's path and stamp, the text itself, the
environment's settings), so nothing here ever has to be invalidated; the oldest values are dropped.
One cache may serve many renderers.
"""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any


class Shelf:
    """
    Values by key, the least recently used thrown out first.

    @param capacity: the sum of the weights that may stay.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._weight = 0
        self._items: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()

    def get(self, key: Hashable) -> Any:
        """The value, or C{None}."""
        found = self._items.get(key)
        if found is None:
            return None
        self._items.move_to_end(key)
        return found[0]

    def put(self, key: Hashable, value: Any, weight: int) -> None:
        """Keep a value unless it alone exceeds the capacity."""
        if weight > self._capacity:
            return
        old = self._items.pop(key, None)
        if old is not None:
            self._weight -= old[1]
        self._items[key] = (value, weight)
        self._weight += weight
        while self._weight > self._capacity:
            _, (_, gone) = self._items.popitem(last=False)
            self._weight -= gone

    def __len__(self) -> int:
        return len(self._items)


class RenderCache:
    """
    The shelves of one process.

    @ivar sources: (path, stamp) to text.
    @ivar code: compiled Jinja templates; the weight is the source's length.
    """

    def __init__(self, megabytes: int = 16) -> None:
        size = megabytes << 20
        self.sources = Shelf(size // 4)
        self.code = Shelf(size // 4)
        self._parsed = Shelf(size // 2)

    def parsed(self, kind: str, text: str, parse: Callable[[str], Any]) -> Any:
        """
        The value of a text, as a fresh copy on each call.

        Values are kept pickled: callers may edit what they get, and reading a
        pickle back takes a tenth of the time that YAML takes.
        """
        key = (kind, text)
        kept = self._parsed.get(key)
        if kept is not None:
            return pickle.loads(kept)  # noqa: S301 - our own bytes, never outside this process
        value = parse(text)
        try:
            kept = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        except (pickle.PicklingError, RecursionError, TypeError, AttributeError):
            return value
        self._parsed.put(key, kept, len(kept) + len(text))
        return value
