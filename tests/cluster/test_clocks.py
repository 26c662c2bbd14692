"""
Members tell each other what time it is, and history is kept while they do not agree.
"""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.links.clocks import WORD, Clocks
from saltwisted.wire.msgpack import pack_bin
from tests.cluster.memory import MemoryPeers

NOW = 1_800_000_000.0


class ClocksTests(SynchronousTestCase):
    """Three nodes; each has a clock that somebody may set."""

    def setUp(self) -> None:
        """All agree."""
        self.clock = Clock()
        self.off = dict.fromkeys("abc", 0.0)
        self.peers = {name: MemoryPeers(name, self.clock) for name in "abc"}
        self.nodes = {name: self.make(name) for name in "abc"}
        for one, other in ("ab", "ac", "bc"):
            self.peers[one].join(self.peers[other])
        for node in self.nodes.values():
            node.startService()
            self.addCleanup(node.stopService)
        self.addCleanup(self.flushLoggedErrors)

    def make(self, name: str) -> Clocks:
        return Clocks(
            self.clock,
            name,
            self.peers[name],
            lambda: [each for each in "abc" if each != name],
            lambda: NOW + self.clock.seconds() + self.off[name],
            self.clock.seconds,
        )

    def passes(self, seconds: int) -> None:
        """Time, with all that happens in it."""
        self.clock.pump([0.25] * (4 * seconds))

    def times(self) -> list[float | None]:
        """What each node takes for the time, as seconds of the test."""
        found = [node.time() for node in self.nodes.values()]
        return [None if at is None else round(at - NOW) for at in found]

    def test_agreed(self) -> None:
        """All know the time, also if one is a little off."""
        self.off["b"] = 20.0
        self.passes(60)

        self.assertEqual(self.times(), [60, 60, 60])

    def test_set_for_six_seconds(self) -> None:
        """A clock that is two days ahead for six seconds prunes nothing, from the first moment."""
        self.passes(60)
        self.off["a"] = 172800.0

        # Whoever asks for the status is not told of the last comparison
        self.assertIn("set forward by 48.0 h", self.nodes["a"].problem)
        self.assertEqual(self.times(), [None, 60, 60])

        self.passes(6)
        self.off["a"] = 0.0
        self.passes(60)
        self.assertEqual(self.times(), [126, 126, 126])
        self.assertEqual(self.nodes["a"].problem, "")

    def test_set_for_good(self) -> None:
        """While one clock is wrong nobody prunes, and all say whose it is."""
        self.off["c"] = -172800.0
        self.passes(60)

        self.assertEqual(self.times(), [None, None, None])
        for name in "ab":
            self.assertIn("the clock of c is 48.0 h behind", self.nodes[name].problem)
        self.assertIn("this node's clock is 48.0 h behind", self.nodes["c"].problem)

    def test_told(self) -> None:
        """Whoever asks hears again and again by how much the others are ahead."""
        told: list[dict[str, float]] = []
        self.nodes["a"].on_compared.append(lambda ahead: told.append(dict(ahead)))
        self.off["b"] = 700.0
        self.passes(60)
        self.assertEqual({name: round(off) for name, off in told[-1].items()}, {"b": 700, "c": 0})

        self.off["b"] = 0.0
        self.passes(60)
        self.assertEqual({name: round(off) for name, off in told[-1].items()}, {"b": 0, "c": 0})

    def test_cut_off_and_wrong(self) -> None:
        """Who starts with a wrong clock and reaches nobody does not know the time."""
        for other in "bc":
            self.peers["a"].cut(other)
        self.off["a"] = 172800.0
        self.passes(60)

        self.assertEqual(self.times(), [None, 60, 60])
        self.assertIn("no majority", self.nodes["a"].problem)

    def test_nonsense(self) -> None:
        """A member that answers something else than a time does not keep the others from it."""
        self.peers["b"]._answers[WORD] = lambda peer, body: pack_bin("noon")
        self.passes(60)

        self.assertEqual(self.nodes["a"].time(), NOW + 60)

    def test_no_answer(self) -> None:
        """A member that is linked and does not say what time it is has said nothing."""

        for other in "bc":
            self.peers[other]._answers[WORD] = lambda peer, body: Deferred()
        self.off["a"] = 172800.0
        self.passes(60)

        self.assertIsNone(self.nodes["a"].time())
        self.assertIn("no majority", self.nodes["a"].problem)
