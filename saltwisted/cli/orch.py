"""
Orchestrations that were begun on any node: C{saltwisted orch}.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from saltwisted.cli import clusterask, console, link
from saltwisted.cli.options import CommandLine, Parser
from saltwisted.errors import RemoteError, TransportClosed

EX_NOT_WELL = 1
LOOK_EVERY = 0.5
NOUN = {"list": 0, "show": 1, "resume": 1, "stop": 1}
"""The words, and how many job ids each takes."""


def _options(parser: Parser) -> None:
    parser.add_option(
        "--from",
        dest="step",
        default="",
        metavar="STEP",
        help="with resume: the number or id of the step to continue from; earlier steps count "
        "as done",
    )
    parser.add_option(
        "--limit",
        type="int",
        default=0,
        metavar="N",
        help="with list: show only the newest N",
    )
    parser.add_option(
        "--follow",
        action="store_true",
        default=False,
        help="with show: print each step as it begins and ends, until the run has ended",
    )
    clusterask.json_option(parser)


def ask(line: CommandLine, op: str, **args: Any) -> Any:
    """One question to the master on this machine; its refusals end the command."""
    client = link.connect(line.opts)
    try:
        return client.call(op, **args)
    except TransportClosed:
        how = link.start(line.opts)
        raise SystemExit(f"No master runs with this configuration. {how}") from None
    except RemoteError as error:
        raise SystemExit(f"{error.message[:1].upper()}{error.message[1:]}") from None
    finally:
        client.close()


def main(
    argv: Sequence[str],
    environ: Mapping[str, str] = os.environ,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """
    C{saltwisted orch list|show|resume|stop}.

    @return: the exit status: 1 where the run that was shown has failed, was interrupted or stopped.
    """
    line = clusterask.read(
        argv,
        environ,
        "orch",
        "list [--limit N] | show JID [--follow] | resume JID [--from STEP] | stop JID",
        "Shows orchestrations, resumes one that failed, was interrupted or was stopped, or "
        "stops one at once. A resumed run does not repeat steps that are done. Minions finish "
        "what they have begun when a run is stopped.",
        _options,
    )
    word = line.args[0] if line.args else ""
    if word not in NOUN or len(line.args) != NOUN[word] + 1:
        line.parser.error("give list, or show, resume or stop with the job id of an orchestration")
    if line.options.step and word != "resume":
        line.parser.error("--from is for resume")
    if line.options.follow and word != "show":
        line.parser.error("--follow is for show")
    if line.options.limit and (word != "list" or line.options.limit < 0):
        line.parser.error("--limit is for list, and takes a number above 0")
    if word == "list":
        return _list(line)
    jid = line.args[1]
    if word == "show" and line.options.follow and not line.options.json:
        return _follow(line, jid, sleep)
    args: dict[str, Any] = {"step": line.options.step} if line.options.step else {}
    if word == "show" and line.options.json:
        args["results"] = True
    found = ask(line, f"orch.{word}", jid=jid, **args)
    if line.options.json:
        clusterask.print_json(found)
    elif word == "show":
        _print(found)
    else:
        console.say(_head(found))
    return _status(found) if word == "show" else 0


def _list(line: CommandLine) -> int:
    limit = {"limit": line.options.limit} if line.options.limit else {}
    found = ask(line, "orch.list", **limit)
    if line.options.json:
        clusterask.print_json(found)
        return 0
    if not found:
        console.say("No orchestration is known here.")
        return 0
    rows = [["jid", "state", "steps", "node", "begun", "what"]]
    for run in found:
        steps = f"{run['steps_done']}/{run['steps_all']}"
        rows.append([run["jid"], run["state"], steps, run["node"], _when(run), run["what"]])
    clusterask.print_table(rows)
    return 0


def _when(run: Mapping[str, Any]) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(float(run["begun"])))


def _head(run: Mapping[str, Any]) -> str:
    done = f"{run['steps_done']} of {run['steps_all']} steps are done"
    why = f" ({run['why']})" if run["why"] else ""
    return f"{run['jid']} is {run['state']} on {run['node']}{why}: {run['what']}; {done}."


def _row(step: Mapping[str, Any]) -> list[str]:
    duration = "" if step["duration"] is None else f"{step['duration']:.1f} s"
    cells = [step["step"], step["id"], step["function"], step["state"], step["node"]]
    return [*map(str, cells), step["jid"], duration, step["why"]]


def _print(run: Mapping[str, Any]) -> None:
    console.say(_head(run))
    rows = [["step", "id", "function", "state", "node", "jid", "duration", ""]]
    clusterask.print_table([*rows, *(_row(step) for step in run["steps"])])


def _follow(line: CommandLine, jid: str, sleep: Callable[[float], None]) -> int:
    """Print what has changed, until the run has ended."""
    seen: dict[int, str] = {}
    while True:
        run = ask(line, "orch.show", jid=jid)
        for step in run["steps"]:
            if step["state"] != seen.get(step["step"], "waiting"):
                console.say("  ".join(cell for cell in _row(step) if cell))
            seen[step["step"]] = step["state"]
        if run["state"] != "running":
            console.say(_head(run))
            return _status(run)
        sleep(LOOK_EVERY)


def _status(run: Mapping[str, Any]) -> int:
    return 0 if run["state"] in ("running", "done") else EX_NOT_WELL
