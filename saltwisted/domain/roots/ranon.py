"""
On which trees something has run, by the names of their generations.

Nodes that have been told the same forget the same, in whichever order they heard of it: what was
run last stays, and of the rest what somebody needs. So a name means something on all nodes, or on
none.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from attrs import define

MOST = 200
"""Generations that are known in any case."""
MOST_USED = 200
"""Older ones that are known beside, since something runs on them."""
USED = 300.0
"""Seconds for which one counts as used after that was last told: a takeover is shorter."""
STEP = 0.001
"""Seconds by which what runs is later than all that was run before, whatever a clock says."""
MOST_SHARES = 256
LONGEST = 64
LATEST = 1e12

Trees = Mapping[str, bytes]
"""Share to the digest of its tree."""


@define
class _Row:
    """
    @ivar at: when it was last run, in seconds since 1970, or a moment after what was run before.
    @ivar used: when it was last told that something runs on it, by this node's own clock.
    """

    trees: Trees
    at: float
    used: float | None = None


class RanOn:
    """What one node knows."""

    def __init__(self) -> None:
        self._rows: dict[str, _Row] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._rows

    def get(self, name: str) -> Trees:
        """The trees of a generation; nothing for what is not known."""
        row = self._rows.get(name)
        return {} if row is None else row.trees

    def at(self, name: str) -> float:
        """When it was last run; 0 for what is not known."""
        row = self._rows.get(name)
        return 0.0 if row is None else row.at

    def known(self) -> dict[str, Trees]:
        """All of them, the one that was run last at the end."""
        return {name: self._rows[name].trees for name in self._order()}

    def _order(self) -> list[str]:
        return sorted(self._rows, key=lambda name: (self._rows[name].at, name))

    def runs(self, name: str, trees: Trees, day: float, now: float) -> bool:
        """
        Something is run on it; whether that is news, for those that are to outlive this.

        @param day: seconds since 1970; C{now}: by this node's own clock, also below.
        """
        newest = max((row.at for row in self._rows.values()), default=0.0)
        self.add(name, trees, max(day, newest + STEP))
        return self.use(name, now, now)

    def add(self, name: str, trees: Trees, at: float) -> bool:
        """It was run then, perhaps elsewhere; whether that is news."""
        row = self._rows.get(name)
        if row is None:
            self._rows[name] = _Row(trees, at)
            return True
        row.at = max(row.at, at)
        return False

    def use(self, name: str, at: float, now: float) -> bool:
        """Something ran on it at that moment; whether it did not count as used until now."""
        row = self._rows.get(name)
        if row is None or now - at >= USED:
            return False
        is_news = row.used is None or now - row.used >= USED
        row.used = at if row.used is None else max(row.used, at)
        return is_news

    def used(self, now: float) -> set[str]:
        """Of which it was told lately that something runs on them."""
        return {
            name
            for name, row in self._rows.items()
            if row.used is not None and now - row.used < USED
        }

    def forget(self, needed: Collection[str], now: float) -> None:
        """
        Of those that are older than L{MOST} others only what is used stays known.

        @param needed: on which jobs and runs are, beside those of which that was told.
        """
        older = self._order()[:-MOST]
        held = self.used(now) | set(needed) if older else set()
        held = set([name for name in older if name in held][-MOST_USED:])
        for name in older:
            if name not in held:
                del self._rows[name]

    # -- as plain data

    def rows(self, now: float, names: Iterable[str] | None = None) -> list[list[Any]]:
        """
        What others, or the next life, may know: name, trees, when it was run, and how many seconds
        ago it was said that something runs on it.

        @param names: only these.
        """
        chosen = self._order() if names is None else [name for name in names if name in self]
        found = []
        for name in chosen:
            row = self._rows[name]
            ago = None if row.used is None or now - row.used >= USED else now - row.used
            found.append([name, dict(row.trees), row.at, ago])
        return found

    def take(self, rows: Any, now: float, again: bool = False) -> bool:
        """
        What another node knew; whether something of it is news.

        @param again: it was an earlier life: who goes on with what ran then has yet to say so.
        @raises ValueError: it makes no sense; nothing of it is taken.
        """
        read = [_read(row) for row in rows[-MOST - MOST_USED :]]
        is_news = False
        for name, trees, at, ago in read:
            is_news |= self.add(name, trees, at)
            if ago is not None:
                is_news |= self.use(name, now if again else now - ago, now)
        return is_news


def _read(row: Any) -> tuple[str, Trees, float, float | None]:
    try:
        name, said, at, ago = row
        if any(not isinstance(digest, bytes) for digest in said.values()):
            raise ValueError("no digest")
        trees = {str(share): digest for share, digest in said.items()}
        at, ago = float(at), None if ago is None else float(ago)
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError("no generation") from error
    if not isinstance(name, str) or len(name) > LONGEST or len(trees) > MOST_SHARES:
        raise ValueError("no generation")
    if not 0 <= at < LATEST or (ago is not None and not 0 <= ago < math.inf):
        raise ValueError("no generation")
    return name, trees, at, ago


def trees_of(said: Any) -> Trees:
    """Those of a record, which has them in hexadecimal digits; nothing of what makes no sense."""
    try:
        return {str(share): bytes.fromhex(digest) for share, digest in said.items()}
    except (AttributeError, TypeError, ValueError):
        return {}
