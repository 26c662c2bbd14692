"""
The figures of one master under the load generator.

CPU of the master's whole process tree per operation comes first: wall time is noisy
where others run too.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from tests.bench import api, gitfs, reactor
from tests.bench.machine import pss_mib
from tests.harness import ROOT, OurMaster, OurMinion, StockMaster, StockMinion, until

N = 2000
OURS = "ours"
DEBIAN = "debian"
"""Our master on the Python packages of Debian, where C{--debian} names an interpreter."""


class MasterBench:
    """
    The figures of one master.

    @ivar figures: name to value; milliseconds of CPU per operation where the name says
        nothing else.
    @ivar latency: what our reactor says of itself after each load.
    """

    def __init__(
        self, kind: str, swarm: str, keys: str, python: str = "", seconds: int = 5
    ) -> None:
        """
        @param kind: L{OURS}, L{DEBIAN}, or a version of stock Salt.
        @param swarm: the load generator.
        @param keys: a directory where it keeps its RSA keys.
        @param python: the interpreter of our master.
        @param seconds: how long each load lasts that has no end of its own.
        """
        self.kind = kind
        self.swarm_path = swarm
        self.keys = keys
        self.python = python
        self.seconds = str(seconds)
        self.home = tempfile.mkdtemp(prefix="swb", dir="/tmp")
        self.figures: dict[str, float] = {}
        self.latency: list[tuple[str, dict[str, Any]]] = []
        self.master: Any = None

    @property
    def stock(self) -> bool:
        """Whether this is somebody else's master."""
        return self.kind not in (OURS, DEBIAN)

    def make(self, **options: Any) -> Any:
        """A master that is not started yet, with an empty pki."""
        home = tempfile.mkdtemp(dir=self.home)
        options = {"auto_accept": True, "log_level": "warning", "timeout": 60, **options}
        master: Any
        if self.stock:
            # The default of Salt, as a site has it; the tests make do with two
            master = StockMaster(home, self.kind, **{"worker_threads": 5, **options})
        else:
            master = OurMaster(home, **options)
            if self.python:
                master.argv[0] = self.python
        with open(os.path.join(master.file_root, "big"), "wb") as handle:
            handle.write(os.urandom(10 * 1024 * 1024))
        for number in range(200):
            with open(os.path.join(master.file_root, f"file{number}"), "w") as handle:
                handle.write("x" * 100)
        self.pillar(master, "")
        return master

    def pillar(self, master: Any, first: str) -> None:
        """A pillar of about 2.5 KB from a top file and four templates."""
        with open(os.path.join(master.pillar_root, "top.sls"), "w") as handle:
            handle.write("base:\n  '*':\n" + "".join(f"    - p{n}\n" for n in range(4)))
        for number in range(4):
            with open(os.path.join(master.pillar_root, f"p{number}.sls"), "w") as handle:
                handle.write(first + "{% set id = grains['id'] %}\n" + f"part{number}:\n")
                for line in range(12):
                    handle.write(f"  key{line}: {{{{ id }}}} has the value number {line} here\n")

    def start(self, master: Any) -> None:
        """Start it, and let it come to rest."""
        self.stop()
        self.master = master
        master.up()
        time.sleep(8 if self.stock else 2)

    def stop(self) -> None:
        """End the one that runs."""
        if self.master is not None:
            self.master.kill(15)
            self.master = None

    def swarm(self, scenario: str, *args: str) -> dict[str, Any]:
        """One scenario of the load generator."""
        done = subprocess.run(
            [
                sys.executable, self.swarm_path, scenario, *args, "--ret-port",
                str(self.master.ret_port), "--key-dir", self.keys, "--timeout", "120",
                "--pid", str(self.master.pid),
            ],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        line = done.stdout.strip()
        if not line:
            raise AssertionError(f"{scenario}: {done.stderr[-2000:]}")
        found: dict[str, Any] = json.loads(line)
        if found.get("error_count"):
            print(f"  ! {self.kind} {scenario}: {found['errors']}", flush=True)
        return found

    def cpu(self, name: str, scenario: str, *args: str, repeat: int = 3) -> None:
        """CPU per operation, the median of some runs."""
        values = []
        for _ in range(repeat):
            values.append(float(self.swarm(scenario, *args)["master"]["cpu_ms_per_op"]))
        self.put(name, statistics.median(values))
        self.latencies(name)

    def put(self, name: str, value: float) -> None:
        """Keep a figure, and show it at once."""
        self.figures[name] = value
        print(f"  {self.kind:6} {name:42} {value:10.3f}", flush=True)

    def latencies(self, name: str) -> None:
        """What our reactor says of itself, from the start of this master until after this load."""
        if self.stock:
            return
        client = self.master.control()
        try:
            found = client.call("status")["latency"]
        finally:
            client.close()
        self.latency.append((name, found))

    def accept(self, count: int) -> None:
        """Have the keys of so many ids accepted."""
        folder = os.path.join(self.master.pki, "minions")
        subprocess.run(
            [
                sys.executable, self.swarm_path, "keys", "-n", str(count), "--key-dir", self.keys,
                "--accept-into", folder,
            ],
            check=True, capture_output=True,
        )  # fmt: skip

    def run(self, only: list[str]) -> None:
        """All sections, or those named."""
        sections: list[Callable[[], None]] = [
            self.startup, self.few, self.signins, self.many, self.files, self.pillars, self.idle,
            self.command, self.flood, self.reactor, self.api, self.git,
        ]  # fmt: skip
        if self.kind == DEBIAN:
            sections = [self.startup, self.few, self.signins, self.files, self.pillars]
        try:
            for section in sections:
                if not only or section.__name__ in only:
                    section()
        finally:
            self.stop()
            shutil.rmtree(self.home, ignore_errors=True)

    def startup(self) -> None:
        """Start to the first sign-in served; memory at rest."""
        master = self.make()
        self.start(master)
        times = []
        for _ in range(5):
            master.kill(15)
            began = time.monotonic()
            master.start()
            self.master = master
            until("the port", self.listens, every=0.005)
            self.swarm("auth", "-n", "1")
            times.append(time.monotonic() - began)
            time.sleep(1)
        baseline = min(self._swarm_own() for _ in range(3))
        self.put("start to first sign-in, s", statistics.median(times) - baseline)
        time.sleep(8 if self.stock else 3)
        self.put("memory at rest, MiB PSS", pss_mib(master.pid))
        self.latencies("start")

    def _swarm_own(self) -> float:
        """What the load generator itself takes to sign one minion in."""
        began = time.monotonic()
        self.swarm("auth", "-n", "1")
        return time.monotonic() - began

    def listens(self) -> bool:
        """Whether its request port takes connections."""
        with socket.socket() as sock:
            return sock.connect_ex(("127.0.0.1", self.master.ret_port)) == 0

    def few(self) -> None:
        """With nine accepted keys."""
        self.start(self.make())
        self.accept(9)
        args = ["-n", "8", "--seconds", self.seconds]
        self.cpu("return stored, 9 keys", "returns", *args)
        self.cpu("return without cache", "returns", *args, "--jid", "nocache")
        self.cpu("minion event", "events", *args)

    def signins(self) -> None:
        """Two thousand sign-ins at once, all keys accepted before."""
        self.start(self.make(auto_accept=False))
        self.accept(N)
        time.sleep(2)
        self.cpu("sign-in, 2000 at once", "auth", "-n", str(N))

    def many(self) -> None:
        """With two thousand accepted keys: returns, and a ping to all of them."""
        self.start(self.make(auto_accept=False))
        self.accept(N)
        time.sleep(2)
        self.cpu(
            "return stored, 2001 keys", "returns", "-n", "8", "--seconds", self.seconds, repeat=1
        )
        walls, cpus = [], []
        for _ in range(3):
            found = self.swarm(
                "ping", "-n", str(N), "--warmup", "1", "--pause", "2", "--publish-cmd",
                self.salt("--async '*' test.ping"),
            )  # fmt: skip
            cpus.append(found["master"]["cpu_ms_per_op"])
            walls.append(found["seconds"])
        self.put("ping to 2000, per return", statistics.median(cpus))
        self.put("ping to 2000, wall, s", statistics.median(walls))
        self.latencies("ping to 2000")

    def tool(self, name: str) -> list[str]:
        """How a command of this master's own kind begins."""
        if self.stock:
            return [f"{self.master.venv}/bin/{name}", "-c", self.master.conf]
        python = self.python or sys.executable
        return [python, "-m", "saltwisted.cli.main", name, "-c", self.master.conf]

    def salt(self, words: str) -> str:
        """A shell command that runs this master's own salt command."""
        return f"{' '.join(self.tool('salt'))} {words}"

    def files(self) -> None:
        """The file server."""
        self.start(self.make())
        args = ["-n", "8", "--seconds", self.seconds, "--path", "big"]
        self.cpu("file hash", "files", "--mode", "hash", *args)
        self.cpu("file list", "files", "--mode", "list", *args)
        self.cpu("10 MiB file", "files", "--mode", "fetch", "-n", "8", "--path", "big")

    def pillars(self) -> None:
        """Pillars that are compiled again each time, and such that have not changed."""
        args = ["-n", "8", "--seconds", self.seconds, "--expect", "part0"]
        self.start(self.make())
        self.cpu("pillar, nothing changed", "pillar", *args)
        master = self.make()
        self.pillar(master, "{% set x = [1, 2, 3] | random %}")
        self.start(master)
        self.cpu("pillar, compiled anew", "pillar", *args)
        self.put("memory while compiling pillars, MiB PSS", pss_mib(master.pid))

    def idle(self) -> None:
        """Memory with two thousand minions connected."""
        self.start(self.make())
        self.accept(N)
        found = self.swarm("idle", "-n", str(N), "--seconds", "5")
        self.put("memory with 2000 minions, MiB PSS", float(found["pss_connected_mb"]))
        self.put("CPU with 2000 idle minions, % of one", float(found["master"]["cpu_pct"]))
        self.latencies("2000 minions connected")

    def command(self) -> None:
        """The salt command from prompt to prompt, with one minion of the same kind."""
        master = self.make()
        self.start(master)
        minion: Any = (
            StockMinion(self.home, self.kind, master, "one")
            if self.stock
            else OurMinion(self.home, master, "one")
        )
        minion.up()
        try:
            until("the minion", lambda: self._answers(master), every=0.5)
            argv = self.salt("one test.ping").split()
            times = []
            for _ in range(15):
                began = time.monotonic()
                subprocess.run(argv, check=True, capture_output=True)
                times.append(time.monotonic() - began)
            self.put("salt test.ping, one minion, s", statistics.median(times))
        finally:
            minion.kill()

    @staticmethod
    def _answers(master: Any) -> bool:
        done = master.command("salt", "one", "test.ping", "-t", "3", "--out", "json", "--static")
        return '"one": true' in done.stdout

    def reactor(self) -> None:
        """What reactions to events cost."""
        reactor.section(self)

    def api(self) -> None:
        """What requests of the HTTP API cost."""
        api.section(self)

    def git(self) -> None:
        """What files and pillar from a git repository cost."""
        gitfs.section(self)

    def flood(self) -> None:
        """How long eight minions wait for their answers while a stranger floods the port."""
        self.start(self.make())
        self.accept(9)
        args = ["-n", "8", "--seconds", self.seconds, "--jid", "nocache"]
        quiet = self.swarm("returns", *args)
        self.put("wait of others, undisturbed, p99 ms", quiet["lat_ms"]["p99"])
        for kind in ("junk", "auth"):
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.attack.flood", kind, str(self.master.ret_port)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
            )  # fmt: skip
            assert process.stdin is not None and process.stdout is not None
            try:
                process.stdin.write("stranger none\n")
                process.stdin.flush()
                process.stdout.readline()
                found = self.swarm("returns", *args)
            finally:
                process.stdin.close()
                process.wait(20)
            lat = found.get("lat_ms") or {}
            self.put(f"wait of others, flood of {kind}, p99 ms", float(lat.get("p99", math.inf)))
            self.latencies(f"flood of {kind}")
            time.sleep(2)
