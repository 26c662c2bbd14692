"""
How long the reactor keeps others waiting: its lateness, and the CPU of single callbacks.

Lateness is by the clock: how much later than asked a timer ran. On a busy
machine that includes other processes. The CPU of one callback is the thread's own
(L{time.thread_time}, so a busy neighbour does not count) and is measured around
every descriptor and every batch of timers that the reactor serves.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from saltwisted.transports.loose import let_go

PERIOD = 0.1
LONG = 0.005
"""Seconds of CPU that no callback may use (the house's law)."""


class LatencyMeter:
    """
    Watches one reactor. Reactor thread only.

    @ivar late_max: the worst lateness of a timer, in seconds, since the start.
    @ivar late_recent: the worst of the last ten seconds or so.
    @ivar busy_max: the most CPU that one callback used, in seconds.
    @ivar busy_long: how many callbacks used more than L{LONG}.
    @ivar busy_who: the kind of the callback that used the most.
    """

    log = Logger()

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self._expected = 0.0
        self._ticks = 0
        self._worst = [0.0, 0.0]
        self._undo: list[Callable[[], None]] = []
        self._loop = LoopingCall(self._tick)
        self._loop.clock = reactor
        self.late_max = 0.0
        self.busy_max = 0.0
        self.busy_long = 0
        self.busy_who = ""

    def startService(self) -> None:
        """Begin to measure."""
        self._expected = self._reactor.seconds() + PERIOD
        let_go(self._loop.start(PERIOD, now=False), self.log, "latency is not measured any more")
        self._instrument()

    def stopService(self) -> None:
        """Take the instruments off again."""
        if self._loop.running:
            self._loop.stop()
        while self._undo:
            self._undo.pop()()

    def _tick(self) -> None:
        now = self._reactor.seconds()
        late = max(now - self._expected, 0.0)
        self._expected = now + PERIOD
        self.late_max = max(self.late_max, late)
        self._worst[1] = max(self._worst[1], late)
        self._ticks += 1
        if self._ticks % 100 == 0:
            self._worst = [self._worst[1], 0.0]

    @property
    def late_recent(self) -> float:
        """The worst lateness of the last ten to twenty seconds."""
        return max(self._worst)

    def _instrument(self) -> None:
        """Put a stopwatch around what the reactor calls, where this reactor lets us."""
        reactor = self._reactor
        for name in ("_doReadOrWrite", "runUntilCurrent"):
            original = getattr(reactor, name, None)
            if original is None:
                continue
            setattr(reactor, name, self._timed(original, name))
            self._undo.append(partial(delattr, reactor, name))

    def _timed(self, original: Callable[..., Any], name: str) -> Callable[..., Any]:
        clock = time.thread_time

        def timed(*args: Any) -> Any:
            before = clock()
            try:
                return original(*args)
            finally:
                used = clock() - before
                if used > self.busy_max:
                    self.busy_max = used
                    self.busy_who = type(args[0]).__name__ if args else name
                if used > LONG:
                    self.busy_long += 1

        return timed

    def figures(self) -> dict[str, Any]:
        """What was measured, in milliseconds."""
        return {
            "late_max_ms": round(self.late_max * 1000, 2),
            "late_recent_ms": round(self.late_recent * 1000, 2),
            "callback_cpu_max_ms": round(self.busy_max * 1000, 2),
            "callback_cpu_max_who": self.busy_who,
            "callbacks_over_5ms": self.busy_long,
        }
