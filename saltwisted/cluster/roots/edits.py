"""
What people did to the working tree of a share, as versions.

Deletions that go too far are held for an approval. Changes on a node that may not write are kept as
a conflict, and undone.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from saltwisted import advice
from saltwisted.cluster.roots.ahead import TOGETHER, RootAhead
from saltwisted.cluster.roots.commit import RootCommit
from saltwisted.cluster.roots.core import ShareCore
from saltwisted.cluster.roots.watch import RootWatch
from saltwisted.cluster.roots.work import Changes, keep_adopted, same_content, sort_changes, weigh
from saltwisted.cluster.roots.write import RootWrite
from saltwisted.domain.roots.entry import DIR, GONE, TreeEntry
from saltwisted.domain.roots.guards import Brake
from saltwisted.stores.roots.knowntree import Known
from saltwisted.stores.roots.newfiles import Seen
from saltwisted.transports.deferreds import let_go
from saltwisted.words import WERE, are

LARGE_AGAIN = 1.0
"""Seconds after which a large file that was being written is looked at again."""


class RootEdits:
    """
    All of it runs under the lock, except the reading of large files.

    @ivar brake: decides how many deletions are too many.
    """

    log = Logger()

    def __init__(
        self,
        core: ShareCore,
        watch: RootWatch,
        ahead: RootAhead,
        commits: RootCommit,
        writes: RootWrite,
    ) -> None:
        self._core = core
        self._watch = watch
        self._ahead = ahead
        self._commits = commits
        self._writes = writes
        self._large: dict[bytes, int] = {}
        self.brake = Brake(core.limits)

    @property
    def is_reading(self) -> bool:
        """Whether a large file is being read, that is committed when it was."""
        return bool(self._large)

    async def take(self, seen: Seen) -> None:
        """Commit what a look has found; large files by themselves, when they were read."""
        core = self._core
        changed = dict(seen.changed)
        apart: dict[bytes, int] = {}
        reading = self._ahead.reading()
        if seen.large:
            if sum(seen.large.values()) <= TOGETHER:
                for path in seen.large:
                    known = await (reading.pop(path, None) or self._ahead.read_large(path))
                    if known is None:
                        self._watch.look_at([path])
                    else:
                        changed[path] = known
            else:
                apart = dict(seen.large)
        for unused in reading.values():
            let_go(unused, self.log, "roots: a large file of {share} was not read", share=core.name)
        if changed:
            await self.commit(changed)
        for path in apart:
            if path not in self._large:
                self._large[path] = apart[path]
                d = Deferred.fromCoroutine(self._take_large(path))
                let_go(d, self.log, "roots: a large file of {share} failed", share=core.name)

    async def _take_large(self, path: bytes) -> None:
        """A file that takes seconds to read: others are committed meanwhile."""
        try:
            known = await self._ahead.read_large(path)
        finally:
            self._large.pop(path, None)
        if known is None:
            self._watch.look_at([path], LARGE_AGAIN)
        else:
            await self._core.locked(self.commit, {path: known})

    async def commit(self, changed: Mapping[bytes, Known | None]) -> None:
        """
        The user's changes, as versions: one batch, except changes by somebody who had not seen what
        is visible (see C{beside}).
        """
        core, store = self._core, self._core.db
        if core.is_read_only:
            await self._keep_refused(changed)
            return
        found: Changes = await core.pool(sort_changes, changed, store.tree.known, store.generation)
        plain, still = await self._let_through(found)
        tree = changed
        if still:
            tree = {path: known for path, known in changed.items() if path not in still}
        for path, entry in found.beside.items():
            if path in still:
                continue
            await self._commits.commit({path: entry}, beside=path)
        if plain:
            await self._commits.commit(plain, tree=tree)
        elif tree:
            await core.pool(store.tree.remember, tree)

    async def _keep_refused(self, changed: Mapping[bytes, Known | None]) -> None:
        """This node may not write: what its user did is kept as conflicts here, and undone."""
        core, generation = self._core, self._core.db.generation
        lost = [
            (path, known.entry)
            for path, known in changed.items()
            if known is not None
            and known.entry.kind != DIR
            and not same_content(generation.get(path), known.entry)
        ]
        await core.pool(keep_adopted, core.db, changed, lost)
        undone = [p for p, one in changed.items() if (one and one.entry) != generation.get(p)]
        if undone:
            names = sorted(os.fsdecode(path) for path in undone)[:100]
            self.log.warn(
                "roots: {share}: this node is read-only: {changes} undone: {names}",
                share=core.name,
                changes=are(len(undone), "change"),
                names=", ".join(names[:5]),
            )
            core.last_error = f"403: read-only: {are(len(undone), 'change', verbs=WERE)} undone"
            data = {"share": core.name, "reason": "403: this node is read-only", "paths": names}
            core.owner.news.event("refused", data)
            if lost:
                core.owner.news.event("conflict", {"share": core.name, "paths": names})
        await self._writes.write()

    async def _let_through(self, found: Changes) -> tuple[dict[bytes, TreeEntry], set[bytes]]:
        """Hold deletions that go too far; the rest goes on."""
        core = self._core
        wanted, gone, held = found.plain, found.gone, core.held
        generation = core.db.generation
        was_held = set(held)
        for path in was_held:
            if path not in gone and path in wanted:
                held.pop(path)
        if not gone or self._commits.approved:
            return wanted, set()
        files, size = await core.pool(weigh, self.brake, wanted, generation)
        all_files, all_bytes = generation.counts()
        now = core.reactor.seconds()
        if not self.brake.holds(now, files, size, all_files, all_bytes):
            self.brake.passed(now, files, size)
            return wanted, set()
        fresh = gone - was_held
        held.update({path: generation.get(path) or GONE for path in gone})
        if fresh:
            core.owner.news.event(
                "held",
                {
                    "share": core.name,
                    "files": files,
                    "bytes": size,
                    "where": "origin",
                    "approve": advice.command("roots.held", share=core.name),
                },
            )
            self.log.warn(
                "roots: {share}: {deletions} held: approve or restore them",
                share=core.name,
                deletions=are(files, "deletion"),
            )
        return {path: entry for path, entry in wanted.items() if path not in gone}, gone
