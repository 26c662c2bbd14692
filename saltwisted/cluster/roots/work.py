"""
The work of a share that takes time, as functions that run in the pool.

None of them uses the share itself: they get what they need, and return what they found. The lock of
the share (L{saltwisted.cluster.roots.share}) keeps them apart.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from attrs import define, field

from saltwisted.cluster.roots.parcels import Want
from saltwisted.domain.causality.knowledge import Dot
from saltwisted.domain.roots import codec
from saltwisted.domain.roots.delta import (
    apply_delta,
    literal_bytes,
    make_delta,
    pack_delta,
    unpack_delta,
)
from saltwisted.domain.roots.entry import DIR, FILE, GONE, Batch, ReplicaId, TreeEntry
from saltwisted.domain.roots.guards import Brake, Forbidden
from saltwisted.domain.roots.index import Outcome
from saltwisted.domain.roots.manifest import Generation
from saltwisted.stores.roots.knowntree import Known
from saltwisted.stores.roots.newfiles import Seen
from saltwisted.stores.roots.objects import missing_from
from saltwisted.stores.roots.sites import BULK
from saltwisted.stores.roots.store import RootStore
from saltwisted.stores.roots.worktree import WorkTree

INLINE = 256 * 1024
"""Bytes up to which new contents ride in their batch."""
MOST_INLINE = 8 * INLINE
"""Bytes of small new contents above which none ride along: they were offered before, mostly."""
MOST_AGAIN = 20_000
"""Paths that are looked at again before a batch is applied."""


def same_content(before: TreeEntry | None, entry: TreeEntry) -> bool:
    return before is not None and before.same_content(entry)


@define
class Changes:
    """
    What a scan of the tree means for the index.

    @ivar plain: changes to the tree that is served.
    @ivar beside: changes by somebody who had not seen what is served.
    @ivar gone: the paths of those plain changes that are deletions.
    """

    plain: dict[bytes, TreeEntry] = field(factory=dict)
    beside: dict[bytes, TreeEntry] = field(factory=dict)
    gone: set[bytes] = field(factory=set)


def sort_changes(
    changed: Mapping[bytes, Known | None], tree: Mapping[bytes, Known], generation: Generation
) -> Changes:
    """What the paths that look different mean."""
    found = Changes()
    for path, known in changed.items():
        entry = GONE if known is None else known.entry
        before = tree.get(path)
        shown = generation.get(path)
        if before is not None and known is not None and before.entry == known.entry:
            continue  # only touched by us, or its times moved without its content
        if known is not None and entry == shown:
            continue  # written by us, before a crash kept that from being remembered
        if before is None and shown is not None and known is not None:
            # Not written yet by us, and there already: the same, or an edit of its own
            if not entry.same_content(shown):
                found.beside[path] = entry
                continue
        elif before is not None and before.entry != shown:
            if not (known is None and shown is None):
                found.beside[path] = entry
            continue
        found.plain[path] = entry
        if known is None:
            found.gone.add(path)
    return found


def weigh_batch(
    brake: Brake, entries: Sequence[tuple[bytes, TreeEntry]], generation: Generation
) -> tuple[int, int]:
    if not any(entry == GONE for _, entry in entries):
        return 0, 0
    return brake.weigh(before_and_after(entries, generation))


def before_and_after(
    wanted: Iterable[tuple[bytes, TreeEntry]], generation: Generation
) -> dict[bytes, tuple[TreeEntry | None, TreeEntry | None]]:
    """What a change of these paths shows; C{None} for nothing."""
    return {
        path: (generation.get(path), None if entry == GONE else entry) for path, entry in wanted
    }


def weigh(
    brake: Brake, wanted: Mapping[bytes, TreeEntry], generation: Generation
) -> tuple[int, int]:
    return brake.weigh(before_and_after(wanted.items(), generation))


def may_look(tree: WorkTree) -> tuple[str, bool]:
    """Why the root cannot be trusted, if so; whether somebody is in the middle of something."""
    problem = tree.check()
    return problem, not problem and tree.is_busy()


def look_closely(
    tree: WorkTree,
    paths: Iterable[bytes],
    known: Mapping[bytes, Known],
    store: RootStore,
    watching: bool,
) -> tuple[list[bytes], Seen | None]:
    """Directories that have to be watched first; if there are none, what is at the paths."""
    fresh = tree.reader.fresh_folders(paths, known) if watching else []
    return fresh, None if fresh else tree.reader.look(paths, known, store.objects)


def look_back(
    tree: WorkTree, folders: Iterable[bytes], paths: Iterable[bytes], known: Mapping[bytes, Known]
) -> tuple[set[bytes], set[bytes]]:
    """Which of these directories, and of these paths, are not as we left them."""
    touched = tree.reader.touched(folders, known)
    return touched, tree.reader.touched(paths, known)


def look_again(tree: WorkTree, batch: Batch, store: RootStore) -> Seen:
    """
    Unreported changes at the paths that a batch is about to change.

    What moves as a whole is scanned when it is moved. If it does not match then, it is written path
    by path, and what somebody has changed becomes a version beside the batch's.
    """
    known = store.tree.known
    moving = tuple(move.old + b"/" for move in batch.moves)
    paths = (p for p, _ in batch.entries if p in known and not p.startswith(moving))
    return tree.reader.look(islice(paths, MOST_AGAIN), known, store.objects)


def to_write(
    shown: Mapping[bytes, tuple[TreeEntry | None, TreeEntry | None]], tree: Mapping[bytes, Known]
) -> dict[bytes, TreeEntry | None]:
    """Where the working tree differs from what is shown now."""
    wanted: dict[bytes, TreeEntry | None] = {}
    for path, (_, after) in shown.items():
        known = tree.get(path)
        if (known.entry if known is not None else None) != after:
            wanted[path] = after
    return wanted


def folders_of(seen: Seen, known: Mapping[bytes, Known] | None) -> list[bytes]:
    """The directories that were found; with those that were known, and the root."""
    folders = [p for p, one in seen.changed.items() if one and one.entry.kind == DIR]
    if known is not None:
        folders += [p for p, one in known.items() if one.entry.kind == DIR]
        folders.append(b"")
    return folders


def overlay(known: Mapping[bytes, Known], seen: Seen) -> dict[bytes, Known]:
    """What is known, updated with what was found."""
    overlay = dict(known)
    for path, one in seen.changed.items():
        if one is not None:
            overlay[path] = one
    return overlay


def commit_and_pack(
    store: RootStore,
    wanted: dict[bytes, TreeEntry],
    tree: dict[bytes, Known | None],
    beside: bytes | None,
    unacked: int | None,
    approved: str,
    settled: Sequence[tuple[bytes, Dot[ReplicaId]]],
    note: str,
    founding: bool,
) -> tuple[Batch, Outcome, bytes] | None:
    before = store.generation
    new = {
        entry.content: entry.size
        for path, entry in wanted.items()
        if entry.kind == FILE and not (before.files and same_content(before.get(path), entry))
    }
    bulk = sum(new.values()) > BULK
    made = store.commit(
        wanted,
        bulk=bulk,
        beside=beside,
        unacked=unacked,
        approved=approved,
        settled=settled,
        note=note,
        founding=founding,
    )
    if made is None:
        store.tree.remember(tree)
        return None
    batch, outcome = made
    last = store.batches.last_packed
    if last is not None and last[0] == batch.name:
        packed = last[1]
    else:
        packed = codec.pack_batch(batch, folded=True)
    riding = []
    if sum(one for one in new.values() if one <= INLINE) <= MOST_INLINE:
        riding = inline(store, batch, before)
    return batch, outcome, codec.pack([packed, riding])


def inline(store: RootStore, batch: Batch, before: Generation) -> list[list[Any]]:
    """Contents that ride in the batch: those that are new, as long as all of them fit."""
    found: list[list[Any]] = []
    room = INLINE
    had = (
        {e.content for f in before.folders.values() for e in f.values()}
        if (len(batch.entries) > 8)
        else set()
    )
    for path, entry in batch.entries:
        if entry.kind != FILE or entry.size > INLINE or entry.content in had:
            continue
        old = before.get(path)
        if old is not None and old.content == entry.content:
            continue
        data = store.objects.read(entry.content)
        base = b""
        payload: Any = codec.squeeze(data)
        cost = len(payload)
        if old is not None and old.kind == FILE and store.objects.has(old.content):
            operations = make_delta(store.objects.read(old.content), data)
            if literal_bytes(operations) + 8 * len(operations) < cost:
                base, payload = old.content, pack_delta(operations)
                cost = literal_bytes(operations) + 8 * len(operations)
        room -= cost
        if room < 0:
            break
        found.append([entry.content, base, payload])
        had.add(entry.content)
    return found


def store_inline(
    store: RootStore, entries: Mapping[bytes, TreeEntry], inline: Mapping[bytes, bytes]
) -> bool:
    """Store contents that arrived in a batch; false if one does not match its digest."""
    for digest, packed in inline.items():
        entry = entries.get(digest)
        # Longer contents do not ride, and an honest one is fetched
        if entry is None or entry.size > INLINE or store.objects.has(digest):
            continue
        base, payload = codec.unpack(packed)
        try:
            if isinstance(payload, bytes):
                data = codec.expand(payload, entry.size)
            elif not store.objects.has(base):
                continue
            else:
                old = store.objects.read(base)
                data = apply_delta(old, unpack_delta(payload, entry.size, len(old)))
        except (Forbidden, ValueError):
            return False
        if hashlib.sha256(data).digest() != digest:
            return False
        store.objects.put_known(digest, data)
    return True


def wants_of(
    store: RootStore, batch: Batch, coming: Container[bytes]
) -> tuple[bool, list[Want], bytes]:
    """
    Whether all contents of a batch are here; those that are neither here nor coming; and of those
    that are coming the one to be expected last.
    """
    lacking = missing_from(store.objects, (entry for _, entry in batch.entries))
    last = max((d for d in reversed(lacking) if d in coming), key=lacking.__getitem__, default=b"")
    wanted = {digest: size for digest, size in lacking.items() if digest not in coming}
    bases: dict[bytes, bytes] = {}
    if wanted:
        for path, entry in batch.entries:
            if entry.kind == FILE and entry.content in wanted:
                there = store.generation.get(path)
                if there is not None and there.kind == FILE:
                    bases[entry.content] = there.content
    wants = [Want(digest, size, bases.get(digest, b"")) for digest, size in wanted.items()]
    return not lacking, wants, last


def keep_adopted(
    store: RootStore, known: Mapping[bytes, Known | None], kept: Sequence[tuple[bytes, TreeEntry]]
) -> None:
    store.keep_adopted(kept)
    store.tree.remember(known)


def set_joining(store: RootStore, joining: bool) -> None:
    """Remember over a restart that the tree is not the whole of the cluster's yet."""
    if bool(store.database.get("joining")) != joining:
        with store.database.transaction():
            store.database.set("joining", int(joining))


def set_anew(store: RootStore) -> None:
    """Make the next start forget what is here."""
    with store.database.transaction():
        store.database.set("anew", 1)


def trust(tree: WorkTree) -> None:
    tree.close()
    tree.mark_anew()


def prepare(store: RootStore, tree: WorkTree, batch: Batch) -> None:
    """
    Do as much as possible for a large batch while its last contents are on their way: contents that
    have arrived are made durable, and written under hidden names. So everybody who waits later
    waits for less (300 ms less for 10 000 files). It runs without the lock.
    """
    store.keep_objects()
    tree.writer.prepare(batch, store.tree.known, store.objects)
