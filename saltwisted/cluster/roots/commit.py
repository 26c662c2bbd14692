"""
How a share makes a new generation of its own: it stores versions, and tells the peers at once.

Other modules decide what is committed: L{saltwisted.cluster.roots.edits} (what people did to the
tree) and L{saltwisted.cluster.roots.orders} (what operators ask for).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from itertools import islice

from twisted.logger import Logger

from saltwisted.cluster.roots.care import RootCare
from saltwisted.cluster.roots.core import RETRY, ShareCore
from saltwisted.cluster.roots.link import RootLink
from saltwisted.cluster.roots.watch import RootWatch
from saltwisted.cluster.roots.work import commit_and_pack, keep_adopted
from saltwisted.domain.causality.knowledge import Dot
from saltwisted.domain.roots.entry import FILE, LINK, Batch, ReplicaId, TreeEntry
from saltwisted.domain.roots.frames import BATCH
from saltwisted.domain.roots.index import Outcome
from saltwisted.errors import StoreError
from saltwisted.stores.roots.knowntree import Known

ROWS_AFTER = 2.0
"""Seconds of no large commit after which the rows of the last ones are written."""
MOST_HOT = 100
"""Paths of one commit that are counted for files which change all the time."""


class RootCommit:
    """
    All of it runs under the lock.

    @param then: handles the conflicts of a commit.
    @ivar approved: who approved what is being committed now; empty for nobody.
    @ivar failures: how often the disk has refused a commit, or something that belongs to it.
    """

    log = Logger()

    def __init__(
        self,
        core: ShareCore,
        watch: RootWatch,
        care: RootCare,
        then: Callable[[Outcome], Awaitable[None]],
    ) -> None:
        self._core = core
        self._watch = watch
        self._care = care
        self._then = then
        self.approved = ""
        self.failures = 0

    async def commit(
        self,
        wanted: Mapping[bytes, TreeEntry],
        *,
        tree: Mapping[bytes, Known | None] | None = None,
        beside: bytes | None = None,
        approved: str = "",
        settled: Iterable[tuple[bytes, Dot[ReplicaId]]] = (),
        note: str = "",
        founding: bool = False,
    ) -> Batch | None:
        """
        Make versions of this node, as one batch; C{None} if there is nothing to commit, if this
        node may not write, or if it cannot do so now: then it is tried again.

        @param tree: what is known of the working tree, to be stored with it.
        @param beside: the path of a version that had not seen what is visible there.
        @param settled: lost versions that count as seen.
        @param founding: also make a batch without any change.
        """
        core, store = self._core, self._core.db
        if core.owner.clocks.problem:
            core.last_error = core.owner.clocks.problem
            self._watch.look_everywhere(RETRY, "clock")
            return None
        if core.is_read_only:
            files = [(path, one) for path, one in wanted.items() if one.kind in (FILE, LINK)]
            await core.pool(keep_adopted, store, dict(tree or {}), files)
            return None
        if not store.owns_numbers:
            await core.pool(store.go_on, core.all_answered())
        unacked = None
        links = core.links()
        if links:
            lane = store.index.bulk
            unacked = min(link.peer.knowledge[core.name].get(lane, 0) for link in links)
        try:
            made = await core.pool(
                commit_and_pack,
                store,
                dict(wanted),
                dict(tree or {}),
                beside,
                unacked,
                approved or self.approved,
                tuple(settled),
                note,
                founding,
            )
        except StoreError as error:
            self.failed_to_store(error)
            return None
        if made is None:
            return None
        batch, outcome, body = made
        self._tell(batch, outcome, body, links)
        if tree:
            await self._remember(tree, batch)
        await self._then(outcome)
        return batch  # type: ignore[no-any-return]

    def _tell(self, batch: Batch, outcome: Outcome, body: bytes, links: Iterable[RootLink]) -> None:
        """The peers first: they wait for it."""
        core = self._core
        self._care.committed(path for path, _ in islice(batch.entries, MOST_HOT))
        for link in links:
            link.tell(BATCH, core.name, body)
        self.write_rows_soon()
        core.owner.committed(core.name, batch, outcome, True)

    async def _remember(self, tree: Mapping[bytes, Known | None], batch: Batch) -> None:
        """
        What is known of the working tree. Not in the same transaction, so that peers need not wait
        for it: where a crash prevents it, what is there is found to be what is committed.
        """
        moved = [(move.old, move.new) for move in batch.moves]
        try:
            await self._core.pool(self._core.db.tree.remember, dict(tree), moved)
        except StoreError as error:
            self.failed_to_store(error)

    async def found(self) -> None:
        """Say that an empty tree is the tree."""
        await self.commit({}, founding=True)

    def failed_to_store(self, error: StoreError) -> None:
        """The disk refuses: this is reported, and everything is scanned again later."""
        self.failures += 1
        self._core.last_error = str(error)
        self.log.error("roots: {share}: {error}", share=self._core.name, error=str(error))
        store = self._core.store
        if store is not None and store.database.broken:
            self._core.owner.news.damaged(self._core.name)
        self._watch.look_everywhere(RETRY)

    def write_rows_soon(self) -> None:
        """Large commits are only in the log at first: write their rows soon."""
        core = self._core
        if core.db.unwritten:
            core.timers.later("rows", ROWS_AFTER, lambda: core.go(self._write_rows))

    async def _write_rows(self) -> None:
        await self._core.pool(self._core.db.write_behind)
