"""
When a job may still be published, when a return is safe, and what is a repetition.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.replica.delivery import (
    Acknowledge,
    Closed,
    Copies,
    Offer,
    Publish,
    Repeats,
    Window,
    load_hash,
    merged_holders,
)

J = "20260701120000000000"


class WindowTests(SynchronousTestCase):
    """Node b, of a, b and c; minions m and n are on it for long, o came a second ago."""

    def setUp(self) -> None:
        self.window = Window("b", 0.0, 30.0)
        self.young = Window("b", 90.0, 30.0)
        self.own = {"m": 10.0, "n": 10.0, "o": 99.0}

    def heard(
        self, age: float = 0.1, now: float = 100.0, minions: str = "mnop"
    ) -> list[Publish | Offer]:
        """The job comes from a."""
        found = self.window.job_came(J, list(minions), self.own, age, now)
        self.window.published(J, "a")
        return found

    def test_published_once(self) -> None:
        """A job of another node is published here, once."""
        self.assertEqual(self.heard(), [Publish(J)])
        self.assertEqual(self.heard(), [])

    def test_never_after(self) -> None:
        """A job that is older than the window is never published."""
        self.assertEqual(self.heard(age=30.0), [])
        self.assertEqual(self.window.arrived("p", 100.0), [])

    def test_late(self) -> None:
        """Heard late, it goes to those that were here all the time; of the others it is asked."""
        self.assertEqual(self.heard(age=5.0), [Publish(J, ("m", "n")), Offer(J, ("o",))])
        self.assertEqual(self.heard(age=5.0), [])

    def test_clock_that_was_set(self) -> None:
        """Who came shortly before a job seems to be given may have had it elsewhere."""
        self.own["n"] = 100.0 - 16.0 - 1.3
        self.assertEqual(self.heard(age=16.0), [Publish(J, ("m",)), Offer(J, ("n", "o"))])

    def test_of_before(self) -> None:
        """What was given before this node started may have been published by it: never again."""
        window = Window("b", 98.0, 30.0)

        self.assertEqual(window.job_came(J, ["m"], self.own, 5.0, 100.0), [])
        self.assertEqual(window.reached(J, ["m", "p"], 5.0, 100.0), ["m", "p"])
        self.assertEqual(window.reached(J, ["m"], None, 100.0), ["m"])

    def test_parts_of_a_batch(self) -> None:
        """The next part of a batch comes under the same jid, and is published too."""
        self.assertEqual(self.heard(minions="m"), [Publish(J)])
        self.assertEqual(self.heard(minions="mn"), [Publish(J)])

    def offered(self, **answers: str) -> list[str]:
        """Minion p comes; who gets it when the others have answered."""
        (offer,) = self.window.arrived("p", 110.0)
        self.assertEqual(offer, Offer(J, ("p",)))
        return self.window.answered(offer, answers, 111.0)

    def test_arrives_from_nowhere(self) -> None:
        """Who nobody has reached gets it when he comes, once."""
        self.heard()

        self.assertEqual(self.offered(a="", c=""), ["p"])
        self.assertEqual(self.window.arrived("p", 112.0), [])

    def test_arrives_from_a_node_that_published(self) -> None:
        """Who may have it from another node does not get it here: a minion that was restarted
        does not get its reboot again."""
        self.heard()

        self.assertEqual(self.offered(a="p", c=""), [])

    def test_nobody_can_say(self) -> None:
        """While a node that published it does not answer, nobody gets it by its word."""
        self.heard()

        self.assertEqual(self.offered(c=""), [])

    def test_young(self) -> None:
        """A node that has just started may have published to minions that it does not know: it
        names everybody, and offers nothing."""
        self.young.started(J, ["m", "p"], ["m"], 100.0)

        self.assertEqual(self.young.reached(J, ["p"], 1.0, 101.0), ["p"])
        self.assertEqual(self.young.arrived("p", 102.0), [])

    def test_asked(self) -> None:
        """Who is asked names those that were here, and gives the job to none of the others."""
        self.heard()

        self.assertEqual(self.window.reached(J, ["m", "o", "p"], 1.0, 101.0), ["m", "o"])
        self.assertEqual(self.window.arrived("p", 102.0), [])

    def test_too_late_to_answer(self) -> None:
        """What is answered after the window is not published."""
        self.heard()
        (offer,) = self.window.arrived("p", 110.0)

        self.assertEqual(self.window.answered(offer, {"a": []}, 130.0), [])

    def test_returned(self) -> None:
        """Who has returned never gets it again, also when the return was here first."""
        self.window.returned(J, "o")
        self.heard()
        self.window.returned(J, "p")

        self.assertEqual(self.window.arrived("p", 101.0), [])
        self.assertEqual(self.window.arrived("o", 101.0), [])

    def test_closed(self) -> None:
        """At the end it is known who was not reached, apart from who did not answer."""
        self.heard(minions="mnopq")
        self.assertAlmostEqual(self.window.next_tick() or 0.0, 129.9)
        holders = {"q": "a"}
        self.assertEqual(self.window.tick(129.8, holders), [])

        self.assertEqual(self.window.tick(129.91, holders), [Closed(J, ("p",))])
        self.assertIsNone(self.window.next_tick())

    def test_own(self) -> None:
        """A node's own job may reach who comes later, too."""
        self.window.started(J, ["n", "p"], ["n"], 100.0)

        self.assertEqual(self.heard(minions="np"), [])
        self.assertEqual(self.window.arrived("n", 101.0), [])
        self.assertEqual(self.offered(a="", c=""), ["p"])

    @given(st.lists(st.tuples(st.sampled_from("hptarx"), st.sampled_from("mnop"), st.floats(0, 9))))
    def test_at_most_once(self, events: list[tuple[str, str, float]]) -> None:
        """Whatever happens, each minion is sent a job once at most, and in the window."""
        window, now, sent = Window("b", 0.0, 30.0), 0.0, Counter[str]()
        for kind, minion, step in events:
            now += step
            got: list[str] = []
            if kind == "h":
                for effect in window.job_came(J, list("mnop"), {"m": -9.0, "n": 0.0}, now, now):
                    everybody = isinstance(effect, Publish) and effect.only is None
                    if isinstance(effect, Publish):
                        got += ["m", "n"] if everybody else effect.only or ()
            elif kind == "p":
                window.published(J, "a")
            elif kind == "r":
                window.returned(J, minion)
            elif kind == "t":
                window.tick(now, {})
            elif kind == "x":
                window.reached(J, [minion], now, now)
            else:
                for offer in window.arrived(minion, now):
                    got += window.answered(offer, {"a": []}, now)
            if got:
                self.assertLess(now, 30.0)
                sent.update(got)

        self.assertTrue(all(count == 1 for count in sent.values()), sent)

    def test_nobody_walks(self) -> None:
        """
        When something is due is known without a look at each of a thousand open windows, also of
        those that could not be decided; each window ends at its time.
        """

        class Walked(OrderedDict[str, Any]):
            def values(self) -> Any:
                raise AssertionError("it walks")

            items = values

        self.window._open = Walked()
        for number in range(100):
            self.window.started(f"2026070112000000{number:04d}", ["m"], ["m"], 100.0 + number)
        due = self.window.next_tick()

        closed = [len(self.window.tick(100.0 + now, {})) for now in (29, 30, 31, 200)]

        self.assertEqual((due, closed), (130.0, [0, 1, 1, 98]))
        self.assertIsNone(self.window.next_tick())


