"""
Daemons that cannot begin: what they say, and what they leave with.
"""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.errors import ConfigError, PortError, StoreError
from saltwisted.roles.ending import EX_CONFIG, EX_ERROR, status_of
from tests.harness import ROOT, reserve_ports, scratch, twistd, write_config


class StatusTests(SynchronousTestCase):
    """Which error is which status."""

    def test_kinds(self) -> None:
        """A person has to mend a configuration or an owner; a port may be free a moment later."""
        denied = StoreError("Permission denied", "/x")
        denied.__cause__ = PermissionError(13, "Permission denied")
        taken = PortError("cannot listen")
        taken.__cause__ = PermissionError(13, "Permission denied")
        full = StoreError("No space left on device", "/x")
        full.__cause__ = OSError(28, "No space left on device")

        found = [status_of(error) for error in (ConfigError("no"), denied, taken, full)]

        self.assertEqual(found, [EX_CONFIG, EX_CONFIG, EX_ERROR, EX_ERROR])


class DaemonTests(SynchronousTestCase):
    """Real daemons, which end at once."""

    def setUp(self) -> None:
        self.home = scratch(self)
        os.chmod(self.home, 0o755)
        self.publish, self.ret, self.peers = reserve_ports(3)
        self.values = {
            "id": "one",
            "interface": "127.0.0.1",
            "publish_port": self.publish,
            "ret_port": self.ret,
            "cluster_pool_port": self.peers,
            "pki_dir": f"{self.home}/pki",
            "cachedir": f"{self.home}/cache",
            "sock_dir": f"{self.home}/run",
            "log_file": f"{self.home}/log",
        }

    def start(self, role: str) -> tuple[int, str]:
        """The status with which a daemon leaves, and all that it said."""
        write_config(f"{self.home}/conf/master", self.values)
        done = subprocess.run(
            [*twistd(), "--nodaemon", "--pidfile=", "saltwisted", "--role", role,
             "--config", f"{self.home}/conf"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False,
            cwd=self.home, env={**os.environ, "PYTHONPATH": ROOT},
        )  # fmt: skip
        log = Path(self.home, "log")
        return done.returncode, done.stdout + (log.read_text() if log.exists() else "")

    def test_owner(self) -> None:
        """Files of somebody else's are one line that says what mends it, and status 78."""
        os.makedirs(f"{self.home}/pki/cluster", 0o700)
        token = Path(self.home, "pki/cluster/join.token")
        token.write_text("t\n")
        token.chmod(0o600)
        if os.geteuid() == 0:
            self.values["user"] = "nobody"
            for name in ("pki", "cache", "run"):
                os.makedirs(f"{self.home}/{name}", exist_ok=True)
                os.chmod(f"{self.home}/{name}", 0o777)
        else:
            os.chmod(f"{self.home}/pki/cluster", 0)
            self.addCleanup(os.chmod, f"{self.home}/pki/cluster", 0o700)

        status, said = self.start("cluster")

        self.assertEqual(status, EX_CONFIG, said)
        lines = [line for line in said.splitlines() if "pki/cluster" in line]
        self.assertEqual(len(lines), 1, said)
        if os.geteuid() == 0:
            self.assertIn(f"chown -R nobody: {self.home}/pki", lines[0])
        self.assertNotIn("Traceback", said)

    def test_port(self) -> None:
        """A port that is taken ends the daemon with 1 and one line, and not with 0."""
        with socket.socket() as other:
            other.bind(("127.0.0.1", self.ret))
            other.listen()

            status, said = self.start("master")

        self.assertEqual(status, EX_ERROR, said)
        self.assertIn(f"cannot listen on 127.0.0.1:{self.ret}", said)
        self.assertNotIn("Traceback", said)

    def test_late(self) -> None:
        """What goes wrong after the configuration was read has its status, too."""
        os.makedirs(f"{self.home}/pki/cluster", 0o700)
        Path(self.home, "pki/cluster/node.json").write_text("{")

        status, said = self.start("cluster")

        self.assertEqual(status, EX_ERROR, said)
        self.assertIn("is damaged", said)
        self.assertNotIn("Traceback", said)
