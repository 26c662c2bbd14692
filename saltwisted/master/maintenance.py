"""
What a master does periodically: notice outside changes, delete old jobs, report presence.

Each task is a loop of its own, which survives its own failures: a full disk at three in the morning
must not end the pruning for ever.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from saltwisted.master.context import Context
from saltwisted.transports.deferreds import let_go
from saltwisted.transports.ticks import start_on_ticks

RESCAN = 1.0
"""Seconds between two looks at the key directories, which any program may change."""
AT_ONCE = 400
"""New keys that one look takes in, some 2 ms; the next ones follow in the next turn."""
PRUNE = 600.0
TIDY = 60.0
"""Seconds without a reader after which a copy goes: to make it again costs little."""
RETRY = 5.0
"""Seconds between two attempts to write what a full disk refused."""


class Maintenance:
    """
    The timers of one master.

    @param unwritten: called every few seconds: writes again what the disk refused.
    @param tidied: called every minute: removes copies that nobody has used since.
    """

    log = Logger()

    def __init__(
        self,
        ctx: Context,
        unwritten: Sequence[Callable[[], None]] = (),
        tidied: Sequence[Callable[[], Any]] = (),
    ) -> None:
        self._ctx = ctx
        self._unwritten, self._tidied = unwritten, tidied
        self._loops: list[LoopingCall] = []
        self._here: set[str] = set()

    def startService(self) -> None:
        """Begin all tasks; the slow ones a little later, because a start has enough to do."""
        interval = max(float(self._ctx.config.loop_interval or 60), 1.0)
        self._every(RESCAN, self._rescan)
        keep = float(self._ctx.config.keep_jobs_seconds or 0)
        self._every(min(PRUNE, max(interval, keep / 2)), self._prune)
        self._every(RETRY, self._retry)
        self._every(interval, self._loop)
        for tidy in self._tidied:
            self._every(TIDY, tidy)

    def stopService(self) -> None:
        """End all duties."""
        for loop in self._loops:
            if loop.running:
                loop.stop()
        self._loops.clear()

    def _every(self, seconds: float, duty: Callable[[], Any]) -> None:
        name = duty.__name__.strip("_")

        def safely() -> None:
            try:
                result = duty()
            except Exception:
                self.log.failure("{duty} failed", duty=name)
                return
            if isinstance(result, Deferred):
                let_go(result, self.log, "{duty} failed", duty=name)

        loop = LoopingCall(safely)
        loop.clock = self._ctx.clock
        let_go(start_on_ticks(loop, seconds), self.log, "{duty} has ended", duty=name)
        self._loops.append(loop)

    def _rescan(self) -> None:
        if self._ctx.keys.rescan(AT_ONCE) >= AT_ONCE:
            self._ctx.clock.callLater(0, self._rescan)

    def _retry(self) -> None:
        for write in self._unwritten:
            write()

    def _prune(self) -> Any:
        return self._ctx.jobs.prune(self._ctx.seams.prune_time.time)

    def _loop(self) -> None:
        """Salt's C{loop_interval}: presence events and the drop file."""
        ctx = self._ctx
        if ctx.config.presence_events:
            here = ctx.presence.present(ctx.keys.accepted_ids())
            new, lost = here - self._here, self._here - here
            if new or lost:
                ctx.bus.fire("salt/presence/change", {"new": sorted(new), "lost": sorted(lost)})
            ctx.bus.fire("salt/presence/present", {"present": sorted(here)})
            self._here = here
        self.look_for_dropfile()

    def look_for_dropfile(self) -> bool:
        """
        Salt's drop file C{cachedir/.dfn} asks for a rotation: mode 0400, a regular file.

        3007 and later write the master's id into it; an empty one is 3006's.
        """
        path = os.path.join(self._ctx.config.cachedir, ".dfn")
        try:
            info = os.lstat(path)
            if not stat.S_ISREG(info.st_mode) or stat.S_IMODE(info.st_mode) != 0o400:
                return False
            with open(path, "rb") as handle:
                content = handle.read(256).decode("utf-8", "replace").strip()
            if content and content != self._ctx.node:
                return False
            os.unlink(path)
        except OSError:
            return False
        self._ctx.rotation.request("the drop file was there")
        return True
