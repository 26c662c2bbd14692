"""
The index of one share: versions of every path, what is visible, and what has been seen.

The rules: a version is replaced by one whose writer had seen it (its dot is inside the
batch's C{deps}); versions that did not see one another are siblings, and one total order, the same
on every replica, picks the visible one. Batches are applied in causal order, so knowledge
stays a vector of counters. Deletion needs no marker for ever: what a peer has
and I have not is new if its dot is outside my knowledge, and was deleted otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import define, field

from saltwisted.domain.causality.knowledge import Dot, covers, joined, knows
from saltwisted.domain.roots.entry import (
    ABSENT,
    DIR,
    FILE,
    GONE,
    IMPLIED,
    Batch,
    Conflict,
    Knowledge,
    ReplicaId,
    TreeEntry,
    Version,
    ancestors,
    split,
)
from saltwisted.domain.roots.manifest import Folder, Generation, folder_digest, root_digest
from saltwisted.domain.roots.moves import find_moves
from saltwisted.errors import SaltwistedError

Rows = Mapping[bytes, tuple[Version, ...]]


class NotYet(SaltwistedError):
    """A batch came before one that it depends on."""


@define
class Outcome:
    """
    What a change of the index did.

    @ivar rows: paths whose versions changed.
    @ivar shown: path to (before, after) where the visible tree changed; C{None} is absent.
    @ivar fresh: those of them that had no version before.
    @ivar conflicts: versions that lost against one that had not seen them.
    """

    rows: set[bytes] = field(factory=set)
    fresh: set[bytes] = field(factory=set)
    shown: dict[bytes, tuple[TreeEntry | None, TreeEntry | None]] = field(factory=dict)
    conflicts: list[Conflict] = field(factory=list)


@define
class Policy:
    """
    Which sibling is visible.

    @ivar primary: the master whose versions come first; C{""} lets the newest win.
    """

    primary: str = ""

    def rank(self, version: Version) -> tuple[object, ...]:
        """
        A total order over versions, the same everywhere: the largest is visible.

        Anything wins over a deletion, a directory over a file; then the stamp decides.
        """
        (replica, counter), stamp, entry = version
        return (
            entry.kind != ABSENT,
            entry.kind == DIR,
            bool(self.primary) and replica.master == self.primary,
            stamp,
            replica.master,
            replica.incarnation,
            counter,
        )


class Index:
    """
    One replica's state of one share. Not safe for threads; one owner at a time.

    @ivar main: the lane of this replica's ordinary batches.
    @ivar bulk: the lane of its large ones.
    @ivar rows: path to its siblings, the visible one first; deletions are rows until purged.
    @ivar changes: counts whatever changes it, also what is not a commit.
    """

    def __init__(
        self, main: ReplicaId, bulk: ReplicaId | None = None, policy: Policy | None = None
    ) -> None:
        self.main = main
        self.bulk = bulk or main
        self.policy = policy or Policy()
        self.rows: dict[bytes, tuple[Version, ...]] = {}
        self.knowledge: dict[ReplicaId, int] = {}
        self.number = 0
        self.changes = 0
        self._folders: dict[bytes, dict[bytes, TreeEntry]] = {b"": {}}
        self._digests: dict[bytes, bytes] = {}
        self._own: set[bytes] = {b""}
        self._stale: set[bytes] = {b""}
        self._files = 0
        self._bytes = 0

    # -- reading

    def visible(self, path: bytes) -> TreeEntry | None:
        """What is shown at a path."""
        head, tail = split(path)
        folder = self._folders.get(head)
        return None if folder is None else folder.get(tail)

    @property
    def folders(self) -> Mapping[bytes, Folder]:
        """The visible tree, by directory; not to be kept across a change."""
        return self._folders

    def generation(self, at: float = 0.0) -> Generation:
        """The visible tree as it stands, as a value that no later change touches."""
        for head in self._stale:
            folder = self._folders.get(head)
            if folder:
                self._digests[head] = folder_digest(folder)
            else:
                self._digests.pop(head, None)
        self._stale.clear()
        self._own.clear()
        return Generation(
            self.number,
            root_digest(self._digests),
            dict(self._folders),
            dict(self._digests),
            dict(self.knowledge),
            at,
            self._files,
            self._bytes,
        )

    def copy(self) -> Index:
        """An independent copy."""
        other = Index(self.main, self.bulk, self.policy)
        other.rows.update(self.rows)
        other.knowledge.update(self.knowledge)
        other.number, other.changes = self.number, self.changes
        other._folders = dict(self._folders)
        other._digests = dict(self._digests)
        # The directories themselves belong to both now
        self._own.clear()
        other._own.clear()
        other._stale = set(self._stale)
        other._files, other._bytes = self._files, self._bytes
        return other

    def is_old_copy(self, theirs: Knowledge) -> bool:
        """Whether a peer knows dots of ours that we have not made: this is an old copy."""
        return any(
            theirs.get(lane, 0) > self.knowledge.get(lane, 0) for lane in (self.main, self.bulk)
        )

    # -- loading

    def load(self, rows: Rows, knowledge: Knowledge) -> None:
        """Take over rows and knowledge that were stored; the index must be empty."""
        self.rows.update(rows)
        self.knowledge.update(knowledge)
        outcome = Outcome()
        self.changes += 1
        for path in sorted(self.rows, reverse=True):
            self._show(path, outcome)

    # -- writing

    def commit(
        self,
        wanted: Mapping[bytes, TreeEntry],
        stamp: int,
        *,
        bulk: bool = False,
        seen: Knowledge | None = None,
        unacked: int | None = None,
        approved: str = "",
        settled: Iterable[tuple[bytes, Dot[ReplicaId]]] = (),
        founding: bool = False,
    ) -> tuple[Batch, Outcome] | None:
        """
        Make a batch of this replica's user's changes, and apply it; C{None} if nothing differs.

        @param wanted: path to what is there now; C{GONE} for what was removed.
        @param bulk: use the lane of large batches.
        @param seen: what the writer had seen, if that is less than the index knows.
        @param unacked: the last counter of our bulk lane that every live peer has; a small
            batch does not claim to have seen later ones, unless it touches what they wrote.
        @param founding: make a batch even without changes, to say that this tree is the cluster's.
        """
        changed = {
            path: entry for path, entry in wanted.items() if entry != (self.visible(path) or GONE)
        }
        settled = tuple(settled)
        if not changed and not settled and not founding:
            return None
        heads = {split(path)[0] for path in changed}
        over = {each for head in heads if head for each in (head, *ancestors(head))}
        for above in sorted(over):
            if above not in changed and self._is_implied(above):
                changed[above] = IMPLIED
        lane = self.bulk if bulk else self.main
        lo = self.knowledge.get(lane, 0) + 1
        deps = dict(self.knowledge if seen is None else seen)
        if unacked is not None and lane != self.bulk and self.bulk in deps:
            deps[self.bulk] = self._needed(changed, self.bulk, unacked)
        deps[lane] = lo - 1
        batch = Batch(
            replica=lane,
            lo=lo,
            stamp=stamp,
            deps={replica: counter for replica, counter in deps.items() if counter},
            entries=tuple(sorted(changed.items())),
            settled=settled,
            approved=approved,
            moves=find_moves(self._folders, changed),
        )
        return batch, self._take(batch)

    def apply(self, batch: Batch) -> Outcome | None:
        """
        Apply another replica's batch, or one of ours that came back; C{None} if it is known.

        @raises NotYet: something that it depends on is missing; nothing has changed.
        """
        known = self.knowledge.get(batch.replica, 0)
        if batch.hi <= known:
            return None
        if batch.lo != known + 1 or not covers(self.knowledge, batch.deps):
            raise NotYet(f"{batch.replica.master} {batch.lo}")
        return self._take(batch)

    def _take(self, batch: Batch) -> Outcome:
        outcome = Outcome()
        self.changes += 1
        counter = batch.lo
        replica, stamp = batch.replica, batch.stamp
        rows, fresh = self.rows, outcome.fresh
        for path, entry in batch.entries:
            version = Version(Dot(replica, counter), stamp, entry)
            if path in rows:
                self._integrate(path, version, batch)
            else:
                rows[path] = (version,)
                fresh.add(path)
            counter += 1
        self.knowledge[batch.replica] = batch.hi
        self.number += 1
        # Children first: a directory that gives way to a file has lost its entries by then
        for path, entry in reversed(batch.entries):
            if not self._show_file(path, entry, path in fresh, outcome):
                self._lost(path, outcome)
                self._show(path, outcome)
        outcome.rows.update(path for path, _ in batch.entries)
        return outcome

    def _show_file(self, path: bytes, entry: TreeEntry, fresh: bool, outcome: Outcome) -> bool:
        """
        Show a file where nothing ever was, or that one is gone, as L{_show} would; false if it is
        not that simple: if its directory comes or goes with it, or it is not alone at its path. A
        tree that comes first, or moves, takes two thirds of the time so.
        """
        head, _, tail = path.rpartition(b"/")
        folder = self._folders.get(head)
        if not folder or path in self._folders:
            return False
        before = folder.get(tail)
        if entry.kind == FILE:
            if not fresh or before is not None:
                return False
        elif (
            entry.kind != ABSENT
            or before is None
            or before.kind != FILE
            or len(folder) == 1
            or len(self.rows[path]) > 1
        ):
            return False
        if head not in self._own:
            folder = self._folders[head] = dict(folder)
            self._own.add(head)
        self._stale.add(head)
        if before is None:
            folder[tail] = entry
            self._files += 1
            self._bytes += entry.size
            outcome.shown[path] = (None, entry)
        else:
            del folder[tail]
            self._files -= 1
            self._bytes -= before.size
            outcome.shown[path] = (before, None)
        return True

    def _integrate(self, path: bytes, version: Version, batch: Batch) -> None:
        there = self.rows.get(path)
        if there is None or (len(there) == 1 and knows(batch.deps, there[0].dot)):
            self.rows[path] = (version,)
            return
        kept = [one for one in there if not knows(batch.deps, one.dot)]
        self.rows[path] = self._ordered([*kept, version])

    def _ordered(self, versions: list[Version]) -> tuple[Version, ...]:
        if len(versions) > 1:
            versions.sort(key=self.policy.rank, reverse=True)
        return tuple(versions)

    def replay(self, batch: Batch) -> set[bytes]:
        """Apply a batch that knowledge has already, but the rows have not; the paths of it."""
        return self._take(batch).rows

    def merge(self, rows: Rows, knowledge: Knowledge) -> Outcome:
        """
        Take in the whole state of another replica.

        A version that only one side has stays if the other side has never seen it, and
        was replaced or deleted there otherwise.
        """
        outcome = Outcome()
        self.changes += 1
        for path in sorted(self.rows.keys() | rows.keys()):
            mine, theirs = self.rows.get(path, ()), rows.get(path, ())
            if mine == theirs:
                continue
            my_dots = {one.dot for one in mine}
            their_dots = {one.dot for one in theirs}
            kept = [one for one in mine if one.dot in their_dots or not knows(knowledge, one.dot)]
            kept += [
                one
                for one in theirs
                if one.dot not in my_dots and not knows(self.knowledge, one.dot)
            ]
            after = self._ordered(kept)
            if after != mine:
                outcome.rows.add(path)
                if after:
                    self.rows[path] = after
                else:
                    self.rows.pop(path, None)
        self.knowledge = joined(self.knowledge, knowledge)
        self.number += 1
        for path in sorted(outcome.rows, reverse=True):
            self._lost(path, outcome)
            self._show(path, outcome)
        return outcome

    def repair(self, rows: Rows) -> Outcome:
        """
        Become like a replica that knows the same and holds something else: a fault, of a disk or of
        a program. What either has is kept, in the order that all agree on.
        """
        outcome = Outcome()
        self.changes += 1
        for path in sorted(self.rows.keys() | rows.keys()):
            mine, theirs = self.rows.get(path, ()), rows.get(path, ())
            both = {one.dot: one for one in mine}
            for one in theirs:
                there = both.get(one.dot)
                if there is None or _fields(there) < _fields(one):
                    both[one.dot] = one
            after = self._ordered(list(both.values()))
            if after != mine:
                outcome.rows.add(path)
                self.rows[path] = after
        if outcome.rows:
            self.number += 1
        for path in sorted(outcome.rows, reverse=True):
            self._lost(path, outcome)
            self._show(path, outcome)
        return outcome

    def purge(self, paths: Iterable[bytes]) -> list[bytes]:
        """Forget deletions: rows that hold nothing but an absence. What was forgotten."""
        gone = []
        self.changes += 1
        for path in paths:
            row = self.rows.get(path, ())
            if len(row) == 1 and row[0].entry.kind == ABSENT:
                del self.rows[path]
                gone.append(path)
        return gone

    def reincarnate(
        self, main: ReplicaId, bulk: ReplicaId, trusted: Mapping[ReplicaId, int]
    ) -> dict[bytes, TreeEntry]:
        """
        Continue under a new incarnation, after a peer showed that this index is an old copy.

        What was written under the old name beyond the counters that peers had confirmed may have
        dots that mean something else elsewhere: it is removed, and returned to be committed again.

        @param trusted: our old lanes' counters that peers had acknowledged in this index.
        """
        again: dict[bytes, TreeEntry] = {}
        outcome = Outcome()
        self.changes += 1
        for lane in {self.main, self.bulk}:
            sure = min(trusted.get(lane, 0), self.knowledge.get(lane, 0))
            if self.knowledge.get(lane, 0) == sure:
                continue
            for path, row in list(self.rows.items()):
                doubtful = [v for v in row if v.dot.source == lane and v.dot.number > sure]
                if not doubtful:
                    continue
                again[path] = doubtful[0].entry
                rest = tuple(v for v in row if v not in doubtful)
                if rest:
                    self.rows[path] = rest
                else:
                    del self.rows[path]
                outcome.rows.add(path)
            if sure:
                self.knowledge[lane] = sure
            else:
                self.knowledge.pop(lane, None)
        self.main, self.bulk = main, bulk
        for path in sorted(outcome.rows, reverse=True):
            self._show(path, outcome)
        return again

    def beside(self, path: bytes) -> dict[ReplicaId, int]:
        """What a writer had seen who saw everything but the present versions of one path."""
        seen = dict(self.knowledge)
        for version in self.rows.get(path, ()):
            replica, counter = version.dot
            seen[replica] = min(seen[replica], counter - 1)
        return seen

    # -- what is shown

    def _is_implied(self, path: bytes) -> bool:
        shown = self.visible(path)
        if shown is None or shown.kind != DIR:
            return False
        row = self.rows.get(path)
        return not row or row[0].entry.kind != DIR

    def _needed(self, paths: Iterable[bytes], lane: ReplicaId, at_least: int) -> int:
        """The counter of a lane up to which these paths, and what is above, were written by it."""
        most = at_least
        wanted = set(paths)
        heads = {split(path)[0] for path in wanted}
        wanted.update(each for head in heads if head for each in (head, *ancestors(head)))
        for path in wanted:
            for (replica, counter), _, _ in self.rows.get(path, ()):
                if counter > most and replica == lane:
                    most = counter
        return min(most, self.knowledge.get(lane, 0))

    def _lost(self, path: bytes, outcome: Outcome) -> None:
        row = self.rows.get(path, ())
        for version in row[1:]:
            if not version.entry.same_content(row[0].entry):
                outcome.conflicts.append(Conflict(path, version))

    def _show(self, path: bytes, outcome: Outcome) -> None:
        while path:
            row = self.rows.get(path)
            after = row[0].entry if row and row[0].entry.kind != ABSENT else None
            if self._folders.get(path) and (after is None or after.kind != DIR):
                if after is not None and row:
                    outcome.conflicts.append(Conflict(path, row[0]))
                after = IMPLIED
            head, _, tail = path.rpartition(b"/")
            folder = self._folders.get(head)
            before = folder.get(tail) if folder else None
            if after is before or after == before:
                return
            self._set(head, tail, after)
            first = outcome.shown[path][0] if path in outcome.shown else before
            outcome.shown[path] = (first, after)
            if (not folder) == (not self._folders.get(head)):
                return
            path = head

    def _set(self, head: bytes, tail: bytes, entry: TreeEntry | None) -> None:
        folder = self._folders.get(head)
        if folder is None or head not in self._own:
            folder = self._folders[head] = dict(folder or {})
            self._own.add(head)
        self._stale.add(head)
        before = folder.get(tail)
        if before is not None and before.kind == FILE:
            self._files -= 1
            self._bytes -= before.size
        if entry is not None:
            if entry.kind == FILE:
                self._files += 1
                self._bytes += entry.size
            folder[tail] = entry
        else:
            folder.pop(tail, None)
            if not folder and head:
                del self._folders[head]
                self._own.discard(head)


def _fields(version: Version) -> tuple[object, ...]:
    entry = version.entry
    return version.stamp, entry.kind, entry.content, entry.size, entry.mtime, entry.mode
