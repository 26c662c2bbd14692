"""
Which trees made up the generation of a job or a run, on every node and on its disk, so that
something can be run on that generation again, by its name.

When a node runs something on a generation for the first time, it tells all others (word
C{roots-ran}), and again each minute as long as the run goes on. It tells each node that is linked
later everything that it knows. Generations of runs that go on are not forgotten in favour of
younger ones, so that another node that takes the run over can continue it.
"""

from __future__ import annotations

import os
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any

from twisted.logger import Logger

from saltwisted.cluster.roots.sync import RootSync
from saltwisted.domain.roots.manifest import name_of_all
from saltwisted.domain.roots.pins import Pins
from saltwisted.errors import StoreError, WireError
from saltwisted.interfaces import IPeerLink, IPeers
from saltwisted.stores.files import make_dir, read_file, write_atomic
from saltwisted.transports.deferreds import let_go
from saltwisted.wire.msgpack import pack_bin, unpack_bin

RAN = "roots-ran"
MOST = 200
"""Generations that are known in any case."""
MOST_USED = 200
"""Older ones that are known beside, since something runs on them."""
USED = 300.0
"""Seconds for which one counts as used after that was last told: a takeover is shorter."""
MOST_SHARES = 256
LARGEST = 16 * 1024 * 1024
WRITE = 1.0
"""Seconds after which it is written down what has run."""


class RootRan:
    """
    Reactor thread only.

    @param path: the file that records them; empty for none.
    @param pins: the pins of jobs that have not returned.
    """

    log = Logger()

    def __init__(
        self,
        sync: RootSync,
        peers: IPeers,
        clock: Any,
        counters: Counter[str],
        path: str,
        pins: Pins,
    ) -> None:
        self._sync, self._peers, self._clock = sync, peers, clock
        self._counters, self._path, self._pins = counters, path, pins
        self._used: dict[str, float] = {}
        self._known: OrderedDict[str, dict[str, bytes]] = OrderedDict()
        self._timer: Any = None
        peers.answer(RAN, self._told)
        peers.on_link(self._linked)

    async def begin(self) -> None:
        """Read what ran in earlier lives."""
        if self._path:
            for name, digests in await self._sync.host.pool(_read, self._path):
                self._known.setdefault(name, digests)
            # Whoever goes on with a run after the restart has yet to say so
            self._used.update(dict.fromkeys(self._known, self._clock.seconds()))

    def end(self) -> None:
        """Write what is not yet written."""
        if self._timer is not None:
            self._timer.cancel()
            self._write()

    def get(self, name: str) -> dict[str, bytes]:
        """Share to the digest of its tree; nothing if it is unknown."""
        return self._known.get(name, {})

    def known(self) -> Mapping[str, Mapping[str, bytes]]:
        """All of them, the one that was run last at the end."""
        return self._known

    def used(self) -> set[str]:
        """Those on which something runs, on whichever node."""
        now = self._clock.seconds()
        lately = {name for name, at in self._used.items() if now - at < USED}
        return lately | {name_of_all(trees) for trees in self._pins.running(now)}

    def use(self, names: Iterable[str]) -> None:
        """Runs of this node use these: tell all nodes."""
        rows = [[name, self._known[name]] for name in names if name in self._known]
        for name, _ in rows:
            self._used[str(name)] = self._clock.seconds()
        if rows:
            self._tell(rows)

    def add(self, name: str, digests: dict[str, bytes], tells: bool = True) -> None:
        """Something runs on these."""
        is_new = name not in self._known
        self._known[name] = digests
        self._known.move_to_end(name)
        self._used[name] = self._clock.seconds()
        if len(self._known) > MOST:
            self._forget()
        if is_new and tells:
            self._tell([[name, digests]])
        if is_new and self._path and self._timer is None:
            # What is run meanwhile is written down with it
            self._timer = self._clock.callLater(WRITE, self._write)

    def _forget(self) -> None:
        """Of those that are older than L{MOST} others only what is used stays known."""
        older = list(self._known)[:-MOST]
        used = self.used()
        held = [name for name in older if name in used][-MOST_USED:]
        for name in set(older) - set(held):
            del self._known[name]
        self._used = {name: at for name, at in self._used.items() if name in self._known}

    def _tell(self, rows: list[Any]) -> None:
        body = pack_bin(rows)
        for link in self._peers.links():
            link.tell(RAN, body)

    def _write(self) -> None:
        self._timer = None
        rows = [[name, digests] for name, digests in self._known.items()]
        let_go(
            self._sync.host.pool(_put, self._path, rows), self.log, "roots: what ran was not stored"
        )

    def _linked(self, link: IPeerLink, up: bool) -> None:
        if up and self._known:
            rows = [[name, digests] for name, digests in self._known.items()]
            link.tell(RAN, pack_bin(rows))

    def _told(self, node: str, body: bytes) -> None:
        try:
            rows = [
                (str(name)[:64], {str(share): bytes(digest) for share, digest in each.items()})
                for name, each in unpack_bin(body)[-MOST - MOST_USED :]
            ]
        except (AttributeError, WireError, TypeError, ValueError):
            self._counters["refused:roots-ran"] += 1
            return
        for name, digests in rows:
            if name in self._known:
                self._used[name] = self._clock.seconds()
            elif len(digests) <= MOST_SHARES:
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
