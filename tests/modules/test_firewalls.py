"""
Firewalls are set by the real programs, in a network namespace of their own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from saltwisted.worker import systools

ROOT = Path(__file__).resolve().parent.parent.parent

PROGRAM = """
import json, logging, sys
from saltwisted.config.options import MinionConfig
from saltwisted.worker.process.loader import Loaders

logging.disable(logging.CRITICAL)
for state, is_test, name, kwargs in json.load(sys.stdin):
    opts = {**MinionConfig(id="m1", file_client="local").as_opts(), "test": is_test}
    grains = {"kernel": "Linux", "os": "Debian", "os_family": "Debian"}
    loaders = Loaders(opts, grains=grains, pillar={}, stock=False)
    table = loaders.modules if "get" in state else loaders.states
    print(json.dumps(table[state](*([name] if name else []), **kwargs)))
"""

Call = tuple[str, bool, str, dict[str, Any]]


class RealFirewalls(SynchronousTestCase):
    """Each test needs the right to make a network namespace, and the program."""

    def calls(self, program: str, calls: list[Call]) -> list[Any]:
        """Make calls in one namespace, and give their answers."""
        unshare, tool = systools.which("unshare"), systools.which(program)
        if not unshare or not tool:
            raise SkipTest(f"needs unshare and {program}")
        probe = [unshare, "-n", tool, *(["-S"] if program == "iptables" else ["list", "ruleset"])]
        if subprocess.run(probe, capture_output=True, check=False, timeout=60).returncode:
            raise SkipTest("may not make a network namespace, or has no firewall in one")
        done = subprocess.run(
            [unshare, "-n", sys.executable, "-c", PROGRAM],
            input=json.dumps(calls),
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            timeout=300,
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return [json.loads(line) for line in done.stdout.splitlines()]

    def judged(self, program: str, calls: list[Call]) -> list[Any]:
        """Results and whether there were changes."""
        return [(ret["result"], bool(ret["changes"])) for ret in self.calls(program, calls)]

    def test_iptables(self) -> None:
        """
        A rule is forecast, set, left alone and deleted; one that iptables refuses changes nothing.
        """
        rule = {"chain": "INPUT", "proto": "tcp", "dport": 22, "jump": "ACCEPT"}
        odd = {"chain": "INPUT", "proto": "tcp", "dport": 22, "jump": "NOSUCH"}
        policy = {"chain": "FORWARD", "policy": "DROP"}
        found = self.judged(
            "iptables",
            [
                ("iptables.append", True, "ssh", rule),
                ("iptables.append", False, "ssh", rule),
                ("iptables.append", False, "ssh", rule),
                ("iptables.append", False, "odd", odd),
                ("iptables.chain_present", False, "OWN", {}),
                ("iptables.chain_present", False, "OWN", {}),
                ("iptables.insert", False, "own", {**rule, "jump": "OWN", "position": 1}),
                ("iptables.delete", False, "own", {**rule, "jump": "OWN"}),
                ("iptables.chain_absent", False, "OWN", {}),
                ("iptables.set_policy", False, "x", policy),
                ("iptables.set_policy", False, "x", policy),
                ("iptables.delete", False, "ssh", rule),
                ("iptables.delete", False, "ssh", rule),
                ("iptables.flush", False, "all", {}),
            ],
        )

        self.assertEqual(
            found,
            [
                (None, False),
                (True, True),
                (True, False),
                (False, False),
                (True, True),
                (True, False),
                (True, True),
                (True, True),
                (True, True),
                (True, True),
                (True, False),
                (True, True),
                (True, False),
                (True, True),
            ],
        )

    def test_iptablesRead(self) -> None:
        """What iptables-save says about a rule is read."""
        rule = {"chain": "INPUT", "proto": "tcp", "dport": 22, "jump": "ACCEPT"}
        more = {"connstate": "NEW", "comment": "in here", "source": "!10.0.0.0/8"}
        _set, rules = self.calls(
            "iptables",
            [
                ("iptables.append", False, "ssh", {**rule, **more}),
                ("iptables.get_rules", False, "", {}),
            ],
        )

        self.assertEqual(
            rules["filter"]["INPUT"]["rules"],
            [
                {
                    "protocol": ["tcp"],
                    "source": ["! 10.0.0.0/8"],
                    "match": ["state", "tcp", "comment"],
                    "state": ["NEW"],
                    "destination_port": ["22"],
                    "comment": ["in here"],
                    "jump": ["ACCEPT"],
                }
            ],
        )

    def test_nftables(self) -> None:
        """
        Tables, chains, rules and policies are made once, found again, and removed.

        Stock's C{delete} gives nft no number, its C{chain_absent} ends with a traceback, and its
        C{set_policy} never finds the policy that there is.
        """
        base = {"table_type": "filter", "hook": "input", "priority": 0}
        rule = {"table": "filter", "chain": "input", "proto": "tcp", "dport": 22, "jump": "accept"}
        odd = {**rule, "dport": 23, "jump": "nosuch thing"}
        policy = {"chain": "input", "policy": "drop"}
        found = self.judged(
            "nft",
            [
                ("nftables.table_present", False, "filter", {}),
                ("nftables.table_present", False, "filter", {}),
                ("nftables.chain_present", False, "input", base),
                ("nftables.chain_present", False, "input", base),
                ("nftables.append", True, "ssh", rule),
                ("nftables.append", False, "ssh", rule),
                ("nftables.append", False, "ssh", rule),
                ("nftables.append", False, "odd", odd),
                ("nftables.set_policy", False, "x", policy),
                ("nftables.set_policy", False, "x", policy),
                ("nftables.delete", False, "ssh", rule),
                ("nftables.delete", False, "ssh", rule),
                ("nftables.chain_absent", True, "input", {}),
                ("nftables.chain_absent", False, "input", {}),
                ("nftables.chain_absent", False, "input", {}),
                ("nftables.flush", False, "gone", {"table": "no", "ignore_absence": True}),
                ("nftables.table_absent", False, "filter", {}),
            ],
        )

        self.assertEqual(
            found,
            [
                (True, True),
                (True, False),
                (True, True),
                (True, False),
                (None, False),
                (True, True),
                (True, False),
                (False, False),
                (True, True),
                (True, False),
                (True, True),
                (True, False),
                (None, False),
                (True, True),
                (True, False),
                (True, True),
                (True, True),
            ],
        )
