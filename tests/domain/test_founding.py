"""
Who founds a cluster, by what the listed peers have answered.
"""

from __future__ import annotations

from itertools import product

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.replica.founding import Answer, Found, JoinPeer, Wait, decide

NOBODY = Answer(reason="refused")
MYSELF = Answer(myself=True)


class FoundingTests(SynchronousTestCase):
    """L{decide}."""

    def test_alone(self) -> None:
        """Without peers, or with one's own name alone, a node founds."""
        self.assertEqual(decide("b", [], {}), Found())
        self.assertEqual(decide("b", ["b:1"], {"b:1": MYSELF}), Found())

    def test_smallest_founds(self) -> None:
        """Of nodes that all have answered the one with the smallest id founds, and no other."""
        nodes = ["a", "b", "c"]
        for own in nodes:
            answers = {n: MYSELF if n == own else Answer(node=n) for n in nodes}

            step = decide(own, nodes, answers)

            self.assertEqual(isinstance(step, Found), own == "a", own)

    def test_waits_for_the_silent(self) -> None:
        """One that has not answered is waited for and named, whoever is the smallest."""
        step = decide("a", ["a", "b", "c"], {"a": MYSELF, "b": Answer(node="b"), "c": NOBODY})

        self.assertEqual(step, Wait(("c (refused)",)))

    def test_joins_a_cluster(self) -> None:
        """Whoever has a cluster is joined, also while others are silent."""
        answers = {"b": NOBODY, "c": Answer(node="c", cluster="x")}

        self.assertEqual(decide("a", ["b", "c"], answers), JoinPeer("c"))

    def test_same_id(self) -> None:
        """A peer with our own id is told of, never founded beside."""
        step = decide("a", ["x"], {"x": Answer(node="a")})

        self.assertIsInstance(step, Wait)

    def test_never_two(self) -> None:
        """Whatever is lost on the way, no two of three nodes found in one round."""
        nodes = ["a", "b", "c"]
        for heard in product((True, False), repeat=6):
            pairs = iter(heard)
            founders = 0
            for own in nodes:
                answers = {
                    n: MYSELF if n == own else Answer(node=n) if next(pairs) else NOBODY
                    for n in nodes
                }
                founders += isinstance(decide(own, nodes, answers), Found)
            self.assertLessEqual(founders, 1)
