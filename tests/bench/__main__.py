"""
C{python -m tests.bench}: our master and minion and stock 3008's, one after the other, on
this machine, under the same load; prints the figures side by side with the ratio.

This is not a test: nothing fails here for being slow. How to run it, and what it said:
docs/benchmarks.md. The load generator is a program that plays any number of minions
(C{--swarm PATH}); it must be given, since its figures are what the targets were set with.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import tempfile
import time

from tests.bench.machine import describe
from tests.bench.masters import DEBIAN, OURS, MasterBench
from tests.bench.minions import MinionBench

TARGETS = {
    "return stored, 9 keys": 0.25,
    "return stored, 2001 keys": 0.25,
    "return without cache": 0.15,
    "minion event": 0.15,
    "sign-in, 2000 at once": 0.7,
    "ping to 2000, per return": 0.3,
    "ping to 2000, wall, s": 0.7,
    "pillar, compiled anew": 8.0,
    "pillar, nothing changed": 0.8,
    "file hash": 0.12,
    "file list": 0.12,
    "10 MiB file": 25.0,
    "memory at rest, MiB PSS": 60.0,
    "memory with 2000 minions, MiB PSS": 100.0,
    "start to first sign-in, s": 1.0,
    "salt test.ping, one minion, s": 0.15,
    "wait of others, flood of junk, p99 ms": 100.0,
    "wait of others, flood of auth, p99 ms": 100.0,
    "reaction, local": 1.5,
    "reaction, runner": 1.5,
    "reaction, wheel": 1.5,
    "event to publication, idle, p99 ms": 30.0,
    "event to publication, three nodes, p99 ms": 60.0,
    "1000 reactions in a burst, local, s": 2.0,
    "1000 reactions in a burst, runner, s": 2.0,
    "1000 reactions in a burst, wheel, s": 2.0,
    "1000 reactions in a burst, three nodes, s": 2.0,
    "10000 in a burst, hwm 10000: lost, and said": 0.0,
    "10000 in a burst, hwm 10000: lost without a word": 0.0,
    "10000 in a burst, hwm 1000: lost without a word": 0.0,
    "API login": 3.0,
    "API bad login": 5.0,
    "API local test.ping": 5.0,
    "API local test.ping, p99 ms": 30.0,
    "API runner test.arg": 5.0,
    "API runner jobs.list_jobs": 4.0,
    "API wheel key.list_all": 4.0,
    "API GET /keys": 4.0,
    "API GET /minions": 8.0,
    "API GET /jobs": 8.0,
    "API POST /hook": 1.0,
    "API GET /stats": 1.0,
    "API GET /": 1.0,
    "API ping of 64 clients, p99 ms": 1000.0,
    "API ping of 64 clients, errors": 0.0,
    "API runner of 128 clients, errors of 256": 0.0,
    "API at rest, MiB more": 10.0,
    "API after 800 requests, MiB more": 15.0,
    "API after 128 clients, MiB more": 20.0,
    "wait of minions beside 64 clients, p99 ms more": 5.0,
    "API event, by listener": 0.1,
    "API memory with 200 listeners, MiB more": 20.0,
    "git: update, cold, CPU s": 0.3,
    "git: start to the first file, s": 3.0,
    "git: disk, times the repository": 1.2,
    "git: memory at rest, MiB PSS": 80.0,
    "git: memory after the first minion, MiB PSS": 80.0,
    "git: file hash, small": 0.12,
    "git: file hash, 10 MiB": 0.12,
    "git: 10 MiB file": 25.0,
    "git: list of 10 000 files, cached": 2.0,
    "git: list of 10 000 files, cold": 20.0,
    "git: eight at once on a first use, wrong": 0.0,
    "git: pillar, nothing changed": 0.8,
    "git: memory loaded, MiB PSS": 80.0,
    "git: update, nothing new": 10.0,
    "git: push to visible by update, s": 1.0,
    "git: push to visible on three nodes by hook, s": 1.0,
    "git: push to visible on three nodes by update --wait, s": 1.0,
    "minion at rest, MiB PSS": 60.0,
    "test.ping, published to returned, ms": 20.0,
    "salt-call --local test.ping, s": 0.25,
}


def table(results: dict[str, dict[str, float]], stock: str) -> list[str]:
    """The figures of all, as the lines of a table in Markdown."""
    ours = results.get(OURS, {})
    others = [kind for kind in results if kind not in (OURS, stock)]
    head = ["CPU ms per operation, or as said", "ours", stock or "stock", "ratio"]
    head += [*(f"ours, {kind}" for kind in others), "at most"]
    lines = ["| " + " | ".join(head) + " |", "|---" + "|--:" * (len(head) - 1) + "|"]
    names = list(dict.fromkeys(name for figures in results.values() for name in figures))
    for name in names:
        value, theirs = ours.get(name), results.get(stock, {}).get(name)
        target = TARGETS.get(name)
        missed = value is not None and target is not None and value > target
        cells = [
            name,
            ("**" if missed else "") + _text(value) + ("** missed" if missed else ""),
            _text(theirs),
            f"{theirs / value:.1f}" if theirs and value and theirs != math.inf else "",
            *(_text(results[kind].get(name)) for kind in others),
            "" if target is None else f"{target:g}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _text(value: float | None) -> str:
    if value is None:
        return ""
    if value == math.inf:
        return "no answers"
    return f"{value:.3f}" if value < 10 else f"{value:.1f}"


def main() -> None:
    """Run what the command line asks for, and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument(
        "--swarm", default=os.environ.get("SALTWISTED_SWARM", "../shared/bench/swarm.py")
    )
    parser.add_argument("--stock", default="3008", help="the peer to compare with; empty for none")
    parser.add_argument(
        "--debian", default="", metavar="PYTHON", help="also our master on this interpreter"
    )
    parser.add_argument("--seconds", type=int, default=5, help="of each load without an end")
    parser.add_argument(
        "--only", nargs="*", default=[], help="sections: startup few ... reactor api git minion"
    )
    options = parser.parse_args()
    if not os.path.exists(options.swarm):
        parser.error(f"no load generator at {options.swarm}: name it with --swarm")
    if options.stock and not os.environ.get("SALTWISTED_PEERS"):
        parser.error("SALTWISTED_PEERS is not set: no stock Salt (--stock '' to do without)")
    print(time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), describe(), flush=True)
    keys = tempfile.mkdtemp(prefix="swk", dir="/tmp")
    results: dict[str, dict[str, float]] = {}
    latency = []
    kinds = [(OURS, ""), (DEBIAN, options.debian), (options.stock, "")]
    try:
        for kind, python in kinds:
            if not kind or (kind == DEBIAN and not python):
                continue
            bench = MasterBench(kind, os.path.abspath(options.swarm), keys, python, options.seconds)
            bench.run(options.only)
            results[kind] = bench.figures
            latency += [(kind, *entry) for entry in bench.latency]
            if kind != DEBIAN and (not options.only or "minion" in options.only):
                minion = MinionBench(kind)
                minion.run()
                results[kind].update(minion.figures)
    finally:
        shutil.rmtree(keys, ignore_errors=True)
    print("\n" + "\n".join(table(results, options.stock)))
    if latency:
        print("\nOur reactor, since the start of its master (5 ms of CPU is the limit):\n")
        print("| after | late, worst ms | CPU of one callback, worst ms | over 5 ms | which |")
        print("|---|--:|--:|--:|---|")
    for kind, name, found in latency:
        print(
            f"| {name}{'' if kind == OURS else ' (' + kind + ')'} | {found['late_max_ms']} | "
            f"{found['callback_cpu_max_ms']} | {found['callbacks_over_5ms']} | "
            f"{found['callback_cpu_max_who']} |"
        )
    print("\n" + describe())


if __name__ == "__main__":
    main()
