"""
One share on disk: index, contents, history and conflicts, changed in whole transactions.

Every method blocks and is called in the pool, one at a time per share. Data that others need (the
generation that is served, knowledge, counts) is in attributes that are replaced, never changed. If
the disk refuses, the index is read again from it: memory is never ahead of the disk. Of a large
batch only the log is written at first. Its rows follow when nobody waits
(L{RootStore.write_behind}); if the process ends before that, the next start makes them from the
log.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence

from attrs import evolve, frozen

from saltwisted.domain.causality.clock import HybridClock
from saltwisted.domain.causality.knowledge import Dot
from saltwisted.domain.roots import codec
from saltwisted.domain.roots.entry import (
    Batch,
    Conflict,
    Knowledge,
    ReplicaId,
    TreeEntry,
    Version,
    lanes,
)
from saltwisted.domain.roots.guards import MAX_ENTRIES, Limits
from saltwisted.domain.roots.index import Index, NotYet, Outcome, Policy
from saltwisted.domain.roots.manifest import Generation
from saltwisted.errors import StoreError
from saltwisted.stores.files import make_dir, remove
from saltwisted.stores.roots.batchlog import BatchLog
from saltwisted.stores.roots.confirmed import Confirmed
from saltwisted.stores.roots.conflicts import Conflicts
from saltwisted.stores.roots.history import History, WayBack, way_back_from
from saltwisted.stores.roots.index import IndexDatabase
from saltwisted.stores.roots.indexrows import IndexRows
from saltwisted.stores.roots.knowntree import Known, KnownTree
from saltwisted.stores.roots.objectrows import ObjectRows
from saltwisted.stores.roots.objects import ContentStore
from saltwisted.stores.roots.places import Step, no_step
from saltwisted.stores.roots.unwritten import UnwrittenRows

MANY_ROWS = 200
"""Rows from which on they are written behind: the log has what they say."""
MOST_REHEARSED = 200_000
"""Rows up to which a batch is worked out on a copy of the index."""
KEEP = 7 * 86400.0
REPLAYED = Limits(max_file=1 << 62, max_entries=2 * MAX_ENTRIES, links="all")
"""What was taken once is not judged again."""


@frozen
class Rehearsal:
    """
    The effect of a batch on the index.

    @ivar before: the index on which it is based, and how often that had changed.
    @ivar index: a copy, which becomes the index.
    """

    batch: Batch
    before: Index
    changes: int
    index: Index
    outcome: Outcome
    generation: Generation
    back: WayBack

    def is_of(self, batch: Batch, index: Index) -> bool:
        """Whether nothing else has happened since."""
        return batch is self.batch and index is self.before and index.changes == self.changes


@frozen
class Commit:
    """
    The new state of the index, which is to be written to disk.

    @ivar batch: the batch that made it; C{None} for a state that was merged.
    @ivar tree: what is known of the working tree now, stored in the same transaction.
    @ivar origin: the node that made the change.
    @ivar came: the batch as it arrived, with its moves folded.
    """

    outcome: Outcome
    batch: Batch | None
    generation: Generation
    back: WayBack
    now: float
    origin: str
    note: str
    tree: Mapping[bytes, Known | None] | None = None
    came: bytes = b""


def discard(folder: str) -> None:
    """Remove a store: index, history and contents; what else is in the folder stays."""
    for name in ("index.sqlite", "index.sqlite-wal", "index.sqlite-shm"):
        remove(f"{folder}/{name}")
    for name in ("packs", "objects", "part"):
        shutil.rmtree(f"{folder}/{name}", ignore_errors=True)


class RootStore:
    """
    The state of one share, and each change of it.

    @param folder: the directory of index and contents, which only this share uses.
    @param master: this node's name, in dots and in the history.
    @param keep: seconds for which superseded objects are kept at least (as delta bases, and for
        rollback).
    @ivar owns_numbers: whether nobody can know changes by the numbers that come next, see L{go_on}.
    """

    def __init__(
        self,
        folder: str,
        master: str,
        entropy: Callable[[int], bytes],
        now: Callable[[], float],
        policy: Policy | None = None,
        limits: Limits | None = None,
        keep: float = KEEP,
        step: Step = no_step,
    ) -> None:
        self.folder = folder
        self.master = master
        self.limits = limits or Limits()
        self.keep = keep
        self.now = now
        self._entropy = entropy
        self._policy = policy or Policy()
        self._step = step
        make_dir(folder)
        self.database = IndexDatabase(f"{folder}/index.sqlite", step)
        self.rows = IndexRows(self.database)
        self.object_rows = ObjectRows(self.database)
        self.confirmed = Confirmed(self.database)
        self.owns_numbers = False
        self._rehearsed: Rehearsal | None = None
        self._open()

    def _open(self) -> None:
        database = self.database
        here = str(os.stat(database.path).st_ino)
        rows, knowledge = self.rows.all(), database.vector("know")
        incarnation = database.get("incarnation")
        if incarnation is None or database.get("inode") != here:
            # A file that was copied here is an old copy of something: go on under a new name
            incarnation = self._entropy(8)
            with database.transaction():
                database.set("incarnation", incarnation)
                database.set("inode", here)
            self.owns_numbers = True
        main, bulk = lanes(self.master, bytes(incarnation))
        self.index = Index(main, bulk, self._policy)
        ordered = {
            path: tuple(sorted(row, key=self._policy.rank, reverse=True))
            for path, row in rows.items()
        }
        self.index.load(ordered, knowledge)
        self.batches = BatchLog(database)
        self.unwritten = unwritten = UnwrittenRows(database, self.rows)
        self._replay(int(database.get("behind", 0)), knowledge)
        self.index.number = int(database.get("number", 0))
        self.tree = KnownTree(database, lambda: bool(unwritten))
        self.confirmed.reload()
        self.stamps = HybridClock(int(database.get("stamp", 0)))
        self.objects = ContentStore(self.folder, self.object_rows.places(), self._step)
        self.history = History(database, self.objects, lambda: self.generation, self.folder)
        self.generation: Generation = self.index.generation(self.now())
        self.knowledge: Knowledge = dict(self.generation.knowledge)
        self.conflicts = Conflicts(database)

    def _replay(self, first: int, knowledge: Knowledge) -> None:
        """Take batches of the log again whose rows were still to be written."""
        for number, replica, lo, _ in self.batches.rows if first else ():
            body = self.batches.body(replica, lo) if number >= first else None
            if body is not None:
                batch, _ = codec.unpack_batch(body, REPLAYED)
                self.unwritten.add(self.index.replay(batch))
        if first:
            self.index.knowledge = dict(knowledge)

    def write_behind(self) -> None:
        """Write the rows that the log alone has."""
        if not self.unwritten:
            return
        with self.database.transaction():
            self.unwritten.put(self.index, set(), set())
            self.tree.put()
        self.unwritten.written()
        self.tree.written()

    def reload(self) -> None:
        """Read everything again, after the disk refused a change."""
        self.objects.close()
        self._open()

    def begin_anew(self) -> None:
        """
        Forget tree and history, as if nothing had ever been replicated to here; the conflicts that
        are kept, and all contents, stay.
        """
        with self.database.transaction():
            self.database.forget_tree()
            self.database.set("incarnation", self._entropy(8))
            self.database.set("number", 0)
            self.database.set("anew", 0)
            self.database.set("behind", 0)
        self.reload()
        self.owns_numbers = True

    def close(self) -> None:
        """Close all files."""
        self.objects.close()
        self.database.close()

    # -- changes

    def commit(
        self,
        wanted: Mapping[bytes, TreeEntry],
        *,
        tree: Mapping[bytes, Known | None] | None = None,
        bulk: bool = False,
        beside: bytes | None = None,
        seen: Knowledge | None = None,
        unacked: int | None = None,
        approved: str = "",
        settled: Iterable[tuple[bytes, Dot[ReplicaId]]] = (),
        note: str = "",
        founding: bool = False,
    ) -> tuple[Batch, Outcome] | None:
        """
        The changes of a user of this master, as one batch and one generation.

        @param tree: what is known of the working tree now, stored in the same transaction.
        @param beside: whether the writer had not seen the present versions of this path.
        @raises StoreError: nothing has changed.
        """
        if beside is not None:
            seen = self.index.beside(beside)
        made = self.index.commit(
            wanted,
            self.stamps.tick(self.now()),
            bulk=bulk,
            seen=seen,
            unacked=unacked,
            approved=approved,
            settled=settled,
            founding=founding,
        )
        if made is None:
            if tree:
                self.tree.remember(tree)
            return None
        batch, outcome = made
        self._persist(evolve(self._made(outcome, batch, self.master, note), tree=tree))
        return batch, outcome

    def apply(self, batch: Batch, note: str = "", came: bytes = b"") -> Outcome | None:
        """
        Another master's batch, whose objects are here, as one generation.

        @param came: the batch as it arrived, with its moves folded; stored like that for others.
        @raises NotYet: it depends on a batch that is missing.
        @raises StoreError: nothing has changed.
        """
        rehearsed, self._rehearsed = self._rehearsed, None
        outcome: Outcome | None
        if rehearsed is not None and rehearsed.is_of(batch, self.index):
            self.index, outcome = rehearsed.index, rehearsed.outcome
        else:
            rehearsed, outcome = None, self.index.apply(batch)
        if outcome is None:
            return None
        self.stamps.observe(batch.stamp, self.now())
        made = self._made(outcome, batch, batch.replica.master, note, rehearsed)
        self._persist(evolve(made, came=came))
        return outcome

    def rehearse(self, batch: Batch) -> None:
        """
        Work out what a large batch will make of the index, while its contents are still coming:
        then L{apply} only has to store it. Nothing is changed; and if something else is meanwhile,
        it was in vain.
        """
        self._rehearsed = None
        if len(self.index.rows) + len(batch.entries) > MOST_REHEARSED:
            return
        index = self.index.copy()
        try:
            outcome = index.apply(batch)
        except NotYet:
            return
        if outcome is not None:
            generation, back = index.generation(), way_back_from(outcome, batch)
            self._rehearsed = Rehearsal(
                batch, self.index, self.index.changes, index, outcome, generation, back
            )

    def merge(
        self,
        rows: Mapping[bytes, tuple[Version, ...]],
        lost: Sequence[tuple[bytes, Version]],
        knowledge: Knowledge,
        origin: str,
    ) -> Outcome:
        """The whole state of a peer, as one generation."""
        before = dict(self.index.knowledge)
        outcome = self.index.merge(rows, knowledge)
        outcome.conflicts += [Conflict(path, version) for path, version in lost]
        self.batches.raise_floor(before, knowledge)
        self._persist(self._made(outcome, None, origin, "state"))
        return outcome

    def repair(self, rows: Mapping[bytes, tuple[Version, ...]], origin: str) -> Outcome:
        """Adopt the state of a peer that has the same knowledge as we, but another tree."""
        outcome = self.index.repair(rows)
        if outcome.rows:
            self._persist(self._made(outcome, None, origin, "repair"))
        return outcome

    def lose(self, digests: Iterable[bytes]) -> None:
        """Contents that turned out to be damaged: as if they had never come."""
        digests = list(digests)
        with self.database.transaction():
            self.object_rows.drop(digests)
        self.objects.forget(digests)

    def _made(
        self,
        outcome: Outcome,
        batch: Batch | None,
        origin: str,
        note: str,
        rehearsed: Rehearsal | None = None,
    ) -> Commit:
        """What the index has become."""
        now = self.now()
        self._rehearsed = None
        if rehearsed is not None:
            generation, back = evolve(rehearsed.generation, at=now), rehearsed.back
        else:
            generation, back = self.index.generation(now), way_back_from(outcome, batch)
        return Commit(outcome, batch, generation, back, now, origin, note)

    def _persist(self, made: Commit) -> None:
        """
        Have it on disk, and served then.

        @raises StoreError: nothing has changed; memory is read again from the disk.
        """
        outcome, batch = made.outcome, made.batch
        later = batch is not None and (bool(self.unwritten) or len(outcome.rows) >= MANY_ROWS)
        try:
            places = self.objects.flush()
            with self.database.transaction():
                self.object_rows.put(places)
                self._put(made, later)
        except StoreError:
            self.reload()
            raise
        self.objects.stored(places)
        if later:
            self.unwritten.add(outcome.rows, outcome.fresh)
        else:
            self.unwritten.written()
        if made.tree or not later:
            self.tree.written()
        if batch is None:
            self.batches.reload()
        else:
            self.batches.added(batch)
        if outcome.conflicts or (batch is not None and batch.settled):
            self.conflicts.count()
        if made.tree:
            self.tree.take(made.tree)
        self.knowledge = dict(made.generation.knowledge)
        self.generation = made.generation

    def _put(self, made: Commit, later: bool) -> None:
        """Write it; inside a transaction."""
        index, database, batch = self.index, self.database, made.batch
        if later:
            self.unwritten.begin(self.batches.next_number)
        else:
            self.unwritten.put(index, made.outcome.rows, made.outcome.fresh)
        database.put_vector("know", index.knowledge)
        database.set("number", index.number)
        database.set("stamp", self.stamps.last)
        if batch is not None:
            self.batches.put(batch, made.now, made.came, made.back.shared)
            for path, dot in batch.settled:
                self.conflicts.close(path, dot)
        else:
            self.batches.put_floor()
        self.conflicts.add(made.outcome.conflicts, made.now)
        self.history.put(made.generation, made.back, made.origin, made.note, made.now)
        if made.tree or not later:
            self.tree.put(made.tree)

    def keep_objects(self) -> None:
        """Make added objects durable, without a change of the index."""
        places = self.objects.flush()
        with self.database.transaction():
            self.object_rows.put(places)
        self.objects.stored(places)

    def keep_adopted(self, kept: Sequence[tuple[bytes, TreeEntry]]) -> None:
        """Files of this node's old tree that the cluster's replaces: kept as conflicts here."""
        now = self.now()
        stamp = self.stamps.tick(now)
        # They were never in the index: names of their own, that no real version gets later
        apart = ReplicaId(self.master, self._entropy(8))
        lost = [
            (path, Version(Dot(apart, number + 1), stamp, entry))
            for number, (path, entry) in enumerate(kept)
        ]
        places = self.objects.flush()
        with self.database.transaction():
            self.object_rows.put(places)
            self.conflicts.add(lost, now, "adopted")
        self.objects.stored(places)

    # -- what peers are told

    def state(self) -> bytes:
        """Everything, as bytes, for a peer that the log does not reach."""
        lost = [(path, v) for path, v, _, state in self.conflicts.all() if state == "open"]
        return codec.pack_state(self.index.rows, lost, self.index.knowledge)

    # -- lives of this node's disk

    def go_on(self, sure: bool) -> None:
        """
        Before the first change of this life: continue with the numbers of an earlier life only if
        it is certain that nobody knows other changes by them.

        The disk may have been set back unnoticed, as by a virtual machine's snapshot. Then a peer
        that has not answered yet may know more of us than we do, and changes under the numbers that
        it knows would never reach it.

        @param sure: whether since the start all members have said what they know, and none knows
            more.
        """
        if not self.owns_numbers and not sure:
            incarnation = self._entropy(8)
            with self.database.transaction():
                self.database.set("incarnation", incarnation)
            self.index.main, self.index.bulk = lanes(self.master, incarnation)
        self.owns_numbers = True

    def begin_new_life(self) -> None:
        """Go on under a new incarnation, and write again what only we know."""
        self.owns_numbers = True
        self.write_behind()
        old = (self.index.main, self.index.bulk)
        incarnation = self._entropy(8)
        again = self.index.reincarnate(*lanes(self.master, incarnation), self.confirmed.all())
        with self.database.transaction():
            self.database.set("incarnation", incarnation)
            self.batches.drop_unknown(old, self.index.knowledge)
            self.database.put_vector("know", self.index.knowledge)
            self.rows.put([(path, self.index.rows.get(path, ())) for path in again])
        self.batches.reload()
        self.generation = self.index.generation(self.now())
        if again:
            self.commit(again, note="written again under a new incarnation")
        self.knowledge = dict(self.index.knowledge)
