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

    def test_replaced(self) -> None:
        """What somebody was given does not change in his hands; who asks again hears the news."""
        self.here.came("web1")
        before = self.here.holders()

        self.here.came("web2")

        self.assertEqual(before, {"web1": "a"})
        self.assertEqual(self.here.holders(), {"web1": "a", "web2": "a"})
