"""
C{python -m tests.bench.doors}: what one peer can do to a master, and what the others notice.

A real master on loopback serves 50 ordinary clients (L{tests.bench.doorsload}), while a process of
its own plays one of the faults that were known in issue 34. Each fault gets a new master. The
table has, for each:

 - how long the reactor stood still, seen from outside (the longest answer to pings each 5 ms) and
   from inside (the worst lateness of a timer, and the most CPU of one callback), and how much CPU
   the master used from the attack to its end;
 - the master's resident memory before, at its peak, while the attacker keeps its connections, and
   after;
 - the answer times of the others, median and worst, before and during the attack, and how many
   requests failed, of theirs and of the pings.

C{--python} names the interpreter of another checkout, to compare two versions. This is no test: a
busy machine makes silences longer. The columns of CPU and memory do not depend on that.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
import unittest
from typing import Any

from tests.attack.fleet import put_key
from tests.bench.doorsload import ATTACKS
from tests.bench.machine import cpu_seconds, describe
from tests.bench.reactor import Lines
from tests.harness import OurMaster, reserve_ports, scratch, until

BEFORE = 5.0
"""Seconds of service without an attack."""
QUIET = 3.0
"""Seconds after which what an attacker has sent is done with, as far as anybody notices."""
HEADS = (
    "fault", "out ms", "(idle)", "late ms", "callback ms", "of", "CPU s", "RSS MiB", "peak",
    "held", "after", "minions ms", "attacked", "HTTP ms", "attacked", "lost", "told",
)  # fmt: skip


def memory(pid: int) -> tuple[float, float]:
    """Resident memory of one process, and its peak since the last reset, in MiB."""
    with open(f"/proc/{pid}/status") as handle:
        found = dict(line.split(":", 1) for line in handle)
    return tuple(int(found[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM"))  # type: ignore


def reset_peak(pid: int) -> None:
    """Forget the peak."""
    with open(f"/proc/{pid}/clear_refs", "w") as handle:
        handle.write("5")


class Doors:
    """One master, the others, and one attacker."""

    def __init__(self, case: unittest.TestCase, name: str, options: argparse.Namespace) -> None:
        self.name = name
        self.options = options
        home = scratch(case)
        (self.http,) = reserve_ports(1)
        static = os.path.join(home, "static")
        os.makedirs(static)
        with open(os.path.join(static, "big"), "wb") as handle:
            handle.write(os.urandom(5_000_000))
        users = os.path.join(home, "users")
        with open(users, "w") as handle:
            handle.write("admin:adminpw\n")
        rules = {"admin": [".*", "@wheel", "@runner", "@jobs"]}
        self.transport = "tcp" if name.endswith("-tcp") else "zeromq"
        self.master = OurMaster(
            home,
            log_level="warning",
            # Its file is not there; but such an event is looked at more closely
            reactor=[{"a/*": [os.path.join(home, "none.sls")]}] if name == "G-reacting" else [],
            transport=self.transport,
            external_auth={"file": {"^filename": users, "^hashtype": "plaintext", **rules}},
            netapi_enable_clients=["local", "local_batch", "local_subset", "runner"],
            rest_cherrypy={
                "port": self.http,
                "host": "127.0.0.1",
                "disable_ssl": True,
                "static": static,
            },
        )
        if options.python:
            self.master.argv[0] = options.python
            self.master.env["PYTHONPATH"] = ""
        case.addCleanup(self.master.kill)
        for n in range(options.clients // 2):
            put_key(self.master.pki, f"other{n}")
        put_key(self.master.pki, "flood")
        self.master.up()
        until("the API", self._listens, seconds=60)
        self._case = case

    def _listens(self) -> bool:
        return bool(self.master.ask("status").get("api"))

    def start(self, what: str, **more: Any) -> Lines:
        """One of the programs, prepared."""
        args = {
            "port": self.master.ret_port,
            "http": self.http,
            "socket": self.master.socket_path,
            "transport": self.transport,
            "count": self.options.clients,
            "patience": self.options.patience,
            **more,
        }
        words = [f"--{key}={value}" for key, value in args.items()]
        program = Lines([sys.executable, "-m", "tests.bench.doorsload", what, *words])
        self._case.addCleanup(program.stop)
        until(f"{what} to be ready", lambda: program.lines)
        return program

    def latency(self) -> dict[str, Any]:
        """What the master says of its reactor."""
        found: dict[str, Any] = self.master.ask("status")["latency"]
        return found

    def run(self) -> dict[str, Any]:
        """The figures of one fault."""
        others, ping = self.start("others"), self.start("ping")
        attacker = self.start("attack", name=self.name)
        pid = self.master.pid
        for program in (others, ping):
            go(program)
        time.sleep(BEFORE)
        before, _ = memory(pid)
        first = self.latency()
        reset_peak(pid)
        used = cpu_seconds(pid)
        began = time.monotonic()
        go(attacker)
        until("the attack", lambda: len(attacker.lines) > 1, self.options.patience + 30)
        said = json.loads(attacker.lines[1])["sent"]
        time.sleep(max(QUIET, self.options.hold))
        held, peak = memory(pid)
        # It answers when it is no longer silent
        late = self.latency()
        used = cpu_seconds(pid) - used
        ended = time.monotonic()
        finish(attacker)
        time.sleep(QUIET)
        after = memory(pid)[0]
        heard = json.loads(finish(ping))
        asked = json.loads(finish(others))
        pings = [(at, taken) for at, taken in heard["seen"] if at <= ended]
        found: dict[str, Any] = {
            "fault": self.name,
            "idle": worst(taken for at, taken in pings if at < began - 1),
            "out": worst(taken for at, taken in pings if at >= began - 1),
            "late": max(late["late_recent_ms"], worse(first, late, "late_max_ms")),
            "cpu": worse(first, late, "callback_cpu_max_ms"),
            "who": late["callback_cpu_max_who"],
            "used": used,
            "memory": (before, peak, held, after),
            "lost": sum(taken < 0 for _, at, taken in asked if at >= began),
            "pings": heard["lost"],
            "told": said,
            "last": late.get("silence_last") or {},
        }
        for kind in ("minion", "http"):
            times = [(at, taken) for one, at, taken in asked if one == kind and taken >= 0]
            calm = [taken for at, taken in times if 1 < at - began + BEFORE < BEFORE - 0.5]
            attacked = [taken for at, taken in times if began - 0.5 <= at <= ended]
            found[kind] = (middle(calm), worst(calm), middle(attacked), worst(attacked))
        return found


def worse(first: dict[str, Any], then: dict[str, Any], key: str) -> float:
    """A maximum since the start, if it has risen."""
    return float(then[key]) if then[key] > first[key] else 0.0


def worst(times: Any) -> float:
    """Milliseconds."""
    return 1000 * max(times, default=0.0)


def middle(times: list[float]) -> float:
    """Milliseconds."""
    return 1000 * statistics.median(times) if times else 0.0


def go(program: Lines) -> None:
    """Give the word."""
    assert program.process.stdin is not None
    program.process.stdin.write("go\n")
    program.process.stdin.flush()


def finish(program: Lines) -> str:
    """Its last words."""
    assert program.process.stdin is not None
    program.process.stdin.close()
    program.process.wait(120)
    return program.all_lines()[-1]


def row(found: dict[str, Any]) -> list[str]:
    """As cells."""
    cells = [found["fault"]]
    cells += [f"{found[key]:.0f}" for key in ("out", "idle", "late", "cpu")]
    cells += [found["who"] if found["cpu"] else "", f"{found['used']:.2f}"]
    cells += [f"{value:.0f}" for value in found["memory"]]
    for kind in ("minion", "http"):
        calm, calmest, attacked, most = found[kind]
        cells += [f"{calm:.1f} / {calmest:.0f}", f"{attacked:.1f} / {most:.0f}"]
    return [*cells, f"{found['lost']} + {found['pings']}", str(found["told"])]


def main() -> None:
    """Play all faults, or some, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.doors", description=__doc__)
    parser.add_argument(
        "--only", default="", help="names or letters of faults, such as A,C-control"
    )
    parser.add_argument("--python", default="", help="the interpreter of another checkout")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--hold", type=float, default=5.0, help="seconds an attacker stays")
    parser.add_argument("--patience", type=float, default=60.0, help="seconds it waits for an end")
    parser.add_argument("--json", default="", help="a file for all figures")
    options = parser.parse_args()
    wanted = [word for word in options.only.split(",") if word]
    names = [n for n in ATTACKS if not wanted or n in wanted or n.partition("-")[0] in wanted]
    print(f"{options.python or sys.executable}; {describe()}", flush=True)
    rows, all_ = [list(HEADS)], []
    for name in names:
        case = unittest.TestCase()
        try:
            found = Doors(case, name, options).run()
        finally:
            case.doCleanups()
        all_.append(found)
        rows.append(row(found))
        print(f"  {name}: {found}", file=sys.stderr, flush=True)
    if options.json:
        with open(options.json, "w") as handle:
            json.dump(all_, handle, indent=1)
    widths = [max(len(cells[n]) for cells in rows) for n in range(len(HEADS))]
    for cells in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)))
    for found in all_:
        if found["last"]:
            print(f"{found['fault']}: the last silence was {found['last']}")


if __name__ == "__main__":
    main()
