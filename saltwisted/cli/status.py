"""
C{saltwisted status}: whether the daemons on this machine do their work, as an exit code.

0 serving, 1 error, 2 not ready, 3 degraded; of several daemons the one that is worst off.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from saltwisted import advice
from saltwisted.cli import automation, console, link, options
from saltwisted.cli.options import Parser
from saltwisted.domain import doctor, standing
from saltwisted.domain.doctor import Severity
from saltwisted.domain.roots import health
from saltwisted.errors import RemoteError, SaltwistedError, TransportClosed, WrongPlace
from saltwisted.tools.units import daemons, is_used, programs, usual_dir
from saltwisted.words import counted, listed
from saltwisted.worker.control import ControlClient
from saltwisted.worker.process.configio import Disk, load_from_disk

SERVING, ERROR, NOT_READY, DEGRADED = 0, 1, 2, 3
WORDS = {SERVING: "serving", ERROR: "error", NOT_READY: "not ready", DEGRADED: "degraded"}
_WORST = (SERVING, DEGRADED, NOT_READY, ERROR)
PATIENCE = 10.0


def build_parser() -> Parser:
    """The options of C{saltwisted status}."""
    parser = Parser(
        "status",
        "%prog [--role ROLE] [--json]",
        "Tells how the daemons on this machine are. Exits with 0 when they serve, 1 for an "
        "error, 2 when one does not run (or belongs to no cluster or master yet), 3 when one runs "
        "with something missing: a full disk, a member that is away, roots that it waits for.",
    )
    options.config_dir(parser)
    parser.add_option(
        "--role",
        choices=("master", "minion", "cluster"),
        help="show only this daemon (default: those that have run on this machine)",
    )
    options._flag(parser, "--json", help="print JSON, for scripts")
    return parser


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Ask, tell, and leave with the worst."""
    parser = build_parser()
    chosen, rest = parser.parse_args(list(argv))
    if rest:
        parser.error(f"this command takes only options, not: {' '.join(rest)}")
    reports = []
    asked = {"master": "master", "cluster": "master", "minion": "minion"}
    for role in (asked[chosen.role],) if chosen.role else ("master", "minion"):
        report = look(role, chosen.config_dir, environ, bool(chosen.role))
        if report is not None:
            reports.append(report)
    if not reports:
        others = elsewhere(("master", "cluster", "minion"), "")
        first = "no daemon runs with this configuration" if others else (
            "no daemon runs on this machine"
        )  # fmt: skip
        reports = [{"role": "", "code": NOT_READY, "why": [first, *others]}]
    code = max((int(one["code"]) for one in reports), key=_WORST.index)
    if chosen.json:
        for one in reports:
            one["state"] = WORDS[one["code"]]
        console.say(json.dumps({"code": code, "state": WORDS[code], "daemons": reports}, indent=4))
        return code
    for one in reports:
        console.say(f"{one['role'] or 'saltwisted'}: {WORDS[one['code']]}")
        for line in one["why"]:
            console.say(f"  {line}")
    return code


def look(
    role: str, directory: str | None, environ: Mapping[str, str], wanted: bool
) -> dict[str, Any] | None:
    """
    How one role is; C{None} for one that was never meant to run here.

    @param wanted: whether somebody asked for this role by name.
    """
    try:
        disk = Disk(passing=True)
        config = load_from_disk(role, directory, environ, guess_id=False, disk=disk).config
    except WrongPlace:
        raise
    except SaltwistedError as error:
        return {"role": role, "code": ERROR, "why": [str(error)]}
    client = ControlClient(path=os.path.join(config.sock_dir, "saltwisted.sock"), timeout=PATIENCE)
    try:
        status = client.call("status")
        members = members_of(client) if role == "master" else None
        roots = roots_of(client) if members is not None else None
    except TransportClosed as error:
        here = os.path.dirname(str(config.conf_file or ""))
        if not wanted and not is_used(config.pki_dir, config.sock_dir, role, here):
            return None
        asked = ("master", "cluster") if role == "master" else (role,)
        return {"role": role, "code": NOT_READY, "why": [str(error), *elsewhere(asked, here)]}
    except TimeoutError:
        return {"role": role, "code": ERROR, "why": [f"no answer within {PATIENCE:.0f} s"]}
    except RemoteError as error:
        return {"role": role, "code": ERROR, "why": [error.message]}
    finally:
        client.close()
    code, why = judge(status, members, roots, link.at({"conf_file": config.conf_file}))
    name = "cluster" if members is not None else str(status.get("role") or role)
    return {"role": name, "code": code, "why": why, "status": status}


def elsewhere(roles: Sequence[str], directory: str) -> list[str]:
    """Daemons in these roles that run with another configuration than that of C{directory}."""
    said = []
    for one in daemons():
        usual = usual_dir("minion" if one.role == "minion" else "master")
        if one.role in roles and one.directory not in ("", usual, directory):
            told = advice.of(
                "status.elsewhere", role=one.role, pid=one.pid, directory=one.directory
            )
            said.append(str(told.at("", programs())))
    return said


def members_of(client: ControlClient) -> dict[str, Any] | None:
    """The members of the cluster that a node belongs to; C{None} for a master without peers."""
    try:
        found: dict[str, Any] = client.call("members")
    except RemoteError as error:
        if error.name == "UnknownOperation":
            return None
        raise
    return found


def roots_of(client: ControlClient) -> dict[str, Any] | None:
    """What a node of a cluster says of its roots; C{None} while it is not a member yet."""
    try:
        found: dict[str, Any] = client.call("roots", do="status")
    except RemoteError:
        return None
    return found


