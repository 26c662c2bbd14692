"""
How a share keeps itself healthy: it reads everything again within a week, corrects itself if a
fault has made it differ from its peers, and lets files that change all the time wait.

Each finding is an alarm, shown in C{roots status} and on the bus.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from saltwisted.cluster.roots.core import ShareCore
from saltwisted.cluster.roots.link import RootLink
from saltwisted.domain.roots.entry import Version
from saltwisted.domain.roots.frames import REPAIR
from saltwisted.domain.roots.hot import HotFiles
from saltwisted.errors import StoreError
from saltwisted.stores.roots import deep as rootdeep
from saltwisted.stores.roots.housekeeping import check_rows
from saltwisted.transports.deferreds import let_go
from saltwisted.words import WERE, are, counted

DEEP_EVERY = 3600.0
"""Seconds from one part of the deep look to the next; L{rootdeep.PARTS} of them are a week."""
REPAIR_EVERY = 30.0
"""Seconds between two questions for a peer's whole state."""


class RootCare:
    """
    Reactor thread only.

    @param core: the core of the share.
    @param lost: fetches contents again that the disk has lost: digest to size.
    @ivar rotten: files that differ from what was committed, although nobody seems to have written
        them.
    """

    log = Logger()

    def __init__(
        self, core: ShareCore, lost: Callable[[Mapping[bytes, int]], Awaitable[None]]
    ) -> None:
        self._core = core
        self._lost = lost
        self._owner = core.owner
        self._clock = core.reactor
        self._hot = HotFiles()
        self._part = 0
        self._timer: Any = None
        self._asked: dict[str, float] = {}
        self.rotten: set[bytes] = set()

    def start(self) -> None:
        """Begin to look deep, at a moment of its own."""
        self._part = int(self._owner.host.now() // DEEP_EVERY)
        self._timer = self._clock.callLater(DEEP_EVERY * self._owner.host.jitter(), self._deep)

    def stop(self) -> None:
        """No more."""
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None

    # -- everything again

    def _deep(self) -> None:
        self._timer = self._clock.callLater(DEEP_EVERY * self._owner.host.jitter(), self._deep)
        d = Deferred.fromCoroutine(self._look(self._part))
        self._part += 1
        let_go(d, self.log, "roots: the weekly check of {share} failed", share=self._core.name)

    async def _look(self, part: int) -> None:
        await self.look_at_index(part)
        await self.look_deep(part)

    async def look_at_index(self, part: int) -> None:
        """
        Have SQLite check the index, and hold a part of its rows against memory.

        @raises StoreError: the disk refuses.
        """
        core, pool = self._core, self._owner.host.pool
        store = core.store
        if store is None or core.suspended:
            return
        wrong = await pool(store.database.check)
        if wrong:
            self.alarm("the index is damaged; it is put aside, and comes from the others", [wrong])
            self._owner.news.damaged(core.name)
            return
        count = await core.locked(_checked, pool, store, part)
        if count:
            rows = counted(count, "row")
            self.alarm(f"{rows} of the index differed from what was written: rewritten", [])

    async def look_deep(self, part: int) -> rootdeep.Found:
        """
        Read one part of all contents and files.

        @raises StoreError: the root cannot be opened.
        """
        core, pool = self._core, self._owner.host.pool
        store = core.store
        if store is None or core.suspended:
            return rootdeep.Found()
        known = await core.locked(_copied, pool, store)
        found: rootdeep.Found = await pool(rootdeep.look, core.root, known, store.objects, part)
        fresh = found.rotten - self.rotten
        self.rotten = (self.rotten - found.sound - fresh) | found.rotten
        if fresh:
            names = sorted(os.fsdecode(path) for path in fresh)[:20]
            self.alarm("files differ from what was committed, though nobody wrote them", names)
        if found.damaged:
            await self.found(found.damaged)
        return found

    async def found(self, damaged: Mapping[bytes, int]) -> None:
        """
        Contents do not match their digests: they are named, and fetched again.

        @raises StoreError: the disk refuses.
        """
        store = self._core.store
        here = {d: s for d, s in damaged.items() if store is not None and store.objects.has(d)}
        if here:
            names = sorted(digest.hex()[:12] for digest in here)[:20]
            # The status names them for as long as they are not back
            self.tell(f"{are(len(here), 'content')} damaged on disk, and fetched again", names)
            await self._lost(here)

    def alarm(self, why: str, names: list[str]) -> None:
        """Something is not as it should be; the status has it until the next generation."""
        self._owner.alarms[self._core.name] = why
        self.tell(why, names)

    def tell(self, why: str, names: list[str]) -> None:
        """Something is not as it should be: in the log, and on the bus."""
        self.log.error(
            "roots: {share}: {why}: {names}", share=self._core.name, why=why, names=", ".join(names)
        )
        self._owner.news.event("alarm", {"share": self._core.name, "reason": why, "names": names})

    # -- another tree than a peer's, though both know the same

    def differs(self, link: RootLink) -> None:
        """A peer with the same knowledge has another tree: take its state, and report it."""
        now = self._clock.seconds()
        if now - self._asked.get(link.node, -REPAIR_EVERY) < REPAIR_EVERY:
            return
        self._asked[link.node] = now
        self.alarm(
            (f"the tree differs from that of {link.node}, although both know the same changes"),
            [link.node],
        )
        link.tell(REPAIR, self._core.name, b"")

    def expects(self, link: RootLink) -> bool:
        """Whether a whole state was asked for, to repair by it."""
        return link.node in self._asked

    async def repair(self, link: RootLink, rows: dict[bytes, tuple[Version, ...]]) -> Any:
        """
        Become like a peer; under the lock. What changed by that.

        @raises StoreError: the disk refuses.
        """
        store = self._core.store
        if store is None:
            raise StoreError("the store is not open", self._core.name)
        outcome = await self._owner.host.pool(store.repair, rows, link.node)
        self.log.warn(
            "roots: {share}: {paths} taken over from {node}",
            share=self._core.name,
            paths=are(len(outcome.rows), "path", verbs=WERE),
            node=link.node,
        )
        return outcome

    # -- files that change all the time

    def committed(self, paths: Iterable[bytes]) -> None:
        """The user of this node changed these."""
        now = self._clock.seconds()
        fresh = self._hot.committed(paths, now)
        if fresh:
            names = [os.fsdecode(path) for path in fresh][:20]
            self._owner.news.event("hot", {"share": self._core.name, "paths": names})

    def held_off(self, paths: Iterable[bytes]) -> tuple[set[bytes], float]:
        """Which of these wait for now, and how many seconds the first of them does."""
        now = self._clock.seconds()
        late = {path: until for path in paths if (until := self._hot.until(path, now)) > now}
        return set(late), min(late.values(), default=now) - now

    def pauses(self) -> dict[bytes, float]:
        """The files that wait, and how long after each change."""
        return self._hot.pauses(self._clock.seconds())


async def _checked(pool: Any, store: Any, part: int) -> Any:
    return await pool(check_rows, store, part, rootdeep.PARTS)


async def _copied(pool: Any, store: Any) -> Any:
    return await pool(dict, store.tree.known)
