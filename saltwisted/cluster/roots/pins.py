"""
What the master asks about generations: which one a job gets, and what a minion is served.

A pin is told to all nodes (word C{roots-pin}) before the job is, since a minion may ask any, and
again to each node that is linked later. A node that has not got the tree brings it
(L{saltwisted.cluster.roots.trees}); where it cannot in time, the minion is served the newest, and
the job is marked as I{mixed} on all nodes: word C{roots-mixed}, and a file of its own.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from twisted.internet.defer import Deferred, DeferredList
from twisted.logger import Logger

from saltwisted.cluster.roots.sync import RootSync
from saltwisted.domain.roots.manifest import Generation, name_of_all
from saltwisted.domain.roots.pins import KEPT, Pin, Pins, check_reads, reads_files
from saltwisted.errors import DeniedError, StoreError, WireError
from saltwisted.interfaces import IPeerLink, IPeers
from saltwisted.stores.roots.marks import Mark, RootMarks
from saltwisted.transports.deferreds import let_go
from saltwisted.wire.msgpack import pack_bin, unpack_bin

PIN = "roots-pin"
USED = "roots-pin-used"
DONE = "roots-unpin"
MIXED = "roots-mixed"
MOST_VIEWS = 16
MOST_SHARES = 256
MOST_MARKS = 20_000
MARKS_KEPT = 30 * 24 * 3600.0
PATIENCE = 30.0
"""Seconds after which a tree that could not be brought is asked for once more."""
TOGETHER = 2000
"""Pins, or marks, in one message."""


class RootPins:
    """
    Reactor thread only; a part of the service, for its file of marks.

    @ivar newest: the file server of the newest generations.
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
        marks: RootMarks,
    ) -> None:
        self._sync = sync
        self._peers = peers
        self._clock = clock
        self._view = view
        self._counters = counters
        self._store = marks
        self.newest = view({})
        self._pins = Pins()
        self._views: OrderedDict[tuple[bytes, ...], Any] = OrderedDict()
        self._chosen: OrderedDict[str, dict[str, bytes]] = OrderedDict()
        self._ran: OrderedDict[str, dict[str, bytes]] = OrderedDict()
        self._marks: OrderedDict[str, dict[str, dict[str, float]]] = OrderedDict()
        self._given_up: dict[bytes, float] = {}
        sync.pinned = self._pins.pinned
        peers.answer(PIN, self._told)
        peers.answer(USED, self._used)
        peers.answer(DONE, self._done)
        peers.answer(MIXED, self._mixed_there)
        peers.on_link(self._link)

    async def startService(self) -> None:
        """Read the marks of the last weeks."""
        try:
            marks = await self._sync.host.pool(self._store.open, self._sync.host.now() - MARKS_KEPT)
        except StoreError as error:
            self.log.error("roots: marks of mixed jobs are not kept: {error}", error=str(error))
            return
        self._remember(marks)

    async def stopService(self) -> None:
        """Close the file."""
        await self._sync.host.pool(self._store.close)

    def still(self) -> Any:
        """Over the generations of now."""
        shares = self._sync.shares.items()
        chosen = {name: one.generation for name, one in shares if one.generation is not None}
        return self._view(chosen)

    # -- jobs

    async def choose(
        self, jid: str, fun: object, generation: str, minions: Sequence[str]
    ) -> Sequence[str]:
        """A generation of one share, by the first digits of its name; or one that a job ran."""
        check_reads(fun, generation)
        digests = self._ran.get(generation) or await self._earlier(generation)
        node = self._sync.host.node
        for name, digest in digests.items():
            share = self._sync.shares.get(name)
            if share is None or not (
                share.trees.get(digest) or await share.trees.bring(digest, node)
            ):
                raise DeniedError(f"generation {generation!r}: {name} keeps its tree no longer")
        self._choose(jid, digests)
        return self._pins.others(minions, digests, self._clock.seconds())

    async def _earlier(self, generation: str) -> dict[str, bytes]:
        """The newest trees, and of the share that has this generation, that one."""
        digests = self._sync.report.digests()
        found: dict[str, bytes] = {}
        for name in digests:
            store = self._sync.shares[name].store
            if store is None:
                continue
            try:
                change = await self._sync.host.pool(store.history.find, generation)
            except StoreError as error:
                if "more than one" in str(error):
                    raise DeniedError(f"generation {generation!r}: {error}") from error
                continue
            found[name] = change.digest
        if not found:
            raise DeniedError(
                f"generation {generation!r}: there is none of that name on this node, or it is no"
                " longer kept (saltwisted roots log shows those that are)"
            )
        if len(found) > 1:
            raise DeniedError(f"generation {generation!r}: names trees of {', '.join(found)}")
        return {**digests, **found}

    def _choose(self, jid: str, digests: dict[str, bytes]) -> None:
        self._chosen[jid] = digests
        while len(self._chosen) > 1000:
            self._chosen.popitem(last=False)

    def facts(self, jid: str, fun: object) -> dict[str, str]:
        """What the record of a job says of the roots; the choice holds for L{published}."""
        if not reads_files(fun):
            return {}
        digests = self._chosen.get(jid) or self._sync.report.digests()
        if not digests:
            return {}
        self._choose(jid, digests)
        name = name_of_all(digests)
        self._ran[name] = digests
        while len(self._ran) > MOST_MARKS:
            self._ran.popitem(last=False)
        return {"generation": name}

    def notes(self, jid: str) -> Mapping[str, Any]:
        """
        What became known of a job since it was recorded: C{mixed}, minion to the generations that
        it was served beside the job's own.
        """
        found = self._marks.get(jid)
        if not found:
            return {}
        return {"mixed": {minion: sorted(names) for minion, names in sorted(found.items())}}

    def published(self, jid: str, minions: Sequence[str]) -> None:
        """The job goes out now."""
        digests = self._chosen.pop(jid, None)
        if digests is None:
            return
        self._pins.add(jid, minions, digests, self._clock.seconds())
        self._tell(PIN, [jid, list(minions), digests, self._sync.host.node, []])

    def returned(self, jid: str, minion: str) -> None:
        """A minion has returned: from now on it is served the newest."""
        if self._pins.of(minion, self._clock.seconds()) is None:
            return
        self._pins.release(jid, minion)
        self._tell(DONE, [jid, minion])

    # -- files

    def files(self, minion: str) -> Any:
        """
        The file server for a minion, or a Deferred of it; C{None} for the one of the newest
        generation.
        """
        pin = self._pins.of(minion, self._clock.seconds())
        if pin is None:
            return None
        if not pin.used:
            pin.used = True
            self._tell(USED, [pin.jid, minion])
        if pin.digests == self._sync.report.digests():
            return None
        lacking = self._lacking(pin)
        if not lacking:
            return self._served(minion, pin)
        bringing = [self._bring(name, digest, pin.node) for name, digest in lacking]
        return DeferredList(bringing).addCallback(lambda _: self._served(minion, pin))

    def _lacking(self, pin: Pin) -> list[tuple[str, bytes]]:
        now = self._clock.seconds()
        return [
            (name, digest)
            for name, digest in pin.digests.items()
            if (share := self._sync.shares.get(name)) is not None
            and share.trees.get(digest) is None
            and now >= self._given_up.get(digest, 0.0)
        ]

    def _bring(self, name: str, digest: bytes, node: str) -> Deferred[None]:
        def brought(generation: Generation | None) -> None:
            if generation is None:
                self._given_up[digest] = self._clock.seconds() + PATIENCE
                if len(self._given_up) > MOST_SHARES:
                    del self._given_up[next(iter(self._given_up))]

        return self._sync.shares[name].trees.bring(digest, node).addCallback(brought)

    def _served(self, minion: str, pin: Pin) -> Any:
        chosen: dict[str, Generation] = {}
        mixed = False
        for name, digest in pin.digests.items():
            share = self._sync.shares.get(name)
            if share is None:
                continue
            generation = share.trees.get(digest)
            if generation is None:
                mixed = True
                generation = share.generation
            if generation is not None:
                chosen[name] = generation
        if mixed:
            name = name_of_all({name: one.digest for name, one in chosen.items()})
            self._mark(pin.jid, minion, name)
        key = tuple(chosen[name].digest for name in sorted(chosen))
        view = self._views.get(key)
        if view is None:
            view = self._views[key] = self._view(chosen)
            if len(self._views) > MOST_VIEWS:
                self._views.popitem(last=False)
        return view

    # -- marks

    def _mark(self, jid: str, minion: str, name: str) -> None:
        mark = Mark(jid, minion, name, self._sync.host.now())
        if not self._remember([mark]):
            return
        self._counters["roots:mixed"] += 1
        self._sync.news.event("mixed", {"jid": jid, "minion": minion, "generation": name})
        self._tell(MIXED, [list(mark)])
        self._keep([mark])

    def _remember(self, marks: Iterable[Mark]) -> list[Mark]:
        fresh = []
        for mark in marks:
            names = self._marks.setdefault(mark.jid, {}).setdefault(mark.minion, {})
            if mark.name not in names:
                names[mark.name] = mark.at
                fresh.append(mark)
        while len(self._marks) > MOST_MARKS:
            self._marks.popitem(last=False)
        return fresh

    def _keep(self, marks: list[Mark]) -> None:
        if marks:
            d = self._sync.host.pool(self._store.add, marks)
            let_go(d, self.log, "roots: a mark of a mixed job was not kept")

    # -- what other nodes tell

    def _tell(self, word: str, value: Any) -> None:
        body = pack_bin(value)
        for link in self._peers.links():
            link.tell(word, body)

    def _link(self, link: IPeerLink, up: bool) -> None:
        """A node that was away hears of what runs, and of what was mixed."""
        if not up:
            return
        jobs: dict[str, list[Any]] = {}
        for minion, pin in self._pins.all(self._clock.seconds()):
            node = pin.node or self._sync.host.node
            job = jobs.setdefault(pin.jid, [pin.jid, [], pin.digests, node, []])
            job[4 if pin.used else 1].append(minion)
        for job in jobs.values():
            link.tell(PIN, pack_bin(job))
        oldest = self._sync.host.now() - KEPT
        marks = [
            [jid, minion, name, at]
            for jid, minions in self._marks.items()
            for minion, names in minions.items()
            for name, at in names.items()
            if at > oldest
        ]
        for start in range(0, len(marks), TOGETHER):
            link.tell(MIXED, pack_bin(marks[start : start + TOGETHER]))

    def _told(self, node: str, body: bytes) -> None:
        try:
            jid, minions, digests, origin, used = unpack_bin(body)
            clean = {str(k): bytes(v) for k, v in dict(digests).items()}
            names, in_use = [str(one) for one in minions], [str(one) for one in used]
        except (WireError, TypeError, ValueError):
            self._counters["refused:roots-pin"] += 1
            return
        if len(clean) > MOST_SHARES or origin == self._sync.host.node:
            return
        now = self._clock.seconds()
        self._pins.add(str(jid), [*names, *in_use], clean, now, str(origin))
        for minion in in_use:
            self._pins.used(str(jid), minion)

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

    def _mixed_there(self, node: str, body: bytes) -> None:
        try:
            marks = [
                Mark(str(jid)[:64], str(minion)[:255], str(name)[:64], float(at))
                for jid, minion, name, at in unpack_bin(body)
            ]
        except (WireError, TypeError, ValueError):
            self._counters["refused:roots-mixed"] += 1
            return
        self._keep(self._remember(marks[:TOGETHER]))
