"""
Processes, by a psutil that is played.
"""

from __future__ import annotations

import sys
import types
from collections import namedtuple
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.options import MinionConfig
from saltwisted.worker.exceptions import (
    CommandExecutionError,
    CommandNotFoundError,
    SaltInvocationError,
)
from saltwisted.worker.process.loader import Loaders
from tests.modules import harness

_Memory = namedtuple("_Memory", "total used")
_Times = namedtuple("_Times", "user system")
_Disk = namedtuple("_Disk", "device mountpoint")


class NoSuchProcess(Exception):
    """The process is gone."""


class AccessDenied(Exception):
    """It may not be asked."""


class ZombieProcess(NoSuchProcess):
    """It has ended, and nobody has asked how."""


class Process:
    """
    One of three processes.

    @ivar got: signals that were sent, by number of the process.
    """

    got: dict[int, int]
    names = {1: "init", 20: "sshd", 21: "secret"}

    def __init__(self, pid: int) -> None:
        if pid not in self.names:
            raise NoSuchProcess(f"process PID not found (pid={pid})")
        self.pid = pid
        self.info = self.as_dict(None)
        self.asked = 0

    def name(self) -> str:
        return self.names[self.pid]

    def cmdline(self) -> list[str]:
        if self.pid == 21:
            raise AccessDenied
        return [f"/sbin/{self.name()}", "-D"]

    def username(self) -> str:
        return "root" if self.pid == 1 else "kim"

    def status(self) -> str:
        return "sleeping" if self.pid == 1 else "running"

    def create_time(self) -> float:
        return float(self.pid)

    def cpu_times(self) -> _Times:
        self.asked += 1
        return _Times(self.pid * self.asked, 0.0)

    def memory_info(self) -> _Memory:
        return _Memory(self.pid, self.pid)

    def send_signal(self, signal: int) -> None:
        self.got[self.pid] = signal

    def as_dict(self, attrs: Any) -> dict[str, Any]:
        facts = {"pid": self.pid, "name": self.name(), "status": self.status()}
        return {name: facts[name] for name in attrs} if attrs else facts


def _psutil() -> types.ModuleType:
    psutil = types.ModuleType("psutil")
    Process.got = {}
    vars(psutil).update(
        NoSuchProcess=NoSuchProcess,
        AccessDenied=AccessDenied,
        ZombieProcess=ZombieProcess,
        Process=Process,
        pids=lambda: [1, 20, 21, 22],
        process_iter=lambda attrs=None: map(Process, Process.names),
        cpu_count=lambda: 2,
        cpu_percent=lambda interval, each=False: [1.0, 2.0] if each else 1.5,
        cpu_times=lambda each: [_Times(1, 2)] * 2 if each else _Times(2, 4),
        virtual_memory=lambda: _Memory(8, 2),
        swap_memory=lambda: _Memory(4, 1),
        disk_partitions=lambda all: [_Disk("/dev/vda", "/")],
        disk_usage=lambda path: _Memory(100, 50),
        boot_time=lambda: 86400.5,
        net_io_counters=lambda pernic=False: {"lo": _Times(1, 1)} if pernic else _Times(5, 5),
        disk_io_counters=lambda perdisk=False: {"vda": _Times(1, 1)} if perdisk else _Times(5, 5),
        users=lambda: [_Times("kim", "tty1")],
    )
    return psutil


