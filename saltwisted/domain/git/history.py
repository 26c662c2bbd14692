"""
Which commits were served before: the generations that are kept, as what each changed.

A generation is named by its view. It has for each remote its refs; one after another differs in few
of them, so that hundreds cost little more than one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from saltwisted.domain.git.mapping import Tip

MOST = 200
"""Generations that are kept."""
SHORTEST = 7
"""Digits that a commit is named by at least."""

Refs = dict[str, Tip]
Remotes = Mapping[str, Mapping[str, Tip]]
"""The refs of each remote, by its id."""
Change = dict[str, "dict[str, list[str] | None] | None"]
"""What is another in a remote's refs; C{None} for what is gone."""


class CommitHistory:
    """
    The newest last.

    @param rows: as of L{rows}; what is none is left out.
    """

    def __init__(self, rows: Any = ()) -> None:
        self._rows: list[tuple[str, Change, float]] = []
        self._newest: dict[str, Refs] = {}
        for row in rows if isinstance(rows, (list, tuple)) else ():
            try:
                name, change, at = str(row[0]), dict(row[1]), float(row[2])
                _apply(self._newest, change)
            except (AttributeError, IndexError, KeyError, TypeError, ValueError):
                self._rows, self._newest = [], {}
                return
            self._rows.append((name, change, at))

    def rows(self) -> list[list[Any]]:
        """As plain data."""
        return [list(row) for row in self._rows]

    def newest(self, most: int) -> list[tuple[str, float, Mapping[str, Any]]]:
        """The newest first: name, when it was first served, and what changed, by remote."""
        return [(name, at, change) for name, change, at in reversed(self._rows[-most:])]

    def add(self, name: str, remotes: Remotes, at: float) -> bool:
        """This is served from now on; whether it is another than before."""
        change: Change = {}
        for remote in {*self._newest, *remotes}:
            if remote not in remotes:
                change[remote] = None
            elif remotes[remote] != self._newest.get(remote):
                change[remote] = _between(self._newest.get(remote, {}), remotes[remote])
        if self._rows and self._rows[-1][0] == name and not change:
            return False
        _apply(self._newest, change)
        self._rows.append((name, change, at))
        while len(self._rows) > MOST:
            self._forget()
        return True

    def _forget(self) -> None:
        """The oldest is no longer kept: the next one begins with all that it has."""
        whole: dict[str, Refs] = {}
        for _, change, _ in self._rows[:2]:
            _apply(whole, change)
        name, _, at = self._rows[1]
        self._rows[:2] = [(name, {remote: _between({}, whole[remote]) for remote in whole}, at)]

    def _walk(self) -> Iterator[tuple[str, dict[str, Refs]]]:
        refs: dict[str, Refs] = {}
        for name, change, _ in self._rows:
            _apply(refs, change)
            yield name, refs

    def generation(self, name: str) -> dict[str, Refs] | None:
        """The refs of the newest generation of this name; C{None} for one that is not kept."""
        found = None
        for each, refs in self._walk():
            if each == name:
                found = {remote: dict(tips) for remote, tips in refs.items()}
        return found

    def objects(self, remote: str) -> set[str]:
        """All that refs of a remote have led to in the generations that are kept."""
        return {
            tip[0]
            for _, change, _ in self._rows
            for tip in (change.get(remote) or {}).values()
            if tip is not None
        }

    def commits(self, prefix: str) -> set[str]:
        """The commits that were served, and begin so."""
        return {
            tip.commit
            for _, refs in self._walk()
            for tips in refs.values()
            for tip in tips.values()
            if tip.commit.startswith(prefix)
        }

    def serving(
        self, commit: str, is_meant: Callable[[Mapping[str, Refs]], bool] = lambda refs: True
    ) -> dict[str, Refs] | None:
        """The refs of the newest generation that had a commit, of those that are meant."""
        found = None
        for _, refs in self._walk():
            has = any(tip.commit == commit for tips in refs.values() for tip in tips.values())
            if has and is_meant(refs):
                found = {remote: dict(tips) for remote, tips in refs.items()}
        return found


class BackWards:
    """
    Remotes that are rolled back: what had been fetched of each then, and what is served instead.

    It holds until something else is fetched: a push ends it.

    @param rows: as of L{rows}; what is none is left out.
    """

    def __init__(self, rows: Any = None) -> None:
        self._remotes: dict[str, tuple[dict[str, str], Refs]] = {}
        for remote, row in (rows if isinstance(rows, dict) else {}).items():
            try:
                refs: dict[str, Refs] = {}
                _apply(refs, {"": row[1]})
                self._remotes[str(remote)] = (dict(row[0]), refs[""])
            except (AttributeError, IndexError, KeyError, TypeError, ValueError):
                continue

    def rows(self) -> dict[str, Any]:
        """As plain data."""
        return {remote: [had, _between({}, refs)] for remote, (had, refs) in self._remotes.items()}

    def __contains__(self, remote: str) -> bool:
        return remote in self._remotes

    def put(self, remote: str, fetched: Mapping[str, Tip], earlier: Mapping[str, Tip]) -> int:
        """Serve something else of a remote than what was fetched; how many refs differ."""
        changed = len(_between(fetched, earlier))
        self._remotes.pop(remote, None)
        if changed:
            self._remotes[remote] = (_commits(fetched), dict(earlier))
        return changed

    def refs(self, remote: str, fetched: Mapping[str, Tip]) -> tuple[Refs | None, bool]:
        """
        What is served in the place of what was fetched; C{None}: just that. And whether it was
        something else until now.
        """
        known = self._remotes.get(remote)
        if known is None:
            return None, False
        if known[0] != _commits(fetched):
            del self._remotes[remote]
            return None, True
        return known[1], False


def _commits(refs: Mapping[str, Tip]) -> dict[str, str]:
    return {ref: tip.commit for ref, tip in refs.items()}


def _between(old: Mapping[str, Tip], new: Mapping[str, Tip]) -> dict[str, list[str] | None]:
    change: dict[str, list[str] | None] = {
        ref: [tip.id, tip.commit, tip.tree] for ref, tip in new.items() if old.get(ref) != tip
    }
    change.update({ref: None for ref in old if ref not in new})
    return change


def _apply(refs: dict[str, Refs], change: Mapping[str, Any]) -> None:
    for remote, changed in change.items():
        if changed is None:
            del refs[remote]
            continue
        tips = refs.setdefault(remote, {})
        for ref, tip in changed.items():
            if tip is None:
                del tips[ref]
            else:
                tips[ref] = Tip(*map(str, tip))
