"""
Three real nodes under job load, one of them killed, stopped or cut off every few seconds.

Afterwards, as L{Storm.judge} asks: two nodes that live answer C{test.ping '*'} in full while
the third is dead, and it does when it is back; every return that was acknowledged, and every
return of a job that a minion ran, is on every node (one that was acknowledged with one copy
once its node is back, and all are back by then), but for those that a stock minion says it
gave up; nobody ran a job twice; all nodes print the same; the key directories are equal byte for
byte.
"""

from __future__ import annotations

import os
import random
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.errors import RemoteError, TransportClosed
from saltwisted.worker.control import ControlClient
from tests.bench.fleets import Fleet
from tests.cluster.real import OurNode, join_all
from tests.harness import OurMinion, StockMinion, reserve_ports, scratch, until, write_config
from tests.interop.network import Hub

LONG = os.environ.get("SALTWISTED_LONG") == "1"
SECONDS = float(os.environ.get("SALTWISTED_STORM", "300" if LONG else "60"))
SEED = int(os.environ.get("SALTWISTED_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
LEAST = 3
"""Blows; fewer try nothing."""
PACE = 0.7
"""Seconds between two jobs."""
PATIENCE = 240.0
"""Seconds for a stock minion to notice that a request is lost (60) and to try again."""


class Load:
    """Jobs, one after another, each given to a node that lives; what they did is on disk."""

    def __init__(self, folder: str, dice: random.Random) -> None:
        self.folder = folder
        self.dice = dice
        self.jobs: dict[str, int] = {}
        self.refused = 0
        os.makedirs(folder)

    def one(self, living: Sequence[OurNode]) -> None:
        """Give one job to a random living node."""
        number = len(self.jobs) + self.refused + 1
        client = ControlClient(path=self.dice.choice(living).socket_path, timeout=5.0)
        try:
            done = client.call(
                "publish",
                tgt="*",
                fun="cmd.run",
                arg=[
                    f"echo {number} >> {self.folder}/{{{{ grains.id }}}}",
                    {"__kwarg__": True, "template": "jinja"},
                ],
            )
            self.jobs[str(done["jid"])] = number
        except (TransportClosed, RemoteError, TimeoutError, KeyError, TypeError):
            self.refused += 1
        finally:
            client.close()

    def ran(self, minion: str) -> list[int]:
        """The numbers of the jobs that a minion with a disk ran, in that order."""
        try:
            with open(f"{self.folder}/{minion}") as file:
                return [int(line) for line in file.read().split()]
        except FileNotFoundError:
            return []


class Storm(SynchronousTestCase):
    """
    The blows and what must be true afterwards.

    @cvar blows: what may happen to a node; C{drop} and C{part} need hosts of their own.
    @ivar hub: where the minions are, when the nodes are on hosts of their own.
    @ivar story: what was done, and when.
    """

    blows: tuple[str, ...] = ("kill", "stop")
    hub: Hub | None = None
    nodes: list[OurNode]
    fleets: list[Fleet]
    minions: dict[str, Any]

    def begin(self, **options: Any) -> None:
        """Three nodes; with a hub, each on its own host."""
        self.dice = random.Random(SEED)
        self.home = scratch(self)
        self.journal = os.path.join(self.home, "journal")
        self.minions, self.fleets, self.story = {}, [], [f"seed {SEED}"]
        ports = reserve_ports(3)
        self.nodes = []
        for number, name in enumerate("abc"):
            host = self.hub.hosts[number] if self.hub else None
            address = host.address if host else f"127.0.0.{number + 1}"
            node = OurNode(self.home, name, address, ports, **options)
            if host:
                node.argv = host.inside(node.argv)
            self.addCleanup(node.kill)
            self.nodes.append(node)
        join_all(self.nodes)

    @property
    def addresses(self) -> list[str]:
        """Of the nodes."""
        return [node.address for node in self.nodes]

    def inside(self, argv: list[str]) -> list[str]:
        """A command where the minions are."""
        return self.hub.inside(argv) if self.hub else argv

    def minion(self, kind: str, name: str, **options: Any) -> None:
        """A stock one of this version, or C{ours}."""
        made: Any = (
            OurMinion(self.home, self.nodes[0], name)
            if kind == "ours"
            else StockMinion(self.home, kind, self.nodes[0], name)
        )
        path = os.path.join(made.conf, "minion.d", "many.conf")
        write_config(path, {"master": self.addresses, "auth_timeout": 3, **options})
        made.argv = self.inside(made.argv)
        self.addCleanup(made.kill)
        self.minions[name] = made
        made.up()

    def fleet(self, count: int, **options: Any) -> None:
        """Minions of the load generator."""
        first = sum(len(fleet.ids) for fleet in self.fleets)
        wired = {
            "master": self.addresses,
            "master_port": self.nodes[0].ret_port,
            "publish_port": self.nodes[0].publish_port,
            "acceptance_wait_time": 1,
            **options,
        }
        made = Fleet(self.home, count, wired, first=first, journal=self.journal, inside=self.inside)
        self.addCleanup(made.stop)
        self.fleets.append(made)
        made.start()

    @property
    def ids(self) -> list[str]:
        """All minions."""
        return [*self.minions, *(name for fleet in self.fleets for name in fleet.ids)]

    def accept(self) -> None:
        """Accept all once, on one node."""
        wanted = set(self.ids)
        folder = os.path.join(self.nodes[1].pki, "minions_pre")
        until("all to ask", lambda: wanted <= set(os.listdir(folder)))
        self.nodes[1].command("salt-key", "-y", "-A", check=True)
        for node in self.nodes:
            self.all_answer(node)

    def all_answer(self, node: OurNode) -> None:
        """Every minion answers C{salt '*' test.ping} of this node."""
        missing: set[str] = set()

        def all_do() -> bool:
            answered = node.salt("-t", "10", "*", "test.ping")
            missing.clear()
            missing.update(name for name in self.ids if answered.get(name) is not True)
            return not missing

        try:
            until(f"all minions to answer {node.name}", all_do, PATIENCE)
        except AssertionError as error:
            told = [str(error), f"not {sorted(missing)}", *self.story, *self.tails(*missing)]
            self.fail("\n".join(told))

    def tails(self, *names: str) -> list[str]:
        """The ends of the logs of these minions, or of all, and of the fleet."""
        found = [
            f"{name}:\n{minion.tail()}"
            for name, minion in self.minions.items()
            if not names or name in names
        ]
        for fleet in self.fleets:
            for _, path in fleet.processes:
                with open(path, errors="replace") as file:
                    found.append(f"{path}:\n{file.read()[-3000:]}")
        return found

    # -- blows

    def note(self, what: str) -> None:
        """A line of the story."""
        self.story.append(f"{time.monotonic() - self._began:6.1f} {what}")

    def blow(self) -> tuple[Callable[[], None], list[OurNode]]:
        """Strike; how that is undone, and which nodes can be commanded meanwhile."""
        node = self.dice.choice(self.nodes)
        how = self.dice.choice(self.blows)
        self.note(f"{how} {node.name}")
        others = [other for other in self.nodes if other is not node]
        if how == "kill":
            node.kill()
            return node.start, others
        if how == "stop":
            os.kill(node.pid, signal.SIGSTOP)
            return lambda: os.kill(node.pid, signal.SIGCONT), others
        assert self.hub is not None
        host = self.hub.hosts[self.nodes.index(node)]
        if how == "drop":
            host.drop()
            return host.heal, others
        host.cut(self.hub.hosts[self.nodes.index(others[0])])
        return self.hub.heal, self.nodes

    def storm(self, seconds: float) -> Load:
        """Jobs all the time, a blow every few seconds, two nodes alive at any time."""
        load = Load(os.path.join(self.home, "ran"), self.dice)
        self.rage(seconds, load.one)
        return load

    def rage(self, seconds: float, work: Callable[[Sequence[OurNode]], None]) -> None:
        """
        A blow every few seconds, and L{LEAST} of them however long that takes; between them
        C{work} is given the nodes that live.
        """
        self._began = time.monotonic()
        turn, blows = 2.0, 0
        undo: Callable[[], None] | None = None
        living = self.nodes
        mending = False
        while (now := time.monotonic() - self._began) < seconds or undo or mending or blows < LEAST:
            if mending and all(node.serving() for node in self.nodes):
                mending, living = False, self.nodes
                turn = now + self.dice.uniform(1, 4)
                self.note("all serve")
            elif mending and now > turn + 120:
                tails = [f"{node.name}: {node.tail()}" for node in self.nodes if not node.serving()]
                self.fail("\n".join(["a node does not come back", *self.story, *tails]))
            elif now >= turn and undo is not None:
                self.note("undone")
                undo()
                undo, mending, turn = None, True, now
            elif now >= turn and not mending:
                undo, living = self.blow()
                blows += 1
                turn = now + self.dice.uniform(2, 8)
            work(living)
            time.sleep(PACE)  # the pace of the load

    # -- what must be true

    def judge(self, seconds: float, reached: float = 0.8) -> None:
        """
        See the module.

        @param reached: the share of all (job, minion) that must have been run.
        """
        load = self.storm(seconds)
        dead = self.dice.choice(self.nodes)
        self.note(f"kill {dead.name} at the end")
        dead.kill()
        for node in self.nodes:
            if node is not dead:
                self.all_answer(node)
        dead.up()
        self.all_answer(dead)
        self.check_returns(load, reached)
        keys = [self.key_files(node) for node in self.nodes]
        self.assertEqual(keys[0], keys[1])
        self.assertEqual(keys[0], keys[2])
        self.assertEqual(
            len([name for name in keys[0] if name.startswith("minions/")]), len(self.ids)
        )

    def check_returns(self, load: Load, reached: float) -> None:
        """What was run was run once, and its return is everywhere."""
        ran = {(number, name) for name in self.minions for number in load.ran(name)}
        for name in self.minions:
            twice = [number for number, times in Counter(load.ran(name)).items() if times > 1]
            self.assertEqual(twice, [], f"{name} ran jobs twice: {self.story}")
        lines = self.lines()
        self.assertEqual([line for line, times in Counter(lines).items() if times > 1], [])

        def of_load(word: str) -> set[tuple[int, str]]:
            return {
                (load.jobs[jid], name)
                for what, jid, name in map(str.split, self.lines())
                if what == word and jid in load.jobs
            }

        until("the fleet to be rid of its returns", lambda: of_load("ran") == of_load("kept"), 120)
        ran |= of_load("ran")
        lost = self.given_up(load)
        self.assertLess(len(lost), max(2, len(load.jobs) / 10), f"{lost} {self.story}")
        missing: dict[str, list[Any]] = {}

        def complete() -> bool:
            for node in self.nodes:
                missing[node.name] = sorted(ran - lost - self.returns(node, load))[:20]
            return not any(missing.values())

        try:
            until("every return at every node", complete, PATIENCE, 2.0)
        except AssertionError as error:
            self.fail("\n".join([str(error), str(missing), *self.story, *self.tails()]))
        found = [self.returns(node, load) for node in self.nodes]
        self.assertEqual(found[0], found[1])
        self.assertEqual(found[0], found[2])
        # Two of three nodes were alive at any time: jobs reached who was there
        self.assertGreater(len(ran), len(load.jobs) * len(self.ids) * reached)

    def given_up(self, load: Load) -> set[tuple[int, str]]:
        """
        Returns that stock minions say they have thrown away: nobody acknowledged them within
        their retries, since the node that had published the job was away for longer.
        """
        found = set()
        for name, minion in self.minions.items():
            if isinstance(minion, StockMinion):
                jids = re.findall(
                    r"failed to return the job information for job (\d+)", minion.text()
                )
                found |= {(load.jobs[jid], name) for jid in jids if jid in load.jobs}
        return found

    def lines(self) -> list[str]:
        """The journal of the fleet."""
        if not self.fleets:
            return []
        with open(self.journal) as file:
            return file.read().splitlines()

    def returns(self, node: OurNode, load: Load) -> set[tuple[int, str]]:
        """What a node says of all jobs."""
        found = set()
        with ControlClient(path=node.socket_path) as client:
            for jid, number in load.jobs.items():
                done = client.call("runner", fun="jobs.lookup_jid", arg=[jid])
                said = done.get("data", done.get("return", done))
                found |= {(number, name) for name in said}
        return found

    def key_files(self, node: OurNode) -> dict[str, bytes]:
        """All files of the key directories."""
        found = {}
        for folder in ("minions", "minions_pre", "minions_rejected", "minions_denied"):
            path = f"{node.pki}/{folder}"
            for name in os.listdir(path):
                with open(f"{path}/{name}", "rb") as file:
                    found[f"{folder}/{name}"] = file.read()
        return found
