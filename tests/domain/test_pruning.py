from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.replica.pruning import TRIAL, PruneClock

NOW, DAY = 1_800_000_000.0, 86400.0


class PruneClockTests(SynchronousTestCase):
    def test_agreed(self) -> None:
        """Time is the middle one of clocks that agree, and goes on with the runtime."""
        clock = PruneClock()

        clock.compare(NOW, 50.0, ["b", "c"], {"b": NOW + 10, "c": NOW + 20}, "a")

        self.assertEqual(clock.time(NOW + 5, 55.0), NOW + 15)

    def test_own_clock_jumps(self) -> None:
        """A clock that was set between two comparisons prunes nothing, and it is said."""
        clock = PruneClock()
        clock.compare(NOW, 50.0, ["b"], {"b": NOW}, "a")

        self.assertIsNone(clock.time(NOW + 2 * DAY, 51.0))

        self.assertIn("this node's clock was set forward by 48.0 h", clock.problem)

    def test_clocks_differ(self) -> None:
        """While one clock is more than a minute off, nobody prunes; whose clock it is is said."""
        clock = PruneClock()
        others = ["b", "c"]
        clock.compare(NOW, 50.0, others, {"b": NOW, "c": NOW - 61}, "a")
        self.assertIsNone(clock.time(NOW, 50.0))
        self.assertIn("the clock of c is 61 s behind", clock.problem)

        clock.compare(NOW + DAY, 60.0, others, {"b": NOW, "c": NOW}, "a")
        self.assertIn("this node's clock is 24.0 h ahead of", clock.problem)

        clock.compare(NOW + 20, 70.0, others, {"b": NOW + 20, "c": NOW - 30}, "a")
        self.assertEqual((clock.time(NOW + 20, 70.0), clock.problem), (NOW + 20, ""))

    def test_wrong_from_the_start(self) -> None:
        """Who has never heard a majority prunes nothing; who has heard one goes on without it."""
        clock = PruneClock()
        others = ["b", "c"]
        clock.compare(NOW + 2 * DAY, 50.0, others, {}, "a")
        self.assertIsNone(clock.time(NOW + 2 * DAY, 50.0))
        self.assertIn("no majority", clock.problem)

        clock.compare(NOW, 60.0, others, {"b": NOW}, "a")
        clock.compare(NOW + 100, 160.0, others, {}, "a")

        self.assertEqual(clock.time(NOW + 100, 160.0), NOW + 100)

    def test_removed_members(self) -> None:
        """Clocks of nodes that are not members do not count."""
        clock = PruneClock()

        clock.compare(NOW, 50.0, ["b"], {"b": NOW, "gone": NOW + DAY}, "a")

        self.assertEqual(clock.time(NOW, 50.0), NOW)

    def test_alone(self) -> None:
        """A master without peers believes a clock that jumped when it has stayed for an hour."""
        clock = PruneClock()
        clock.compare(NOW, 50.0, [], {})
        self.assertEqual(clock.time(NOW, 50.0), NOW)

        for second in range(0, int(TRIAL), 600):
            clock.compare(NOW + DAY + second, 60.0 + second, [], {})
            self.assertIsNone(clock.time(NOW + DAY + second, 60.0 + second))

        clock.compare(NOW + DAY + TRIAL, 60.0 + TRIAL, [], {})
        self.assertEqual(clock.time(NOW + DAY + TRIAL, 60.0 + TRIAL), NOW + DAY + TRIAL)

    def test_alone_for_a_moment(self) -> None:
        """A clock that was wrong for six seconds has done nothing."""
        clock = PruneClock()
        clock.compare(NOW, 50.0, [], {})
        clock.compare(NOW + 2 * DAY, 60.0, [], {})
        self.assertIsNone(clock.time(NOW + 2 * DAY, 60.0))

        clock.compare(NOW + 16, 66.0, [], {})

        self.assertEqual((clock.time(NOW + 16, 66.0), clock.problem), (NOW + 16, ""))

    def test_set_back(self) -> None:
        """A clock that was set back prunes nothing either."""
        clock = PruneClock()
        clock.compare(NOW, 50.0, ["b"], {"b": NOW}, "a")

        self.assertIsNone(clock.time(NOW - DAY, 51.0))

        self.assertIn("this node's clock was set back by 24.0 h", clock.problem)

    def test_set_twice(self) -> None:
        """A clock that jumps again is on trial from then on."""
        clock = PruneClock()
        clock.compare(NOW, 50.0, [], {})
        clock.compare(NOW + DAY, 60.0, [], {})
        clock.compare(NOW + 2 * DAY, 60.0 + TRIAL / 2, [], {})

        clock.compare(NOW + 2 * DAY + TRIAL / 2, 60.0 + TRIAL, [], {})
        self.assertIsNone(clock.time(NOW + 2 * DAY + TRIAL / 2, 60.0 + TRIAL))

        clock.compare(NOW + 2 * DAY + TRIAL, 60.0 + 1.5 * TRIAL, [], {})
        self.assertIsNotNone(clock.time(NOW + 2 * DAY + TRIAL, 60.0 + 1.5 * TRIAL))

    def test_the_wrong_one_is_gone(self) -> None:
        """Who can reach nobody any more goes on by the time that was agreed before."""
        clock = PruneClock()
        others = ["b", "c"]
        clock.compare(NOW, 50.0, others, {"b": NOW, "c": NOW}, "a")
        clock.compare(NOW + 10, 60.0, others, {"b": NOW + 10, "c": NOW + DAY}, "a")
        self.assertIsNone(clock.time(NOW + 10, 60.0))

        clock.compare(NOW + 20, 70.0, others, {}, "a")

        self.assertEqual((clock.time(NOW + 20, 70.0), clock.problem), (NOW + 20, ""))
