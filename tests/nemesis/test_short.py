"""
A minute of blows on three nodes; with C{SALTWISTED_LONG=1} five, and not less than each kind once.

In a process of its own, since it lives on another host of the network than we do. The seed is
always the same, so that a run can be repeated; C{SALTWISTED_SEED} is another one. Of a run that
failed the history and the logs of the nodes are kept.
"""

from __future__ import annotations

import glob
import os
import subprocess
import sys

from twisted.trial.unittest import SynchronousTestCase

from tests.harness import ROOT, needs_peers
from tests.interop.network import needs_namespaces
from tests.nemesis.faults import dice_of, kinds, shuffled

LONG = os.environ.get("SALTWISTED_LONG") == "1"
OURS = 337
SEED = int(os.environ.get("SALTWISTED_SEED") or OURS)
WORK = os.environ.get("SALTWISTED_CI_DIR", "/tmp/saltwisted-ci")
PATIENCE = 1500
LINES = 12

FAMILIES = {
    "process": {"kill", "power", "power_of_all", "stop", "alone_then_kill"},
    "net": {"drop", "cut", "one_way", "one_link"},
    "disk": {"stall", "stall_then_kill", "full", "full_at_start"},
    "what is on it": {"damage", "damage_contents", "set_back", "wipe"},
    "clock": {"clock", "clock_at_start"},
    "membership": {"leave"},
}


def logs(path: str) -> str:
    """The last lines of the nodes' logs that were kept beside a history."""
    found = []
    for name in sorted(glob.glob(f"{glob.escape(path)}.*.log")):
        with open(name, encoding="utf-8", errors="replace") as file:
            found.append(f"--- {name}\n{''.join(file.readlines()[-LINES:])}")
    return "\n".join(found)


class DeckTests(SynchronousTestCase):
    """What CI's seed does."""

    def test_five_families(self) -> None:
        """The first five blows of the seed are of five families, and each kind is of one."""
        deck = shuffled(kinds(), dice_of(OURS))
        first = [name for blow in deck[:-6:-1] for name, of in FAMILIES.items() if blow in of]

        self.assertEqual(sorted(kinds()), sorted(blow for of in FAMILIES.values() for blow in of))
        self.assertEqual(len(set(first)), 5)


@needs_peers
@needs_namespaces
class ShortTests(SynchronousTestCase):
    """As root alone: hosts, disks and clocks of their own."""

    def test_nothing_is_lost(self) -> None:
        """What was acknowledged is on all nodes after kills, cuts, bad disks and wrong clocks."""
        folder = os.path.join(WORK, "nemesis")
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, f"{SEED}.jsonl")
        for name in glob.glob(f"{glob.escape(path)}*"):
            os.unlink(name)
        argv = [sys.executable, "-m", "tests.nemesis", "--seed", str(SEED), "--history", path]
        argv += ["--seconds", "300", "--all"] if LONG else ["--seconds", "60"]

        child = subprocess.Popen(
            argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        try:
            said = child.communicate(timeout=PATIENCE)[0]
        finally:
            if child.poll() is None:
                # It takes its nodes, hosts and disks with it
                child.terminate()
                child.wait(120)

        found = f"{said[-8000:]}\nThe history is {path}\n{logs(path)}"
        self.assertEqual(child.returncode, 0, found)
        self.assertIn("no violation", said, found)
        os.unlink(path)
