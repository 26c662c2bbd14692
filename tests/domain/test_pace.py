"""
Many that sign in again at once are let in evenly, and none waits longer than stock minions do.
"""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.pace import BURST, LATE, SLOWEST, WITHIN, Pace

TICK = 0.01


def times(crowd: int) -> list[float]:
    """When each of so many that come in one moment is let in."""
    pace = Pace()
    now, waiting, let_in = 1000.0, crowd, []
    while waiting:
        room = pace.room(now, waiting)
        pace.took(room)
        waiting -= room
        let_in += [now - 1000.0] * room
        now += max(TICK, pace.delay(1))
    return let_in


class PaceTests(SynchronousTestCase):
    def test_few(self) -> None:
        """A few do not wait at all."""
        self.assertEqual(set(times(BURST)), {0.0})

    def test_bounded(self) -> None:
        """Beyond the first few, no second sees more than the rate, and all of a crowd are let in
        within the promised time, or at the slowest rate sooner."""
        for crowd in (100, 300, 1000, 10_000):
            let_in = times(crowd)
            rate = max(SLOWEST, crowd / WITHIN)
            self.assertEqual(len(let_in), crowd)
            self.assertLessEqual(let_in[-1], crowd / rate + 2 * TICK)
            for begin in (0.0, 0.5, 1.0, 2.0, 3.0):
                within = sum(begin <= moment < begin + 0.5 for moment in let_in)
                self.assertLessEqual(
                    within, rate / 2 + max(BURST, rate * (LATE + TICK)), (crowd, begin)
                )

    def test_the_last_do_not_wait_longer(self) -> None:
        """The rate does not fall while the crowd shrinks, and does when it is gone."""
        pace = Pace()
        pace.room(0.0, 8000)
        pace.room(1.0, 100)
        self.assertEqual(pace.rate, 8000 / WITHIN)

        pace.room(2.0, 0)

        self.assertEqual(pace.rate, SLOWEST)

    def test_clock(self) -> None:
        """A clock that steps back takes nothing away, and gives nothing twice."""
        pace = Pace()
        pace.took(pace.room(100.0, 1000))
        self.assertEqual(pace.room(50.0, 1000), 0)
        self.assertLessEqual(pace.room(50.01, 1000), 3)
