"""
C{python3 -m saltwisted.roles.check}: reads the whole configuration of a role, and starts nothing.

The question is a JSON map on the standard input: C{role}; C{config_dir} (or null); C{user}, if it
is to be another than the configuration says; C{files}, path to the text of files that will be
there; C{online}, whether git remotes are tried; C{ports}, whether ports are tried. The answer is a
JSON list on the standard output, a map for each finding: C{severity} (C{error}: the daemon does not
start; C{warning}: it starts, and something does not work), C{path} and C{line} (1-based; null if
not known), C{text}, and C{port} where the finding is that a port is in use.

It is a program of its own, because it becomes the user that the daemon runs as. It goes through
the readers of a start (C{READINGS} of each role), then through those that a daemon uses when it
runs. Nothing is written.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from importlib import import_module
from typing import Any

from attrs import asdict, frozen

from saltwisted.config import git
from saltwisted.config.api import BLOCKS, options_of
from saltwisted.config.document import line_of
from saltwisted.config.gitpillar import all_pillar_remotes
from saltwisted.config.load import Loaded, Remark
from saltwisted.config.options import MasterConfig, MinionConfig
from saltwisted.domain.metrics.settings import PORT
from saltwisted.domain.metrics.settings import settings_of as metrics_settings
from saltwisted.domain.schedulebook import Book
from saltwisted.errors import ConfigError, SaltwistedError
from saltwisted.master.automation.foreseen import of_reactor, of_schedule
from saltwisted.roles.banner import WITHOUT_EFFECT, without_effect
from saltwisted.roles.logs import cannot_log
from saltwisted.roles.readings import problems
from saltwisted.transports.listening import port_in_use
from saltwisted.worker.git.trying import refusal
from saltwisted.worker.pillar.work import PillarWorker
from saltwisted.worker.process.configio import Disk, load_from_disk
from saltwisted.worker.readable import unreadable

ERROR, WARNING = "error", "warning"


@frozen
class Finding:
    """One thing that does not work; see the module."""

    severity: str
    text: str
    path: str | None = None
    line: int | None = None
    port: int | None = None


class Check:
    """
    One run.

    @param asked: the question; see the module.
    @ivar findings: what was found, in order.
    """

    def __init__(self, asked: Mapping[str, Any], now: datetime) -> None:
        self._asked = asked
        self._now = now
        self._role = str(asked["role"])
        self.findings: list[Finding] = []

    def run(self) -> list[Finding]:
        """Read everything."""
        try:
            loaded = self._load()
        except ConfigError as error:
            self._error(error)
            return self.findings
        for warning in loaded.warnings:
            self._remark(warning)
        for problem in problems(import_module(f"saltwisted.roles.{self._role}").READINGS, loaded):
            self._error(problem)
        for option, reason in without_effect(loaded.config).items():
            self._warn(loaded, option, WITHOUT_EFFECT.format(option=option, reason=reason))
        if text := cannot_log(loaded.config):
            self._warn(loaded, "log_file", text)
        if isinstance(loaded.config, MasterConfig):
            self._master(loaded)
        else:
            self._minion(loaded)
        return self.findings

    def _load(self) -> Loaded:
        disk = Disk(beside=self._asked.get("files") or {})
        role = "minion" if self._role == "minion" else "master"
        user = self._asked.get("user")
        overrides = {"user": user} if user else None
        return load_from_disk(role, self._asked.get("config_dir"), overrides=overrides, disk=disk)

    # -- findings

    def _add(self, finding: Finding) -> None:
        if finding not in self.findings:
            self.findings.append(finding)

    def _error(self, error: SaltwistedError) -> None:
        path, line = getattr(error, "path", None) or None, getattr(error, "line", None)
        self._add(Finding(ERROR, str(getattr(error, "reason", error)), path, line))

    def _remark(self, text: str) -> None:
        if isinstance(text, Remark):
            self._add(Finding(WARNING, text.reason, text.path, text.line))
        else:
            self._add(Finding(WARNING, text))

    def _warn(self, loaded: Loaded, option: str, text: str, severity: str = WARNING) -> None:
        path, line = loaded.where(option)
        self._add(Finding(severity, text, path, line))

    def _try(self, loaded: Loaded, option: str, read: Callable[[], None]) -> None:
        """Read something; that a reader fails itself is a finding, and no reason to stop."""
        try:
            read()
        except Exception as error:
            self._warn(loaded, option, f"{option}: {error or type(error).__name__}")

    # -- what a daemon reads when it runs

    def _master(self, loaded: Loaded) -> None:
        config, now = loaded.master, self._now
        block = metrics_settings_or_none(config)
        if (
            block is not None
            and block.api
            and options_of({b: config.value(b) for b in BLOCKS}) is None
        ):
            text = "metrics: api is true, but there is no HTTP API to serve them"
            self._warn(loaded, "metrics", text)
        self._try(loaded, "reactor", lambda: self._reactor(loaded))
        self._try(loaded, "schedule", lambda: self._schedule(loaded, of_schedule(config, now)))
        for option in ("file_roots", "pillar_roots"):
            self._roots(loaded, option)
        self._try(loaded, "pillar_roots", lambda: self._top(config))
        for text in all_pillar_remotes(config.value)[1]:
            self._warn(loaded, "ext_pillar", text)
        if self._asked.get("online"):
            self._online(loaded)
        if self._asked.get("ports", True):
            for option, host, port in ports_of(self._role, config):
                if text := port_in_use(host, port):
                    path, line = loaded.where(option)
                    self._add(Finding(ERROR, f"{option}: {text}", path, line, port))

    def _reactor(self, loaded: Loaded) -> None:
        for file, tag, text in of_reactor(loaded.master):
            if file:
                with open(file, encoding="utf-8") as stream:
                    line = line_of(f"reactor:\n{stream.read()}", "reactor", tag) if tag else None
                self._add(Finding(WARNING, text, file, line - 1 if line else None))
            else:
                path, line = loaded.where("reactor", *([tag] if tag else []))
                self._add(Finding(WARNING, text, path, line))

    def _schedule(self, loaded: Loaded, found: Iterator[tuple[str, str]]) -> None:
        for name, text in found:
            path, line = loaded.where("schedule", name)
            self._add(Finding(WARNING, f"schedule: {text}", path, line))

    def _top(self, config: MasterConfig) -> None:
        for text in top_errors(config):
            path, line = top_place(config, text)
            self._add(Finding(WARNING, f"pillar_roots: {' '.join(text.split())}", path, line))

    def _minion(self, loaded: Loaded) -> None:
        config, now = loaded.minion, self._now
        entries = of_minion_schedule(config, now)
        self._try(loaded, "schedule", lambda: self._schedule(loaded, entries))
        if config.file_client == "local":
            for option in ("file_roots", "pillar_roots"):
                self._roots(loaded, option)

    def _roots(self, loaded: Loaded, option: str) -> None:
        """Directories that somebody has named are there, and can be read by whom we have become."""
        if loaded.where(option)[0] is None:
            return
        for env, paths in getattr(loaded.config, option).items():
            for path in paths:
                if not os.path.isdir(str(path)):
                    if env != "__env__" and "__env__" not in str(path):
                        self._warn(loaded, option, f"{option}: {env}: {path} is no directory")
                    continue
                lost = unreadable(str(path))
                if lost:
                    more = f" and {len(lost) - 1} more" if lost[1:] else ""
                    who = loaded.config.user
                    text = f"{option}: {env}: user {who} cannot read {lost[0]}{more}"
                    self._warn(loaded, option, text)

    def _online(self, loaded: Loaded) -> None:
        """Whether each git remote answers, and lets us in."""
        config = loaded.master
        remotes = git.remotes_of(config.value)[0] if "gitfs" in config.fileserver_backend else []
        for option, some in (
            ("gitfs_remotes", remotes),
            ("ext_pillar", all_pillar_remotes(config.value)[0]),
        ):
            for remote in some:
                if text := refusal(remote.reached()):
                    self._warn(loaded, option, f"{option}: {remote.shown}: {text}")


def metrics_settings_or_none(config: MasterConfig) -> Any:
    """The block C{metrics}; C{None} if there is none, or if it cannot be: that is said already."""
    try:
        return metrics_settings(config.metrics)
    except ConfigError:
        return None


def of_minion_schedule(config: MinionConfig, now: datetime) -> Iterator[tuple[str, str]]:
    """What is wrong with a minion's entries: the name of each and a sentence."""
    returner = config.extra.get("schedule_returner")
    book = Book({}, lambda low, high: low, lambda level, text: None, returner)
    book.take(config.schedule, now)
    yield from book.errors.items()


