"""
The section C{reactor}: what a reaction costs, how long it takes, and what a burst does.

Minions fire events (L{tests.bench.firing}); one more minion answers the jobs that a C{local}
reaction publishes. CPU is that of the master's whole tree of processes, from the first event until
nothing moves any more: the event, the reaction, and the return of a job are in it.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import threading
import time
import unittest
from typing import Any

from tests.bench.machine import children, percentile
from tests.cluster.real import cluster
from tests.harness import ROOT, until

EVENTS = 1000
MANY = 10_000
LOW = 1000
"""C{reactor_worker_hwm} of the run where events have to be lost."""
IDLE = 200
"""Events that come one by one, to see how long each takes."""
RATE = 20.0
TAG = "bench/event"
SLS = {
    "local": "r:\n  local.test.arg:\n    - tgt: swarm-00000\n    - args:\n"
    "      - i: {{ data['data']['i'] }}\n",
    "runner": "r:\n  runner.test.arg:\n    - args:\n      - i: {{ data['data']['i'] }}\n",
    "wheel": "r:\n  wheel.key.list_all: []\n",
}
RETURNS = {"runner": "salt/run/", "wheel": "salt/wheel/"}
TICK = os.sysconf("SC_CLK_TCK")


def used(pids: list[int]) -> float:
    """CPU seconds of process trees so far, those of children that have ended too."""
    total = 0
    for pid in (each for root in pids for each in children(root)):
        try:
            with open(f"/proc/{pid}/stat") as handle:
                total += sum(map(int, handle.read().rpartition(")")[2].split()[11:15]))
        except OSError:
            continue
    return total / TICK


def calm(pids: list[int], patience: float = 60.0) -> None:
    """Wait until process trees use next to nothing for two seconds, or for so long."""
    end, quiet = time.monotonic() + patience, 0
    while quiet < 2 and time.monotonic() < end:
        before = used(pids)
        time.sleep(1)
        quiet = quiet + 1 if used(pids) - before < 0.1 else 0


class Lines:
    """A process whose lines are read as they come."""

    def __init__(self, argv: list[str]) -> None:
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(iter(self.process.stdout.readline, ""))  # grows line by line

    def all_lines(self) -> list[str]:
        """What it has written, once it has ended."""
        self._reader.join(20)
        return self.lines

    def stop(self) -> None:
        """End it."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.terminate()
        self.process.wait(20)
        self._reader.join(20)


class Reacting:
    """
    Masters that react, and minions that fire at the first of them.

    @param masters: all that run; their CPU counts.
    @param salt_run: how C{salt-run} of the first is called.
    """

    def __init__(
        self, masters: list[Any], swarm: str, keys: str, salt_run: list[str], kind: str
    ) -> None:
        self.kind = kind
        self.pids = [master.pid for master in masters]
        first = masters[0]
        self._args = ["--swarm", swarm, "--ret-port", str(first.ret_port), "--key-dir", keys]
        self._args += ["--master", getattr(first, "address", "127.0.0.1"), "--timeout", "300"]
        self.minion = self._firing("answer", "-n", "1")
        until("the minion that answers", lambda: self.minion.lines)
        self.watch: Lines | None = None
        if kind in RETURNS:
            self.watch = Lines([*salt_run, "state.event"])
            time.sleep(4)
        # What is used for the first time is loaded then
        self.fire(3)
        time.sleep(6)
        calm(self.pids)

    def _firing(self, *args: str) -> Lines:
        return Lines([sys.executable, "-m", "tests.bench.firing", *args, *self._args])

    def stop(self) -> None:
        """End what was started here."""
        self.minion.stop()
        if self.watch is not None:
            self.watch.stop()

    def fire(self, count: int, rate: float = 0.0) -> dict[str, float]:
        """Fire so many events; when each was sent."""
        args = ["--count", str(count), "--tag", TAG, "--rate", str(rate)]
        who = ["-n", "8", "--prefix", "fire-"]
        firing = self._firing("fire", *args, *who)
        firing.process.wait(600)
        firing.stop()
        found = json.loads(firing.lines[-1])
        if found["errors"]:
            print(f"  ! {found['errors']}", flush=True)
        sent: dict[str, float] = found["sent"]
        return sent

    def seen(self) -> list[tuple[float, str]]:
        """The reactions so far: when, and to which event, where it is known."""
        if self.watch is None:
            jobs = [json.loads(line) for line in self.minion.lines[1:]]
            return [(job["at"], str(_number(job["arg"]))) for job in jobs]
        return [
            (0.0, "")
            for line in list(self.watch.lines)
            if line.startswith(RETURNS[self.kind]) and line.partition("\t")[0].endswith("/ret")
        ]

    def burst(self, count: int, patience: float) -> tuple[float, float, int]:
        """
        Events as fast as they are taken.

        @param patience: seconds in which nothing more has come, after which the rest is missing.
        @return: CPU milliseconds per event, seconds from the first event to the last reaction, and
            how many reactions there were.
        """
        skip, before, began = len(self.seen()), used(self.pids), time.time()
        self.fire(count)
        last, moved = 0, time.time()
        while self.kind != "none" and last < count and time.time() - moved < patience:
            now = len(self.seen()) - skip
            if now != last:
                last, moved = now, time.time()
            time.sleep(0.02)
        calm(self.pids)
        return 1000 * (used(self.pids) - before) / count, moved - began, last

    def idle(self) -> list[float]:
        """Milliseconds from sending an event to seeing its publication, one event at a time."""
        skip = len(self.seen())
        sent = self.fire(IDLE, RATE)
        until("all publications", lambda: len(self.seen()) - skip >= IDLE)
        return sorted(1000 * (at - sent[number]) for at, number in self.seen()[skip:])


