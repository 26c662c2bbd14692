"""
C{python3 -m tests.roles.starts}: many starts of real daemons, each in a child of one process that
has imported everything already.

Reads a JSON list of C{[what, role, config_dir]} and writes a JSON list of what became of each:
C{[status, what it said]}. C{what} is C{start}; C{late}, a start that does not look before it begins
(L{saltwisted.roles.readings}), so that it complains where a part of it is made or started; or
C{check}, which says its findings as JSON. A daemon that is up is stopped at once, and leaves with
0.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
from datetime import datetime
from importlib import import_module
from typing import Any

from attrs import asdict

from saltwisted.roles import check

CHILDREN = 3
"""At once; each is busy for a fraction of a second."""


def child(what: str, role: str, directory: str) -> None:
    """Start, and leave with the status of the daemon; or check."""
    if what == "check":
        now = datetime(2026, 1, 1)  # noqa: DTZ001 - schedules are in local time
        found = check.Check({"role": role, "config_dir": directory}, now).run()
        sys.stdout.write(json.dumps([asdict(one) for one in found]))
        return
    from twisted.application.service import Application
    from twisted.internet import reactor
    from twisted.internet.defer import Deferred

    from saltwisted import tap
    from saltwisted.transports.deferreds import as_deferred

    loop: Any = reactor
    module = import_module(f"saltwisted.roles.{role}")
    if what == "late":
        module.refuse = lambda readings, loaded: None  # type: ignore[attr-defined]
    service: Any = tap.makeService({"role": role, "config": directory, "log-level": None})
    service.setServiceParent(Application("start"))

    async def run() -> None:
        await as_deferred(service.startService())
        await as_deferred(service.stopService())
        loop.callLater(0, lambda: loop.running and loop.stop())

    loop.callWhenRunning(lambda: Deferred.fromCoroutine(run()))
    loop.run()


def begin(case: list[Any]) -> tuple[int, Any]:
    """One child; its pid, and the file with what it says."""
    said = tempfile.TemporaryFile()  # noqa: SIM115 - it is read when the child has ended
    pid = os.fork()
    if pid:
        return pid, said
    status = 70
    try:
        for number in (1, 2):
            os.dup2(said.fileno(), number)
        child(*case)
        status = 0
    except SystemExit as leaving:
        status = int(leaving.code or 0)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        import atexit

        atexit._run_exitfuncs()  # the daemon's own status is set there
        os._exit(status)


def _warm(cases: list[Any]) -> None:
    """What is imported when it is needed shall not be imported in each child."""
    with contextlib.redirect_stdout(io.StringIO()):
        for role in ("master", "minion"):
            child("check", role, next(each[2] for each in cases if each[1] == role))
    for module in (
        "saltwisted.web.metrics",
        "saltwisted.web.measures",
        "saltwisted.web.apimeasures",
    ):
        import_module(module)


def main() -> None:
    """All of them."""
    for module in ("master", "cluster", "minion", "api"):
        import_module(f"saltwisted.roles.{module}")
    cases = json.load(sys.stdin)
    _warm(cases)
    results: list[Any] = [None] * len(cases)
    waiting, running = list(enumerate(cases)), {}
    while waiting or running:
        while waiting and len(running) < CHILDREN:
            number, case = waiting.pop(0)
            pid, said = begin(case)
            running[pid] = (number, said)
        pid, status = os.wait()
        if pid in running:
            number, said = running.pop(pid)
            said.seek(0)
            text = said.read().decode("utf-8", "replace")
            results[number] = [os.waitstatus_to_exitcode(status), text]
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
