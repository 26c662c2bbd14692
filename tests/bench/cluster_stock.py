"""
C{python -m tests.bench.cluster_stock}: our cluster's figures with stock 3008's.

Three stock masters at three loopback addresses. By default each has directories of its own
(C{cluster_isolated_filesystem}); with C{--shared} they share C{cluster_pki_dir} and C{cachedir},
as the tutorial has it, on one disk: no network file system is between them. What does not
happen within L{LONG_ENOUGH} seconds, longer than any interval of its own, is printed as C{no}, with
what was there instead. Where a step needs what did not happen (a key on another master), it is
copied by hand, and the line says so.

Like cluster_keys and cluster_jobs, with which this is to be read: on a quiet machine only.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from saltwisted.wire.rsa import PrivateKey
from tests.bench.machine import children, describe
from tests.harness import StockMaster, StockMinion, peer_venv, reserve_ports, scratch, until

LONG_ENOUGH = 70.0
"""Seconds after which something is taken not to happen; C{loop_interval} is 60."""
RESTING = 20.0
SECRET = "8d1f0c7e5b3a49d2a6c4e0f19b7d3a58"

PINGER = """
import json, statistics, sys, time
import salt.client
client = salt.client.LocalClient(c_path=sys.argv[1])
times = []
for number in range(int(sys.argv[3]) + 3):
    began = time.perf_counter()
    for found in client.cmd_iter(sys.argv[2], "test.ping", timeout=10):
        times.append(time.perf_counter() - began)
        break
print(json.dumps([len(times) - 3, statistics.median(times[3:]) if times[3:] else 0]))
"""
"""Jobs by Salt's own Python client, one process for all: no start of a command is in the time."""


class StockNode(StockMaster):
    """One master of a stock cluster; its id is its address, as its peers call it."""

    def __init__(
        self,
        home: str,
        version: str,
        address: str,
        peers: Sequence[str],
        ports: Sequence[int],
        **options: Any,
    ) -> None:
        root = os.path.join(home, address)
        os.makedirs(root)
        super().__init__(
            root,
            version,
            **{
                "id": address,
                "interface": address,
                "publish_port": ports[0],
                "ret_port": ports[1],
                "cluster_port": ports[2],
                "cluster_id": "bench",
                "cluster_peers": [peer for peer in peers if peer != address],
                "cluster_secret": SECRET,
                "worker_threads": 5,
                "auto_accept": True,
                "log_level": "info",
                **options,
            },
        )
        self.address = address
        self.publish_port, self.ret_port = ports[:2]
        cache = str(options.get("cachedir", os.path.join(self.root, "cache")))
        self.ready = os.path.join(cache, "health", "ready")
        self.keys = os.path.join(
            str(options.get("cluster_pki_dir", os.path.join(self.root, "pki"))), "minions"
        )

    def serves(self) -> bool:
        """Whether its request port is open and it says that the cluster has it as a voter."""
        if not self.running:
            raise AssertionError(f"{self.address} ended:\n{self.tail()}")
        with socket.socket() as sock:
            if sock.connect_ex((self.address, self.ret_port)):
                return False
        return "opening request gate" in self.text() and os.path.exists(self.ready)

    def held(self) -> set[str]:
        """The ids of accepted keys."""
        with suppress(FileNotFoundError):
            return set(os.listdir(self.keys))
        return set()


def tree_seconds(pid: int) -> float:
    """User and system seconds of a process and all below it."""
    ticks = 0
    for one in children(pid):
        with suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{one}/stat") as handle:
            fields = handle.read().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def seen_within(
    condition: Callable[[], bool], seconds: float = LONG_ENOUGH, every: float = 0.002
) -> float | None:
    """Seconds until something was so; C{None} when it was not in time."""
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        if condition():
            return time.monotonic() - began
        time.sleep(every)
    return None


