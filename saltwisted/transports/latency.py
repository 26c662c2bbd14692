"""
How long the reactor delays others: its lateness, and the CPU time of single callbacks.

Lateness is measured by the clock: how much later than requested a timer ran, any timer. On a busy
machine that includes the effect of other processes. To be sure that there is always a timer, the
meter has one of its own: it fires ten times a second while the reactor works, and every few seconds
while it rests, because such wake-ups were most of what a resting daemon cost. The CPU time of one
callback is the thread's own (L{time.thread_time}, so a busy neighbour does not count). It is
measured around every descriptor and every batch of timers that the reactor serves.

A turn of over a quarter of a second is a silence (L{saltwisted.transports.silence}): one callback
that took so long, or many. A turn begins when the reactor has waited, and ends before it waits
again. The alarm that takes the stack is set by the meter's own timer while the reactor works, ten
times a second, so it never comes while the reactor waits for descriptors. While the reactor rests,
which makes few turns, each of them sets the alarm, and its end takes it off: nothing wakes up for
it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from saltwisted.transports.silence import BRIEF, SILENCE, NoWatch, Silences, Turn, Watch
from saltwisted.transports.ticks import next_tick

PERIOD = 0.1
REST = 5.0
"""Seconds from one look to the next while the reactor has little to do."""
LITTLE = 10
"""Descriptors served in one period that are no work worth a closer look."""
RECENT = 10.0
WATCHED = ("_doReadOrWrite", "runUntilCurrent")
"""What a reactor calls for each descriptor, and for its timers."""
LONG = 0.005
"""Seconds of CPU that no callback may use (the house's law)."""


class LatencyMeter:
    """
    Watches one reactor. Reactor thread only.

    @ivar late_max: the worst lateness of a timer, in seconds, since the start.
    @ivar late_recent: the worst of the last ten seconds or so.
    @ivar busy_max: the most CPU time that one callback used, in seconds.
    @ivar busy_long: how many callbacks used more than L{LONG}.
    @ivar busy_who: the kind of the callback that used the most.
    @ivar silences: turns that took so long that everybody had to wait.
    """

    def __init__(self, reactor: Any, watch: Watch | None = None) -> None:
        """
        @param watch: takes the stacks of turns that take too long; none are taken by default.
        """
        self._reactor = reactor
        self._watch = watch or NoWatch()
        self.silences = Silences(self._watch)
        self._timer: Any = None
        self._rests = False
        self._served = 0
        self._turned = 0.0
        self._worst = [0.0, 0.0]
        self._watches: list[Any] = []
        self._used = 0.0
        self._turn = Turn()
        self.late_max = 0.0
        self.busy_max = 0.0
        self.busy_long = 0
        self.busy_who = ""

    def startService(self) -> None:
        """Begin to measure."""
        self._turned = self._reactor.seconds()
        # What is used before the first callback is not that one's: other parts of the daemon start
        self._used = -1.0
        self._turn = Turn()
        self._timer = self._reactor.callLater(PERIOD, self._tick)
        self._instrument()
        if self._watches:
            self._watch.start()

    def stopService(self) -> None:
        """Take the instruments off again."""
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None
        self._rests = False
        self._watch.stop()
        while self._watches:
            self._watches.pop().ended = True
        for name in WATCHED:
            self._take_off(name)

    def _take_off(self, name: str) -> None:
        """
        Take the ended watches off, as far as none that still measures is on top of them: several
        nodes may have one reactor, and end in any order.
        """
        own = vars(self._reactor)
        while getattr(own.get(name), "ended", False):
            below = own[name].below
            if below is None:
                delattr(self._reactor, name)
            else:
                setattr(self._reactor, name, below)

    def _tick(self) -> None:
        now = self._reactor.seconds()
        self._late(now - self._timer.getTime())
        self._watch.starved()
        self._watch.arm()
        self._rests, self._served = self._served <= LITTLE, 0
        pause = next_tick(self._reactor, REST) if self._rests else PERIOD
        self._timer = self._reactor.callLater(pause, self._tick)

    def _late(self, late: float) -> None:
        now = self._reactor.seconds()
        if now - self._turned > RECENT:
            self._worst = [self._worst[1], 0.0]
            self._turned = now
        self.late_max = max(self.late_max, late)
        self._worst[1] = max(self._worst[1], late)

    def _work(self) -> None:
        """A descriptor is about to be served."""
        self._served += 1
        if self._rests and self._served > LITTLE:
            self._rests = False
            self._timer.reset(PERIOD)

    @property
    def late_recent(self) -> float:
        """The worst lateness of the last ten to twenty seconds."""
        return max(self._worst)

    def _instrument(self) -> None:
        """Put a stopwatch around what the reactor calls, where this reactor lets us."""
        reactor = self._reactor
        for name, before in zip(WATCHED, (self._work, self._first), strict=True):
            original = getattr(reactor, name, None)
            if original is None:
                continue
            watch: Any = self._timed(original, name, before)
            watch.ended, watch.below = False, vars(reactor).get(name)
            setattr(reactor, name, watch)
            self._watches.append(watch)

    def _first(self) -> None:
        """The timers are about to run: how late is the first of them."""
        waiting = getattr(self._reactor, "_pendingTimedCalls", None)
        if waiting and not waiting[0].cancelled:
            late = self._reactor.seconds() - waiting[0].getTime()
            if late > self._worst[1]:
                self._late(late)

    def _timed(
        self, original: Callable[..., Any], name: str, first: Callable[[], None]
    ) -> Callable[..., Any]:
        clock, wall = time.thread_time, time.monotonic
        # Each turn of the reactor begins with its timers
        begins = name == "runUntilCurrent"

        def timed(*args: Any) -> Any:
            first()
            if begins or self._used < 0:
                self._used = clock()
            began = wall()
            turn = self._turn
            if not turn.calls:
                turn.began, turn.used = began, self._used
                if self._rests:
                    self._watch.arm()
            try:
                return original(*args)
            finally:
                # Since the last one of this turn ended: waiting for descriptors uses nothing, and
                # asking twice for the CPU's time is a hundredth of a busy node's work
                now = clock()
                used, self._used = now - self._used, now
                if used > self.busy_max:
                    self.busy_max = used
                    self.busy_who = type(args[0]).__name__ if args else name
                if used > LONG:
                    self.busy_long += 1
                ended = wall()
                turn.calls += 1
                if ended - began > turn.longest:
                    turn.longest = ended - began
                    turn.who = type(args[0]).__name__ if args else name
                if begins:
                    if ended - turn.began > SILENCE and self._timer is not None:
                        self.silences.ended(turn, ended - turn.began, now - turn.used)
                    if self._rests:
                        self._watch.disarm()
                    turn.calls, turn.longest = 0, BRIEF

        return timed

    def figures(self) -> dict[str, Any]:
        """What was measured, in milliseconds."""
        return {
            "late_max_ms": round(self.late_max * 1000, 2),
            "late_recent_ms": round(self.late_recent * 1000, 2),
            "callback_cpu_max_ms": round(self.busy_max * 1000, 2),
            "callback_cpu_max_who": self.busy_who,
            "callbacks_over_5ms": self.busy_long,
            **self.silences.figures(),
        }
