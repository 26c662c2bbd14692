"""
How a share makes its working tree match its generation.

If people wrote a file meanwhile, that is found when the file is exchanged, and becomes a version of
its own. L{saltwisted.stores.roots.worktree} writes the files.
"""

from __future__ import annotations

from collections.abc import Mapping

from saltwisted.cluster.roots.commit import RootCommit
from saltwisted.cluster.roots.core import ShareCore
from saltwisted.cluster.roots.watch import RootWatch
from saltwisted.cluster.roots.work import look_back, to_write
from saltwisted.domain.roots.entry import DIR, FILE, Batch, TreeEntry, Version, split
from saltwisted.domain.roots.guards import MAX_NAME
from saltwisted.domain.roots.index import Outcome
from saltwisted.errors import StoreError
from saltwisted.stores.roots.displaced import Written
from saltwisted.stores.roots.knowntree import Known

TRASH_TIME = 60.0
"""Seconds for which what was exchanged is kept: somebody may still write to it."""


class RootWrite:
    """
    All of it runs under the lock.

    @ivar kept: paths with something that we may not touch.
    @ivar failed: paths that could not be written, and why.
    """

    def __init__(self, core: ShareCore, watch: RootWatch, commits: RootCommit) -> None:
        self._core = core
        self._watch = watch
        self._commits = commits
        self.kept: set[bytes] = set()
        self.failed: dict[bytes, str] = {}

    async def write(
        self,
        shown: Mapping[bytes, tuple[TreeEntry | None, TreeEntry | None]] | None = None,
        batch: Batch | None = None,
    ) -> None:
        """
        Make the working tree match the generation, wherever it does not.

        @param shown: where they may differ, if known: path to what was visible and what is now.
        @param batch: the batch that changed it; directories that it moves are moved as a whole.
        """
        core, store = self._core, self._core.db
        if core.suspended:
            return
        if shown is None:
            wanted = await core.pool(store.tree.pending, store.generation)
        else:
            wanted = await core.pool(to_write, shown, store.tree.known)
        if core.held:
            wanted = {path: entry for path, entry in wanted.items() if path not in core.held}
        if not wanted:
            return
        problem = await core.pool(core.tree.check)
        if problem:
            core.suspend(problem)
            return
        moves = batch.moves if batch is not None else ()
        self._watch.events.hold()
        try:
            done: Written = await core.pool(
                core.tree.writer.write, wanted, store.tree.known, store.objects, moves
            )
        finally:
            self._watch.events.go_on()
        self.failed = {**{p: w for p, w in self.failed.items() if p not in wanted}, **done.failed}
        self.kept = (self.kept - wanted.keys()) | done.kept
        try:
            await core.pool(store.tree.remember, done.known, done.moved)
        except StoreError as error:
            self._commits.failed_to_store(error)
            return
        await self._commit_edits(done.edits)
        if self._watch.events.running:
            await self._watch_written(wanted, done)
        again = done.again - done.failed.keys()
        if again:
            self._watch.look_at(again, core.settings.quiet)
        if done.edits:
            await self.write()
        core.timers.later("trash", TRASH_TIME, self._empty_trash)

    async def _commit_edits(self, edits: Mapping[bytes, Known]) -> None:
        """Somebody wrote them between our look and our exchange: versions beside ours."""
        for path, known in edits.items():
            await self._commits.commit({path: known.entry}, beside=path)

    async def _watch_written(self, wanted: Mapping[bytes, TreeEntry | None], done: Written) -> None:
        """Watch the new directories; the events of what we have written say nothing new."""
        core, watch, store = self._core, self._watch, self._core.db
        made = [p for p, e in wanted.items() if e is not None and e.kind == DIR]
        fresh = await watch.events.add(made)
        watch.events.drain()
        for old, new in done.moved:
            watch.dirty.follow(old, new)
        echo = watch.dirty.take_echo(done.known, store.tree.known)
        if fresh or echo:
            # Who put something into them before they were watched has made no event
            touched, changed = await core.pool(look_back, core.tree, fresh, echo, store.tree.known)
            watch.unlisted |= touched
            watch.dirty.update(changed)
        if watch.unlisted or watch.dirty:
            watch.look_again_soon()
        elif not watch.everything:
            watch.calm()

    # -- what was exchanged

    def _empty_trash(self) -> None:
        self._core.go(self._clear_trash)

    async def _clear_trash(self) -> None:
        core = self._core
        if core.suspended:
            return
        left, done = await core.pool(core.tree.displaced.empty, TRASH_TIME, core.db.objects)
        await self._commit_edits(done.edits)
        if done.edits:
            await self.write()
        if left:
            core.timers.later("trash", TRASH_TIME, self._empty_trash)

    # -- both versions

    async def keep_both(self, outcome: Outcome) -> None:
        """Under C{keep-both}, who wrote a version that lost writes it again under another name."""
        core, store = self._core, self._core.db
        if not core.settings.keep_both or not core.ready or core.is_read_only:
            return
        lanes = (store.index.main, store.index.bulk)
        copies: dict[bytes, TreeEntry] = {}
        for path, version in outcome.conflicts:
            if version.dot.source in lanes and version.entry.kind == FILE:
                name = conflict_name(path, version)
                if store.generation.get(name) is None:
                    copies[name] = version.entry
        if copies:
            await self._commits.commit(copies, note="kept beside the winning version")
            await self.write()


def conflict_name(path: bytes, version: Version) -> bytes:
    """Where a lost version is kept: behind the extension, so that no module is loaded twice."""
    tail = b".conflict-%x-%s-%s" % (
        version.stamp,
        version.dot.source.master.encode("utf-8", "replace").replace(b"/", b"_"),
        version.entry.content.hex()[:8].encode(),
    )
    head, name = split(path)
    name = name[: MAX_NAME - len(tail)] + tail
    return head + b"/" + name if head else name
