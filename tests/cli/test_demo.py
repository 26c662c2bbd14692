"""
C{saltwisted demo}: real daemons on loopback, and nothing left behind.

These tests start processes and so take real time; the demonstration is the first thing that
anybody tries, and works as a whole or not at all.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cli.playground import Daemon, Interrupts
from tests.cli.support import run


class DemoTests(SynchronousTestCase):
    """In a directory for temporary files of its own."""

    def setUp(self) -> None:
        """Where the playground goes."""
        self.place = tempfile.mkdtemp(prefix="sw", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.place, ignore_errors=True)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start the demonstration."""
        process = subprocess.Popen(
            [sys.executable, "-m", "saltwisted.cli.main", "demo", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": self.place},
        )
        self.addCleanup(process.communicate)
        self.addCleanup(process.terminate)
        return process

    def left(self) -> list[str]:
        """Files below the place, and processes that have it in their words."""
        found = os.listdir(self.place)
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    words = file.read()
            except OSError:
                continue
            if self.place.encode() in words:
                found.append(words.decode(errors="replace"))
        return found

    def test_whole(self) -> None:
        """Every step succeeds, the report is all there is on stdout, and nothing is left."""
        process = self.start("--json")

        out, err = process.communicate(timeout=110)

        report = json.loads(out)
        self.assertEqual((process.returncode, err), (0, ""), report)
        self.assertEqual((report["ok"], report["masters"], report["minions"]), (True, 1, 2))
        self.assertTrue(all(step["ok"] for step in report["steps"]))
        outputs = "".join(step.get("output", "") for step in report["steps"])
        for name in ("demo-1", "demo-2"):
            self.assertIn(f"{name}:\n    True\n", outputs)
            self.assertIn(f"{name}:\n    42\n", outputs)
            self.assertIn(f"Hello, {name}", outputs)
            self.assertIn(f"{self.place}/", outputs)
        self.assertEqual(outputs.count("Succeeded: 2 (changed=2)"), 2)
        self.assertEqual(outputs.count("Succeeded: 2\n"), 2)
        self.assertEqual(self.left(), [])

    def test_cluster(self) -> None:
        """Three masters become one; what one is killed with is on the others, and it comes back."""
        process = self.start("--masters=3", "--json")

        out, err = process.communicate(timeout=300)

        report = json.loads(out)
        self.assertEqual((process.returncode, err), (0, ""), report)
        self.assertEqual((report["ok"], report["masters"]), (True, 3))
        lookups = [step["output"] for step in report["steps"] if "lookup_jid" in str(step)]
        self.assertEqual(lookups[0], "demo-1:\n    survived\ndemo-2:\n    survived\n")
        self.assertEqual(lookups[1], lookups[0])
        titles = [step["title"] for step in report["steps"]]
        for wanted in ("Highstate from node-2", "Go back to the previous tree, from node-3"):
            self.assertIn(wanted, titles)
        (once,) = [step["output"] for step in report["steps"] if step["title"] == "Once"]
        self.assertEqual(once, "Hello, demo-1")
        (each,) = [s["output"] for s in report["steps"] if s["title"] == "Each minion has it once"]
        self.assertEqual(each, "demo-1 has version 7\ndemo-2 has version 7")
        self.assertEqual(self.left(), [])

    def test_interrupted(self) -> None:
        """Ctrl-C in the middle ends the daemons, and removes the directory."""
        process = self.start("--minions=1")
        assert process.stdout is not None
        for line in process.stdout:
            if "Start demo-1" in line:
                break

        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)

        self.assertEqual(process.returncode, 130)
        self.assertIn("This did not work: interrupted", err)
        self.assertEqual(self.left(), [])

    def test_failing_daemon(self) -> None:
        """A daemon that ends at its start is blamed, with what it said; status 1."""
        broken = [sys.executable, "-c", "print('no luck today'); raise SystemExit(3)"]

        with (
            mock.patch.object(Daemon, "command", broken),
            mock.patch.object(tempfile, "tempdir", self.place),
        ):
            plain = run(["saltwisted", "demo"])
            report = json.loads(run(["saltwisted", "demo", "--json"]).out)

        self.assertEqual(plain.status, 1)
        self.assertIn("This did not work: master ended with status 3\n", plain.err)
        self.assertIn("The last lines of master:\n    no luck today\n", plain.err)
        self.assertEqual((report["ok"], report["error"]), (False, "master ended with status 3"))
        self.assertEqual(report["log"], {"daemon": "master", "lines": ["no luck today"]})
        self.assertEqual(self.left(), [])

    def test_what_it_cannot(self) -> None:
        """Too many masters, no minions, and words are refused; status 64, nothing is started."""
        for words, reason in (
            (("--masters=10",), "between 1 and"),
            (("--minions=0",), "between 1 and"),
            (("now",), "this command takes only options"),
        ):
            result = run(["saltwisted", "demo", *words])

            self.assertEqual((result.status, result.out), (64, ""))
            self.assertIn(reason, result.err)


class InterruptTests(SynchronousTestCase):
    """L{Interrupts}."""

    def test_held(self) -> None:
        """An interrupt inside of a held block comes at its end, and elsewhere at once."""
        before = signal.getsignal(signal.SIGTERM)
        seen = []

        with Interrupts() as interrupts:
            try:
                with interrupts.held():
                    os.kill(os.getpid(), signal.SIGTERM)
                    seen.append("whole")
            except KeyboardInterrupt:
                seen.append("interrupted")
            try:
                os.kill(os.getpid(), signal.SIGTERM)
            except KeyboardInterrupt:
                seen.append("at once")

        self.assertEqual(seen, ["whole", "interrupted", "at once"])
        self.assertIs(signal.getsignal(signal.SIGTERM), before)
