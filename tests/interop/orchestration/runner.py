"""
The same orchestrations by stock's master and by ours, each with two minions of stock.

    python -m tests.interop.orchestration.runner --record [NAME...]

writes down what stock answers (C{recorded.json} beside this); C{test_orchestrations} compares. What
cannot be equal (times, job ids, directories) is taken out; whatever is left must be equal.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from tests.harness import OurMaster, StockMaster, StockMinion, until, write_config
from tests.webserver import WebServer

HERE = Path(__file__).parent
RECORDED = HERE / "recorded.json"
VERSION = "3008"
MINIONS = ("m1", "m2")
MASTER = "the_master"
_TIMES = frozenset(
    ("start_time", "duration", "pid", "__jid__", "jid", "_stamp", "tag", "StartTime")
)
_OURS = frozenset(("Asked", "Node", "eauth"))
"""What C{jobs.list_job} and events show besides: docs/differences.md."""
_TEXTS = (
    (re.compile(r"\bm2, m1\b"), "m1, m2"),
    # What ours says besides: where to look
    (re.compile(r"\n *Minion \S+: job \d+(, retcode[^\n\"]*)?"), ""),
    (re.compile(r"\b20\d{18}\b"), "JID"),
    (re.compile(r"\d\d:\d\d:\d\d\.\d{6}"), "TIME"),
    (re.compile(r"\d+(\.\d+)? (ms|s)\b"), "LENGTH"),
    (re.compile(r"in \d+\.\d+ seconds"), "in SECONDS"),
    (re.compile(r"/tmp/swt[^\s'\"]*"), "PLACE"),
    (re.compile(r"http://localhost:\d+"), "WEB"),
    (re.compile(r"Traceback \(most recent call last\):.*", re.DOTALL), "TRACEBACK"),
    (re.compile(r" +LENGTH"), " LENGTH"),
)


def everything() -> dict[str, Any]:
    """What C{cases.yaml} says."""
    found: dict[str, Any] = yaml.safe_load((HERE / "cases.yaml").read_text())
    return found


def words_of(name: str, case: Mapping[str, Any]) -> list[str]:
    """The words behind C{salt-run}."""
    out = ["--out", case.get("out", "json"), "--no-color"]
    if "call" in case:
        return [*shlex.split(case["call"]), *out]
    return ["state.orchestrate", f"case.{name}", *shlex.split(case.get("run", "")), *out]


def normal(value: Any) -> Any:
    """A value without what two runs cannot have in common."""
    if isinstance(value, dict):
        left_out = _TIMES | _OURS
        return {key: normal(one) for key, one in sorted(value.items()) if key not in left_out}
    if isinstance(value, list):
        return [normal(one) for one in value]
    if isinstance(value, str):
        for pattern, word in _TEXTS:
            value = pattern.sub(word, value)
    return value


def documents(text: str) -> list[Any]:
    """The JSON documents of an output one after another; lines that are none as texts."""
    decoder, found = json.JSONDecoder(), []
    while text := text.lstrip():
        try:
            value, end = decoder.raw_decode(text)
        except ValueError:
            value, _, text = text.partition("\n")
        else:
            text = text[end:]
        found.append(value)
    return found


class Place:
    """A master with the trees of all cases, two minions of stock, and a web server, C{WEB}."""

    def __init__(self, home: str, master: Any) -> None:
        self.master = master
        self._undo: list[Callable[[], object]] = []
        self.web = WebServer(self, _served)
        self.minions = [
            StockMinion(home, VERSION, master, name, mine_enabled=False) for name in MINIONS
        ]

    @classmethod
    def stock(cls, home: str) -> Place:
        """With stock's master."""
        return cls(home, _with_trees(StockMaster(home, VERSION, **_options())))

    @classmethod
    def ours(cls, home: str) -> Place:
        """With ours."""
        return cls(home, _with_trees(OurMaster(home, **_options())))

    def up(self) -> Place:
        """Start all, and wait until both minions answer."""
        self.master.up()
        for minion in self.minions:
            minion.up()
        for minion in self.minions:
            self.master.accept(minion.id)
        wanted = dict.fromkeys(MINIONS, True)
        until("both minions", lambda: self._pinged() == wanted)
        return self

    def _pinged(self) -> Any:
        done = self.master.command("salt", "*", "test.ping", "--out", "json", "--static")
        return json.loads(done.stdout) if done.stdout.startswith("{") else {}

    def addCleanup(self, function: Callable[[], object]) -> None:
        """Call something in the end, the last first, as a test does."""
        self._undo.append(function)

    def kill(self) -> None:
        """End all."""
        for each in (*self.minions, self.master):
            each.kill()
        while self._undo:
            self._undo.pop()()

    def answer(self, name: str, case: Mapping[str, Any]) -> dict[str, Any]:
        """What one case gives: the exit status, and what was printed, or the events."""
        if case.get("events"):
            return self.events(name, case)
        if "then" in case:
            return self.records(name, case)
        if "during" in case:
            return self.during(name, case)
        words = [word.replace("WEB", self.web.url) for word in words_of(name, case)]
        done = self.master.command("salt-run", *words)
        if "out" in case:
            shown: Any = normal(done.stdout)
        else:
            shown = [normal(one) for one in documents(done.stdout)]
        return {"exit": done.returncode, "shown": shown}

    def records(self, name: str, case: Mapping[str, Any]) -> dict[str, Any]:
        """What the functions of C{jobs} say of a run (JID), and of the job of its step (STEP)."""
        jid = datetime.now(UTC).strftime("%Y%m%d%H%M%S%f")
        done = self.master.command("salt-run", "--jid", jid, *words_of(name, case))
        step = re.search(r'"__jid__": "(\d+)"', done.stdout)
        shown = []
        for words in case["then"]:
            asked = words.replace("JID", jid).replace("STEP", step[1] if step else "")
            out = () if "--out" in asked else ("--out", "json")
            said = self.master.command("salt-run", *shlex.split(asked), *out, "--no-color")
            found: Any = said.stdout
            if "--out" not in asked:
                found = documents(said.stdout.replace(jid, "JID"))
                # Of all jobs there are, this one
                found = [{"JID": one["JID"]} if "JID" in one else one for one in found]
            shown.append([words, said.returncode, normal(found)])
        return {"exit": done.returncode, "shown": shown}

    def during(self, name: str, case: Mapping[str, Any]) -> dict[str, Any]:
        """What minions are said to run while a run goes on, without pids."""
        self.master.command("salt-run", "--async", *words_of(name, case))
        shown: list[Any] = []

        def running() -> bool:
            done = self.master.command("salt-run", case["during"], "--out", "json")
            jobs = documents(done.stdout)[0].values()
            shown[:] = [job for job in jobs if job["Function"] != "saltutil.running"]
            return bool(shown)

        until("the job of the step", running)
        for job in shown:
            job["Running"] = sorted(minion for each in job["Running"] for minion in each)
        return {"exit": 0, "shown": normal(shown)}

    def events(self, name: str, case: Mapping[str, Any]) -> dict[str, Any]:
        """The events of a run as C{salt-run state.event} shows them: tags, and what they have."""
        path = os.path.join(self.master.root, "events.out")
        listener = self._listen(path)
        try:
            until("the listener", lambda: self._heard(path))
            done = self.master.command("salt-run", *words_of(name, case))

            def over() -> bool:
                return any("/ret\t" in each and f'"case.{name}"' in each for each in _lines(path))

            until("the end of the run", over)
        finally:
            listener.kill()
            listener.wait()
        shown = [
            [tag, event(json.loads(data))]
            for tag, _, data in (one.partition("\t") for one in _lines(path))
            # What 3008's own parts tell one another of a publication is not fired by ours
            if tag.startswith(("salt/run/", "salt/job/")) and not tag.endswith("/publish")
            if "event.send" not in data
        ]
        shown = [each for each in shown if "find_job" not in json.dumps(each)]
        return {"exit": done.returncode, "shown": normal(shown)}

    def _listen(self, path: str) -> subprocess.Popen[bytes]:
        """Start C{salt-run state.event}, with its output in a file."""
        master = self.master
        argv = (
            [sys.executable, "-m", "saltwisted.cli.main", "salt-run"]
            if isinstance(master, OurMaster)
            else [f"{master.venv}/bin/salt-run"]
        )
        with open(path, "wb") as out:
            return subprocess.Popen(
                [*argv, "-c", master.conf, "state.event", "salt/*"],
                stdout=out,
                stderr=subprocess.DEVNULL,
                cwd=master.root,
                env={**master.env, "PYTHONUNBUFFERED": "1"},
            )

    def _heard(self, path: str) -> bool:
        self.master.command("salt-run", "event.send", "salt/ready")
        return any(one.startswith("salt/ready") for one in _lines(path))


