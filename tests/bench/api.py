"""
The section C{api}: what requests of the HTTP API cost, and what many clients do to a master.

The clients are L{tests.bench.httpload}. CPU is that of the master's whole tree of processes, and
of stock's salt-api, which is a daemon of its own; so is memory, and a master without an API is
taken off it.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from typing import Any

from tests.bench.machine import percentile, pss_mib
from tests.bench.reactor import TAG, Lines, calm, used
from tests.harness import ROOT, reserve_ports, until

REQUESTS = 60
REFUSALS = 24
"""Each takes a second; the kernel's figures have steps of 10 ms, which so are 0.4 of each."""
EVENTS = 1000
LISTENERS = 10
MANY = 200
MALFORMED = 1000
RULES = {"admin": [".*", "@wheel", "@runner", "@jobs"]}
CALLS = (
    "login", "local test.ping", "runner test.arg", "runner jobs.list_jobs", "wheel key.list_all",
    "GET /keys", "GET /minions", "GET /jobs", "GET /jobs?limit=50", "POST /hook", "GET /stats",
    "GET /",
)  # fmt: skip
CLIENTS = ["local", "local_async", "runner", "runner_async", "wheel", "wheel_async"]


class Serving:
    """A master with an API, and a minion that answers."""

    def __init__(self, bench: Any) -> None:
        self.bench = bench
        (self.port,) = reserve_ports(1)
        users = os.path.join(bench.home, "users")
        with open(users, "w") as handle:
            handle.write("admin:adminpw\n")
        block = {"port": self.port, "host": "127.0.0.1", "disable_ssl": True}
        self.master = bench.make(
            external_auth={"file": {"^filename": users, "^hashtype": "plaintext", **RULES}},
            netapi_enable_clients=CLIENTS,
            rest_cherrypy=block,
        )
        bench.start(self.master)
        self.pids = [self.master.pid]
        self._api: Any = None
        if bench.stock:
            argv = [f"{self.master.venv}/bin/salt-api", "-c", self.master.conf]
            quiet = subprocess.DEVNULL
            env = {**os.environ, "PYTHONPATH": ""}
            self._api = subprocess.Popen(argv, stdout=quiet, stderr=quiet, env=env)
            self.pids.append(self._api.pid)
        until("the API", self._listens, seconds=60, every=0.2)
        calm(self.pids)
        self.rest = self.memory()
        argv = [sys.executable, "-m", "tests.bench.firing", "answer", "-n", "1"]
        self._minion = Lines([*argv, *self.fleet()])
        until("the minion that answers", lambda: self._minion.lines)
        calm(self.pids)

    def fleet(self) -> list[str]:
        """What the load generator has to know."""
        bench = self.bench
        args = ["--swarm", bench.swarm_path, "--ret-port", str(self.master.ret_port)]
        return [*args, "--key-dir", bench.keys, "--timeout", "120"]

    def _listens(self) -> bool:
        with socket.socket() as sock:
            return sock.connect_ex(("127.0.0.1", self.port)) == 0

    def memory(self) -> float:
        """MiB of PSS of all."""
        return sum(map(pss_mib, self.pids))

    def load(self, what: str, **options: Any) -> Lines:
        """Clients."""
        args = [f"--{name}={value}" for name, value in options.items()]
        argv = [sys.executable, "-m", "tests.bench.httpload", what, f"--port={self.port}", *args]
        return Lines(argv)

    def ask(self, call: str, clients: int, count: int) -> tuple[float, list[float], dict[str, int]]:
        """Requests: CPU milliseconds of each, how long each took, and what went wrong."""
        before = used(self.pids)
        clients_ = self.load("ask", call=call, clients=clients, count=count)
        clients_.process.wait(600)
        clients_.stop()
        calm(self.pids, 5)
        found = json.loads(clients_.lines[-1])
        cpu = 1000 * (used(self.pids) - before) / count
        return cpu, sorted(found["times"]), found["errors"]

    def stop(self) -> None:
        """End what was started here, but for the master."""
        self._minion.stop()
        if self._api is not None:
            self._api.terminate()
            self._api.wait(20)


def section(bench: Any) -> None:
    """All figures of one master."""
    bench.start(bench.make())
    alone = pss_mib(bench.master.pid)
    serving = Serving(bench)
    try:
        bench.put("API at rest, MiB more", serving.rest - alone)
        _one_by_one(bench, serving)
        bench.put("API after 800 requests, MiB more", serving.memory() - alone)
        _crowds(bench, serving)
        bench.put("API after 128 clients, MiB more", serving.memory() - alone)
        if not bench.stock:
            _malformed(bench, serving)
        _others(bench, serving)
        _events(bench, serving)
        bench.latencies("API")
    finally:
        serving.stop()


