"""
The clock of the reactor: the time since the machine was started, sleep included.

Twisted's own goes by the time of day. When somebody sets that back, every timer of the process
waits as much longer; when it is set forward, every silence looks long and all timers fire at once.
The time of day is for what people and other machines are told, and is asked for by name.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any


def run_by_uptime(reactor: Any) -> None:
    """
    Have a reactor's timers go by C{CLOCK_BOOTTIME}; to be called before it has any.

    A machine that was suspended finds its timers due, as it should: others have gone on.
    """
    if not reactor.getDelayedCalls():
        reactor.seconds = partial(time.clock_gettime, time.CLOCK_BOOTTIME)
