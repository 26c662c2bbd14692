"""
One wake-up for everything that is done periodically.

The CPU use of an idle process depends on how often it wakes up: each wake-up costs some tenths of a
millisecond before a line of ours runs. So timers that may fire a moment early or late fire
together, at the whole seconds of the reactor's clock.
"""

from __future__ import annotations

from math import floor
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall


def next_tick(clock: Any, seconds: float) -> float:
    """
    Seconds until the last tick that is no later than C{seconds} from now; up to one less.

    @param seconds: one or more.
    """
    now = float(clock.seconds())
    return floor(now + seconds) - now


def start_on_ticks(loop: LoopingCall, seconds: float, now: bool = False) -> Deferred[LoopingCall]:
    """
    Begin a loop that fires at the ticks: from its second time on, or from its third if C{now}.

    @param seconds: whole ones; a loop with others finds its own way.
    """
    d: Deferred[LoopingCall] = loop.start(seconds, now)
    if loop.starttime is not None:
        loop.starttime = floor(loop.starttime)
    return d
