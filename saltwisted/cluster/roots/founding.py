"""
Whose tree comes first if no member has one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from saltwisted.cluster.roots.host import Host
from saltwisted.cluster.roots.streams import RootStreams
from saltwisted.domain.replica.membership import WRITE
from saltwisted.stores.roots.store import RootStore
from saltwisted.transports.deferreds import let_go

FOUND_AFTER = 10.0
"""Seconds that a node without a tree waits for members that it does not reach."""


class BlankShare(Protocol):
    """A share without a tree."""

    @property
    def ready(self) -> bool:
        """Whether it has one after all."""

    @property
    def store(self) -> RootStore | None:
        """What is committed, once it is open."""

    def found(self) -> Awaitable[None]:
        """No peer has a tree: ours is the first."""


class Founding:
    """
    The shares that have never had a tree. If a member has one, that tree comes first.

    @param streams: those of this node.
    """

    log = Logger()

    def __init__(
        self,
        host: Host,
        shares: Mapping[str, BlankShare],
        streams: Callable[[], RootStreams],
    ) -> None:
        self._host = host
        self._shares = shares
        self._streams = streams
        self._since: dict[str, float] = {}
        self._timers: list[Any] = []
        self._stopped = False

    def stop(self) -> None:
        """Found no more shares."""
        self._stopped = True
        for timer in self._timers:
            if timer.active():
                timer.cancel()

    def blank(self, share: str) -> None:
        """A share that has never had a tree."""
        reactor = self._host.reactor
        self._since[share] = reactor.seconds()
        if not self._stopped:
            self._timers.append(reactor.callLater(FOUND_AFTER, self.look))
        self.look()

    def peer_knows(self, share: str) -> None:
        """A peer has said what it knows of a share; C{""}: it has introduced itself."""
        if not share or share in self._since:
            self.look()

    def look(self) -> None:
        """The smallest of the reachable nodes founds, once all members were heard or waited for."""
        host, streams = self._host, self._streams()
        for name, since in list(self._since.items()):
            share = self._shares.get(name)
            if share is None or share.ready or (share.store and share.store.knowledge):
                del self._since[name]
                continue
            links = streams.writers(name)
            if any(link.peer.knowledge[name] for link in links) or not host.may(host.node, WRITE):
                continue
            missing = set(host.members()) - streams.links.keys()
            if missing and host.reactor.seconds() - since < FOUND_AFTER:
                continue
            if any(link.node < host.node for link in links):
                continue
            del self._since[name]
            d = Deferred.fromCoroutine(_found(share))
            let_go(d, self.log, "roots: founding {share} failed", share=name)


async def _found(share: BlankShare) -> None:
    await share.found()
