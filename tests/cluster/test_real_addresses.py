"""
Which addresses a node puts into its tokens: those that its network has at that moment.
"""

from __future__ import annotations

import os

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.life.settings import own_hosts
from saltwisted.domain.replica.tokens import parse
from tests.cluster.real import nodes
from tests.harness import write_config
from tests.interop.network import needs_namespaces, run


class OwnHostsTests(SynchronousTestCase):
    """From what the kernel says of interfaces."""

    def test_choice(self) -> None:
        """The address of the default route is the first; none is good on this machine alone."""
        links = {
            "lo": {"up": True, "inet": [{"address": "127.0.0.1"}]},
            "eth0": {"up": True, "inet": [{"address": "10.0.0.5"}, {"address": "10.0.0.6"}]},
            "eth1": {"up": True, "inet": [{"address": "192.168.7.1"}, {"address": "169.254.1.1"}]},
            "eth2": {"up": False, "inet": [{"address": "10.9.9.9"}]},
            "docker0": {"up": True, "inet": [{"address": "172.17.0.1"}]},
            "br-0a1b": {"up": True, "inet": [{"address": "172.18.0.1"}]},
            "wg0": {"up": True, "inet6": [{"address": "fd00::1"}, {"address": "fe80::1"}]},
        }

        self.assertEqual(
            own_hosts("192.168.7.1", links, False), ["192.168.7.1", "10.0.0.5", "10.0.0.6"]
        )
        self.assertEqual(
            own_hosts("", links, True), ["10.0.0.5", "10.0.0.6", "192.168.7.1", "fd00::1"]
        )
        self.assertEqual(own_hosts("", {}, True), [])


@needs_namespaces
class TokenTests(SynchronousTestCase):
    """A node on a host of its own, whose network comes up late."""

    def test_late_network(self) -> None:
        """Without an address a token is refused, with the option; then it has the addresses."""
        name = f"swta{os.getpid()}"
        run("ip", "netns", "add", name)
        self.addCleanup(run, "ip", "netns", "del", name, check=False)
        run("ip", "-n", name, "link", "set", "lo", "up")
        (node,) = nodes(self, "a")
        node.options["interface"] = "0.0.0.0"
        write_config(os.path.join(node.conf, "master"), node.options)
        node.argv[:0] = ["ip", "netns", "exec", name]
        node.up()

        refused = node.command("token", "create")
        run("ip", "-n", name, "link", "add", "late0", "type", "bridge")
        run("ip", "-n", name, "addr", "add", "10.8.7.6/24", "dev", "late0")
        run("ip", "-n", name, "link", "set", "late0", "up")
        token = parse(node.token())

        self.assertEqual(refused.returncode, 1, refused.stdout)
        self.assertIn("with the option interface", refused.stderr)
        self.assertEqual(token.peers, (f"10.8.7.6:{node.pool_port}",))
