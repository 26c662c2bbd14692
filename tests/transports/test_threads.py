"""
What is done in threads, and how its results come back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import CancelledError
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.transports import turns
from saltwisted.transports.threads import Threads


class Reactor(Clock):
    """Its own time; what threads hand over is called at once, as all of one turn."""

    def callFromThread(self, function: Callable[..., Any], *args: Any) -> None:
        """In this thread."""
        function(*args)


class Pool:
    """Threads that end when the test says so."""

    started = joined = False

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def callInThreadWithCallback(
        self, ended: Callable[[bool, Any], None], function: Callable[..., Any], *args: Any
    ) -> None:
        """Later."""
        self.waiting.append(lambda: ended(True, function(*args)))

    def end(self) -> None:
        """All of them."""
        waiting, self.waiting = self.waiting, []
        for each in waiting:
            each()


class ThreadsTests(SynchronousTestCase):
    """Many calls whose results come in the same turn of the reactor."""

    def setUp(self) -> None:
        self.clock, self.pool, self.used = Reactor(), Pool(), 0.0
        self.threads = Threads(self.clock, 4, "test")
        self.threads._pool = self.pool  # type: ignore[assignment]
        self.patch(turns, "thread_time", lambda: self.used)
        self.told: list[int] = []

    def tell(self, number: int) -> None:
        """What follows a result takes a quarter of a portion."""
        self.used += turns.PORTION / 4
        self.told.append(number)

    def run_many(self, count: int) -> list[Any]:
        """So many calls."""
        return [self.threads.run(int, n).addCallback(self.tell) for n in range(count)]

    def test_turns(self) -> None:
        """A turn has one portion for all of them; the others come in the next, in their order."""
        self.run_many(64)
        self.pool.end()
        self.assertLess(len(self.told), 8)
        counts = []
        while self.clock.calls:
            before, call = len(self.told), self.clock.calls.pop(0)
            call.called = 1
            call.func()
            counts.append(len(self.told) - before)

        self.assertEqual(self.told, list(range(64)))
        self.assertLess(max(counts), 8)

    def test_stopped(self) -> None:
        """At the end all that have a result get it at once, and so do those that come later."""
        self.run_many(64)
        self.pool.end()
        self.run_many(3)
        self.threads.stopService()
        self.pool.end()

        self.assertEqual(len(self.told), 67)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_failure(self) -> None:
        """A failure comes back as one."""

        def end(ended: Callable[[bool, Any], None], function: Any, *args: Any) -> None:
            try:
                function(*args)
            except ValueError:
                ended(False, Failure())

        self.patch(self.pool, "callInThreadWithCallback", end)

        self.failureResultOf(self.threads.run(int, "x"), ValueError)

    def test_cancelled(self) -> None:
        """Who has cancelled is not told again."""
        (waiting,) = self.run_many(1)
        waiting.cancel()
        self.failureResultOf(waiting, CancelledError)
        self.pool.end()

        self.assertEqual(self.told, [])
