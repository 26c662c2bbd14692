"""
Real nodes and real minions: a job given to any node, returns on all, a node killed.
"""

from __future__ import annotations

import os
import time
from typing import Any

import zmq
from twisted.trial.unittest import SynchronousTestCase

from tests.cluster.real import OurNode, cluster
from tests.harness import OurMinion, StockMinion, needs_peers, scratch, until

BOOK = ("fun", "fun_args", "return", "retcode", "success", "out")


class RealJobsTestCase(SynchronousTestCase):
    """Three nodes."""

    def cluster(self, **options: Any) -> list[OurNode]:
        """Nodes a, b, c."""
        found: list[OurNode] = cluster(self, "a b c", **options)
        return found

    def accept(self, nodes: list[OurNode], minion_id: str, at: OurNode) -> None:
        """Accept a minion, on all nodes."""
        pending = os.path.join(at.pki, "minions_pre", minion_id)
        until(f"the pending key of {minion_id}", lambda: os.path.exists(pending))
        at.command("salt-key", "-y", "-a", minion_id, check=True)

        def everywhere() -> bool:
            return all(minion_id in node.keys()["minions"] for node in nodes)

        until(f"{minion_id} to be accepted everywhere", everywhere)

    def answers(self, node: OurNode, minions: list[str]) -> None:
        """A node gets the answers of all minions."""
        expected = dict.fromkeys(minions, True)
        until(
            f"all answers at {node.name}",
            lambda: node.salt("-t", "5", "*", "test.ping") == expected,
        )


@needs_peers
class OurMinionsTests(RealJobsTestCase):
    """With our own minions, one on each node."""

    def test_any_node(self) -> None:
        """Any node commands all minions, and what came back is read alike from every node, also
        when the node that took the command is gone."""
        nodes = self.cluster()
        home = scratch(self)
        ids = []
        for node in nodes:
            minion = OurMinion(home, node, f"m-{node.name}")
            self.addCleanup(minion.kill)
            minion.up()
            ids.append(f"m-{node.name}")
            self.accept(nodes, f"m-{node.name}", node)
        a, b, c = nodes

        for node in nodes:
            self.answers(node, ids)
        done = a.command("salt", "*", "cmd.run", "echo hello", "--out", "json", "-v", check=True)
        self.assertIn("hello", done.stdout)
        listed = [node.run("jobs.list_jobs", "search_function=cmd.run") for node in nodes]
        self.assertEqual(listed[1:], listed[:2])
        (jid,) = listed[0]
        a.kill()

        shown = [node.run("jobs.print_job", jid) for node in (b, c)]
        self.assertEqual(shown[0], shown[1])
        self.assertEqual(sorted(shown[0][jid]["Result"]), ids)
        left = [name for name in ids if name != "m-a"]

        def answered() -> bool:
            # The minion of the dead node may have come over by then, and answer too
            said = b.salt("-t", "3", "*", "test.ping")
            return all(said.get(name) is True for name in left)

        until("the answers of who is left", answered)
        self.assertEqual(
            [sorted(set(node.run("manage.present")) & set(left)) for node in (b, c)], [left, left]
        )


@needs_peers
class StockMinionsTests(RealJobsTestCase):
    """With stock minions."""

    def test_versions(self) -> None:
        """Stock 3006, 3007 and 3008, each on another node, are commanded from every node."""
        nodes = self.cluster()
        home = scratch(self)
        ids = []
        for node, version in zip(nodes, ("3006", "3007", "3008"), strict=True):
            minion = StockMinion(home, version, node)
            self.addCleanup(minion.kill)
            minion.up()
            ids.append(minion.id)
            self.accept(nodes, minion.id, node)

        for node in nodes:
            self.answers(node, ids)

    def test_rotation(self) -> None:
        """While nodes hand out different publish keys each job goes out under both, every stock
        minion runs it once, and afterwards all still answer."""
        a, b = cluster(self, "a b")
        home = scratch(self)
        minions = [StockMinion(home, version, a) for version in ("3006", "3007", "3008")]
        for minion in minions:
            self.addCleanup(minion.kill)
            minion.up()
            self.accept([a, b], minion.id, a)
        ids = [minion.id for minion in minions]
        self.answers(a, ids)
        with open(os.path.join(a.pki, "minions", ids[0]), "rb") as file:
            spare = file.read()
        with open(os.path.join(a.pki, "minions", "spare"), "wb") as file:
            file.write(spare)
        until("the spare key", lambda: "spare" in b.keys()["minions"])

        # A stopped node is still linked, and cannot store the new key
        b.freeze()
        self.addCleanup(b.thaw)
        a.command("salt-key", "-y", "-d", "spare", check=True)
        with zmq.Context() as context, context.socket(zmq.SUB) as listener:
            listener.setsockopt(zmq.SUBSCRIBE, b"")
            listener.connect(f"tcp://{a.address}:{a.publish_port}")
            runs = 0
            ends = time.monotonic() + 12
            while time.monotonic() < ends:
                ran = "echo . >> " + os.path.join(home, "ran-{{ grains.id }}")
                done = a.salt("-t", "10", "*", "cmd.run", ran, "template=jinja")
                self.assertEqual(sorted(done), sorted(ids))
                runs += 1
            heard = 0
            while listener.poll(200):
                listener.recv()
                heard += 1

        self.assertGreater(heard, runs)
        for minion_id in ids:
            with open(os.path.join(home, f"ran-{minion_id}")) as lines:
                self.assertEqual(len(lines.readlines()), runs, minion_id)
        b.thaw()
        for node in (a, b):
            self.answers(node, ids)
