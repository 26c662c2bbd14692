"""
The roots of a cluster node: its shares, their streams, and who is served from generations.

Nothing is decided here.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from saltwisted.cluster.roots.control import BY_WORD, RootControl
from saltwisted.cluster.roots.pins import RootPins
from saltwisted.cluster.roots.share import RootShare
from saltwisted.cluster.roots.sync import RootsGate, RootSync, roots_of
from saltwisted.cluster.roots.written import RootWritten
from saltwisted.domain.roots.manifest import Generation
from saltwisted.errors import StoreError
from saltwisted.interfaces import IPeers
from saltwisted.master.fileserver import FileServer
from saltwisted.roles.master import ROOTS_ENTRY, Master
from saltwisted.stores.roots.filework import PATIENCE
from saltwisted.stores.roots.generations import GenerationRoots, Source
from saltwisted.stores.roots.marks import RootMarks
from saltwisted.stores.roots.pillartree import PillarTree
from saltwisted.transports.deferreds import let_go
from saltwisted.transports.threads import Threads

STREAM = "roots"
SWITCH = 0.001
"""Seconds after which a thread of the pool gives the interpreter to the reactor, if that waits."""


class ClusterRoots:
    """
    The roots service beside a master; made after what else hooks into its context.

    @param others: ids of the other members.
    @param cluster: the id of the cluster.
    @param may: what the membership says that a member may do with roots.
    @ivar parts: to be started before anybody is served.
    """

    def __init__(
        self,
        reactor: Any,
        master: Master,
        node: str,
        peers: IPeers,
        others: Callable[[], Sequence[str]],
        cluster: str = "",
        may: Callable[[str, str], bool] = lambda node, right: True,
    ) -> None:
        self._master = master
        self._reactor = reactor
        config = master.config
        roots, left_out = roots_of(config)
        folder = os.path.join(config.cachedir, "saltwisted", "roots")
        dice = random.SystemRandom().random
        self.threads = Threads(reactor, 4, "roots")
        sys.setswitchinterval(SWITCH)
        # Not when the first large look waits for it
        master.warm.preload(ROOTS_ENTRY.partition(":")[0])
        self.sync = RootSync(
            reactor,
            node,
            roots,
            folder,
            self.threads.run,
            self._fire,
            others,
            config.cluster_roots,
            os.urandom,
            time.time,
            time.time_ns,
            lambda: 0.8 + 0.4 * dice(),
            left_out,
            cluster,
            may,
            self._help,
        )
        self.control = RootControl(self.sync, reactor, RootWritten(self.sync, peers))
        ctx = master.ctx
        ctx.files = self._view({})
        marks = RootMarks(f"{folder}/mixed.sqlite")
        self.pins = RootPins(self.sync, peers, reactor, self._view, ctx.counters, marks)
        ctx.job_facts, ctx.job_notes = self.pins.facts, self.pins.notes
        ctx.pinned = self.pins.files
        published, stored = ctx.job_published, ctx.return_stored

        def job_published(job: Mapping[str, Any], minions: Sequence[str]) -> None:
            self.pins.published(str(job["jid"]), minions)
            published(job, minions)

        def return_stored(jid: str, minion: str) -> Any:
            self.pins.returned(jid, minion)
            return stored(jid, minion)

        ctx.job_published, ctx.return_stored = job_published, return_stored
        master.operations.add(self.control.operations(), BY_WORD)
        peers.stream(STREAM, self.sync.stream)
        self.pillars = PillarViews(self, folder)
        self.parts: list[Any] = [
            self.threads,
            self.pillars,
            self.sync,
            self.pins,
            RootsGate(self.sync, reactor),
        ]

    def _fire(self, tag: str, data: Any) -> None:
        """On the bus; what could not be read is counted besides."""
        ctx = self._master.ctx
        if tag == "salt/roots/unread":
            ctx.counters["roots:unread"] += data["count"]
        ctx.bus.fire(tag, data)

    def _help(self, request: Mapping[str, Any]) -> Future[list[Any]]:
        """Have a worker process answer; asked from a thread of the pool."""
        answer: Future[list[Any]] = Future()

        def ask() -> None:
            d = self._master.warm.call(ROOTS_ENTRY, request, PATIENCE)
            _ = d.addCallbacks(
                answer.set_result, lambda failure: answer.set_exception(failure.value)
            )

        self._reactor.callFromThread(ask)
        return answer

    def state(self) -> str:
        """A word for the list of members."""
        return self.sync.members_state()

    def waiting(self) -> str:
        """Which roots are not whole here yet, and why; empty if all are."""
        return self.sync.waiting()

    def received(self) -> int:
        """Bytes that came from all peers together."""
        return sum(int(row["bytes_in"]) for row in self.sync.peers().values())

    @property
    def master(self) -> Master:
        """The master that is served by it."""
        return self._master

    def _view(self, chosen: Mapping[str, Generation]) -> FileServer:
        """A file server over the newest generations, but for those that are chosen."""
        config = self._master.config
        sources = {
            share.root: _source(share, chosen.get(name))
            for name, share in self.sync.shares.items()
            if name.startswith("file/")
        }
        roots = GenerationRoots(
            config.file_roots, self.threads.run, config, sources, self.sync.mend
        )
        self.sync.on_left_out.append(roots.serve_directly)
        return FileServer(roots, config)


def _source(share: RootShare, chosen: Generation | None) -> Source:
    def served() -> Any:
        store = share.store
        return None if store is None else (chosen or store.generation, store.objects)

    return served


class PillarViews:
    """
    Directories of committed pillar roots for the workers, made again at each generation.

    Started before the shares: it hears of their first generation.
    """

    log = Logger()

    def __init__(self, roots: ClusterRoots, folder: str) -> None:
        self._roots = roots
        self._count = 0
        self._running: dict[str, bool] = {}
        sync, master = roots.sync, roots.master
        self._trees = {
            name: PillarTree(f"{folder}/{name.replace('/', '-')}/served")
            for name in sync.shares
            if name.startswith("pillar/")
        }
        config = master.config
        replaced = {sync.shares[name].root: tree.current for name, tree in self._trees.items()}
        pillar_roots = {
            env: [replaced.get(str(path).rstrip("/") or "/", path) for path in _as_list(paths)]
            for env, paths in (config.pillar_roots or {}).items()
        }
        opts = dict(master.ctx.facts.get("opts") or config.as_opts())
        opts["pillar_roots"] = pillar_roots
        master.ctx.facts["opts"] = opts
        master.ctx.pillar_generation = lambda: self._count
        sync.on_generation.append(self._changed)
        sync.waits.append(lambda: not self._running)

    async def startService(self) -> None:
        """Begin with empty trees."""
        # The stop may come meanwhile, and clear them
        for tree in tuple(self._trees.values()):
            await self._roots.threads.run(tree.prepare)

    def stopService(self) -> None:
        """Nothing is open."""
        self._trees.clear()

    def _changed(self, name: str) -> None:
        if name not in self._trees:
            return
        if name in self._running:
            self._running[name] = True
            return
        self._running[name] = False
        let_go(Deferred.fromCoroutine(self._show(name)), self.log, "a pillar tree was not made")

    async def _show(self, name: str) -> None:
        try:
            while True:
                self._running[name] = False
                store = self._roots.sync.shares[name].store
                tree = self._trees.get(name)
                if store is None or tree is None:
                    return
                try:
                    await self._roots.threads.run(tree.show, store.generation, store.objects)
                    self._count += 1
                except StoreError as error:
                    self.log.error("pillar roots: {error}", error=str(error))
                if not self._running[name]:
                    return
        finally:
            self._running.pop(name, None)


def _as_list(paths: Any) -> list[Any]:
    return [paths] if isinstance(paths, str) else list(paths or [])
