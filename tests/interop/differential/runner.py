"""
The same tree and commands to stock C{salt-call --local} and to ours, compared field by field.

A case is data (see C{cases/*.yaml}): C{files} of the base environment, C{envs} for others,
C{pillar}, options in C{opts}, and the commands in C{run}, which follow one another on the
same machine. What cannot be equal (times, process ids, directories, tracebacks) is
normalised; whatever is left must be equal, the order of results included.

With C{left: true} what the commands leave below C{SCRATCH/work} (texts, modes, owners, links) is
compared too. C{live: true} is for cases that each machine answers in its own way: no answer of
stock is written down for them.

Stock's side runs in processes that have imported Salt and fork for every command
(C{stock_driver.py}, run by the interpreter of the peer). Cases are independent of each other, so
as many run at once as there are cores; the commands of one case follow one another.
"""

from __future__ import annotations

import gzip
import io
import json
import logging
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import yaml

from saltwisted.domain.secrecy import STARS

HERE = Path(__file__).parent
ROOT = HERE.parent.parent.parent
RECORDED = ROOT / "tests" / "vectors" / "states" / "recorded.json.gz"
OURS = [sys.executable, "-m", "saltwisted.cli.main", "salt-call"]
CORES = os.cpu_count() or 1

_TRACE = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)*(?:.*\n)*?(?=\S)")
_TEMPORARY = re.compile(r"__salt\.tmp\.\w+")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_TIMES = frozenset(("start_time", "duration", "pid", "__jid__", "Execution Time"))
_FAILED = "One or more requisite failed: "
TRIMMED = ". Output was trimmed to False number of lines"
"""What releases before 3008.5 say of an archive that is not trimmed."""


def cases() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every case under its name, C{file/name}."""
    for path in sorted((HERE / "cases").glob("*.yaml")):
        for name, case in yaml.safe_load(path.read_text()).items():
            yield f"{path.stem}/{name}", case


def commands(case: Mapping[str, Any]) -> list[list[str]]:
    """The commands of a case as words."""
    run = case["run"]
    return [shlex.split(one) for one in ([run] if isinstance(run, str) else run)]


class Machine:
    """
    A directory with the trees of one case and the configuration of one side.

    @param side: a name for what differs between the two sides.
    """

    def __init__(self, base: str, side: str, case: Mapping[str, Any]) -> None:
        self.base = base
        self.scratch = os.path.join(base, side)
        self.conf = os.path.join(self.scratch, "conf")
        os.makedirs(self.conf)
        os.makedirs(os.path.join(self.scratch, "work"))
        roots = {"base": [self._tree("srv/base", case.get("files", {}))]}
        for env, files in case.get("envs", {}).items():
            roots[env] = [self._tree(f"srv/{env}", files)]
        pillar = self._tree("pillar", case.get("pillar", {}))
        opts = {
            "id": "m1",
            "file_client": "local",
            "root_dir": self.scratch,
            "cachedir": os.path.join(self.scratch, "cache"),
            "log_file": os.path.join(self.scratch, "log"),
            "log_level": "quiet",
            "log_level_logfile": "quiet",
            "enable_gpu_grains": False,
            "enable_fqdns_grains": False,
            "file_roots": roots,
            "pillar_roots": {"base": [pillar]},
            "grains": {"role": "web", "extra": {"site": "north"}},
            **case.get("opts", {}),
        }
        text = json.dumps(opts).replace("SCRATCH", self.scratch)
        Path(self.conf, "minion").write_text(text)

    def _tree(self, name: str, files: Mapping[str, str]) -> str:
        root = Path(self.scratch, name)
        root.mkdir(parents=True)
        for path, text in files.items():
            target = root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text.replace("SCRATCH", self.scratch))
        return str(root)

    def words(self, command: Sequence[str]) -> list[str]:
        """The arguments of C{salt-call} for a command."""
        return [
            "-c",
            self.conf,
            "--local",
            "--out",
            "json",
            "--retcode-passthrough",
            *(word.replace("SCRATCH", self.scratch) for word in command),
        ]

    def normal(self, status: int, out: str, err: str) -> dict[str, Any]:
        """What one command answered, made comparable."""
        # A relative path is below wherever the tests were started
        text = out.replace(self.scratch, "SCRATCH").replace(f"{os.getcwd()}/", "HERE/")
        try:
            return {"status": status, "return": normal(json.loads(text)["local"])}
        except (ValueError, KeyError, TypeError):
            # An error on stderr, or the documentation: neither is meant to be equal.
            return {"status": status}

    def left(self) -> dict[str, Any]:
        """
        What there is below C{work}: kind, mode, owner and text by path. Whoever runs this owns
        what root owns on the machine where stock's answers were written down.
        """
        work = Path(self.scratch, "work")
        user, group = os.getuid(), os.getgid()
        found = {}
        for path in sorted(work.rglob("*")):
            facts = path.lstat()
            told: Any = None
            if path.is_symlink():
                told = os.readlink(path).replace(self.scratch, "SCRATCH")
            elif path.is_file():
                told = path.read_bytes().decode(errors="replace").replace(self.scratch, "SCRATCH")
            kind = oct(facts.st_mode)
            owner = 0 if facts.st_uid == user else facts.st_uid
            owners = 0 if facts.st_gid == group else facts.st_gid
            found[str(path.relative_to(work))] = [kind, owner, owners, told]
        return found

    def run_here(self, command: Sequence[str]) -> dict[str, Any]:
        """The answer of our C{salt-call} in this process."""
        from saltwisted.cli.main import run

        out = io.StringIO()
        handlers = logging.root.handlers[:]
        try:
            with redirect_stdout(out), redirect_stderr(io.StringIO()):
                status = run("salt-call", self.words(command))
        finally:
            logging.root.handlers[:] = handlers
        return self.normal(status, out.getvalue(), "")


def _varies(key: Any) -> bool:
    return key in _TIMES or str(key).startswith("__pub_")


def normal(value: Any) -> Any:
    """A value without times and ids; maps as lists, since their order is part of the answer."""
    if isinstance(value, dict):
        pairs = [[key, normal(item)] for key, item in value.items() if not _varies(key)]
        if not any("_|-" in str(key) for key in value):
            pairs.sort(key=lambda pair: str(pair[0]))
        return {"map": pairs}
    if isinstance(value, list):
        return [normal(item) for item in value]
    if isinstance(value, str):
        value = _TEMPORARY.sub("TEMPORARY", value)
        text = _ADDRESS.sub("", _TRACE.sub("TRACE ", value + "\n"))[:-1]
        if text.startswith(_FAILED):
            return _FAILED + ", ".join(sorted(text[len(_FAILED) :].split(", ")))
        return text
    return value


def ours(machine: Machine, case: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What our C{salt-call} answers."""
    found = []
    for command in commands(case):
        done = subprocess.run(
            [*OURS, *machine.words(command)],
            capture_output=True,
            text=True,
            cwd=ROOT,
            check=False,
            timeout=120,
        )
        found.append(machine.normal(done.returncode, done.stdout, done.stderr))
    return found