def judge(
    status: Mapping[str, Any],
    members: Mapping[str, Any] | None = None,
    roots: Mapping[str, Any] | None = None,
    here: standing.Here = lambda said: said,
) -> tuple[int, list[str]]:
    """
    What a daemon's own words amount to, and why.

    @param members: in a cluster: what it says of its members.
    @param roots: in a cluster: what it says of its roots.
    @param here: C{here(said)}: advice as it can be run on this machine.
    """
    if status.get("role") == "minion":
        return judge_minion(status)
    code = SERVING
    why = [_who(status)]
    for name, problem in (status.get("problems") or {}).items():
        code = DEGRADED
        why.append(f"{name}: {problem}")
    why += automation.lines(status.get("reactor") or {}, here)
    why += silences(status)
    for finding in standing.clock(float(status.get("clock_set_back") or 0)):
        code = DEGRADED
        why += standing.lines(finding, here)
    claims = status.get("claims") or {}
    for finding in doctor.claims(claims):
        why += standing.lines(finding, here)
    wrong, lines = of_schedule(status.get("schedule") or {})
    code = DEGRADED if wrong else code
    why += lines
    if members is None and status.get("serving") is False:
        return DEGRADED, [*why, "not serving: its ports are not open yet"]
    if members is not None:
        found = list(standing.findings(members))
        why += [line for finding in found for line in standing.lines(finding, here)]
        if not members.get("ready"):
            # A member that runs, and waits for its roots say: it keeps keys and jobs meanwhile
            state = next(
                (one["state"] for one in members.get("members", []) if one.get("this")), ""
            )
            return DEGRADED if state == "starting" else NOT_READY, why
        code = DEGRADED if found else code
        why += [
            f"{option} is another in {listed(nodes)}: {here(advice.of('drift.look'))}"
            for option, nodes in (members.get("drift") or {}).items()
        ]
    for finding in health.roots(roots or {}):
        if finding.severity is not Severity.NOTE:
            code = DEGRADED
        why.append(finding.text)
    return code, why


def silences(status: Mapping[str, Any]) -> list[str]:
    """How often everybody had to wait for over a quarter of a second, and the last time."""
    latency = status.get("latency") or {}
    if not latency.get("silences"):
        return []
    last = latency.get("silence_last") or {}
    at = datetime.fromtimestamp(float(last.get("at") or 0)).astimezone().isoformat(" ", "seconds")
    where = ", ".join(str(last[key]) for key in ("who", "where") if last.get(key))
    return [
        f"its reactor stood still {counted(int(latency['silences']), 'time')}, for "
        f"{latency['silence_max_ms'] / 1000:.2f} s at worst; the last time was {at}, for "
        f"{int(last.get('ms') or 0) / 1000:.2f} s, in {where}; the log has its stack"
    ]


def of_schedule(schedule: Mapping[str, Any]) -> tuple[bool, list[str]]:
    """Whether an entry of the master's schedule is wrong; and what comes next, and came last."""
    entries: Mapping[str, Mapping[str, Any]] = schedule.get("entries") or {}
    wrong = [f"schedule: {entry['error']}" for entry in entries.values() if entry.get("error")]
    if not entries:
        return False, []
    lines = []
    by = (schedule.get("paused") or {}).get("by")
    if by:
        lines.append(f"schedule: paused by {by}")
    elif schedule.get("enabled") is False:
        lines.append("schedule: disabled")
    elif schedule.get("problem"):
        wrong.append(f"schedule: nothing runs: {schedule['problem']}")
    due = {
        name: each["next_fire_time"] for name, each in entries.items() if "next_fire_time" in each
    }
    if due and not lines:
        name = min(due, key=lambda each: due[each])
        lines.append(f"schedule: {counted(len(entries), 'job')}, the next is {name} at {due[name]}")
    ran = {name: each["ran"] for name, each in entries.items() if "success" in each.get("ran", {})}
    for name, last in ran.items():
        if not last["success"]:
            lines.append(f"schedule: the last run of {name} failed (job {last.get('jid')})")
    return bool(wrong), [*wrong, *lines]


def _who(status: Mapping[str, Any]) -> str:
    """What a daemon says of itself; a node that is not a member yet says little."""
    parts = [f"version {status['version']}"] if status.get("version") else []
    parts.append(f"pid {status.get('pid')}")
    if "uptime" in status:
        parts.append(f"up {max(float(status['uptime'] or 0), 0):.0f} s")
    if "keys" in status:
        parts.append(counted(int((status["keys"] or {}).get("accepted", 0)), "accepted key"))
    if status.get("role") == "minion":
        parts.append(f"id {status.get('id')}")
    return ", ".join(parts)


def judge_minion(status: Mapping[str, Any]) -> tuple[int, list[str]]:
    """A minion serves when it has a master; one of several that is away is a gap."""
    masters = status.get("masters") or []
    up = [row for row in masters if row.get("state") == "up"]
    why = [_who(status), *silences(status)]
    if status.get("master_type") == "disable":
        # It was told to be alone: it runs its schedule, and nothing is missing
        return SERVING, [*why, "it has no master: master_type is disable"]
    for row in masters:
        reason = f": {row['reason']}" if row.get("reason") else ""
        why.append(f"master {row.get('master')}: {row.get('state')}{reason}")
    if not masters:
        why.append("it knows of no master")
    if not up:
        return NOT_READY, why
    # With failover the others are idle, and nothing is missing
    away = [row for row in masters if row.get("state") not in ("up", "idle")]
    return (DEGRADED if away else SERVING), why
