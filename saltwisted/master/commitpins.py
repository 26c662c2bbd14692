"""
Which commits a job runs on: its minions see no others until they have returned.

A view of git (L{saltwisted.stores.git.source.GitView}) is pinned like a generation of the roots, by
the rules of L{saltwisted.domain.roots.pins}. Directories have no generations on a lone master, and
are served as they are.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from twisted.logger import Logger

from saltwisted.domain.roots.pins import KEPT, IPinnedJobs, Pins, check_reads, reads_files
from saltwisted.errors import DeniedError, StoreError
from saltwisted.master.earliercommits import EarlierCommits
from saltwisted.master.fileserver import FileServer
from saltwisted.stores.git.source import GitFiles, GitView, kept_by
from saltwisted.transports.deferreds import as_deferred

MOST_VIEWS = 64
MOST_HELD = 200
"""Views that are kept beside, since jobs run on them."""
MOST_CHOSEN = 1000
TOLD = 20
"""Environments whose commits the record of a job has; of more only that of C{base}."""
GIT = "git"


def commits(view: GitView) -> dict[str, dict[str, str]]:
    """Environment to the commit of each remote that is in it."""
    envs = view.envs if len(view.envs) <= TOLD else [env for env in view.envs if env == "base"]
    return {
        env: {place.served.remote.shown: place.commit for place in view.places(env)} for env in envs
    }


def keep(
    views: OrderedDict[bytes, GitView],
    view: GitView,
    used: Callable[[], Iterable[bytes]],
    digest: bytes = b"",
) -> list[bytes]:
    """
    Keep one more view; returns the digests of those that are dropped.

    @param used: the digests of those on which something runs.
    @param digest: the digest under which it is kept; empty for its own.
    """
    digest = digest or view.digest
    views[digest] = view
    views.move_to_end(digest)
    if len(views) <= MOST_VIEWS:
        return []
    older = list(views)[:-MOST_VIEWS]
    wanted = set(used())
    held = [each for each in older if each in wanted][-MOST_HELD:]
    gone = [each for each in older if each not in held]
    for each in gone:
        del views[each]
    return gone


class CommitPins:
    """
    The pins of a lone master. Reactor thread only.

    @ivar newest: the file server over the newest commits.
    @ivar earlier: what was served before.
    @param serve: creates a file server over an older view.
    @param seconds: the clock.
    @param now: seconds since 1970.
    @param jobs: what is recorded of jobs.
    @param runs: generation to trees of the orchestrations that have not ended, as is recorded.
    """

    log = Logger()

    def __init__(
        self,
        newest: FileServer,
        source: GitFiles,
        serve: Callable[[GitFiles], FileServer],
        seconds: Callable[[], float],
        earlier: EarlierCommits,
        now: Callable[[], float] = float,
        jobs: IPinnedJobs | None = None,
        runs: Callable[[], Mapping[str, Mapping[str, str]]] = dict,
    ) -> None:
        self.newest = newest
        self.earlier = earlier
        self._source, self._serve, self._seconds = source, serve, seconds
        self._now, self._jobs, self._runs = now, jobs, runs
        self._pins = Pins()
        self._chosen: OrderedDict[str, GitView] = OrderedDict()
        self._views: OrderedDict[bytes, GitView] = OrderedDict()
        self._servers: OrderedDict[bytes, FileServer] = OrderedDict()
        source.on_keep(self._kept)
        earlier.on_use(self._used)

    async def startService(self) -> None:
        """Minions that had not returned when this master ended are served what they were."""
        if self._jobs is None:
            return
        try:
            rows = await as_deferred(self._jobs.unfinished(self._now() - KEPT))
        except StoreError as error:
            self.log.warn("git: jobs that go on get the newest commits: {why}", why=str(error))
            return
        for jid, job, minions in rows:
            try:
                self._chosen[jid] = self.earlier.find(str(job.get("generation")))
            except DeniedError as error:
                words = "git: job {jid} goes on with the newest commits: {why}"
                self.log.warn(words, jid=jid, why=str(error))
                continue
            self.published(jid, minions)

    def stopService(self) -> None:
        """Jobs go on."""

    def _used(self) -> set[bytes]:
        """On which commits jobs and orchestrations run."""
        found = {digests[GIT] for digests in self._pins.running(self._seconds())}
        for trees in self._runs().values():
            with suppress(ValueError, TypeError):
                found.add(bytes.fromhex(trees.get(GIT, "")))
        return found

    def _kept(self, folder: str) -> set[str]:
        """What jobs run on."""
        return kept_by(self._views.values(), folder)

    def still(self) -> FileServer:
        """Over the commits of now."""
        return self._serve(self._source.over(self._source.view))

    async def again(self, generation: str) -> FileServer:
        """Over the commits of then."""
        return self._serve(self._source.over(self.earlier.find(generation)))

    async def follow(self, jid: str, fun: Any, generation: str) -> None:
        """The commits of then."""
        if reads_files(fun):
            self._chosen[jid] = self.earlier.find(generation)

    async def choose(
        self, jid: str, fun: Any, generation: str, minions: Sequence[str]
    ) -> Sequence[str]:
        """A generation by its name, or by a commit that it had."""
        check_reads(fun, generation)
        view = self._chosen[jid] = self.earlier.find(generation)
        # The record of the job has its name; what that means is to be known after a restart, too
        await self.earlier.written()
        return self._pins.others(minions, {GIT: view.digest}, self._seconds())

    def facts(self, jid: str, fun: Any) -> Mapping[str, Any]:
        """The generation, and the commits that it is."""
        view = self._chosen.get(jid) or self._source.view
        if not reads_files(fun) or not view.served:
            return {}
        self._chosen[jid] = view
        if len(self._chosen) > MOST_CHOSEN:
            self._chosen.popitem(last=False)
        trees = {GIT: view.digest.hex()}
        return {"generation": view.name, "trees": trees, "commits": commits(view)}

    def notes(self, jid: str) -> Mapping[str, Any]:
        """Nothing becomes known later."""
        return {}

    def published(self, jid: str, minions: Sequence[str]) -> None:
        """Its minions are served these commits from now on."""
        view = self._chosen.pop(jid, None)
        if view is None:
            return
        self._pins.add(jid, minions, {GIT: view.digest}, self._seconds())
        for digest in keep(self._views, view, self._used):
            self._servers.pop(digest, None)

    def returned(self, jid: str, minion: str) -> None:
        """From now on it is served the newest."""
        self._pins.release(jid, minion)

    def files(self, minion: str) -> FileServer | None:
        """Over the commits of the oldest of its jobs; C{None} where these are the newest."""
        pin = self._pins.of(minion, self._seconds())
        if pin is None:
            return None
        self._pins.used(pin.jid, minion)
        digest = pin.digests[GIT]
        view = self._views.get(digest)
        if view is None or digest == self._source.view.digest:
            return None
        server = self._servers.get(digest)
        if server is None:
            server = self._servers[digest] = self._serve(self._source.over(view))
        return server