class CopiesTests(SynchronousTestCase):
    """Acknowledgements."""

    def setUp(self) -> None:
        """Two copies, a second."""
        self.copies = Copies(2, 1.0)

    def test_two(self) -> None:
        """With two copies it is acknowledged at once, in order."""
        for number, minion in enumerate("mno", 1):
            self.assertEqual(self.copies.stored(number, J, minion, 2, 10.0), [])
        self.assertTrue(self.copies.is_waiting(J, "m"))

        found = self.copies.confirmed(2)

        self.assertEqual(found, [Acknowledge(J, "m", 2), Acknowledge(J, "n", 2)])
        self.assertFalse(self.copies.is_waiting(J, "m"))
        self.assertTrue(self.copies.is_waiting(J, "o"))

    def test_one(self) -> None:
        """After a second one copy has to do, and it says so."""
        self.copies.stored(1, J, "m", 1, 10.0)
        self.copies.stored(2, J, "n", 1, 10.5)
        self.assertEqual(self.copies.next_tick(), 11.0)

        self.assertEqual(self.copies.tick(11.0), [Acknowledge(J, "m", 1)])
        self.assertEqual(self.copies.confirmed(2), [Acknowledge(J, "n", 2)])
        self.assertIsNone(self.copies.next_tick())

    def test_alone(self) -> None:
        """Without a linked node there is nothing to wait for."""
        self.copies.stored(1, J, "m", 1, 10.0)

        self.assertEqual(self.copies.alone(), [Acknowledge(J, "m", 1)])
        self.assertEqual(self.copies.stored(2, J, "n", 0, 10.0), [Acknowledge(J, "n", 1)])
        self.assertEqual(Copies(1).stored(1, J, "m", 5, 10.0), [Acknowledge(J, "m", 1)])


class RepeatTests(SynchronousTestCase):
    """C{jid: req}."""

    def test_recognised(self) -> None:
        """A return that another node took is recognised for five minutes, by what it says."""
        repeats, digest = Repeats(), load_hash(b"load")
        repeats.remember("m", digest, J, "a", 10.0)
        repeats.remember("m", digest, "another", "c", 11.0)

        self.assertEqual(repeats.jid_of("m", digest, "b", 309.0), J)
        self.assertIsNone(repeats.jid_of("m", digest, "b", 310.0))
        self.assertIsNone(repeats.jid_of("n", digest, "b", 11.0))
        self.assertIsNone(repeats.jid_of("m", load_hash(b"other"), "b", 11.0))
        self.assertIsNone(repeats.jid_of("m", digest, "a", 11.0))

    def test_forgotten(self) -> None:
        """What is too old is not kept."""
        repeats = Repeats()
        for number in range(10):
            repeats.remember("m", load_hash(b"%d" % number), J, "a", number * 100.0)

        self.assertEqual(len(repeats._seen), 3)

    def test_holders(self) -> None:
        """Where two nodes claim a minion, the later word counts."""
        self.assertEqual(merged_holders([("a", ["m", "n"]), ("b", ["n"])]), {"m": "a", "n": "b"})
