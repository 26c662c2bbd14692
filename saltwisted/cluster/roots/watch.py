"""
When the working tree of a share is scanned, and which parts of it.

Events of the kernel (L{saltwisted.cluster.roots.events}), and paths that the share itself wants to
be scanned again, are collected until the tree is quiet. Then the scan
(L{saltwisted.cluster.roots.look}) is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from saltwisted.cluster.roots.core import ShareCore
from saltwisted.cluster.roots.dirty import Dirty
from saltwisted.cluster.roots.events import TreeEvents
from saltwisted.transports.inotify import CREATE, IS_DIR, MODIFY, MOVED_TO

MOST_DIRTY = 20_000
"""Paths above which everything is looked at instead."""
SURE = 1.0
"""Seconds after which a file that was too young to be sure of is looked at again."""


class RootWatch:
    """
    Reactor thread only.

    @param look: scans; called when the tree is quiet, or a waiting path is due.
    @ivar events: the events of the kernel.
    @ivar everything: whether the whole tree must be scanned.
    @ivar dirty: the paths that were reported as changed.
    @ivar unlisted: directories whose contents must be listed.
    """

    def __init__(self, core: ShareCore, look: Callable[[], None]) -> None:
        self._core = core
        self._look = look
        self._timers = core.timers
        self.events = TreeEvents(core, self._changed, self.look_everywhere)
        self._first: float | None = None
        self._said = 0.0
        self._young: set[bytes] = set()
        self._resting: set[bytes] = set()
        self.everything = False
        self.dirty = Dirty()
        self.unlisted: set[bytes] = set()

    def _changed(self, path: bytes, mask: int) -> None:
        if not path or self._core.tree.ignored(path, bool(mask & IS_DIR)):
            return
        if mask == MODIFY:
            # Being written: it is looked at when it is closed; but it is not quiet
            if self.dirty:
                self.wait_for_quiet()
            return
        if mask & IS_DIR and mask & (CREATE | MOVED_TO):
            self.events.add_now(path)
        self.dirty.add(path, mask)
        if len(self.dirty) > MOST_DIRTY:
            self.everything = True
            self.dirty.clear()
        self.wait_for_quiet()

    # -- when to look

    @property
    def has_work(self) -> bool:
        """Whether anything is to be looked at."""
        return bool(self.dirty or self.everything or self.unlisted)

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is to be looked at, now or soon."""
        young = self._young and not self.events.sees_all
        return not (self.has_work or young or self._first is not None)

    def wait_for_quiet(self) -> None:
        """Scan when nothing was reported for a moment, but not too late."""
        core = self._core
        self._said = core.reactor.seconds()
        if self._first is None:
            self._first = self._said
        if not self._timers.waits("quiet"):
            self._timers.later("quiet", self._until_quiet(), self._maybe_quiet)

    def _until_quiet(self) -> float:
        """Seconds from now until it is quiet, if nothing more is said."""
        settings, now = self._core.settings, float(self._core.reactor.seconds())
        first = now if self._first is None else self._first
        return max(min(self._said + settings.quiet, first + settings.quiet_most) - now, 0.0)

    def _maybe_quiet(self) -> None:
        # A timer that is set again at each of a thousand events costs more than to look here
        rest = self._until_quiet()
        if rest > 0.001 and self._first is not None:
            self._timers.later("quiet", rest, self._maybe_quiet)
        else:
            self.settled()

    def calm(self) -> None:
        """
        All reported paths are being scanned, or are known: there is no need to wait for quiet.
        """
        self._first = None
        self._timers.never("quiet")

    def settled(self) -> None:
        """Look now."""
        self._first = None
        if self._core.ready:
            self._look()

    def try_again(self) -> None:
        """Somebody is in the middle of something: wait as long again."""
        self._timers.later("quiet", self._core.settings.quiet, self.settled)

    # -- what the share wants to be looked at

    def look_everywhere(self, after: float | None = None, timer: str = "again") -> None:
        """Look at everything, when it is quiet or after that many seconds."""
        self.everything = True
        if after is None:
            self.wait_for_quiet()
        else:
            self._timers.later(timer, after, self.settled)

    def look_at(self, paths: Iterable[bytes], after: float | None = None) -> None:
        """Look at these, when it is quiet or after that many seconds."""
        self.dirty.update(paths)
        if after is None:
            self.wait_for_quiet()
        else:
            self._timers.later("again", after, self.settled)

    def look_again_soon(self) -> None:
        """Scan the noted paths."""
        self._timers.later("again", self._core.settings.quiet, self.settled)

    def look_when_sure(self, young: set[bytes]) -> None:
        """These were written too short a time ago: they may change and look the same."""
        self._young |= young
        self._timers.later("young", SURE, self._grown)

    def _grown(self) -> None:
        self.dirty.update(self._young)
        self._young.clear()
        self.settled()

    def rest(self, paths: set[bytes], delay: float) -> None:
        """Look at these after that many seconds: they change all the time."""
        self._resting |= paths
        self._timers.later("rest", delay, self._rested)

    def wake(self) -> None:
        """What rests is to be looked at, too."""
        self.dirty.update(self._resting)
        self._resting.clear()

    def _rested(self) -> None:
        self.wake()
        self.settled()
