"""
The figures of one minion, ours or stock, beside our master.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

from tests.bench.machine import pss_mib
from tests.harness import OurMaster, OurMinion, StockMinion, peer_venv

OURS = "ours"
PINGS = 40


class MinionBench:
    """Memory at rest, time of a job, and of a function without a master."""

    def __init__(self, kind: str) -> None:
        """
        @param kind: L{OURS} or a version of stock Salt.
        """
        self.kind = kind
        self.home = tempfile.mkdtemp(prefix="swb", dir="/tmp")
        self.figures: dict[str, float] = {}
        self.latency: list[tuple[str, dict[str, Any]]] = []

    def put(self, name: str, value: float) -> None:
        """Keep a figure, and show it at once."""
        self.figures[name] = value
        print(f"  {self.kind:6} {name:42} {value:10.3f}", flush=True)

    def run(self) -> None:
        """All of them."""
        master = OurMaster(self.home, auto_accept=True, log_level="warning")
        minion: Any = (
            OurMinion(self.home, master, "one", log_level="warning")
            if self.kind == OURS
            else StockMinion(self.home, self.kind, master, "one", log_level="warning")
        )
        try:
            master.up()
            minion.up()
            master.ping_until("one")
            time.sleep(8)
            self.put("minion at rest, MiB PSS", pss_mib(minion.pid))
            client = master.control()
            times = [self._ping(client) for _ in range(PINGS)]
            client.close()
            self.put("test.ping, published to returned, ms", 1000 * statistics.median(times))
            self.put("the same, 95th percentile, ms", 1000 * sorted(times)[PINGS * 95 // 100])
            self.put("minion after 40 jobs, MiB PSS", pss_mib(minion.pid))
            self.put("salt-call --local test.ping, s", self._local(minion))
        finally:
            minion.kill()
            master.kill()
            shutil.rmtree(self.home, ignore_errors=True)

    def _ping(self, client: Any) -> float:
        """
        Seconds from the word that a job is published to its return, both as the master's
        control socket tells them: a little more than the minion itself needs.
        """
        time.sleep(0.05)
        began = 0.0
        for item in client.stream("run", tgt="one", fun="test.ping", timeout=10):
            if item["kind"] == "published":
                began = time.perf_counter()
            elif item["kind"] == "return" and began:
                took = time.perf_counter() - began
                began = 0.0
        assert not began, "no return"
        return took

    def _local(self, minion: Any) -> float:
        if self.kind == OURS:
            argv = [sys.executable, "-m", "saltwisted.cli.main", "salt-call"]
        else:
            argv = [os.path.join(peer_venv(self.kind), "bin", "salt-call")]
        argv += ["-c", minion.conf, "--local", "test.ping"]
        times = []
        for _ in range(9):
            began = time.perf_counter()
            subprocess.run(argv, check=True, capture_output=True, env=minion.env)
            times.append(time.perf_counter() - began)
        return statistics.median(times)
