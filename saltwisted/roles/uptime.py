"""
The clock of the reactor: the time since the machine was started, sleep included.

Twisted's own goes by the time of day. When somebody sets that back, every timer of the process
waits as much longer; when it is set forward, every silence looks long and all timers fire at once.
The time of day is for what people and other machines are told, and is asked for by name.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any


class LookFirst:
    """
    Has something looked at before anything is read, after each wait of the reactor that took long:
    after a pause of the process (SIGSTOP, a machine that slept) what it held may be another's.

    The reactor reads what has come to its sockets as soon as its wait is over, and looks at its
    timers later. So this stands between the two, as part of the service.
    """

    LONG = 0.5

    def __init__(self, reactor: Any, look: Callable[[], None]) -> None:
        self._reactor, self._look = reactor, look
        self._poller: Any = None
        self._seen = 0.0

    def startService(self) -> None:
        """Start; on a reactor that waits in another way, only timers look."""
        self._seen = self._reactor.seconds()
        poller = getattr(self._reactor, "_poller", None)
        if poller is not None and hasattr(poller, "poll"):
            self._poller = poller
            self._reactor._poller = _Poller(poller, self._waited)

    def stopService(self) -> None:
        """As it was."""
        if self._poller is not None:
            self._reactor._poller, self._poller = self._poller, None

    def _waited(self) -> None:
        now = self._reactor.seconds()
        pause, self._seen = now - self._seen, now
        if pause > self.LONG:
            self._look()


class _Poller:
    """A poller that tells when its wait is over."""

    def __init__(self, poller: Any, waited: Callable[[], None]) -> None:
        self._poller, self._waited = poller, waited

    def poll(self, *args: Any) -> Any:
        """Wait, and tell."""
        found = self._poller.poll(*args)
        self._waited()
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._poller, name)


def run_by_uptime(reactor: Any) -> None:
    """
    Have a reactor's timers go by C{CLOCK_BOOTTIME}; to be called before it has any.

    A machine that was suspended finds its timers due, as it should: others have gone on.
    """
    if not reactor.getDelayedCalls():
        reactor.seconds = partial(time.clock_gettime, time.CLOCK_BOOTTIME)