def top_errors(config: MasterConfig) -> list[str]:
    """
    What keeps the pillar's top files from being read.

    A minion is made up for that. A template that wants to know more of it fails, and that is no
    mistake: only what is wrong for any minion is told.
    """
    worker = PillarWorker(config.as_opts())
    return [
        text
        for text in worker.top_errors({"id": "saltwisted-check", "grains": {}})
        if "undefined" not in text
    ]


def top_place(config: MasterConfig, text: str) -> tuple[str | None, int | None]:
    """
    Where a pillar's top file is wrong, if there is only one; the line only if it is no template,
    whose lines are others.
    """
    names = (
        os.path.join(str(folder), "top.sls")
        for folders in config.pillar_roots.values()
        for folder in folders
    )
    files = [name for name in names if os.path.isfile(name)]
    if len(files) != 1:
        return None, None
    with open(files[0], encoding="utf-8", errors="replace") as stream:
        is_template = "{%" in stream.read()
    found = None if is_template else re.search(r"line (\d+)", text)
    return files[0], int(found.group(1)) if found else None


def ports_of(role: str, config: MasterConfig) -> Iterator[tuple[str, str, int]]:
    """The option, the host and the number of each port that a master binds."""
    interface = str(config.interface)
    yield "publish_port", interface, int(config.publish_port)
    yield "ret_port", interface, int(config.ret_port)
    if role == "cluster":
        yield "cluster_pool_port", interface, int(config.cluster_pool_port)
    options = options_of({name: config.value(name) for name in BLOCKS})
    if options is not None:
        yield options.block, str(options.host), int(options.port)
    block = metrics_settings_or_none(config)
    if block is not None:
        yield "metrics", str(block.host), int(PORT if block.port is None else block.port)


def main() -> None:
    """Answer."""
    asked = json.loads(sys.stdin.read())
    now = datetime.now()  # noqa: DTZ005 - schedules are in local time
    findings = Check(asked, now).run()
    sys.stdout.write(json.dumps([asdict(one) for one in findings]))


if __name__ == "__main__":
    main()