def stock(
    python: str, machines: Mapping[str, Machine], chosen: Mapping[str, Mapping[str, Any]]
) -> dict[str, list[dict[str, Any]]]:
    """What stock's C{salt-call} answers, for many cases."""
    work = [
        {"name": name, "argv": ["salt-call", *machines[name].words(command)]}
        for name, case in chosen.items()
        for command in commands(case)
    ]
    done = subprocess.run(
        [python, str(HERE / "stock_driver.py")],
        input=json.dumps(work),
        capture_output=True,
        text=True,
        check=True,
        timeout=1200,
    )
    answers: dict[str, list[dict[str, Any]]] = {name: [] for name in chosen}
    for one in json.loads(done.stdout):
        normalised = machines[one["name"]].normal(one["status"], one["out"], one["err"])
        answers[one["name"]].append(normalised)
    return answers


def here(machine: Machine, case: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What our functions answer in this process."""
    answers = [machine.run_here(command) for command in commands(case)]
    return [*answers, machine.left()] if case.get("left") else answers


def recorded() -> dict[str, list[dict[str, Any]]]:
    """Stock's answers as they were written down."""
    with gzip.open(RECORDED, "rt", encoding="utf-8") as stream:
        answers: dict[str, list[dict[str, Any]]] = json.load(stream)
    return answers


def record(python: str, names: Sequence[str]) -> None:
    """Write stock's answers down, for the cases of these names or for all."""
    answers = recorded() if RECORDED.exists() and names else {}
    base = tempfile.mkdtemp(prefix="diff-", dir="/tmp")
    try:
        chosen = {name: case for name, case in selected(names).items() if "live" not in case}
        machines = {
            name: Machine(base, f"s{number}", case)
            for number, (name, case) in enumerate(chosen.items())
        }
        with ThreadPoolExecutor(CORES) as pool:
            for batch in pool.map(lambda some: stock(python, machines, some), _batches(chosen)):
                answers.update(batch)
        for name, case in chosen.items():
            if case.get("left"):
                answers[name].append(machines[name].left())
    finally:
        shutil.rmtree(base, ignore_errors=True)
    RECORDED.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({name: answers[name] for name, _ in cases() if name in answers})
    with open(RECORDED, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, 0) as stream:
        stream.write(text.encode())


def selected(names: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """The cases whose names begin like one of these; all if there are none."""
    return {name: case for name, case in cases() if not names or name.startswith(tuple(names))}


def _batches(chosen: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Mapping[str, Any]]]:
    """Cases in shares for one stock process each, twice as many as there are cores."""
    shares = (list(chosen)[place :: 2 * CORES] for place in range(2 * CORES))
    return [{name: chosen[name] for name in share} for share in shares if share]


def compare(python: str, names: Sequence[str] = ()) -> dict[str, tuple[Any, Any]]:
    """Run cases (all by default) on both sides: name to (stock's, ours) where they differ."""
    chosen = selected(names)
    base = tempfile.mkdtemp(prefix="diff-", dir="/tmp")

    def answer_of_stock(some: Mapping[str, Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
        machines = {name: Machine(base, f"s{number[name]}", case) for name, case in some.items()}
        answers = stock(python, machines, some)
        for name, case in some.items():
            if case.get("left"):
                answers[name].append(machines[name].left())
        return answers

    def answer_of_ours(name: str) -> list[dict[str, Any]]:
        machine = Machine(base, f"o{number[name]}", chosen[name])
        answers = ours(machine, chosen[name])
        return [*answers, machine.left()] if chosen[name].get("left") else answers

    number = {name: place for place, name in enumerate(chosen)}
    try:
        with ThreadPoolExecutor(CORES) as pool:
            theirs: dict[str, list[dict[str, Any]]] = {}
            coming = pool.map(answer_of_stock, _batches(chosen))
            mine = dict(zip(chosen, pool.map(answer_of_ours, chosen), strict=True))
            for batch in coming:
                theirs.update(batch)
        for name in chosen:
            theirs[name] = newer(theirs[name], mine[name], chosen[name])
        return {name: (theirs[name], mine[name]) for name in chosen if theirs[name] != mine[name]}
    finally:
        shutil.rmtree(base, ignore_errors=True)


def newer(theirs: Any, mine: Any, case: Mapping[str, Any]) -> Any:
    """
    Stock's answers as 3008.5 gives them: up to 3008.4 only texts are hidden in a pillar, and an
    archive is said to be trimmed to no number of lines.
    """
    theirs = _untrimmed(theirs)
    if not any(words[0].startswith("pillar.") for words in commands(case)):
        return theirs
    return _starred(theirs, mine)


def _untrimmed(theirs: Any) -> Any:
    if isinstance(theirs, dict):
        return {key: _untrimmed(item) for key, item in theirs.items()}
    if isinstance(theirs, list):
        return [_untrimmed(item) for item in theirs]
    return theirs.replace(TRIMMED, "") if isinstance(theirs, str) else theirs


def _starred(theirs: Any, mine: Any) -> Any:
    if isinstance(theirs, list) and isinstance(mine, list) and len(theirs) == len(mine):
        return [_starred(*pair) for pair in zip(theirs, mine, strict=True)]
    if isinstance(theirs, dict) and isinstance(mine, dict):
        return {key: _starred(item, mine.get(key)) for key, item in theirs.items()}
    hidden = mine in (STARS, f"b'{STARS}'")
    shown = isinstance(theirs, (int, float)) or str(theirs).startswith("b'")
    return mine if hidden and shown and theirs else theirs


def explained(theirs: Any, mine: Any) -> str:
    """Two answers as text, one above the other, with their differences marked."""
    from difflib import unified_diff

    one, other = (json.dumps(value, indent=1).splitlines() for value in (theirs, mine))
    return "\n".join(unified_diff(one, other, "stock", "ours", n=6, lineterm=""))


def compare_recorded(names: Sequence[str] = ()) -> dict[str, tuple[Any, Any]]:
    """As L{compare}, against what was written down and in this process."""
    answers = recorded()
    base = tempfile.mkdtemp(prefix="diff-", dir="/tmp")
    differing = {}
    try:
        for number, (name, case) in enumerate(selected(names).items()):
            if name in answers:
                mine = here(Machine(base, f"o{number}", case), case)
                theirs = newer(answers[name], mine, case)
                if mine != theirs:
                    differing[name] = (theirs, mine)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    return differing


if __name__ == "__main__":
    wanted = sys.argv[2:]
    if sys.argv[1] == "--record":
        record(wanted[0], wanted[1:])
        sys.exit(0)
    found = (
        compare_recorded(wanted) if sys.argv[1] == "--recorded" else compare(sys.argv[1], wanted)
    )
    for name, (theirs, mine) in found.items():
        sys.stdout.write(f"== {name}\n{explained(theirs, mine)}\n")
    sys.stdout.write(f"{len(selected(wanted)) - len(found)} of {len(selected(wanted))} are equal\n")
    sys.exit(1 if found else 0)
