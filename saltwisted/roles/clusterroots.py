"""
The roots of a cluster node: its shares, their streams, and who is served from generations.

Nothing is decided here.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any

from saltwisted.cluster.roots.control import RootControl
from saltwisted.cluster.roots.gate import RootsGate
from saltwisted.cluster.roots.host import Host
from saltwisted.cluster.roots.pillarrelay import PillarRelay
from saltwisted.cluster.roots.pillarviews import PillarViews
from saltwisted.cluster.roots.pins import RootPins
from saltwisted.cluster.roots.settings import roots_of
from saltwisted.cluster.roots.share import RootShare
from saltwisted.cluster.roots.sync import RootSync
from saltwisted.cluster.roots.written import RootWritten
from saltwisted.commits import IEarlierCommits
from saltwisted.domain.roots.manifest import Generation
from saltwisted.kinds import FILES, Parts
from saltwisted.master.fileserver import FileServer
from saltwisted.master.handlers import pillar
from saltwisted.parts import IFileSource
from saltwisted.roles.clusterfacts import ClusterFacts
from saltwisted.roles.master import Master
from saltwisted.roles.stores import ROOTS_ENTRY, Stores
from saltwisted.stores.roots.filework import PATIENCE
from saltwisted.stores.roots.generations import GenerationRoots, Source
from saltwisted.stores.roots.marks import RootMarks
from saltwisted.transports.threads import Threads

STREAM = "roots"


class ClusterRoots:
    """
    The roots service of a node.

    @ivar parts: to be started before anybody is served.
    @ivar pins: who is served which generation (C{IPins}).
    @ivar relay: who compiles pillars (C{IPillarHolders}).
    """

    def __init__(
        self,
        stores: Stores,
        facts: ClusterFacts,
        master: Callable[[], Master],
        commits: Callable[[], IEarlierCommits],
    ) -> None:
        """
        @param commits: what is served of git, and was.
        """
        self._stores, self._facts = stores, facts
        folder = os.path.join(stores.config.cachedir, "saltwisted", "roots")
        self.threads = Threads(stores.reactor, 4, "roots")
        # Not when the first large look waits for it
        stores.warm.preload(ROOTS_ENTRY.partition(":")[0])
        self.sync = self._sync(folder)
        written = RootWritten(self.sync, facts.peers)
        self.control = RootControl(self.sync, stores.reactor, written, commits)
        self.pins = RootPins(
            self.sync,
            facts.peers,
            stores.reactor,
            self._view,
            stores.counters,
            RootMarks(f"{folder}/mixed.sqlite"),
            f"{folder}/ran",
            "roots" in FILES.chosen(stores.config.fileserver_backend),
            commits,
            stores.job_log(),
            stores.reads,
        )
        facts.peers.stream(STREAM, self.sync.streams.stream)
        self.views = PillarViews(self.sync, folder, self.threads.run)
        self.relay = PillarRelay(
            facts.peers,
            facts.membership,
            facts.holds,
            lambda: self.sync.report.complete,
            self.views,
            lambda question: pillar.answer(master().ctx, question),
            stores.counters,
        )
        self.parts: list[Any] = [
            self.threads,
            self.views,
            self.sync,
            self.pins,
            RootsGate(self.sync, stores.reactor),
        ]

    def _sync(self, folder: str) -> RootSync:
        stores, facts = self._stores, self._facts
        roots, left_out = roots_of(stores.config)
        dice = random.SystemRandom().random
        host = Host(
            reactor=stores.reactor,
            node=facts.node,
            pool=self.threads.run,
            fire=self._fire,
            members=facts.others,
            jitter=lambda: 0.8 + 0.4 * dice(),
            cluster=facts.cluster,
            may=partial(facts.membership.may_as_seen_by, facts.key, facts.node),
            helper=self._help,
        )
        return RootSync(host, roots, folder, stores.config.cluster_roots, left_out)

    def _fire(self, tag: str, data: Any) -> None:
        """On the bus; what could not be read is counted besides."""
        if tag == "salt/roots/unread":
            self._stores.counters["roots:unread"] += data["count"]
        self._stores.bus.fire(tag, data)

    def _help(self, request: Mapping[str, Any]) -> Future[list[Any]]:
        """Have a worker process answer; asked from a thread of the pool."""
        answer: Future[list[Any]] = Future()

        def ask() -> None:
            d = self._stores.warm.call(ROOTS_ENTRY, request, PATIENCE)
            _ = d.addCallbacks(
                answer.set_result, lambda failure: answer.set_exception(failure.value)
            )

        self._stores.reactor.callFromThread(ask)
        return answer

    def state(self) -> str:
        """One word of state, for the list of members."""
        return self.sync.report.members_state()

    def waiting(self) -> str:
        """Which roots are not complete here yet, and why; empty if all are."""
        return self.sync.report.waiting()

    def received(self) -> int:
        """Bytes received from all peers together."""
        return sum(int(row["bytes_in"]) for row in self.sync.report.peers().values())

    def generations(self) -> dict[str, Generation]:
        """Which tree each share serves."""
        shares = self.sync.shares.items()
        return {name: share.generation for name, share in shares if share.generation is not None}

    def _view(self, chosen: Mapping[str, Generation], git: Any) -> FileServer:
        """A file server over the newest generations, but for those that are chosen."""
        config = self._stores.config
        made = Parts[Callable[[Mapping[str, Generation]], IFileSource]](
            FILES,
            {
                "roots": self._roots_of_generations,
                "gitfs": lambda chosen: git or self._commits(),
                "minionfs": lambda chosen: self._stores.source("minionfs"),
            },
        )
        names = dict.fromkeys(FILES.chosen(config.fileserver_backend))
        return FileServer([made.take(n)(chosen) for n in names], config, self.threads.run)

    def _commits(self) -> IFileSource:
        found = self._stores.git()
        assert found is not None
        return found

    def _roots_of_generations(self, chosen: Mapping[str, Generation]) -> IFileSource:
        config = self._stores.config
        sources = {
            share.root: _source(share, chosen.get(name))
            for name, share in self.sync.shares.items()
            if name.startswith("file/")
        }
        roots = GenerationRoots(
            config.file_roots, self.threads.run, config, sources, self.sync.mending.mend
        )
        self.sync.news.on_left_out.append(roots.serve_directly)
        return roots


def _source(share: RootShare, chosen: Generation | None) -> Source:
    def served() -> Any:
        store = share.store
        return None if store is None else (chosen or store.generation, store.objects)

    return served
