from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from tests.sim.play import count
from tests.sim.world import Broken, World

HOME: dict[str, Any] = {"master_failback": True, "master_failback_interval": 3}


class SimTests(SynchronousTestCase):
    def test_seeds(self) -> None:
        """However masters and network fail, the minion keeps its promises when all is well."""
        for seed in range(count(20, 200, 10_000)):
            World(seed).run()

    def test_it_can_fail(self) -> None:
        """A minion whose links give up is found out."""

        def plan(world: World) -> None:
            world.clock.callLater(5, world.kill, world.masters[0])
            world.clock.callLater(15, world.revive, world.masters[0])

        World(0, ("str", 1, {}), plan).run()
        world = World(0, ("str", 1, {}), plan)
        for link in world.links.links:
            link._rested = lambda: None  # type: ignore[method-assign]

        self.assertRaises(Broken, world.run)

    def test_same_seed_same_world(self) -> None:
        """A seed says everything: two runs of it are the same."""
        first, second = World(7), World(7)
        first.run()
        second.run()

        self.assertEqual(first.story, second.story)
        self.assertEqual(first.clock.seconds(), second.clock.seconds())
        self.assertEqual(
            [master.returns for master in first.masters],
            [master.returns for master in second.masters],
        )


class FoundTests(SynchronousTestCase):
    """What the simulation has found once."""

    def test_moved_without_a_word(self) -> None:
        """The only master is at another address; nobody ends the old connection, heartbeats do."""

        def plan(world: World) -> None:
            world.clock.callLater(20, world.move, world.masters[0])

        World(0, ("str", 1, {}), plan).run()

    def test_request_on_the_way_home(self) -> None:
        """A request under way while the minion goes back to its first master is answered."""
        outcomes: list[Any] = []
        asked = count(300, 3000, 3000)

        def ask(world: World) -> None:
            asking: Deferred[Any] = Deferred.fromCoroutine(world.links.request({"cmd": "_ask"}))
            _ = asking.addBoth(outcomes.append)

        def plan(world: World) -> None:
            world.clock.callLater(5, world.kill, world.masters[0])
            world.clock.callLater(30, world.revive, world.masters[0])
            world.clock.callLater(20, lambda: self.assertTrue(world.links.links[1].up))
            world.clock.callLater(50, lambda: self.assertTrue(world.links.links[0].up))
            for number in range(asked):
                world.clock.callLater(20 + 30 * number / asked, ask, world)

        World(0, ("failover", 2, HOME), plan).run()

        self.assertEqual(outcomes, [None] * asked)
