"""
Which trees the generation of a job or a run consists of. Every node knows it, and keeps it on its
disk, so that something can be run on that generation again, by its name.

When a node runs something on a generation for the first time, it tells all others (word
C{roots-ran}), and again each minute as long as the run goes on. When a node is linked, it is told
everything. The generation of a run that goes on is not forgotten however many younger ones there
are, so that another node can take the run over.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from twisted.logger import Logger

from saltwisted.cluster.roots.sync import RootSync
from saltwisted.domain.roots.ranon import RanOn, Trees
from saltwisted.errors import StoreError, WireError
from saltwisted.interfaces import IPeerLink, IPeers
from saltwisted.stores.files import make_dir, read_file, write_atomic
from saltwisted.transports.deferreds import let_go
from saltwisted.wire.msgpack import pack_bin, unpack_bin

RAN = "roots-ran"
LARGEST = 16 * 1024 * 1024


class RootRan:
    """
    Reactor thread only. What is known is in L{saltwisted.domain.roots.ranon}.

    @param path: the file that records them; empty for none.
    @param needed: the names on which unfinished jobs and runs are, by what this node has of these.
    """

    log = Logger()

    def __init__(
        self,
        sync: RootSync,
        peers: IPeers,
        clock: Any,
        counters: Counter[str],
        path: str,
        needed: Callable[[], Iterable[str]],
    ) -> None:
        self._sync, self._peers, self._clock = sync, peers, clock
        self._counters, self._path, self._needed = counters, path, needed
        self._ran = RanOn()
        self._is_read = self._is_news = self._writing = False
        peers.answer(RAN, self._told)
        peers.on_link(self._linked)

    async def begin(self) -> None:
        """Read what was known before this start."""
        if not self._path:
            return
        rows = await self._sync.host.pool(_read, self._path)
        try:
            self._ran.take(rows, self._clock.seconds(), again=True)
        except (TypeError, ValueError):
            self.log.warn("roots: the file of generations that something ran on is invalid")
        self._is_read = True
        # Nodes that were linked before this was read have not heard of it
        if known := self._ran.rows(self._clock.seconds()):
            self._tell(known)
        self._write()

    def end(self) -> None:
        """Write down what something runs on now."""
        self._is_news = True
        self._write()

    def get(self, name: str) -> Trees:
        """Share to the digest of its tree; nothing for what is not known."""
        return self._ran.get(name)

    def at(self, name: str) -> float:
        """When something was last run on it, for whoever is told of that."""
        return self._ran.at(name)

    def known(self) -> Mapping[str, Trees]:
        """All of them, the one that was run last at the end."""
        return self._ran.known()

    def used(self) -> set[str]:
        """Those on which something runs, on whichever node."""
        return self._ran.used(self._clock.seconds()) | set(self._needed())

    def use(self, names: Iterable[str]) -> None:
        """Runs of this node live on these: all nodes are told."""
        now, names = self._clock.seconds(), list(names)
        news = [name for name in names if self._ran.use(name, now, now)]
        self._changed(bool(news))
        if rows := self._ran.rows(now, names):
            self._tell(rows)

    def add(self, name: str, trees: Trees) -> None:
        """Something is run on these here, now."""
        is_new, now = name not in self._ran, self._clock.seconds()
        is_news = self._ran.runs(name, trees, self._sync.host.now(), now)
        if is_new:
            self._tell(self._ran.rows(now, [name]))
        self._changed(is_new or is_news)

    def learn(self, name: str, trees: Trees) -> None:
        """What is written down of a run says which these were."""
        if trees and name not in self._ran:
            self.heard(name, trees, 0.0)

    def heard(self, name: str, trees: Trees, at: float) -> None:
        """Something was run on these elsewhere."""
        is_new, now = self._ran.add(name, trees, at), self._clock.seconds()
        self._changed(self._ran.use(name, now, now) or is_new)

    def _changed(self, is_news: bool) -> None:
        self._ran.forget(set(self._needed()), self._clock.seconds())
        if is_news:
            self._is_news = True
            self._write()

    def _tell(self, rows: list[Any]) -> None:
        body = pack_bin(rows)
        for link in self._peers.links():
            link.tell(RAN, body)

    def _write(self) -> None:
        """At once, since a restart may follow. What comes meanwhile is written together."""
        if self._writing or not (self._path and self._is_read and self._is_news):
            return
        self._writing, self._is_news = True, False

        def done(outcome: Any) -> Any:
            self._writing = False
            self._write()
            return outcome

        rows = self._ran.rows(self._clock.seconds())
        written = self._sync.host.pool(_put, self._path, rows).addBoth(done)
        let_go(written, self.log, "roots: what ran is not kept")

    def _linked(self, link: IPeerLink, up: bool) -> None:
        if up and (rows := self._ran.rows(self._clock.seconds())):
            link.tell(RAN, pack_bin(rows))

    def _told(self, node: str, body: bytes) -> None:
        try:
            is_news = self._ran.take(unpack_bin(body), self._clock.seconds())
        except (WireError, TypeError, ValueError):
            self._counters["refused:roots-ran"] += 1
            return
        self._changed(is_news)


# -- in the pool


def _read(path: str) -> Any:
    """What was written down; nothing of what cannot be read."""
    try:
        data = read_file(path, LARGEST)
        return unpack_bin(data) if data else []
    except (OSError, StoreError, WireError):
        return []


def _put(path: str, rows: list[Any]) -> None:
    make_dir(os.path.dirname(path))
    write_atomic(path, pack_bin(rows))
