"""
Real nodes whose claims an etcd decides.
"""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import TestCase

from tests.certificates import Authority
from tests.cluster.real import OurNode, cluster
from tests.cluster.test_real_dying import Dying
from tests.etcd import Etcd, etcd_of_three, needs_etcd, with_tls
from tests.harness import scratch, until


@needs_etcd
class EtcdTests(TestCase):
    """Two members, and three of an etcd that wants certificates."""

    timeout = 240

    def leads(self, node: OurNode) -> Any:
        """What C{reactor.is_leader} says there."""
        return node.run("reactor.is_leader")

    def test_first_dies(self) -> None:
        """
        Either of two goes on alone without a word of an operator, and with two of etcd's three
        members; with one of these it does not, and says why.
        """
        authority = Authority(scratch(self))
        etcds = etcd_of_three(self, *with_tls(authority), scheme="https")
        shown = authority.issue("node", "127.0.0.1")
        a, b = cluster(
            self,
            "a b",
            claims="etcd",
            claims_etcd=[each.url for each in etcds],
            claims_etcd_ca=authority.ca,
            claims_etcd_cert=shown["certfile"],
            claims_etcd_key=shown["keyfile"],
        )
        until("both to claim", lambda: self.leads(a) and self.leads(b))
        etcds[0].daemon.kill()
        b.wait_for_line(f"claims_etcd: {etcds[0].url}: ")
        until("both to claim again", lambda: self.leads(a) and self.leads(b))
        a.kill()

        until("b to see that", lambda: b.states().get("a") != "alive")
        self.assertTrue(self.leads(b))
        etcds[1].daemon.kill()
        until("b to claim nothing", lambda: self.leads(b) is False)
        until("b to know why", lambda: "no majority" in b.command("members").stdout)
        self.assertIn("claims_etcd: ", b.command("members").stdout)


@needs_etcd
class EtcdDyingTests(Dying):
    """Two nodes and an etcd."""

    def test_dies_in_it(self) -> None:
        """
        Of two nodes one is killed in a reaction, before the first and after the last thing that it
        does: the other finishes it by the same rules as where members vote, without a word of an
        operator.
        """
        etcd = Etcd(self).start()
        self.begin("a b", claims="etcd", claims_etcd=[etcd.url])
        self.die_twice()
