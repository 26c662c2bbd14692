"""
The generations of a share: which there were, the contents of each, and the way back to one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from attrs import frozen

from saltwisted.domain.roots import codec
from saltwisted.domain.roots.entry import GONE, Batch, Coded, TreeEntry
from saltwisted.domain.roots.guards import MAX_ENTRIES
from saltwisted.domain.roots.index import Outcome
from saltwisted.domain.roots.manifest import Generation
from saltwisted.errors import StoreError
from saltwisted.stores.roots.index import IndexDatabase
from saltwisted.stores.roots.objects import ContentStore, missing_from

MOST_GENERATIONS = 200


class Change(NamedTuple):
    """A generation that is kept: its name, when it arrived, and who made the change."""

    number: int
    at: float
    digest: bytes
    origin: str
    note: str
    files: int
    size: int


@frozen
class WayBack:
    """
    The way back from a generation to the one before.

    @ivar undo: how many paths it touches.
    @ivar packed: what was at each.
    @ivar shared: these paths, coded, where they are those of the batch.
    """

    undo: int
    packed: bytes
    shared: Coded | None


def way_back_from(outcome: Outcome, batch: Batch | None) -> WayBack:
    """How a change of the index is undone."""
    undo = sorted((path, before or GONE) for path, (before, _) in outcome.shown.items())
    paths = [path for path, _ in undo]
    coded = shared = None
    if batch is not None and [path for path, _ in batch.entries] == paths:
        coded = shared = batch.coded or codec.front_code(paths)
    entries = codec.pack_entries(undo, coded or codec.front_code(paths))
    return WayBack(len(undo), codec.squeeze(codec.pack(entries), 1), shared)


class History:
    """
    The generations that are kept.

    @param present: the generation that is served.
    """

    def __init__(
        self,
        database: IndexDatabase,
        objects: ContentStore,
        present: Callable[[], Generation],
        folder: str,
    ) -> None:
        self._database = database
        self._objects = objects
        self._present = present
        self._folder = folder

    def put(
        self, generation: Generation, back: WayBack, origin: str, note: str, now: float
    ) -> None:
        """
        Keep a generation; inside a transaction. One that shows what the one before it did is kept
        only if it is the first.

        @param origin: whose change it is.
        """
        if not back.undo and generation.number > 1:
            return
        files, size = generation.counts()
        change = Change(generation.number, now, generation.digest, origin, note, files, size)
        self._database.execute(
            "INSERT OR REPLACE INTO gen VALUES(?,?,?,?,?,?,?,?)", (*change, back.packed)
        )

    def newest(self, most: int = MOST_GENERATIONS) -> list[Change]:
        """The generations that are kept, newest first."""
        return [
            Change(number, at, bytes(digest), origin, note, files, size)
            for number, at, digest, origin, note, files, size in self._database.execute(
                "SELECT n, at, digest, origin, note, files, bytes FROM gen ORDER BY n DESC LIMIT ?",
                (most,),
            )
        ]

    def _undo(self, number: int) -> bytes:
        """How to go back over one generation."""
        row = self._database.execute("SELECT undo FROM gen WHERE n=?", (number,)).fetchone()
        if row is None:
            raise StoreError(f"generation {number} is no longer kept", self._database.path)
        return bytes(row[0])

    def drop_old(self, before: float) -> None:
        """Forget generations that are too old, or too many; inside a transaction."""
        kept = self.newest(MOST_GENERATIONS + 1)
        oldest = min((one.number for one in kept if one.at > before), default=0)
        if len(kept) > MOST_GENERATIONS:
            oldest = max(oldest, kept[MOST_GENERATIONS - 1].number)
        if oldest:
            self._database.execute("DELETE FROM gen WHERE n<?", (oldest,))

    def find(self, name: str) -> Change:
        """
        A generation by the first digits of its name, or by its number with C{#}.

        @raises StoreError: there is none, or more than one tree of that name.
        """
        found = [
            one
            for one in self.newest()
            if one.digest.hex().startswith(name.lower()) or f"#{one.number}" == name
        ]
        if not name or not found:
            raise StoreError("there is no such generation", name)
        if len({one.digest for one in found}) > 1:
            raise StoreError("names more than one generation", name)
        return found[0]

    def manifest(self, number: int) -> dict[bytes, TreeEntry]:
        """The tree of an earlier generation, by walking back."""
        tree = dict(self._present().walk())
        for change in self.newest():
            if change.number <= number:
                break
            body = codec.unpack(codec.expand(self._undo(change.number), codec.MAX_BODY))
            for path, entry in codec.unpack_entries(body, 2 * MAX_ENTRIES):
                if entry == GONE:
                    tree.pop(path, None)
                else:
                    tree[path] = entry
        return tree

    def way_back(self, number: int) -> dict[bytes, TreeEntry]:
        """What has to change for the tree of an earlier generation to be visible again."""
        target, present = self.manifest(number), self._present()
        wanted = {path: GONE for path, _ in present.walk() if path not in target}
        wanted.update((path, entry) for path, entry in target.items() if present.get(path) != entry)
        lost = missing_from(self._objects, wanted.values())
        if lost:
            raise StoreError(f"{len(lost)} of its contents are no longer kept", self._folder)
        return wanted

    def difference(self, number: int) -> dict[bytes, tuple[TreeEntry | None, TreeEntry | None]]:
        """Path to (then, now), between an earlier generation and the present one."""
        then = self.manifest(number)
        today = dict(self._present().walk())
        return {
            path: (then.get(path), today.get(path))
            for path in sorted(then.keys() | today.keys())
            if then.get(path) != today.get(path)
        }
