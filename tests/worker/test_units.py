"""
Which unit is whose, and how a daemon is started.
"""

from __future__ import annotations

import os
import socket

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.tools import units
from saltwisted.tools.units import master_role, unit_of
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

    def test_start(self) -> None:
        """The unit where it is installed and reads this configuration, else twistd."""
        packaged = {"conf_file": "/etc/saltwisted/master"}
        self.assertEqual(
            units.start("cluster", packaged, True).command, "systemctl start saltwisted-cluster"
        )
        own = {"conf_file": "/srv/x/minion"}
        self.assertIn("--config /etc/saltwisted", units.start("cluster", packaged, False).command)
        self.assertIn("--config /srv/x", units.start("minion", own).command)
        self.assertIn("twistd", units.start("minion", own, True).command)
        self.assertIn("--config /etc/salt", units.start("master", {}, False).command)

    def used(self, role: str, config_dir: str = "/srv/x") -> bool:
        """Whether a role is one of this machine."""
        return units.is_used(
            f"{self.home}/pki", f"{self.home}/run", role, config_dir, f"{self.home}/wants",
            (f"{self.home}/units",),
        )  # fmt: skip

    def test_is_used(self) -> None:
        """By hand, a role was meant to run if it has made its socket's directory, or a master."""
        pki, sock = f"{self.home}/pki", f"{self.home}/run"
        self.assertFalse(self.used("minion"))
        os.mkdir(pki)
        self.assertFalse(self.used("minion"))
        for role in ("minion", "master"):
            with open(f"{pki}/{role}.pem", "w"):
                pass
        self.assertFalse(self.used("minion"), "salt-call makes a key as well")
        self.assertTrue(self.used("master"))
        os.mkdir(sock)
        self.assertTrue(self.used("minion"))

    def test_is_enabled(self) -> None:
        """With our package a role counts that is enabled, whatever files there are; or runs."""
        for folder in ("units", "wants", "pki", "run"):
            os.mkdir(f"{self.home}/{folder}")
        for role in ("master", "cluster", "minion"):
            with open(f"{self.home}/units/saltwisted-{role}.service", "w"):
                pass
        for role in ("minion", "master"):
            with open(f"{self.home}/pki/{role}.pem", "w"):
                pass
            self.assertFalse(self.used(role, units.PACKAGED))
        os.symlink("/nowhere", f"{self.home}/wants/saltwisted-cluster.service")
        self.assertTrue(self.used("master", units.PACKAGED))
        self.assertFalse(self.used("minion", units.PACKAGED))
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(f"{self.home}/run/{units.SOCKET}")
            self.assertFalse(self.used("minion", units.PACKAGED), "nobody listens")
            one.listen()
            self.assertTrue(self.used("minion", units.PACKAGED))

    def test_user_of(self) -> None:
        """A unit's user: what is dropped in counts more, and root where it names none."""
        folders = (f"{self.home}/etc", f"{self.home}/lib")
        self.assertEqual(units.user_of("master", folders), "")
        os.makedirs(f"{self.home}/lib")
        with open(f"{self.home}/lib/saltwisted-master.service", "w") as stream:
            stream.write("[Service]\nExecStart=x\n")
        self.assertEqual(units.user_of("master", folders), "root")
        with open(f"{self.home}/lib/saltwisted-master.service", "a") as stream:
            stream.write("User=saltwisted\n")
        self.assertEqual(units.user_of("master", folders), "saltwisted")
        os.makedirs(f"{self.home}/etc/saltwisted-master.service.d")
        with open(f"{self.home}/etc/saltwisted-master.service.d/u.conf", "w") as stream:
            stream.write("[Service]\nUser=salt\n")
        self.assertEqual(units.user_of("master", folders), "salt")

    def test_daemons(self) -> None:
        """What runs is known by its command line; workers of a daemon, and others, are not."""
        for pid, words in (
            ("7", ["python3", "twistd3", "saltwisted", "--role", "master", "--config", "/e/x"]),
            ("9", ["python3", "twistd3", "saltwisted", "--role=minion"]),
            ("12", ["python3", "twistd3", "saltwisted", "--role", "master", "--config", "/e/x"]),
            ("13", ["saltwisted", "status"]),
            ("14", ["less", "saltwisted"]),
        ):
            os.makedirs(f"{self.home}/{pid}")
            with open(f"{self.home}/{pid}/cmdline", "wb") as stream:
                stream.write("\0".join([*words, ""]).encode())

        found = [(one.pid, one.role, one.directory) for one in units.daemons(self.home)]

        self.assertEqual(found, [(7, "master", "/e/x"), (9, "minion", "")])

    def test_is_lone(self) -> None:
        """A machine with a master's key and no node is one with a lone master."""
        wanted = f"{self.home}/wants"
        self.assertFalse(units.is_lone(self.home, wanted))
        with open(f"{self.home}/master.pem", "w"):
            pass
        self.assertTrue(units.is_lone(self.home, wanted))
        os.makedirs(f"{self.home}/cluster")
        with open(f"{self.home}/cluster/node.json", "w"):
            pass
        self.assertFalse(units.is_lone(self.home, wanted))
