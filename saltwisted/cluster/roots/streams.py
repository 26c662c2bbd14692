"""
The streams of roots between this node and its peers: one for each peer, the shares that use it, and
the peers that broke the rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from saltwisted.cluster.roots.clocks import PeerClocks
from saltwisted.cluster.roots.host import Host
from saltwisted.cluster.roots.link import RootLink
from saltwisted.cluster.roots.news import RootNews
from saltwisted.domain.replica.membership import WRITE
from saltwisted.domain.roots.frames import BATCH, OFFER, STATE
from saltwisted.domain.roots.greeting import greeting
from saltwisted.domain.roots.guards import Forbidden
from saltwisted.domain.roots.manifest import Generation
from saltwisted.stores.roots.objects import ContentStore
from saltwisted.stores.roots.store import RootStore

READ_ONLY = "403: read-only: its changes are refused"


class StreamedShare(Protocol):
    """A share, as the streams see it."""

    @property
    def generation(self) -> Generation | None:
        """The tree that is served."""

    @property
    def store(self) -> RootStore | None:
        """What is committed, once it is open."""

    def greeted(self, link: RootLink) -> None:
        """A peer has introduced itself."""

    def peer_knows(self, link: RootLink) -> None:
        """A peer has said what it knows."""

    def received(self, link: RootLink, kind: int, body: bytes) -> None:
        """A message about this share."""

    def work(self) -> None:
        """Apply what can be applied, and fetch what is missing."""


class RootStreams:
    """
    Reactor thread only; the owner of each L{RootLink}.

    @param shares: those of this node, by their names, in the order in which they are numbered.
    @param peer_knows: called with the name of a share when a peer has said what it knows of it;
        with C{""} when the peer has introduced itself.
    @ivar links: node to its current stream.
    @ivar flags: node to what it did against the rules, or may not do.
    """

    log = Logger()

    def __init__(
        self,
        host: Host,
        shares: Mapping[str, StreamedShare],
        clocks: PeerClocks,
        news: RootNews,
        peer_knows: Callable[[str], None],
    ) -> None:
        self.links: dict[str, RootLink] = {}
        self.flags: dict[str, str] = {}
        self.counters: Counter[str] = Counter()
        self._host = host
        self._shares = shares
        self._clocks = clocks
        self._news = news
        self._peer_knows = peer_knows
        self._totals: dict[str, list[int]] = {}

    def stream(self, node: str, dialled: bool) -> RootLink:
        """The protocol for a new stream with a member."""
        return RootLink(self, node, dialled, self._host.reactor)

    def close(self) -> None:
        """End them all."""
        for link in list(self.links.values()):
            if link.transport is not None:
                link.transport.loseConnection()

    # -- which there are

    def of(self, share: str) -> list[RootLink]:
        """Streams to peers that have this share."""
        return [
            link
            for link in self.links.values()
            if link.peer.greeted
            and not link.closed
            and share in link.peer.knowledge
            and self._host.may_have(link.node, share)
        ]

    def writers(self, share: str) -> list[RootLink]:
        """Streams to peers that have this share, and whose changes count."""
        return [link for link in self.of(share) if self._host.may(link.node, WRITE)]

    def traffic(self, node: str) -> tuple[int, int]:
        """How many came from a peer, and went to it, by all its streams."""
        came, went = self._totals.get(node, (0, 0))
        link = self.links.get(node)
        return (came + link.bytes_in, went + link.bytes_out) if link else (came, went)

    # -- what a stream asks of its owner

    def pool(self, function: Callable[..., Any], *args: Any) -> Deferred[Any]:
        """Run something that may block."""
        return self._host.pool(function, *args)

    def hello(self, node: str) -> list[Any]:
        """The first message to a peer, repeated every half minute."""
        shares = []
        for name, share in self._shares.items():
            shown = share.generation if self._host.may_have(node, name) else None
            shares.append((name, shown.knowledge, shown.digest) if shown else (name, {}, b""))
        return greeting(int(self._host.now() * 1000), shares)

    def link_up(self, link: RootLink) -> None:
        """A peer has introduced itself."""
        old = self.links.get(link.node)
        if old is not None and old is not link and not old.closed:
            old.close("replaced")
        self.links[link.node] = link
        self.flags.pop(link.node, None)
        self._take_clock(link)
        for name in link.peer.knowledge:
            self.peer_knows(link, name)
            share = self._shares.get(name)
            if share is not None:
                share.greeted(link)
        self._peer_knows("")

    def link_down(self, link: RootLink) -> None:
        """A stream has ended."""
        totals = self._totals.setdefault(link.node, [0, 0])
        totals[0] += link.bytes_in
        totals[1] += link.bytes_out
        if self.links.get(link.node) is link:
            del self.links[link.node]
            for share in self._shares.values():
                share.work()

    def peer_knows(self, link: RootLink, name: str) -> None:
        """A peer has said what it knows of a share."""
        self._take_clock(link)
        share = self._shares.get(name)
        if share is not None:
            share.peer_knows(link)
        self._peer_knows(name)

    def received(self, link: RootLink, kind: int, name: str, body: bytes) -> None:
        """@raises Forbidden: the message is against the rules."""
        if kind in (BATCH, STATE, OFFER) and not self._host.may(link.node, WRITE):
            self._refuse_writes(link)
            return
        share = self._shares.get(name)
        if share is not None:
            share.received(link, kind, body)

    def _refuse_writes(self, link: RootLink) -> None:
        """A member that may not write sends changes; also those of others come by others."""
        if self.flags.get(link.node) != READ_ONLY:
            self.flags[link.node] = READ_ONLY
            self.counters["roots:refused:403"] += 1
            self.log.warn("roots: {node}: {reason}", node=link.node, reason=READ_ONLY)
            self._news.event("refused", {"peer": link.node, "reason": READ_ONLY})
            link.refuse(READ_ONLY)

    def flagged(self, link: RootLink, error: Forbidden) -> None:
        """A peer broke the rules."""
        self.counters[f"roots:refused:{error.reason}"] += 1
        self.flags[link.node] = str(error)
        self._news.event("refused", {"peer": link.node, "reason": str(error)})

    def serves(self, link: RootLink, name: str) -> bool:
        """Whether a share is here, and this peer may have it."""
        return name in self._shares and self._host.may_have(link.node, name)

    def store(self, name: str) -> ContentStore | None:
        """Where the contents of a share are."""
        share = self._shares.get(name)
        return share.store.objects if share is not None and share.store is not None else None

    def number(self, name: str) -> int | None:
        """How we call a share in our frames: its place in our greeting."""
        for number, each in enumerate(self._shares):
            if each == name:
                return number
        return None

    # -- their clocks

    def _take_clock(self, link: RootLink) -> None:
        self._clocks.said(link.node, link.peer.clock_ms, self.links)
        link.peer.clock_ms = 0

    def clocks_compared(self, ahead: Mapping[str, float]) -> None:
        """By how many seconds each peer's clock is ahead, as was found out otherwise."""
        self._clocks.compared(ahead, self.links)
