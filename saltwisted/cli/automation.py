"""
What a master does by itself: C{saltwisted reactor test} and C{saltwisted automation}.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from saltwisted import advice
from saltwisted.advice import Said
from saltwisted.cli import clusterask, console, link
from saltwisted.cli.options import CommandLine, Parser
from saltwisted.errors import RemoteError, TransportClosed
from saltwisted.words import counted

EX_PROBLEMS = 1


def _ask(line: CommandLine, op: str, **args: Any) -> Any:
    """One question to the master on this machine."""
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


def _data_option(parser: Parser) -> None:
    parser.add_option(
        "--data", default="{}", metavar="JSON", help="the data of the event, as a map"
    )
    clusterask.json_option(parser)


def reactor(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """C{saltwisted reactor test TAG --data JSON}."""
    line = clusterask.read(
        argv,
        environ,
        "reactor",
        "test TAG [--data JSON]",
        "Shows what an event with this tag would trigger on this machine's master: which "
        "entries match, and the calls of their SLS. Nothing runs. Exits with 1 if something is "
        "wrong with an SLS.",
        _data_option,
    )
    if len(line.args) != 2 or line.args[0] != "test":
        line.parser.error("give 'test' and the tag of an event")
    try:
        data = json.loads(line.options.data)
    except ValueError as error:
        line.parser.error(f"--data is not JSON: {error}")
    if not isinstance(data, dict):
        line.parser.error('--data must be a map, such as {"id": "web1"}')
    found = _ask(line, "reactor.test", tag=line.args[1], data=data)
    if line.options.json:
        clusterask.print_json(found)
    else:
        _print(found)
    return EX_PROBLEMS if found["problems"] else 0


def _print(found: Mapping[str, Any]) -> None:
    if not found["entries"]:
        console.say(f"No entry of reactor matches {found['tag']!r}.")
        return
    for entry in found["entries"]:
        console.say(f"{entry['tag']}: {', '.join(entry['sls'])}")
    for one in found["reactions"]:
        console.say(f"  {one['id']}: {one['kind']}.{one['fun']}{_call(one)}")
        console.say(f"    from {one['sls']}")
    for problem in found["problems"]:
        where = f"{problem['sls']}, {problem['id']}" if problem.get("id") else problem["sls"]
        console.write_error(f"{where}: {problem['error']}\n")


def _call(one: Mapping[str, Any]) -> str:
    """Target and arguments of a call, in a few words."""
    load_ = one.get("load")
    if load_ is None:
        given = [*one["arg"], *(f"{key}={value!r}" for key, value in one["kwarg"].items())]
        return f" {' '.join(str(each) for each in given)}".rstrip()
    words = [f" on {load_['tgt']!r} ({load_['tgt_type']})"]
    for each in load_["arg"]:
        if isinstance(each, dict) and each.get("__kwarg__"):
            words += [f"{key}={value!r}" for key, value in each.items() if key != "__kwarg__"]
        else:
            words.append(str(each))
    return " ".join(words)


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """C{saltwisted automation pause|resume|status}."""
    line = clusterask.read(
        argv,
        environ,
        "automation",
        "pause | resume | status",
        "Pauses or resumes what the master does by itself, or shows its state. While it is "
        "paused, the master reacts to no event, and does not make up for events that come in "
        "that time.",
        clusterask.json_option,
    )
    if len(line.args) != 1 or line.args[0] not in ("pause", "resume", "status"):
        line.parser.error("give pause, resume or status")
    word = line.args[0]
    found = _ask(line, f"automation.{word}")
    if line.options.json:
        clusterask.print_json(found)
        return 0
    if word == "status":
        _print_status(found)
    elif word == "pause":
        console.say("Automation is paused." if found["changed"] else paused(found["paused"]))
    else:
        console.say("Automation goes on." if found["changed"] else "Automation was not paused.")
    clusterask.not_told(found)
    return 0


def paused(who: Mapping[str, Any]) -> str:
    """Who has paused it, and since when."""
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(float(who["since"])))
    return f"Automation is paused by {who['by']} since {since}."


def lines(
    reactor_: Mapping[str, Any], here: Callable[[Said], Said] = lambda said: said
) -> list[str]:
    """What C{status} says of the reactor: nothing where there is none."""
    found = []
    if reactor_.get("paused"):
        found.append(paused(reactor_["paused"]))
    figures = reactor_.get("figures") or {}
    lost = sum(count for name, count in figures.items() if name.startswith("lost:"))
    if reactor_.get("entries"):
        found.append(
            f"reactor: {reactor_['depth']} waiting, the oldest for {reactor_['oldest']:.1f} s; "
            f"{counted(lost, 'event')} lost, {counted(figures.get('failed', 0), 'failure')}"
        )
    if reactor_.get("problems"):
        wrong = counted(len(reactor_["problems"]), "mistake")
        found.append(
            f"reactor: {wrong} in its entries and SLS: {here(advice.of('automation.look'))}"
        )
    return found


def _print_status(found: Mapping[str, Any]) -> None:
    if found["paused"]:
        console.say(paused(found["paused"]))
    console.say(
        f"reactor: {counted(found['entries'], 'entry', 'entries')}, {found['depth']} waiting "
        f"(the oldest for {found['oldest']:.1f} s), {found['running']} running"
    )
    for name, count in sorted(found["figures"].items()):
        console.say(f"  {name}: {count}")
    for problem in found["problems"]:
        console.say(f"  {problem}")


def _receipts_options(parser: Parser) -> None:
    parser.add_option(
        "--event", default="", metavar="TAG", help="only for events whose tag matches this glob"
    )
    parser.add_option("--limit", default="100", metavar="N", help="show the newest N (100)")
    clusterask.json_option(parser)


def receipts(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """C{saltwisted receipts [--event TAG] [--limit N] [--json]}."""
    line = clusterask.read(
        argv,
        environ,
        "receipts",
        "[--event TAG] [--limit N]",
        "Shows what masters did once, because of an event: which node claimed it, when it began "
        "and ended, and how. Receipts are kept as long as jobs.",
        _receipts_options,
    )
    if line.args:
        line.parser.error("give no argument")
    if not line.options.limit.isdigit():
        line.parser.error(f"--limit {line.options.limit}: give a number")
    found = _ask(line, "receipts", event=line.options.event, limit=int(line.options.limit))
    if line.options.json:
        clusterask.print_json(found)
        return 0
    table = [["BEGUN", "TOOK", "NODE", "TERM", "EVENT", "WHAT", "RESULT"]]
    for one in found:
        begun = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one["begun"]))
        took = "" if one["ended"] is None else f"{max(0.0, one['ended'] - one['begun']):.1f} s"
        result = one["result"] if one["ended"] is not None else "not ended"
        row = [begun, took, one["node"], str(one["term"]), one["event"], one["what"], result]
        table.append([" ".join(cell.split()) for cell in row])
    clusterask.print_table(table)
    return 0
