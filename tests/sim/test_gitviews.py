"""
Git in a cluster, simulated: partitions, deaths in the middle of anything, remotes out of reach.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.git import following as following_module
from saltwisted.cluster.git import sharing as sharing_module
from saltwisted.cluster.git.backing import BACK_TO
from saltwisted.cluster.git.exchange import PACK, REFS
from saltwisted.cluster.git.ground import served
from saltwisted.cluster.git.hearsay import HERE, Hearsay
from saltwisted.cluster.git.sharing import BESIDE, FIRST, OFFER, UPDATE
from saltwisted.cluster.git.turns import FETCH
from saltwisted.domain.git.agreement import Do, Version, shown
from tests.harness import scratch
from tests.sim.gitviews import KEY, NAMES, REF, Copy, Node, World, chaos, commit, heal

SEEDS = range(40)


class GitViewTests(SynchronousTestCase):
    """Three nodes and one remote."""

    def world(self, seed: int, **how: Any) -> World:
        """Nodes that have just begun."""
        world = World(seed, scratch(self), **how)
        self.addCleanup(lambda: [n.sharing.stopService().close() for n in world.nodes.values()])
        return world

    def test_chaos(self) -> None:
        """
        Whatever happens, no node serves what it lacks or goes back; when all is well again, all
        serve the newest commit as one version.
        """
        for seed in SEEDS:
            world = self.world(seed)
            chaos(world, 25)
            heal(world)

            found = world.served()
            self.assertEqual(world.broken, [], f"seed {seed}")
            self.assertEqual(len(found), 1, f"seed {seed}: {found}")
            self.assertEqual({tip for _, tip in found}, {commit(world.head)}, f"seed {seed}")

    def test_one_moment(self) -> None:
        """While all are linked, all change within the time of a message and of a write."""
        world = self.world(1)
        world.run(30)
        world.head += 1
        began = 0.0
        for _ in range(300):
            world.run(0.1)
            if len(world.served()) > 1:
                began = began or world.clock.seconds()
            elif began:
                break

        self.assertTrue(began)
        self.assertLess(world.clock.seconds() - began, 4.0)

    def test_blind_holder(self) -> None:
        """Who fetches and cannot reach the remote has another node fetch for it."""
        world = self.world(2)
        world.run(30)
        world.blind = {name for name in NAMES if world.nodes[name].sharing.fetches(False)}
        world.head += 1
        world.run(30)

        self.assertEqual({tip for _, tip in world.served()}, {commit(world.head)})

    def test_cut_off(self) -> None:
        """A node that is cut off serves what it had, and says so."""
        world = self.world(3)
        world.run(30)
        (before,) = world.served()
        lone = next(node for node in world.nodes.values() if not node.sharing.fetches(False))
        others = [node for node in world.nodes.values() if node is not lone]
        world.cut({name: int(name == lone.name) for name in NAMES})
        world.head += 1
        world.run(60)

        self.assertEqual(lone.served, before[0])
        self.assertIn("no node that fetches", " ".join(lone.sharing.problems()))
        for node in others:
            self.assertEqual(node.sharing.problems(), [])
            self.assertGreater(node.served, before[0])
        self.assertEqual(world.broken, [])

    def test_without_pillars(self) -> None:
        """
        T-GIT-10: a member without the right to pillars gets no object, ref, error or version of
        C{git_pillar}, whatever it asks for, and never fetches.
        """
        world = self.world(6, is_pillar=True, denied="c")
        world.run(30)
        world.head += 1
        world.run(30)
        tip = commit(world.head)

        denied, others = world.nodes["c"], [world.nodes[name] for name in "ab"]
        self.assertEqual({shown(node.copy.state)[REF][0] for node in others}, {tip})
        self.assertEqual((denied.disk.objects, dict(denied.copy.state)), (set(), {}))
        self.assertFalse(denied.sharing.fetches(True))
        for node in others:
            heard = denied.sharing._hearsay.heard[node.name]
            self.assertEqual(dict(heard.serves), {})
            for word, more in (
                (REFS, {"version": list(node.served)}),
                (PACK, {"wants": [tip], "haves": []}),
                (OFFER, {"refs": {}, "version": [9, 9, 9]}),
                (UPDATE, {}),
                (FETCH, {}),
                (BACK_TO, {"tips": {REF: [tip] * 3}}),
            ):
                refused = node.said_by("c", word, {"key": KEY, **more})
                self.assertIn(
                    "may not have pillars", str(self.failureResultOf(refused).value), word
                )

    def test_read_only(self) -> None:
        """
        T-GIT-10: what a member without the right to write says of versions, of who fetches and of
        what to serve counts for nothing; it never fetches, and serves what the others do.
        """
        world = self.world(7, read_only="c")
        world.run(30)
        (before,) = world.served()
        forged, tip = world.nodes["c"], commit(999)
        forged.disk.objects.add(tip)
        forged.copy.state = {"repo": "r", "refs": {REF: [tip] * 3}, "version": [99, 9, 9]}
        for node in (world.nodes["a"], world.nodes["b"]):
            said = {"serves": {KEY: [99, 9, 9]}, "terms": [10**6, 10**6], "errors": {KEY: "x"}}
            self.successResultOf(node.said_by("c", HERE, said))
            self.assertIn(node.sharing._hearsay.fetcher(False), ("", "a", "b"))
            for word, more in (
                (OFFER, {"refs": {REF: tip}, "version": [99, 9, 9]}),
                (BACK_TO, {"tips": {REF: [tip] * 3}}),
                (FETCH, {}),
            ):
                refused = node.said_by("c", word, {"key": KEY, **more})
                self.assertIn("read-only", str(self.failureResultOf(refused).value), word)
        forged.copy.state = {"repo": "r", "refs": {}, "version": []}
        world.head += 1
        world.run(30)

        self.assertEqual({tip for _, tip in world.served()}, {commit(world.head)})
        self.assertGreater(world.nodes["a"].served, before[0])
        for name in "ab":
            world.kill(name)
        world.run(30)
        self.assertFalse(forged.sharing.fetches(False))

    def test_start(self) -> None:
        """
        A start waits for what is not here at all, for less long where other repositories are
        served, and not for one that has nothing in it, or nothing that may be served.
        """
        known = {"repo": "r", "refs": {REF: [commit(1)] * 3}, "large": {}}
        empty = {"repo": "r", "refs": {}, "large": {}, "version": [0, 1, 1]}
        for states, seconds in (
            ([{}], FIRST),
            ([{}, known], BESIDE),
            ([{}, empty], BESIDE),
            ([known, empty], 0.0),
            ([empty], 0.0),
        ):
            world = self.world(4)
            world.kill("a")
            node = Node(world, "a", world.nodes["a"].disk)
            copies = {str(number): Copy(node) for number in range(len(states))}
            for copy, state in zip(copies.values(), states, strict=True):
                copy.state = state
            self.patch(node, "all", lambda copies=copies: copies)
            begun = Deferred.fromCoroutine(node.sharing.startService())
            self.addCleanup(lambda node=node: node.sharing.stopService().close())
            if seconds:
                world.clock.advance(seconds - 0.2)
                self.assertNoResult(begun)
                world.clock.pump([0.1] * 4)
            self.successResultOf(begun)

    def rolled_back(self, seed: int) -> World:
        """All were rolled back to the first of three commits, by a node that does not fetch."""
        world = self.world(seed)
        world.run(30)
        for _ in range(2):
            world.head += 1
            world.run(15)
        asks = next(node for node in world.nodes.values() if not node.sharing.fetches(False))
        answer = asks.roll_back(1)
        world.run(15)
        told = self.successResultOf(answer)
        self.assertEqual(told, {"changed": 1, "nodes": dict.fromkeys(NAMES, True)})
        self.assertEqual({tip for _, tip in world.served()}, {commit(1)})
        return world

    def test_rollback(self) -> None:
        """
        All serve what they are rolled back to, as one version, also when another one fetches, and
        after a restart of all; a push ends it.
        """
        world = self.rolled_back(4)
        (before,) = world.served()
        holder = next(name for name in NAMES if world.nodes[name].sharing.fetches(False))
        world.kill(holder)
        world.run(60)
        self.assertEqual({tip for _, tip in world.served()}, {commit(1)})
        for name in NAMES:
            if name != holder:
                world.kill(name)
        for name in NAMES:
            world.start(name, world.nodes[name].disk)
        world.run(60)
        self.assertEqual({tip for _, tip in world.served()}, {before[1]})
        self.assertEqual(len(world.served()), 1)

        world.head += 1
        world.run(30)
        self.assertEqual({tip for _, tip in world.served()}, {commit(4)})
        self.assertEqual(world.broken, [])

    def test_rollback_undone(self) -> None:
        """To the newest is no rollback; without a majority none is made, and that is said."""
        world = self.rolled_back(5)
        answer = world.nodes["a"].roll_back(3)
        world.run(15)
        self.successResultOf(answer)
        self.assertEqual({tip for _, tip in world.served()}, {commit(3)})
        self.assertNotIn("back", world.nodes["a"].copy.state)

        world.cut({name: number for number, name in enumerate(NAMES)})
        world.run(30)
        answer = world.nodes["a"].roll_back(1)
        world.run(30)
        self.assertIn("nothing is rolled back", str(self.failureResultOf(answer).value))
        self.assertEqual({tip for _, tip in world.served()}, {commit(3)})

    def test_rollback_bites(self) -> None:
        """A fetch that forgets the rollback is found."""

        def forgets(fetched: Any, served: Any) -> Any:
            return fetched

        with patch.object(sharing_module, "carried", forgets):
            self.assertRaises(AssertionError, self.test_rollback)

    def test_terms_bite(self) -> None:
        """Versions without terms are made twice, and the simulation finds it."""

        def by_number(newest: Version, term: int) -> Version:
            return (0, newest[1] or 1, newest[2] + 1)

        with patch.object(sharing_module, "following", by_number):
            self.assertRaises(AssertionError, self.test_chaos)

    def test_order_bites(self) -> None:
        """Nodes that take whatever they hear go back, and the simulation finds it."""

        def any_other(hearsay: Hearsay, copy: Any) -> list[Any]:
            return [
                (version, link)
                for link, version in hearsay.with_it(copy.shared)
                if version != served(copy)
            ]

        with (
            patch.object(following_module, "heard", lambda *_: Do.BRING),
            patch.object(Hearsay, "ahead", any_other),
        ):
            self.assertRaises(AssertionError, self.test_chaos)
