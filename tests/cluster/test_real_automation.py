"""
Real nodes: automation of a cluster is paused as a whole, and a reaction happens once.
"""

from __future__ import annotations

import json
import os

from twisted.trial.unittest import TestCase

from saltwisted.errors import RemoteError, TransportClosed
from tests.cluster.real import OurNode, cluster, let_all_vote
from tests.harness import scratch, until


class AutomationTests(TestCase):
    """Three nodes with the same configuration."""

    timeout = 600

    def status(self, node: OurNode) -> dict[str, object]:
        """What a node says of its automation; nothing while it does not answer."""
        client = node.control()
        try:
            found: dict[str, object] = client.call("automation.status")
        except (RemoteError, TransportClosed):
            return {}
        finally:
            client.close()
        return found

    def test_paused_everywhere(self) -> None:
        """One node pauses, all are paused; one that was away, and one that starts again, too."""
        folder = scratch(self)
        sls = os.path.join(folder, "say.sls")
        with open(sls, "w") as stream:
            stream.write("say:\n  runner.test.arg: []\n")
        a, b, c = cluster(self, "a b c", reactor=[{"site/say": [sls]}])
        let_all_vote([a, b, c])

        c.kill()
        done = a.command("automation", "pause")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Automation is paused.", done.stdout)
        self.assertIn("Not confirmed by c", done.stderr)
        shown = json.loads(b.command("automation", "status", "--json").stdout)
        self.assertEqual(shown["paused"]["by"], "root")
        b.command("salt-run", "event.send", "site/say", check=True)
        self.assertEqual(self.status(b)["figures"], {"paused": 1})
        c.up()
        until("c to know of it", lambda: self.status(c).get("paused"))
        self.assertIn("paused by root", c.command("status").stdout)

        self.assertEqual(c.command("automation", "resume").returncode, 0)
        self.assertIsNone(self.status(a)["paused"])
        a.command("salt-run", "event.send", "site/say", check=True)
        until("the reaction", lambda: self.status(a)["figures"] == {"reacted": 1})
