"""
Claims of real nodes: who would act, while members live, die, are declared dead, and come back.
"""

from __future__ import annotations

import json
from typing import Any

from twisted.trial.unittest import TestCase

from tests.cluster.real import OurNode, cluster
from tests.harness import until


class PairTests(TestCase):
    """Two members: a decides, as the first by name."""

    timeout = 240

    def leads(self, node: OurNode) -> Any:
        """What C{reactor.is_leader} says there."""
        return node.run("reactor.is_leader")

    def test_dead_and_back(self) -> None:
        """
        Without a, b claims nothing and says so, until a is declared dead; when a is back both
        claim again. What was done can be asked for all the time.
        """
        a, b = cluster(self, "a b", publish_window=1)
        until("both to claim", lambda: self.leads(a) and self.leads(b))
        a.kill()

        until("b to claim nothing", lambda: self.leads(b) is False)
        said = b.command("members").stdout
        self.assertIn("saltwisted members --declare-dead a", said)

        self.assertNotEqual(b.command("members", "--declare-dead", "b").returncode, 0)
        b.command("members", "--declare-dead", "a", check=True)
        until("b to claim", lambda: self.leads(b))
        self.assertEqual(json.loads(b.command("receipts", "--json", check=True).stdout), [])

        a.up()
        until("a to claim", lambda: self.leads(a))
        self.assertTrue(self.leads(b))
        self.assertNotEqual(b.command("members", "--declare-dead", "a").returncode, 0)
