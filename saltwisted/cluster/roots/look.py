"""
How a share scans its working tree: paths that were reported as changed, and from time to time
everything.

L{saltwisted.cluster.roots.edits} commits what was found, and L{saltwisted.cluster.roots.watch}
decides when to scan. A root that cannot be trusted is not scanned.
"""

from __future__ import annotations

import errno
import os
from collections import ChainMap
from collections.abc import Mapping
from typing import Any

from twisted.logger import Logger

from saltwisted.cluster.roots.ahead import RootAhead
from saltwisted.cluster.roots.care import RootCare
from saltwisted.cluster.roots.core import RETRY, ShareCore
from saltwisted.cluster.roots.edits import RootEdits
from saltwisted.cluster.roots.watch import RootWatch
from saltwisted.cluster.roots.work import (
    folders_of,
    look_again,
    look_closely,
    may_look,
    overlay,
    trust,
)
from saltwisted.cluster.roots.write import RootWrite
from saltwisted.domain.roots.entry import Batch, TreeEntry, ancestors
from saltwisted.errors import StoreError
from saltwisted.stores.roots.knowntree import Known
from saltwisted.stores.roots.newfiles import Seen
from saltwisted.words import are, counted

AGAIN = 0.03
"""Seconds after which a file that was being written is looked at again, ..."""
SCAN_AGAIN = 1.0
"""... and after which it is where everything was looked at."""
BUSY_WAIT = 60.0
"""Seconds for which the look waits for somebody who is in the middle of something."""
SCAN_SHARE = 5000
"""A scan that takes a second is made every so many seconds, where the kernel tells the same."""
NO_ROOM = frozenset(os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT))
"""What the disk of the store says when it takes no more."""
NAMED = 5
"""Paths that are named in one sentence."""
MOST_LAYERS = 8
"""Times that new directories in new directories are looked for within one look."""


