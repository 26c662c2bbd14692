"""
What the parts of one share have in common: its store and its tree, the lock under which both are
used, its timers, and its status.

Nothing is decided here. The parts are above: reports about the tree (C{watch}), what is done about
them (C{look}, C{edits}, C{commit}), what peers send (C{inbox}, C{catchup}, C{join}), and what is
written to the tree (C{write}). L{saltwisted.cluster.roots.share} connects them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from attrs import frozen
from twisted.internet.defer import Deferred, DeferredLock
from twisted.logger import Logger
from twisted.python.failure import Failure

from saltwisted.cluster.roots.clocks import PeerClocks
from saltwisted.cluster.roots.founding import Founding
from saltwisted.cluster.roots.host import Host
from saltwisted.cluster.roots.link import RootLink
from saltwisted.cluster.roots.news import RootNews
from saltwisted.cluster.roots.parcels import Want
from saltwisted.cluster.roots.room import Room
from saltwisted.cluster.roots.streams import RootStreams
from saltwisted.cluster.roots.timers import Timers
from saltwisted.domain.replica.membership import WRITE
from saltwisted.domain.roots.entry import Batch, Knowledge, TreeEntry
from saltwisted.domain.roots.guards import Limits
from saltwisted.domain.roots.index import Outcome
from saltwisted.domain.roots.manifest import Generation
from saltwisted.errors import SaltwistedError, StoreError
from saltwisted.stores.roots.store import RootStore
from saltwisted.stores.roots.worktree import WorkTree
from saltwisted.transports.deferreds import let_go

RETRY = 5.0
"""Seconds after which what did not work is tried again."""
GRACE = 1.0
"""Seconds for something to come by itself before it is asked for."""


@frozen
class Settings:
    """The times of a share, in seconds; see C{cluster_roots}."""

    quiet: float = 0.05
    quiet_most: float = 2.0
    scan: float = 60.0
    rejoin: str = "adopt"
    keep_both: bool = False


class Owner(Protocol):
    """What a share needs from the roots service of its node, L{saltwisted.cluster.roots.sync}."""

    host: Host
    streams: RootStreams
    clocks: PeerClocks
    news: RootNews
    founding: Founding
    room: Room
    approvals: set[tuple[str, str, int]]
    alarms: dict[str, str]

    def notify(self) -> None:
        """Something is done."""

    def committed(self, name: str, batch: Batch | None, outcome: Outcome, local: bool) -> None:
        """A share has a new generation."""


STARTING = "starting"
"""Why changes are not taken before the first look."""


class ShareCore:
    """
    Reactor thread only; the work itself is done in the pool.

    @param name: the same on all masters, such as C{file/base/0}.
    @param folder: where the store is.
    @param tree: the directory that people edit.
    @param consider: looks for what this node lacks, see L{saltwisted.cluster.roots.catchup}.
    @ivar ready: whether everything that the cluster has is here.
    @ivar suspended: why local changes are not accepted; empty if they are.
    @ivar coming: contents that were requested and are not here yet.
    @ivar lock: held by code that uses index or tree.
    @ivar aside: held by work that may run at the same time, until the store is closed.
    @ivar held: deletions that wait for an approval: path to the entry that is gone.
    @ivar answered: members that have read our greeting since the start, and know no more of us than
        we do.
    @ivar last_error: for display; empty after the next success.
    """

    log = Logger()

    def __init__(
        self,
        owner: Owner,
        name: str,
        root: str,
        folder: str,
        reactor: Any,
        settings: Settings,
        make_store: Callable[[str], RootStore],
        tree: WorkTree,
        consider: Callable[[], None],
    ) -> None:
        self.owner = owner
        self.name = name
        self.root = root
        self.folder = folder
        self.reactor = reactor
        self.settings = settings
        self.make_store = make_store
        self.tree = tree
        self.consider = consider
        self.store: RootStore | None = None
        self.ready = False
        self.stopped = False
        self.suspended = STARTING
        self.coming: set[bytes] = set()
        self.held: dict[bytes, TreeEntry] = {}
        self.answered: set[str] = set()
        self.last_error = ""
        self._fetch_error = ""
        self.lock = DeferredLock()
        self.aside = DeferredLock()
        self.timers = Timers(reactor)

    # -- store and tree

    @property
    def db(self) -> RootStore:
        """
        The open store.

        @raises StoreError: it is not open.
        """
        if self.store is None:
            raise StoreError("the store is not open", self.name)
        return self.store

    @property
    def generation(self) -> Generation | None:
        """The tree that is served."""
        return None if self.store is None else self.store.generation

    @property
    def limits(self) -> Limits:
        """What this share takes."""
        return self.tree.limits

    @property
    def is_blank(self) -> bool:
        """Whether nothing was ever committed here."""
        return not self.db.index.knowledge

    @property
    def is_read_only(self) -> bool:
        """Whether the changes of this node count for nothing."""
        return not self.owner.host.may(self.owner.host.node, WRITE)

    async def pool(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run something that may block."""
        return await self.owner.host.pool(function, *args)

    def suspend(self, reason: str) -> None:
        """Take no local changes until the root can be trusted again."""
        if reason == self.suspended:
            return
        self.suspended = reason
        self.log.error(
            "roots: {share} is suspended: {reason}. The node still serves what was committed",
            share=self.name,
            reason=reason,
        )
        self.owner.news.event("suspended", {"share": self.name, "reason": reason})

    # -- one at a time

    async def locked(self, act: Callable[..., Any], *args: Any) -> Any:
        """Run a coroutine function while nothing else touches index or tree."""
        return await self._alone(act, *args)

    def go(self, act: Callable[..., Any], *args: Any) -> None:
        """Run a coroutine function under the lock, soon."""
        if self.stopped:
            return
        d = self._alone(act, *args)
        let_go(d, self.log, "roots: {share} failed", share=self.name)

    def _alone(self, act: Callable[..., Any], *args: Any) -> Deferred[Any]:
        def begin() -> Deferred[Any]:
            return Deferred.fromCoroutine(act(*args))

        def done(result: Any) -> Any:
            self.owner.notify()
            return result

        return self.lock.run(begin).addBoth(done)

    # -- time

    def consider_after(self, delay: float) -> None:
        """
        Look for what this node lacks, after that many seconds at the latest: further reports of
        peers do not postpone it.
        """
        self.timers.at_latest("consider", delay, self.consider)

    def end(self) -> None:
        """Begin nothing any more."""
        self.stopped = True
        self.timers.end()

    async def close(self) -> None:
        """Wait for what runs, and close."""
        for lock in (self.lock, self.aside):
            await lock.acquire()
            lock.release()
        self.tree.close()
        if self.store is not None:
            self.store.close()

    # -- peers

    def links(self) -> list[RootLink]:
        """Streams to peers that have this share."""
        return self.owner.streams.of(self.name)

    def writing_links(self) -> list[RootLink]:
        """Those of them whose changes count."""
        return self.owner.streams.writers(self.name)

    def writers(self) -> list[str]:
        """The other members whose changes of this share count, linked or not."""
        owner = self.owner
        return [
            node
            for node in owner.host.members()
            if owner.host.may(node, WRITE) and owner.host.may_have(node, self.name)
        ]

    def all_answered(self) -> bool:
        """Whether every member that has this share has answered our greeting in this life."""
        owner = self.owner
        return all(
            node in self.answered
            for node in owner.host.members()
            if owner.host.may_have(node, self.name)
        )

    def known_here(self) -> tuple[Knowledge, bytes]:
        """What we know and what the tree is then; they are from one moment."""
        generation = self.db.generation
        return generation.knowledge, generation.digest

    def acknowledge(self) -> None:
        """Tell all peers what is here now."""
        for link in self.links():
            link.acknowledge(self.name, *self.known_here())

    def no_room(self, size: int) -> bool:
        """Whether there is no room for this many bytes; this is reported, and tried again later."""
        objects = self.store.objects if self.store is not None else None
        problem = self.owner.room.problem(objects, self.folder, size)
        if problem and problem != self.last_error:
            self.log.error("roots: {share}: {why}", share=self.name, why=problem)
            self.owner.news.event(
                "held", {"share": self.name, "where": "receiver", "reason": problem}
            )
        self.last_error = problem or self.last_error
        if problem:
            self.consider_after(RETRY)
        return bool(problem)

    def fetch(self, link: RootLink, wants: Iterable[Want]) -> Deferred[SaltwistedError | None]:
        """
        Have contents sent; until they are here they count as coming.

        @return: fires with why they did not come, if we know.
        """
        wants = list(wants)
        wanted = {want.digest for want in wants}
        self.coming |= wanted

        def over(result: Any) -> SaltwistedError | None:
            self.coming.difference_update(wanted)
            error = result.value if isinstance(result, Failure) else None
            if not isinstance(error, SaltwistedError):
                if self.last_error == self._fetch_error:
                    self.last_error = ""  # what did not come then has come, by this way or another
                return None
            self._fetch_error = str(error)
            return error

        return link.objects.fetch(self.name, self.db.objects, wants).addBoth(over)
