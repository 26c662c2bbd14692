"""
What a job cache has lost comes back from the other nodes, whatever took it.
"""

from __future__ import annotations

import sqlite3
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.jobs.care import WORD, JobCare
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
        self.nodes.until(lambda: not node.jobs.health.trouble, "trouble to be over", 1.0)

    def test_hole(self) -> None:
        """Rows that are gone, though the node knows of them, come back; nothing is told twice."""
        told: list[Any] = []
        self.b.jobs.replica.told.on_new(told.extend)
        self.harm(self.b, "DELETE FROM returns WHERE id > 'web5'")
        self.assertEqual(self.shown(self.b), 6)

        self.b.care.lacking()

        self.assertIn("being brought back from the other members: a, c", self.b.jobs.health.trouble)
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

        self.nodes.until(lambda: not self.b.jobs.health.trouble, "all to be asked", 1.0)
        self.assertEqual(self.shown(self.b), 9)

    def not_by_chance(self, node: Node) -> None:
        """A node does not look at its rows by itself."""
        self.nodes.until(lambda: not node.care._looking, "a look to be over")
        node.care._looking = True

    def test_giver_is_damaged(self) -> None:
        """
        A member with a damaged row keeps nobody from what the others have, and has its own row
        back at once.
        """
        self.give(self.b, LATER)
        self.nodes.settle()
        for node in (self.b, self.c):
            self.not_by_chance(node)
        harm = "UPDATE returns SET id = CAST(X'FF' AS TEXT) WHERE jid = ? AND id = 'web3'"
        self.harm(self.c, harm.replace("?", f"'{LATER}'"))

        self.nodes.get(self.b.jobs.health.begin_anew("a test"))

        for node in (self.b, self.c):
            for jid in (JID, LATER):
                self.comes_back(node, jid)
        self.assertEqual((self.c.care.bad, self.c.care.mended), (1, 1))
        self.nodes.settle()

    def test_damage_is_not_shipped(self) -> None:
        """Who joins through a member with a damaged row gets it as it was written."""
        self.not_by_chance(self.c)
        self.harm(self.c, "UPDATE returns SET load = X'81A1' WHERE id = 'web3'")
        d = Node(self.nodes, "d")
        self.addCleanup(d.stop)
        self.nodes.one["d"] = d

        d.peers.join(self.c.peers)

        self.nodes.until(lambda: self.shown(d) == 10, "all to come", 1.0)
        self.assertEqual(self.nodes.get(d.jobs.returns(JID))["web3"]["return"], True)
        self.nodes.settle()

    def test_damage_that_nobody_else_has(self) -> None:
        """What no member that can be asked has is lost, and the others get what follows it."""
        self.b.stop()
        self.a.peers.cut("c")
        del self.nodes.one["b"]
        self.give(self.c, LATER)
        self.not_by_chance(self.c)
        self.harm(self.c, f"DELETE FROM returns WHERE jid = '{LATER}' AND id = 'web1'")
        self.harm(
            self.c, f"UPDATE returns SET load = X'81A1' WHERE jid = '{LATER}' AND id = 'web3'"
        )

        self.a.peers.join(self.c.peers)

        self.nodes.settle()
        self.assertEqual((self.shown(self.a, LATER), self.c.care.bad), (8, 1))

    def test_lost_while_others_are_asked(self) -> None:
        """What is lost after a member was asked, and before the round is over, is asked for."""
        self.nodes.until(lambda: not self.b.care._fresh, "the first rounds", 1.0)
        self.b.care.lacking()
        compare, harmed = self.b.care._compare, [False]

        async def then_harm(link: Any) -> bool:
            whole = await compare(link)
            if not harmed[0]:
                harmed[0] = True
                self.harm(self.b, "DELETE FROM returns WHERE id > 'web5'")
                self.b.care.lacking()
            return whole

        self.patch(self.b.care, "_compare", then_harm)
        self.patch(self.b.care, "round_every", 1e6)
        del self.nodes.one["c"]
        self.b.peers.cut("c")

        self.nodes.until(lambda: harmed[0], "the harm", 1.0)
        self.nodes.until(lambda: not self.b.jobs.health.trouble, "trouble to be over", 1.0)
        self.assertEqual(self.shown(self.b), 10)

    def quiet(self) -> None:
        """First rounds are over, and no other comes by itself."""
        nodes = list(self.nodes.one.values())
        for node in nodes:
            self.patch(node.care, "round_every", 1e6)
        self.nodes.until(lambda: not any(n.care._fresh for n in nodes), "first rounds", 1.0)
        for _ in range(70):
            self.nodes.turn(1.0)

    def stays(self, node: Node, count: int, seconds: int = 100) -> None:
        """Nothing comes back for so long."""
        for _ in range(seconds):
            self.nodes.turn(1.0)
        self.assertEqual(self.shown(node), count)

    def test_owed_since_an_earlier_life(self) -> None:
        """Who stopped before all were asked asks them after its start."""
        self.quiet()
        self.harm(self.b, "DELETE FROM returns WHERE id > 'web5'")
        self.stays(self.b, 6)
        self.b.care.stopService()
        self.b.jobs.health.owes()

        self.b.care.startService()

        self.assertIn(": a, c", self.b.jobs.health.trouble)
        self.comes_back(self.b)

    def test_linked_before_its_start(self) -> None:
        """Whoever was linked before this part starts is compared with soon, too."""
        self.quiet()
        self.b.care.stopService()
        self.b.peers.cut("a")
        self.a.peers.join(self.b.peers)
        self.harm(self.b, "DELETE FROM returns WHERE id > 'web5'")

        self.b.care.startService()

        self.comes_back(self.b)

    def test_new_link(self) -> None:
        """Whoever is linked again is compared with soon, and not when all are."""
        self.quiet()
        self.harm(self.b, "DELETE FROM returns WHERE id > 'web5'")
        self.stays(self.b, 6)

        self.b.peers.cut("a")
        self.a.peers.join(self.b.peers)

        self.comes_back(self.b)

    def test_new_link_that_ends(self) -> None:
        """Nobody is compared with every few seconds because another did not stay."""
        self.quiet()
        asked: list[str] = []

        async def compare(link: Any) -> bool:
            asked.append(link.node)
            return True

        self.patch(self.b.care, "_compare", compare)
        self.b.peers.cut("a")
        self.a.peers.join(self.b.peers)
        self.b.peers.cut("a")

        for _ in range(100):
            self.nodes.turn(1.0)

        self.assertLess(len(asked), 3)

    def test_no_answer(self) -> None:
        """Who did not answer was not asked: trouble is not over."""
        self.quiet()
        answers = self.c.peers._answers
        real, answers[WORD] = answers[WORD], lambda node, body: Deferred()
        self.b.care.lacking()

        self.nodes.until(lambda: self.b.jobs.health.trouble.endswith(": c"), "a to be asked", 1.0)
        for _ in range(60):
            self.nodes.turn(1.0)
        self.assertTrue(self.b.jobs.health.trouble.endswith(": c"))

        answers[WORD] = real
        self.nodes.until(lambda: not self.b.jobs.health.trouble, "c to answer", 1.0)

    def test_not_caught_up(self) -> None:
        """Nor is it while a member knows what has not come yet."""
        self.quiet()
        late = {"c"}
        self.patch(self.b.care, "_caught_up", lambda node: node not in late)
        self.b.care.lacking()
        self.nodes.until(lambda: self.b.jobs.health.trouble.endswith(": c"), "a to be asked", 1.0)
        for _ in range(60):
            self.nodes.turn(1.0)
        self.assertTrue(self.b.jobs.health.trouble.endswith(": c"))

        late.clear()

        self.nodes.until(lambda: not self.b.jobs.health.trouble, "c to be asked", 1.0)

    def test_owed_by_one_that_is_removed(self) -> None:
        """Nobody waits for a member that is none any more."""
        self.b.peers.cut("c")
        self.b.care.lacking()
        self.nodes.until(lambda: self.b.jobs.health.trouble.endswith(": c"), "a to be asked", 1.0)

        del self.nodes.one["c"]

        self.nodes.until(lambda: not self.b.jobs.health.trouble, "trouble to be over", 1.0)
        self.assertFalse(self.b.jobs.health.owed)

    def test_each_lacks_another(self) -> None:
        """Two that hold as many rows, and not the same ones, find it."""
        self.c.stop()
        del self.nodes.one["c"]
        self.quiet()
        self.harm(self.a, "DELETE FROM returns WHERE id = 'web3'")
        self.harm(self.b, "DELETE FROM returns WHERE id = 'web4'")

        self.b.care.lacking()
        self.a.care.lacking()

        for node in (self.a, self.b):
            self.comes_back(node)

    def test_damage_beside_a_hole(self) -> None:
        """What is found to be damaged while a hole is mended is had back with it."""
        self.quiet()
        self.not_by_chance(self.b)
        self.harm(
            self.b,
            "UPDATE returns SET load = X'81A1' WHERE id = 'web3'",
            "DELETE FROM returns WHERE id = 'web4'",
        )

        self.b.care.lacking()

        self.comes_back(self.b)
        returns = self.nodes.get(self.b.jobs.returns(JID))
        self.assertEqual((returns["web3"]["return"], self.b.care.bad), (True, 1))

    def test_pages(self) -> None:
        """The pages of the file are checked now and then, and a damaged file is filled again."""
        self.harm(
            self.b,
            "PRAGMA writable_schema=ON",
            "DELETE FROM sqlite_schema WHERE name = 'jobs_started'",
        )

        def put_aside() -> int:
            return self.b.jobs.counts.moved_aside

        self.nodes.until(put_aside, "the file to be checked", 60.0)
        self.nodes.until(lambda: self.b.jobs.health.trouble, "another file", 1.0)
        self.comes_back(self.b)
        self.assertEqual((self.a.jobs.counts.moved_aside, put_aside()), (0, 1))

    def test_pages_again(self) -> None:
        """And not once only."""
        for _ in range(70):
            self.nodes.turn(60.0)
        self.test_pages()

    def test_one_that_is_behind(self) -> None:
        """What a member has not taken yet is no difference."""
        self.give(self.b, LATER)
        self.nodes.settle()
        self.quiet()
        mended: list[Any] = []

        async def mend(link: Any, *where: Any) -> None:
            mended.append((link.node, where))

        self.patch(self.b.care, "_mend", mend)
        self.a.shipping.stopService()
        self.give(self.b, "20260701120002000000")
        known = self.b.jobs.replica.knowledge
        self.nodes.until(lambda: self.c.jobs.replica.knowledge() == known(), "c to have it", 0.1)

        self.b.care.lacking()

        self.nodes.until(lambda: not self.b.jobs.health.trouble, "all to be asked", 1.0)
        self.assertEqual(mended, [])

    def test_rounds_go_on(self) -> None:
        """One round after another: what is lost later is found, too."""
        for number in range(3):
            self.harm(self.c, f"DELETE FROM returns WHERE id = 'web{number}'")
            self.nodes.until(lambda: self.shown(self.c) == 10, "the hole to be found", 1.0)

    def test_whole_file(self) -> None:
        """
        A job cache that is damaged while its node runs is filled again at once, of what arose on
        all nodes, its own too; until then the node says so.
        """
        self.give(self.b, LATER)
        self.nodes.settle()
        said: list[str] = []
        self.b.jobs.health.on_anew.append(lambda: said.append(self.b.jobs.problem))

        self.nodes.get(self.b.jobs.health.begin_anew("a test"))

        self.nodes.until(lambda: said, "another file")
        self.assertIn("a, c", said[0])
        for jid in (JID, LATER):
            self.comes_back(self.b, jid)
        self.assertEqual(self.b.jobs.problem, "")
        self.nodes.settle()

    def test_one_is_away(self) -> None:
        """Trouble is not over before every other member was asked."""
        self.b.peers.cut("c")
        self.nodes.get(self.b.jobs.health.begin_anew("a test"))

        self.nodes.until(lambda: self.shown(self.b) == 10, "what a has", 1.0)
        self.nodes.until(lambda: self.b.jobs.health.trouble.endswith(": c"), "a to be asked", 1.0)
        for _ in range(50):
            self.nodes.turn(1.0)

        self.assertIn(": c", self.b.jobs.health.trouble)
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
        self.assertGreater(a.jobs.file.pruned, now() - 200)
        d = Node(self.nodes, "d")
        self.addCleanup(d.stop)
        self.nodes.one["d"] = d
        del self.nodes.one["b"]

        d.peers.join(a.peers)
        known = a.jobs.replica.knowledge
        self.nodes.until(lambda: d.jobs.replica.knowledge() == known(), "what a knows", 0.1)
        self.nodes.until(lambda: d.jobs.health.trouble.endswith(": c"), "a to be asked", 1.0)

        self.assertEqual(self.shown(d), 0)
        d.peers.join(c.peers)
        self.comes_back(d)
        # It was pruned there, and is not brought back there
        a.peers.join(c.peers)
        self.nodes.until(lambda: not a.care._fresh, "them to be compared", 1.0)
        self.assertEqual((self.shown(a), a.care.mended), (0, 0))
        # Nor is it a difference that somebody has to look into
        self.give(a, LATER)
        self.nodes.settle()
        mended: list[Any] = []

        async def mend(link: Any, *where: Any) -> None:
            mended.append((link.node, where))

        self.patch(c.care, "_mend", mend)
        c.care.lacking()
        self.nodes.until(lambda: not c.jobs.health.trouble, "all to be asked", 1.0)
        self.assertEqual(mended, [])
