"""
Orchestrations whose node is killed while stock minions do a step.

A stock minion returns to the master that gave it the job and to no other, whether it knows all
masters at once or one after the other. What it has kept (C{cache_jobs}) is fetched.
"""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.errors import RemoteError, TransportClosed
from tests.cluster.real import OurNode, join_all, let_all_vote, nodes
from tests.harness import StockMinion, needs_peers, scratch, until

LONG = os.environ.get("SALTWISTED_LONG") == "1"
ONE_BY_ONE = {
    "master_type": "failover",
    "auth_timeout": 5,
    "auth_tries": 1,
    "master_alive_interval": 2,
}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "hot6": ("3006", {"cache_jobs": True}),
    "next8": ("3008", {**ONE_BY_ONE, "cache_jobs": True}),
}
"""Stock minions by id: the version, and options beside a list of all masters."""
if LONG:
    KINDS["hot7"] = ("3007", {"cache_jobs": True})
    KINDS["forgets7"] = ("3007", ONE_BY_ONE)
    KINDS["forgets8"] = ("3008", {})
KEEP = sorted(name for name in KINDS if "forgets" not in name)
FORGET = sorted(set(KINDS) - set(KEEP))
SLS = """
step:
  salt.function:
    - name: cmd.run
    - tgt: {{ pillar['who'] }}
    - tgt_type: list
    - arg: ['echo $ID >> HERE/ran; while [ ! -e HERE/go ]; do sleep 0.2; done; echo did $ID']
last:
  salt.function:
    - name: cmd.run
    - tgt: {{ pillar['who'][:1] }}
    - tgt_type: list
    - arg: ['echo last $ID >> HERE/after']
    - require: [{salt: step}]
"""


@needs_peers
class StockTakeoverTests(SynchronousTestCase):
    """Three nodes that all vote, and stock minions that know all of them."""

    timeout = 900

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
        masters = SimpleNamespace(
            address=[node.address for node in self.nodes],
            publish_port=first.publish_port,
            ret_port=first.ret_port,
        )
        for name, (version, options) in KINDS.items():
            minion = StockMinion(home, version, masters, name, **options)
            minion.env["ID"] = name
            self.addCleanup(minion.kill)
            minion.up()
        for node in self.nodes:
            until(f"all minions at {node.name}", lambda node=node: self.answer(node))

    def answer(self, node: OurNode) -> bool:
        """Whether all minions do what a node says."""
        client = node.control()
        try:
            items = client.stream("run", tgt="*", fun="test.ping", arg=[], timeout=3)
            found = {item["id"] for item in items if item["kind"] == "return"}
        except (RemoteError, TransportClosed):
            return False
        finally:
            client.close()
        return found == set(KINDS)

    def begin(self, *who: str) -> str:
        """Begin a run on the first node, for these minions; its jid."""
        return self.nodes[0].orchestrate("deploy", who=list(who))

    def shown(self, jid: str) -> dict[str, Any]:
        """What the last node says of a run."""
        return self.nodes[-1].orchestration(jid)

    def marks(self, name: str) -> list[str]:
        """What minions have left, in order of their ids."""
        path = os.path.join(self.folder, name)
        if not os.path.exists(path):
            return []
        with open(path) as stream:
            return sorted(stream.read().splitlines())

    def kill_first(self, *jids: str) -> None:
        """Kill the first node while all minions do the step; others go on with the runs."""
        until("the step", lambda: self.marks("ran") == sorted(KINDS))
        self.nodes[0].kill()
        for jid in jids:
            until("another node", lambda jid=jid: self.shown(jid)["node"] in ("b", "c"))
        with open(os.path.join(self.folder, "go"), "w"):
            pass

    def ended(self, jid: str) -> dict[str, Any]:
        """The run, when it is over."""
        until(f"the end of {jid}", lambda: self.shown(jid)["state"] != "running", 240)
        return self.shown(jid)

    def test_node_dies(self) -> None:
        """
        Minions that keep their returns are asked for them: the step is done, and each has run it
        once. With C{--long}: what others did nobody can know, so their run is interrupted, names
        them and the job, and goes on when an operator has looked.
        """
        kept = self.begin(*KEEP)
        lost = [self.begin(*FORGET)] if FORGET else []
        self.kill_first(kept, *lost)

        run = self.ended(kept)
        self.assertEqual(run["state"], "done", run)
        step = run["steps"][0]
        self.assertEqual(step["result"]["changes"]["ret"], {name: f"did {name}" for name in KEEP})
        stored = self.nodes[1].ask("runner", fun="jobs.lookup_jid", arg=[step["jid"]])
        self.assertEqual(stored["return"], {name: f"did {name}" for name in KEEP})
        for jid in lost:
            run = self.ended(jid)
            self.assertEqual(run["state"], "interrupted", run)
            self.assertEqual([each["state"] for each in run["steps"]], ["interrupted", "waiting"])
            for word in (*FORGET, run["steps"][0]["jid"], "does not run it any more"):
                self.assertIn(word, run["why"])
                self.assertIn(word, run["steps"][0]["why"])
            self.nodes[1].ask("orch.resume", jid=jid, step="last")
            self.assertEqual(self.ended(jid)["state"], "done")
        self.assertEqual(self.marks("ran"), sorted(KINDS))
        self.assertEqual(len(self.marks("after")), 1 + len(lost))
