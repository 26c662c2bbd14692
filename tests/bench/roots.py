"""
C{python -m tests.bench.roots}: two of our nodes, and beside them rsync, Unison and Syncthing from
Debian, on the same trees, in the same run; prints wall time, bytes and memory side by side.

Workloads: (a) first sync of 10,000 small files and 20 of 10 MiB, (b) nothing changed, (c) a line
inserted in 50 files, (d) one byte inserted in a file of 100 MiB, (e) a directory of 2,000 files
renamed, (f) 1,000 files deleted, (g) one file edited, until the other side has it. Our figures are
with mutual TLS and a generation store, and end when the other node's working tree is written;
rsync and Unison run over a pipe to a local server, without encryption. Bytes of those two are
counted in a run of their own, since who counts them slows them down. CPU is that of all processes
of both sides (but for Unison's own server); memory is the most of either side's daemon, above what
it had before. They take turns, run by run, and a ratio of wall times is the median of those of such
pairs. This is not a test.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Sequence
from typing import Any

from saltwisted.worker.control import ControlClient
from tests.bench.machine import cpu_seconds, describe, percentile, pss_mib, share_at_rest
from tests.cluster.real import OurNode
from tests.harness import reserve_ports, until

LOADS = "abcdefg"
TARGETS = {
    "rsync": {"a": 2.0, "b": 0.5, "c": 0.5, "d": 2.0, "e": 0.6, "f": 0.7},
    "unison": {"a": 0.5, "b": 0.5, "c": 0.5, "d": 0.5, "e": 0.3, "f": 0.4},
    "syncthing": {"a": 0.3, "b": 0.25, "c": 0.25, "d": 0.2, "e": 0.15, "f": 0.2, "g": 0.1},
}
"""Our wall time divided by that of each, at most."""
LIMITS = {
    "b bytes": 200,
    "d bytes": 4096,
    "e bytes": 4096,
    "f bytes": 12288,
    "g bytes": 1024,
    "g wall": 0.1,
    "g p99": 0.4,
    **{f"{load} MiB": 64 for load in "abcdefg"},
    "MiB with all files": 120,
    "idle % of a core": 0.1,
}
"""Our own figures, at most."""
IDLE = 20.0
MIB = 1024 * 1024


class Tree:
    """The deterministic tree, and what is done to it."""

    def __init__(self, top: str, files: int, large: int, large_mib: int, one_mib: int) -> None:
        self.top = top
        self.dice = random.Random(7)
        self.small: list[str] = []
        self.one_mib = one_mib
        moved = files // 5
        for number in range(files):
            if number < moved:
                folder = f"moved/d{number % 40}"
            else:
                folder = f"env{number % 4}/role{number % 101}"
            self.small.append(f"{folder}/file_{number}.sls")
        for path in self.small:
            self.put(path, self.text(path).encode())
        for number in range(large):
            self.put(f"bin/{number}.bin", self.dice.randbytes(large_mib * MIB))

    def text(self, name: str) -> str:
        """About 2 KB that compress as states do."""
        lines = [f"# {name}"]
        for number in range(self.dice.randint(10, 30)):
            lines.append(f"{name.replace('/', '_')}_{number}:")
            lines.append("  file.managed:")
            lines.append(f"    - name: /etc/app/{self.dice.randrange(10**6)}.conf")
            lines.append(f"    - contents: value {self.dice.getrandbits(64)}")
        return "\n".join(lines) + "\n"

    def put(self, path: str, data: bytes) -> None:
        """Write a file."""
        full = f"{self.top}/{path}"
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "wb") as file:
            file.write(data)

    def change(self, load: str, top: str, run: int) -> Callable[[str], bool]:
        """Do what a workload does; the answer says whether another tree has it."""
        dice = random.Random(run)
        if load == "c":
            for path in (chosen := dice.sample(self.small[len(self.small) // 5 :], 50)):
                _insert(f"{top}/{path}", b"# changed %04d\n" % run)
            last = chosen[-1]
            return lambda other: _read(f"{other}/{last}") == _read(f"{top}/{last}")
        if load == "d":
            _insert(f"{top}/one.bin", b"!")
            size = os.path.getsize(f"{top}/one.bin")
            return lambda other: os.path.getsize(f"{other}/one.bin") == size
        if load == "e":
            old, new = "moved", "renamed"
            if not os.path.exists(f"{top}/{old}"):
                old, new = new, old
            os.rename(f"{top}/{old}", f"{top}/{new}")
            return lambda other: (
                os.path.exists(f"{other}/{new}") and not os.path.exists(f"{other}/{old}")
            )
        if load == "f":
            gone = [p for p in self.small[len(self.small) // 5 :] if os.path.exists(f"{top}/{p}")]
            gone = sorted(gone)[: len(self.small) // 10]
            for path in gone:
                os.unlink(f"{top}/{path}")
            return lambda other: not os.path.exists(f"{other}/{gone[-1]}")
        if load == "g":
            path = self.small[-1 - run]
            _insert(f"{top}/{path}", b"# edit %04d\n" % run)
            want = _read(f"{top}/{path}")
            return lambda other: _read(f"{other}/{path}") == want
        return _anything

    def fill(self, top: str) -> int:
        """Put the deleted ones back; how many."""
        count = 0
        for path in self.small:
            if not os.path.exists(f"{top}/{path}") and not path.startswith("moved/"):
                shutil.copy2(f"{self.top}/{path}", f"{top}/{path}")
                count += 1
        return count


def _anything(other: str) -> bool:
    return True


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def _insert(path: str, data: bytes) -> None:
    with open(path, "rb") as file:
        whole = file.read()
    middle = len(whole) // 2
    if data.endswith(b"\n"):
        middle = whole.find(b"\n", middle) + 1
    with open(path, "wb") as file:
        file.write(whole[:middle] + data + whole[middle:])


class Peer:
    """One way of keeping two directories alike."""

    name = ""

    def __init__(self, home: str) -> None:
        self.home = home
        self.one, self.two = f"{home}/one", f"{home}/two"
        os.makedirs(self.one)
        os.makedirs(self.two)

    def start(self) -> None:
        """Make it ready, with empty directories."""

    def sync(self, arrived: Callable[[str], bool]) -> None:
        """Bring the change over; returns when it is there."""

    def traffic(self) -> int:
        """Bytes on the wire so far; -1 if it cannot say."""
        return -1

    def pids(self) -> list[int]:
        """Its daemons, one for each side, if it has some."""
        return []

    def memory(self) -> float:
        """MiB of the larger daemon."""
        return max((pss_mib(pid) for pid in self.pids()), default=0.0)

    def cpu(self) -> float:
        """Seconds that all its processes have used; without daemons, those that have ended."""
        pids = self.pids()
        if not pids:
            used = resource.getrusage(resource.RUSAGE_CHILDREN)
            return used.ru_utime + used.ru_stime
        return sum(_cpu(pid) for pid in pids)

    def count(self, on: bool) -> bool:
        """Count bytes from now on, or no more; false if that is done all the time."""
        return False

    def stop(self) -> None:
        """End it."""


def _tree(pid: int) -> list[int]:
    """A process and all below it."""
    found = [pid]
    for one in found:
        for task in os.listdir(f"/proc/{one}/task"):
            with open(f"/proc/{one}/task/{task}/children") as file:
                found += map(int, file.read().split())
    return found


def _cpu(pid: int) -> float:
    return sum(cpu_seconds(one) for one in _tree(pid))


def _forget_peak(pid: int) -> None:
    for one in _tree(pid):
        with open(f"/proc/{one}/clear_refs", "w") as file:
            file.write("5")


def _peak_mib(pid: int) -> float:
    total = 0
    for one in _tree(pid):
        with open(f"/proc/{one}/status") as file:
            total += next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
    return total / 1024


class Ours(Peer):
    """Two nodes of a cluster."""

    name = "ours"

    def start(self) -> None:
        """Found, join, wait."""
        ports = reserve_ports(3)
        self.nodes = []
        for number, (name, top) in enumerate((("one", self.one), ("two", self.two))):
            self.nodes.append(
                OurNode(
                    self.home + "/nodes",
                    name,
                    f"127.0.0.{number + 1}",
                    ports,
                    file_roots={"base": [top]},
                    pillar_roots={},
                    # The brake would hold the fourth thousand of deletions within a minute
                    cluster_roots={"free_mib": 1, "guard_pct": 90},
                )
            )
        first, second = self.nodes
        first.up()
        token = first.token()
        second.start()
        until("the second node to answer", second.members)
        second.command("join", token, check=True)
        second.wait_serving()
        self.clients = [ControlClient(path=_socket(node)) for node in self.nodes]

    def sync(self, arrived: Callable[[str], bool]) -> None:
        """Take in, and wait until the other node's directory is written."""
        self.clients[0].call("roots", do="sync", wait=True, timeout=300)
        self.clients[1].call("roots", do="settled")
        while not arrived(self.two):
            time.sleep(0.001)

    def wait(self, arrived: Callable[[str], bool]) -> None:
        """Do nothing: the edit has to come by itself."""
        while not arrived(self.two):
            time.sleep(0.0005)

    def traffic(self) -> int:
        """As the nodes count it, without TLS's own."""
        peers = self.clients[0].call("roots", do="status")["peers"]
        return sum(int(peer["bytes_in"]) + int(peer["bytes_out"]) for peer in peers.values())

    def pids(self) -> list[int]:
        """Both nodes."""
        return [node.pid for node in self.nodes]

    def stop(self) -> None:
        """End both."""
        for node in self.nodes:
            node.kill()