def _one_by_one(bench: Any, serving: Serving) -> None:
    """Each call by one client."""
    for call in CALLS:
        serving.ask(call, 1, 3)
        cpu, times, errors = serving.ask(call, 1, REQUESTS)
        bench.put(f"API {call}", cpu)
        if call == "local test.ping":
            bench.put(f"API {call}, p50 ms", percentile(times, 0.5))
            bench.put(f"API {call}, p99 ms", percentile(times, 0.99))
        if errors:
            bench.put(f"API {call}, errors", sum(errors.values()))
    cpu, times, _ = serving.ask("bad login", 1, REFUSALS)
    bench.put("API bad login", cpu)
    bench.put("API bad login, p50 ms", percentile(times, 0.5))


def _crowds(bench: Any, serving: Serving) -> None:
    """Many clients at once."""
    _, times, errors = serving.ask("local test.ping", 64, 256)
    bench.put("API ping of 64 clients, p50 ms", percentile(times, 0.5))
    bench.put("API ping of 64 clients, p99 ms", percentile(times, 0.99))
    bench.put("API ping of 64 clients, errors", sum(errors.values()))
    _, _, errors = serving.ask("runner test.arg", 128, 256)
    bench.put("API runner of 128 clients, errors of 256", sum(errors.values()))


def _malformed(bench: Any, serving: Serving) -> None:
    """How long good logins take beside others that say no password."""
    _, alone, _ = serving.ask("login", 1, REQUESTS)
    crowd = serving.load("ask", call="malformed login", clients=100, count=MALFORMED)
    time.sleep(1)
    _, beside, errors = serving.ask("login", 1, REQUESTS)
    crowd.process.wait(90)
    bench.put("API login, p99 ms", percentile(alone, 0.99))
    bench.put(f"API login beside {MALFORMED} malformed, p99 ms", percentile(beside, 0.99))
    bench.put(f"API login beside {MALFORMED} malformed, errors", sum(errors.values()))


def _others(bench: Any, serving: Serving) -> None:
    """What minions wait for, while 64 clients ask in a loop and while none does."""
    args = ["-n", "8", "--seconds", bench.seconds, "--jid", "nocache", "--prefix", "others-"]
    quiet = bench.swarm("returns", *args)["lat_ms"]["p99"]
    clients = serving.load("loop", call="local test.ping", clients=64)
    try:
        until("64 clients", lambda: clients.lines)
        busy = bench.swarm("returns", *args)["lat_ms"]["p99"]
    finally:
        assert clients.process.stdin is not None
        clients.process.stdin.close()
        clients.process.wait(90)
    bench.put("wait of minions beside 64 clients, p99 ms more", busy - quiet)


def _events(bench: Any, serving: Serving) -> None:
    """Streams of events."""

    def fire(count: int) -> None:
        argv = [sys.executable, "-m", "tests.bench.firing", "fire", "--tag", TAG, "-n", "8"]
        argv += ["--prefix", "fire-", "--count", str(count), *serving.fleet()]
        subprocess.run(argv, cwd=ROOT, check=True, capture_output=True, stdin=subprocess.DEVNULL)

    def during(listeners: int) -> tuple[float, int]:
        """CPU milliseconds per event, and how many came to the one that got least."""
        streams = serving.load("listen", clients=listeners, tag=TAG) if listeners else None
        if streams is not None:
            until("the streams", lambda: streams.lines)
        before = used(serving.pids)
        fire(EVENTS)
        calm(serving.pids, 30)
        cpu = 1000 * (used(serving.pids) - before) / EVENTS
        if streams is None:
            return cpu, 0
        assert streams.process.stdin is not None
        streams.process.stdin.write("\n")
        streams.process.stdin.flush()
        until("what was seen", lambda: len(streams.lines) > 1)
        streams.stop()
        return cpu, min(json.loads(streams.lines[-1])["got"])

    fire(8)
    none, _ = during(0)
    some, least = during(LISTENERS)
    bench.put("API event, by listener", (some - none) / LISTENERS)
    bench.put(f"API events of {EVENTS} to each of ten listeners", least)
    if not bench.stock:
        before = serving.memory()
        streams = serving.load("listen", clients=MANY, tag=TAG)
        until("the streams", lambda: streams.lines)
        fire(EVENTS)
        bench.put(f"API memory with {MANY} listeners, MiB more", serving.memory() - before)
        streams.stop()
