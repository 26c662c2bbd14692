"""
Real nodes that are killed in the middle of steps on minions: the run goes on elsewhere.
"""

from __future__ import annotations

import os
import unittest
from types import SimpleNamespace
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.errors import RemoteError, TransportClosed
from tests.cluster.real import OurNode, join_all, let_all_vote, nodes
from tests.harness import OurMinion, scratch, until

LONG = os.environ.get("SALTWISTED_LONG", "0") == "1"
MINIONS = ["web1", "web2"]
SLS = """
all:
  salt.function:
    - name: cmd.run
    - tgt: 'web*'
    - arg: ['echo $ID >> HERE/all; while [ ! -e HERE/go1 ]; do sleep 0.2; done']
each:
  salt.function:
    - name: cmd.run
    - tgt: 'web*'
    - arg: ['echo $ID >> HERE/each; while [ ! -e HERE/go2 ]; do sleep 0.2; done']
    - batch: 1
    - failhard: true
    - require: [{salt: all}]
some:
  salt.function:
    - name: cmd.run
    - tgt: 'web*'
    - arg: ['echo $ID >> HERE/some']
    - subset: 1
    - require: [{salt: each}]
"""


@unittest.skipUnless(LONG, "it takes a minute")
class TakeoverTests(SynchronousTestCase):
    """Three nodes that all vote, and two minions of ours that know all of them."""

    timeout = 600

    def setUp(self) -> None:
        self.folder = scratch(self)
        with open(os.path.join(self.folder, "deploy.sls"), "w") as stream:
            stream.write(SLS.replace("HERE", self.folder))
        self.nodes: list[OurNode] = nodes(
            self, "a b c", file_roots={"base": [self.folder]}, auto_accept=True, timeout=5
        )
        join_all(self.nodes)
        let_all_vote(self.nodes)
        first, home = self.nodes[0], scratch(self)
        all_of_them = SimpleNamespace(
            address=[node.address for node in self.nodes],
            publish_port=first.publish_port,
            ret_port=first.ret_port,
        )
        for name in MINIONS:
            minion = OurMinion(home, all_of_them, minion_id=name)
            minion.env["ID"] = name
            self.addCleanup(minion.kill)
            minion.up()
        for node in self.nodes:
            until(f"both minions at {node.name}", lambda node=node: self.answer(node))

    def answer(self, node: OurNode) -> bool:
        """Whether both minions do what a node says."""
        client = node.control()
        try:
            items = client.stream("run", tgt="web*", fun="test.ping", arg=[], timeout=3)
            found = {item["id"] for item in items if item["kind"] == "return"}
        except (RemoteError, TransportClosed):
            return False
        finally:
            client.close()
        return found == set(MINIONS)

    def shown(self, jid: str) -> dict[str, Any]:
        """What a node that lives says of a run."""
        for node in self.nodes:
            if node.running:
                try:
                    found: dict[str, Any] = node.ask("orch.show", jid=jid, results=True)
                except (RemoteError, TransportClosed):
                    continue
                return found
        return {"node": "", "state": "", "steps": []}

    def marks(self, step: str) -> list[str]:
        """The minions that have run a step, as often as they did."""
        path = os.path.join(self.folder, step)
        if not os.path.exists(path):
            return []
        with open(path) as stream:
            return stream.read().splitlines()

    def go(self, name: str) -> None:
        """Let a step end."""
        with open(os.path.join(self.folder, name), "w"):
            pass

    def kill(self, jid: str) -> None:
        """Kill the node of a run, and wait until another one goes on with it."""
        name = self.shown(jid)["node"]
        (node,) = [each for each in self.nodes if each.name == name]
        node.kill()
        until("another node", lambda: self.shown(jid)["node"] not in ("", name))
        node.up()

    def is_at(self, jid: str, step: str) -> bool:
        """Whether one minion has begun a step; it is an error if the run ends before."""
        shown = self.shown(jid)
        self.assertIn(shown["state"], ("", "running"), shown)
        return len(self.marks(step)) == 1

    def states(self, jid: str) -> list[str]:
        """Of the steps."""
        return [step["state"] for step in self.shown(jid)["steps"]]

    def test_killed_twice(self) -> None:
        """
        The node is killed while a job runs, and the next one in the middle of a batch: every minion
        runs each step once, the batch goes on where it was, and the run ends well.
        """
        first = self.nodes[0]
        jid = first.orchestrate("deploy")
        until("the job", lambda: sorted(self.marks("all")) == MINIONS)
        job = self.shown(jid)["steps"][0]["jid"]
        self.kill(jid)
        self.go("go1")

        until("the batch", lambda: self.is_at(jid, "each"))
        self.assertEqual(self.states(jid), ["done", "running", "waiting"])
        self.assertEqual(self.shown(jid)["steps"][1]["part"], [1, 2])
        self.kill(jid)
        self.assertEqual(len(self.marks("each")), 1)
        self.go("go2")

        until("the end", lambda: self.shown(jid)["state"] != "running")
        shown = self.shown(jid)
        self.assertEqual(shown["state"], "done", shown)
        self.assertEqual(shown["steps"][0]["jid"], job)
        self.assertEqual(sorted(self.marks("all")), MINIONS)
        self.assertEqual(sorted(self.marks("each")), MINIONS)
        self.assertEqual(len(self.marks("some")), 1)
        for step in shown["steps"][:2]:
            self.assertEqual(sorted(step["result"]["changes"]["ret"]), MINIONS)
