"""
Periodic work on the store of a share: it forgets what nobody needs, and finds what the disk has
lost or changed. All of this blocks, and is called under the lock of the share.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from saltwisted.domain.causality.clock import stamp_seconds
from saltwisted.domain.causality.knowledge import knows
from saltwisted.domain.roots.entry import GONE, Knowledge, Version
from saltwisted.errors import StoreError
from saltwisted.stores.roots.objects import missing_from
from saltwisted.stores.roots.store import RootStore

DAY = 86400.0


def clean(store: RootStore, members: Sequence[Knowledge], delete_ttl: float = 30 * DAY) -> int:
    """
    Forget what nobody needs: old log, old history, deletions, unreferenced contents.

    @param members: what each member of the cluster knows.
    @return: how many objects were removed.
    """
    store.write_behind()
    now = store.now()
    database = store.database
    dead = []
    for path, row in store.index.rows.items():
        if len(row) != 1 or row[0].entry != GONE:
            continue
        age = now - stamp_seconds(row[0].stamp)
        everywhere = all(knows(known, row[0].dot) for known in members)
        if (everywhere and age > DAY) or age > delete_ttl:
            dead.append(path)
    with database.transaction():
        store.batches.drop_old(now - store.keep)
        store.rows.put([(path, ()) for path in store.index.purge(dead)])
        store.conflicts.drop(now - 30 * DAY)
        store.history.drop_old(now - store.keep)
    store.batches.reload()
    return _sweep(store, now)


def _sweep(store: RootStore, now: float) -> int:
    """Remove contents that nothing has referred to for long, and what is left of their packs."""
    database, objects = store.database, store.objects
    alive = {v.entry.content for row in store.index.rows.values() for v in row}
    alive |= {version.entry.content for _, version, _, _ in store.conflicts.all()}
    alive |= {known.entry.content for known in store.tree.known.values()}
    ends = store.object_rows.ends()
    update: dict[bytes, float | None] = {}
    dead = []
    for digest, until in ends.items():
        if digest in alive:
            if until is not None:
                update[digest] = None
        elif until is None:
            update[digest] = now + store.keep
        elif until < now:
            dead.append(digest)
    with database.transaction():
        store.object_rows.put_ends(update)
        store.object_rows.drop(dead)
    objects.forget(dead)
    for digest in objects.wasteful():
        objects.rewrite(digest)
    places = objects.flush()
    if places:
        with database.transaction():
            store.object_rows.put(places)
        objects.stored(places)
        objects.forget(())
    return len(dead)


def drop_damaged(store: RootStore) -> dict[bytes, int]:
    """Forget contents that the disk has lost; those that are needed, with their sizes."""
    lost = store.objects.check()
    if not lost:
        return {}
    store.lose(lost)
    versions = [v.entry for row in store.index.rows.values() for v in row]
    versions += [version.entry for _, version, _, _ in store.conflicts.all()]
    return missing_from(store.objects, versions)


def check_rows(store: RootStore, part: int, parts: int) -> int:
    """
    Compare one part of the rows with memory, and write differing rows again; returns how many.

    @raises StoreError: the disk refuses.
    """
    if store.unwritten:
        return 0
    rows, database = store.index.rows, store.database
    try:
        there = store.rows.some(part % parts, parts)
        wrong = {path for path, row in there.items() if not _same(row, rows.get(path, ()))}
        if part % parts == 0:
            wrong |= rows.keys() ^ store.rows.paths()
    except sqlite3.Error as error:
        raise StoreError(str(error), database.path) from error
    if wrong:
        with database.transaction():
            store.rows.put([(path, rows.get(path, ())) for path in wrong])
    return len(wrong)


def _same(one: Sequence[Version], other: Sequence[Version]) -> bool:
    """The same siblings, in whatever order."""
    return len(one) == len(other) and all(version in other for version in one)
