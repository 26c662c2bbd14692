"""
What highstates cost: C{python -m tests.bench.states [--stock 3008] [--scale 1.0]}.

Both sides run the same trees by C{salt-call --local} from the shell, one after the other in
one run, a few times each; the median counts. No test: nothing fails here for being slow.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.bench.machine import describe
from tests.harness import peer_venv

OURS = [sys.executable, "-m", "saltwisted.cli.main", "salt-call"]


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
    return {
        "part": "some {{ n | default(0) }} text\n" * 20,
        "files.sls": files(some, folder),
        "chain.sls": chain(many),
        "dense.sls": dense(many),
        "map.jinja": "{% set m = {} %}\n" + lines,
        "map.sls": imports + "one: {test.nop: [{name: '{{ m0.key7.v }}'}]}\n",
    }


RUNS: Mapping[str, str] = {
    "highstate of 200 file.managed, first": "files",
    "highstate of 200 file.managed, again": "files",
    "1000 test.nop in a chain": "chain",
    "1000 test.nop, 20 requisites each": "dense",
    "Jinja map of 300 lines, 100 times": "map",
}


def measured(command: Sequence[str], scale: float, rounds: int) -> dict[str, tuple[float, float]]:
    """Median wall time in seconds and most memory in MiB, by name."""
    home = tempfile.mkdtemp(prefix="swb", dir="/tmp")
    try:
        for name, text in trees(f"{home}/work", scale).items():
            Path(home, "srv").mkdir(exist_ok=True)
            Path(home, "srv", name).write_text(text)
        Path(home, "conf").mkdir()
        conf = {"id": "bench", "file_client": "local", "root_dir": home, "log_level": "quiet"}
        conf |= {"file_roots": {"base": [f"{home}/srv"]}, "pillar_roots": {"base": []}}
        Path(home, "conf", "minion").write_text(json.dumps(conf))
        found = {}
        for name, sls in RUNS.items():
            times, peaks = [], []
            for _ in range(rounds):
                if name.endswith("first"):
                    shutil.rmtree(f"{home}/work", ignore_errors=True)
                os.makedirs(f"{home}/work", exist_ok=True)
                words = [*command, "-c", f"{home}/conf", "--local", "--out", "json"]
                begin = time.monotonic()
                words += ["--retcode-passthrough", "state.apply", sls]
                child = subprocess.Popen(words, stdout=subprocess.DEVNULL)
                _, status, usage = os.wait4(child.pid, 0)
                child.returncode = os.waitstatus_to_exitcode(status)
                times.append(time.monotonic() - begin)
                peaks.append(usage.ru_maxrss / 1024)
                if child.returncode:
                    raise RuntimeError(f"{name}: {command[0]} ended with {child.returncode}")
            found[name] = (statistics.median(times), max(peaks))
        return found
    finally:
        shutil.rmtree(home, ignore_errors=True)


def main() -> None:
    """Both sides, side by side, as a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stock", default="3008", help="the version to compare with")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the states")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each")
    given = parser.parse_args()
    stock = [os.path.join(peer_venv(given.stock), "bin", "salt-call")]
    mine = measured(OURS, given.scale, given.rounds)
    theirs = measured(stock, given.scale, given.rounds)
    print(f"{describe()}; scale {given.scale}\n")
    print(f"| seconds from the shell | ours | {given.stock} | ratio | MiB | MiB, {given.stock} |")
    print("|---|--:|--:|--:|--:|--:|")
    for name, (wall, peak) in mine.items():
        other, most = theirs[name]
        print(
            f"| {name} | {wall:.2f} | {other:.2f} | {wall / other:.2f} | {peak:.0f} | {most:.0f} |"
        )


if __name__ == "__main__":
    main()
