"""
One bounded pool of threads, for calls that release the interpreter lock.

RSA, hashing, file reads, SQLite and C{fsync} belong here. Pure Python of any
length does not: it would take the lock from the reactor. It belongs in a worker process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool
from twisted.python.threadpool import ThreadPool


class Threads:
    """A pool that is part of the service: started with it, and joined at its end."""

    def __init__(self, reactor: Any, size: int, name: str) -> None:
        self._reactor = reactor
        self._pool = ThreadPool(minthreads=0, maxthreads=size, name=name)
        self.name = name

    def startService(self) -> None:
        """Accept calls."""
        self._pool.start()

    def stopService(self) -> None:
        """Wait for the calls that run, and end the threads."""
        if self._pool.started and not self._pool.joined:
            self._pool.stop()

    def run(self, function: Callable[..., Any], *args: Any) -> Deferred[Any]:
        """Call in a thread; the Deferred fires in the reactor thread with the result."""
        d: Deferred[Any] = deferToThreadPool(self._reactor, self._pool, function, *args)
        return d

    def start(self, function: Callable[[], Any]) -> None:
        """Call in a thread, and want nothing back."""
        self._pool.callInThread(function)
