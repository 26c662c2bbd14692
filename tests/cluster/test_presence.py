"""
Which minions are at which node.
"""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.jobs import presence
from saltwisted.cluster.jobs.presence import ClusterPresence
from tests.cluster.memory import MemoryPeers


class PresenceTests(SynchronousTestCase):
    """One node that knows no other."""

    def setUp(self) -> None:
        clock = Clock()
        self.merges = 0
        merged = presence.merged_holders

        def counting(parts: list[tuple[str, list[str]]]) -> dict[str, str]:
            self.merges += 1
            return merged(parts)

        self.patch(presence, "merged_holders", counting)
        self.here = ClusterPresence(
            clock, clock.seconds, "a", MemoryPeers("a", clock), lambda: (), lambda ids: set()
        )

    def test_many_come(self) -> None:
        """
        After a restart thousands sign in: none of them costs a look at all the others. Who asks
        afterwards hears of all.
        """
        for number in range(1000):
            self.here.came(f"web{number}")

        self.assertEqual(self.merges, 0)
        self.assertEqual(self.here.holders(), {f"web{number}": "a" for number in range(1000)})
        self.here.holders()
        self.assertEqual(self.merges, 1)
        self.assertEqual(len(self.here.own()), 1000)

    def test_is_elsewhere(self) -> None:
        """A minion that is here may be at other nodes too, as long as they are linked."""
        clock = Clock()
        at = {"a": {"web1"}, "b": {"web1", "web2"}}
        peers = {name: MemoryPeers(name, clock) for name in at}
        a, b = (
            ClusterPresence(
                clock, clock.seconds, name, peers[name], lambda ids=ids: ids, ids.intersection
            )
            for name, ids in at.items()
        )
        for each in (a, b):
            each.startService()
            self.addCleanup(each.stopService)
        self.assertFalse(a.is_elsewhere("web1"))

        peers["a"].join(peers["b"])
        clock.pump([0.01] * 10)
        found = [a.is_elsewhere("web1"), a.is_elsewhere("web2"), b.is_elsewhere("web2")]
        self.assertEqual(found, [True, True, False])

        peers["a"].cut("b")
        self.assertFalse(a.is_elsewhere("web1"))

    def test_replaced(self) -> None:
        """What somebody was given does not change in his hands; who asks again hears the news."""
        self.here.came("web1")
        before = self.here.holders()

        self.here.came("web2")

        self.assertEqual(before, {"web1": "a"})
        self.assertEqual(self.here.holders(), {"web1": "a", "web2": "a"})
