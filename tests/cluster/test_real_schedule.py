"""
Real nodes: the schedule of a cluster.
"""

from __future__ import annotations

import json
from typing import Any

from twisted.trial.unittest import TestCase

from saltwisted.errors import RemoteError, TransportClosed
from tests.cluster.real import OurNode, cluster
from tests.harness import until


class ScheduleTests(TestCase):
    """Three nodes with the same configuration."""

    timeout = 600

    def listed(self, node: OurNode) -> dict[str, Any]:
        """The schedule as a node shows it; empty while it does not answer."""
        client = node.control()
        try:
            found: dict[str, Any] = client.call("schedule")["schedule"]
        except (RemoteError, TransportClosed):
            return {}
        finally:
            client.close()
        return found

    def do(self, node: OurNode, *words: str) -> str:
        """The output of C{saltwisted schedule}, which succeeds."""
        done = node.command("schedule", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_changes(self) -> None:
        """What is changed on one node holds on the others when the command returns; for ever."""
        a, b, c = cluster(
            self, "a b c", schedule={"own": {"function": "test.arg", "cron": "0 0 1 1 *"}}
        )

        self.do(a, "add", "j", "function=test.arg", "args=[7]", "cron=0 0 1 1 *")
        self.assertEqual(self.listed(b)["j"]["args"], [7])
        self.do(b, "modify", "own", "args=[8]")
        self.assertEqual(self.listed(c)["own"]["args"], [8])
        self.do(c, "pause", "j")
        self.assertEqual(self.listed(a)["j"]["_paused"]["by"], "root")

        a.kill()
        self.do(c, "delete", "own")
        self.assertNotIn("own", json.loads(self.do(b, "--json")))
        a.up()
        until("the deletion to be known", lambda: set(self.listed(a)) == {"j"})
        self.assertEqual(self.listed(a)["j"]["_paused"]["by"], "root")
