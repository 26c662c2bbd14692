"""
Advice about members of a cluster, carried out on real nodes on loopback.
"""

from __future__ import annotations

import json
import os
import shutil
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.roles.ending import EX_CONFIG
from tests.advice.carrying import Shell, plain, printed
from tests.cluster.real import OurNode, cluster, nodes
from tests.harness import until, write_config


def serving(node: OurNode) -> set[str]:
    """The members that it sees serving."""
    return {name for name, state in node.states().items() if state == "serving"}


class MembersCase(SynchronousTestCase):
    """What the tests share."""

    def setUp(self) -> None:
        self.shell = Shell(self)

    def at(self, node: OurNode) -> Shell:
        """A shell of who administers a node: its configuration is the usual one there."""
        return Shell(self, SALTWISTED_CONFIG_DIR=node.conf)

    def said(self, node: OurNode, *words: str) -> str:
        """What a command says there, whatever it ends with."""
        done = node.command(*words)
        return done.stdout + done.stderr

    def findings(self, node: OurNode) -> dict[str, dict[str, Any]]:
        """The doctor's, by id; those of this machine's clock and files count elsewhere."""
        done = node.command("doctor", "--json")
        found = json.loads(done.stdout)["findings"]
        return {one["id"]: one for one in found if not one["id"].startswith(("clock", "option"))}

    def lose_disk(self, node: OurNode) -> None:
        """Its machine is there, and all that it knew is gone."""
        node.kill()
        for folder in ("etc/salt/pki", "var/cache"):
            shutil.rmtree(os.path.join(node.root, folder))


class MemberTests(MembersCase):
    """Three nodes."""

    def test_down(self) -> None:
        """
        A member that is gone for good: C{members}, C{status} and C{doctor} say the same and how to
        remove it; then it is, and nothing is left to say. A machine that comes under its name is
        told what to do first, and joins.
        """
        a, b, c = cluster(self, "a b c")
        until("all", lambda: len(serving(a)) == 3)
        self.lose_disk(c)
        until("a to miss c", lambda: a.states().get("c") == "down")

        commands = {
            printed(self.said(a, "members"), "member.down"),
            printed(self.said(a, "status", "--role", "cluster"), "member.down"),
            self.findings(a)["member.state"]["command"],
        }
        c.start()
        until("c to answer", c.members)
        refused = self.said(c, "join", a.token())
        # As it says there: on a member, without the configuration of the node that asks
        remove = printed(refused, "cluster.known")
        self.assertIn("on a member", refused)
        self.assertEqual({plain(one) for one in commands}, {remove})
        (command,) = commands
        self.shell.run(command)

        self.assertEqual(sorted(a.states()), ["a", "b"])
        until("a to be well", lambda: not self.findings(a))
        self.assertNotIn("remove", self.said(a, "members"))
        again = self.shell.run(
            printed(self.said(c, "members"), "cluster.unfounded"), said=a.token(), allowed=(0, 3)
        )
        self.assertIn("has joined", again)
        until("c to be back", lambda: serving(b) == {"a", "b", "c"})

    def test_lost_disk(self) -> None:
        """
        A node that lost its disk says so in C{members}, C{status} and C{doctor}, the true cause
        first: nothing about ports, and nothing that founds a second cluster.
        """
        a, b = cluster(self, "a b")
        until("both", lambda: len(serving(a)) == 2)
        self.lose_disk(b)
        b.start()
        until("b to be called", lambda: "has lost its disk" in str(b.said()))

        members, status = self.said(b, "members"), self.said(b, "status", "--role", "cluster")
        found = self.findings(b)

        for text in (members, status, found["cluster.outside"]["text"]):
            self.assertIn("this node has lost its disk", text)
            self.assertNotIn("cluster init", text)
        self.assertNotIn("port.closed", found)
        self.assertNotIn("port.unreachable", found)
        command = printed(members, "cluster.lost-disk")
        self.assertEqual(command, found["cluster.outside"]["command"])
        until("a to miss b", lambda: a.states().get("b") == "down")
        a.command("remove", "b", check=True)
        self.shell.run(command, said=a.token(), allowed=(0, 3))
        until("b to be back", lambda: serving(a) == {"a", "b"})
        until("b to be well", lambda: not self.findings(b))

    def test_minority(self) -> None:
        """
        One of three that reaches no other: all three commands say that it is cut off, and none
        advises to remove the majority; nor does its log.
        """
        a, b, c = cluster(self, "a b c")
        until("all", lambda: len(serving(a)) == 3)
        for node in (b, c):
            node.kill()
        down = {"a": "serving", "b": "down", "c": "down"}
        until("a to be alone", lambda: a.states() == down)

        members, status = self.said(a, "members"), self.said(a, "status", "--role", "cluster")
        found = self.findings(a)["cluster.cut-off"]

        for text in (members, status, found["advice"]):
            self.assertIn("This node reaches none of the other members (b, c): it is cut off", text)
            self.assertNotIn("saltwisted remove", text)
        self.assertEqual(found["command"], "")
        self.assertNotIn("member.state", self.findings(a))
        self.assertNotIn("saltwisted remove", a.text())

    def test_approve(self) -> None:
        """A node that waits for approval, and a member that sees it, name the line for it."""
        a, b = nodes(self, "a b")
        a.up()
        b.start()
        until("b to answer", b.members)
        waits = self.said(b, "join", a.token("--approve"))
        until("a to see it", lambda: a.states().get("b") == "suspended")

        command = printed(self.said(a, "members"), "member.suspended")
        self.assertEqual(printed(waits, "member.approve"), plain(command))
        self.assertEqual(self.findings(a)["member.state"]["command"], command)
        self.at(a).run(printed(waits, "member.approve"))

        until("b to serve", lambda: serving(a) == {"a", "b"})
        self.assertNotIn("approve", self.said(a, "members"))

    def test_dead(self) -> None:
        """
        Of two the one that decides is gone: the other says how to declare it dead, and works then;
        what comes back is told where both have it written down.
        """
        a, b = cluster(self, "a b")
        until("both", lambda: len(serving(b)) == 2)
        until("b to claim nothing alone", lambda: not self.problem(b))
        a.kill()
        until("b to say so", lambda: "--declare-dead" in self.problem(b))

        for text in (self.said(b, "members"), self.said(b, "status", "--role", "cluster")):
            command = printed(text, "member.dead")
        self.at(b).run(command)

        until("b to work", lambda: not self.problem(b))
        a.start()
        a.wait_for_line("may have been done by another member as well")
        self.at(a).run(printed(a.text(), "receipts.look"))

    def problem(self, node: OurNode) -> str:
        """Why it claims nothing."""
        return str((node.said().get("claims") or {}).get("problem") or "")

    def test_words(self) -> None:
        """Members, options and tokens are shown by the lines that are printed for it."""
        a, b = nodes(self, "a b")
        write_config(f"{b.conf}/master", {**b.options, "peer": {"x": ["test.*"]}})
        a.up()
        b.start()
        until("b to answer", b.members)
        made = self.said(a, "token", "create")
        self.at(b).run(printed(made, "token.use"), allowed=(0, 3))
        until("the difference", lambda: "option.drift" in self.drifting(a))

        drift = self.drifting(a)["option.drift"]["command"]
        self.assertIn("peer", self.shell.run(drift, allowed=(3,)))
        said = self.said(a, "token", "revoke", "nosuch")
        self.assertIn("ID", self.at(a).run(printed(said, "token.list")))
        self.assertIn("b", self.at(a).run(printed("x: saltwisted members", "members.look")))

    def drifting(self, node: OurNode) -> dict[str, Any]:
        """All that the doctor finds."""
        done = node.command("doctor", "--json")
        return {one["id"]: one for one in json.loads(done.stdout)["findings"]}


