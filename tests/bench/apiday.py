"""
C{python -m tests.bench.apiday}: whether a master grows while clients of its API come and go: they
log in, ask minions and runners, and are gone without a word (upstream's 69847).

Prints each minute what the master's process has, and its whole tree: memory, open files,
processes, and rows of its disk. What it said: docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from contextlib import suppress
from typing import Any

from tests.bench.api import Serving
from tests.bench.machine import children, describe, pss_mib
from tests.bench.masters import OURS, MasterBench


class DayBench(MasterBench):
    """
    A master whose sessions end soon, if they shall.

    @ivar expire: seconds that a login lasts.
    """

    expire = 43200

    def make(self, **options: Any) -> Any:
        """A master that is not started yet."""
        return super().make(token_expire=self.expire, **options)


def resident_mib(pid: int) -> float:
    """What of one process is in memory."""
    with open(f"/proc/{pid}/statm") as stream:
        return int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def seen(pid: int) -> dict[str, float]:
    """What a master has now."""
    tree = children(pid)
    files = 0
    for one in tree:
        with suppress(FileNotFoundError, ProcessLookupError):
            files += len(os.listdir(f"/proc/{one}/fd"))
    return {
        "rss_mib": round(resident_mib(pid), 1),
        "tree_pss_mib": round(pss_mib(pid), 1),
        "fds": len(os.listdir(f"/proc/{pid}/fd")),
        "tree_fds": files,
        "processes": len(tree),
        "threads": len(os.listdir(f"/proc/{pid}/task")),
    }


def main() -> None:
    """Let them come and go."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.apiday", description=__doc__)
    parser.add_argument(
        "--swarm", default=os.environ.get("SALTWISTED_SWARM", "../shared/bench/swarm.py")
    )
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--clients", type=int, default=8, help="at the same time")
    parser.add_argument("--pause", type=float, default=0.5, help="seconds after each request")
    parser.add_argument(
        "--expire", type=int, default=DayBench.expire, help="seconds that a login lasts"
    )
    parser.add_argument("--every", type=float, default=60, help="seconds between two lines")
    options = parser.parse_args()
    print(time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), describe(), flush=True)
    keys = tempfile.mkdtemp(prefix="swk", dir="/tmp")
    bench = DayBench(OURS, os.path.abspath(options.swarm), keys)
    bench.expire = options.expire
    serving: Any = None
    try:
        serving = Serving(bench)
        pid = serving.master.pid
        print("at rest", json.dumps(seen(pid)), flush=True)
        clients = serving.load("day", clients=options.clients, pause=options.pause)
        began = time.monotonic()
        while (passed := time.monotonic() - began) < 60 * options.minutes:
            time.sleep(min(options.every, 60 * options.minutes - passed))
            print(f"{(time.monotonic() - began) / 60:7.1f} min", json.dumps(seen(pid)), flush=True)
        assert clients.process.stdin is not None
        clients.process.stdin.close()
        clients.process.wait(120)
        clients.stop()
        print("asked", clients.lines[-1], flush=True)
        time.sleep(10)
        print("afterwards", json.dumps(seen(pid)), flush=True)
    finally:
        if serving is not None:
            serving.stop()
        bench.stop()
        shutil.rmtree(keys, ignore_errors=True)
        shutil.rmtree(bench.home, ignore_errors=True)


if __name__ == "__main__":
    main()
