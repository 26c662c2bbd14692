"""
Which commits were served before: the generations that are kept, stored as changes.

A generation is named by its view. It has the refs of each remote. Successive generations differ in
few of them, so hundreds cost little more than one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from saltwisted.domain.git.mapping import Tip

MOST = 200
"""Generations that are kept in any case."""
MOST_USED = 200
"""Older ones that are kept, since something runs on them."""
USED = 600.0
"""Seconds for which a generation counts as used after it was last seen so: a restart is shorter."""
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

    @param rows: as of L{rows}; invalid ones are left out.
    @param now: something may run again on what was used when they were written: that is yet to be
        said. C{None}: what they say is true now.
    """

    def __init__(self, rows: Any = (), now: float | None = None) -> None:
        self._rows: list[tuple[str, Change, float]] = []
        self._used: dict[str, float] = {}
        self._newest: dict[str, Refs] = {}
        for row in rows if isinstance(rows, (list, tuple)) else ():
            try:
                name, change, at = str(row[0]), dict(row[1]), float(row[2])
                used = float(row[3]) if len(row) > 3 else None
                _apply(self._newest, change)
            except (AttributeError, IndexError, KeyError, TypeError, ValueError):
                self._rows, self._newest, self._used = [], {}, {}
                return
            self._rows.append((name, change, at))
            if used is not None:
                self._used[name] = used if now is None else max(used, now)

    def rows(self) -> list[list[Any]]:
        """As plain data."""
        used = self._used
        return [[*row, used[row[0]]] if row[0] in used else list(row) for row in self._rows]

    def newest(self, most: int) -> list[tuple[str, float, Mapping[str, Any]]]:
        """The newest first: name, when it was first served, and what changed, by remote."""
        return [(name, at, change) for name, change, at in reversed(self._rows[-most:])]

    def add(self, name: str, remotes: Remotes, at: float, used: Iterable[str] = ()) -> bool:
        """
        This is served from now on; whether it is another than before.

        @param used: generations on which something runs now.
        """
        change = _change(self._newest, remotes)
        if self._rows and self._rows[-1][0] == name and not change:
            return False
        _apply(self._newest, change)
        self._rows.append((name, change, at))
        self._used.update(dict.fromkeys(used, at))
        self._prune(at)
        return True

    def _prune(self, now: float) -> None:
        """Of those that are older than L{MOST} newer ones only what is used is kept."""
        old = [name for name, _, _ in self._rows[:-MOST]]
        # One that is served again is kept as the newer of the two
        newer = {name for name, _, _ in self._rows[-MOST:]}
        held = [
            number
            for number, name in enumerate(old)
            if name in self._used
            and now - self._used[name] < USED
            and name not in newer
            and name not in old[number + 1 :]
        ][-MOST_USED:]
        for number in sorted(set(range(len(old))) - set(held), reverse=True):
            self._forget(number)
        names = {name for name, _, _ in self._rows}
        self._used = {name: at for name, at in self._used.items() if name in names}

    def _forget(self, number: int) -> None:
        """One is no longer kept: the next one changes what both did."""
        before: dict[str, Refs] = {}
        for _, change, _ in self._rows[:number]:
            _apply(before, change)
        after = {remote: dict(refs) for remote, refs in before.items()}
        for _, change, _ in self._rows[number : number + 2]:
            _apply(after, change)
        name, _, at = self._rows[number + 1]
        self._rows[number : number + 2] = [(name, _change(before, after), at)]

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

    def having(self, remotes: Remotes) -> str | None:
        """The newest generation in which these remotes had these refs; C{None} if none had."""
        found = None
        for name, refs in self._walk():
            if all(refs.get(remote) == tips for remote, tips in remotes.items()):
                found = name
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

    A rollback holds until something else is fetched: a push ends it.

    @param rows: as of L{rows}; invalid ones are left out.
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
        """Serve other refs of a remote than what was fetched; returns how many differ."""
        changed = changes(fetched, earlier)
        self._remotes.pop(remote, None)
        if changed:
            self._remotes[remote] = (_commits(fetched), dict(earlier))
        return changed

    def refs(self, remote: str, fetched: Mapping[str, Tip]) -> tuple[Refs | None, bool]:
        """
        What is served instead of what was fetched; C{None}: just that. And whether it was something
        else until now.
        """
        known = self._remotes.get(remote)
        if known is None:
            return None, False
        if known[0] != _commits(fetched):
            del self._remotes[remote]
            return None, True
        return known[1], False


def changes(fetched: Mapping[str, Tip], earlier: Mapping[str, Tip]) -> int:
    """In how many refs two states of a remote differ."""
    return len(_between(fetched, earlier))


def _commits(refs: Mapping[str, Tip]) -> dict[str, str]:
    return {ref: tip.commit for ref, tip in refs.items()}


def _change(old: Remotes, new: Remotes) -> Change:
    change: Change = {remote: None for remote in old if remote not in new}
    for remote, refs in new.items():
        if refs != old.get(remote):
            change[remote] = _between(old.get(remote, {}), refs)
    return change


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
