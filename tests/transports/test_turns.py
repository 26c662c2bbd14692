"""
What comes by itself is worked on in turns of the reactor.

A turn is as short as it may be here: it ends after each thing.
"""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.transports import turns
from saltwisted.transports.turns import Line
from tests.master.test_automation_turns import one_turn


class LineTests(SynchronousTestCase):
    """A line."""

    def setUp(self) -> None:
        """Nothing stands in it."""
        self.clock = Clock()
        self.done: list[int] = []
        self.stood: list[bool] = []
        self.line: Line[int] = Line(self.clock, self.done.append, self.stood.append)

    def test_at_once(self) -> None:
        """While it is short, all is done at once, and nobody hears of a line."""
        self.patch(turns, "PORTION", 3600.0)

        for thing in range(100):
            self.line.put(thing)

        self.assertEqual(self.done, list(range(100)))
        self.assertEqual((self.stood, self.clock.getDelayedCalls()), ([], []))

    def test_in_turns(self) -> None:
        """One turn does one portion, in order; whoever brings more is told when to wait."""
        self.patch(turns, "PORTION", -1.0)
        for thing in range(5):
            self.line.put(thing)
        seen = [list(self.done)]

        while self.clock.getDelayedCalls():
            one_turn(self.clock)
            seen.append(list(self.done))
        self.clock.advance(1)

        self.assertEqual(seen[0], [])
        self.assertEqual([len(each) for each in seen], [0, 1, 2, 3, 4, 5])
        self.assertEqual(self.done, list(range(5)))
        self.assertEqual(self.stood, [True, False])

    def test_in_between(self) -> None:
        """What comes out of the work itself stands behind the rest."""
        self.patch(turns, "PORTION", 3600.0)

        def work(thing: int) -> None:
            self.done.append(thing)
            if thing < 3:
                line.put(thing + 10)

        line: Line[int] = Line(self.clock, work)
        for thing in range(5):
            line.put(thing)

        self.assertEqual(self.done, [0, 10, 1, 11, 2, 12, 3, 4])

    def test_one_fails(self) -> None:
        """One whose work fails keeps nobody else from its turn."""
        self.patch(turns, "PORTION", -1.0)

        def work(thing: int) -> None:
            if thing == 1:
                raise ValueError(thing)
            self.done.append(thing)

        line: Line[int] = Line(self.clock, work)
        for thing in range(3):
            line.put(thing)
        one_turn(self.clock)
        self.assertRaises(ValueError, one_turn, self.clock)
        one_turn(self.clock)

        self.assertEqual(self.done, [0, 2])

    def test_drain_and_stop(self) -> None:
        """At the end all that stands is done, or nothing any more; no timer stays."""
        self.patch(turns, "PORTION", -1.0)
        for thing in range(3):
            self.line.put(thing)
        self.line.drain()
        self.assertEqual((self.done, self.stood), ([0, 1, 2], [True, False]))

        self.line.put(3)
        self.line.stop()
        self.line.put(4)
        self.clock.advance(1)

        self.assertEqual(self.done, [0, 1, 2])
        self.assertEqual(self.stood, [True, False, True, False])
        self.assertEqual(self.clock.getDelayedCalls(), [])
