"""
The systemd units as they are shipped.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.doors import DOORS, MIB
from saltwisted.roles.stores import warm_pool
from saltwisted.tap import ROLES
from tests.harness import ROOT

UNITS = Path(ROOT, "packaging/deb")
ANALYZE = shutil.which("systemd-analyze")
AT_REST, OF_A_MINION, OF_A_WORKER = 60, 0.054, 15
"""MiB, as docs/benchmarks.md has them: a master at rest, and what each minion and worker adds."""
THREADS = 30
EXPOSURE = 20
"""Ten times what C{systemd-analyze security} may give a master at most."""


def settings(role: str) -> dict[str, str]:
    """What stands in a unit."""
    text = (UNITS / f"saltwisted.saltwisted-{role}.service").read_text()
    return dict(re.findall(r"^(\w+)=(.*)$", text, re.M))


class UnitTests(SynchronousTestCase):
    """What each of them promises."""

    def test_roles(self) -> None:
        """Each role has a unit, which starts that role with Debian's twistd."""
        for role in ROLES:
            command = settings(role)["ExecStart"]
            self.assertTrue(command.startswith("/usr/bin/twistd3 --nodaemon --pidfile= saltwisted"))
            self.assertIn(f"--role {role} --config /etc/saltwisted", command)

    def test_life(self) -> None:
        """Readiness is told, the watchdog listens, a reload is a signal, a stop has its time."""
        for role in ROLES:
            unit = settings(role)
            self.assertEqual(unit["Type"], "notify")
            self.assertGreaterEqual(int(unit["WatchdogSec"]), 10)
            self.assertGreater(int(unit["TimeoutStopSec"]), 10)
            self.assertEqual(unit["ExecReload"], "/bin/kill -HUP $MAINPID")
            self.assertEqual(unit["LimitCORE"], "0")

    def test_minion_jobs(self) -> None:
        """A stop of the minion ends it alone, not its jobs, nor does a job without memory."""
        unit = settings("minion")
        self.assertEqual((unit["KillMode"], unit["OOMPolicy"]), ("process", "continue"))
        self.assertNotIn("User", unit)

    def test_master_rights(self) -> None:
        """Masters run without rights, as a user of their own."""
        for role in ("master", "cluster"):
            unit = settings(role)
            self.assertEqual((unit["User"], unit["CapabilityBoundingSet"]), ("saltwisted", ""))

    def test_share(self) -> None:
        """
        T-MEM-1: a master takes a share of its machine and no more; the minion's unit has no such
        limit, which would kill jobs.
        """
        for role in ("master", "cluster"):
            unit = settings(role)
            self.assertEqual((unit["MemoryMax"], unit["TasksMax"]), ("75%", "10%"))
            self.assertEqual(unit["Restart"], "on-failure")
        unit = settings("minion")
        self.assertNotIn("MemoryMax", unit)
        self.assertEqual(unit["TasksMax"], "infinity")

    def test_fits(self) -> None:
        """
        10 000 minions and all workers fit into the share of a machine of 2 GiB; into that of one of
        4 GiB also all that strangers may make a node keep.
        """
        workers = sum(limits.size for limits in warm_pool(Clock())._limits.values())
        doors = sum(door.strangers for door in DOORS.values()) / MIB
        for role in ("master", "cluster"):
            unit = settings(role)
            share = int(unit["MemoryMax"].rstrip("%")) / 100
            need = AT_REST + 10_000 * OF_A_MINION + (workers + 1) * OF_A_WORKER
            self.assertLess(need, share * 2048, f"{workers} workers")
            self.assertLess(need + doors, share * 4096, f"{doors:.0f} MiB of doors")
            # Of memory that is not used otherwise, the kernel gives an eighth to stacks of threads
            tasks = int(unit["TasksMax"].rstrip("%")) / 100 * (2048 * 1024 / 8 / 16)
            self.assertGreater(tasks, 2 * (THREADS + workers * 4))

    @unittest.skipIf(ANALYZE is None, "systemd-analyze is not installed")
    def test_systemd(self) -> None:
        """systemd finds nothing wrong, and little exposed in a master."""
        assert ANALYZE is not None
        folder = tempfile.mkdtemp(dir="/tmp")
        self.addCleanup(shutil.rmtree, folder)
        for role in ROLES:
            name = f"saltwisted-{role}.service"
            # where Twisted is not Debian's, its command is not there to be found
            text = (UNITS / f"saltwisted.{name}").read_text()
            Path(folder, name).write_text(text.replace("/usr/bin/twistd3", "/bin/true"))
        units = [str(path) for path in Path(folder).iterdir()]
        done = subprocess.run(
            [ANALYZE, "verify", "--man=no", *units], capture_output=True, text=True, check=False
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for role in ("master", "cluster"):
            unit = str(Path(folder, f"saltwisted-{role}.service"))
            done = subprocess.run(
                [ANALYZE, "security", "--offline=true", f"--threshold={EXPOSURE}", unit],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            self.assertEqual(done.returncode, 0, done.stdout[-600:])
