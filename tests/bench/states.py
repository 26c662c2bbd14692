"""
What highstates cost: C{python -m tests.bench.states [--stock 3008] [--scale 1.0]}.

Both sides run the same trees by C{salt-call --local} from the shell, in turns, a few times each;
the best counts, since other work on the machine can only make a run slower. CPU is user and
system. Memory is the most that the process ever had; a small process starts it, because the
figure begins with that of who starts it. No test: nothing fails here for being slow.

The parts: highstates as they run; how compiling alone grows with the number of states
(C{state.show_low_sls}, C{--out quiet}); grains, with the child processes started for them.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from attrs import frozen

from tests.bench.machine import describe
from tests.harness import peer_venv

OURS = [sys.executable, "-m", "saltwisted.cli.main", "salt-call"]

STARTER = """
import json, os, resource, subprocess, sys, time
begin = time.perf_counter()
status = subprocess.call(sys.argv[2:], stdout=subprocess.DEVNULL)
wall = time.perf_counter() - begin
used = resource.getrusage(resource.RUSAGE_CHILDREN)
with open(sys.argv[1], "w") as out:
    json.dump([status, wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024], out)
"""

COUNTER = """
import os, sys
def _count(event, args, path=os.environ["BENCH_CHILDREN"]):
    if event in ("subprocess.Popen", "os.posix_spawn", "os.fork", "os.system"):
        with open(path, "a") as out:
            out.write(event + "\\n")
sys.addaudithook(_count)
"""
"""As C{sitecustomize}: tells of every child process that Python starts."""

SIZES = (1000, 2500, 5000, 10000)
STOCK_SIZES = (1000, 2500)


@frozen
class Cost:
    """
    What one command took.

    @ivar wall: seconds.
    @ivar cpu: seconds, user and system, children included.
    @ivar peak: MiB.
    """

    wall: float
    cpu: float
    peak: float


def chain(count: int) -> str:
    """States of which each requires the one before it."""
    lines = ["s0: {test.nop: []}"]
    lines += [f"s{n}: {{test.nop: [{{require: [{{test: s{n - 1}}}]}}]}}" for n in range(1, count)]
    return "\n".join(lines) + "\n"


def dense(count: int, each: int = 20) -> str:
    """States of which each requires the twenty before it."""
    lines = []
    for n in range(count):
        wanted = ", ".join(f"{{test: s{other}}}" for other in range(max(0, n - each), n))
        lines.append(f"s{n}: {{test.nop: [{{require: [{wanted}]}}]}}" if wanted else "s0: test.nop")
    return "\n".join(lines) + "\n"


def files(count: int, folder: str) -> str:
    """Files from one source, half of them templates."""
    return (
        f"{{% for n in range({count}) %}}\nf{{{{ n }}}}:\n  file.managed:\n"
        f"    - name: {folder}/f{{{{ n }}}}\n    - source: salt://part\n    - mode: '0644'\n"
        "    {% if n % 2 %}\n    - template: jinja\n    - context: {n: {{ n }}}\n    {% endif %}\n"
        "{% endfor %}\n"
    )


def trees(folder: str, scale: float) -> dict[str, str]:
    """The files of the tree."""
    many, some = max(2, int(1000 * scale)), max(2, int(200 * scale))
    lines = "".join(
        f"{{% do m.update({{'key{n}': salt['grains.filter_by']"
        f"({{'Debian': {{'v': {n}}}, 'default': {{'v': 0}}}}, default='default')}}) %}}\n"
        for n in range(299)
    )
    imports = "".join(
        f"{{% from 'map.jinja' import m as m{n} with context %}}\n"
        for n in range(max(1, int(100 * scale)))
    )
    found = {
        "part": "some {{ n | default(0) }} text\n" * 20,
        "files.sls": files(some, folder),
        "chain.sls": chain(many),
        "dense.sls": dense(many),
        "map.jinja": "{% set m = {} %}\n" + lines,
        "map.sls": imports + "one: {test.nop: [{name: '{{ m0.key7.v }}'}]}\n",
    }
    for size in SIZES:
        found[f"chain{size}.sls"] = chain(int(size * scale))
        found[f"dense{size}.sls"] = dense(int(size * scale), 5)
    return found


RUNS = {
    "highstate of 200 file.managed, first": ("state.apply", "files"),
    "highstate of 200 file.managed, again": ("state.apply", "files"),
    "1000 test.nop in a chain": ("state.apply", "chain"),
    "1000 test.nop, 20 requisites each": ("state.apply", "dense"),
    "Jinja map of 300 lines, 100 times": ("state.apply", "map"),
    "grains.items": ("grains.items",),
    "grains.get os": ("grains.get", "os"),
}
for _size in SIZES:
    RUNS[f"compile {_size} states, chain"] = ("state.show_low_sls", f"chain{_size}")
for _size in SIZES:
    RUNS[f"compile {_size} states, 5 requisites each"] = ("state.show_low_sls", f"dense{_size}")

TARGETS = {
    "highstate of 200 file.managed, first": (None, 1 / 3, None),
    "highstate of 200 file.managed, again": (None, 1 / 3, None),
    f"compile {SIZES[-1]} states, chain": (5.0, None, 300.0),
    f"compile {SIZES[-1]} states, 5 requisites each": (5.0, None, 300.0),
}
"""Name to the most seconds, the highest share of stock's wall time, and the most MiB."""


