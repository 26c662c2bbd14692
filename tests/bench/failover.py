"""
C{python -m tests.bench.failover}: what a master's death costs.

- From SIGKILL (and from SIGSTOP) of the master in use to the last of many simulated minions of
  ours that answers a ping by another master.
- The sign-ins of as many minions as wish after the restart of a master: wall time, and CPU of its
  whole process tree; ours, and a stock master beside it. The sign-ins are the load generator's
  (C{--swarm}), since those need no machine of ours.

Run it on a quiet machine; docs/benchmarks.md says how figures are read.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Sequence

from tests.bench.fleets import Fleet
from tests.bench.machine import describe
from tests.bench.masters import OURS, MasterBench
from tests.harness import OurMaster, until
from tests.interop.masters import HOSTS, Masters


def answered(masters: Sequence[OurMaster], wanted: set[str], seconds: float = 120) -> float:
    """
    When the last of these first answered a ping of any of these masters (monotonic time).

    While hundreds sign in at once some turn to the next master: each is asked by all.
    """
    end = time.monotonic() + seconds
    last = time.monotonic()
    clients = [master.control() for master in masters]
    try:
        while wanted:
            if time.monotonic() > end:
                raise AssertionError(f"{len(wanted)} never answered")
            for client in clients:
                if not wanted:
                    break
                for item in client.stream(
                    "run", tgt=sorted(wanted), tgt_type="list", fun="test.ping", timeout=1
                ):
                    if item.get("kind") == "return":
                        wanted.discard(item["id"])
                        last = time.monotonic()
    finally:
        for client in clients:
            client.close()
    return last


def failover(count: int, blow: str) -> float:
    """Seconds from the blow until the last of so many minions answers another master."""
    home = tempfile.mkdtemp(prefix="swb", dir="/tmp")
    masters = Masters(home, log_level="warning", gather_job_timeout=1)
    fleet = Fleet(
        home,
        count,
        {
            "master": list(HOSTS),
            "master_type": "failover",
            "master_port": masters.ret_port,
            "publish_port": masters.publish_port,
        },
    )
    folder = os.path.join(masters.pki, "minions")
    os.makedirs(folder, mode=0o700)
    for minion in fleet.ids:
        with open(os.path.join(folder, minion), "w") as handle:
            handle.write(fleet.public)
    try:
        masters.up()
        fleet.start()
        until("the fleet", lambda: fleet.up() == count, 120, 0.5)
        answered(masters.all, set(fleet.ids))
        time.sleep(5)
        began = time.monotonic()
        masters[0].kill() if blow == "SIGKILL" else masters[0].freeze()
        return answered(masters.all[1:], set(fleet.ids)) - began
    finally:
        fleet.stop()
        masters[0].thaw()
        masters.kill()
        shutil.rmtree(home, ignore_errors=True)


class RestartBench(MasterBench):
    """Sign-ins after a restart."""

    def restart(self, count: int) -> None:
        """All sign in once, the master is killed and starts, all sign in again."""
        self.start(self.make(auto_accept=False))
        self.accept(count)
        time.sleep(2)
        self.swarm("auth", "-n", str(count))
        self.master.kill()
        self.master.up()
        found = self.swarm("auth", "-n", str(count))
        self.put(f"{count} sign-ins after a restart, s", float(found["seconds"]))
        cpu = float(found["master"]["cpu_ms_per_op"])
        self.put("the same, CPU ms per sign-in", cpu)
        self.put("the same, CPU s in all", cpu * count / 1000)
        self.stop()
        shutil.rmtree(self.home, ignore_errors=True)


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.failover", description=__doc__)
    parser.add_argument("--minions", type=int, default=500)
    parser.add_argument("--signins", type=int, default=2000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--swarm", default=os.environ.get("SALTWISTED_SWARM", ""))
    parser.add_argument("--stock", default="3008", help="to compare with; empty for none")
    chosen = parser.parse_args()
    print(time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), describe(), flush=True)
    for blow in ("SIGKILL", "SIGSTOP"):
        times = sorted(failover(chosen.minions, blow) for _ in range(chosen.repeat))
        shown = ", ".join(f"{one:.2f}" for one in times)
        print(f"  {blow} to the last of {chosen.minions} answers, s: {shown}", flush=True)
    if chosen.swarm:
        keys = tempfile.mkdtemp(prefix="swk", dir="/tmp")
        for kind in filter(None, (OURS, chosen.stock)):
            RestartBench(kind, os.path.abspath(chosen.swarm), keys).restart(chosen.signins)
        shutil.rmtree(keys, ignore_errors=True)
    print(describe())


if __name__ == "__main__":
    main()
