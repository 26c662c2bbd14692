"""
Real nodes whose claims an etcd decides.
"""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import TestCase

from tests.cluster.real import OurNode, cluster
from tests.etcd import Etcd, needs_etcd
from tests.harness import until


@needs_etcd
class EtcdTests(TestCase):
    """Two members and an etcd."""

    timeout = 240

    def leads(self, node: OurNode) -> Any:
        """What C{reactor.is_leader} says there."""
        return node.run("reactor.is_leader")

    def test_first_dies(self) -> None:
        """Either of two goes on alone without a word of an operator; without etcd neither does."""
        etcd = Etcd(self).start()
        a, b = cluster(self, "a b", claims="etcd", claims_etcd=[etcd.url])
        until("both to claim", lambda: self.leads(a) and self.leads(b))
        a.kill()

        until("b to see that", lambda: b.states().get("a") != "alive")
        self.assertTrue(self.leads(b))
        etcd.daemon.kill()
        until("b to claim nothing", lambda: self.leads(b) is False)
        self.assertIn("claims_etcd: ", b.command("members").stdout)