class Bench:
    """
    One side: a home with the trees, and its command.

    @param command: C{salt-call} as words.
    """

    def __init__(self, command: Sequence[str], scale: float) -> None:
        self.command = list(command)
        self.home = tempfile.mkdtemp(prefix="swb", dir="/tmp")
        self.env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        for name, text in trees(f"{self.home}/work", scale).items():
            Path(self.home, "srv").mkdir(exist_ok=True)
            Path(self.home, "srv", name).write_text(text)
        Path(self.home, "conf").mkdir()
        Path(self.home, "hook").mkdir()
        Path(self.home, "hook", "sitecustomize.py").write_text(COUNTER)
        conf = {"id": "bench", "file_client": "local", "root_dir": self.home}
        conf |= {"log_level": "quiet", "pillar_roots": {"base": []}}
        conf |= {"file_roots": {"base": [f"{self.home}/srv"]}}
        Path(self.home, "conf", "minion").write_text(json.dumps(conf))

    def close(self) -> None:
        """Remove the home."""
        shutil.rmtree(self.home, ignore_errors=True)

    def run(self, name: str) -> Cost:
        """
        One command.

        @raises RuntimeError: it failed.
        """
        if name.endswith("first"):
            shutil.rmtree(f"{self.home}/work", ignore_errors=True)
        os.makedirs(f"{self.home}/work", exist_ok=True)
        out = "quiet" if name.startswith("compile") else "json"
        words = [*self.command, "-c", f"{self.home}/conf", "--local", "--out", out]
        words += ["--retcode-passthrough", *RUNS[name]]
        told = f"{self.home}/told"
        starter = [sys.executable, "-I", "-S", "-c", STARTER, told, *words]
        subprocess.run(starter, check=True, env=self.env)
        status, wall, cpu, peak = json.loads(Path(told).read_text())
        if status:
            raise RuntimeError(f"{name}: {self.command[0]} ended with {status}")
        return Cost(wall, cpu, peak)

    def children(self) -> int:
        """How many processes C{grains.items} starts."""
        told = Path(self.home, "children")
        told.write_text("")
        folder = os.pathsep.join(
            [f"{self.home}/hook", *filter(None, [os.environ.get("PYTHONPATH")])]
        )
        env = {**self.env, "PYTHONPATH": folder, "BENCH_CHILDREN": str(told)}
        words = [*self.command, "-c", f"{self.home}/conf", "--local", "--out", "json"]
        subprocess.run([*words, "grains.items"], check=True, env=env, stdout=subprocess.DEVNULL)
        return len(told.read_text().split())


def best(costs: Sequence[Cost]) -> Cost:
    """The least of each."""
    return Cost(*(min(getattr(one, key) for one in costs) for key in ("wall", "cpu", "peak")))


def verdict(name: str, mine: Cost, theirs: Cost | None) -> str:
    """Whether the issue's figure is reached, in a word; empty if there is none."""
    seconds, share, peak = TARGETS.get(name, (None, None, None))
    if seconds is share is peak is None or (share is not None and theirs is None):
        return ""
    missed = (seconds is not None and mine.wall > seconds) or (
        peak is not None and mine.peak > peak
    )
    if share is not None and theirs is not None:
        missed = missed or mine.wall > share * theirs.wall
    return "missed" if missed else "reached"


def main() -> None:
    """Both sides, side by side, as a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stock", default="3008", help="the version to compare with; '': none")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the states")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each")
    parser.add_argument("--only", default="", help="only rows with this in their name")
    parser.add_argument(
        "--whole-stock", action="store_true", help="let stock compile 5000 and 10000 states too"
    )
    given = parser.parse_args()
    mine = Bench(OURS, given.scale)
    theirs = None
    if given.stock:
        program = os.path.join(peer_venv(given.stock), "bin", "salt-call")
        theirs = Bench([program], given.scale)
    try:
        print(f"{describe()}; scale {given.scale}, best of {given.rounds}\n")
        print(
            f"| seconds from the shell | ours | {given.stock} | ratio | CPU | CPU, {given.stock} "
            f"| ratio | MiB | MiB, {given.stock} | issue 3 |"
        )
        print("|---|--:|--:|--:|--:|--:|--:|--:|--:|---|")
        for name in RUNS:
            if given.only in name:
                print(row(name, mine, theirs, given.rounds, given.whole_stock), flush=True)
        if not given.only:
            others = f", {given.stock}: {theirs.children()}" if theirs else ""
            print(f"\nChild processes of grains.items: ours {mine.children()}{others}")
    finally:
        mine.close()
        if theirs:
            theirs.close()


def row(name: str, mine: Bench, theirs: Bench | None, rounds: int, whole: bool) -> str:
    """One line of the table: both sides in turns."""
    size = int(name.split()[1]) if name.startswith("compile") else 0
    if size and size not in STOCK_SIZES and not whole:
        theirs = None
    ours, stock = [], []
    for number in range(rounds):
        ours.append(mine.run(name))
        if theirs is not None and (number < 3 or not size):
            stock.append(theirs.run(name))
    one, other = best(ours), best(stock) if stock else None
    cells = [name, f"{one.wall:.2f}"]
    if other is None:
        cells += ["", "", f"{one.cpu:.2f}", "", "", f"{one.peak:.0f}", ""]
    else:
        cells += [f"{other.wall:.2f}", f"{one.wall / other.wall:.2f}", f"{one.cpu:.2f}"]
        cells += [f"{other.cpu:.2f}", f"{one.cpu / other.cpu:.2f}"]
        cells += [f"{one.peak:.0f}", f"{other.peak:.0f}"]
    return "| " + " | ".join([*cells, verdict(name, one, other)]) + " |"


if __name__ == "__main__":
    main()
