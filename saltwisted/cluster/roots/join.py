"""
How a share gets the tree of its cluster: the first time, after it was in another cluster, and when
changes of this node can never become part of it.

Until all of it is here, nothing is served, and nothing is written to the working tree.
"""

from __future__ import annotations

from twisted.logger import Logger

from saltwisted import advice
from saltwisted.cluster.roots.commit import RootCommit
from saltwisted.cluster.roots.core import ShareCore
from saltwisted.cluster.roots.look import RootLook
from saltwisted.cluster.roots.watch import RootWatch
from saltwisted.cluster.roots.work import keep_adopted, set_anew, set_joining
from saltwisted.cluster.roots.write import RootWrite
from saltwisted.domain.causality.knowledge import covers, joined
from saltwisted.domain.replica.membership import WRITE
from saltwisted.domain.roots.entry import DIR, Knowledge, TreeEntry
from saltwisted.stores.roots.knowntree import Known
from saltwisted.stores.roots.newfiles import Seen
from saltwisted.stores.roots.store import RootStore, discard
from saltwisted.transports.deferreds import let_go
from saltwisted.words import are

STRANDED = 60.0
"""Seconds for which a node that may not write has to know more than all writers do."""


class RootJoin:
    """Reactor thread only."""

    log = Logger()

    def __init__(
        self,
        core: ShareCore,
        watch: RootWatch,
        commits: RootCommit,
        writes: RootWrite,
        look: RootLook,
    ) -> None:
        self._core = core
        self._watch = watch
        self._commits = commits
        self._writes = writes
        self._look = look
        self._stranded_since: float | None = None

    # -- at the start

    async def belong(self, store: RootStore) -> RootStore:
        """
        A node that joins another cluster leaves its history behind: the tree on its disk is
        compared with the cluster's as one that was never replicated.

        @param store: as it was found.
        @return: the one to be used; nobody has used either yet.
        """
        core, cluster = self._core, self._core.owner.host.cluster
        before = store.database.get("cluster")
        if cluster and before not in (None, cluster):
            self.log.info(
                "roots: {share}: this is another cluster than before; its tree comes first",
                share=core.name,
            )
            root = store.database.get("root")
            store.close()
            await core.pool(discard, core.folder)
            store = await core.pool(core.make_store, core.folder)
            if root:
                with store.database.transaction():
                    store.database.set("root", root)
        elif store.database.get("anew") or self._wrote_in_vain(store):
            self.log.warn(
                "roots: {share}: no member that may write has everything that is here; this "
                "node takes the cluster's tree first",
                share=core.name,
            )
            await core.pool(store.begin_anew)
        if cluster and before != cluster:
            with store.database.transaction():
                store.database.set("cluster", cluster)
        return store

    def _wrote_in_vain(self, store: RootStore) -> bool:
        """Whether this node may not write any more, and has changes that nobody took."""
        core, writers = self._core, self._core.writers()
        if core.owner.host.may(core.owner.host.node, WRITE) or not writers:
            # Where nobody may write, what is here may be all that there is
            return False
        confirmed = store.confirmed.peers
        taken = [confirmed[node] for node in writers if node in confirmed]
        own = {store.index.main.master, store.index.bulk.master}
        return any(
            counter > max((vector.get(replica, 0) for vector in taken), default=0)
            for replica, counter in store.index.knowledge.items()
            if replica.master in own
        )

    async def begin(self) -> None:
        """Serve what is here, or wait for the peers' contents."""
        core = self._core
        if core.is_blank or core.db.database.get("joining"):
            # Peers may have a tree already: it comes first, ours joins it
            core.owner.founding.blank(core.name)
            self.join_if_whole()
        else:
            core.ready = True
            core.owner.news.loaded(core.name)
            await self._look.rescan()

    async def found(self) -> None:
        """No peer has a tree: ours is the first."""
        core = self._core
        if not core.ready:
            core.ready = True
            await self._look.rescan()
            if core.is_blank:
                # An empty root: others have to learn that this is the tree
                await core.locked(self._commits.found)

    # -- the cluster's tree

    def join_if_whole(self) -> None:
        """Take the cluster's tree if all of it is here."""
        if not self._core.ready and self._has_whole():
            self._core.go(self._join_whole)

    async def advanced(self) -> None:
        """More of the cluster's tree is here, under the lock; it is not for minions yet."""
        if self._has_whole():
            await self._join_whole()
        else:
            await self._core.pool(set_joining, self._core.db, True)

    def _has_whole(self) -> bool:
        """
        Whether all is here that one of the peers knew when it was linked; or a part, and no member
        is left that could give the rest.
        """
        core = self._core
        if not core.writers() and not core.is_read_only and not core.is_blank:
            return True
        # A node that knows nothing yet joins as we do
        goals = [
            link.peer.began.get(core.name) or link.peer.knowledge[core.name]
            for link in core.writing_links()
        ]
        return any(goal and covers(core.db.knowledge, goal) for goal in goals)

    async def _join_whole(self) -> None:
        """The cluster's tree is here: take it; under the lock."""
        core = self._core
        if core.ready or not self._has_whole():
            return
        await self._adopt()
        await core.pool(set_joining, core.db, False)
        core.ready = True
        core.owner.news.loaded(core.name)
        self._watch.look_everywhere()
        await self._writes.write()

    async def _adopt(self) -> None:
        """
        A peer's tree is here, and there is one on this disk: equal files join, others are
        kept as conflicts of this node, and the tree becomes the cluster's.
        """
        core = self._core
        store, tree = core.db, core.tree
        if core.suspended:
            return
        if core.settings.rejoin == "merge":
            return
        seen: Seen = await core.pool(tree.reader.scan, {}, store.objects)
        for path in seen.large:
            known = await core.pool(tree.reader.take_large, path, store.objects)
            if known is not None:
                seen.changed[path] = known
        generation = store.generation
        known_now: dict[bytes, Known | None] = {}
        kept: list[tuple[bytes, TreeEntry]] = []
        for path, one in seen.changed.items():
            if one is None:
                continue
            shown = generation.get(path)
            known_now[path] = one
            if one.entry.kind != DIR and (shown is None or not one.entry.same_content(shown)):
                kept.append((path, one.entry))
        await core.pool(keep_adopted, store, known_now, kept)
        if kept:
            self.log.warn(
                "roots: {share}: {differ} from the cluster's; kept as conflicts. {advice}",
                share=core.name,
                advice=advice.of("roots.conflicts", share=core.name),
                differ=are(
                    len(kept), "file of this node", "files of this node", ("differs", "differ")
                ),
            )
            core.owner.news.event("conflict", {"share": core.name, "adopted": len(kept)})

    # -- no way back

    def watch_for_writers(self) -> None:
        """
        If a node that may not write knows something that no writer knows (any more), it cannot pass
        it on, and would never match the others again: after a while it starts again.
        """
        core = self._core
        links = core.writing_links()
        known: Knowledge = {}
        for link in links:
            known = joined(known, link.peer.knowledge[core.name])
        all_here = set(core.writers()) <= {link.node for link in links}
        if not links or not all_here or not core.is_read_only or covers(known, core.db.knowledge):
            self._stranded_since = None
            return
        now = core.reactor.seconds()
        if self._stranded_since is None:
            self._stranded_since = now
        if now - self._stranded_since < STRANDED:
            core.timers.later("stranded", STRANDED, core.consider)
            return
        self._stranded_since = None
        d = core.owner.host.pool(set_anew, core.db)
        d = d.addCallback(lambda _: core.owner.news.stranded(core.name))
        let_go(d, self.log, "roots: {share} cannot start again", share=core.name)
