"""
The delayed calls of a share, each under a name of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred


class Timers:
    """Under each name, at most one call waits."""

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self._calls: dict[str, Any] = {}
        self._ended = False

    def later(self, name: str, delay: float, act: Callable[[], Any]) -> None:
        """Do something after that many seconds; this replaces a call that waits under this name."""
        self.never(name)
        if not self._ended:
            self._calls[name] = self._reactor.callLater(delay, act)

    def at_latest(self, name: str, delay: float, act: Callable[[], Any]) -> None:
        """
        Do something after that many seconds, unless it is done earlier anyway: to ask for it again
        and again puts off nothing.
        """
        soon = self._reactor.seconds() + delay
        if not (self.waits(name) and self._calls[name].getTime() <= soon):
            self.later(name, delay, act)

    def waits(self, name: str) -> bool:
        """Whether something waits under this name."""
        call = self._calls.get(name)
        return call is not None and bool(call.active())

    def never(self, name: str) -> None:
        """Cancel the call that waits under this name."""
        if self.waits(name):
            self._calls[name].cancel()

    def pause(self, seconds: float) -> Deferred[None]:
        """Fires after that time."""
        d: Deferred[None] = Deferred()
        self._reactor.callLater(seconds, d.callback, None)
        return d

    def end(self) -> None:
        """Begin nothing any more."""
        self._ended = True
        for name in self._calls:
            self.never(name)
        self._calls.clear()
