"""
What the master asks about generations: which one a job gets, and what a minion is served.

A pin is told to all nodes (word C{roots-pin}) before the job is, since a minion may ask any.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from twisted.logger import Logger

from saltwisted.cluster.rootsync import RootSync, generation_name
from saltwisted.domain.roots.manifest import Generation
from saltwisted.domain.roots.pins import Pins, reads_files
from saltwisted.errors import WireError
from saltwisted.interfaces import IPeers
from saltwisted.wire.msgpack import pack_bin, unpack_bin

PIN = "roots-pin"
DONE = "roots-unpin"
MOST_VIEWS = 16
MOST_SHARES = 256


class RootPins:
    """
    Reactor thread only.

    @param view: makes a file server over these generations: C{view({share: generation})}.
    """

    log = Logger()

    def __init__(
        self,
        sync: RootSync,
        peers: IPeers,
        clock: Any,
        view: Callable[[Mapping[str, Generation]], Any],
        counters: Counter[str],
    ) -> None:
        self._sync = sync
        self._peers = peers
        self._clock = clock
        self._view = view
        self._counters = counters
        self._pins = Pins()
        self._views: OrderedDict[tuple[bytes, ...], Any] = OrderedDict()
        self._chosen: OrderedDict[str, dict[str, bytes]] = OrderedDict()
        sync.pinned = self._pins.pinned
        peers.answer(PIN, self._told)
        peers.answer(DONE, self._done)

    def facts(self, jid: str, fun: object) -> dict[str, str]:
        """What the record of a job says of the roots; the choice holds for L{published}."""
        if not reads_files(fun):
            return {}
        digests = self._sync.digests()
        if not digests:
            return {}
        self._chosen[jid] = digests
        while len(self._chosen) > 1000:
            self._chosen.popitem(last=False)
        return {"generation": generation_name(digests)}

    def published(self, jid: str, minions: Sequence[str]) -> None:
        """The job goes out now."""
        digests = self._chosen.pop(jid, None)
        if digests is None:
            return
        self._pins.add(jid, minions, digests, self._clock.seconds())
        body = pack_bin([jid, list(minions), digests])
        for link in self._peers.links():
            link.tell(PIN, body)

    def returned(self, jid: str, minion: str) -> None:
        """A minion has returned: from now on it is served the newest."""
        if self._pins.of(minion, self._clock.seconds()) is None:
            return
        self._pins.release(jid, minion)
        body = pack_bin([jid, minion])
        for link in self._peers.links():
            link.tell(DONE, body)

    def files(self, minion: str) -> Any:
        """The file server for a minion; C{None} for the one of the newest generation."""
        digests = self._pins.of(minion, self._clock.seconds())
        if digests is None or digests == self._sync.digests():
            return None
        chosen: dict[str, Generation] = {}
        mixed = False
        for name, digest in digests.items():
            share = self._sync.shares.get(name)
            if share is None:
                continue
            generation = share.recent.get(digest)
            if generation is None:
                mixed = True
                generation = share.generation
            if generation is not None:
                chosen[name] = generation
        if mixed:
            self._counters["roots:mixed"] += 1
            self._sync.event("mixed", {"minion": minion})
        key = tuple(chosen[name].digest for name in sorted(chosen))
        view = self._views.get(key)
        if view is None:
            view = self._views[key] = self._view(chosen)
            if len(self._views) > MOST_VIEWS:
                self._views.popitem(last=False)
        return view

    def _told(self, node: str, body: bytes) -> None:
        try:
            jid, minions, digests = unpack_bin(body)
            clean = {str(k): bytes(v) for k, v in dict(digests).items()}
            names = [str(minion) for minion in minions]
        except (WireError, TypeError, ValueError):
            self._counters["refused:roots-pin"] += 1
            return
        if len(clean) <= MOST_SHARES:
            self._pins.add(str(jid), names, clean, self._clock.seconds())

    def _done(self, node: str, body: bytes) -> None:
        try:
            jid, minion = unpack_bin(body)
        except (WireError, TypeError, ValueError):
            self._counters["refused:roots-pin"] += 1
            return
        self._pins.release(str(jid), str(minion))
