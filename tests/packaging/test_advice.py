"""
Advice about units of systemd and users of the system, carried out on a Debian that has them.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import unittest

from twisted.trial.unittest import SynchronousTestCase

from saltwisted import advice
from tests.advice.carrying import printed
from tests.harness import until
from tests.packaging.lab import Machine, hub, packages
from tests.packaging.test_deb import REASON

ANY = tuple(range(256))
WITHOUT = "/usr/lib/saltwisted/bin"
"""Our commands by Salt's names, beside the package that has them in the path."""


@unittest.skipIf(bool(REASON), REASON)
class UnitTests(SynchronousTestCase):
    """One machine, from the installation on."""

    def setUp(self) -> None:
        scratch = tempfile.mkdtemp(prefix="swa", dir="/tmp")
        self.addCleanup(shutil.rmtree, scratch, ignore_errors=True)
        (host,) = hub(self, 1)
        self.a = Machine(os.path.join(scratch, "a"), host, self)
        _, main = packages()
        self.a.install(main)

    def said(self, command: str) -> str:
        """What a command says, whatever it ends with."""
        return self.a.follow(command, ANY)

    def check_status(self, code: int, *words: str) -> None:
        """The status of the machine."""
        text = self.a.follow("saltwisted status", (code,))
        for word in words:
            self.assertIn(word, text)

    def test_advice(self) -> None:
        """
        After the installation: nothing is wrong with any file. Whoever finds a daemon stopped is
        told its unit, of the role that this machine has; followed, it serves, and the keys are
        what they were. A node becomes a lone master by the lines that it prints.
        """
        # Before the first start, and after one salt-call
        self.check_status(2, "no daemon runs on this machine")
        self.assertNotIn("chown", self.said("saltwisted doctor"))
        self.a.follow("systemctl enable -q saltwisted-master")
        self.a.follow(printed(self.said(f"{WITHOUT}/salt '*' test.ping"), "start.unit"))
        self.a.follow("saltwisted salt-call --local test.ping")
        self.check_status(0, "master: serving")
        found = self.said("saltwisted doctor")
        self.assertNotIn("saltwisted-minion", found)
        self.assertNotIn("error", found)
        self.a.follow("systemctl stop saltwisted-master")
        self.assertNotIn("chown", self.said("saltwisted doctor"))
        for command in ("members", "token create", "roots status"):
            said = self.said(f"saltwisted {command}")
            self.assertIn("This machine has a lone master", said)
        self.log()
        self.node()
        self.shadow()

    def log(self) -> None:
        """A minion without a master says where its log is."""
        self.a.follow("systemctl start saltwisted-minion")
        self.a.wait("saltwisted doctor --role minion", "minion.master")
        command = printed(self.said("saltwisted doctor --role minion"), "log.unit")
        self.assertEqual(command, "journalctl -u saltwisted-minion -n 50")
        self.assertIn("saltwisted", self.a.follow(command))
        self.a.follow("systemctl stop saltwisted-minion")

    def node(self) -> None:
        """From a lone master to a node, and back, by what is printed."""
        key = "sha256sum /etc/saltwisted/pki/master/master.pem"
        before = self.a.follow(key)
        self.a.follow("systemctl disable -q saltwisted-master")
        self.a.follow("systemctl enable -q --now saltwisted-cluster")
        self.a.wait("saltwisted members", "serving")
        self.a.follow("systemctl stop saltwisted-cluster")
        for command in (f"{WITHOUT}/salt '*' test.ping", f"{WITHOUT}/salt-run manage.up"):
            said = printed(self.said(command), "start.unit")
            self.assertEqual(said, "systemctl start saltwisted-cluster")

        self.a.follow("systemctl start saltwisted-master", (1,))
        self.assertEqual(self.a.shown("saltwisted-master", "ExecMainStatus"), "78")
        text = self.a.follow("journalctl -u saltwisted-master -o cat --no-pager")
        told = self.a.follow(printed(text, "member.lone"))
        self.a.follow(printed(told, "start.lone"))

        until("it to serve", lambda: "master: serving" in self.said("saltwisted status"))
        self.check_status(0)
        self.assertEqual(self.a.follow(key), before)
        enabled = self.a.follow("systemctl is-enabled saltwisted-master saltwisted-cluster", ANY)
        self.assertEqual(enabled.split(), ["enabled", "disabled"])
        self.assertNotIn("error", self.said("saltwisted doctor"))

    def shadow(self) -> None:
        """The user of our master gets the right to check passwords."""
        ask = "import sys; from saltwisted.tools.takeover import in_group; " \
            "sys.exit(not in_group('saltwisted', 'shadow'))"  # fmt: skip
        self.a.follow(f'python3 -c "{ask}"', (1,))
        self.a.follow(advice.command("takeover.shadow", user="saltwisted"))
        self.a.follow(f'python3 -c "{ask}"')
