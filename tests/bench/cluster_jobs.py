"""
C{python -m tests.bench.cluster_jobs}: jobs and returns of three nodes on one machine.

- C{test.ping} from node a to a minion on a, on b and on c: published to returned, median.
- Returns per CPU second of all nodes together, replication included, while minions return to
  one of them; beside it a master without peers.

Run it on a quiet machine; docs/benchmarks.md says how figures are read. Nothing fails here.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Sequence
from typing import Any

from tests.bench.machine import cpu_seconds, describe
from tests.cluster.real import cluster
from tests.harness import OurMaster, OurMinion, scratch, until


class Bench(unittest.TestCase):
    """A run; a test case only for its cleaning up."""

    def __init__(self, swarm: str, pings: int, seconds: int) -> None:
        super().__init__("measure")
        self.swarm_path = swarm
        self.pings = pings
        self.seconds = seconds
        self.figures: dict[str, float] = {}

    def measure(self) -> None:
        """All of it."""
        options = {"auto_accept": True, "log_level": "warning"}
        nodes = cluster(self, "a b c", **options)
        home = scratch(self)
        for node in nodes:
            minion = OurMinion(home, node, f"m-{node.name}", log_level="warning")
            self.addCleanup(minion.kill)
            minion.up()
        ids = [f"m-{node.name}" for node in nodes]
        until("all keys", lambda: sorted(nodes[0].keys()["minions"]) == ids)
        until("all answers", lambda: sorted(nodes[0].salt("-t", "3", "*", "test.ping")) == ids)
        for minion_id in ids:
            times = [self.ping(nodes[0], minion_id) for _ in range(self.pings)]
            self.figures[f"a pings {minion_id}, ms, median"] = 1000 * statistics.median(times)
            slow = sorted(times)[len(times) * 95 // 100]
            self.figures[f"a pings {minion_id}, ms, 95 %"] = 1000 * slow
        three = self.returns(nodes[0], nodes)
        self.figures["returns per CPU second, three nodes together"] = three
        alone = OurMaster(scratch(self), **options)
        self.addCleanup(alone.kill)
        alone.up()
        one = self.returns(alone, [alone])
        self.figures["returns per CPU second, one master"] = one
        self.figures["share of one master's (at least 0.33)"] = three / one

    def ping(self, node: Any, minion_id: str) -> float:
        """From the command to the return."""
        client = node.control()
        try:
            began = time.monotonic()
            for item in client.stream("run", tgt=minion_id, fun="test.ping", arg=[], timeout=10):
                if item.get("kind") == "return":
                    return time.monotonic() - began
            raise AssertionError(f"{minion_id} does not answer")
        finally:
            client.close()

    def returns(self, node: Any, nodes: Sequence[Any]) -> float:
        """Returns that reach one node, by what all use for them."""
        with tempfile.TemporaryDirectory(prefix="swk", dir="/tmp") as keys:
            command = [
                sys.executable, self.swarm_path, "returns", "-n", "64", "--seconds",
                str(self.seconds), "--ret-port", str(node.ret_port), "--key-dir", keys,
                "--timeout", "120", "--pid", str(node.pid),
            ]  # fmt: skip
            found: dict[str, Any] = {}
            for _ in range(2):
                # The first signs in and warms up
                before = sum(map(cpu_seconds, nodes))
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                found = json.loads(done.stdout)
                used = sum(map(cpu_seconds, nodes)) - before
        count = found.get("ops") or found["count"]
        return float(count) / used


def main() -> None:
    """Run it, and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.cluster_jobs")
    default = os.environ.get("SALTWISTED_SWARM", "../shared/bench/swarm.py")
    parser.add_argument("--swarm", default=default, help="the load generator")
    parser.add_argument("--pings", type=int, default=60)
    parser.add_argument("--seconds", type=int, default=5, help="of the load of returns")
    options = parser.parse_args()
    print(describe())
    bench = Bench(os.path.abspath(options.swarm), options.pings, options.seconds)
    try:
        bench.measure()
    finally:
        bench.doCleanups()
    for name, value in bench.figures.items():
        print(f"{name:48} {value:10.2f}")


if __name__ == "__main__":
    main()