def _socket(node: OurNode) -> str:
    for folder, _, names in os.walk(node.root):
        if "saltwisted.sock" in names:
            return f"{folder}/saltwisted.sock"
    raise RuntimeError("the node has no control socket")


class Rsync(Peer):
    """C{rsync -a --delete} over a pipe that counts."""

    name = "rsync"

    def start(self) -> None:
        """A pipe in place of ssh."""
        self.pipe = _counting_pipe(self.home)

    def sync(self, arrived: Callable[[str], bool]) -> None:
        """One run."""
        self.run()

    def run(self, *more: str) -> None:
        """Run it."""
        subprocess.run(
            ["rsync", "-a", "--delete", *more, f"{self.one}/", f"localhost:{self.two}/"],
            env={**os.environ, "RSYNC_RSH": self.pipe},
            check=True,
            stdout=subprocess.DEVNULL,
        )

    def traffic(self) -> int:
        """What went through the pipe, where it was counted."""
        return _counted(self.home)

    def count(self, on: bool) -> bool:
        """Through a pipe that counts."""
        return _count(self.home, on)


class Unison(Peer):
    """C{unison -batch} over the same pipe."""

    name = "unison"

    def start(self) -> None:
        """A pipe in place of ssh."""
        self.pipe = _counting_pipe(self.home)

    def sync(self, arrived: Callable[[str], bool]) -> None:
        """One run."""
        subprocess.run(
            [
                "unison",
                self.one,
                f"ssh://localhost/{self.two}",
                "-sshcmd",
                self.pipe,
                "-batch",
                "-auto",
                "-confirmbigdel=false",
                "-silent",
                "-times",
                "-prefer",
                "newer",
            ],
            env={**os.environ, "UNISON": f"{self.home}/unison"},
            check=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        if not arrived(self.two):
            raise RuntimeError("unison did not bring it over")

    def traffic(self) -> int:
        """What went through the pipe, where it was counted."""
        return _counted(self.home)

    def count(self, on: bool) -> bool:
        """Through a pipe that counts."""
        return _count(self.home, on)


class Syncthing(Peer):
    """Two instances on loopback; a scan is asked for, as fast as it can be."""

    name = "syncthing"
    key = "bench"

    def start(self) -> None:
        """Generate, introduce, start."""
        ports = reserve_ports(4)
        ids = []
        self.api = []
        self.processes = []
        for number in range(2):
            home = f"{self.home}/st{number}"
            subprocess.run(
                ["syncthing", "generate", f"--home={home}", "--no-default-folder"],
                check=True,
                capture_output=True,
            )
            done = subprocess.run(
                ["syncthing", "--device-id", f"--home={home}"],
                check=True,
                capture_output=True,
                text=True,
            )
            ids.append(done.stdout.strip())
        for number, top in enumerate((self.one, self.two)):
            other = 1 - number
            with open(f"{self.home}/st{number}/config.xml", "w") as file:
                file.write(
                    f"""<configuration version="36">
<folder id="x" label="x" path="{top}" type="sendreceive" rescanIntervalS="3600"
 fsWatcherEnabled="true" fsWatcherDelayS="1" ignorePerms="false">
<filesystemType>basic</filesystemType>
<device id="{ids[0]}"/><device id="{ids[1]}"/><minDiskFree unit="">0</minDiskFree></folder>
<device id="{ids[number]}" name="me"><address>dynamic</address></device>
<device id="{ids[other]}" name="other"><address>tcp://127.0.0.1:{ports[other]}</address></device>
<gui enabled="true"><address>127.0.0.1:{ports[2 + number]}</address>
<apikey>{self.key}</apikey></gui>
<options><listenAddress>tcp://127.0.0.1:{ports[number]}</listenAddress>
<globalAnnounceEnabled>false</globalAnnounceEnabled>
<localAnnounceEnabled>false</localAnnounceEnabled>
<relaysEnabled>false</relaysEnabled><natEnabled>false</natEnabled><urAccepted>-1</urAccepted>
<startBrowser>false</startBrowser><crashReportingEnabled>false</crashReportingEnabled>
<autoUpgradeIntervalH>0</autoUpgradeIntervalH><reconnectionIntervalS>1</reconnectionIntervalS>
</options></configuration>"""
                )
            os.makedirs(f"{top}/.stfolder", exist_ok=True)
            self.processes.append(
                subprocess.Popen(
                    [
                        "syncthing",
                        "serve",
                        f"--home={self.home}/st{number}",
                        "--no-restart",
                        "--no-browser",
                        "--no-upgrade",
                    ],
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )
            self.api.append(f"http://127.0.0.1:{ports[2 + number]}")
        until("syncthing to connect", self._connected, 60)

    def _ask(self, number: int, path: str, data: bytes | None = None) -> Any:
        request = urllib.request.Request(
            self.api[number] + path, data=data, headers={"X-API-Key": self.key}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def _connected(self) -> bool:
        try:
            found = self._ask(0, "/rest/system/connections")["connections"]
            return any(one["connected"] for one in found.values())
        except OSError:
            return False

    def sync(self, arrived: Callable[[str], bool]) -> None:
        """A scan on the first, until the second has all."""
        self._ask(0, "/rest/db/scan?folder=x", b"")
        while True:
            state = self._ask(1, "/rest/db/status?folder=x")
            first = self._ask(0, "/rest/db/status?folder=x")
            same = state["globalBytes"] == first["localBytes"] and not state["needTotalItems"]
            if same and state["state"] == "idle" and arrived(self.two):
                return
            time.sleep(0.01)

    def wait(self, arrived: Callable[[str], bool]) -> None:
        """Its own watcher, with the shortest delay it takes."""
        while not arrived(self.two):
            time.sleep(0.002)

    def traffic(self) -> int:
        """As it counts it itself."""
        total = self._ask(0, "/rest/system/connections")["total"]
        return int(total["inBytesTotal"]) + int(total["outBytesTotal"])

    def pids(self) -> list[int]:
        """Both instances."""
        return [process.pid for process in self.processes]

    def stop(self) -> None:
        """End both."""
        for process in self.processes:
            process.kill()
            process.wait()


PIPE = """#!{python}
import os, selectors, subprocess, sys
words = [word for word in sys.argv[1:] if word not in ("-e", "none")]
while words and words[0] != "rsync" and words[0] != "unison":
    words.pop(0)
words = " ".join(words).split()
if not os.path.exists({flag!r}):
    os.execvp(words[0], words)
child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
total = 0
pairs = {{0: child.stdin.fileno(), child.stdout.fileno(): 1}}
watch = selectors.DefaultSelector()
for source in pairs:
    watch.register(source, selectors.EVENT_READ)
while len(watch.get_map()) > 0 and child.stdout.fileno() in watch.get_map():
    for key, _ in watch.select():
        data = os.read(key.fd, 1 << 16)
        if not data:
            watch.unregister(key.fd)
            if key.fd == 0:
                child.stdin.close()
            continue
        total += len(data)
        while data:
            data = data[os.write(pairs[key.fd], data):]
with open({log!r}, "a") as file:
    file.write("%d\\n" % total)
sys.exit(child.wait())
"""


def _count(home: str, on: bool) -> bool:
    if on:
        with open(f"{home}/counting", "w"):
            return True
    # The pipe writes its sum down when the program at its end has ended, perhaps a moment later
    until("the bytes to be counted", lambda: _counted(home) > 0, 20)
    os.unlink(f"{home}/counting")
    return True


def _counting_pipe(home: str) -> str:
    path = f"{home}/pipe"
    with open(path, "w") as file:
        file.write(PIPE.format(python=sys.executable, flag=f"{home}/counting", log=f"{home}/bytes"))
    os.chmod(path, 0o755)
    return path


def _counted(home: str) -> int:
    try:
        with open(f"{home}/bytes") as file:
            return sum(int(line) for line in file)
    except OSError:
        return 0


KINDS = {kind.name: kind for kind in (Ours, Rsync, Unison, Syncthing)}


class Measured:
    """One of them, on the tree, load by load."""

    def __init__(self, peer: Peer, tree: Tree, args: Any) -> None:
        self.peer, self.tree, self.args = peer, tree, args
        self.found: dict[str, Any] = {}
        self.walls: dict[str, list[float]] = {}
        self.run = 0
        self.stage = f"{peer.home}/stage"
        self._sizes: list[int] = []
        self._cpus: list[float] = []
        self._rest: dict[int, float] = {}

    def begin(self, source: str) -> None:
        """Start it, and lay out what it will be given."""
        self.peer.start()
        self.found["MiB at rest"] = self.peer.memory()
        for name in sorted(os.listdir(source)):
            shutil.copytree(f"{source}/{name}", f"{self.stage}/{name}")
        with open(f"{self.stage}/one.bin", "wb") as file:
            file.write(random.Random(5).randbytes(self.args.one_mib * MIB))

    def prepare(self, load: str) -> None:
        """Before the runs of a workload."""
        peer = self.peer
        if load == "g":
            self.tree.fill(peer.one)
            peer.sync(_anything)
        self._rest = {pid: _peak_mib(pid) for pid in peer.pids() if _forget_peak(pid) is None}
        self.walls[load], self._sizes, self._cpus = [], [], []

    def one(self, load: str) -> None:
        """A run."""
        wall, size, cpu = self.once(load, self.stage)
        self.walls[load].append(wall)
        self._sizes.append(size)
        self._cpus.append(cpu)

    def told(self, load: str) -> None:
        """After the runs of a workload; bytes that are counted apart need one more."""
        peer, walls = self.peer, self.walls[load]
        peak = max((_peak_mib(pid) - before for pid, before in self._rest.items()), default=None)
        sizes = self._sizes if peer.pids() else [self.counted(load, self.stage)]
        print(f"# {peer.name} {load}: {walls} {sizes}", file=sys.stderr, flush=True)
        self.found[f"{load} wall"] = statistics.median(walls)
        if len(walls) > 10:
            self.found[f"{load} p99"] = percentile(walls, 0.99)
        self.found[f"{load} CPU"] = statistics.median(self._cpus)
        self.found[f"{load} bytes"] = statistics.median(sizes)
        self.found[f"{load} MiB"] = peak

    def end(self) -> None:
        """What it holds at the end, and what it uses when nothing happens."""
        peer = self.peer
        if peer.pids():
            self.found["MiB with all files"] = peer.memory()
            self.found["idle % of a core"] = 100 * share_at_rest(peer.cpu, IDLE) / len(peer.pids())
        self.found["differs"] = _differences(peer)

    def counted(self, load: str, stage: str) -> int:
        """The bytes of one more run."""
        peer = self.peer
        if load == "a":
            if peer.name != "rsync":
                return -1  # it would take the emptied directory for what is wanted
            shutil.rmtree(peer.two)
            os.mkdir(peer.two)
        with open(f"{peer.home}/bytes", "w"):
            pass
        if load == "f":
            self.tree.fill(peer.one)
            peer.sync(_anything)
        peer.count(True)
        if load == "a":
            peer.sync(_anything)
        else:
            self.once(load, stage)
        peer.count(False)
        return peer.traffic()

    def once(self, load: str, stage: str) -> tuple[float, int, float]:
        """Wall seconds, bytes, and CPU seconds of one run."""
        peer = self.peer
        arrived = _anything
        if load == "a":
            for name in sorted(os.listdir(stage)):
                if name != "one.bin":
                    os.rename(f"{stage}/{name}", f"{peer.one}/{name}")
        elif load == "d" and not os.path.exists(f"{peer.one}/one.bin"):
            os.rename(f"{stage}/one.bin", f"{peer.one}/one.bin")
            peer.sync(lambda other: os.path.exists(f"{other}/one.bin"))
        elif load == "f" and self.tree.fill(peer.one):
            peer.sync(_anything)
        size, cpu = peer.traffic(), peer.cpu()
        if load != "a":
            arrived = self.tree.change(load, peer.one, self.run)
            self.run += 1
        began = time.monotonic()
        if load == "g" and hasattr(peer, "wait"):
            peer.wait(arrived)
        else:
            peer.sync(arrived)
        wall = time.monotonic() - began
        if load == "g" and peer.pids():
            time.sleep(0.2)
        return wall, peer.traffic() - size, peer.cpu() - cpu


def measure(kinds: Sequence[type[Peer]], source: str, tree: Tree, args: Any) -> dict[str, Measured]:
    """
    All workloads with all of them, by turns: what else the machine does in a run of one, it does
    in that of another as well.
    """
    home = tempfile.mkdtemp(prefix="rb-", dir=args.dir)
    measured: dict[str, Measured] = {}
    try:
        for kind in kinds:
            measured[kind.name] = Measured(kind(f"{home}/{kind.name}"), tree, args)
            measured[kind.name].begin(f"{source}/tree")
        for load in args.loads:
            runs = {
                name: 1
                if load == "a"
                else args.edits
                if load == "g" and name == "ours"
                else args.runs
                for name in measured
            }
            for one in measured.values():
                one.prepare(load)
            for number in range(max(runs.values())):
                for name, one in measured.items():
                    if number < runs[name]:
                        one.one(load)
            for one in measured.values():
                one.told(load)
        for one in measured.values():
            one.end()
    finally:
        for one in measured.values():
            one.peer.stop()
        shutil.rmtree(home, ignore_errors=True)
    return measured


def _differences(peer: Peer) -> int:
    done = subprocess.run(
        ["rsync", "-anciO", "--delete", "--exclude=.stfolder", f"{peer.one}/", f"{peer.two}/"],
        capture_output=True,
        text=True,
        check=True,
    )
    return len(done.stdout.splitlines())


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", default=",".join(KINDS), help="which, by name")
    parser.add_argument("--loads", default=LOADS)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--edits", type=int, default=60, help="of workload g, for ours")
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--large", type=int, default=20, help="files of --large-mib")
    parser.add_argument("--large-mib", type=int, default=10)
    parser.add_argument("--one-mib", type=int, default=100, help="the file of workload d")
    parser.add_argument("--dir", default="/dev/shm", help="where trees and stores are")
    args = parser.parse_args()
    unknown = set(args.peers.split(",")) - KINDS.keys() or set(args.loads) - set(LOADS)
    if unknown:
        parser.error(f"no {', '.join(sorted(unknown))}; peers: {', '.join(KINDS)}; loads: {LOADS}")
    print(describe())
    source = tempfile.mkdtemp(prefix="rb-source-", dir=args.dir)
    try:
        tree = Tree(f"{source}/tree", args.files, args.large, args.large_mib, args.one_mib)
        measured = measure([KINDS[name] for name in args.peers.split(",")], source, tree, args)
    finally:
        shutil.rmtree(source, ignore_errors=True)
    results = {name: one.found for name, one in measured.items()}
    names = list(results)
    others = [name for name in names if name != "ours" and name in TARGETS]
    heads = [*names, *(f"ours / {name}" for name in others), "at most"]
    print("| | " + " | ".join(heads) + " |")
    print("|---" * (len(heads) + 1) + "|")
    for row in dict.fromkeys(row for found in results.values() for row in found):
        cells = [row, *(_cell(results[name].get(row)) for name in names)]
        ours = results.get("ours", {}).get(row)
        load, _, what = row.partition(" ")
        wanted = []
        for name in others:
            theirs = results[name].get(row)
            good = ours is not None and theirs is not None and theirs > 0
            ratio = ""
            if good and what == "wall":
                pairs = zip(measured["ours"].walls[load], measured[name].walls[load], strict=False)
                ratio = f"{statistics.median(one / other for one, other in pairs):.2f}"
            elif good and what in ("bytes", "CPU"):
                ratio = f"{ours / theirs:.2f}"
            cells.append(ratio)
            if what == "wall" and load in TARGETS[name]:
                wanted.append(f"{TARGETS[name][load]} of {name}")
        if row in LIMITS:
            wanted.append(str(LIMITS[row]))
        print("| " + " | ".join([*cells, ", ".join(wanted)]) + " |")


def _cell(value: Any) -> str:
    if value is None or value == -1:
        return ""
    return f"{value:.3f}" if isinstance(value, float) and value < 100 else f"{value:,.0f}"


if __name__ == "__main__":
    main()
