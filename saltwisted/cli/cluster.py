"""
The commands of a cluster that exists: C{members}, C{leave}, C{remove}, C{cluster}.

All ask the node on this machine, through its control socket. How machines come in is in
L{saltwisted.cli.tokens}.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from difflib import unified_diff
from typing import Any

from saltwisted import advice
from saltwisted.cli import clusterask, console, link, options
from saltwisted.cli.options import CommandLine, Parser
from saltwisted.domain import doctor, standing
from saltwisted.errors import RemoteError, StoreError, TransportClosed
from saltwisted.tools import units
from saltwisted.words import WERE, are, listed
from saltwisted.worker.control import ControlClient

EX_NOT_READY = 3
EX_DRIFT = 3
LEAVE_TIME = 30.0
"""Seconds in which a node that has left answers again, and says so."""


# members


def _members_options(parser: Parser) -> None:
    parser.add_option(
        "--declare-dead",
        metavar="NODE",
        help="declare a member dead, so that the others decide without it what happens once",
    )
    options._flag(parser, "--drift", help="show the options in which members differ")
    clusterask.dry_run_option(parser)
    clusterask.json_option(parser)


def members(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """C{saltwisted members}, C{members approve NODE}, C{members rights NODE WORDS}, C{--drift}."""
    line = clusterask.read(
        argv,
        environ,
        "members",
        "[approve NODE | rights NODE all|read[,write][,pillar]]",
        "Shows the members of the cluster and their state. Exits with 3 while the node on this "
        "machine cannot serve, and with --drift when options differ. 'rights' says what a "
        "member may do with the roots: without 'write' its changes do not count, without "
        "'pillar' it gets no pillar.",
        _members_options,
    )
    if len(line.args) == 2 and line.args[0] == "approve":
        done = _do(line, "members_approve", node=line.args[1])
        console.say(f"{done['approved']} is approved, and a full member now.")
        clusterask.nothing_changed(line)
        return 0
    if len(line.args) == 3 and line.args[0] == "rights":
        done = _do(line, "members_rights", node=line.args[1], rights=line.args[2])
        if line.options.json:
            clusterask.print_json(done)
            return 0
        console.say(f"{done['node']}: {', '.join(done['rights'])}.")
        clusterask.not_told(done)
        clusterask.nothing_changed(line)
        return 0
    if line.options.declare_dead:
        return _declare_dead(line)
    if line.args:
        line.parser.error("give no argument, 'approve NODE', or 'rights NODE RIGHTS'")
    if line.options.drift:
        return _drift(line)
    state = clusterask.ask(line, "members")
    if line.options.json:
        clusterask.print_json(state["members"])
    else:
        _print_members(line, state)
    return 0 if state["ready"] else EX_NOT_READY


def _declare_dead(line: CommandLine) -> int:
    done = _do(line, "members_declare_dead", node=line.options.declare_dead)
    if line.options.json:
        clusterask.print_json(done)
        return 0
    console.say(
        f"{done['dead']} is declared dead: majorities do not count it until it is back. "
        "If it lives on the other side of a partition, both sides may do the same work."
    )
    clusterask.not_told(done)
    clusterask.nothing_changed(line)
    return 0


def _do(line: CommandLine, op: str, **args: Any) -> Any:
    """
    Have something done, or with C{--dry-run} planned: the answer is the same.

    Without the option it is not named: an earlier daemon does not know it.
    """
    dry = {"dry_run": True} if line.options.dry_run else {}
    return clusterask.ask(line, op, **args, **dry)


def _print_members(command: CommandLine, state: Mapping[str, Any]) -> None:
    table = [
        "NODE ROLE STATE VERSION UPTIME MINIONS LAG-KEYS LAG-RETURNS LAG-ROOTS RIGHTS SEEN".split()  # noqa: SIM905
    ]
    for row in state["members"]:
        lag = row.get("lag") or {}
        table.append(
            [
                row["node"] + (" *" if row.get("this") else ""),
                row.get("role") or "",
                row["state"],
                row.get("version") or "",
                _ago(row.get("uptime")),
                _number(row.get("minions")),
                _number(lag.get("keys")),
                _number(lag.get("returns")),
                str(row.get("roots") or ""),
                _rights(row.get("rights")),
                _seen(row),
            ]
        )
    clusterask.print_table(table)
    claims = state.get("claims") or {}
    for name, (node, term) in sorted((claims.get("duties") or {}).items()):
        console.say(f"{node} has the duty {name} (term {term})")
    for finding in (*standing.findings(state), *doctor.claims(claims)):
        for line in standing.lines(finding, link.at(command.opts)):
            console.say(line)


def _rights(rights: Any) -> str:
    if not rights:
        return ""
    return "all" if len(rights) == 3 else ",".join(rights)


def _seen(row: Mapping[str, Any]) -> str:
    seen = row.get("seen")
    if not seen:
        return "not yet"
    passed = time.time() - float(seen)
    if passed < -standing.SETBACK:
        return "before the clock was set back"
    return "now" if passed < 2 else f"{_ago(passed)} ago"


def _ago(seconds: Any) -> str:
    if not isinstance(seconds, (int, float)):
        return ""
    # Clocks are set back, and other nodes may be of an earlier version
    seconds = max(seconds, 0)
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:.0f}s"


def _number(value: Any) -> str:
    return "" if value is None else str(value)


def _drift(line: CommandLine) -> int:
    found = clusterask.ask(line, "members_drift")
    rows, unasked = found["drift"], found["unasked"]
    if line.options.json:
        clusterask.print_json(rows)
    for row in () if line.options.json else rows:
        for text in drift_lines(str(row["option"]), row["values"]):
            console.say(text)
    if unasked:
        console.write_error(f"Not compared, because no answer came: {', '.join(unasked)}.\n")
    elif not rows and not line.options.json:
        console.say("The options that should be equal are equal on all members.")
    return EX_DRIFT if rows or unasked else 0


def drift_lines(option: str, values: Mapping[str, str]) -> Iterator[str]:
    """
    How nodes differ in one option: as a diff against what most of them have.

    @param values: node to the option's value as JSON, or some other text where it has none.
    """
    nodes: dict[str, list[str]] = {}
    for node, value in sorted(values.items()):
        nodes.setdefault(value, []).append(node)
    common, *others = sorted(nodes, key=lambda value: (-len(nodes[value]), nodes[value]))
    for other in others:
        yield f"{option}:"
        yield from unified_diff(
            _readable(common),
            _readable(other),
            ", ".join(nodes[common]),
            ", ".join(nodes[other]),
            lineterm="",
        )


def _readable(text: str) -> list[str]:
    try:
        return json.dumps(json.loads(text), indent=2, sort_keys=True).splitlines()
    except ValueError:
        return [text]


# leave, remove, cluster


def _leave_options(parser: Parser) -> None:
    options._flag(
        parser, "--force", help="leave even if no other member can be reached; work may be lost"
    )
    clusterask.dry_run_option(parser)
    options._flag(
        parser,
        "--offline",
        help="make a lone master of a node that is stopped; the others are not told",
    )
    clusterask.json_option(parser)


def leave(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """C{saltwisted leave}."""
    line = clusterask.read(
        argv,
        environ,
        "leave",
        "",
        "Takes the node on this machine out of its cluster. The other members take over its "
        "data and its minions. Afterwards it serves nobody.",
        _leave_options,
    )
    if line.args:
        line.parser.error("this command takes no arguments")
    if line.options.offline:
        return _leave_offline(line)
    done = _do(line, "cluster_leave", force=line.options.force)
    if line.options.json:
        clusterask.print_json(done)
    else:
        console.say(f"This node has left cluster {done['left']}. You can stop it now.")
        if done.get("minions"):
            console.say(
                f"{are(int(done['minions']), 'minion', verbs=WERE)} connected here; the other "
                "members take over."
            )
        if done.get("late"):
            console.write_error(
                f"{listed(done['late'])}: still running a job. What a stock minion with "
                "several masters returns only to this node is lost.\n"
            )
        if done.get("alone"):
            console.write_error(
                f"{are(int(done['alone']), 'job or return', 'jobs or returns')} on the disk of "
                "this node only: no other member took them in time.\n"
            )
        clusterask.not_told(done)
    if line.options.dry_run:
        clusterask.nothing_changed(line)
        return 0
    _wait_outside(line)
    return 0


def _leave_offline(line: CommandLine) -> int:
    """The node is stopped, and is to be a lone master."""
    from saltwisted.cli.users import become
    from saltwisted.tools.leaving import foresee
    from saltwisted.tools.leaving import leave as put_aside

    if units.runs(str(line.opts["sock_dir"])):
        raise SystemExit(link.told(advice.of("stop.first"), line.opts))
    # Asked for before this user is another one, which may not look
    stamp = time.strftime("%Y%m%d%H%M%S")
    start = units.start("master", line.opts)
    if start.id == "start.unit":
        start = advice.of("start.lone")
    become(line.opts)
    try:
        act = foresee if line.options.dry_run else put_aside
        done = act(str(line.opts["pki_dir"]), stamp)
    except StoreError as error:
        raise SystemExit(str(error)) from None
    if line.options.json:
        clusterask.print_json({"left": done.cluster, "node": done.node, "kept": done.kept})
        return 0
    console.say(
        f"{done.node or 'This machine'} is a lone master now. Its keys are what they were; the "
        f"state of the node is kept in {done.kept}. The schedule and the tokens of the cluster "
        "stay with the cluster."
    )
    if done.phase == "member":
        console.say(str(advice.of("left.member", node=done.node)))
    console.say(link.told(start, line.opts))
    clusterask.nothing_changed(line)
    return 0


def _wait_outside(line: CommandLine) -> None:
    """Until the node, which stops being a member now, answers as none."""
    end = time.monotonic() + LEAVE_TIME
    while time.monotonic() < end:
        client = ControlClient(path=link.socket_path(line.opts), timeout=5.0)
        try:
            state = client.call("members")
            if not state["ready"] and not state.get("ending", True):
                return
        except (TransportClosed, RemoteError, TimeoutError):
            pass
        finally:
            client.close()
        time.sleep(0.1)


def _remove_options(parser: Parser) -> None:
    options._flag(parser, "--compromised", help="do not wait for members that do not answer")
    clusterask.dry_run_option(parser)
    clusterask.json_option(parser)


def remove(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """C{saltwisted remove NODE}."""
    line = clusterask.read(
        argv,
        environ,
        "remove",
        "NODE",
        "Removes a member for good, while the others keep running. The cluster gets a new "
        "authority, session secret and publish key, and all tokens become void. The identity "
        "key stays: rotate-identity changes it.",
        _remove_options,
    )
    if len(line.args) != 1:
        line.parser.error("name the node to remove")
    done = _do(line, "cluster_remove", node=line.args[0], compromised=line.options.compromised)
    if line.options.json:
        clusterask.print_json(done)
        return 0
    console.say(
        f"{done['removed']} is removed. All tokens are void, and the cluster has new secrets."
    )
    if done["cluster_secret"]:
        console.say(
            "The removed node knows the cluster_secret of the configuration files. It admits "
            "nobody any more. Put a new one into the files."
        )
    clusterask.not_told(done)
    clusterask.nothing_changed(line)
    return 0


def cluster(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """C{saltwisted cluster init}."""
    line = clusterask.read(
        argv,
        environ,
        "cluster",
        "init",
        (
            "Founds a cluster with this node, even if listed peers do not answer. Use it only "
            "on the one node that starts first. You can run it before the node has ever started."
        ),
    )
    if line.args != ["init"]:
        line.parser.error("the word is init")
    client = link.connect(line.opts)
    try:
        done = client.call("cluster_init")
    except TransportClosed:
        return _begin_at_the_start(line)
    except RemoteError as error:
        raise SystemExit(clusterask.told(error)) from None
    finally:
        client.close()
    if done.get("already"):
        console.say(f"This node already belongs to cluster {done['cluster']}.")
    else:
        console.say("This node founds the cluster now.")
    return 0


def _begin_at_the_start(line: CommandLine) -> int:
    """The daemon does not run: leave word where it looks at its start."""
    from saltwisted.cli.keyfiles import lay_down_beginning
    from saltwisted.cli.users import become

    become(line.opts)
    try:
        lay_down_beginning(str(line.opts["pki_dir"]))
    except StoreError as error:
        raise SystemExit(str(error)) from None
    how = link.start(line.opts, "cluster")
    console.say(f"Saved. The node founds the cluster when it starts.\n{how}")
    return 0
