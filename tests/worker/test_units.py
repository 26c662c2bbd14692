"""
Which unit is whose, and how a daemon is started.
"""

from __future__ import annotations

import os

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.tools.units import is_used, master_role, start_command, unit_of
from tests.harness import scratch


class UnitsTests(SynchronousTestCase):
    """Files of a machine, laid out as systemd lays them out."""

    def setUp(self) -> None:
        self.home = scratch(self)

    def cgroup(self, text: str) -> str:
        """The unit of a process whose cgroup this is."""
        os.makedirs(f"{self.home}/7", exist_ok=True)
        with open(f"{self.home}/7/cgroup", "w") as stream:
            stream.write(text)
        return unit_of(7, self.home)

    def test_unit_of(self) -> None:
        """A unit of ours is named, with any name; a session or sshd's unit is not one."""
        self.assertEqual(
            self.cgroup("0::/system.slice/saltwisted-cluster.service\n"), "saltwisted-cluster"
        )
        self.assertEqual(self.cgroup("0::/system.slice/my-salt.service\n"), "my-salt")
        self.assertEqual(self.cgroup("0::/system.slice/ssh.service\n"), "")
        self.assertEqual(self.cgroup("0::/user.slice/user-0.slice/session-3.scope\n"), "")
        self.assertEqual(unit_of(8, self.home), "")

    def test_master_role(self) -> None:
        """A node of a cluster is one also while it is down, and before its first start."""
        wanted = f"{self.home}/wants"
        os.mkdir(wanted)
        self.assertEqual(master_role(self.home, wanted), "master")
        os.symlink("/nowhere", f"{wanted}/saltwisted-cluster.service")
        self.assertEqual(master_role(self.home, wanted), "cluster")
        os.unlink(f"{wanted}/saltwisted-cluster.service")
        os.mkdir(f"{self.home}/cluster")
        with open(f"{self.home}/cluster/node.json", "w"):
            pass
        self.assertEqual(master_role(self.home, wanted), "cluster")

    def test_start_command(self) -> None:
        """The unit where it is installed and reads this configuration, else twistd."""
        packaged = {"conf_file": "/etc/saltwisted/master"}
        self.assertEqual(
            start_command("cluster", packaged, True), "systemctl start saltwisted-cluster"
        )
        self.assertIn("--config /etc/saltwisted", start_command("cluster", packaged, False))
        self.assertIn("--config /srv/x", start_command("minion", {"conf_file": "/srv/x/minion"}))
        self.assertIn("twistd", start_command("minion", {"conf_file": "/srv/x/minion"}, True))

    def test_is_used(self) -> None:
        """A role has run here where it left a key, or its socket's directory is there."""
        pki, sock = f"{self.home}/pki", f"{self.home}/run"
        self.assertFalse(is_used(pki, sock, "minion"))
        os.mkdir(pki)
        self.assertFalse(is_used(pki, sock, "minion"))
        with open(f"{pki}/minion.pem", "w"):
            pass
        self.assertTrue(is_used(pki, sock, "minion"))
        self.assertFalse(is_used(pki, sock, "master"))
        os.mkdir(sock)
        self.assertTrue(is_used(pki, sock, "master"))
