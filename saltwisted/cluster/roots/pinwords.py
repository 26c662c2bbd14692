"""
What nodes tell each other of pins: that a job is pinned, that its minion has asked for files, that
it has returned. What is not told any more, since all nodes ended, is known by the record of jobs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from saltwisted.cluster.roots.ran import RootRan
from saltwisted.cluster.roots.sync import RootSync
from saltwisted.domain.roots.manifest import name_of_all
from saltwisted.domain.roots.pins import KEPT, IPinnedJobs, Pins
from saltwisted.domain.roots.ranon import LATEST, MOST_SHARES, Trees, trees_of
from saltwisted.errors import StoreError, WireError
from saltwisted.interfaces import IPeerLink, IPeers
from saltwisted.transports.deferreds import as_deferred, let_go
from saltwisted.wire.msgpack import pack_bin, unpack_bin

PIN = "roots-pin"
USED = "roots-pin-used"
DONE = "roots-unpin"


class PinWords:
    """
    Reactor thread only.

    @param pins: of this node.
    @param ran: hears of the generations of jobs.
    @param jobs: what is recorded of jobs.
    @param heard: called with the trees of a job that another node has begun, and that node.
    """

    log = Logger()

    def __init__(
        self,
        sync: RootSync,
        peers: IPeers,
        clock: Any,
        counters: Counter[str],
        pins: Pins,
        ran: RootRan,
        jobs: IPinnedJobs | None,
        heard: Callable[[Trees, str], object],
    ) -> None:
        self._heard = heard
        self._sync, self._peers, self._clock, self._counters = sync, peers, clock, counters
        self._pins, self._ran, self._jobs = pins, ran, jobs
        peers.answer(PIN, self._told)
        peers.answer(USED, self._used)
        peers.answer(DONE, self._done)
        peers.on_link(self._link)

    async def begin(self) -> None:
        """Minions that had not returned when this node ended are served what they were."""
        if self._jobs is None:
            return
        try:
            rows = await as_deferred(self._jobs.unfinished(self._sync.host.now() - KEPT))
        except StoreError as error:
            self.log.warn("roots: jobs that go on get the newest trees: {why}", why=str(error))
            return
        for jid, job, minions in rows:
            if trees := trees_of(job.get("trees")):
                self._pins.add(jid, minions, trees, self._clock.seconds())
        for link in self._peers.links():
            # Others were linked before this was read, and may have missed these jobs
            self._link(link, True)

    def published(self, jid: str, minions: Sequence[str], digests: Trees) -> None:
        """A job goes out from here: all nodes are told before."""
        at = self._ran.at(name_of_all(digests))
        self.tell(PIN, [jid, list(minions), dict(digests), self._sync.host.node, [], at, False])

    def tell(self, word: str, value: Any) -> None:
        """Something that all nodes are to know."""
        body = pack_bin(value)
        for link in self._peers.links():
            link.tell(word, body)

    def _link(self, link: IPeerLink, up: bool) -> None:
        """A node that was away hears of what runs."""
        if not up:
            return
        jobs: dict[str, list[Any]] = {}
        for minion, pin in self._pins.all(self._clock.seconds()):
            node = pin.node or self._sync.host.node
            at = self._ran.at(name_of_all(pin.digests))
            job = jobs.setdefault(pin.jid, [pin.jid, [], dict(pin.digests), node, [], at, True])
            job[4 if pin.used else 1].append(minion)
        for job in jobs.values():
            link.tell(PIN, pack_bin(job))

    def _told(self, node: str, body: bytes) -> None:
        try:
            jid, minions, digests, origin, used, at, again = unpack_bin(body)
            clean = {str(k): bytes(v) for k, v in dict(digests).items()}
            names, in_use = [str(one) for one in minions], [str(one) for one in used]
            jid, origin, at = str(jid), str(origin), min(max(float(at), 0.0), LATEST)
        except (WireError, TypeError, ValueError):
            self._counters["refused:roots-pin"] += 1
            return
        if len(clean) > MOST_SHARES or (origin == self._sync.host.node and not again):
            return
        self._ran.heard(name_of_all(clean), clean, at)
        self._heard(clean, node)
        if not again or self._jobs is None:
            self._pin(jid, clean, origin, names, in_use)
            return
        d = Deferred.fromCoroutine(self._pin_rest(jid, clean, origin, names, in_use))
        let_go(d, self.log, "roots: the pins of job {jid} are not known", jid=jid)

    async def _pin_rest(self, jid: str, digests: Trees, origin: str, *minions: list[str]) -> None:
        """Some may have returned while that node was away."""
        assert self._jobs is not None
        back = set(await as_deferred(self._jobs.returned_ids(jid)))
        names, in_use = ([name for name in some if name not in back] for some in minions)
        self._pin(jid, digests, origin, names, in_use)

    def _pin(
        self, jid: str, digests: Trees, origin: str, minions: list[str], in_use: list[str]
    ) -> None:
        node = "" if origin == self._sync.host.node else origin
        self._pins.add(jid, [*minions, *in_use], digests, self._clock.seconds(), node)
        for minion in in_use:
            self._pins.used(jid, minion)

    def _used(self, node: str, body: bytes) -> None:
        named = self._named(body)
        if named is not None:
            self._pins.used(*named)

    def _done(self, node: str, body: bytes) -> None:
        named = self._named(body)
        if named is not None:
            self._pins.release(*named)

    def _named(self, body: bytes) -> tuple[str, str] | None:
        try:
            jid, minion = unpack_bin(body)
        except (WireError, TypeError, ValueError):
            self._counters["refused:roots-pin"] += 1
            return None
        return str(jid), str(minion)
