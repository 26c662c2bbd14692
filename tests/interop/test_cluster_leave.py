"""
A node leaves while minions hang on it, stock ones among them: they move, and nothing is lost.
"""

from __future__ import annotations

import os
from typing import Any

from tests.cluster.real import OurNode, cluster
from tests.harness import OurMinion, StockMinion, needs_peers, until, write_config
from tests.interop.test_haproxy import PROXY, Balanced

JOB = "echo {{ grains.id }} >> %s; sleep 8; echo {{ grains.id }} >> %s"


@needs_peers
class LeaveTests(Balanced):
    """
    Three nodes; b leaves. A job given to it is under way on all minions, and takes so long
    that they return when nobody serves there any more.
    """

    def setUp(self) -> None:
        self.nodes = cluster(self, "a b c", auto_accept=True)
        self.home = os.path.dirname(self.nodes[0].root)
        self.minions: list[Any] = []

    def start(self, kind: str, name: str, **options: Any) -> None:
        """A minion of ours, or a stock one, that knows nodes by these options."""
        b = self.nodes[1]
        made: Any = (
            OurMinion(self.home, b, name)
            if kind == "ours"
            else StockMinion(self.home, kind, b, name)
        )
        write_config(os.path.join(made.conf, "minion.d", "masters.conf"), options)
        self.addCleanup(made.kill)
        made.up()
        self.minions.append(made)

    def all_answer(self, node: OurNode) -> None:
        """All answer a job given to this node."""
        wanted = dict.fromkeys((minion.id for minion in self.minions), True)
        until("all keys", lambda: sorted(node.keys()["minions"]) == sorted(wanted))
        until(
            f"all answers at {node.name}", lambda: node.salt("-t", "10", "*", "test.ping") == wanted
        )

    def returned(self, node: OurNode, jid: str) -> set[str]:
        """Whose returns of a job a node has."""
        return set(node.run("jobs.lookup_jid", jid) or {})

    def lines(self, path: str) -> list[str]:
        """The words of a file, sorted."""
        if not os.path.exists(path):
            return []
        with open(path) as file:
            return sorted(file.read().split())

    def leaving(self) -> None:
        """Everything that is promised when b leaves."""
        a, b, c = self.nodes
        pids = {minion.id: minion.pid for minion in self.minions}
        self.all_answer(b)
        begun, ran = (os.path.join(self.home, name) for name in ("begun", "ran"))
        done = b.command("salt", "--async", "*", "cmd.run", JOB % (begun, ran), "template=jinja")
        (jid,) = [word for word in done.stdout.split() if word.isdigit() and len(word) == 20]
        until("it to run on all", lambda: self.lines(begun) == sorted(pids))

        said = b.command("leave", check=True)

        self.assertIn("left", said.stdout)
        self.assertEqual(said.stderr, "")
        for node in (a, c):
            until(
                f"all returns on {node.name}",
                lambda node=node: self.returned(node, jid) == set(pids),
            )
        self.assertEqual(self.lines(ran), sorted(pids), "each ran it once")
        for node in (a, c):
            self.all_answer(node)
        for minion in self.minions:
            self.assertTrue(minion.running, f"{minion.id} ended:\n{minion.tail()}")
            self.assertEqual(minion.pid, pids[minion.id])

    def test_lists(self) -> None:
        """Minions that are told several masters: all at once, or one after the other."""
        hosts = [node.address for node in (self.nodes[1], self.nodes[0], self.nodes[2])]
        one = {"master": hosts, "master_type": "failover", "master_alive_interval": 2}
        for version in ("3006", "3008"):
            self.start(version, f"all-{version}", master=hosts)
            self.start(version, f"one-{version}", **one)
        self.start("ours", "ours")

        self.leaving()

    def test_haproxy(self) -> None:
        """Minions that know one address, that of a balancer."""
        self.haproxy(self.nodes[0])
        for version in ("3006", "3008"):
            self.start(version, f"stock-{version}", master=PROXY)
        self.start("ours", "ours", master=PROXY)

        self.leaving()

    def test_lost_job(self) -> None:
        """
        A job that was lost with its minion's process is not waited for, and nobody is named as if
        it still ran it.
        """
        a, b, _ = self.nodes
        self.start("ours", "ours", master=[b.address, a.address])
        self.start("3008", "stock", master=[b.address, a.address])
        self.all_answer(b)
        begun = os.path.join(self.home, "begun")
        job = f"echo {{{{ grains.id }}}} >> {begun}; kill -9 $PPID"
        b.command("salt", "--async", "*", "cmd.run", job, "template=jinja", check=True)
        until("it to run on all", lambda: self.lines(begun) == ["ours", "stock"])
        self.all_answer(b)

        said = b.command("leave", check=True)

        self.assertIn("left", said.stdout)
        self.assertEqual(said.stderr, "")