def _number(value: Any) -> int | None:
    """The number of the event, wherever a job's arguments have it."""
    if isinstance(value, dict):
        found = value.get("i")
        return found if isinstance(found, int) else None
    if isinstance(value, list):
        return next((n for n in map(_number, value) if n is not None), None)
    return None


def section(bench: Any) -> None:
    """All figures of one master."""
    for kind in ("none", *SLS):
        reacting = _started(bench, kind)
        try:
            if kind == "local":
                times = reacting.idle()
                bench.put("event to publication, idle, median ms", statistics.median(times))
                bench.put("event to publication, idle, p99 ms", percentile(times, 0.99))
            cpu, seconds, count = reacting.burst(EVENTS, 30)
        finally:
            reacting.stop()
        name = "event with no reaction" if kind == "none" else f"reaction, {kind}"
        bench.put(name, cpu)
        if kind != "none":
            bench.put(f"{EVENTS} reactions in a burst, {kind}, s", seconds)
            if count != EVENTS:
                bench.put(f"of them missing, {kind}", EVENTS - count)
        bench.latencies(name)
    if not bench.stock:
        _many(bench)
        if not bench.python:
            three(bench)


def _started(bench: Any, kind: str, **options: Any) -> Reacting:
    """A master with one reaction, and its minions."""
    master = bench.make(**options)
    if kind != "none":
        path = os.path.join(master.root, f"{kind}.sls")
        with open(path, "w") as handle:
            handle.write(SLS[kind])
        with open(os.path.join(master.conf, "master"), "a") as handle:
            handle.write(f"reactor: {json.dumps([{TAG: [path]}])}\n")
    bench.start(master)
    return Reacting([master], bench.swarm_path, bench.keys, bench.tool("salt-run"), kind)


def _many(bench: Any) -> None:
    """Ten thousand events: none is lost below the mark, and beyond it each that is is counted."""
    for mark in (MANY, LOW):
        reacting = _started(bench, "local", reactor_worker_hwm=mark)
        try:
            _, seconds, count = reacting.burst(MANY, 15)
        finally:
            reacting.stop()
        client = bench.master.control()
        try:
            figures = client.call("status")["reactor"]["figures"]
        finally:
            client.close()
        lost = sum(n for word, n in figures.items() if word.startswith("lost:"))
        name = f"{MANY} in a burst, hwm {mark}"
        bench.put(f"{name}: until the last, s", seconds)
        bench.put(f"{name}: lost, and said", lost)
        bench.put(f"{name}: lost without a word", MANY - count - lost)
        bench.latencies(name)


def three(bench: Any) -> None:
    """The same time on three nodes, where each reaction is claimed."""
    case = unittest.TestCase()
    try:
        options = {"auto_accept": True, "log_level": "warning"}
        path = os.path.join(bench.home, "three.sls")
        with open(path, "w") as handle:
            handle.write(SLS["local"])
        nodes = cluster(case, "a b c", reactor=[{TAG: [path]}], **options)
        reacting = Reacting(list(nodes), bench.swarm_path, bench.keys, [], "local")
        try:
            times = reacting.idle()
            cpu, seconds, _ = reacting.burst(EVENTS, 30)
        finally:
            reacting.stop()
        bench.put("event to publication, three nodes, median ms", statistics.median(times))
        bench.put("event to publication, three nodes, p99 ms", percentile(times, 0.99))
        bench.put("reaction, local, three nodes together", cpu)
        bench.put(f"{EVENTS} reactions in a burst, three nodes, s", seconds)
        for node in nodes:
            client = node.control()
            try:
                found = client.call("status")["latency"]
                bench.latency.append((f"reactions, node {node.name} of three", found))
            finally:
                client.close()
    finally:
        case.doCleanups()
