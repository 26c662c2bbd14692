"""
Whatever the order in which nodes change the publish key, no minion loses a job by it.
"""

from __future__ import annotations

from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.facts import rotation
from saltwisted.minion.channel import Session
from saltwisted.minion.publications import Publications
from saltwisted.minion.upkeep import Upkeep
from saltwisted.wire.crypticle import SessionKey
from tests.sim.play import count
from tests.sim.rotation import Broken, World

INF = float("inf")
LOST_BY_OURS = 4
LOST_BY_STOCK = 1
"""Seeds."""


class RotationTests(SynchronousTestCase):
    """Keys are deleted on all nodes again and again, and jobs are given meanwhile."""

    def test_seeds(self) -> None:
        """
        Each job comes to each minion once, and ours sign in for no change, also where changes come
        more quickly than they do.
        """
        changes = 0
        for seed in range(2, 2 + count(4, 20, 100)):
            self.patch(rotation, "SPACING", 5.0 * (seed % 2))
            world = World(seed).run()
            changes += world.nodes[0].rotation._used
        self.assertGreater(changes, 12)

    def test_it_can_fail(self) -> None:
        """
        Found out: minions that sign in for what they cannot read, and give up what the newest key
        does not open; nodes that do not wait for the sign-ins of stock minions.
        """
        # Both take more changes than there are
        self.patch(rotation, "SPACING", 0.0)
        read_held = Publications.read_held
        with (
            mock.patch.object(Upkeep, "_want_keys", lambda upkeep: upkeep._again.soon()),
            mock.patch.object(Session, "readable", _the_newest),
            mock.patch.object(
                Publications, "read_held", lambda publications, _: read_held(publications, INF)
            ),
        ):
            lost = self.assertRaises(Broken, World(LOST_BY_OURS).run)
        self.assertIn("ours: ", str(lost))

        world = World(LOST_BY_STOCK)
        for node in world.nodes:
            node.rotation._settled = lambda: True
        lost = self.assertRaises(Broken, world.run)
        self.assertIn("stock: ", str(lost))


def _the_newest(session: Session, now: float, signed: bool) -> list[SessionKey]:
    """Only what was told last."""
    return [key for key in (session.publish_key, session.next_key) if key is not None]
