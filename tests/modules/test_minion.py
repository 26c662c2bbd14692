"""
C{minion.*} and C{data.*} where stock's answers cannot be recorded.
"""

from __future__ import annotations

import os
import signal
import subprocess
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.modules.harness import load


class Ending(SynchronousTestCase):
    """C{minion.kill} and C{minion.restart} on a process of our own."""

    def module(self, pid: int, **config: Any) -> Any:
        """The module, believing that this process is the minion and that there is no systemd."""
        made = load(
            "minion",
            grains={"pid": pid},
            salt={
                "config.get": lambda name, default="": config.get(name, default),
                "cmd.run_all": lambda words, **_: {"pid": 1, "retcode": 0, "stdout": "started"},
            },
        )
        made.time = self
        made._booted = lambda: False
        return made

    def sleep(self, seconds: float) -> None:
        """The clock of the module: a second is over when the process is."""
        self.process.wait()

    def start(self) -> int:
        """A process that ends when it is asked to."""
        self.process = subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL)
        self.addCleanup(self.process.wait)
        self.addCleanup(self.process.kill)
        return self.process.pid

    def test_kill(self) -> None:
        """The minion is asked to end, and is told as killed once it is gone."""
        pid = self.start()

        self.assertEqual(self.module(pid).kill(), {"killed": pid, "retcode": 0})
        self.assertEqual(self.process.returncode, -signal.SIGTERM)

    def test_unknown(self) -> None:
        """Without a process id nothing is signalled."""
        answer = self.module(0).kill()

        self.assertEqual(answer["comment"], ['Unable to find "pid" in grains'])
        self.assertEqual(answer["retcode"], 70)

    def test_restart(self) -> None:
        """C{minion_restart_command} runs after the minion has ended."""
        pid = self.start()

        answer = self.module(pid, minion_restart_command=["start", "me"]).restart()

        self.assertEqual(answer["killed"], pid)
        self.assertEqual(answer["restart"], {"stdout": "started"})
        self.assertEqual(
            answer["comment"],
            ["Using configuration minion_restart_command:", "    start", "    me"],
        )


class Store(SynchronousTestCase):
    """C{data.*}: the file and its lock."""

    def test_private(self) -> None:
        """The store is for its owner alone, whatever the umask, and outlives the module."""
        self.addCleanup(os.umask, os.umask(0))
        opts = {"cachedir": os.path.join(os.path.abspath(self.mktemp()), "cache")}

        load("data", opts=opts).update("k", {"v": [1, "ü"]})

        self.assertEqual(load("data", opts=opts).get("k"), {"v": [1, "ü"]})
        for name in ("datastore", "datastore.lock"):
            mode = os.stat(os.path.join(opts["cachedir"], name)).st_mode & 0o777
            self.assertEqual(mode, 0o600)
        self.assertEqual(os.stat(opts["cachedir"]).st_mode & 0o777, 0o700)

    def test_damaged(self) -> None:
        """A damaged store is an empty one."""
        opts = {"cachedir": os.path.abspath(self.mktemp())}
        os.makedirs(opts["cachedir"])
        with open(os.path.join(opts["cachedir"], "datastore"), "wb") as file:
            file.write(b"\xc1 nonsense")

        self.assertEqual(load("data", opts=opts).load(), {})
