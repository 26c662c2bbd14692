"""
Claims of real nodes: who would act, while members live, die, are declared dead, and come back; and
when a master that was alone becomes one of them.
"""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from typing import Any

from attrs import evolve
from twisted.trial.unittest import TestCase

from saltwisted.domain.claims.voter import Adopt
from saltwisted.stores import claims as table
from tests.cluster.real import OurNode, cluster, nodes
from tests.harness import until, write_config


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
        a.wait_for_line("members that vote on claims: a, b")
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

    def test_dead_before_the_second_votes(self) -> None:
        """The same holds as long as b, which has just joined, has no vote: only a decides."""
        a, b = cluster(self, "a b", publish_window=1)
        until("both to claim", lambda: self.leads(a) and self.leads(b))
        a.kill()

        until("b to claim nothing", lambda: self.leads(b) is False)
        self.assertIn("saltwisted members --declare-dead a", b.command("members").stdout)

        b.command("members", "--declare-dead", "a", check=True)
        until("b to claim", lambda: self.leads(b))


class JoinTests(TestCase):
    """A master that voted by itself joins two others."""

    timeout = 240

    def changed(self, node: OurNode) -> None:
        """As if members had joined it, and left."""
        path = os.path.join(node.root, "var/cache/salt/master/saltwisted/claims.sqlite")
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            own = table.read(db).electorate
            assert own is not None
            self.assertEqual([seat.node for seat in own.seats()], [node.name])
            table.commit(db, [Adopt(evolve(own, epoch=9))])

    def test_own_electorate(self) -> None:
        """
        Its electorate, of which it is the only member, does not come with it, not even after more
        changes than the others have seen: while another one holds the schedule it runs no entry.
        Of the three the first two vote at first.
        """
        ran = "running scheduled job often"
        schedule = {"often": {"function": "test.arg", "seconds": 1}}
        a, b, c = nodes(self, "a b c", publish_window=1)
        c.up()
        until("c to decide by itself", lambda: c.run("reactor.is_leader"))
        c.stop()
        self.changed(c)
        for node in (a, b, c):
            write_config(f"{node.conf}/master", {**node.options, "schedule": schedule})
        a.up()
        until("a to run it", lambda: ran in a.text())
        b.start()
        until("b to answer", b.members)
        b.command("join", a.token(), check=True)
        a.wait_for_line("members that vote on claims: a, b")

        c.command("join", a.token(), check=True)
        c.start()
        c.wait_serving()
        before = a.text().count(ran)
        until("more runs", lambda: a.text().count(ran) > before + 5)

        self.assertNotIn(ran, c.text())
