"""
The kernel's events about the working tree of a share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from twisted.logger import Logger

from saltwisted.cluster.roots.core import ShareCore
from saltwisted.transports.inotify import TreeWatch

WATCHES = 64
"""Directories that are put under watch in one turn of the reactor."""
HOLD = 0.01
"""Seconds from one look at the events to the next, while we write."""


class TreeEvents:
    """
    Reactor thread only.

    @param changed: called with the path and the mask of each event, in the bits of inotify.
    @param lost: called when the kernel has lost events.
    @ivar running: whether the kernel reports changes.
    """

    log = Logger()

    def __init__(
        self,
        core: ShareCore,
        changed: Callable[[bytes, int], None],
        lost: Callable[[], None],
    ) -> None:
        self.running = False
        self._timers = core.timers
        self._kernel = TreeWatch(core.reactor, core.root, changed, lost)

    def start(self) -> None:
        """Begin; without inotify, scanning everything has to suffice."""
        try:
            if not self.running:
                self._kernel.start()
                self.running = True
        except OSError as error:
            self.log.error("inotify is not available, scanning: {error}", error=str(error))

    def stop(self) -> None:
        """No more events."""
        if self.running:
            self._kernel.stop()
            self.running = False

    @property
    def sees_all(self) -> bool:
        """Whether the kernel reports every change."""
        return self.running and self._kernel.complete

    @property
    def overflows(self) -> int:
        """How often the kernel lost events."""
        return self._kernel.overflows

    def add_now(self, folder: bytes) -> None:
        """Watch a directory that has just come to be."""
        self._kernel.add([folder])

    async def add(self, folders: Sequence[bytes]) -> list[bytes]:
        """Watch these, some per turn of the reactor; those that were not watched before."""
        fresh: list[bytes] = []
        for start in range(0, len(folders), WATCHES):
            if start:
                await self._timers.pause(0)
            fresh += self._kernel.add(folders[start : start + WATCHES])
        return fresh

    def hold(self) -> None:
        """
        Read events only from time to time, until L{go_on}: we cause most of them ourselves. Each
        event that is read at once costs a turn of the reactor (for 1000 deletions 40 ms, now 10).
        """
        if self.running:
            self._kernel.pause()
            self._timers.later("events", HOLD, self._held)

    def _held(self) -> None:
        self._kernel.doRead()
        self._timers.later("events", HOLD, self._held)

    def go_on(self) -> None:
        """Take events as they come again."""
        self._timers.never("events")
        self._kernel.resume()

    def drain(self) -> None:
        """Take in all that the kernel has queued: it does that within each system call."""
        self._kernel.doRead()
