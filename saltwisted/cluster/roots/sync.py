"""
The roots service of a node: its shares, and what they have in common.

A share is one entry of one environment's C{file_roots}, or of C{pillar_roots}, with the same name
on every master. L{saltwisted.cluster.roots.share} describes one share, and
L{saltwisted.cluster.roots.streams} the streams to the peers; this module connects them.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from saltwisted.cluster.roots.clocks import PeerClocks
from saltwisted.cluster.roots.founding import Founding
from saltwisted.cluster.roots.host import Host
from saltwisted.cluster.roots.mending import Mending
from saltwisted.cluster.roots.news import RootNews
from saltwisted.cluster.roots.report import RootReport
from saltwisted.cluster.roots.room import Room
from saltwisted.cluster.roots.settings import Root, settings_of
from saltwisted.cluster.roots.share import RootShare
from saltwisted.cluster.roots.streams import RootStreams
from saltwisted.domain.roots.entry import Batch
from saltwisted.domain.roots.index import Outcome
from saltwisted.errors import StoreError
from saltwisted.stores.roots.housekeeping import clean
from saltwisted.stores.roots.store import RootStore
from saltwisted.stores.roots.worktree import WorkTree
from saltwisted.transports.deferreds import let_go

CLEAN_EVERY = 3600.0
NO_PILLAR = "this node has no right to pillars"


class RootSync:
    """
    The shares of a node: opened, kept in order, closed. Reactor thread only.

    @param host: what the node provides.
    @param roots: the directories.
    @param folder: the directory of their stores.
    @param options: the C{cluster_roots} map of the configuration.
    @ivar left_out: what does not take part, and why.
    @ivar approvals: changes of peers that were approved on the node that made them: share, node and
        counter.
    @ivar alarms: share to the reason why its changes look like an attack.
    @ivar pinned: the digests of the trees that jobs are pinned to.
    """

    log = Logger()

    def __init__(
        self,
        host: Host,
        roots: Sequence[Root],
        folder: str,
        options: Mapping[str, Any] | None = None,
        left_out: Mapping[str, str] | None = None,
    ) -> None:
        self.host = host
        self.left_out = dict(left_out or {})
        self.approvals: set[tuple[str, str, int]] = set()
        self.alarms: dict[str, str] = {}
        self.pinned: Callable[[], set[bytes]] = set
        self.shares: dict[str, RootShare] = {}
        self._settings = settings_of(options or {})
        self.room = Room(options or {})
        self.news = RootNews(host.node, host.fire)
        self.clocks = PeerClocks(host.now, self.news.event)
        self.founding = Founding(host, self.shares, lambda: self.streams)
        self.streams = RootStreams(host, self.shares, self.clocks, self.news, self._peer_knows)
        self.report = RootReport(host, self.shares, self.streams)
        self.mending = Mending(self.shares)
        self._timer: Any = None
        self._waiting: list[Deferred[None]] = []
        self._withdrawn: list[str] = []
        for root in roots:
            where = f"{folder}/{root.name.replace('/', '-')}"
            if host.may_have(host.node, root.name):
                self.shares[root.name] = self._share(root, where)
            else:
                self.left_out[root.name] = NO_PILLAR
                self._withdrawn.append(where)

    def _share(self, root: Root, where: str) -> RootShare:
        host, chosen = self.host, self._settings
        return RootShare(
            self,
            root.name,
            root.path,
            where,
            host.reactor,
            chosen.share,
            lambda folder: RootStore(
                folder,
                host.node,
                host.entropy,
                host.now,
                chosen.policy,
                chosen.limits,
                keep=chosen.keep,
            ),
            WorkTree(
                root.path,
                root.name,
                chosen.limits,
                host.now_ns,
                chosen.ignored,
                f"{where}/trash",
                host.helper,
            ),
        )

    # -- start and stop

    async def startService(self) -> None:
        """Open every share; one that cannot be opened is named and left out."""
        for store in self._withdrawn:
            # It had them once: what the cluster gave it goes with the right to it
            await self.host.pool(shutil.rmtree, store, True)
        for name, share in list(self.shares.items()):
            try:
                await share.start()
            except (StoreError, OSError) as error:
                self.log.error("roots: {share}: {error}", share=name, error=str(error))
                self.left_out[name] = str(error)
                del self.shares[name]
                self.news.left_out(share.root)
        self._timer = self.host.reactor.callLater(CLEAN_EVERY, self._clean)

    async def stopService(self) -> None:
        """Close streams and shares."""
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self.founding.stop()
        self.streams.close()
        for share in self.shares.values():
            await share.stop()
        self.notify()

    def notify(self) -> None:
        """Something was done or reported: those who wait for a state look at it again."""
        waiting, self._waiting = self._waiting, []
        for d in waiting:
            d.callback(None)

    def until_notified(self, most: float) -> Deferred[None]:
        """Fires at the next L{notify}, or after that many seconds."""
        d: Deferred[None] = Deferred()

        def late() -> None:
            self._waiting.remove(d)
            d.callback(None)

        timer = self.host.reactor.callLater(most, late)
        self._waiting.append(d)
        return d.addCallback(lambda _: timer.cancel() if timer.active() else None)

    def _clean(self) -> None:
        host = self.host
        self._timer = host.reactor.callLater(CLEAN_EVERY * host.jitter(), self._clean)
        d = Deferred.fromCoroutine(self.clean())
        let_go(d, self.log, "roots: housekeeping failed")

    async def clean(self) -> None:
        """Forget what nobody needs any more."""
        for share in self.shares.values():
            store = share.store
            if store is None:
                continue
            members = [
                store.confirmed.peers.get(node, {})
                for node in self.host.members()
                if self.host.may_have(node, share.name)
            ]
            await share.core.locked(self._clean_one, store, members)

    async def _clean_one(self, store: RootStore, members: list[Any]) -> None:
        await self.host.pool(clean, store, members)

    # -- what shares and streams say

    def _peer_knows(self, share: str) -> None:
        self.founding.peer_knows(share)
        if share:
            self.notify()

    def committed(self, name: str, batch: Batch | None, outcome: Outcome, local: bool) -> None:
        """A generation is committed."""
        share = self.shares[name]
        generation = share.generation
        if generation is None:
            return
        self.alarms.pop(name, None)
        share.keep_recent(self.pinned())
        self.news.committed(name, generation, batch, outcome, local)
