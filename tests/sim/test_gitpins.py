"""
However nodes die, links end and commits come: a run and a job stay on the commits of their
beginning, and a name of a generation means the same on all nodes.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Any
from unittest.mock import patch

from twisted.internet.defer import maybeDeferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.roots.living import RootLiving
from saltwisted.cluster.roots.pins import RootPins
from saltwisted.cluster.roots.ran import RootRan
from saltwisted.domain.git.made import MadeGenerations
from saltwisted.domain.roots import ranon
from tests.harness import scratch
from tests.sim.gitpins import HEARD, Broken, Job, PinNode, PinWorld, Play, Run
from tests.sim.gitviews import NAMES, commit
from tests.sim.play import count

SEEDS = count(8, 200, 20_000)
MANY = ranon.MOST + 20
"""More generations than are kept."""


class PinCase(SynchronousTestCase):
    """What is played."""

    def setUp(self) -> None:
        """Nothing is lost but by what is played."""
        self.patch(os, "fsync", lambda fd: None)

    def world(self, seed: int = 1) -> PinWorld:
        """Three nodes that serve the first commit."""
        world = PinWorld(seed, scratch(self))
        self.addCleanup(world.end)
        world.run(30.0)
        return world

    def begun(self, world: PinWorld, name: str = "a") -> Run:
        """A run that goes on until somebody ends it."""
        world.begin(world.nodes[name])
        world.run(1.0)
        (run,) = world.runs
        run.until = float("inf")
        return run

    def published(self, world: PinWorld, name: str, until: float = 0.0) -> Job:
        """A job, of a minion that returns soon, or then."""
        world.publish(world.nodes[name])
        job = world.jobs[-1]
        job.until = until or world.clock.seconds() + 3.0
        return job

    def push(self, world: PinWorld, number: int = 1) -> None:
        """Each push is served by all that live, and a job runs on it."""
        for _ in range(number):
            world.head += 1
            nodes = [node for node in world.nodes.values() if node.is_alive]
            while {node.tip for node in nodes} != {commit(world.head)}:
                world.run(1.0)
            self.published(world, world.dice.choice(nodes).name)

    def taken(self, world: PinWorld, name: str, nodes: str = "abc") -> list[str]:
        """What C{--generation} with a name comes to on the nodes."""
        return [world.choose(world.nodes[node], name) for node in nodes]

    def stepped(self, world: PinWorld, run: Run) -> None:
        """A step of it has run, at its commits."""
        known = len(world.jobs)
        world._step(run)
        world.run(5.0)
        tips = {job.tip for job in world.jobs[known:]}
        self.assertEqual(tips, {run.tip})

    # scenarios, which a broken rule makes fail

    def all_restarted(self, seed: int) -> None:
        """All nodes are killed a moment after a run and a job have begun."""
        world = self.world(seed)
        world.begin(world.nodes["a"])
        job = self.published(world, "b", float("inf"))
        while not world.runs:
            world.run(0.02)
        world.run(0.03 * seed)
        (run,) = world.runs
        run.until = float("inf")
        for name in NAMES:
            world.kill(name)
        world.head += 1
        world.run(400.0)
        world.up()
        world.run(90.0)

        self.assertEqual(world.broken, [])
        self.assertEqual({node.tip for node in world.nodes.values()}, {commit(world.head)})
        self.assertEqual((run.tip, job.tip, world.counts["taken over"]), (commit(1), commit(1), 1))
        self.assertIn(run, world.runs)
        self.stepped(world, run)
        world.end_all()
        self.assertEqual(world.broken, [])

    def asked(self, world: PinWorld, name: str, job: Job) -> str:
        """The commit that the minion of a job is served by a node, in some seconds."""
        node, found = world.nodes[name], []
        serving = maybeDeferred(node.pins.files, job.minion)
        serving.addCallback(lambda server: found.append((server or node.pins.newest).tip(node)))  # type: ignore[unused-awaitable]
        for _ in range(20):
            if not found:
                world.run(1.0)
        return found[0]

    def come_back(self) -> None:
        """A node hears of a job, and nobody can say on what it runs, until another one is back."""
        world = self.world()
        world.head += 1
        self.push(world)
        between = commit(world.head - 1)
        world.cut({"a": 0, "b": 0, "c": 1})
        world.publish_on(world.nodes["a"], between)
        world.run(10.0)
        job = world.jobs[-1]
        job.until = float("inf")
        world.cut({"a": 0, "b": 1, "c": 0})
        world.run(0.03)
        world.kill("a")
        self.assertEqual(self.asked(world, "c", job), world.nodes["c"].tip)
        world.cut(dict.fromkeys(NAMES, 0))

        self.assertEqual(self.asked(world, "c", job), between)

    def never_served(self, seed: int, back: str = "abc") -> None:
        """All are killed after a job on a commit that was never served, and some come back."""
        world = self.world(seed)
        world.head += 1
        self.push(world)
        between = commit(world.head - 1)
        world.publish_on(world.nodes["a"], between)
        while not world.counts["chosen"]:
            world.run(0.1)
        job = world.jobs[-1]
        job.until = float("inf")
        world.run(0.5 + HEARD * (seed % 3))
        for name in NAMES:
            world.kill(name)
        world.head += 1
        world.run(400.0)
        for name in back:
            world.start(name, world.nodes[name].disk)
        world.run(90.0)

        self.assertEqual(job.tip, between)
        having = [name for name in back if job.jid in world.nodes[name].disk.jobs]
        self.assertEqual({self.asked(world, name, job) for name in having}, {between})
        self.assertEqual(self.taken(world, job.name, back), [between] * len(back))
        self.assertEqual(world.broken, [])

    def late(self) -> None:
        """A run waits for those who could go on with it while many generations come."""
        world = self.world()
        run = self.begun(world)
        run.waits = True
        world.kill("a")
        self.push(world, MANY)
        run.waits = False
        world.run(60.0)

        self.assertEqual((world.broken, world.counts["taken over"]), ([], 1))
        self.assertIn(run.node.name, "bc")
        self.assertEqual(run.tip, commit(1))

    def away(self) -> None:
        """A minion returns while a node that has heard of its job is away."""
        world = self.world()
        job = self.published(world, "a", float("inf"))
        world.run(10.0)
        world.cut({"a": 0, "b": 1, "c": 0})
        job.until = world.clock.seconds()
        # To one of those that hear each other
        while not world.nodes["a"].disk.jobs[job.jid].returned:
            job.heard.pop("b", None)
            world.run(1.0)
        job.heard["b"] = world.clock.seconds()
        world.head += 1
        world.run(20.0)
        world.cut(dict.fromkeys(NAMES, 0))
        world.run(30.0)
        for node in world.nodes.values():
            world._newest(node, job)
        world.run(1.0)

        self.assertEqual(world.broken, [])

    def later(self) -> None:
        """A node is linked when a run has begun already, of which it does not hear for long."""
        self.patch(ranon, "MOST", 6)
        world = self.world()
        world.cut({"a": 0, "b": 0, "c": 1})
        run = self.begun(world)
        run.waits = True
        world.cut(dict.fromkeys(NAMES, 0))
        self.push(world, int(ranon.USED / 6) + 10)

        self.assertEqual((self.taken(world, run.name), world.broken), ([commit(1)] * 3, []))

    def unread(self) -> None:
        """A node is linked to another one before it has read its own disk."""
        world = self.world()
        world.kill("c")
        self.push(world)
        job = self.published(world, "a")
        world.run(10.0)
        for name in "ab":
            world.kill(name)
        for name in "ca":
            world.start(name, world.nodes[name].disk)
            world.run(10.0)

        self.assertEqual(self.taken(world, job.name, "ac"), [commit(2)] * 2)
        self.assertEqual(world.broken, [])


class GitPinTests(PinCase):
    """Three nodes."""

    def test_seeds(self) -> None:
        """Runs and jobs keep their commits, and nodes agree on names, whatever happens."""
        for seed in range(SEEDS):
            Play(seed).run()

    def test_all_restarted(self) -> None:
        """
        A run and a job go on at the same commits after a restart of all, though newer ones are
        served by then; also of those that had just begun.
        """
        for seed in range(8):
            self.all_restarted(seed)

    def test_never_served(self) -> None:
        """
        A minion whose job was begun on a commit that was never served gets this commit from each
        node, after a restart of all, and of those that the job was not begun on.
        """
        for seed in range(3):
            self.never_served(seed)
        self.never_served(2, "bc")

    def test_come_back(self) -> None:
        """Who has given up commits asks a node that has just come back, and has them."""
        self.come_back()

    def test_more_than_are_kept(self) -> None:
        """
        What runs and jobs that have not ended read is known however many generations come, all
        else by the number that is promised; and all nodes say the same of each name.
        """
        world = self.world()
        run = self.begun(world)
        run.waits = True
        self.push(world)
        job = self.published(world, "b", float("inf"))
        self.push(world)
        forgotten = world.jobs[-1]
        self.push(world, MANY)
        newest = world.jobs[-1]
        world.run(2.0)

        for node in world.nodes.values():
            # To take it would be to use it
            self.assertIn(run.name, node.pins.ran.known())
        for each in (job, newest):
            self.assertEqual(self.taken(world, each.name), [each.tip] * 3)
        self.assertEqual(self.taken(world, forgotten.name), [""] * 3)
        for node in world.nodes.values():
            self.assertLessEqual(len(node.pins.ran.known()), ranon.MOST + 2)
        run.waits = False
        world.end_all()
        self.push(world, int(ranon.USED / 6) + 1)
        self.assertEqual(self.taken(world, run.name), [""] * 3)
        self.assertEqual(world.broken, [])

    def test_late_takeover(self) -> None:
        """Another node goes on with a run after more generations than are kept, at its commits."""
        self.late()

    def test_returned_while_away(self) -> None:
        """The minion is served the newest by all nodes, when that one is back."""
        self.away()

    def test_linked_later(self) -> None:
        """It knows what the run reads, as the others do."""
        self.later()

    def test_linked_before_reading(self) -> None:
        """The other one hears of what it has read."""
        self.unread()

    def test_rollback(self) -> None:
        """
        All nodes are rolled back while a run goes on: it reads what it has read, so do the jobs of
        its steps and whoever takes it over; other jobs run on what is served.
        """
        world = self.world()
        self.push(world, 2)
        run = self.begun(world)
        world.nodes["b"].roll_back(1).addErrback(world.failed)
        world.run(20.0)
        self.assertEqual({node.tip for node in world.nodes.values()}, {commit(1)})
        self.assertEqual(self.published(world, "b").tip, commit(1))
        self.stepped(world, run)

        world.kill("a")
        world.run(30.0)
        self.assertEqual((world.counts["taken over"], run.tip), (1, commit(3)))
        self.stepped(world, run)
        world.up()
        self.push(world)
        self.assertEqual(self.taken(world, run.name), [commit(3)] * 3)
        self.stepped(world, run)
        world.end_all()
        self.assertEqual(world.broken, [])


class MutationTests(PinCase):
    """Rules that are broken on purpose must be found out: else the simulation proves nothing."""

    def caught(self, most: int = 60) -> None:
        """One of some seeds breaks a promise."""
        for seed in range(most):
            try:
                Play(seed).run()
            except Broken:
                return
        self.fail(f"{most} seeds broke no promise")

    def refuted(self, scenario: Callable[..., None], *args: Any) -> None:
        """A scenario ends otherwise."""
        self.assertRaises(self.failureException, scenario, *args)

    def nothing(self, *args: Any) -> Awaitable[list[Any]]:
        """Nothing is recorded."""
        return succeed([])

    def test_steps_follow(self) -> None:
        """Jobs of steps that run on what is served then run on other commits than their run."""

        async def follow(self: RootPins, jid: str, fun: object, generation: str) -> None:
            return

        with patch.object(RootPins, "follow", follow):
            self.caught()

    def test_newest_is_read(self) -> None:
        """Who goes on with the newest reads other commits."""

        async def again(self: RootPins, generation: str) -> Any:
            return self.still()

        with patch.object(RootPins, "again", again):
            self.caught()

    def test_pinned_again(self) -> None:
        """Pins that end with the processes leave minions to the newest when all were restarted."""
        with patch.object(PinNode, "unfinished", self.nothing):
            self.refuted(self.all_restarted, 7)

    def test_made_on_disk(self) -> None:
        """Where no disk records it, nobody knows it after a restart of all."""
        with patch.object(MadeGenerations, "rows", lambda self: []):
            self.refuted(self.never_served, 2)

    def test_made_is_learnt(self) -> None:
        """Where nobody learns it beforehand, it is gone with the node on which it was begun."""
        with patch.object(RootPins, "_learn", lambda self, trees, node: None):
            self.refuted(self.never_served, 2, "bc")

    def test_recorded_trees(self) -> None:
        """Who knows a generation by his list alone has lost it when that was not written yet."""
        with (
            patch("saltwisted.cluster.roots.pins.trees_of", lambda said: {}),
            patch("saltwisted.cluster.roots.pinwords.trees_of", lambda said: {}),
        ):
            self.refuted(self.all_restarted, 0)

    def test_returned_elsewhere(self) -> None:
        """Who was away when a minion returned, and is not told, serves it the old commits."""
        with patch.object(RootPins, "returned_elsewhere", lambda self, jid, minion: None):
            self.refuted(self.away)

    def test_returned_meanwhile(self) -> None:
        """Who takes over all pins of a node that was away pins what has returned."""
        with patch.object(PinNode, "returned_ids", self.nothing):
            self.refuted(self.away)

    def test_waiting_runs(self) -> None:
        """A run that nobody goes on with loses its commits where its record does not hold them."""
        with (
            patch.object(RootPins, "_runs", lambda self: {}),
            patch.object(RootPins, "_needed", lambda self: set()),
        ):
            self.refuted(self.late)

    def test_said_again(self) -> None:
        """Where nobody says that a run lives, who has no record of it forgets what it reads."""
        with patch.object(RootLiving, "_say", lambda self: None):
            self.refuted(self.later)

    def test_told_after_the_start(self) -> None:
        """Who says nothing of what he has read from his disk leaves others without it."""
        begin = RootRan.begin

        async def silent(self: RootRan) -> None:
            with patch.object(RootRan, "_tell", lambda self, rows: None):
                await begin(self)

        with patch.object(RootRan, "begin", silent):
            self.refuted(self.unread)

    def test_asked_once_more(self) -> None:
        """Who has given up commits does not ask the node that has them, and has just come back."""

        class Never(dict):  # type: ignore[type-arg]
            def clear(self) -> None:
                pass

        made = PinNode.made

        def stubborn(self: PinNode, path: str) -> RootPins:
            pins = made(self, path)
            pins._given_up = Never()
            return pins

        with patch.object(PinNode, "made", stubborn):
            self.refuted(self.come_back)
