"""
Which trees the generation of a job or a run was, on every node and on its disk: so that something
may be run on it again, by its name.

A node tells all others when it runs something on a generation for the first time (word
C{roots-ran}), and each that is linked later of all that it knows.
"""

from __future__ import annotations

import os
from collections import Counter, OrderedDict
from typing import Any

from twisted.logger import Logger

from saltwisted.cluster.roots.sync import RootSync
from saltwisted.errors import StoreError, WireError
from saltwisted.interfaces import IPeerLink, IPeers
from saltwisted.stores.files import make_dir, read_file, write_atomic
from saltwisted.transports.deferreds import let_go
from saltwisted.wire.msgpack import pack_bin, unpack_bin

RAN = "roots-ran"
MOST = 200
"""Generations that are known."""
MOST_SHARES = 256
LARGEST = 16 * 1024 * 1024
WRITE = 1.0
"""Seconds after which it is written down what has run."""


class RootRan:
    """
    Reactor thread only.

    @param path: where it is written down; nowhere if empty.
    """

    log = Logger()

    def __init__(
        self, sync: RootSync, peers: IPeers, clock: Any, counters: Counter[str], path: str
    ) -> None:
        self._sync, self._peers, self._clock = sync, peers, clock
        self._counters, self._path = counters, path
        self._known: OrderedDict[str, dict[str, bytes]] = OrderedDict()
        self._timer: Any = None
        peers.answer(RAN, self._told)
        peers.on_link(self._linked)

    async def begin(self) -> None:
        """Read what ran in earlier lives."""
        if self._path:
            for name, digests in await self._sync.host.pool(_read, self._path):
                self._known.setdefault(name, digests)

    def end(self) -> None:
        """Write down what is not yet."""
        if self._timer is not None:
            self._timer.cancel()
            self._write()

    def get(self, name: str) -> dict[str, bytes]:
        """Share to the digest of its tree; nothing for what is not known."""
        return self._known.get(name, {})

    def add(self, name: str, digests: dict[str, bytes], tells: bool = True) -> None:
        """Something runs on these."""
        is_new = name not in self._known
        self._known[name] = digests
        self._known.move_to_end(name)
        while len(self._known) > MOST:
            self._known.popitem(last=False)
        if is_new and tells:
            body = pack_bin([[name, digests]])
            for link in self._peers.links():
                link.tell(RAN, body)
        if is_new and self._path and self._timer is None:
            # What is run meanwhile is written down with it
            self._timer = self._clock.callLater(WRITE, self._write)

    def _write(self) -> None:
        self._timer = None
        rows = [[name, digests] for name, digests in self._known.items()]
        let_go(
            self._sync.host.pool(_put, self._path, rows), self.log, "roots: what ran is not kept"
        )

    def _linked(self, link: IPeerLink, up: bool) -> None:
        if up and self._known:
            rows = [[name, digests] for name, digests in self._known.items()]
            link.tell(RAN, pack_bin(rows))

    def _told(self, node: str, body: bytes) -> None:
        try:
            rows = [
                (str(name)[:64], {str(share): bytes(digest) for share, digest in each.items()})
                for name, each in unpack_bin(body)[-MOST:]
            ]
        except (AttributeError, WireError, TypeError, ValueError):
            self._counters["refused:roots-ran"] += 1
            return
        for name, digests in rows:
            if len(digests) <= MOST_SHARES and name not in self._known:
                self.add(name, digests, tells=False)


# -- in the pool


def _read(path: str) -> list[tuple[str, dict[str, bytes]]]:
    """What was written down; nothing of what makes no sense."""
    try:
        data = read_file(path, LARGEST)
        rows = unpack_bin(data) if data else []
        return [(str(name), dict(digests)) for name, digests in rows]
    except (OSError, StoreError, WireError, TypeError, ValueError):
        return []


def _put(path: str, rows: list[Any]) -> None:
    make_dir(os.path.dirname(path))
    write_atomic(path, pack_bin(rows))
