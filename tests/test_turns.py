"""
All who wait for a turn of the reactor share it, fairly.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from saltwisted import turns
from saltwisted.stores.jobs import delivery
from saltwisted.stores.jobs.delivery import Delivery
from saltwisted.stores.jobs.writes import Write
from saltwisted.transports import turns as lines
from saltwisted.transports.turns import Line, in_turns
from tests.master.test_automation_turns import one_turn


class SharedTurnsTests(SynchronousTestCase):
    """A reactor whose turns are shared, and CPU that only work uses."""

    def setUp(self) -> None:
        self.clock, self.used = Clock(), 0.0
        self.addCleanup(sys.setswitchinterval, sys.getswitchinterval())
        turns.share(self.clock)
        self.addCleanup(turns._SHARED.pop, self.clock)
        for module in (turns, lines, delivery):
            self.patch(module, "thread_time", lambda: self.used)
        self.patch(lines, "perf_counter", lambda: self.used)
        self.shared = turns.turns_of(self.clock)
        self.done: list[str] = []

    def call(self, name: str, seconds: float) -> Callable[[], None]:
        """Something that uses so much."""

        def work() -> None:
            self.used += seconds
            self.done.append(name)

        return work

    def turn(self) -> float:
        """One turn of the reactor; what it used."""
        before = self.used
        one_turn(self.clock)
        return self.used - before

    def test_one_portion(self) -> None:
        """Ten that wait use one portion in a turn together, in order; the last may overdraw it."""
        for n in range(10):
            self.shared.later(self.call(str(n), turns.PORTION / 3))
        used = []
        while self.clock.calls:
            used.append(self.turn())

        self.assertEqual("".join(self.done), "0123456789")
        self.assertLess(max(used), turns.PORTION * 1.5)

    def test_nobody_starves(self) -> None:
        """Whoever comes back at once with more waits behind the others."""

        def greedy() -> None:
            self.call("g", turns.PORTION * 2)()
            self.shared.later(greedy)

        self.shared.later(greedy)
        self.shared.later(self.call("x", 0.0))
        self.turn()
        self.turn()

        self.assertEqual(self.done, ["g", "x", "g"])

    def test_one_fails(self) -> None:
        """The others still have their turn."""
        self.shared.later(lambda: 1 / 0)
        self.shared.later(self.call("x", 0.0))
        self.assertRaises(ZeroDivisionError, self.turn)
        self.turn()

        self.assertEqual(self.done, ["x"])

    def test_cancelled(self) -> None:
        """Who does not wait any more is not called."""
        self.shared.later(self.call("x", 0.0)).cancel()
        self.turn()

        self.assertEqual(self.done, [])

    def test_lines_and_loops(self) -> None:
        """
        Five lines, five loops and a disk for which forty wait, each with more than a portion to do:
        a turn of the reactor is no longer than with one of them.
        """
        told = self.call("w", turns.PORTION / 8)
        writes = [Write(size=1) for _ in range(40)]
        for write in writes:
            write.done.addCallback(lambda _: told())
        Delivery(self.clock, SimpleNamespace(streams=None)).written(writes)  # type: ignore[arg-type]
        self.assertLess(self.used, turns.PORTION)
        for n in range(5):
            call = self.call(str(n), turns.PORTION / 8)
            line: Line[int] = Line(self.clock, lambda _, call=call: call())
            before = self.used
            for thing in range(40):
                line.put(thing)
            self.assertLess(self.used - before, turns.PORTION)

        async def loop(name: str) -> None:
            call = self.call(name, turns.PORTION / 8)
            async for _ in in_turns(self.clock, range(40)):
                call()

        loops = [Deferred.fromCoroutine(loop(name)) for name in "abcde"]
        used = []
        while self.clock.calls:
            used.append(self.turn())

        for each in loops:
            self.successResultOf(each)
        self.assertEqual(
            {name: self.done.count(name) for name in "w01234abcde"},
            dict.fromkeys("w01234abcde", 40),
        )
        self.assertLess(max(used), turns.PORTION * 1.5)

    def test_found_room(self) -> None:
        """What was done at once makes the next turn shorter, and then there is no more room."""
        self.shared.later(self.call("x", turns.PORTION * 0.6))
        self.shared.later(self.call("y", turns.PORTION * 0.6))
        self.assertTrue(self.shared.has_room)
        self.shared.spent(turns.PORTION)
        self.assertFalse(self.shared.has_room)
        self.turn()

        self.assertEqual(self.done, ["x"])
        self.assertTrue(self.shared.has_room)

    def test_T_COST_3_threads(self) -> None:
        """A thread that computes gives the interpreter to the reactor within a millisecond."""
        self.addCleanup(sys.setswitchinterval, sys.getswitchinterval())
        clock = Clock()
        self.addCleanup(turns._SHARED.pop, clock, None)

        turns.share(clock)

        self.assertLessEqual(sys.getswitchinterval(), 0.001)

    def test_own(self) -> None:
        """A clock that nobody shares, as that of a simulation, has a turn for each."""
        clock = Clock()
        own = turns.turns_of(clock)
        for n in range(3):
            own.later(self.call(str(n), 1.0))
        self.assertEqual(len(clock.calls), 3)
        one_turn(clock)

        self.assertEqual(self.done, ["0", "1", "2"])
        self.assertEqual(own.left(1.0), 1.0)
