"""
Another key for all masters of a cluster, with real nodes, a stock minion and ours.
"""

from __future__ import annotations

import os
import subprocess
import sys

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.wire.rsa import fingerprint
from tests.cluster.real import OurNode, cluster
from tests.harness import OurMinion, StockMinion, needs_peers, scratch, until


@needs_peers
class RotateIdentityTests(SynchronousTestCase):
    """C{saltwisted rotate-identity}."""

    def rotate(self, node: OurNode, answers: str) -> subprocess.CompletedProcess[str]:
        """The command, and what its user types."""
        return subprocess.run(
            [sys.executable, "-m", "saltwisted.cli.main", "rotate-identity", "-c", node.conf],
            input=answers,
            capture_output=True,
            text=True,
            timeout=180,
            env=node.env,
            check=False,
        )

    def finger_or_none(self, path: str) -> str | None:
        """That of a key, if there is one just now."""
        try:
            return self.finger(path)
        except FileNotFoundError:
            return None

    def finger(self, *parts: str) -> str:
        """Of the key in a file."""
        with open(os.path.join(*parts), "rb") as file:
            return fingerprint(file.read())

    def test_rotate(self) -> None:
        """
        A stock minion that is here gets the key before the masters change; our minion that was
        away follows the statement of the old key; who says no has changed nothing.
        """
        a, b = cluster(self, "a b", auto_accept=True)
        stock = StockMinion(scratch(self), "3006", a)
        ours = OurMinion(scratch(self), a)
        for minion in (stock, ours):
            self.addCleanup(minion.kill)
            minion.start()
            a.ping_until(minion.id)
        before = self.finger(a.pki, "master.pub")

        refused = self.rotate(a, "y\nn\n")

        self.assertIn("stays as it is", refused.stdout)
        held = os.path.join(stock.root, "pki/minion_master.pub")
        self.assertEqual({self.finger(a.pki, "master.pub"), self.finger(held)}, {before})
        ours.kill()
        done = self.rotate(a, "y\ny\n")
        self.assertIn("All tokens are void", done.stdout + done.stderr)
        for node in (a, b):
            until(f"{node.name} to serve", node.serving)
            # There is none for a moment, so that no crash leaves one that is not of the new pair
            new = os.path.join(node.pki, "master.pub")
            until("its new key", lambda path=new: self.finger_or_none(path) not in (None, before))
        self.assertEqual(self.finger(a.pki, "master.pub"), self.finger(b.pki, "master.pub"))
        self.assertEqual(self.finger(held), self.finger(a.pki, "master.pub"))
        ours.start()
        ours.wait_for_line("is trusted from now on", times=2)
        for minion in (stock, ours):
            b.ping_until(minion.id)
