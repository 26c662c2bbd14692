"""
How the C library and Python give memory out, and take it back.

By default glibc maps and unmaps each large block, and every page of it is a fault; and
each thread may get an arena of its own. Both are set here, once, before threads. What two
thousand minions at once left behind is given back to the system some seconds later: glibc
itself only ever shortens the end of its heap.
"""

from __future__ import annotations

import ctypes
import gc
import linecache
import os
from collections.abc import Callable
from typing import Any

from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from saltwisted.transports.deferreds import let_go
from saltwisted.transports.ticks import start_on_ticks

PAGE = os.sysconf("SC_PAGESIZE")
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3
_ARENA_MAX = -8
MAPPED_FROM = 4 * 1024 * 1024
KEPT = 8 * 1024 * 1024
HOUR = 3600.0
PERIOD = 5
"""Seconds between two looks at what is free."""
WORTH = 2 * 1024 * 1024
"""
Bytes of growth since the last time that make it worth while. Eight minions that fetch files of
10 MiB leave four to six mebibytes in the arena of the threads.
"""
THRESHOLDS = (700, 4, 0)
"""
A whole collection whenever there are 3500 objects more. What is let go meanwhile counts against
what comes, so under load each looks at up to twice as many, for 1 or 2 ms. With 10 in the middle it
was 15 000 and 4 ms. With 300 in front each request took 7 us more.
"""
GROWN = 50_000
"""Frozen objects more than before that make a look at everything worth while: some 5 MiB."""


def tune_malloc() -> None:
    """Keep blocks up to L{MAPPED_FROM} on the heap, and one arena for all threads."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, MAPPED_FROM)
        mallopt(_TRIM_THRESHOLD, KEPT)
        mallopt(_ARENA_MAX, 2)


class Trimmer:
    """
    Gives freed pages back to the system, when the process has grown and then rests.

    The work is done in a thread: some milliseconds for a hundred mebibytes.

    @param start: calls a function in a thread.
    """

    log = Logger()

    def __init__(self, reactor: Any, start: Callable[[Callable[[], Any]], None]) -> None:
        self._trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        self._start = start
        self._loop = LoopingCall(self._look)
        self._loop.clock = reactor
        self._after = 0
        self._last = 0

    def startService(self) -> None:
        """Begin, where the C library can."""
        if self._trim is not None:
            looking = start_on_ticks(self._loop, PERIOD, now=True)
            let_go(looking, self.log, "memory is no longer given back")

    def stopService(self) -> None:
        """End."""
        if self._loop.running:
            self._loop.stop()

    def _look(self) -> None:
        size = _resident()
        rests, self._last = abs(size - self._last) < WORTH // 4, size
        if rests and size - self._after > WORTH:
            self._after = size
            self._start(self._give_back)
        self._after = min(self._after, size)

    def _give_back(self) -> None:
        assert self._trim is not None
        self._trim(0)
        self._after = _resident()


class Collector:
    """
    Python's collector of cycles, kept from holding up the reactor.

    What has survived a whole collection is frozen: the next one looks at what came since, some
    thousand objects and not all sessions of all minions. Cycles that were frozen and died later
    need a look at everything, which takes some 20 ms with two thousand sessions. That is done at
    most once in an hour, and only when so much more is frozen than after the last such look that
    it would be worth it: what dies without a cycle leaves by itself.
    """

    log = Logger()

    def __init__(self, reactor: Any) -> None:
        self._loop = LoopingCall(self._everything)
        self._loop.clock = reactor
        self._before = gc.get_threshold()
        self._frozen = 0

    def startService(self) -> None:
        """Freeze what the start has made, without the text of methods that attrs has written."""
        linecache.clearcache()
        gc.collect()
        gc.freeze()
        self._frozen = gc.get_freeze_count()
        gc.set_threshold(*THRESHOLDS)
        gc.callbacks.append(self._collected)
        _forget_how_much()
        let_go(self._loop.start(HOUR, now=False), self.log, "cycles are no longer collected")

    def stopService(self) -> None:
        """As it was."""
        if self._loop.running:
            self._loop.stop()
            gc.callbacks.remove(self._collected)
            gc.set_threshold(*self._before)
            gc.unfreeze()

    @staticmethod
    def _collected(phase: str, info: dict[str, int]) -> None:
        if phase == "stop" and info["generation"] == 2:
            gc.freeze()

    def _everything(self) -> None:
        if gc.get_freeze_count() - self._frozen < GROWN:
            return
        gc.unfreeze()
        gc.collect()
        self._frozen = gc.get_freeze_count()
        _forget_how_much()


def _forget_how_much() -> None:
    """
    Python puts a whole collection off until what has come is a quarter of what the last one left:
    after one of everything that is 40 000 objects, and 20 ms. One of nothing makes it forget.
    """
    gc.collect()


def _resident() -> int:
    """Bytes of this process that are in memory."""
    with open("/proc/self/statm", "rb") as handle:
        return int(handle.read().split()[1]) * PAGE
