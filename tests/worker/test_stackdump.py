"""
SIGUSR1 and SIGUSR2.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.worker.process import stackdump


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        """It says so."""
        return True


class SignalTests(SynchronousTestCase):
    """This process gets the signals."""

    def setUp(self) -> None:
        self.place = Path(self.mktemp())
        self.place.mkdir()
        self.patch(tempfile, "tempdir", str(self.place))
        self.patch(sys, "stderr", io.StringIO())
        self.lines: list[str] = []
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            self.addCleanup(signal.signal, number, signal.getsignal(number))
        stackdump.install(self.lines.append)

    def files(self) -> list[Path]:
        """What was written."""
        return sorted(self.place.iterdir())

    def test_dump(self) -> None:
        """SIGUSR1 writes the stack to a file named as stock's, says which, and ends nothing."""
        os.kill(os.getpid(), signal.SIGUSR1)

        (path,) = self.files()
        text = path.read_text()
        self.assertRegex(path.name, r"^salt-debug-\d+\.log$")
        self.assertTrue(text.startswith("======== Salt Debug Stack Trace =========\n"))
        self.assertIn("in test_dump", text)
        self.assertEqual(self.lines, [f"SIGUSR1: the stack trace is in {path}"])
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)

    def test_terminal(self) -> None:
        """With a terminal it is shown there, and no file is written."""
        self.patch(sys, "stderr", terminal := Terminal())

        os.kill(os.getpid(), signal.SIGUSR1)

        self.assertIn("in test_terminal", terminal.getvalue())
        self.assertEqual((self.files(), self.lines), ([], []))

    def test_link(self) -> None:
        """A file or link that somebody has put where the dump would be is left as it is."""
        victim = self.place / "victim"
        victim.write_text("untouched")
        (self.place / "salt-debug-1.log").symlink_to(victim)

        path, number = stackdump._fresh_file("salt-debug-1", ".log")
        os.write(number, b"a dump")
        os.close(number)

        self.assertEqual(victim.read_text(), "untouched")
        self.assertEqual(Path(path).read_text(), "a dump")

    def test_nowhere(self) -> None:
        """Where nothing can be written that is said, and nothing ends."""
        self.patch(tempfile, "tempdir", str(self.place / "missing"))

        os.kill(os.getpid(), signal.SIGUSR1)

        self.assertIn("cannot be written", self.lines[0])

    def test_profile(self) -> None:
        """SIGUSR2 begins a profile with yappi, and the next one keeps what was found."""
        calls: list[str] = []
        state = {"running": False}

        def turn(on: bool) -> None:
            state["running"] = on

        class Stats:
            def save(self, path: str, type: str) -> None:
                Path(path).write_text(type)

        yappi: Any = types.ModuleType("yappi")
        yappi.is_running = lambda: state["running"]
        yappi.start = lambda: turn(True)
        yappi.stop = lambda: turn(False)
        yappi.get_func_stats = Stats
        yappi.clear_stats = lambda: calls.append("cleared")
        self.patch(sys, "modules", {**sys.modules, "yappi": yappi})

        os.kill(os.getpid(), signal.SIGUSR2)
        self.assertTrue(state["running"])
        os.kill(os.getpid(), signal.SIGUSR2)

        (path,) = self.files()
        self.assertRegex(path.name, r"^callgrind\.salt-\d+-\d+$")
        self.assertEqual(path.read_text(), "CALLGRIND")
        self.assertEqual((state["running"], calls), (False, ["cleared"]))

    def test_no_profile(self) -> None:
        """Without yappi SIGUSR2 says so and ends nothing."""
        self.patch(sys, "modules", {**sys.modules, "yappi": None})

        os.kill(os.getpid(), signal.SIGUSR2)

        self.assertIn("yappi", self.lines[0])
        self.assertEqual(self.files(), [])
