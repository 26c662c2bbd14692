"""
Whose password is judged next, and how long a refusal takes.
"""

from __future__ import annotations

import random

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.tries import (
    AT_ONCE,
    IN_ALL,
    LANE,
    LEAST,
    MOST,
    OF_PLACE,
    OF_USER,
    REMEMBERED,
    REST,
    WINDOW,
    Slowness,
    Tries,
    Try,
)


class TriesTests(SynchronousTestCase):
    """One line of tries."""

    def setUp(self) -> None:
        """A line, and seconds."""
        self.line = Tries()
        self.now = 100.0

    def judged(self, refused: bool = True) -> Try | None:
        """The next one, judged at once."""
        mine = self.line.take(self.now)
        if mine is not None:
            self.line.done(mine, refused, self.now)
        return mine

    def test_rest(self) -> None:
        """After a refusal a user from a place rests, and a place or a user alone much less."""
        for user, source in (("fred", "a"), ("fred", "a"), ("ann", "a"), ("fred", "b")):
            self.line.offer("pam", user, source, self.now)
        first = self.judged()
        assert first is not None
        self.assertEqual((first.user, first.source), ("fred", "b"), "who came last")

        self.assertEqual(self.line.pause(self.now), 0.0)
        second = self.judged()
        assert second is not None
        self.assertEqual((second.user, second.source), ("ann", "a"), "another user and place")
        self.assertIsNone(self.judged())
        self.assertEqual(self.line.pause(self.now), OF_PLACE, "longer than the user's")
        self.now += OF_PLACE
        third = self.judged()
        assert third is not None
        self.assertEqual((third.user, third.source), ("fred", "a"))
        self.now += OF_PLACE + OF_USER
        self.assertIsNone(self.judged(), "one user from one place rests longer")
        self.now += REST
        self.assertIsNotNone(self.judged())
        self.assertTrue(self.line.idle)

    def test_success_rests_not(self) -> None:
        """Who is let in may log in again at once."""
        for _ in range(3):
            self.line.offer("pam", "fred", "a", self.now)

        self.assertEqual(
            [self.judged(refused=False) is None for _ in range(4)], [False] * 3 + [True]
        )

    def test_one_at_a_time(self) -> None:
        """One user from one place is judged once at a time; all together as many as can be."""
        self.line.offer("pam", "fred", "a", self.now)
        self.line.offer("pam", "fred", "a", self.now)
        mine = self.line.take(self.now)
        self.assertIsNone(self.line.take(self.now))
        self.assertEqual(self.line.pause(self.now), None, "when that one is done")
        for number in range(AT_ONCE + 1):
            self.line.offer("pam", f"u{number}", f"s{number}", self.now)

        taken = [self.line.take(self.now) for _ in range(AT_ONCE)]

        self.assertEqual([each is None for each in taken], [False] * (AT_ONCE - 1) + [True])
        assert mine is not None
        self.line.done(mine, True, self.now)
        self.assertIsNotNone(self.line.take(self.now))

    def test_room(self) -> None:
        """What is full makes room: the oldest of the lane, or of the place that fills it."""
        self.line.offer("pam", "fred", "a", self.now)
        self.judged(refused=True)
        first, _ = self.line.offer("pam", "fred", "a", self.now)
        for _ in range(LANE - 1):
            self.assertIsNone(self.line.offer("pam", "fred", "a", self.now)[1])
        self.assertEqual(self.line.offer("pam", "fred", "a", self.now)[1], first)

        for number in range(IN_ALL - LANE):
            self.assertIsNone(self.line.offer("pam", f"u{number}", "b", self.now)[1])
        mine, out = self.line.offer("pam", "ann", "c", self.now)
        assert out is not None
        self.assertEqual((out.user, out.source), ("u0", "b"))
        self.assertEqual(self.judged(), mine)

    def test_many_at_once(self) -> None:
        """Who was not refused of late logs in as often at once as there is room."""
        for _ in range(4 * LANE):
            self.assertIsNone(self.line.offer("pam", "fred", "a", self.now)[1])
        for _ in range(4 * LANE):
            self.assertIsNotNone(self.judged(refused=False))
        self.line.offer("pam", "fred", "a", self.now)
        self.judged(refused=True)
        out = [self.line.offer("pam", "fred", "a", self.now)[1] for _ in range(2 * LANE)]
        self.assertEqual(sum(each is not None for each in out), LANE)

    def test_nobody_is_kept_out(self) -> None:
        """T-EAUTH-4: under any flood from elsewhere the first try from a new place is next."""
        dice = random.Random(4)
        for _ in range(20):
            self.line = Tries()
            for _ in range(1000):
                for _ in range(dice.randrange(4)):
                    place = f"s{dice.randrange(50)}"
                    self.line.offer("pam", dice.choice(["fred", "ann", "eve"]), place, self.now)
                self.judged(refused=True)
                self.now += dice.random() / 10
            mine, out = self.line.offer("pam", "fred", "home", self.now)
            self.assertNotEqual(out, mine)
            self.now += OF_USER
            self.assertEqual(self.judged(refused=False), mine)

    def test_guesses_are_slow(self) -> None:
        """T-EAUTH-4: one place guesses one user's password once a second, whatever it sends."""
        guesses = 0
        for _ in range(6000):
            self.line.offer("pam", "fred", "a", self.now)
            guesses += self.judged() is not None
            self.now += 0.01
        self.assertLessEqual(guesses, 61)

        guesses = 0
        for number in range(6000):
            self.line.offer("pam", f"user{number}", "a", self.now)
            guesses += self.judged() is not None
            self.now += 0.01
        self.assertLessEqual(guesses, 60 / OF_PLACE + 1, "of all users together")

        guesses = 0
        for number in range(6000):
            self.line.offer("pam", "fred", f"place{number}", self.now)
            guesses += self.judged() is not None
            self.now += 0.01
        self.assertLessEqual(guesses, 60 / OF_USER + 1, "from all places together")

    def test_bounded(self) -> None:
        """What is remembered of whoever came is bounded."""
        for number in range(5000):
            self.line.offer("pam", f"u{number}", f"s{number}", self.now)
            self.judged()
        self.assertLessEqual(len(self.line._served), REMEMBERED)
        self.now += REST
        self.line.offer("pam", "fred", "a", self.now)
        self.judged()
        self.assertLessEqual(len(self.line._rests), 3)

    def test_withdrawn(self) -> None:
        """Who went away is not judged."""
        mine, _ = self.line.offer("pam", "fred", "a", self.now)
        self.line.withdraw(mine)
        self.line.withdraw(mine)
        self.assertIsNone(self.judged())
        self.assertTrue(self.line.idle)


