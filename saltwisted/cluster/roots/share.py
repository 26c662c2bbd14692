"""
One share of a node: from the working tree to the peers, and from the peers to the tree.

This module connects its parts. Each part is one idea, and knows only those below:

  - L{core<saltwisted.cluster.roots.core>}: store, tree, lock, timers; what all parts share,
  - L{watch<saltwisted.cluster.roots.watch>}: reports about the tree, and when to scan,
  - L{commits<saltwisted.cluster.roots.commit>}: a generation of our own, sent to the peers,
  - L{writes<saltwisted.cluster.roots.write>}: makes the tree match the generation,
  - L{edits<saltwisted.cluster.roots.edits>}: what people did, as versions,
  - L{look<saltwisted.cluster.roots.look>}: scans the tree,
  - L{join<saltwisted.cluster.roots.join>}: how the cluster's tree comes first,
  - L{inbox<saltwisted.cluster.roots.inbox>}: batches of peers until they are applied,
  - L{catchup<saltwisted.cluster.roots.catchup>}: requests to peers,
  - L{answers<saltwisted.cluster.roots.answers>}: requests of peers,
  - L{orders<saltwisted.cluster.roots.orders>}: orders of operators.

Everything that uses index or tree runs under one lock; the work itself is done in the pool. The
rules are in C{domain.roots}, the disk in C{stores}.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from saltwisted.cluster.roots.ahead import RootAhead
from saltwisted.cluster.roots.answers import RootAnswers
from saltwisted.cluster.roots.care import RootCare
from saltwisted.cluster.roots.catchup import RootCatchUp
from saltwisted.cluster.roots.commit import RootCommit
from saltwisted.cluster.roots.core import Owner, Settings, ShareCore
from saltwisted.cluster.roots.edits import RootEdits
from saltwisted.cluster.roots.inbox import RootInbox
from saltwisted.cluster.roots.join import RootJoin
from saltwisted.cluster.roots.link import RootLink
from saltwisted.cluster.roots.look import RootLook
from saltwisted.cluster.roots.orders import RootOrders
from saltwisted.cluster.roots.trees import RootTrees
from saltwisted.cluster.roots.watch import RootWatch
from saltwisted.cluster.roots.write import RootWrite
from saltwisted.domain.roots import codec
from saltwisted.domain.roots.entry import TreeEntry
from saltwisted.domain.roots.frames import ACK, BATCH, OFFER, PLAIN, PULL, REPAIR, STATE, TREE
from saltwisted.domain.roots.guards import Forbidden
from saltwisted.domain.roots.index import Outcome
from saltwisted.domain.roots.manifest import Generation
from saltwisted.stores.roots.store import RootStore
from saltwisted.stores.roots.worktree import WorkTree

MOST_EARLY = 1024 * 1024
"""
Bytes of messages that wait for the store; what is more is said again with the next half minute's
greeting.
"""


class RootShare:
    """
    @param name: the same on all masters, such as C{file/base/0}.
    @param root: the directory that people edit.
    @param folder: the directory of the store.
    @ivar trees: the generations that jobs may still be pinned to.
    """

    def __init__(
        self,
        owner: Owner,
        name: str,
        root: str,
        folder: str,
        reactor: Any,
        settings: Settings,
        make_store: Callable[[str], RootStore],
        tree: WorkTree,
    ) -> None:
        core = self.core = ShareCore(
            owner, name, root, folder, reactor, settings, make_store, tree, self.consider
        )
        self.name, self.root = name, root
        self._early: list[tuple[RootLink, int, bytes]] = []
        self._early_bytes = 0
        self.trees = RootTrees(core)
        self.care = RootCare(core, self._lost)
        self.ahead = RootAhead(core, self.work)
        self.watch = RootWatch(core, self._look)
        self.commits = RootCommit(core, self.watch, self.care, self._keep_both)
        self.writes = RootWrite(core, self.watch, self.commits)
        self.edits = RootEdits(core, self.watch, self.ahead, self.commits, self.writes)
        self.look = RootLook(core, self.watch, self.ahead, self.care, self.edits, self.writes)
        self.join = RootJoin(core, self.watch, self.commits, self.writes, self.look)
        self.inbox = RootInbox(core, self.commits, self.writes, self.look, self.join)
        self.catchup = RootCatchUp(
            core, self.watch, self.care, self.commits, self.look, self.join, self.inbox
        )
        self.answers = RootAnswers(core)
        self.orders = RootOrders(
            core, self.watch, self.commits, self.writes, self.edits, self.look, self.inbox
        )

    # -- how parts call upwards

    def consider(self) -> None:
        """Ask a peer for what it knows and we do not, unless that is already coming."""
        self.catchup.consider()

    def work(self) -> None:
        """Apply what can be applied, and fetch what is missing."""
        self.inbox.work()

    def _look(self) -> None:
        self.look.look()

    async def _lost(self, damaged: Mapping[bytes, int]) -> None:
        await self.catchup.lost(damaged)

    async def _keep_both(self, outcome: Outcome) -> None:
        await self.writes.keep_both(outcome)

    # -- start and stop

    async def start(self) -> None:
        """
        Open the store, look at the root, and begin to watch.

        @raises StoreError: the store cannot be opened.
        """
        core = self.core
        store = await core.pool(core.make_store, core.folder)
        core.store = await self.join.belong(store)
        self._take_early()
        self.keep_recent(set())
        await self.catchup.look_for_damage()
        await self.look.open_root()
        await self.join.begin()
        self.look.begin()
        self.care.start()
        self.commits.write_rows_soon()
        # Streams may have come up before: say what we know, and ask for what we do not
        core.acknowledge()
        self.consider()

    def _take_early(self) -> None:
        early, self._early = self._early, []
        self._early_bytes = 0
        for link, kind, body in early:
            if link.closed:
                continue
            try:
                self.received(link, kind, body)
            except Forbidden as error:
                self.core.owner.streams.flagged(link, error)
                link.close(error.reason, error.path)

    async def found(self) -> None:
        """No peer has a tree: ours is the first."""
        await self.join.found()

    async def stop(self) -> None:
        """Wait for what runs, and close."""
        self.core.end()
        self.trees.stop()
        self.care.stop()
        self.ahead.stop()
        self.watch.events.stop()
        await self.core.close()

    # -- what it says of itself

    @property
    def store(self) -> RootStore | None:
        """What is committed, once it is open."""
        return self.core.store

    @property
    def generation(self) -> Generation | None:
        """The tree that is served."""
        return self.core.generation

    @property
    def ready(self) -> bool:
        """Whether everything that the cluster has is here."""
        return self.core.ready

    @property
    def is_settled(self) -> bool:
        """Whether nothing waits: no local change, no batch, no file to be written."""
        return self.watch.is_quiet and not (
            self.inbox or self.edits.is_reading or self.core.lock.locked
        )

    async def not_written(self) -> str:
        """
        Why the working tree does not match what is committed now; empty if it does. Writes in
        progress are awaited.
        """
        return str(await self.core.locked(self._not_written))

    async def _not_written(self) -> str:
        if not self.ready:
            return "it waits for the cluster's tree"
        if self.core.suspended:
            return f"suspended: {self.core.suspended}"
        failed = self.writes.failed
        if failed:
            path, why = next(iter(failed.items()))
            more = f", and {len(failed) - 1} more" if len(failed) > 1 else ""
            return f"not written: {os.fsdecode(path)} ({why}){more}"
        return ""

    def keep_recent(self, pinned: set[bytes]) -> None:
        """Remember the present generation for the jobs that are pinned to it."""
        generation = self.generation
        if generation is not None:
            self.trees.keep(generation, pinned)

    # -- what peers send

    def peer_knows(self, link: RootLink) -> None:
        """A peer has said what it knows."""
        self.catchup.peer_knows(link)

    def greeted(self, link: RootLink) -> None:
        """
        A peer has introduced itself, and said what it knows. Now that we know that, we answer the
        same way.
        """
        if self.store is not None and link in self.core.links():
            link.acknowledge(self.name, *self.core.known_here())
        self.consider()

    def received(self, link: RootLink, kind: int, body: bytes) -> None:
        """
        A message about this share. What comes while its store is being opened waits for that.

        @raises Forbidden: it is against the rules.
        """
        if self.store is None:
            self._early_bytes += len(body)
            if self._early_bytes <= MOST_EARLY:
                self._early.append((link, kind, body))
        elif kind == BATCH:
            self.inbox.batch_came(link, body)
        elif kind == ACK:
            value = codec.unpack(body, codec.FEW_CONTAINERS)
            if not isinstance(value, list) or len(value) != 2:
                raise Forbidden("ack")
            link.peer.knows(self.name, codec.unpack_knowledge(value[0]), value[1])
            self.catchup.acknowledged(link)
            self.core.owner.streams.peer_knows(link, self.name)
        elif kind == PULL:
            self.answers.pull(link, body)
        elif kind == PLAIN:
            self.answers.plain(link, body)
        elif kind == REPAIR:
            self.answers.repair(link)
        elif kind == OFFER:
            self.ahead.received(link, body)
        elif kind == TREE:
            self.trees.received(link, body)
        elif kind == STATE:
            self.catchup.state_packed(link, body)
        else:
            raise Forbidden("frame-type")

    # -- what is asked of it on this node

    async def flush(self) -> None:
        """Commit all changes until now."""
        await self.look.flush()

    async def rescan(self) -> None:
        """Look at everything now."""
        await self.look.rescan()

    async def preview(self) -> list[tuple[bytes, TreeEntry | None, TreeEntry | None]]:
        """What a scan would commit: path, before, after. Nothing is committed."""
        return list(await self.core.locked(self.look.preview))