class PsTests(SynchronousTestCase):
    """C{ps}."""

    def setUp(self) -> None:
        self._install(_psutil())
        self.commands = harness.Commands()
        self.ps = harness.load("ps", salt=self.commands.salt())

    def _install(self, psutil: types.ModuleType | None) -> None:
        """Let it seem that this is installed; C{None}: nothing."""
        old = {name: sys.modules[name] for name in ("psutil",) if name in sys.modules}
        self.addCleanup(sys.modules.update, old)
        self.addCleanup(sys.modules.pop, "psutil", None)
        sys.modules["psutil"] = psutil  # type: ignore[assignment]

    def test_missing(self) -> None:
        """Without psutil a call says which Python module is missing, in stock's words."""
        self._install(None)
        opts = MinionConfig(id="m1", file_client="local").as_opts()
        modules = Loaders(opts, grains={}, pillar={}, stock=False).modules

        self.assertNotIn("ps.top", modules)
        self.assertEqual(
            modules.missing_fun_string("ps.top"),
            "'ps' __virtual__ returned False:"
            " The ps module cannot be loaded: python module psutil not installed.",
        )

    def test_top(self) -> None:
        """Who used most comes first; who may not be asked is shown by name."""
        found = self.ps.top(2, interval=0)

        self.assertEqual([info["cmd"] for info in found], ["secret", ["/sbin/sshd", "-D"]])
        self.assertEqual(found[1]["mem"], {"total": 20, "used": 20})
        self.assertEqual(found[1]["user"], "kim")

    def test_processes(self) -> None:
        """Processes are found by name, command line, pattern and user, and told by number."""
        self.assertEqual(self.ps.get_pid_list(), [1, 20, 21, 22])
        self.assertEqual(self.ps.pgrep("s"), [20, 21])
        self.assertEqual(self.ps.pgrep("sbin", full=True), [1, 20])
        self.assertEqual(self.ps.pgrep("^s..d$", pattern_is_regex=True), [20])
        self.assertEqual(self.ps.pgrep("i", user="root"), [1])
        self.assertIsNone(self.ps.pgrep("nope"))
        self.assertEqual(self.ps.proc_info(20, ["name"]), {"name": "sshd"})
        self.assertRaises(CommandExecutionError, self.ps.proc_info, 5)
        self.assertEqual(self.ps.status("sleeping"), [{"pid": 1, "name": "init"}])
        self.assertRaises(SaltInvocationError, self.ps.status, "")

    def test_signals(self) -> None:
        """Only the processes that match get the signal."""
        self.assertTrue(self.ps.kill_pid(1, signal=1))
        self.assertFalse(self.ps.kill_pid(5))
        self.assertEqual(self.ps.pkill("ssh", signal=9), {"killed": [20]})
        self.assertIsNone(self.ps.pkill("ssh", user="root"))

        self.assertEqual(Process.got, {1: 1, 20: 9})

    def test_machine(self) -> None:
        """Processors, memory, disks and network are told as plain data."""
        self.assertEqual(self.ps.num_cpus(), 2)
        self.assertEqual((self.ps.cpu_percent(), self.ps.cpu_percent(per_cpu=True)), (1.5, [1, 2]))
        self.assertEqual(self.ps.cpu_times(), {"user": 2, "system": 4})
        self.assertEqual(self.ps.cpu_times(True), [{"user": 1, "system": 2}] * 2)
        self.assertEqual(self.ps.virtual_memory(), {"total": 8, "used": 2})
        self.assertEqual(self.ps.total_physical_memory(), 8)
        self.assertEqual(self.ps.swap_memory(), {"total": 4, "used": 1})
        self.assertEqual(
            self.ps.disk_partition_usage(),
            [{"device": "/dev/vda", "mountpoint": "/", "total": 100, "used": 50}],
        )
        self.assertEqual(self.ps.network_io_counters(), {"user": 5, "system": 5})
        self.assertEqual(self.ps.network_io_counters("lo"), {"user": 1, "system": 1})
        self.assertIs(self.ps.disk_io_counters("nope"), False)
        self.assertEqual((self.ps.boot_time(), self.ps.boot_time("%Y")), (86400, "1970"))
        self.assertEqual(self.ps.get_users(), [{"user": "kim", "system": "tty1"}])

    def test_programs(self) -> None:
        """Lines of other programs are those with the text; one that is missing is named."""
        self.commands.answers["ps aux"] = "root a\nkim sshd\nkim salt-call ps.psaux sshd\n"
        self.commands.answers["ss -neap"] = "one sshd\ntwo\n"

        self.assertEqual(self.ps.psaux("ss.d"), ["ss.d", ["kim sshd"], "1 occurrence(s)."])
        self.patch(self.ps.systools, "which", lambda name: "/bin/ss" if name == "ss" else None)
        self.assertEqual(self.ps.ss("sshd"), ["sshd", ["one sshd"]])
        self.assertRaises(CommandNotFoundError, self.ps.netstat, "sshd")
        self.assertEqual(self.ps.lsof("x"), ["x", ""])
