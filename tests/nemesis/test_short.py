"""
A minute of blows on three nodes; five minutes with C{SALTWISTED_LONG=1}.

In a process of its own, since it lives on another host of the network than we do.
C{SALTWISTED_SEED} repeats a run.
"""

from __future__ import annotations

import os
import subprocess
import sys

from twisted.trial.unittest import SynchronousTestCase

from tests.harness import ROOT, needs_peers, scratch
from tests.interop.network import needs_namespaces

LONG = os.environ.get("SALTWISTED_LONG") == "1"
SECONDS = "300" if LONG else "60"
SEED = os.environ.get("SALTWISTED_SEED", "0")
PATIENCE = 1500


@needs_peers
@needs_namespaces
class ShortTests(SynchronousTestCase):
    """As root alone: hosts, disks and clocks of their own."""

    def test_nothing_is_lost(self) -> None:
        """What was acknowledged is on all nodes after kills, cuts, bad disks and wrong clocks."""
        path = os.path.join(scratch(self), "history.jsonl")
        argv = [sys.executable, "-m", "tests.nemesis", "--seconds", SECONDS, "--seed", SEED]

        child = subprocess.Popen(
            [*argv, "--history", path],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            said = child.communicate(timeout=PATIENCE)[0]
        finally:
            if child.poll() is None:
                # It takes its nodes, hosts and disks with it
                child.terminate()
                child.wait(120)

        self.assertEqual(child.returncode, 0, said[-8000:])
        self.assertIn("no violation", said)
