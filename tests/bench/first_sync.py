"""
C{python -m tests.bench.first_sync}: how long C{test.ping} takes while a node takes in a large tree,
while another one joins and fetches it all, and when both serve and as much comes again.

Our minion is connected to the first node. It is pinged by way of a node's control socket, one ping
after another: by the node that gives, at last by the one that takes. Printed are the waits and,
since a busy machine makes everybody wait, the CPU that the node's main thread used meanwhile, and
what the nodes' own meters saw of single callbacks.
20 000 files and 1 GiB unless said otherwise. This is not a test.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

from saltwisted.worker.control import ControlClient
from tests.bench.machine import cpu_seconds, describe, percentile
from tests.cluster.real import OurNode
from tests.harness import OurMinion, reserve_ports, until

LIMIT = 0.5
"""Seconds that a ping may take."""


def plant(top: str, files: int, mib: int) -> None:
    """Files in a hundred directories: nine of ten bytes are in every hundredth file."""
    dice = random.Random(top)
    large = max(files // 100, 1)
    small_size = mib * 1024 * 1024 // 10 // max(files - large, 1)
    large_size = mib * 1024 * 1024 * 9 // 10 // large
    for number in range(files):
        folder = os.path.join(top, f"d{number % 100:02}")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, f"f{number}"), "wb") as handle:
            handle.write(dice.randbytes(large_size if number % 100 == 0 else small_size))


class Pings(threading.Thread):
    """One ping after another, until told to stop."""

    def __init__(self, node: OurNode, minion: str) -> None:
        super().__init__(daemon=True)
        self._node = node
        self._minion = minion
        self._over = threading.Event()
        self.waits: list[float] = []
        self.works: list[float] = []
        self.lost = 0

    def run(self) -> None:
        """Ping."""
        with ControlClient(path=self._node.socket_path, timeout=30.0) as client:
            while not self._over.wait(0.02):
                began, worked = time.monotonic(), self._worked()
                answered = False
                asked = {"tgt": self._minion, "fun": "test.ping", "timeout": 20}
                for item in client.stream("run", **asked):
                    answered = answered or item["kind"] == "return"
                self.waits.append(time.monotonic() - began)
                self.works.append(self._worked() - worked)
                self.lost += not answered

    def _worked(self) -> float:
        with open(f"/proc/{self._node.pid}/task/{self._node.pid}/schedstat") as handle:
            return int(handle.read().split()[0]) / 1e9

    def end(self) -> None:
        """The last one is under way."""
        self._over.set()
        self.join()


def measured(what: str, nodes: list[OurNode], minion: str, work: Callable[[], Any]) -> None:
    """Do something, and print what it meant to those who ask the first of the nodes meanwhile."""
    pings = Pings(nodes[0], minion)
    used = [cpu_seconds(node.pid) for node in nodes]
    pings.start()
    began = time.monotonic()
    work()
    seconds = time.monotonic() - began
    pings.end()
    cpu = [cpu_seconds(node.pid) - before for node, before in zip(nodes, used, strict=True)]
    worst = max(pings.waits)
    print(
        f"{what}: {seconds:.1f} s; {len(pings.waits)} pings, {pings.lost} lost: "
        f"{_three(pings.waits)}, of which the node worked {_three(pings.works)}; "
        f"{'within' if worst <= LIMIT else 'ABOVE'} {1000 * LIMIT:.0f} ms; "
        f"CPU of the nodes {', '.join(f'{each:.1f}' for each in cpu)} s"
    )
    for node in nodes:
        with ControlClient(path=node.socket_path, timeout=30.0) as client:
            print(f"  {node.name}: {client.call('status').get('latency')}")


def _three(seconds: list[float]) -> str:
    values = [1000 * percentile(seconds, share) for share in (0.5, 0.99, 1.0)]
    return "{:.1f} ms (median), {:.1f} (p99), {:.1f} (max)".format(*values)


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--mib", type=int, default=1024)
    options = parser.parse_args()
    print(describe())
    home = tempfile.mkdtemp(prefix="swt", dir="/tmp")
    ports = reserve_ports(3)
    one, two = (
        OurNode(home, name, f"127.0.0.{number}", ports, auto_accept=True)
        for number, name in enumerate(("one", "two"), 1)
    )
    minion = OurMinion(home, one, "m1")
    try:
        one.up()
        minion.up()
        one.ping_until("m1")
        measured("nothing else", [one], "m1", lambda: time.sleep(10))

        def taken_in(folder: str) -> None:
            plant(os.path.join(one.file_root, folder), options.files, options.mib)
            with ControlClient(path=one.socket_path, timeout=900.0) as client:
                client.call("roots", do="sync", wait=True, timeout=900)
                client.call("roots", do="settled", timeout=900)

        amount = f"{options.files} files and {options.mib} MiB"
        measured(f"{amount} taken in", [one], "m1", lambda: taken_in("first"))
        two.start()
        until("the second node to answer", two.members)
        token = one.token()

        def joined() -> None:
            two.command("join", token, check=True, seconds=900)

        measured("another node joins", [one, two], "m1", joined)
        two.ping_until("m1")
        measured(f"{amount} more, pings at the taker", [two, one], "m1", lambda: taken_in("more"))
    finally:
        for each in (minion, two, one):
            each.kill()
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