class OutsideTests(MembersCase):
    """Ends of a membership, and ways out of it."""

    def test_offline(self) -> None:
        """
        A node does not start as a lone master: it ends with 78 and says how it can; done so, it
        serves its minions' keys, its state is kept, and the others are told by a line that they
        can run. A running node is told to leave as one.
        """
        a, b = cluster(self, "a b")
        until("both", lambda: len(serving(b)) == 2)
        at = self.at(b)
        running = at.run("saltwisted leave --offline", allowed=(1,))
        self.assertEqual(printed(running, "stop.first"), "saltwisted leave -c " + b.conf)
        b.stop()
        os.makedirs(f"{b.pki}/minions", exist_ok=True)
        before = sorted(os.listdir(b.pki))
        b.argv[b.argv.index("cluster")] = "master"
        b.start()
        assert b.process is not None
        self.assertEqual(b.process.wait(60), EX_CONFIG)
        self.assertEqual(sorted(os.listdir(b.pki)), before)

        said = self.shell.run(printed(b.text(), "member.lone"))
        self.at(a).run(printed(said, "left.member"))
        start = printed(said, "start.hand")
        b.argv, b.env = self.shell.argv(start), self.shell.environ
        b.start()
        b.serving_alone()

        self.assertEqual(sorted(a.states()), ["a"])
        kept = [name for name in os.listdir(b.pki) if name.startswith("cluster.left-")]
        self.assertEqual(len(kept), 1)
        self.assertIn("node.json", os.listdir(f"{b.pki}/{kept[0]}"))
        self.assertIn("master: serving", at.run("saltwisted status --role master"))

    def test_left(self) -> None:
        """
        A node that has left says how it comes back, and as a lone master how it becomes one; either
        can be done as it is printed.
        """
        a, b, c = cluster(self, "a b c")
        until("all", lambda: len(serving(a)) == 3)
        refused = self.said(a, "remove", "a")
        other = nodes(self, "z")[0].up()
        refused += self.said(c, "join", other.token())
        commands = {printed(refused, "cluster.itself"), printed(refused, "cluster.other")}
        self.assertEqual(commands, {"saltwisted leave"})
        self.at(c).run(*commands)
        self.at(b).run(*commands)

        command = printed(self.said(b, "members"), "cluster.outside")
        self.at(b).run(command, said=a.token(), allowed=(0, 3))
        until("b to be back", lambda: serving(a) == {"a", "b"})
        c.stop()
        c.argv[c.argv.index("cluster")] = "master"
        c.start()
        assert c.process is not None
        self.assertEqual(c.process.wait(60), EX_CONFIG)
        self.shell.run(printed(c.text(), "left.lone"))
        c.start()
        c.serving_alone()

    def test_refused(self) -> None:
        """A node whose token is refused at its start waits for another, and takes it."""
        a, b = nodes(self, "a b")
        a.up()
        b.command("join", a.token("--id", "z*"), check=True)
        b.start()
        until("b to be refused", lambda: "was refused" in str(b.said()))

        command = printed(self.said(b, "members"), "cluster.refused")
        self.at(b).run(command, said=a.token(), allowed=(0, 3))

        until("b to serve", lambda: serving(a) == {"a", "b"})

    def test_untold(self) -> None:
        """A node that leaves while nobody is there says what has to be done, which can be done."""
        a, b = cluster(self, "a b")
        until("both", lambda: len(serving(b)) == 2)
        a.kill()
        until("b to be alone", lambda: b.states().get("a") == "down")
        self.at(b).run("saltwisted leave --force")

        command = printed(b.text(), "cluster.untold")
        a.up()
        self.at(a).run(command)

        self.assertEqual(sorted(a.states()), ["a"])
