"""
C{saltwisted schedule}: the master's schedule, listed and changed while it runs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from saltwisted.cli import args as words
from saltwisted.cli import clusterask, console, link
from saltwisted.cli.options import CommandLine
from saltwisted.errors import RemoteError, TransportClosed

GLOBALS = ("enabled", "skip_function", "skip_during_range", "splay")
USAGE = (
    "list | add NAME OPTION=VALUE... | modify NAME OPTION=VALUE... | delete NAME | run NAME | "
    "enable [NAME] | disable [NAME] | pause [NAME] | resume [NAME] | reset NAME"
)
NAMED = ("add", "modify", "delete", "run", "reset")
DO = {"run": "run_job", "list": "list", "add": "add", "modify": "modify", "delete": "delete"}
SAID = {
    "add": "Added job {name}.",
    "modify": "Modified job {name}.",
    "delete": "Deleted job {name}.",
    "run": "Job {name} runs as {jid}.",
    "enable": "Enabled {name}.",
    "disable": "Disabled {name}: what comes due meanwhile is skipped.",
    "pause": "Paused {name}, until it is resumed.",
    "resume": "Resumed {name}.",
    "reset": "Job {name} is as it is configured.",
}


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Ask the master on this machine."""
    line = clusterask.read(
        argv,
        environ,
        "schedule",
        USAGE,
        "Lists the master's scheduled jobs, with when each runs next and how it last ended, and "
        "changes them one by one. Changes hold at once, after restarts, and on all masters of a "
        "cluster. Options of a job are those of the configuration, such as function=test.arg "
        "args='[1]' seconds=60.",
        clusterask.json_option,
    )
    do, *rest = line.args or ["list"]
    if do not in SAID and do != "list":
        line.parser.error(f"use {USAGE}")
    given, entry = words.parse(rest, ())
    if len(given) > 1 or (do in NAMED and not given) or (do == "list" and rest):
        line.parser.error(f"{do}: use {USAGE}")
    if entry and do not in ("add", "modify"):
        line.parser.error(f"{do} takes no options of a job")
    client = link.connect(line.opts)
    try:
        return _do(line, client, do, str(given[0]) if given else "", entry)
    except TransportClosed as error:
        console.log("error", f"Unable to connect to the salt master: {error}")
        how = link.start(line.opts)
        raise SystemExit(f"No master runs with this configuration. {how}") from None
    except RemoteError as error:
        raise SystemExit(error.message) from None
    finally:
        client.close()


def _do(line: CommandLine, client: Any, do: str, name: str, entry: dict[str, Any]) -> int:
    if do == "list":
        found = client.call("schedule")["schedule"]
        if line.options.json:
            clusterask.print_json(found)
        else:
            _show(found)
        return 0
    request: dict[str, Any] = {"func": DO.get(do, do)}
    if name:
        request["name"] = name
        if do in ("enable", "disable"):
            request["func"] = f"{do}_job"
    if do in ("add", "modify"):
        known = client.call("schedule")["schedule"].get(name)
        if (known is None) == (do == "modify"):
            why = "does not exist" if known is None else "already exists"
            raise SystemExit(f"Job {name} {why} in schedule.")
        before = known if do == "modify" else {}
        merged = {key: value for key, value in before.items() if not key.startswith("_")}
        merged.update(entry)
        merged = {key: value for key, value in merged.items() if value is not None}
        request["schedule"] = {name: merged} if do == "add" else merged
    done = client.call("schedule", **request)
    if do == "run" and not done["started"]:
        raise SystemExit(f"Job {name} was not started: maxrunning is reached.")
    if line.options.json:
        clusterask.print_json(done)
    else:
        console.say(SAID[do].format(name=name or "the whole schedule", jid=done.get("jid", "")))
    return 0


def _show(found: Mapping[str, Any]) -> None:
    jobs = {name: job for name, job in found.items() if name not in GLOBALS}
    if found.get("enabled", True) is False:
        console.say("The schedule is disabled.")
    if not jobs:
        console.say("There are no scheduled jobs.")
        return
    table = [["NAME", "FUNCTION", "NEXT RUN", "LAST RUN", "RESULT", "NOTE"]]
    for name, job in jobs.items():
        if isinstance(job, Mapping):
            table.append([name, *_row(job)])
        else:
            table.append([name, "", "", "", "", "it is no map of options"])
    clusterask.print_table(table)


def _row(job: Mapping[str, Any]) -> list[str]:
    function = next((job[key] for key in ("function", "func", "fun") if job.get(key)), "")
    ran = job.get("_ran") or {}
    at = ran.get("ran")
    last = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(at)) if at else ""
    result = "" if "success" not in ran else "done" if ran["success"] else "failed"
    notes = []
    if job.get("_error"):
        notes.append(str(job["_error"]))
    if job.get("_paused"):
        notes.append(f"paused by {job['_paused'].get('by')}")
    if job.get("enabled") is False:
        notes.append("disabled")
    elif job.get("_skip_reason"):
        notes.append(f"skipped: {job['_skip_reason']}")
    if job.get("_changed"):
        notes.append(f"changed by {job['_changed'].get('by')}")
    if result and ran.get("node"):
        notes.append(f"on {ran['node']}")
    due = job.get("_splay") or job.get("_next_fire_time") or ""
    return [str(function), str(due), last, result, ", ".join(notes)]