def _served(path: str, form: Mapping[str, str]) -> tuple[Any, ...]:
    """What the web server says: what it was asked, or the status that the path names."""
    status = path.strip("/")
    body = json.dumps([path, dict(form)]).encode()
    return (int(status) if status.isdigit() else 200), body, {"X-Said": "so"}


def event(data: Mapping[str, Any]) -> Any:
    """What is compared of an event: what a step is about to do, of others which words they have."""
    if "type" in data:
        return {key: data.get(key) for key in ("type", "name", "tgt", "kwargs")}
    return sorted(set(data) - _OURS)


def _lines(path: str) -> list[str]:
    with open(path, encoding="utf-8", errors="replace") as handle:
        return [one for one in handle.read().splitlines() if "\t" in one]


def _options() -> dict[str, Any]:
    return {"id": MASTER, "timeout": 4, "gather_job_timeout": 3, "log_level_logfile": "info"}


def _with_trees(master: Any) -> Any:
    """Put the trees of all cases into a master's roots, with an environment C{dev}."""
    said = everything()
    files = {**said["files"], **said["helpers"]}
    for name, case in said["cases"].items():
        if "sls" in case:
            files[f"case/{name}.sls"] = case["sls"] + "\n"
    _write(master.file_root, files)
    _write(master.pillar_root, said["pillar"])
    roots = {"base": [master.file_root]}
    for env, tree in said["envs"].items():
        roots[env] = [os.path.join(os.path.dirname(master.file_root), env)]
        _write(roots[env][0], tree)
    path = os.path.join(master.conf, "master")
    with open(path, encoding="utf-8") as handle:
        values = yaml.safe_load(handle)
    write_config(path, {**values, "file_roots": roots})
    return master


def _write(root: str, tree: Mapping[str, str]) -> None:
    for name, text in tree.items():
        path = os.path.join(root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as handle:
            handle.write(text)


def recorded() -> dict[str, Any]:
    """What stock has answered."""
    found: dict[str, Any] = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    return {name: {**case, "shown": normal(case["shown"])} for name, case in found.items()}


def main(argv: Sequence[str] | None = None) -> int:
    """Record; see the module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--ours", action="store_true", help="show what ours answers instead")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args(argv)
    said = everything()["cases"]
    names = given.names or list(said)
    home = tempfile.mkdtemp(prefix="swt", dir="/tmp")
    place = Place.ours(home) if given.ours else Place.stock(home)
    kept = recorded()
    try:
        place.up()
        for name in names:
            kept[name] = place.answer(name, said[name])
            print(name, kept[name]["exit"], flush=True)
            if given.ours:
                print(json.dumps(kept[name], indent=1))
    finally:
        place.kill()
        shutil.rmtree(home, ignore_errors=True)
    if not given.ours:
        ordered = {name: kept[name] for name in said if name in kept}
        RECORDED.write_text(json.dumps(ordered, indent=1, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
