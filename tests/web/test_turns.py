"""
Long work of many requests shares the turns of the reactor.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.web import turns as turns_module
from saltwisted.web.turns import FIRST, PORTION, Turns


class Turning(Clock):
    """A clock whose turns are those of a reactor: what asks for another turn is not called yet."""

    def turn(self, times: int = 1) -> None:
        """Call what is due now."""
        for _ in range(times):
            for call in [each for each in self.calls if each.getTime() <= self.seconds()]:
                self.calls.remove(call)
                call.called = 1
                call.func(*call.args, **call.kw)


class TurnsTests(SynchronousTestCase):
    """Turns."""

    def setUp(self) -> None:
        self.clock = Turning()
        self.used = 0.0
        self.done = 0
        self.patch(turns_module, "thread_time", lambda: self.used)
        self.turns = Turns(self.clock)

    def work(self, steps: int, each: float = PORTION / 10) -> Iterator[int]:
        """So many steps, of so many seconds of CPU each."""
        for number in range(steps):
            self.used += each
            self.done += 1
            yield number

    def begin(self, steps: Iterator[Any]) -> Deferred[list[Any]]:
        """Have steps done."""
        return Deferred.fromCoroutine(self.turns.all(steps))

    def test_short(self) -> None:
        """What takes a few steps is done at once."""
        self.assertEqual(self.successResultOf(self.begin(self.work(FIRST - 1))), [0, 1, 2])

    def test_shared(self) -> None:
        """However many have long work, one turn of the reactor has one portion of it, for all."""
        waiting = [self.begin(self.work(100)) for _ in range(64)]
        for _ in range(50):
            before = self.used
            self.clock.turn()
            self.assertLess(self.used - before, PORTION * 1.5)
        for each in waiting:
            self.assertNoResult(each)
        self.clock.turn(700)

        for each in waiting:
            self.assertEqual(self.successResultOf(each), list(range(100)))

    def test_fails(self) -> None:
        """Who asked for work that fails is told why, and others are not harmed."""

        def bad() -> Iterator[int]:
            yield from range(FIRST + 3)
            raise ValueError("no")

        failing, good = self.begin(bad()), self.begin(self.work(50))
        self.clock.turn(20)

        self.failureResultOf(failing, ValueError)
        self.assertEqual(len(self.successResultOf(good)), 50)

    def test_gone(self) -> None:
        """Nothing more is done for somebody who has gone."""
        waiting = self.begin(self.work(1000))
        self.clock.turn()
        waiting.cancel()
        self.failureResultOf(waiting)
        done = self.done
        self.clock.turn(20)

        self.assertEqual(self.done, done)
        self.assertEqual(self.clock.getDelayedCalls(), [])
