"""
Advice about the roots of a cluster, carried out on real nodes on loopback.
"""

from __future__ import annotations

import os
import shutil
from typing import Any

from saltwisted.domain.roots import health
from tests.advice.carrying import Shell, printed
from tests.cluster.real import OurNode
from tests.harness import reserve_ports, scratch, until
from tests.interop.test_cluster_roots import RootsCase as Case

SHARE = "file/base/0"


class RootsTests(Case):
    """Two nodes."""

    def setUp(self) -> None:
        self.shell = Shell(self)
        self.home = scratch(self)
        ports = reserve_ports(3)
        self.one = self.node("one", 1, ports, guard_files=2, guard_pct=25)
        self.two = self.node("two", 2, ports, guard_files=2, guard_pct=25)

    def found(self, node: OurNode) -> dict[str, Any]:
        """What is wrong with its roots, by id."""
        return {one.id: one for one in health.roots(self.roots(node, "status", check=False))}

    def carry_out(self, node: OurNode, name: str) -> str:
        """Do what a finding says, once, as the doctor prints it; what was printed then."""
        said = node.command("doctor").stdout
        finding = self.found(node)[name]
        command = printed(said, str(finding.advice.id))
        self.assertTrue(command.partition("saltwisted ")[2].startswith("roots"), command)
        return self.shell.run(command)

    def begin(self) -> None:
        """Both serve the same eight files."""
        self.one.up()
        for number in range(8):
            self.write(self.one, f"salt/{number}.sls", "1\n")
        self.one.command("roots", "sync", check=True)
        self.join(self.one, self.two)
        until("the files", lambda: self.read(self.two, "salt/7.sls"))

    def test_held(self) -> None:
        """Deletions that are held are let through by the line, and are gone on both."""
        self.begin()
        for number in range(6):
            os.unlink(f"{self.home}/srv/one/salt/{number}.sls")
        until("it is held", lambda: "roots.held" in self.found(self.one))

        self.carry_out(self.one, "roots.held")

        until("it is deleted", lambda: self.read(self.two, "salt/0.sls") is None)
        until("all is said", lambda: "roots.held" not in self.found(self.one))
        self.assertEqual(self.read(self.two, "salt/7.sls"), "1\n")

    def test_suspended(self) -> None:
        """A directory that was emptied at once is filled again by the line."""
        self.begin()
        shutil.rmtree(f"{self.home}/srv/one/salt")
        os.mkdir(f"{self.home}/srv/one/salt")
        until("it is suspended", lambda: "roots.suspended" in self.found(self.one))

        self.carry_out(self.one, "roots.suspended")

        until("it is filled", lambda: self.read(self.one, "salt/7.sls") == "1\n")
        until("all is said", lambda: "roots.suspended" not in self.found(self.one))
        self.assertEqual(self.read(self.two, "salt/0.sls"), "1\n")

    def test_conflict(self) -> None:
        """A file that both have changed while apart is named, of one share or of all."""
        self.begin()
        self.two.kill()
        self.write(self.one, "salt/0.sls", "of one\n")
        self.one.command("roots", "sync", check=True)
        self.write(self.two, "salt/0.sls", "of two\n")
        self.two.up()
        until("it is kept", lambda: "roots.conflict" in self.found(self.one))

        self.assertIn("0.sls", self.carry_out(self.one, "roots.conflict"))
        at = Shell(self, SALTWISTED_CONFIG_DIR=self.one.conf)
        self.assertIn("0.sls", at.run("saltwisted roots conflicts"))

    def test_looks(self) -> None:
        """What shows how far the roots are does so, and what waits for them ends."""
        self.begin()
        at = Shell(self, SALTWISTED_CONFIG_DIR=self.one.conf)
        peers = {"two": {"error": "refused", "shares": {SHARE: {"lacks": 1}}}}
        commands = {one.id: one.command for one in health.roots({"peers": peers})}

        self.assertIn(SHARE, at.run(commands["roots.peer"]))
        at.run(commands["roots.lag"])
        said = self.one.command("salt", "x", "test.ping", "--generation", "nosuch").stdout
        said = said if "roots log" in said else "saltwisted roots log shows those that are"
        self.assertTrue(at.run(printed(said, "roots.log").replace(" shows", "")))


del Case
