"""
Generations of a share by their digests: those of the last hour, and those to which a job elsewhere
is pinned and that this node never had.

Two nodes that apply each other's changes in different orders have different trees in between. A job
that is pinned to such a tree is served it on every node: the tree is rebuilt from the history, or
its manifest is fetched from a peer, within L{LIMIT}. The caller decides what happens when that time
is over.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from saltwisted.cluster.roots.core import ShareCore
from saltwisted.cluster.roots.link import RootLink
from saltwisted.cluster.roots.parcels import Want
from saltwisted.domain.roots import codec
from saltwisted.domain.roots.entry import TreeEntry
from saltwisted.domain.roots.frames import TREE
from saltwisted.domain.roots.guards import Forbidden, Limits, check_entry
from saltwisted.domain.roots.manifest import Generation, generation_of
from saltwisted.errors import SaltwistedError, StoreError
from saltwisted.stores.roots.objects import missing_from
from saltwisted.stores.roots.store import RootStore
from saltwisted.transports.deferreds import let_go

LIMIT = 2.0
"""Seconds in which a tree that is not here is brought, or given up."""
RECENT = 8
"""Generations that are kept in memory at least, ..."""
KEEP_RECENT = 3600.0
"""... and for an hour ..."""
MOST_RECENT = 500
"""... but never more than these."""
MOST_COMING = 16
"""Trees that are being brought at a time."""
POLL = 0.02


@define(eq=False)
class Coming:
    """A tree that is being fetched: who waits for it, and who was asked."""

    waiting: list[Deferred[Generation | None]] = field(factory=list)
    asked: list[str] = field(factory=list)
    timer: Any = None
    unpacking: bool = False


class RootTrees:
    """
    Reactor thread only.

    @param core: the core of the share whose generations these are.
    """

    log = Logger()

    def __init__(self, core: ShareCore) -> None:
        self._core = core
        self._owner = core.owner
        self._clock = core.reactor
        self._recent: OrderedDict[bytes, Generation] = OrderedDict()
        self._coming: dict[bytes, Coming] = {}

    def get(self, digest: bytes) -> Generation | None:
        """A generation that is here."""
        return self._recent.get(digest)

    def keep(self, generation: Generation, pinned: Iterable[bytes]) -> None:
        """Remember a generation; forget those that are old and pinned by nobody."""
        self._recent[generation.digest] = generation
        self._recent.move_to_end(generation.digest)
        oldest = self._owner.host.now() - KEEP_RECENT
        pinned = set(pinned)
        for digest in list(self._recent)[:-RECENT]:
            if self._recent[digest].at < oldest and digest not in pinned:
                del self._recent[digest]
        while len(self._recent) > MOST_RECENT:
            self._recent.popitem(last=False)
        self._settle(generation.digest, generation)

    # -- a tree that is not here

    def bring(self, digest: bytes, node: str) -> Deferred[Generation | None]:
        """
        Get a tree with all its contents; fires with C{None} after L{LIMIT} without it.

        @param node: a node that certainly has it.
        """
        done: Deferred[Generation | None] = Deferred()
        coming = self._coming.get(digest)
        if coming is None:
            if len(self._coming) >= MOST_COMING:
                done.callback(None)
                return done
            coming = self._coming[digest] = Coming()
            coming.timer = self._clock.callLater(LIMIT, self._settle, digest, None)
            let_go(
                Deferred.fromCoroutine(self._look(digest, node)),
                self.log,
                "roots: a tree of {share} was not fetched",
                share=self._core.name,
            )
        coming.waiting.append(done)
        return done

    def _settle(self, digest: bytes, generation: Generation | None) -> None:
        coming = self._coming.pop(digest, None)
        if coming is None:
            return
        if coming.timer.active():
            coming.timer.cancel()
        for waiting in coming.waiting:
            waiting.callback(generation)

    def stop(self) -> None:
        """End all waiting."""
        for digest in list(self._coming):
            self._settle(digest, None)

    async def _look(self, digest: bytes, node: str) -> None:
        store = self._core.store
        if store is None:
            return
        found = await self._owner.host.pool(rebuilt, store, digest)
        if found is not None:
            self.keep(found, (digest,))
        else:
            self._ask(digest, node)

    def _ask(self, digest: bytes, node: str = "") -> None:
        coming = self._coming.get(digest)
        if coming is None:
            return
        links = [link for link in self._core.links() if link.node not in coming.asked]
        if not links:
            return
        links.sort(key=lambda link: link.node != node)
        coming.asked.append(links[0].node)
        links[0].tell(TREE, self._core.name, codec.pack([digest]))

    def received(self, link: RootLink, body: bytes) -> None:
        """
        A question for a tree, or the answer to ours.

        @raises Forbidden: it is neither.
        """
        value = codec.unpack(body, 1)
        if not isinstance(value, list) or not value or not isinstance(value[0], bytes):
            raise Forbidden("tree")
        digest = value[0]
        if len(digest) != 32:
            raise Forbidden("tree")
        if len(value) == 1:
            d = Deferred.fromCoroutine(self._answer(link, digest))
            let_go(d, self.log, "roots: a tree was not sent")
            return
        if len(value) != 2 or not isinstance(value[1], bytes):
            raise Forbidden("tree")
        coming = self._coming.get(digest)
        if coming is None or link.node not in coming.asked or coming.unpacking:
            # Too late: it was given up, or it came by itself
            return
        if not value[1]:
            self._ask(digest)
            return
        coming.unpacking = True
        d = Deferred.fromCoroutine(self._came(link, digest, value[1]))
        let_go(d, self.log, "roots: a tree from {node} was not stored", node=link.node)

    async def _answer(self, link: RootLink, digest: bytes) -> None:
        store = self._core.store
        body = b""
        if store is not None:
            body = await self._owner.host.pool(packed, store, digest, self.get(digest))
        link.tell(TREE, self._core.name, codec.pack([digest, body]))

    async def _came(self, link: RootLink, digest: bytes, body: bytes) -> None:
        core = self._core
        store = core.store
        if store is None:
            return
        try:
            found = await self._owner.host.pool(
                unpacked, body, digest, core.limits, store.generation, self._owner.host.now()
            )
        except Forbidden as error:
            self._owner.streams.flagged(link, error)
            link.close(error.reason, error.path)
            return
        while digest in self._coming:
            lacking = missing_from(store.objects, (entry for _, entry in found.walk()))
            if not lacking:
                self.keep(found, (digest,))
                await core.locked(self._make_durable)
                return
            wanted = {d: s for d, s in lacking.items() if d not in core.coming}
            if not wanted:
                await core.timers.pause(POLL)
                continue
            if core.no_room(sum(wanted.values())):
                return
            core.coming |= wanted.keys()
            try:
                await link.objects.fetch(
                    core.name, store.objects, [Want(d, size) for d, size in wanted.items()]
                )
            except SaltwistedError as error:
                core.last_error = str(error)
                return
            finally:
                core.coming.difference_update(wanted)

    async def _make_durable(self) -> None:
        store = self._core.store
        if store is not None:
            await self._owner.host.pool(store.keep_objects)


# -- in the pool


def rebuilt(store: RootStore, digest: bytes) -> Generation | None:
    """A generation of this node's own history, with its contents; C{None} if it has none."""
    tree = _from_history(store, digest)
    if tree is None or missing_from(store.objects, tree.values()):
        return None
    return generation_of(tree, store.generation, at=store.generation.at)


def _from_history(store: RootStore, digest: bytes) -> Mapping[bytes, TreeEntry] | None:
    try:
        return store.history.manifest(store.history.find(digest.hex()).number)
    except StoreError:
        return None


def packed(store: RootStore, digest: bytes, known: Generation | None) -> bytes:
    """A manifest as bytes; none if it is missing."""
    tree: Mapping[bytes, TreeEntry] | None
    tree = dict(known.walk()) if known is not None else _from_history(store, digest)
    if tree is None:
        return b""
    return codec.squeeze(codec.pack(codec.pack_entries(sorted(tree.items()))), 1)


def unpacked(
    body: bytes, digest: bytes, limits: Limits, like: Generation, now: float
) -> Generation:
    """
    The generation that a peer sent.

    @raises Forbidden: it is against the rules, or not the one of that digest.
    """
    columns = codec.unpack(codec.expand(body, codec.MAX_BODY))
    tree = dict(codec.unpack_entries(columns, limits.max_entries))
    for path, entry in tree.items():
        check_entry(path, entry, limits)
    found = generation_of(tree, like, at=now)
    if found.digest != digest:
        raise Forbidden("tree-digest")
    return found
