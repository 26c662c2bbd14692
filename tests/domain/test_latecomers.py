"""Who gets a job once more that was published right after a master's start."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.latecomers import (
    FIRST_QUESTION,
    MOST_GUESSED,
    SETTLING,
    Coming,
    Latecomers,
)

NOBODY: frozenset[str] = frozenset()


class LatecomersTests(SynchronousTestCase):
    """One job, for three minions, from 0 to 30."""

    def setUp(self) -> None:
        """Nobody has come."""
        self.late = Latecomers()
        self.late.expect("1", ["a", "b", "c"], 0.0, 30.0)

    def test_nobody_comes(self) -> None:
        """While there is no sign of anybody nobody is sent it, and at the end none is awaited."""
        self.assertEqual(self.late.awaited(), {"a", "b", "c"})
        self.assertEqual(self.late.seen(NOBODY, NOBODY, 1.0), {})
        self.assertEqual(self.late.ended(29.9), [])
        self.assertEqual(self.late.ended(30.0), ["1"])
        self.assertEqual(self.late.awaited(), set())

    def test_subscribes(self) -> None:
        """Who subscribes to its topic gets the job at once, and once."""
        self.assertEqual(self.late.seen({"a"}, {"a", "other"}, 1.0), {"1": ["a"]})
        self.assertEqual(self.late.seen({"a"}, {"a"}, 9.0), {})
        self.assertEqual(self.late.awaited(), {"b", "c"})

    def test_is_seen(self) -> None:
        """Who was only seen gets the job when it can be expected to listen, and once."""
        self.assertEqual(self.late.seen({"b"}, NOBODY, 1.0), {})
        self.assertEqual(self.late.seen({"b"}, NOBODY, 1.0 + SETTLING - 0.1), {})
        self.assertEqual(self.late.seen({"b"}, NOBODY, 1.0 + SETTLING), {"1": ["b"]})
        self.assertEqual(self.late.seen({"b"}, NOBODY, 9.0), {})

    def test_goes_and_comes(self) -> None:
        """Who was seen, went, and is seen again can be expected to listen from then."""
        self.late.seen({"b"}, NOBODY, 1.0)
        self.late.seen(NOBODY, NOBODY, 5.0)

        self.assertEqual(self.late.seen({"b"}, NOBODY, 9.0), {})
        self.assertEqual(self.late.seen({"b"}, NOBODY, 9.0 + SETTLING), {"1": ["b"]})

    def test_subscribes_late(self) -> None:
        """Who subscribes after it got the job by the other sign had not heard it, and gets it."""
        self.late.seen({"c"}, NOBODY, 1.0)
        self.late.seen({"c"}, NOBODY, 5.0)

        self.assertEqual(self.late.seen({"c"}, {"c"}, 6.0), {"1": ["c"]})
        self.assertEqual(self.late.seen({"c"}, {"c"}, 7.0), {})

    def test_no_sign(self) -> None:
        """In the middle of the time those get it of whom there was no sign, once; a sign counts."""
        self.late.seen({"b"}, NOBODY, 14.0)

        self.assertEqual(self.late.seen({"b"}, NOBODY, 15.0), {"1": ["a", "c"]})
        self.assertEqual(self.late.seen({"b"}, NOBODY, 16.0), {"1": ["b"]})
        self.assertEqual(self.late.seen({"a", "b", "c"}, NOBODY, 25.0), {})
        self.assertEqual(self.late.seen({"a", "b", "c"}, {"c"}, 26.0), {"1": ["c"]})

    def test_too_many_without_a_sign(self) -> None:
        """Where there is no sign of very many, none of them is guessed to be there."""
        crowd = [f"m{number}" for number in range(MOST_GUESSED + 1)]
        self.late.expect("1", crowd, 0.0, 30.0)

        self.assertEqual(self.late.seen(NOBODY, NOBODY, 15.0), {})
        self.assertEqual(self.late.seen(NOBODY, {"m7"}, 16.0), {"1": ["m7"]})

    def test_too_late(self) -> None:
        """Who comes when the window is over gets nothing, by either sign."""
        self.late.seen({"b"}, NOBODY, 14.0)

        self.assertEqual(self.late.seen({"b"}, {"a"}, 30.0), {})

    def test_has_returned(self) -> None:
        """Who has returned gets nothing; when all have, the job is over."""
        for minion_id in ("a", "b"):
            self.late.returned("1", minion_id)
        self.assertEqual(self.late.seen(NOBODY, {"a", "b"}, 1.0), {})
        self.assertEqual(self.late.ended(1.0), [])

        self.late.returned("1", "c")
        self.late.returned("unknown", "c")

        self.assertEqual(self.late.ended(1.0), ["1"])

    def test_several_jobs(self) -> None:
        """Each job goes to those who miss it, until its own end."""
        self.late.expect("2", ["b", "d"], 0.0, 10.0)

        self.assertEqual(
            self.late.seen(NOBODY, {"a", "b", "d"}, 5.0), {"1": ["a", "b"], "2": ["b", "d"]}
        )
        self.assertEqual(self.late.ended(10.0), ["2"])


class QuestionTests(SynchronousTestCase):
    """A job that was never published before: minions are asked whether they run it."""

    def setUp(self) -> None:
        """At 0, for three minions; who comes within 30 s gets it."""
        self.late = Latecomers()
        self.late.expect("1", ["a", "b", "c"], 0.0, 30.0, asks=True)

    def test_asked(self) -> None:
        """The first question waits for returns, the next ones come ever more seldom, to the end."""
        asked = [second for second in range(40) if self.late.questions(float(second))]

        self.assertEqual(asked, [2, 3, 4, 5, 7, 9, 12, 15, 19, 24])

    def test_idle(self) -> None:
        """Who does not run the job gets it, once, and is not asked again."""
        self.assertEqual(self.late.questions(FIRST_QUESTION), {"1": ["a", "b", "c"]})
        self.assertTrue(self.late.idle("1", "a", 2.5))
        self.assertFalse(self.late.idle("1", "a", 2.6))
        self.assertEqual(self.late.questions(4.0), {"1": ["b", "c"]})

    def test_runs_it(self) -> None:
        """Who runs the job or has returned is not given it, however it answers afterwards."""
        self.late.returned("1", "a")
        self.assertFalse(self.late.idle("1", "a", 2.5))

    def test_stranger(self) -> None:
        """Nobody gets the job by an answer for whom it is not, or when the time is over."""
        self.assertFalse(self.late.idle("1", "other", 2.5))
        self.assertFalse(self.late.idle("2", "a", 2.5))
        self.assertFalse(self.late.idle("1", "a", 30.0))

    def test_not_guessed(self) -> None:
        """What is seen of a minion does not count, since others may be seen at its address."""
        for second in range(30):
            self.assertEqual(self.late.seen({"a", "b"}, NOBODY, float(second)), {})
        self.assertEqual(self.late.seen({"a"}, {"a"}, 20.0), {"1": ["a"]})
        self.assertFalse(self.late.idle("1", "a", 21.0))

    def test_too_many(self) -> None:
        """Very many are not asked: what is seen of them counts."""
        crowd = [f"m{number}" for number in range(MOST_GUESSED + 1)]
        self.late.expect("1", crowd, 0.0, 30.0, asks=True)

        self.assertEqual(self.late.questions(5.0), {})
        self.late.seen({"m7"}, NOBODY, 1.0)
        self.assertEqual(self.late.seen({"m7"}, NOBODY, 1.0 + SETTLING), {"1": ["m7"]})

    def test_parts(self) -> None:
        """A part of the same job that goes out later is waited for with it."""
        self.assertTrue(self.late.more("1", ["d"]))
        self.assertFalse(self.late.more("2", ["d"]))
        self.assertEqual(self.late.awaited(), {"a", "b", "c", "d"})


class ComingTests(SynchronousTestCase):
    """Who is known to come."""

    def test_for_a_while(self) -> None:
        """Until they have come, or their time is over; the accepted one's time is longer here."""
        coming = Coming()
        self.assertFalse(coming)
        coming.expect(["a", "b"], 30.0)
        coming.expect(["new"], 50.0)

        self.assertEqual(coming.of(["a", "b", "c", "new"], 10.0), ["a", "b", "new"])
        coming.is_here("a")
        self.assertEqual(coming.of(["a", "b", "c", "new"], 10.0), ["b", "new"])
        self.assertEqual(coming.of(["a", "b", "c", "new"], 30.0), ["new"])
        self.assertEqual(coming.of(["a", "b", "c", "new"], 50.0), [])
        self.assertFalse(coming)
