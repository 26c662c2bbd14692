"""
What a job cache has lost comes back from the other nodes, whatever took it.
"""

from __future__ import annotations

import sqlite3
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.jobcare import JobCare
from tests.cluster.memory import Node, Nodes

JID = "20260701120000000000"
LATER = "20260701120001000000"


class JobCareTests(SynchronousTestCase):
    """Three nodes with the returns of ten minions."""

    def setUp(self) -> None:
        """All have all; nobody waits for hours."""
        self.patch(JobCare, "round_every", 60.0)
        self.patch(JobCare, "pass_every", 20.0)
        self.nodes = Nodes(self, "abc")
        self.a, self.b, self.c = (self.nodes.one[name] for name in "abc")
        self.give(self.a, JID)
        self.nodes.settle()

    def give(self, node: Node, jid: str) -> None:
        """A job, and ten returns of it."""
        get = self.nodes.get
        minions = [f"web{number}" for number in range(10)]
        job = {"fun": "test.ping", "arg": [], "tgt": "*", "user": "root"}
        get(node.jobs.save_job(jid, job, minions))
        for minion_id in minions:
            load = {"id": minion_id, "jid": jid, "fun": "test.ping", "return": True, "retcode": 0}
            get(node.jobs.save_return(load))

    def shown(self, node: Node, jid: str = JID) -> int:
        """How many returns a node has."""
        return len(self.nodes.get(node.jobs.returned_ids(jid)))

    def harm(self, node: Node, *statements: str) -> None:
        """Somebody or something writes into the file."""
        db = sqlite3.connect(node.jobs.path)
        for statement in statements:
            db.execute(statement)
        db.commit()
        db.close()

    def comes_back(self, node: Node, jid: str = JID) -> None:
        """Without anybody doing anything."""
        self.nodes.until(lambda: self.shown(node, jid) == 10, "all to be back", 1.0)
        self.nodes.until(lambda: not node.jobs.trouble, "trouble to be over", 1.0)

    def test_hole(self) -> None:
        """Rows that are gone, though the node knows of them, come back; nothing is told twice."""
        told: list[Any] = []
        self.b.jobs.replica.on_new(told.extend)
        self.harm(self.b, "DELETE FROM returns WHERE id > 'web5'")
        self.assertEqual(self.shown(self.b), 6)

        self.b.care.lacking()

        self.assertIn("being brought back from the other members: a, c", self.b.jobs.trouble)
        self.comes_back(self.b)
        self.assertEqual((self.b.care.mended, told), (4, []))

    def test_hole_is_found(self) -> None:
        """Nobody needs to know of a hole: what nodes hold is compared now and then."""
        self.harm(self.c, "DELETE FROM returns WHERE id = 'web3'", "DELETE FROM jobs")

        self.nodes.until(lambda: self.c.care.mended == 2, "the hole to be found", 1.0)

        self.assertEqual(self.shown(self.c), 10)
        self.assertIsNotNone(self.nodes.get(self.c.jobs.job(JID)))

    def test_flipped_bits(self) -> None:
        """A row that holds something else than was written is found, and had from another node."""
        self.harm(self.b, "UPDATE returns SET load = X'81A1' WHERE id = 'web3'")

        self.nodes.until(lambda: self.b.care.mended, "the row to be found", 1.0)

        self.comes_back(self.b)
        self.assertTrue(self.b.care.bad)
        returns = self.nodes.get(self.b.jobs.returns(JID))
        self.assertEqual(returns["web3"]["return"], True)

    def test_damaged_rows_are_not_given(self) -> None:
        """What is damaged is not taken over from another node."""
        for node in (self.a, self.c):
            self.harm(node, "UPDATE returns SET load = X'81A1' WHERE id = 'web3'")
        self.harm(self.b, "DELETE FROM returns WHERE id IN ('web3', 'web4')")

        self.b.care.lacking()

        self.nodes.until(lambda: not self.b.jobs.trouble, "all to be asked", 1.0)
        self.assertEqual(self.shown(self.b), 9)

    def test_whole_file(self) -> None:
        """
        A job cache that is damaged while its node runs is filled again at once, of what arose on
        all nodes, its own too; until then the node says so.
        """
        self.give(self.b, LATER)
        self.nodes.settle()
        said: list[str] = []
        self.b.jobs.on_anew.append(lambda: said.append(self.b.jobs.problem))

        self.nodes.get(self.b.jobs.begin_anew("a test"))

        self.nodes.until(lambda: said, "another file")
        self.assertIn("a, c", said[0])
        for jid in (JID, LATER):
            self.comes_back(self.b, jid)
        self.assertEqual(self.b.jobs.problem, "")
        self.nodes.settle()

    def test_one_is_away(self) -> None:
        """Trouble is not over before every other member was asked."""
        self.b.peers.cut("c")
        self.nodes.get(self.b.jobs.begin_anew("a test"))

        self.nodes.until(lambda: self.shown(self.b) == 10, "what a has", 1.0)
        self.nodes.until(lambda: self.b.jobs.trouble.endswith(": c"), "a to be asked", 1.0)
        for _ in range(50):
            self.nodes.turn(1.0)

        self.assertIn(": c", self.b.jobs.trouble)
        self.b.peers.join(self.c.peers)
        self.comes_back(self.b)

    def test_joins_through_one_that_has_pruned(self) -> None:
        """What one member has pruned and another still has comes to who joined by the first."""
        a, c = self.a, self.c
        self.b.stop()
        a.peers.cut("c")
        get, now = self.nodes.get, self.nodes.clock.seconds
        # Node a keeps history for a shorter time
        a.jobs.keep_seconds = 100.0
        get(a.jobs.prune())
        self.nodes.clock.advance(500)
        get(a.jobs.prune())
        self.assertEqual(self.shown(a), 0)
        self.assertGreater(a.jobs.pruned, now() - 200)
        d = Node(self.nodes, "d")
        self.addCleanup(d.stop)
        self.nodes.one["d"] = d
        del self.nodes.one["b"]

        d.peers.join(a.peers)
        known = a.jobs.replica.knowledge
        self.nodes.until(lambda: d.jobs.replica.knowledge() == known(), "what a knows", 0.1)
        self.nodes.until(lambda: d.jobs.trouble.endswith(": c"), "a to be asked", 1.0)

        self.assertEqual(self.shown(d), 0)
        d.peers.join(c.peers)
        self.comes_back(d)
        # It was pruned there, and is not brought back there
        for _ in range(50):
            self.nodes.turn(4.0)
        self.assertEqual((self.shown(a), a.care.mended), (0, 0))
