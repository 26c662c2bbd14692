"""
Real nodes on loopback: leaving and being removed, and what each command says.
"""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.cluster.real import cluster, nodes
from tests.harness import OurMinion, scratch, until


class LeaveTests(SynchronousTestCase):
    """Ends of a membership."""

    def test_remove(self) -> None:
        """
        A removed node is cut off while the others go on, knows it, and cannot come back with what
        it holds; tokens made before admit nobody.
        """
        a, b, c = cluster(self, "a b c", auto_accept=True)
        minion = OurMinion(scratch(self), b, "m1")
        self.addCleanup(minion.kill)
        minion.up()
        a.ping_until("m1")
        token = b.token()

        a.command("remove", "c", check=True)

        until("c to know", lambda: c.states() == {"c": "removed"})
        # The links have new certificates, and so are made again
        until("b to know", lambda: b.states() == {"a": "serving", "b": "serving"})
        a.ping_until("m1")
        self.assertNotEqual(c.command("join", token).returncode, 0)
        c.kill()
        c.start()
        until("c to answer", c.members)
        self.assertFalse(c.serving())
        self.assertEqual(sorted(a.states()), ["a", "b"])
        c.command("join", b.token(), check=True)
        until("c to be back", lambda: len(a.members()) == 3)

    def test_compromised(self) -> None:
        """
        A node that is removed as compromised is refused at once, whoever cannot be reached, and
        who that is, is said; who was away follows when it is back, and lets the other in no more.
        """
        a, b, c = cluster(self, "a b c")
        b.kill()

        said = a.command("remove", "c", "--compromised", check=True)

        self.assertIn("b", said.stderr)
        until("c to know", lambda: c.states() == {"c": "removed"})
        b.up()
        until("two members", lambda: sorted(b.states()) == ["a", "b"])

        until("both to serve", lambda: set(a.states().values()) == {"serving"})
        c.kill()
        c.start()
        until("c to answer", c.members)
        self.assertFalse(c.serving())
        self.assertEqual(sorted(b.states()), ["a", "b"])

    def test_removed_while_away(self) -> None:
        """A node that was down when it was removed is told when it comes back, and ends serving."""
        for away in ("a", "c"):
            made = cluster(self, "a b c")
            gone = next(node for node in made if node.name == away)
            gone.kill()

            made[1].command("remove", away, check=True)
            gone.start()

            until(f"{away} to know", lambda node=gone: set(node.states().values()) == {"removed"})
            self.assertEqual(len(made[1].states()), 2)

    def test_leave(self) -> None:
        """
        A node that leaves hands over what it has, is gone from the list, and serves nobody; our
        minion, which was told of no other master, goes to one.
        """
        a, b = cluster(self, "a b", auto_accept=True)
        minion = OurMinion(scratch(self), b, "m1")
        self.addCleanup(minion.kill)
        minion.up()
        # A job that it missed would be waited for
        minion.wait_for_line("connected to master")
        b.ping_until("m1")
        minion.wait_for_line(f"{a.address}:{a.ret_port}")
        self.assertEqual(b.salt("m1", "test.echo", "handed over"), {"m1": "handed over"})

        said = b.command("leave", check=True).stdout

        self.assertIn("1 minion was connected here", said)
        self.assertEqual(b.states(), {"b": "left"})
        self.assertFalse(b.serving())
        until("a to know", lambda: a.states() == {"a": "serving"})
        echoed = [
            jid
            for jid, job in a.run("jobs.list_jobs").items()
            if job["Arguments"] == ["handed over"]
        ]
        self.assertEqual(a.run("jobs.lookup_jid", *echoed), {"m1": "handed over"})
        a.ping_until("m1")

    def test_approve(self) -> None:
        """T-PEER-6: a join that needs approval waits, holds no key, and goes on when approved."""
        a, b = nodes(self, "a b")
        a.up()
        b.up()
        b.command("join", a.token("--approve"), "--no-wait")
        until("b to wait", lambda: a.states().get("b") == "suspended")
        with open(f"{a.pki}/master.pem", "rb") as one, open(f"{b.pki}/master.pem", "rb") as other:
            self.assertNotEqual(one.read(), other.read())

        a.command("members", "approve", "b", check=True)

        until("both to serve", lambda: a.states() == {"a": "serving", "b": "serving"})
