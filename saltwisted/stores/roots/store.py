"""
One share on disk: index, content, history and conflicts, changed in whole transactions.

Every method blocks and is called in the pool, one at a time per share; what others need to see
(the generation that is served, knowledge, counts) is left in attributes that are replaced, never
changed. If the disk refuses, the index is read again from it: memory never runs ahead. Of a large
batch the log alone is written at first; its rows follow when nobody waits
(L{RootStore.write_behind}), and are made from the log at a start before that.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence

from attrs import evolve, frozen

from saltwisted.domain.causality.clock import HybridClock, stamp_seconds
from saltwisted.domain.causality.knowledge import Dot, joined, knows
from saltwisted.domain.roots import codec
from saltwisted.domain.roots.entry import (
    FILE,
    GONE,
    Batch,
    Coded,
    Conflict,
    Entry,
    Knowledge,
    ReplicaId,
    Version,
    lanes,
)
from saltwisted.domain.roots.guards import MAX_ENTRIES, Limits
from saltwisted.domain.roots.index import Index, NotYet, Outcome, Policy
from saltwisted.domain.roots.manifest import Generation
from saltwisted.errors import StoreError
from saltwisted.stores.files import make_dir, remove
from saltwisted.stores.roots.index import Change, IndexDatabase, Known
from saltwisted.stores.roots.objects import ContentStore
from saltwisted.stores.roots.places import Step, no_step

DAY = 86400.0
LOG_BYTES = 64 * 1024 * 1024
MOST_GENERATIONS = 200
_TreeChange = tuple[Sequence[tuple[bytes, bytes]], Mapping[bytes, Known | None]]
"""Directories that were renamed whole, then what is at these paths."""
MANY_ROWS = 200
"""Rows from which on they are written behind: the log has what they say."""
MOST_REHEARSED = 200_000
"""Rows up to which a batch is worked out on a copy of the index."""
REPLAYED = Limits(max_file=1 << 62, max_entries=2 * MAX_ENTRIES, links="all")
"""What was taken once is not judged again."""


@frozen
class History:
    """
    The way back from a generation.

    @ivar undo: how many paths it touches.
    @ivar packed: what was at each.
    @ivar shared: these paths, coded, where they are those of the batch.
    """

    undo: int
    packed: bytes
    shared: Coded | None


def _history(outcome: Outcome, batch: Batch | None) -> History:
    undo = sorted((path, before or GONE) for path, (before, _) in outcome.shown.items())
    paths = [path for path, _ in undo]
    coded = shared = None
    if batch is not None and [path for path, _ in batch.entries] == paths:
        coded = shared = batch.coded or codec.front_code(paths)
    entries = codec.pack_entries(undo, coded or codec.front_code(paths))
    return History(len(undo), codec.squeeze(codec.pack(entries), 1), shared)


@frozen
class Rehearsal:
    """
    What a batch makes of the index.

    @ivar before: the index that it was worked out for, and how often that had changed.
    @ivar index: a copy, which is the index from then on.
    """

    batch: Batch
    before: Index
    changes: int
    index: Index
    outcome: Outcome
    generation: Generation
    history: History

    def is_of(self, batch: Batch, index: Index) -> bool:
        """Whether nothing else has happened since."""
        return batch is self.batch and index is self.before and index.changes == self.changes


def _same(one: Sequence[Version], other: Sequence[Version]) -> bool:
    """The same siblings, in whatever order."""
    return len(one) == len(other) and all(version in other for version in one)


def discard(folder: str) -> None:
    """Remove a store: index, history and contents; what else is in the folder stays."""
    for name in ("index.sqlite", "index.sqlite-wal", "index.sqlite-shm"):
        remove(f"{folder}/{name}")
    for name in ("packs", "objects", "part"):
        shutil.rmtree(f"{folder}/{name}", ignore_errors=True)


class RootStore:
    """
    @param folder: where index and content live, this share's alone.
    @param master: this node's name, in dots and in the history.
    @param keep: seconds for which superseded objects are kept at least (delta bases, rollback).
    """

    def __init__(
        self,
        folder: str,
        master: str,
        entropy: Callable[[int], bytes],
        now: Callable[[], float],
        policy: Policy | None = None,
        limits: Limits | None = None,
        keep: float = 7 * DAY,
        step: Step = no_step,
    ) -> None:
        self.folder = folder
        self.master = master
        self.limits = limits or Limits()
        self.keep = keep
        self._entropy = entropy
        self._now = now
        self._policy = policy or Policy()
        self._step = step
        make_dir(folder)
        self.database = IndexDatabase(f"{folder}/index.sqlite", step)
        self.unused = False
        self.last_packed: tuple[tuple[ReplicaId, int], bytes] | None = None
        self._rehearsed: Rehearsal | None = None
        self._open()

    def _open(self) -> None:
        database = self.database
        here = str(os.stat(database.path).st_ino)
        rows, knowledge = database.rows(), database.vector("know")
        incarnation = database.get("incarnation")
        if incarnation is None or database.get("inode") != here:
            # A file that was copied here is an old copy of something: go on under a new name
            incarnation = self._entropy(8)
            with database.transaction():
                database.set("incarnation", incarnation)
                database.set("inode", here)
            self.unused = True
        main, bulk = lanes(self.master, bytes(incarnation))
        self.index = Index(main, bulk, self._policy)
        ordered = {
            path: tuple(sorted(row, key=self._policy.rank, reverse=True))
            for path, row in rows.items()
        }
        self.index.load(ordered, knowledge)
        self.floor = database.vector("floor")
        self.log = database.log()
        self._behind: set[bytes] = set()
        self._behind_fresh: set[bytes] = set()
        self._tree_behind: list[_TreeChange] = []
        self._replay(int(database.get("behind", 0)), knowledge)
        self.index.number = int(database.get("number", 0))
        self.tree: dict[bytes, Known] = database.tree()
        self.peers = database.peers()
        self.stamps = HybridClock(int(database.get("stamp", 0)))
        self.objects = ContentStore(self.folder, database.places(), self._step)
        self.generation: Generation = self.index.generation(self._now())
        self.knowledge: Knowledge = dict(self.generation.knowledge)
        self.open_conflicts = sum(1 for one in database.conflicts() if one[3] == "open")

    def _replay(self, first: int, knowledge: Knowledge) -> None:
        """Take batches of the log again whose rows were still to be written."""
        for number, replica, lo, _ in self.log if first else ():
            body = self.database.body(replica, lo) if number >= first else None
            if body is not None:
                batch, _ = codec.unpack_batch(body, REPLAYED)
                self._behind |= self.index.replay(batch)
        if first:
            self.index.knowledge = dict(knowledge)

    def write_behind(self) -> None:
        """Write the rows that the log alone has."""
        if not self._behind:
            return
        with self.database.transaction():
            self._put_rows(set(), set())
            self._put_tree()
        self._behind_fresh.clear()
        self._behind.clear()
        self._tree_behind.clear()

    def _put_rows(self, paths: set[bytes], fresh: set[bytes]) -> None:
        """Write these rows, and those that were left to be written; inside a transaction."""
        index, fresh = self.index, (fresh - self._behind) | self._behind_fresh
        rows = [(path, index.rows.get(path, ())) for path in paths | self._behind]
        self.database.put_rows(rows, fresh)
        self.database.set("behind", 0)

    @property
    def is_behind_log(self) -> bool:
        """Whether there are rows to be written."""
        return bool(self._behind)

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
        self.unused = True

    def check_rows(self, part: int, parts: int) -> int:
        """
        Hold one part of the rows against what is in memory, and write again what differs; how many.

        @raises StoreError: the disk refuses.
        """
        if self._behind:
            return 0
        rows, database = self.index.rows, self.database
        try:
            there = database.some_rows(part % parts, parts)
            wrong = {path for path, row in there.items() if not _same(row, rows.get(path, ()))}
            if part % parts == 0:
                wrong |= rows.keys() ^ database.paths()
        except sqlite3.Error as error:
            raise StoreError(str(error), database.path) from error
        if wrong:
            with database.transaction():
                database.put_rows([(path, rows.get(path, ())) for path in wrong])
        return len(wrong)

    def close(self) -> None:
        """Close all files."""
        self.objects.close()
        self.database.close()

    # -- changes

    def commit(
        self,
        wanted: Mapping[bytes, Entry],
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
        What a user of this master changed, as one batch and one generation.

        @param tree: what is known of the working tree now, kept in the same transaction.
        @param beside: the writer had not seen the present versions of this path.
        @raises StoreError: nothing has changed.
        """
        if beside is not None:
            seen = self.index.beside(beside)
        now = self._now()
        made = self.index.commit(
            wanted,
            self.stamps.tick(now),
            bulk=bulk,
            seen=seen,
            unacked=unacked,
            approved=approved,
            settled=settled,
            founding=founding,
        )
        if made is None:
            if tree:
                self.remember(tree)
            return None
        batch, outcome = made
        self._persist(outcome, batch, tree, self.master, note)
        return batch, outcome

    def apply(self, batch: Batch, note: str = "", came: bytes = b"") -> Outcome | None:
        """
        Another master's batch, whose objects are here, as one generation.

        @param came: the batch as it came, with its moves folded; kept like that for others.
        @raises NotYet: it depends on another that is not here.
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
        self.stamps.observe(batch.stamp, self._now())
        self._persist(outcome, batch, None, batch.replica.master, note, came, rehearsed)
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
            generation, history = index.generation(), _history(outcome, batch)
            self._rehearsed = Rehearsal(
                batch, self.index, self.index.changes, index, outcome, generation, history
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
        for replica, counter in knowledge.items():
            if counter > before.get(replica, 0):
                self.floor[replica] = max(counter, self.floor.get(replica, 0))
        self._persist(outcome, None, None, origin, "state")
        return outcome

    def repair(self, rows: Mapping[bytes, tuple[Version, ...]], origin: str) -> Outcome:
        """What a peer holds that knows what we know, and yet has another tree."""
        outcome = self.index.repair(rows)
        if outcome.rows:
            self._persist(outcome, None, None, origin, "repair")
        return outcome

    def lose(self, digests: Iterable[bytes]) -> None:
        """Contents that turned out to be damaged: as if they had never come."""
        digests = list(digests)
        with self.database.transaction():
            self.database.drop_places(digests)
        self.objects.forget(digests)

    def _persist(
        self,
        outcome: Outcome,
        batch: Batch | None,
        tree: Mapping[bytes, Known | None] | None,
        origin: str,
        note: str,
        came: bytes = b"",
        rehearsed: Rehearsal | None = None,
    ) -> None:
        index, database = self.index, self.database
        now = self._now()
        self._rehearsed = None
        if rehearsed is not None:
            generation, history = evolve(rehearsed.generation, at=now), rehearsed.history
        else:
            generation, history = index.generation(now), _history(outcome, batch)
        later = batch is not None and (bool(self._behind) or len(outcome.rows) >= MANY_ROWS)
        try:
            places = self.objects.flush()
            with database.transaction():
                database.put_places(places)
                if not later:
                    self._put_rows(outcome.rows, outcome.fresh)
                elif not self._behind:
                    database.set("behind", self._next_number)
                database.put_vector("know", index.knowledge)
                database.set("number", index.number)
                database.set("stamp", self.stamps.last)
                if batch is not None:
                    self._log(batch, now, came, history.shared)
                    for path, dot in batch.settled:
                        database.settle(path, dot)
                else:
                    database.put_vector("floor", self.floor)
                database.add_conflicts(outcome.conflicts, now)
                self._add_history(generation, history, origin, note, now)
                if tree or not later:
                    self._put_tree(((), tree or {}))
        except StoreError:
            self.reload()
            raise
        self.objects.stored(places)
        if later:
            self._behind_fresh |= outcome.fresh - self._behind
            self._behind |= outcome.rows
        else:
            self._behind.clear()
            self._behind_fresh.clear()
        if tree or not later:
            self._tree_behind.clear()
        if batch is None:
            self.log = database.log()
        else:
            self.log.append((self._next_number, batch.replica, batch.lo, batch.hi))
        if outcome.conflicts or (batch is not None and batch.settled):
            self.open_conflicts = sum(1 for one in database.conflicts() if one[3] == "open")
        if tree:
            self._take_tree(tree)
        self.knowledge = dict(generation.knowledge)
        self.generation = generation

    @property
    def _next_number(self) -> int:
        return self.log[-1][0] + 1 if self.log else 1

    def _log(self, batch: Batch, now: float, came: bytes, coded: Coded | None) -> None:
        body = came if came and not batch.moves else codec.pack_batch(batch, coded=coded)
        short = (came or codec.pack_batch(batch, folded=True)) if batch.moves else b""
        self.last_packed = batch.name, short or body
        number = self._next_number
        self.database.add_batch(number, batch.replica, batch.lo, batch.hi, now, body, short)

    def _add_history(
        self,
        generation: Generation,
        history: History,
        origin: str,
        note: str,
        now: float,
    ) -> None:
        if not history.undo and self.index.number > 1:
            return
        files, size = generation.counts()
        self.database.add_generation(
            Change(generation.number, now, generation.digest, origin, note, files, size),
            history.packed,
        )

    # -- the working tree

    def remember(
        self, tree: Mapping[bytes, Known | None], moved: Sequence[tuple[bytes, bytes]] = ()
    ) -> None:
        """
        What is in the working tree at these paths now.

        Where rows wait to be written behind, this waits with them, and takes no time of who waits
        for a large change (50 ms for 10 000 paths): after a crash before that, what is in the tree
        is found to be what is committed.

        @param moved: directories that were renamed whole, from and to: what is known of a path in
            them holds for the new one, if it is the same that is to be remembered of it.
        """
        if not tree:
            return
        moves, rest = self._moves_whole(tree, moved) if moved else ((), tree)
        if self._behind:
            self._tree_behind.append((moves, rest))
        else:
            with self.database.transaction():
                self._put_tree((moves, rest))
        self._take_tree(tree)

    def _put_tree(self, *more: _TreeChange) -> None:
        """Write what is known of the tree, what was left to be written first; in a transaction."""
        for moves, rest in (*self._tree_behind, *more):
            for old, new in moves:
                self.database.move_tree(old, new)
            self.database.put_tree(rest.items())

    def _moves_whole(
        self, tree: Mapping[bytes, Known | None], moved: Sequence[tuple[bytes, bytes]]
    ) -> tuple[Sequence[tuple[bytes, bytes]], Mapping[bytes, Known | None]]:
        """The moves that say all about what is in those directories, and the paths elsewhere."""
        moves = []
        rest = dict(tree)
        for old, new in moved:
            before, after = old + b"/", new + b"/"
            inside = [path for path in self.tree if path.startswith(before)]
            pairs = [(path, after + path[len(before) :]) for path in inside]
            same = all(
                rest.get(target) is self.tree[path] and path in rest and rest[path] is None
                for path, target in pairs
            )
            if same and not any(path.startswith(after) for path in self.tree):
                moves.append((old, new))
                for path, target in pairs:
                    del rest[path], rest[target]
        return moves, rest

    def _take_tree(self, tree: Mapping[bytes, Known | None]) -> None:
        for path, known in tree.items():
            if known is None:
                self.tree.pop(path, None)
            else:
                self.tree[path] = known

    def pending(self) -> dict[bytes, Entry | None]:
        """Where the working tree is not what the generation says; C{None}: to be removed."""
        generation, tree = self.generation, self.tree
        found: dict[bytes, Entry | None] = {}
        there = 0
        for head, folder in generation.folders.items():
            above = head + b"/" if head else b""
            for name, entry in folder.items():
                known = tree.get(above + name)
                if known is None:
                    found[above + name] = entry
                    continue
                there += 1
                if known.entry is not entry and known.entry != entry:
                    found[above + name] = entry
        if there < len(tree):
            found.update((path, None) for path in tree if generation.get(path) is None)
        return found

    def drop_damaged(self) -> dict[bytes, int]:
        """Forget contents that the disk has lost; those that are needed, with their sizes."""
        lost = self.objects.check()
        if not lost:
            return {}
        with self.database.transaction():
            self.database.drop_places(lost)
        self.objects.forget(lost)
        versions = [v.entry for row in self.index.rows.values() for v in row]
        versions += [version.entry for _, version, _, _ in self.database.conflicts()]
        return self.lacking(versions)

    def keep_objects(self) -> None:
        """Make durable what was added, without a change of the index."""
        places = self.objects.flush()
        with self.database.transaction():
            self.database.put_places(places)
        self.objects.stored(places)

    def keep_adopted(self, kept: Sequence[tuple[bytes, Entry]]) -> None:
        """Files of this node's old tree that the cluster's replaces: kept as conflicts here."""
        now = self._now()
        stamp = self.stamps.tick(now)
        # They were never in the index: names of their own, that no real version gets later
        apart = ReplicaId(self.master, self._entropy(8))
        lost = [
            (path, Version(Dot(apart, number + 1), stamp, entry))
            for number, (path, entry) in enumerate(kept)
        ]
        places = self.objects.flush()
        with self.database.transaction():
            self.database.put_places(places)
            self.database.add_conflicts(lost, now, "adopted")
        self.objects.stored(places)

    # -- what peers are told

    def missing_for(self, theirs: Knowledge) -> list[tuple[ReplicaId, int]] | None:
        """
        The batches that a peer lacks, in an order that it can apply them.

        C{None} when the log does not reach back to what it knows: it needs the whole state.
        """
        for replica, low in self.floor.items():
            if theirs.get(replica, 0) < low:
                return None
        return [(replica, lo) for _, replica, lo, hi in self.log if hi > theirs.get(replica, 0)]

    def state(self) -> bytes:
        """Everything, as bytes, for a peer that the log does not reach."""
        lost = [(path, v) for path, v, _, state in self.database.conflicts() if state == "open"]
        return codec.pack_state(self.index.rows, lost, self.index.knowledge)

    def lacking(self, entries: Iterable[Entry]) -> dict[bytes, int]:
        """Digest to size of contents that are not here."""
        return {
            entry.content: entry.size
            for entry in entries
            if entry.kind == FILE and not self.objects.has(entry.content)
        }

    def acknowledged(self, peer: str, knowledge: Knowledge) -> None:
        """A peer says what it knows; kept, since it tells an old copy of the index later."""
        known = self.peers.get(peer, {})
        if all(known.get(replica, 0) >= counter for replica, counter in knowledge.items()):
            return
        self.peers[peer] = joined(known, knowledge)
        with self.database.transaction():
            self.database.put_peer(peer, self.peers[peer])

    def is_behind(self, theirs: Knowledge) -> bool:
        """Whether a peer knows dots of ours that we have not made: our index is an old copy."""
        return any(
            theirs.get(lane, 0) > self.index.knowledge.get(lane, 0)
            for lane in (self.index.main, self.index.bulk)
        )

    def go_on(self, heard: bool) -> None:
        """
        Before the first change of this life: go on with the numbers of an earlier one only if it is
        sure that nobody knows other changes by them.

        The disk may have been set back unnoticed, as with a virtual machine's snapshot. Then a peer
        that was not heard yet may know more of us than we do, and what we number as it knows would
        never get there.

        @param heard: whether all members said in this life what they know, and none knows more.
        """
        if not self.unused and not heard:
            incarnation = self._entropy(8)
            with self.database.transaction():
                self.database.set("incarnation", incarnation)
            self.index.main, self.index.bulk = lanes(self.master, incarnation)
        self.unused = True

    def begin_new_life(self) -> None:
        """Go on under a new incarnation, and write again what only we know."""
        self.unused = True
        self.write_behind()
        trusted: dict[ReplicaId, int] = {}
        for vector in self.peers.values():
            trusted = joined(trusted, vector)
        old = (self.index.main, self.index.bulk)
        incarnation = self._entropy(8)
        again = self.index.reincarnate(*lanes(self.master, incarnation), trusted)
        doubtful = [
            number
            for number, replica, _, hi in self.log
            if replica in old and hi > self.index.knowledge.get(replica, 0)
        ]
        with self.database.transaction():
            self.database.set("incarnation", incarnation)
            self.database.drop_batches(doubtful)
            self.database.put_vector("know", self.index.knowledge)
            self.database.put_rows([(path, self.index.rows.get(path, ())) for path in again])
        self.log = self.database.log()
        self.generation = self.index.generation(self._now())
        if again:
            self.commit(again, note="written again under a new incarnation")
        self.knowledge = dict(self.index.knowledge)

    # -- history

    def find(self, name: str) -> Change:
        """
        A generation by the first digits of its name, or by its number with C{#}.

        @raises StoreError: there is none, or more than one tree of that name.
        """
        found = [
            one
            for one in self.database.generations(MOST_GENERATIONS)
            if one.digest.hex().startswith(name.lower()) or f"#{one.number}" == name
        ]
        if not name or not found:
            raise StoreError("there is no such generation", name)
        if len({one.digest for one in found}) > 1:
            raise StoreError("names more than one generation", name)
        return found[0]

    def manifest(self, number: int) -> dict[bytes, Entry]:
        """The tree of an earlier generation, by walking back."""
        tree = dict(self.generation.walk())
        for change in self.database.generations(MOST_GENERATIONS):
            if change.number <= number:
                break
            body = codec.unpack(codec.expand(self.database.undo(change.number), codec.MAX_BODY))
            for path, entry in codec.unpack_entries(body, 2 * MAX_ENTRIES):
                if entry == GONE:
                    tree.pop(path, None)
                else:
                    tree[path] = entry
        return tree

    def way_back(self, number: int) -> dict[bytes, Entry]:
        """What has to change for the tree of an earlier generation to be visible again."""
        target = self.manifest(number)
        wanted = {path: GONE for path, _ in self.generation.walk() if path not in target}
        wanted.update(
            (path, entry) for path, entry in target.items() if self.generation.get(path) != entry
        )
        lacking = self.lacking(wanted.values())
        if lacking:
            raise StoreError(f"{len(lacking)} of its contents are no longer kept", self.folder)
        return wanted

    # -- housekeeping

    def clean(self, members: Sequence[Knowledge], delete_ttl: float = 30 * DAY) -> int:
        """
        Forget what nobody needs: old log, old history, deletions, unreferenced contents.

        @param members: what each member of the cluster knows.
        @return: how many objects were removed.
        """
        self.write_behind()
        now = self._now()
        database = self.database
        old = database.old_batches(now - self.keep, LOG_BYTES)
        dead = []
        for path, row in self.index.rows.items():
            if len(row) != 1 or row[0].entry != GONE:
                continue
            age = now - stamp_seconds(row[0].stamp)
            everywhere = all(knows(known, row[0].dot) for known in members)
            if (everywhere and age > DAY) or age > delete_ttl:
                dead.append(path)
        history = database.generations(MOST_GENERATIONS + 1)
        oldest = min((one.number for one in history if one.at > now - self.keep), default=0)
        if len(history) > MOST_GENERATIONS:
            oldest = max(oldest, history[MOST_GENERATIONS - 1].number)
        with database.transaction():
            database.drop_batches(number for number, _, _ in old)
            for _, replica, hi in old:
                self.floor[replica] = max(hi, self.floor.get(replica, 0))
            database.put_vector("floor", self.floor)
            database.put_rows([(path, ()) for path in self.index.purge(dead)])
            database.drop_conflicts(now - 30 * DAY)
            if oldest:
                database.drop_generations(oldest)
        self.log = database.log()
        return self._sweep(now)

    def _sweep(self, now: float) -> int:
        alive = {v.entry.content for row in self.index.rows.values() for v in row}
        alive |= {version.entry.content for _, version, _, _ in self.database.conflicts()}
        alive |= {known.entry.content for known in self.tree.values()}
        ends = self.database.ends()
        update: dict[bytes, float | None] = {}
        dead = []
        for digest, until in ends.items():
            if digest in alive:
                if until is not None:
                    update[digest] = None
            elif until is None:
                update[digest] = now + self.keep
            elif until < now:
                dead.append(digest)
        with self.database.transaction():
            self.database.put_ends(update)
            self.database.drop_places(dead)
        self.objects.forget(dead)
        for digest in self.objects.wasteful():
            self.objects.rewrite(digest)
        places = self.objects.flush()
        if places:
            with self.database.transaction():
                self.database.put_places(places)
            self.objects.stored(places)
            self.objects.forget(())
        return len(dead)

    def difference(self, number: int) -> dict[bytes, tuple[Entry | None, Entry | None]]:
        """Path to (then, now), between an earlier generation and the present one."""
        then = self.manifest(number)
        today = dict(self.generation.walk())
        return {
            path: (then.get(path), today.get(path))
            for path in sorted(then.keys() | today.keys())
            if then.get(path) != today.get(path)
        }
