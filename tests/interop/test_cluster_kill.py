"""
Three real nodes under job load, one of them killed or stopped every few seconds.

Afterwards every job that a minion ran has its return on every node, none ran twice, all
minions answer every node in full, and the key directories are equal byte for byte. For a minute,
or for five with C{SALTWISTED_LONG=1}.
"""

from __future__ import annotations

import os
import random
import signal
import time
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.errors import RemoteError, TransportClosed
from saltwisted.worker.control import ControlClient
from tests.cluster.real import OurNode, cluster
from tests.harness import OurMinion, StockMinion, needs_peers, scratch, until, write_config

LONG = os.environ.get("SALTWISTED_LONG") == "1"
SECONDS = float(os.environ.get("SALTWISTED_STORM", "300" if LONG else "60"))
SEED = int(os.environ.get("SALTWISTED_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)


class Load:
    """Jobs, one after another, each given to a node that lives; what they did is on disk."""

    def __init__(self, nodes: list[OurNode], folder: str, dice: random.Random) -> None:
        self.nodes = nodes
        self.folder = folder
        self.dice = dice
        self.jobs: dict[str, int] = {}
        self.refused = 0

    def one(self, living: list[OurNode]) -> None:
        """Give one job to a random living node."""
        number = len(self.jobs) + self.refused + 1
        node = self.dice.choice(living)
        client = ControlClient(path=node.socket_path, timeout=5.0)
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
        """The numbers of the jobs that a minion ran, in that order."""
        try:
            with open(f"{self.folder}/{minion}") as file:
                return [int(line) for line in file.read().split()]
        except FileNotFoundError:
            return []


class KillTestCase(SynchronousTestCase):
    """The blows and what must be true afterwards."""

    kinds: tuple[str, ...] = ()

    def setUp(self) -> None:
        """Three nodes and minions that know all of them, accepted once."""
        self.dice = random.Random(SEED)
        self.nodes = cluster(self, "a b c")
        self.home = scratch(self)
        self.minions: dict[str, Any] = {}
        for kind in self.kinds:
            name = f"m-{kind}"
            minion: Any = (
                OurMinion(self.home, self.nodes[0], name)
                if kind.startswith("ours")
                else StockMinion(self.home, kind, self.nodes[0], name)
            )
            many = {"master": [node.address for node in self.nodes], "auth_timeout": 3}
            if kind.startswith("ours"):
                many["master_type"] = "failover" if kind.endswith("1") else "str"
            write_config(os.path.join(minion.conf, "minion.d", "many.conf"), many)
            self.addCleanup(minion.kill)
            self.minions[name] = minion
            minion.up()
        for name in self.minions:
            self.nodes[1].accept(name)
        for node in self.nodes:
            self.all_answer(node)

    def all_answer(self, node: OurNode, seconds: float = 90) -> None:
        """Every minion answers a ping of this node."""
        answered: dict[str, Any] = {}

        def all_do() -> bool:
            answered.clear()
            answered.update(node.salt("-t", "10", "*", "test.ping"))
            return answered == dict.fromkeys(self.minions, True)

        try:
            until(f"all minions to answer {node.name} (seed {SEED})", all_do, seconds)
        except AssertionError as error:
            tails = [
                f"{name}:\n{minion.tail()}"
                for name, minion in self.minions.items()
                if answered.get(name) is not True
            ]
            raise AssertionError("\n".join([str(error), str(answered), *tails])) from None

    def blow(self) -> tuple[OurNode, str]:
        """Kill or stop a random node."""
        node = self.dice.choice(self.nodes)
        how = self.dice.choice(("kill", "stop"))
        if how == "kill":
            node.kill()
        else:
            os.kill(node.pid, signal.SIGSTOP)
        return node, how

    def mend(self, node: OurNode, how: str) -> None:
        """And back."""
        if how == "kill":
            node.start()
        else:
            os.kill(node.pid, signal.SIGCONT)

    def storm(self) -> Load:
        """Jobs twice a second, a blow every few seconds, two nodes alive at any time."""
        folder = os.path.join(self.home, "ran")
        os.makedirs(folder)
        load = Load(self.nodes, folder, self.dice)
        end = time.monotonic() + SECONDS
        down: tuple[OurNode, str] | None = None
        turn = time.monotonic() + 2
        blows = 0
        while time.monotonic() < end or down is not None:
            if time.monotonic() >= turn:
                if down is None:
                    down = self.blow()
                    blows += 1
                    turn = time.monotonic() + self.dice.uniform(2, 8)
                else:
                    self.mend(*down)
                    down[0].wait_serving(60)
                    down = None
                    turn = time.monotonic() + self.dice.uniform(1, 4)
            load.one([node for node in self.nodes if down is None or node is not down[0]])
            time.sleep(0.5)  # the pace of the load
        self.assertGreater(blows, 2)
        return load

    def judge(self) -> None:
        """See the module."""
        load = self.storm()
        for node in self.nodes:
            self.all_answer(node)
        ran = {name: load.ran(name) for name in self.minions}

        def returns(node: OurNode) -> dict[int, list[str]]:
            found = {}
            with ControlClient(path=node.socket_path) as client:
                for jid, number in load.jobs.items():
                    done = client.call("runner", fun="jobs.lookup_jid", arg=[jid])
                    found[number] = sorted(done.get("data", done.get("return", done)))
            return found

        wanted = {
            number: sorted(name for name in self.minions if number in ran[name])
            for number in load.jobs.values()
        }
        for name, numbers in ran.items():
            self.assertEqual(len(numbers), len(set(numbers)), f"{name} ran a job twice")
        for node in self.nodes:

            def complete(node: OurNode = node) -> bool:
                got = returns(node)
                return all(set(names) <= set(got[number]) for number, names in wanted.items())

            until(f"every return at {node.name} (seed {SEED})", complete, 60)
        self.assertEqual(returns(self.nodes[0]), returns(self.nodes[1]))
        self.assertEqual(returns(self.nodes[0]), returns(self.nodes[2]))
        # Two of three nodes were alive at any time: jobs reached who was there
        total = sum(len(numbers) for numbers in ran.values())
        self.assertGreater(total, len(load.jobs) * len(self.minions) * 0.8)
        keys = [self.key_files(node) for node in self.nodes]
        self.assertEqual(keys[0], keys[1])
        self.assertEqual(keys[0], keys[2])

    def key_files(self, node: OurNode) -> dict[str, bytes]:
        """All files of the key directories."""
        found = {}
        for folder in ("minions", "minions_pre", "minions_rejected", "minions_denied"):
            path = f"{node.pki}/{folder}"
            for name in os.listdir(path):
                with open(f"{path}/{name}", "rb") as file:
                    found[f"{folder}/{name}"] = file.read()
        return found


@needs_peers
class OurKillTests(KillTestCase):
    """With our own minions."""

    kinds = ("ours1", "ours2")

    def test_kill_and_stop(self) -> None:
        """No return is lost and no job runs twice while nodes are killed and stopped."""
        self.judge()


@needs_peers
class StockKillTests(KillTestCase):
    """With a stock 3006, a stock 3008 and one of ours."""

    kinds = ("3006", "3008", "ours2")

    def test_kill_and_stop(self) -> None:
        """No return is lost and no job runs twice while nodes are killed and stopped."""
        self.judge()
