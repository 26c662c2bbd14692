"""
C{python -m tests.bench.cluster_keys}: three nodes and ten thousand keys on one machine.

- From C{salt-key -a} (and C{-d}) on one node to the moment at which the key file is there (gone)
  on the two others: what a minion's next request meets. Also while keys are changed all the time.
- The time of the call itself, which waits for the others' confirmation.
- A new node with all keys and a thousand jobs of history: from C{join} to serving, and to having
  the last job.
- CPU at rest: of a node with two links, and of the same after the two others have left; the
  difference is its two links.

Run it on a quiet machine; docs/benchmarks.md says how figures are read. Nothing fails here.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
import unittest

from saltwisted.wire.rsa import PrivateKey
from tests.bench.fleets import Fleet
from tests.bench.machine import cpu_seconds, describe, percentile, share_at_rest
from tests.cluster.real import OurNode, nodes
from tests.harness import scratch, until

RESTING = 20.0
RETURNING = 10
"""Minions that return the jobs of the history."""


class Bench(unittest.TestCase):
    """A run; a test case only for its cleaning up."""

    def __init__(self, keys: int, changes: int, jobs: int) -> None:
        super().__init__("measure")
        self.keys = keys
        self.jobs = jobs
        self.changes = changes
        self.pub = PrivateKey.generate(2048).public.pem + "\n"
        self.figures: dict[str, float] = {}

    def measure(self) -> None:
        """All of it."""
        a, b, c = nodes(self, "a b c", log_level="warning")
        home = scratch(self)
        ports = {"master_port": a.ret_port, "publish_port": a.publish_port}
        fleet = Fleet(home, RETURNING, {"master": a.address, **ports})
        self.addCleanup(fleet.stop)
        held = {f"web{number:05}": self.pub for number in range(self.keys - RETURNING)}
        held |= dict.fromkeys(fleet.ids, fleet.public)
        os.makedirs(f"{a.pki}/minions")
        for minion_id, pub in held.items():
            with open(f"{a.pki}/minions/{minion_id}", "w") as file:
                file.write(pub)
        began = time.monotonic()
        a.up()
        self.figures[f"the first node starts with {self.keys} keys, s"] = time.monotonic() - began
        fleet.start()
        last = self.history(a, fleet)
        fleet.stop()
        for node in (b, c):
            self.join(a, node, last)
        self.change("quiet", a, [b, c])
        busy = threading.Event()
        load = threading.Thread(target=self.load, args=(b, busy))
        load.start()
        try:
            self.change("loaded", a, [b, c])
        finally:
            busy.set()
            load.join()
        # The same node with and without: what it has done before is the same, too
        linked = self.rest([a])
        for node in (c, b):
            node.command("leave", check=True)
        alone = self.rest([a])
        self.figures["a node alone at rest, % of a core"] = alone
        self.figures["a node with two links at rest, % of a core"] = linked
        self.figures["one link at rest, % of a core"] = (linked - alone) / 2

    def history(self, node: OurNode, fleet: Fleet) -> str:
        """Jobs that ten minions have returned; the jid of the last."""
        until("the fleet", lambda: fleet.up() == RETURNING, every=0.5)
        jid = ""
        with node.control() as client:
            for _ in range(self.jobs):
                done = client.call("publish", tgt="fleet*", fun="test.ping", arg=[])
                jid = str(done["jid"])
        until("the last returns", lambda: self.returned(node, jid) == RETURNING, every=0.2)
        return jid

    def returned(self, node: OurNode, jid: str) -> int:
        """How many returns of a job a node has."""
        with node.control() as client:
            done = client.call("runner", fun="jobs.lookup_jid", arg=[jid])
            return len(done.get("data", done.get("return", done)))

    def rest(self, some: list[OurNode]) -> float:
        """What each of these uses while nothing happens, in hundredths of a core."""

        def used() -> float:
            return sum(cpu_seconds(node.pid) for node in some)

        return share_at_rest(used, RESTING) / len(some) * 100

    def put(self, node: OurNode, minion_id: str) -> None:
        """A pending key, as a sign-in leaves it."""
        with open(f"{node.pki}/minions_pre/.new", "w") as file:
            file.write(self.pub)
        os.rename(f"{node.pki}/minions_pre/.new", f"{node.pki}/minions_pre/{minion_id}")

    def join(self, first: OurNode, node: OurNode, last: str) -> None:
        """Let a node in, and see how long it takes."""
        token = first.token()
        node.start()
        until("it to answer", node.members)
        began = time.monotonic()
        node.command("join", token, check=True)
        self.figures[f"{node.name} joins and serves, s"] = time.monotonic() - began
        held = len(os.listdir(f"{node.pki}/minions"))
        self.figures[f"keys that {node.name} serves then"] = held
        until("the history", lambda: self.returned(node, last) == RETURNING)
        took = time.monotonic() - began
        self.figures[f"{node.name} has {self.jobs} jobs and their returns, s"] = took

    def change(self, how: str, node: OurNode, others: list[OurNode]) -> None:
        """Accept and delete keys one by one."""
        names = [f"{how}{number}" for number in range(self.changes)]
        for name in names:
            self.put(node, name)
        until("them to be pending", lambda: set(names) <= set(node.keys()["minions_pre"]))
        for word, wanted in (("accept", True), ("delete", False)):
            seen: list[float] = []
            calls: list[float] = []
            with node.control() as client:
                for name in names:
                    began = time.monotonic()
                    done = threading.Thread(
                        target=client.call,
                        args=("wheel",),
                        kwargs={"fun": f"key.{word}", "kwarg": {"match": name}},
                    )
                    done.start()
                    for other in others:
                        path = f"{other.pki}/minions/{name}"
                        while os.path.exists(path) != wanted:
                            time.sleep(0.0005)
                    seen.append((time.monotonic() - began) * 1000)
                    done.join()
                    calls.append((time.monotonic() - began) * 1000)
            for what, values in (("on both others", seen), ("call", calls)):
                for label, share in (("median", 0.5), ("p99", 0.99)):
                    figure = percentile(values, share)
                    self.figures[f"{how}: {word}, {what}, {label} ms"] = figure

    def load(self, node: OurNode, end: threading.Event) -> None:
        """Change other keys on another node all the time."""
        with node.control() as client:
            number = 0
            while not end.is_set():
                name = f"web{number % self.keys:05}"
                client.call(
                    "wheel", fun="key.reject", kwarg={"match": name, "include_accepted": True}
                )
                client.call(
                    "wheel", fun="key.accept", kwarg={"match": name, "include_rejected": True}
                )
                number += 1


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.cluster_keys")
    parser.add_argument("--keys", type=int, default=10_000, help="how many minions (10000)")
    parser.add_argument("--changes", type=int, default=100, help="how many are changed (100)")
    parser.add_argument("--jobs", type=int, default=1000, help="of history (1000)")
    options = parser.parse_args()
    bench = Bench(options.keys, options.changes, options.jobs)
    result = unittest.TestResult()
    bench.run(result)
    for _, trace in [*result.errors, *result.failures]:
        sys.exit(trace)
    print(describe())
    for name, value in bench.figures.items():
        print(f"| {name} | {value:.2f} |")


if __name__ == "__main__":
    main()