class Bench(unittest.TestCase):
    """A run; a test case only for its cleaning up."""

    def __init__(self, version: str, swarm: str, shared: bool, keys: int, pings: int) -> None:
        super().__init__("measure")
        self.version, self.swarm, self.shared = version, swarm, shared
        self.keys, self.pings = keys, pings
        self.pub = PrivateKey.generate(2048).public.pem + "\n"
        self.lines: list[tuple[str, str]] = []

    def put(self, name: str, value: float | str) -> None:
        """A line of the table."""
        self.lines.append((name, value if isinstance(value, str) else f"{value:.2f}"))
        print(f"| {self.lines[-1][0]} | {self.lines[-1][1]} |", flush=True)

    def measure(self) -> None:
        """All of it."""
        home = scratch(self)
        ports = reserve_ports(3)
        peers = ["127.0.0.1", "127.0.0.2", "127.0.0.3"]
        together: dict[str, Any] = {"cluster_isolated_filesystem": True}
        if self.shared:
            cache = os.path.join(home, "shared/cache")
            together = {"cluster_pki_dir": os.path.join(home, "shared/pki"), "cachedir": cache}
            os.makedirs(cache)
            # Stock prepends root_dir also to absolute paths; so there is none
            together["root_dir"] = "/"
        nodes = []
        for peer in peers:
            own = dict(together)
            if self.shared:
                base = os.path.join(home, peer, f"stockmaster-{self.version}")
                own["pki_dir"] = os.path.join(base, "pki")
                # Short: stock puts longer ones below cachedir, which here is one for all
                own["sock_dir"] = os.path.join(home, peer[-1])
                own["log_file"] = os.path.join(base, "master.file.log")
                own["pidfile"] = os.path.join(base, "master.pid")
            # The first two found it; the third knows them
            known = peers if peer == peers[2] else peers[:2]
            node = StockNode(home, self.version, peer, known, ports, **own)
            self.addCleanup(node.kill)
            nodes.append(node)
        a, b, c = nodes
        os.makedirs(a.keys)
        for number in range(self.keys):
            with open(os.path.join(a.keys, f"web{number:05}"), "w") as file:
                file.write(self.pub)
        began = time.monotonic()
        a.start()
        b.start()
        for tries in range(1, 4):
            took = seen_within(lambda: a.serves() and b.serves(), 120, 0.2)
            if took is not None:
                break
            self.put("a and b serve", f"not within 120 s; started again ({tries})")
            for node in (a, b):
                print(node.tail(15), file=sys.stderr)
                node.kill()
                node.start()
            began = time.monotonic()
        self.put("a and b start and serve, s", time.monotonic() - began)
        self.put("accepted keys that b has then", len(b.held()))
        self.jobs(a, b, home)
        jid = self.known(a)
        self.put("returns on b of a job given to a", self.returned(b, jid))
        began = time.monotonic()
        c.start()
        until("c to serve", c.serves, 600, 0.2)
        self.put("c starts, joins and serves, s", time.monotonic() - began)
        self.put("accepted keys that c has then", f"{len(c.held())} of {len(a.held())}")
        self.put("returns on c of a job before it joined", self.returned(c, jid))
        self.change(a, [b, c])
        self.pull(a, b)
        self.put("a node at rest, % of a core", self.rest(nodes))
        three = self.load(a, nodes)
        self.put("returns per CPU second, three masters together", three)
        if not self.shared:
            self.away(a, b, c)
        for node in nodes:
            node.kill()
        alone = StockMaster(
            scratch(self), self.version, worker_threads=5, auto_accept=True, log_level="warning"
        )
        self.addCleanup(alone.kill)
        alone.up()
        one = self.load(alone, [alone])
        self.put("returns per CPU second, one master", one)
        self.put("share of one master's", three / one)

    def jobs(self, a: StockNode, b: StockNode, home: str) -> None:
        """From a to a minion on a, and to one on b."""
        for node, name in ((a, "m-a"), (b, "m-b")):
            minion = StockMinion(os.path.join(home), self.version, node, name)
            self.addCleanup(minion.kill)
            minion.up()
            until(f"the key of {name}", lambda n=node, m=name: m in n.held(), 90)
        if seen_within(lambda: "m-b" in a.held()) is None:
            self.put("key of a minion that b accepted, on a", "no; copied by hand")
            shutil.copy(os.path.join(b.keys, "m-b"), os.path.join(a.keys, "m-b"))
        for name in ("m-a", "m-b"):
            until(f"{name} to answer", lambda m=name: self.ping(a, m, 1)[0] > 0, 90, 1.0)
            answered, median = self.ping(a, name, self.pings)
            self.put(f"a pings {name}: answered of {self.pings}", answered)
            self.put(f"a pings {name}, ms, median", 1000 * median)

    def ping(self, node: StockNode, minion_id: str, times: int) -> tuple[int, float]:
        """How many of so many jobs were answered, and the median of their seconds."""
        command = [f"{peer_venv(self.version)}/bin/python", "-c", PINGER]
        command += [os.path.join(node.conf, "master"), minion_id, str(times)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=60 + 15 * times, check=False
            )
        except subprocess.TimeoutExpired:
            return 0, 0.0
        with suppress(ValueError, IndexError):
            answered, median = json.loads(done.stdout.splitlines()[-1])
            return answered, median
        raise AssertionError(done.stdout + done.stderr)

    def known(self, node: StockNode) -> str:
        """The jid of a job that both minions have returned to."""
        node.command("salt", "m-*", "test.echo", "kept")
        done = node.command("salt-run", "jobs.list_jobs", "--out", "json")
        jobs = json.loads(done.stdout)
        return str(next(jid for jid, job in jobs.items() if job["Function"] == "test.echo"))

    def returned(self, node: StockNode, jid: str) -> str:
        """Whose return a node has, after it had time to get it."""
        time.sleep(5)
        done = node.command("salt-run", "jobs.lookup_jid", jid, "--out", "json")
        with suppress(ValueError):
            found = sorted(json.loads(done.stdout))
            return ", ".join(found) or "no"
        return f"no: {done.stderr.strip()[-80:]}"

    def change(self, a: StockNode, others: Sequence[StockNode]) -> None:
        """A key accepted, and one deleted, on a; from its own directory to the others'."""
        pending = os.path.join(os.path.dirname(a.keys), "minions_pre", "fresh")
        with open(pending, "w") as file:
            file.write(self.pub)
        self.put("key accepted on a, on both others, ms", self.spread(a, others, "-a", True))
        for node in others:
            if "fresh" not in node.held():
                # By hand, since what is measured next needs it there
                shutil.copy(os.path.join(a.keys, "fresh"), node.keys)
        self.put("key deleted on a, gone from both others, ms", self.spread(a, others, "-d", False))

    def away(self, a: StockNode, b: StockNode, c: StockNode) -> None:
        """A key that is deleted on a while b does not run."""
        for node in (a, b, c):
            with open(os.path.join(node.keys, "away"), "w") as file:
                file.write(self.pub)
        b.kill()
        a.command("salt-key", "-y", "-d", "away")
        until("c without it", lambda: "away" not in c.held(), 60)
        b.start()
        until("it to serve again", b.serves, 600, 0.2)
        gone = seen_within(lambda: "away" not in b.held())
        self.put(
            "key deleted on a while b was down, gone there once b serves",
            f"after {gone:.1f} s" if gone is not None else "no: b goes on accepting it",
        )
        if gone is None:
            c.command("salt-run", "cluster.collect_from_peers", 'channels=["keys"]')
            back = seen_within(lambda: "away" in c.held(), 20)
            self.put(
                "collect_from_peers on c brings the deleted key back",
                "no" if back is None else "yes",
            )

    def spread(self, a: StockNode, others: Sequence[StockNode], word: str, wanted: bool) -> str:
        """Until the others have it as well, counted from when a has."""
        with tempfile.TemporaryFile() as said:
            command = [f"{a.venv}/bin/salt-key", "-c", a.conf, "-y", word, "fresh"]
            with subprocess.Popen(command, stdout=said, stderr=said, cwd=a.root) as process:
                until(f"salt-key {word}", lambda: ("fresh" in a.held()) == wanted, 60, 0.001)
                took = seen_within(
                    lambda: all(("fresh" in node.held()) == wanted for node in others)
                )
                process.wait(60)
        if took is None:
            return f"no (not within {LONG_ENOUGH:.0f} s)"
        return f"{1000 * took:.0f}"

    def pull(self, a: StockNode, b: StockNode) -> None:
        """What a person can do about keys that did not come: the runner that asks all peers."""
        with open(os.path.join(a.keys, "pulled"), "w") as file:
            file.write(self.pub)
        began = time.monotonic()
        b.command("salt-run", "cluster.collect_from_peers", 'channels=["keys"]')
        took = seen_within(lambda: "pulled" in b.held())
        self.put(
            "by hand: cluster.collect_from_peers on b brings keys, s",
            "no" if took is None else time.monotonic() - began,
        )

    def rest(self, nodes: Sequence[StockNode]) -> float:
        """What each uses while nothing happens, in hundredths of a core."""
        time.sleep(15)
        before = sum(tree_seconds(node.pid) for node in nodes)
        time.sleep(RESTING)
        return (sum(tree_seconds(node.pid) for node in nodes) - before) / len(nodes) / RESTING * 100

    def load(self, node: Any, nodes: Sequence[Any]) -> float:
        """Returns that reach one master, by the CPU seconds of all."""
        found: dict[str, Any] = {}
        used = 0.0
        with tempfile.TemporaryDirectory(prefix="swk", dir="/tmp") as keys:
            command = [
                sys.executable, self.swarm, "returns", "-n", "64", "--seconds", "8",
                "--ret-port", str(node.ret_port), "--key-dir", keys, "--timeout", "120",
                "--pid", str(node.pid),
            ]  # fmt: skip
            for _ in range(2):
                # The first signs in and warms up
                before = sum(tree_seconds(each.pid) for each in nodes)
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                found = json.loads(done.stdout)
                time.sleep(3)  # what peers do with it comes after
                used = sum(tree_seconds(each.pid) for each in nodes) - before
        return float(found.get("ops") or found["count"]) / used


def main() -> None:
    """Measure, and print a table as it comes."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.cluster_stock")
    default = os.environ.get("SALTWISTED_SWARM", "../shared/bench/swarm.py")
    parser.add_argument("--stock", default="3008", help="below SALTWISTED_PEERS (3008)")
    parser.add_argument("--swarm", default=default, help="the load generator")
    parser.add_argument("--shared", action="store_true", help="one pki and one cache for all")
    parser.add_argument("--keys", type=int, default=10_000, help="how many minions (10000)")
    parser.add_argument("--pings", type=int, default=40)
    options = parser.parse_args()
    print(describe())
    bench = Bench(
        options.stock, os.path.abspath(options.swarm), options.shared, options.keys, options.pings
    )
    result = unittest.TestResult()
    bench.run(result)
    for _, trace in [*result.errors, *result.failures]:
        sys.exit(trace)
    print(describe())


if __name__ == "__main__":
    main()
