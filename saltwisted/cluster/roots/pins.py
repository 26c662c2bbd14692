"""
The master's questions about generations: which one a job gets, and what a minion is served.

A node tells all others of a pin (word C{roots-pin}) before it publishes the job, since a minion may
ask any of them. It tells nodes that are linked later, too, and these look whether the minion has
returned meanwhile. After a restart of all nodes, minions that had not returned are pinned again by
the records of their jobs. A node that hears of a job learns its commits at once, since the node
that knows them may be gone when the minion asks. If a node does not have a tree, it gets it from
another node (L{saltwisted.cluster.roots.trees}). If it cannot in time, it serves the newest, and
the job is marked as I{mixed} on all nodes (L{saltwisted.cluster.roots.mixed}).

Besides the trees of directories there is one for the commits of git, under the name L{GIT}.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from twisted.internet.defer import Deferred, DeferredList
from twisted.logger import Logger

from saltwisted import advice
from saltwisted.cluster.roots.living import GIT, RootLiving
from saltwisted.cluster.roots.mixed import RootMixed
from saltwisted.cluster.roots.nothing import NoCommits
from saltwisted.cluster.roots.pinwords import DONE, USED, PinWords
from saltwisted.cluster.roots.ran import RootRan
from saltwisted.cluster.roots.sync import RootSync
from saltwisted.commits import IEarlierCommits
from saltwisted.domain.roots.manifest import Generation, name_of_all
from saltwisted.domain.roots.pins import (
    IPinnedJobs,
    Pin,
    Pins,
    check_reads,
    reads_files,
)
from saltwisted.domain.roots.ranon import MOST_SHARES, Trees, trees_of
from saltwisted.errors import DeniedError, NotKept, StoreError
from saltwisted.interfaces import IPeers
from saltwisted.stores.roots.marks import RootMarks
from saltwisted.transports.deferreds import as_deferred, let_go

MOST_VIEWS = 16
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
    @param jobs: what is recorded of jobs.
    @param runs: generation to trees of the orchestrations that have not ended, as is recorded.
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
        jobs: IPinnedJobs | None = None,
        runs: Callable[[], Mapping[str, Mapping[str, str]]] = dict,
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
        self._recorded = runs
        self.ran = RootRan(sync, peers, clock, counters, path, self._needed)
        self._living = RootLiving(self.ran, self._pins, self._runs, commits, clock)
        self.mixed = RootMixed(sync, peers, counters, marks)
        self._given_up: dict[bytes, float] = {}
        sync.pinned = self._pins.pinned
        self._learnt: OrderedDict[bytes, None] = OrderedDict()
        self._told = PinWords(sync, peers, clock, counters, self._pins, self.ran, jobs, self._learn)
        peers.on_link(lambda link, up: self._given_up.clear() if up else None)

    async def startService(self) -> None:
        """Read the marks of the last weeks, and what has not returned since the last start."""
        await self.ran.begin()
        await self.mixed.begin()
        await self._told.begin()
        self._living.begin()

    async def stopService(self) -> None:
        """Close the files."""
        self._living.end()
        self.ran.end()
        await self.mixed.end()

    def _needed(self) -> set[str]:
        """The generations of jobs and runs that have not ended."""
        running = self._pins.running(self._clock.seconds())
        return {name_of_all(trees) for trees in running} | self._recorded().keys()

    def _runs(self) -> dict[str, Trees]:
        """The runs that have not ended, as far as their trees were written down."""
        found = {name: trees_of(said) for name, said in self._recorded().items()}
        return {name: trees for name, trees in found.items() if trees}

    def _trees(self, generation: str) -> Trees:
        """The trees of a generation that something ran on; nothing for what is not known."""
        return self.ran.get(generation) or trees_of(self._recorded().get(generation))

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
        digest = await self._of_run(generation)
        if digest is None:
            return self.still()
        return self._view(_newest(self._sync), self._commits().over(digest))

    async def follow(self, jid: str, fun: object, generation: str) -> None:
        """Of git the commits of that generation; directories as they are now."""
        if not reads_files(fun):
            return
        digest = await self._of_run(generation)
        if digest is not None:
            self._choose(jid, {**self._now(), GIT: digest})

    async def _of_run(self, generation: str) -> bytes | None:
        """
        The commits of a run's generation, which are here then; C{None} where it has none.

        @raises NotKept: they cannot be had, or nobody knows which they were.
        """
        trees, commits = self._trees(generation), self._commits()
        if not trees and commits.digest:
            # Of directories alone nothing could be had again, of git the wrong commits could
            return await commits.find(generation)
        digest = trees.get(GIT)
        if digest is not None:
            await _have(commits, generation, digest)
            self.ran.add(generation, trees)
        return digest

    # -- jobs

    async def choose(
        self, jid: str, fun: object, generation: str, minions: Sequence[str]
    ) -> Sequence[str]:
        """A generation of one share, by the first digits of its name; or one that a job ran."""
        check_reads(fun, generation)
        digests = dict(self._trees(generation) or await self._earlier(generation))
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
                f" longer kept ({advice.of('roots.log')})"
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
        # The record outlives all else that says which trees these were
        trees = {share: digest.hex() for share, digest in digests.items()}
        found: dict[str, Any] = {"generation": name, "trees": trees}
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
        self._told.published(jid, minions, digests)

    def _learn(self, trees: Trees, node: str) -> None:
        """Have the commits of a job of another node here, before a minion asks for them."""
        digest, commits = trees.get(GIT), self._commits()
        if digest is None or digest in self._learnt or not commits.digest:
            # Before anything is served, it is not known yet what is on the disk
            return
        self._learnt[digest] = None
        if len(self._learnt) > MOST_SHARES:
            self._learnt.popitem(last=False)
        d = as_deferred(commits.bring(digest, node))
        let_go(d, self.log, "git: the commits of a job of {node} are not known here", node=node)

    def returned(self, jid: str, minion: str) -> None:
        """A minion has returned here: from now on it is served the newest, by all nodes."""
        if self._pins.of(minion, self._clock.seconds()) is None:
            return
        self._pins.release(jid, minion)
        self._told.tell(DONE, [jid, minion])

    def returned_elsewhere(self, jid: str, minion: str) -> None:
        """The same, by another node's record: this one may not have been told."""
        self._pins.release(jid, minion)

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
            self._told.tell(USED, [pin.jid, minion])
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


def _newest(sync: RootSync) -> dict[str, Generation]:
    """The trees of now."""
    shares = sync.shares.items()
    return {name: one.generation for name, one in shares if one.generation is not None}


async def _have(commits: IEarlierCommits, generation: str, digest: bytes) -> None:
    """@raises NotKept: its commits cannot be had."""
    if not await commits.bring(digest, ""):
        raise NotKept(f"generation {generation!r}: no connected node has its commits")
