"""
Generations that were made for a job: what was served then, but with a commit that was never served
as environment C{base}.

They are recorded by what they were made of, and not as refs of their own: so hundreds of them cost
next to nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from attrs import frozen

from saltwisted.domain.git.history import MOST, MOST_USED


@frozen
class Made:
    """
    @ivar of: the generation that was served then.
    @ivar base: remote to the commit that is its C{base} instead.
    """

    of: str
    base: Mapping[str, str]


class MadeGenerations:
    """
    By their names; the last one that was made is the last.

    @param rows: as of L{rows}; invalid ones are left out.
    """

    def __init__(self, rows: Any = None) -> None:
        self._made: dict[str, Made] = {}
        for row in rows if isinstance(rows, (list, tuple)) else ():
            try:
                name, of, base = row
                base = {str(remote): str(commit) for remote, commit in base.items()}
            except (AttributeError, TypeError, ValueError):
                continue
            self._made[str(name)] = Made(str(of), base)

    def rows(self) -> list[list[Any]]:
        """As plain data."""
        return [[name, made.of, dict(made.base)] for name, made in self._made.items()]

    def get(self, name: str) -> Made | None:
        """How it was made; C{None} for what is not known."""
        return self._made.get(name)

    def add(self, name: str, made: Made, used: Collection[str] = ()) -> bool:
        """
        It is made now; whether that is news.

        @param used: those on which something runs: they stay known as long as that.
        """
        is_news = self._made.pop(name, None) != made
        self._made[name] = made
        older = list(self._made)[:-MOST]
        held = set([each for each in older if each in used][-MOST_USED:])
        for each in older:
            if each not in held:
                del self._made[each]
        return is_news

    def commits(self, remote: str) -> set[str]:
        """The commits of a remote that they need besides."""
        return {made.base[remote] for made in self._made.values() if remote in made.base}
