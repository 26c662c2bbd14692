"""
The roots of a cluster node: its shares, their streams, and the file server over generations.

Nothing is decided here.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

from saltwisted.cluster.rootcontrol import RootControl
from saltwisted.cluster.rootshare import RootShare
from saltwisted.cluster.rootsync import RootsGate, RootSync, roots_of
from saltwisted.domain.roots.manifest import Generation
from saltwisted.interfaces import IPeers
from saltwisted.master.fileserver import FileServer
from saltwisted.roles.master import Master
from saltwisted.stores.genroots import GenerationRoots
from saltwisted.stores.objects import ContentStore
from saltwisted.transports.threads import Threads

STREAM = "roots"


class ClusterRoots:
    """
    The roots service beside a master.

    @param others: ids of the other members.
    @ivar parts: to be started before anybody is served.
    """

    def __init__(
        self,
        reactor: Any,
        master: Master,
        node: str,
        peers: IPeers,
        others: Callable[[], Sequence[str]],
    ) -> None:
        config = master.config
        roots, left_out = roots_of(config)
        dice = random.SystemRandom().random
        self.threads = Threads(reactor, 4, "roots")
        self.sync = RootSync(
            reactor,
            node,
            roots,
            os.path.join(config.cachedir, "saltwisted", "roots"),
            self.threads.run,
            master.ctx.bus.fire,
            others,
            config.cluster_roots,
            os.urandom,
            time.time,
            time.time_ns,
            lambda: 0.8 + 0.4 * dice(),
            left_out,
        )
        self.control = RootControl(self.sync, reactor)
        self.roots = GenerationRoots(
            config.file_roots,
            self.threads.run,
            config,
            {
                share.root: _source(share)
                for name, share in self.sync.shares.items()
                if name.startswith("file/")
            },
        )
        master.ctx.files = FileServer(self.roots, config)
        master.operations["roots"] = self.control.operation
        peers.stream(STREAM, self.sync.stream)
        self.parts: list[Any] = [self.threads, self.sync, RootsGate(self.sync, reactor)]

    def state(self) -> str:
        """A word for the list of members."""
        return self.sync.members_state()


def _source(share: RootShare) -> Callable[[], tuple[Generation, ContentStore] | None]:
    def served() -> tuple[Generation, ContentStore] | None:
        store = share.store
        return None if store is None else (store.generation, store.objects)

    return served
