"""
When a job may still be published, when a return is safe, and what is a repetition.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.replica.delivery import (
    Acknowledge,
    Closed,
    Copies,
    Publish,
    Repeats,
    Window,
    load_hash,
    merged_holders,
)

J = "20260701120000000000"


class WindowTests(SynchronousTestCase):
    """Node b, of a, b and c."""

    def setUp(self) -> None:
        """Minion m is on a, n on b, and o nowhere."""
        self.window = Window("b", 30.0)
        self.holders = {"m": "a", "n": "b"}

    def heard(self, age: float = 1.0, now: float = 100.0, minions: str = "mno") -> list[Publish]:
        """The job comes from a."""
        return self.window.heard(J, minions, self.holders, age, now)

    def test_published_once(self) -> None:
        """A job of another node is published here, once."""
        self.assertEqual(self.heard(), [Publish(J)])
        self.assertEqual(self.heard(), [])

    def test_never_after(self) -> None:
        """A job that is older than the window is never published."""
        self.assertEqual(self.heard(age=30.0), [])
        self.assertEqual(self.window.arrived("o", 100.0), [])

    def test_parts_of_a_batch(self) -> None:
        """The next part of a batch comes under the same jid, and is published too."""
        self.assertEqual(self.heard(minions="m"), [Publish(J)])
        self.assertEqual(self.heard(minions="mn"), [Publish(J)])

    def test_arrives_from_nowhere(self) -> None:
        """Who was nowhere gets it when he comes, once, and only within the window."""
        self.heard()

        self.assertEqual(self.window.arrived("o", 110.0), [Publish(J, ("o",))])
        self.assertEqual(self.window.arrived("o", 111.0), [])
        self.heard(minions="p")
        self.assertEqual(self.window.arrived("p", 129.5), [])

    def test_arrives_from_a_node_that_published(self) -> None:
        """Who was on a node that published it has it: a minion that was restarted does not
        get its reboot again."""
        self.heard()
        self.window.published(J, "a")

        self.assertEqual(self.window.arrived("m", 101.0), [])
        self.assertEqual(self.window.arrived("n", 101.0), [])

    def test_arrives_from_a_node_that_died(self) -> None:
        """Who was on a node that never said that it published gets it here."""
        self.heard()

        self.assertEqual(self.window.arrived("m", 101.0), [Publish(J, ("m",))])

    def test_returned(self) -> None:
        """Who has returned never gets it again."""
        self.heard()
        self.window.returned(J, "o")

        self.assertEqual(self.window.arrived("o", 101.0), [])

    def test_returned_before(self) -> None:
        """A return may come before its job: its minion does not get it again either."""
        self.window.returned(J, "o")
        self.heard()

        self.assertEqual(self.window.arrived("o", 101.0), [])

    def test_closed(self) -> None:
        """At the end it is known who was not reached, apart from who did not answer."""
        self.heard()
        self.window.published(J, "a")
        self.assertEqual(self.window.next_tick(), 129.0)
        self.assertEqual(self.window.tick(128.9), [])

        self.assertEqual(self.window.tick(129.0), [Closed(J, ("o",))])
        self.assertIsNone(self.window.next_tick())

    def test_own(self) -> None:
        """A node's own job reaches who comes later, too."""
        self.window.started(J, ["n", "o"], self.holders, 100.0)

        self.assertEqual(self.heard(), [Publish(J)])
        self.assertEqual(self.window.arrived("n", 101.0), [])
        self.assertEqual(self.window.arrived("o", 101.0), [Publish(J, ("o",))])

    @given(st.lists(st.tuples(st.sampled_from("hptar"), st.sampled_from("mno"), st.floats(0, 9))))
    def test_at_most_once(self, events: list[tuple[str, str, float]]) -> None:
        """Whatever happens, a minion is sent a job once by its name at most, and in the window."""
        window, now, sent, first = Window("b", 30.0), 0.0, [], None
        for kind, minion, step in events:
            now += step
            effects: list[Publish] = []
            if kind == "h":
                age = now + 1.0
                effects = window.heard(J, "mno", self.holders, age, now)
                if effects:
                    self.assertLess(age, 30.0)
                    first = now
            elif kind == "p":
                window.published(J, "a")
            elif kind == "r":
                window.returned(J, minion)
            elif kind == "t":
                window.tick(now)
            else:
                effects = window.arrived(minion, now)
                sent += [minion for _ in effects]
            if effects:
                assert first is not None
                self.assertLess(now, 29.0)

        self.assertEqual(len(sent), len(set(sent)))


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
