"""
Name lookups in separate threads, with a time limit.

The system's resolver may take half a minute to fail if a name server is unreachable. In the
daemon's shared pool, a few such names would delay its keys and messages, and also its end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, fail
from twisted.python.failure import Failure

LIMIT = 15.0
"""Seconds after which an answer is not waited for any more."""
MOST = 16
"""Look-ups at once, with those that nobody waits for any more; more fail at once."""


def in_thread(work: Callable[[], None]) -> None:
    """Run it in a thread that no end of the process waits for."""
    threading.Thread(target=work, name="names", daemon=True).start()


class LookUps:
    """Runs blocking lookups."""

    def __init__(
        self, reactor: Any, start: Callable[[Callable[[], None]], None] = in_thread
    ) -> None:
        self._reactor = reactor
        self._start = start
        self._running = 0

    def run(self, function: Callable[..., Any], *args: Any) -> Deferred[Any]:
        """
        Call it in a thread; the Deferred fires in the reactor's thread.

        It fails with C{OSError} after L{LIMIT} seconds, or when too many others are under way.
        """
        if self._running >= MOST:
            return fail(OSError("too many names are being looked up; the name servers are silent"))
        self._running += 1
        d: Deferred[Any] = Deferred()

        def done(result: Any) -> None:
            self._running -= 1
            if not d.called:
                d.callback(result)

        def work() -> None:
            try:
                result = function(*args)
            except Exception:
                result = Failure()
            self._reactor.callFromThread(done, result)

        def late(result: Any, seconds: float) -> Any:
            raise OSError(f"the name servers have not answered for {seconds:.0f} s")

        self._start(work)
        return d.addTimeout(LIMIT, self._reactor, late)
