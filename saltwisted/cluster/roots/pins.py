"""
The master's questions about generations: which one a job gets, and what a minion is served.

A pin is sent to all nodes (word C{roots-pin}) before the job is, because a minion may ask any of
them, and again to each node that is linked later. A node without the tree fetches it
(L{saltwisted.cluster.roots.trees}). If it cannot do so in time, the minion is served the newest
generation, and the job is marked as I{mixed} on all nodes (L{saltwisted.cluster.roots.mixed}).

The commits of git are one more tree besides those of directories, under the name L{GIT}.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from twisted.internet.defer import Deferred, DeferredList
from twisted.logger import Logger

from saltwisted.cluster.roots.living import GIT, RootLiving
from saltwisted.cluster.roots.mixed import RootMixed
from saltwisted.cluster.roots.nothing import NoCommits
from saltwisted.cluster.roots.ran import RootRan
from saltwisted.cluster.roots.sync import RootSync
from saltwisted.commits import IEarlierCommits
from saltwisted.domain.roots.manifest import Generation, name_of_all
from saltwisted.domain.roots.pins import Pin, Pins, check_reads, reads_files
from saltwisted.errors import DeniedError, NotKept, StoreError, WireError
from saltwisted.interfaces import IPeerLink, IPeers
from saltwisted.stores.roots.marks import RootMarks
from saltwisted.transports.deferreds import as_deferred
from saltwisted.wire.msgpack import pack_bin, unpack_bin

PIN = "roots-pin"
USED = "roots-pin-used"
DONE = "roots-unpin"
MOST_VIEWS = 16
MOST_SHARES = 256
PATIENCE = 30.0
"""Seconds after which a tree that could not be brought is asked for once more."""


class RootPins:
    """
    Reactor thread only; a part of the service, because of its file of marks.

    @ivar newest: the file server of the newest generations.
    @param view: creates a file server over these generations, and this source of git (C{None} for
        the newest commits): C{view({share: generation}, source)}.
    @param path: the file that records the trees of each generation.
    @param of_roots: whether minions are served directories at all.
    @param commits: the commits of git that are or were served.
    """

    log = Logger()

    def __init__(
        self,
        sync: RootSync,
        peers: IPeers,
        clock: Any,
        view: Callable[[Mapping[str, Generation], Any], Any],
        counters: Counter[str],
        marks: RootMarks,
        path: str = "",
        of_roots: bool = True,
        commits: Callable[[], IEarlierCommits] = NoCommits,
    ) -> None:
        self._sync = sync
        self._peers = peers
        self._clock = clock
        self._view = view
        self._counters = counters
        self._of_roots, self._commits = of_roots, commits
        self.newest = view({}, None)
        self._pins = Pins()
        self._views: OrderedDict[tuple[bytes, ...], Any] = OrderedDict()
        self._chosen: OrderedDict[str, dict[str, bytes]] = OrderedDict()
        self.ran = RootRan(sync, peers, clock, counters, path, self._pins)
        self._living = RootLiving(self.ran, self._pins, commits, clock)
        self.mixed = RootMixed(sync, peers, counters, marks)
        self._given_up: dict[bytes, float] = {}
        sync.pinned = self._pins.pinned
        peers.answer(PIN, self._told)
        peers.answer(USED, self._used)
        peers.answer(DONE, self._done)
        peers.on_link(self._link)

    async def startService(self) -> None:
        """Read the marks of the last weeks."""
        await self.ran.begin()
        await self.mixed.begin()
        self._living.begin()

    async def stopService(self) -> None:
        """Close the files."""
        self._living.end()
        self.ran.end()
        await self.mixed.end()

    def _now(self) -> dict[str, bytes]:
        """The trees that are served now."""
        found = dict(self._sync.report.digests()) if self._of_roots else {}
        if commits := self._commits().digest:
            found[GIT] = commits
        return found

    def still(self) -> Any:
        """Over the generations of now."""
        return self._view(_newest(self._sync), self._commits().over(self._commits().digest))

    async def again(self, generation: str) -> Any:
        """Of git the commits of that generation; directories as they are now."""
        digest = await _of_run(self.ran, self._commits(), generation)
        if digest is None:
            return self.still()
        return self._view(_newest(self._sync), self._commits().over(digest))

    async def follow(self, jid: str, fun: object, generation: str) -> None:
        """Of git the commits of that generation; directories as they are now."""
        if not reads_files(fun):
            return
        digest = await _of_run(self.ran, self._commits(), generation)
        if digest is not None:
            self._choose(jid, {**self._now(), GIT: digest})

    # -- jobs

    async def choose(
        self, jid: str, fun: object, generation: str, minions: Sequence[str]
    ) -> Sequence[str]:
        """A generation of one share, by the first digits of its name; or one that a job ran."""
        check_reads(fun, generation)
        digests = self.ran.get(generation) or await self._earlier(generation)
        node = self._sync.host.node
        for name, digest in digests.items():
            if name == GIT:
                await _have(self._commits(), generation, digest)
                continue
            share = self._sync.shares.get(name)
            if share is None or not (
                share.trees.get(digest) or await share.trees.bring(digest, node)
            ):
                raise DeniedError(f"generation {generation!r}: {name} no longer keeps its tree")
        self._choose(jid, digests)
        return self._pins.others(minions, digests, self._clock.seconds())

    async def _earlier(self, generation: str) -> dict[str, bytes]:
        """The newest trees, and of the share that has this generation, that one."""
        digests = self._now()
        found: dict[str, bytes] = {}
        with suppress(NotKept):
            found[GIT] = await self._commits().find(generation)
        for name in digests:
            if name == GIT:
                continue
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

    def facts(self, jid: str, fun: object) -> dict[str, Any]:
        """The facts about the roots in the record of a job; the choice is used by L{published}."""
        if not reads_files(fun):
            return {}
        digests = self._chosen.get(jid) or self._now()
        if not digests:
            return {}
        self._choose(jid, digests)
        name = name_of_all(digests)
        self.ran.add(name, digests)
        found: dict[str, Any] = {"generation": name}
        if GIT in digests:
            found["commits"] = self._commits().told(digests[GIT])
        return found

    def notes(self, jid: str) -> Mapping[str, Any]:
        """
        What became known of a job after it was recorded: C{mixed}, minion to the generations that
        it was served in addition to the job's own.
        """
        found = self.mixed.of(jid)
        return {"mixed": found} if found else {}

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
            self._pins.used(pin.jid, minion)
            self._tell(USED, [pin.jid, minion])
        if pin.digests == self._now():
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
            if now >= self._given_up.get(digest, 0.0) and self._lacks(name, digest)
        ]

    def _lacks(self, name: str, digest: bytes) -> bool:
        if name == GIT:
            return not self._commits().has(digest)
        share = self._sync.shares.get(name)
        return share is not None and share.trees.get(digest) is None

    def _bring(self, name: str, digest: bytes, node: str) -> Deferred[None]:
        def brought(found: Any) -> None:
            if not found:
                self._given_up[digest] = self._clock.seconds() + PATIENCE
                if len(self._given_up) > MOST_SHARES:
                    del self._given_up[next(iter(self._given_up))]

        if name == GIT:
            return as_deferred(self._commits().bring(digest, node)).addCallback(brought)
        return self._sync.shares[name].trees.bring(digest, node).addCallback(brought)

    def _served(self, minion: str, pin: Pin) -> Any:
        chosen: dict[str, Generation] = {}
        mixed, git, digests = False, None, {}
        for name, digest in pin.digests.items():
            if name == GIT:
                git = self._commits().over(digest)
                mixed = mixed or git is None
                digests[GIT] = digest if git is not None else self._commits().digest
            share = self._sync.shares.get(name)
            if share is None:
                continue
            generation = share.trees.get(digest)
            if generation is None:
                mixed = True
                generation = share.generation
            if generation is not None:
                chosen[name] = generation
        digests.update({name: one.digest for name, one in chosen.items()})
        if mixed:
            self.mixed.mark(pin.jid, minion, name_of_all(digests))
        key = tuple(digests[name] for name in sorted(digests))
        view = self._views.get(key)
        if view is None:
            view = self._view(chosen, git)
            if git is None and GIT in digests:
                # Over whatever the newest commits are
                return view
            self._views[key] = view
            if len(self._views) > MOST_VIEWS:
                self._views.popitem(last=False)
        return view

    # -- what other nodes tell

    def _tell(self, word: str, value: Any) -> None:
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
            job = jobs.setdefault(pin.jid, [pin.jid, [], pin.digests, node, []])
            job[4 if pin.used else 1].append(minion)
        for job in jobs.values():
            link.tell(PIN, pack_bin(job))

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
        self.ran.add(name_of_all(clean), clean, tells=False)
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


def _newest(sync: RootSync) -> dict[str, Generation]:
    """The trees of now."""
    shares = sync.shares.items()
    return {name: one.generation for name, one in shares if one.generation is not None}


async def _of_run(ran: RootRan, commits: IEarlierCommits, generation: str) -> bytes | None:
    """
    The commits of a run's generation, which are here then; C{None} where it has none.

    @raises NotKept: they cannot be had, or nobody knows which they were.
    """
    digests = ran.get(generation)
    if not digests and commits.digest:
        # Of directories alone nothing could be had again, of git the wrong commits could
        return await commits.find(generation)
    digest = digests.get(GIT)
    if digest is not None:
        await _have(commits, generation, digest)
        ran.add(generation, digests)
    return digest


async def _have(commits: IEarlierCommits, generation: str, digest: bytes) -> None:
    """@raises NotKept: its commits cannot be had."""
    if not await commits.bring(digest, ""):
        raise NotKept(f"generation {generation!r}: no connected node has its commits")