class SlownessTests(SynchronousTestCase):
    """How long refusals take."""

    def test_slowest_of_late(self) -> None:
        """At least a second, at most ten; the slowest judgement counts five minutes, then falls."""
        slowness = Slowness()
        self.assertEqual(slowness.seconds(1000.0, 0.0), LEAST)
        slowness.judged(3.0, 1001.0)
        slowness.judged(2.0, 1002.0)
        self.assertEqual(slowness.seconds(1002.0, 0.0), 3.0)
        slowness.judged(60.0, 1003.0)
        self.assertEqual(slowness.seconds(1003.0, 0.0), MOST)
        self.assertEqual(slowness.seconds(1003.0 + WINDOW - 5, 0.0), MOST)
        slowness.judged(2.0, 1004.0 + WINDOW)
        self.assertEqual(slowness.seconds(1005.0 + 2 * WINDOW, 0.0), 2.0)
        self.assertEqual(slowness.seconds(1003.0 + 9 * WINDOW, 0.0), LEAST)

    def test_dice(self) -> None:
        """Dice add up to a quarter, so that those who were refused together come back apart."""
        slowness = Slowness()
        slowness.judged(4.0, 1000.0)
        self.assertEqual(slowness.seconds(1000.0, 0.5), 4.5)
        self.assertEqual(slowness.seconds(1000.0, 1.0), 5.0)

        slowness.judged(9.0, 1001.0)
        self.assertEqual(slowness.seconds(1001.0, 1.0), MOST)
