"""
What a share requests from its peers: changes that did not arrive by themselves, the whole state of
a peer that has forgotten the changes, and contents that its own disk has lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from saltwisted.cluster.roots.care import RootCare
from saltwisted.cluster.roots.commit import RootCommit
from saltwisted.cluster.roots.core import GRACE, RETRY, ShareCore
from saltwisted.cluster.roots.inbox import RootInbox
from saltwisted.cluster.roots.join import RootJoin
from saltwisted.cluster.roots.link import RootLink
from saltwisted.cluster.roots.look import RootLook
from saltwisted.cluster.roots.parcels import Want
from saltwisted.cluster.roots.watch import RootWatch
from saltwisted.domain.causality.knowledge import count_missing, covers
from saltwisted.domain.replica.membership import WRITE
from saltwisted.domain.roots import codec
from saltwisted.domain.roots.entry import FILE, Version
from saltwisted.errors import SaltwistedError, StoreError
from saltwisted.stores.roots.housekeeping import drop_damaged
from saltwisted.stores.roots.knowntree import Known
from saltwisted.stores.roots.objects import missing_from
from saltwisted.transports.deferreds import let_go
from saltwisted.words import are


class RootCatchUp:
    """
    Reactor thread only.

    @ivar damaged: contents that this disk has lost, and their sizes.
    """

    log = Logger()

    def __init__(
        self,
        core: ShareCore,
        watch: RootWatch,
        care: RootCare,
        commits: RootCommit,
        look: RootLook,
        join: RootJoin,
        inbox: RootInbox,
    ) -> None:
        self._core = core
        self._watch = watch
        self._care = care
        self._commits = commits
        self._look = look
        self._join = join
        self._inbox = inbox
        self._pulling: tuple[RootLink, float] | None = None
        self.damaged: dict[bytes, int] = {}

    # -- changes

    def peer_knows(self, link: RootLink) -> None:
        """A peer has said what it knows."""
        core, store = self._core, self._core.store
        if store is None:
            return
        theirs = link.peer.knowledge[core.name]
        self._inbox.disown(link.node, theirs)
        d = core.owner.host.pool(store.confirmed.add, link.node, theirs)
        let_go(d, self.log, "roots: an acknowledgement was not kept")
        if store.index.is_old_copy(theirs):
            core.go(self._new_life, link)
        generation = store.generation
        if theirs == generation.knowledge:
            digest = link.peer.digests.get(core.name, b"")
            may_be_right = core.owner.host.may(link.node, WRITE)
            if may_be_right and digest and digest != generation.digest and not self._inbox:
                self._care.differs(link)
        core.consider_after(GRACE)
        self._join.join_if_whole()

    def acknowledged(self, link: RootLink) -> None:
        """
        A peer has said what it knows, after it had read our greeting. From now on it can only know
        more of us from what we send, see L{RootInbox.disown}.
        """
        store = self._core.store
        if store is not None and not store.index.is_old_copy(link.peer.knowledge[self._core.name]):
            self._core.answered.add(link.node)
        else:
            self._core.answered.discard(link.node)

    async def _new_life(self, link: RootLink) -> None:
        core = self._core
        if core.db.index.is_old_copy(link.peer.knowledge[core.name]):
            self.log.warn(
                "roots: {share}: {node} knows more of this node than the node itself: the index "
                "is an old copy. It continues under a new incarnation",
                share=core.name,
                node=link.node,
            )
            await core.pool(core.db.begin_new_life)
            self.consider()

    def consider(self) -> None:
        """Ask a peer for what it knows and we do not, unless that is already coming."""
        core = self._core
        if core.stopped or core.store is None:
            return
        self._inbox.work()
        self._inbox.forget_orphans()
        self._join.watch_for_writers()
        _ = self._repair()
        known = self._inbox.known()
        now = core.reactor.seconds()
        if self._pulling is not None:
            link, since = self._pulling
            if not link.closed and now - since < RETRY:
                core.consider_after(RETRY)
                return
        best: tuple[int, RootLink] | None = None
        for link in core.writing_links():
            lack = count_missing(known, link.peer.knowledge[core.name])
            if lack and (best is None or lack > best[0]):
                best = lack, link
        if best is None:
            self._pulling = None
            return
        self._pulling = best[1], now
        best[1].pull(core.name, known)
        core.consider_after(RETRY)

    # -- a whole state

    def state_packed(self, link: RootLink, body: bytes) -> None:
        """All that a peer has, packed."""
        core = self._core
        d = core.owner.host.pool(codec.unpack_state, body, core.limits)
        self._inbox.unpacked(link, d, lambda state: core.go(self._state_came, link, state))

    async def _state_came(self, link: RootLink, state: tuple[Any, Any, Any]) -> None:
        rows, lost, knowledge = state
        core, store = self._core, self._core.db
        repairing = store.generation.knowledge == knowledge and self._care.expects(link)
        if not repairing and covers(store.knowledge, knowledge):
            return
        entries = [v.entry for row in rows.values() for v in row]
        lacking = missing_from(store.objects, [*entries, *(v.entry for _, v in lost)])
        if lacking:
            if not core.no_room(sum(lacking.values())):
                self._fetch_for(link, state, lacking)
            return
        if core.ready and not core.suspended:
            await self._look.take_all()
        try:
            if repairing:
                outcome = await self._care.repair(link, rows)
            else:
                outcome = await core.pool(store.merge, rows, lost, knowledge, link.node)
        except StoreError as error:
            self._commits.failed_to_store(error)
            return
        await self._inbox.applied(None, outcome)

    def _fetch_for(
        self, link: RootLink, state: tuple[Any, Any, Any], lacking: Mapping[bytes, int]
    ) -> None:
        """Have the contents of a state sent, as differences where we can; then go on with it."""
        core, generation = self._core, self._core.db.generation
        rows: dict[bytes, tuple[Version, ...]] = state[0]
        wanted = {d: s for d, s in lacking.items() if d not in core.coming}
        bases = {
            row[0].entry.content: there.content
            for path, row in rows.items()
            if row[0].entry.content in wanted
            and (there := generation.get(path)) is not None
            and there.kind == FILE
        }

        def done(error: SaltwistedError | None) -> None:
            if error is not None:
                core.last_error = str(error)
                core.consider_after(GRACE)
            else:
                core.go(self._state_came, link, state)

        wants = [Want(digest, size, bases.get(digest, b"")) for digest, size in wanted.items()]
        let_go(
            core.fetch(link, wants).addCallback(done),
            self.log,
            "roots: fetching for {share} failed",
            share=core.name,
        )

    # -- contents that the disk has lost

    def _repair(self) -> Deferred[None]:
        """Ask a peer for contents that the disk has lost; fires when it has answered."""
        core = self._core
        links = core.links()
        wanted = {d: s for d, s in self.damaged.items() if d not in core.coming}
        if not wanted or not links:
            return succeed(None)
        link = links[self._look.scans % len(links)]

        async def repair() -> None:
            error = await core.fetch(link, [Want(d, s) for d, s in wanted.items()])
            if error is not None:
                core.last_error = str(error)
                core.consider_after(RETRY)
                return
            await core.locked(self._keep_repaired)
            for digest in wanted:
                self.damaged.pop(digest, None)

        over: Deferred[None] = Deferred()
        d = Deferred.fromCoroutine(repair()).addBoth(_fired, over)
        let_go(d, self.log, "roots: repairing {share} failed", share=core.name)
        return over

    async def lost(self, damaged: Mapping[bytes, int]) -> None:
        """
        Contents that the disk has lost: what the tree still has is read from there, the rest comes
        from a peer.
        """
        core, store = self._core, self._core.db
        self.damaged.update(damaged)
        await core.locked(self._forget_damaged, damaged)
        await self._look.rescan()
        await core.locked(self._keep_repaired)
        for digest in damaged:
            if store.objects.has(digest):
                self.damaged.pop(digest, None)
        await self._repair()

    async def _forget_damaged(self, damaged: Mapping[bytes, int]) -> None:
        core, store = self._core, self._core.db
        await core.pool(store.lose, damaged)
        again = {
            path: Known(one.entry, None)
            for path, one in store.tree.known.items()
            if one.entry.content in damaged
        }
        await core.pool(store.tree.remember, again)

    async def _keep_repaired(self) -> None:
        await self._core.pool(self._core.db.keep_objects)
        self._watch.look_everywhere()

    # -- at the start

    async def look_for_damage(self) -> None:
        """Find the contents that should be in the store and are not."""
        core = self._core
        self.damaged = await core.pool(drop_damaged, core.db)
        if self.damaged:
            self.log.error(
                "roots: {share}: {contents} damaged on disk; peers are asked for them",
                share=core.name,
                contents=are(len(self.damaged), "content"),
            )


def _fired(result: Any, waiting: Deferred[None]) -> Any:
    waiting.callback(None)
    return result