class RootLook:
    """
    All of it runs under the lock, unless stated otherwise.

    @ivar scans: how often everything was scanned.
    @ivar scan_seconds: how long the last such scan took.
    @ivar skipped: paths that do not take part, and why.
    @ivar unread: those of them that should take part, but that the system does not let us read or
        store.
    """

    log = Logger()

    def __init__(
        self,
        core: ShareCore,
        watch: RootWatch,
        ahead: RootAhead,
        care: RootCare,
        edits: RootEdits,
        writes: RootWrite,
    ) -> None:
        self._core = core
        self._watch = watch
        self._ahead = ahead
        self._care = care
        self._edits = edits
        self._writes = writes
        self._busy_since: float | None = None
        self._all_now = False
        self._is_full = False
        self.scans = 0
        self.scan_seconds = 0.0
        self.skipped: dict[bytes, str] = {}
        self.unread: dict[bytes, str] = {}
        self._told: set[bytes] = set()

    # -- the root itself

    async def open_root(self) -> None:
        """Take the directory for the root if it is the one that was remembered; else suspend."""
        core = self._core
        remembered = self._remembered()
        problem = await core.pool(core.tree.open, remembered)
        if problem:
            core.suspend(problem)
            return
        core.suspended = ""
        if remembered is None:
            self._remember()
        self._watch.events.start()

    async def trust_root(self) -> None:
        """This directory is the root from now on."""
        core = self._core
        await core.pool(trust, core.tree)
        self._remember()
        core.suspended = ""
        self._watch.events.stop()
        await self.open_root()

    def _remembered(self) -> tuple[int, int] | None:
        value = self._core.db.database.get("root")
        if not value:
            return None
        volume, inode = str(value).split()
        return int(volume), int(inode)

    def _remember(self) -> None:
        volume, inode = self._core.tree.root_identity
        database = self._core.db.database
        with database.transaction():
            database.set("root", f"{volume} {inode}")

    # -- looking, without the lock yet

    def look(self) -> None:
        """Scan the reported paths soon."""
        self._core.go(self.take)

    def begin(self) -> None:
        """Look at everything now and then, from now on."""
        core = self._core
        pause = core.settings.scan
        if self._watch.events.sees_all:
            # Events tell the same: a look at a large tree may use no more than its share of a core
            pause = max(pause, self.scan_seconds * SCAN_SHARE)
        core.timers.later("scan", pause * core.owner.host.jitter(), self._periodic)

    def _periodic(self) -> None:
        self.begin()
        self._watch.everything = True
        if self._core.ready:
            self.look()
        self._core.consider()

    async def flush(self) -> None:
        """
        Commit all changes until now: those that the kernel has reported, or everything if it cannot
        report all.
        """
        watch = self._watch
        # The kernel says nothing of what is in a directory that we may not open
        if not watch.events.sees_all or self._core.suspended or self.unread:
            await self.rescan()
            return
        watch.events.drain()
        watch.wake()
        self._all_now = True
        try:
            await self._core.locked(self.take)
            if watch.dirty:
                await self._core.locked(self.take)
        finally:
            self._all_now = False

    async def rescan(self) -> None:
        """Look at everything now."""
        await self._core.locked(self.take_all)

    def why_not(self, path: bytes) -> str:
        """Why a path does not take part; empty if no reason is known. Not under the lock."""
        for one in (*ancestors(path), path):
            if one in self.skipped:
                return f"does not take part: {os.fsdecode(one)}: {self.skipped[one]}"
        why = self._core.tree.why_excluded(path)
        return f"does not take part: {why}" if why else ""

    # -- looking, under the lock

    async def take_all(self) -> None:
        """Take in whatever was changed, wherever."""
        self._watch.everything = True
        await self.take()

    async def take(self) -> None:
        """Commit the changes at reported paths."""
        core, watch = self._core, self._watch
        if core.suspended or not core.ready:
            return
        if not watch.has_work:
            watch.calm()
            return
        problem, busy = await core.pool(may_look, core.tree)
        if problem:
            core.suspend(problem)
            return
        if busy:
            now = core.reactor.seconds()
            self._busy_since = self._busy_since or now
            if now - self._busy_since < BUSY_WAIT:
                watch.try_again()
                return
        self._busy_since = None
        everything, watch.everything = watch.everything, False
        # What did not take part, and is gone, is not to be named any more
        dirty = watch.dirty.take(ChainMap[bytes, Any](core.db.tree.known, self.skipped))
        watch.calm()
        if not everything and not self._all_now:
            late, delay = self._care.held_off(dirty)
            if late:
                dirty -= late
                watch.rest(late, delay)
        if not dirty and not everything and not watch.unlisted:
            return
        if b".rootsignore" in dirty or everything:
            await core.pool(core.tree.read_rules)
            everything = everything or b".rootsignore" in dirty
        began = core.reactor.seconds()
        seen = await self._gather(None if everything else dirty)
        if everything:
            self.scans += 1
            self.scan_seconds = core.reactor.seconds() - began
            problem = await core.pool(core.tree.check)
            if problem:
                core.suspend(problem)
                return
        await self._edits.take(seen)
        if await core.pool(core.db.tree.pending, core.db.generation) and not core.stopped:
            await self._writes.write()

    async def take_before(self, batch: Batch) -> None:
        """An edit that we have not seen yet did not see this batch either: it comes first."""
        core = self._core
        seen: Seen = await core.pool(look_again, core.tree, batch, core.db)
        if seen.changed:
            await self._edits.take(seen)

    async def preview(self) -> list[tuple[bytes, TreeEntry | None, TreeEntry | None]]:
        """
        What a scan would commit: path, before, after. Nothing is committed.

        @raises StoreError: the root is not to be trusted now.
        """
        core, store = self._core, self._core.db
        if core.suspended:
            raise StoreError(f"is suspended: {core.suspended}", core.name)
        seen: Seen = await core.pool(core.tree.reader.scan, store.tree.known, store.objects)
        found = []
        for path, known in sorted(seen.changed.items()):
            before = store.generation.get(path)
            after = known.entry if known is not None else None
            if before != after:
                found.append((path, before, after))
        return found

    async def _gather(self, paths: set[bytes] | None) -> Seen:
        """What is at these paths, or everywhere; large files are being read when it ends."""
        self._ahead.begin()
        try:
            return await self._look_at(paths)
        finally:
            self._ahead.end()

    def _wait_for_room(self, seen: Seen) -> None:
        """What could not be taken in because the disk is full is tried again, and named."""
        core = self._core
        full = {path: why for path, why in seen.unread.items() if why in NO_ROOM}
        if full:
            core.last_error = (
                f"{next(iter(full.values()))}: {are(len(full), 'change', verbs=('waits', 'wait'))}"
            )
            self._watch.look_at(full, RETRY)
        elif self._is_full:
            core.last_error = ""
        self._is_full = bool(full)

    def _tell_unread(self) -> None:
        """Say once what is not taken in: no other member has it, or gets what is changed in it."""
        core, fresh = self._core, self.unread.keys() - self._told
        if fresh:
            names = sorted(os.fsdecode(path) for path in fresh)
            self.log.error(
                "roots: {share}: {count} cannot be read, and the other members do not get the "
                "contents: {names}",
                share=core.name,
                count=counted(len(fresh), "path"),
                names=[f"{name}: {self.unread[os.fsencode(name)]}" for name in names[:NAMED]],
            )
            core.owner.news.event(
                "unread", {"share": core.name, "count": len(fresh), "paths": names[:100]}
            )
        elif self._told and not self.unread:
            self.log.info("roots: {share}: every path can be read again", share=core.name)
        self._told = set(self.unread)

    def unread_in_words(self) -> str:
        """Which paths are not replicated, and why, for display; empty if all are."""
        if not self.unread:
            return ""
        some = sorted(self.unread.items())[:NAMED]
        named = ", ".join(f"{os.fsdecode(path)} ({why})" for path, why in some)
        more = ", ..." if len(self.unread) > NAMED else ""
        return (
            f"{counted(len(self.unread), 'path')} cannot be read here and "
            f"{'is' if len(self.unread) == 1 else 'are'} not replicated: {named}{more}"
        )

    async def _look_at(self, paths: set[bytes] | None) -> Seen:
        core, watch = self._core, self._watch
        store, tree, pool = core.db, core.tree, core.pool
        known: Mapping[bytes, Known] = store.tree.known
        if paths is None:
            watch.unlisted.clear()
            seen: Seen = await pool(tree.reader.scan, known, store.objects)
            self.skipped, self.unread = dict(seen.skipped), dict(seen.unread)
        else:
            fresh: list[bytes]
            fresh, first = await pool(look_closely, tree, paths, known, store, watch.events.running)
            # What is in them is listed after they are watched: nothing falls between
            await watch.events.add(fresh)
            seen = first or await pool(tree.reader.look, paths, known, store.objects)
            for path in paths:
                self.skipped.pop(path, None)
                if self.unread.pop(path, None) and path not in seen.unread:
                    # We may open it now; nothing was told of what is in it
                    watch.unlisted.add(path)
            if watch.unlisted:
                tops, watch.unlisted = watch.unlisted, set()
                seen.add(await pool(tree.reader.scan, known, store.objects, tops))
            self.skipped.update(seen.skipped)
            self.unread.update(seen.unread)
        for _ in range(MOST_LAYERS):
            folders: list[bytes] = []
            if watch.events.running and (paths is None or seen.changed):
                folders = await pool(folders_of, seen, known if paths is None else None)
            fresh = await watch.events.add(folders)
            if not fresh:
                break
            # What was made in them before they were watched has made no event
            both = await pool(overlay, known, seen)
            more: Seen = await pool(tree.reader.scan, both, store.objects, fresh)
            seen.add(more)
            self.skipped.update(more.skipped)
            self.unread.update(more.unread)
        self._wait_for_room(seen)
        self._tell_unread()
        if seen.again:
            watch.look_at(seen.again, AGAIN if paths is not None else SCAN_AGAIN)
        if seen.young:
            watch.look_when_sure(seen.young)
        return seen
