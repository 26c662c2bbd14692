"""
Reactors on several nodes: one chain wherever its events arise, and one end of it.
"""

from __future__ import annotations

import os
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.master.automation.pause import Pause
from saltwisted.master.automation.reactor import Reactor
from tests.cluster.memory import Node, Nodes
from tests.master.reacting import Workers

SLS = "k:\n  local.test.ping:\n    - tgt: m1\n"


class ReactorsTests(SynchronousTestCase):
    """Two nodes with the same configuration."""

    def reacting(self, node: Node, entries: list[Any]) -> Reactor:
        """A reactor on a node."""
        node.ctx.reactions.configure(entries)
        pause = Pause(node.ctx.seams.schedule, node.clock.seconds)
        reactor = Reactor(node.ctx, Workers(node.config.as_opts()), pause)
        reactor.startService()
        self.addCleanup(reactor.stopService)
        return reactor

    def test_chain_over_nodes(self) -> None:
        """A circle whose events arise at one node and the next by turns ends at its bound."""
        folder = self.mktemp()
        os.makedirs(folder)
        sls = os.path.abspath(os.path.join(folder, "a.sls"))
        with open(sls, "w") as stream:
            stream.write(SLS)
        nodes = Nodes(self, reactor_chain_limit=3)
        entries = [{"begin": [sls]}, {"salt/job/*/ret/m1": [sls]}]
        both = list(nodes.one.values())
        reactors = [self.reacting(node, entries) for node in both]
        nodes.accept("m1", "a")

        both[0].bus.fire("begin", {})
        for turn in range(1, 6):
            jid = nodes.until(lambda turn=turn: self.newest(both, turn), "the next job")
            nodes.turn(1)
            both[turn % 2].bus.fire(
                f"salt/job/{jid}/ret/m1", {"id": "m1", "jid": jid, "return": True}
            )
            if turn == 4:
                break
        nodes.until(lambda: self.figure(reactors, "lost:chain"), "the end")

        self.assertEqual(self.figure(reactors, "reacted"), 4)
        self.assertEqual(self.figure(reactors, "lost:chain"), 1)

    def newest(self, both: list[Node], count: int) -> str:
        """The jid of the newest of so many jobs that were published; nothing before."""
        jids = {job["jid"] for node in both for job in node.published_jobs()}
        return max(jids) if len(jids) == count else ""

    def figure(self, reactors: list[Reactor], name: str) -> int:
        """The sum of one figure."""
        return sum(each.status()["figures"].get(name, 0) for each in reactors)
