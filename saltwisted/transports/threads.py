"""
One bounded pool of threads, for calls that release the interpreter lock.

RSA, hashing, file reads, SQLite and C{fsync} belong here. Pure Python of any
length does not: it would take the lock from the reactor. It belongs in a worker process.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.threadpool import ThreadPool

from saltwisted.transports import turns
from saltwisted.transports.turns import Line

Result = tuple[Deferred[Any], Any]


class Threads:
    """
    A pool that is part of the service: started with it, and joined at its end.

    Of many results that come together, those of one turn of the reactor share a portion of it: what
    follows one may take 0.3 ms, and 64 requests that waited for the same disk would be 16.
    """

    def __init__(self, reactor: Any, size: int, name: str) -> None:
        self._reactor = reactor
        self._pool = ThreadPool(minthreads=0, maxthreads=size, name=name)
        self._results: Line[Result] = Line(reactor, _fire)
        self._results.portion = turns.PORTION
        self.name = name

    def startService(self) -> None:
        """Accept calls."""
        self._pool.start()

    def stopService(self) -> None:
        """Wait for the calls that run, and end the threads."""
        if self._pool.started and not self._pool.joined:
            self._pool.stop()
        # Nothing is left for a turn that may not come
        self._results.portion = inf
        self._results.drain()

    def run(self, function: Callable[..., Any], *args: Any) -> Deferred[Any]:
        """Call in a thread; the Deferred fires in the reactor thread with the result."""
        done: Deferred[Any] = Deferred()

        def ended(success: bool, result: Any) -> None:
            self._reactor.callFromThread(self._results.put, (done, result))

        self._pool.callInThreadWithCallback(ended, function, *args)
        return done

    def start(self, function: Callable[[], Any]) -> None:
        """Call in a thread, and want nothing back."""
        self._pool.callInThread(function)


def _fire(result: Result) -> None:
    """With a value or a failure, unless whoever waited has cancelled."""
    done, value = result
    if not done.called:
        done.callback(value)
