"""
Logins in a simulated cluster: a handful of seeds here, more by C{python -m tests.sim.logins}.
"""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.sim.logins import LoginWorld

SEEDS = 6


class LoginSimulation(SynchronousTestCase):
    def test_seeds(self) -> None:
        """Whatever breaks in between, all nodes know the same tokens, and none that was deleted."""
        tokens = deleted = 0
        for seed in range(SEEDS):
            world = LoginWorld(seed)
            world.run()
            tokens, deleted = tokens + len(world.digests), deleted + len(world.ended)

        # A disk that was set back unnoticed: found by digests, which once left tokens out
        LoginWorld(1203).run()

        self.assertGreater(tokens, 20)
        self.assertGreater(deleted, 10)
