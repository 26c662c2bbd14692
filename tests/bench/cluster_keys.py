"""
C{python -m tests.bench.cluster_keys}: three nodes and ten thousand keys on one machine.

- From C{salt-key -a} (and C{-d}) on one node to the moment at which the key file is there (gone)
  on the two others: what a minion's next request meets. Also while keys are changed all the time.
- The time of the call itself, which waits for the others' confirmation.
- A new node with all keys: from C{join} to serving.
- CPU of a link at rest.

Run it on a quiet machine; docs/benchmarks.md says how figures are read. Nothing fails here.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import threading
import time
import unittest

from saltwisted.wire.rsa import PrivateKey
from tests.bench.machine import describe
from tests.cluster.real import OurNode, nodes
from tests.harness import until

RESTING = 20.0


def percentile(values: list[float], share: float) -> float:
    """The value below which such a share lies."""
    return sorted(values)[min(len(values) - 1, math.ceil(len(values) * share) - 1)]


def cpu_seconds(node: OurNode) -> float:
    """What its process has used."""
    with open(f"/proc/{node.pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Bench(unittest.TestCase):
    """A run; a test case only for its cleaning up."""

    def __init__(self, keys: int, changes: int) -> None:
        super().__init__("measure")
        self.keys = keys
        self.changes = changes
        self.pub = PrivateKey.generate(2048).public.pem + "\n"
        self.figures: dict[str, float] = {}

    def measure(self) -> None:
        """All of it."""
        a, b, c = nodes(self, "a b c")
        a.up()
        for number in range(self.keys):
            self.put(a, f"web{number:05}")
        until("a to see all", lambda: len(a.keys()["minions_pre"]) == self.keys, 300)
        began = time.monotonic()
        a.command("salt-key", "-y", "-A", check=True)
        self.figures[f"accept all {self.keys}, s"] = time.monotonic() - began
        for node in (b, c):
            self.join(a, node)
        self.change("quiet", a, [b, c])
        busy = threading.Event()
        load = threading.Thread(target=self.load, args=(b, busy))
        load.start()
        try:
            self.change("loaded", a, [b, c])
        finally:
            busy.set()
            load.join()
        time.sleep(5)
        before = [cpu_seconds(node) for node in (a, b, c)]
        time.sleep(RESTING)
        used = sum(cpu_seconds(node) - was for node, was in zip((a, b, c), before, strict=True))
        self.figures["node at rest, % of a core (all it does)"] = used / 3 / RESTING * 100

    def put(self, node: OurNode, minion_id: str) -> None:
        """A pending key, as a sign-in leaves it."""
        with open(f"{node.pki}/minions_pre/.new", "w") as file:
            file.write(self.pub)
        os.rename(f"{node.pki}/minions_pre/.new", f"{node.pki}/minions_pre/{minion_id}")

    def join(self, first: OurNode, node: OurNode) -> None:
        """Let a node in, and see how long it takes."""
        token = first.token()
        node.start()
        until("it to answer", node.members)
        began = time.monotonic()
        node.command("join", token, check=True)
        self.figures[f"{node.name} joins and serves, s"] = time.monotonic() - began
        held = len(os.listdir(f"{node.pki}/minions"))
        self.figures[f"keys that {node.name} serves then"] = held

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
    options = parser.parse_args()
    bench = Bench(options.keys, options.changes)
    result = unittest.TestResult()
    bench.run(result)
    for _, trace in [*result.errors, *result.failures]:
        sys.exit(trace)
    print(describe())
    for name, value in bench.figures.items():
        print(f"| {name} | {value:.1f} |")


if __name__ == "__main__":
    main()
