"""
C{saltwisted status}: whether the daemons on this machine do their work, as an exit code.

0 serving, 1 error, 2 not ready, 3 degraded; of several daemons the one that is worst off.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from saltwisted.cli import console, options
from saltwisted.cli.options import Parser
from saltwisted.errors import RemoteError, SaltwistedError, TransportClosed
from saltwisted.worker.configio import load_from_disk
from saltwisted.worker.control import ControlClient

SERVING, ERROR, NOT_READY, DEGRADED = 0, 1, 2, 3
WORDS = {SERVING: "serving", ERROR: "error", NOT_READY: "not ready", DEGRADED: "degraded"}
_WORST = (SERVING, DEGRADED, NOT_READY, ERROR)
PATIENCE = 10.0


def build_parser() -> Parser:
    """The options of C{saltwisted status}."""
    parser = Parser(
        "status",
        "%prog [--role ROLE] [--json]",
        "Says how the daemons on this machine are. Leaves with 0 when they serve, 1 for an "
        "error, 2 when one is not ready (or does not run), 3 when one serves with something "
        "missing.",
    )
    options.config_dir(parser)
    parser.add_option(
        "--role",
        choices=("master", "minion", "cluster"),
        help="this one alone (default: those that have a configuration file)",
    )
    options._flag(parser, "--json", help="print JSON, for scripts")
    return parser


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Ask, tell, and leave with the worst."""
    parser = build_parser()
    chosen, rest = parser.parse_args(list(argv))
    if rest:
        parser.error(f"there is nothing to say to it but options: {' '.join(rest)}")
    reports = []
    asked = {"master": "master", "cluster": "master", "minion": "minion"}
    for role in (asked[chosen.role],) if chosen.role else ("master", "minion"):
        report = look(role, chosen.config_dir, environ, bool(chosen.role))
        if report is not None:
            reports.append(report)
    if not reports:
        reports = [{"role": "", "code": NOT_READY, "why": ["no daemon runs on this machine"]}]
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
        config = load_from_disk(role, directory, environ, guess_id=False).config
    except SaltwistedError as error:
        return {"role": role, "code": ERROR, "why": [str(error)]}
    client = ControlClient(path=os.path.join(config.sock_dir, "saltwisted.sock"), timeout=PATIENCE)
    try:
        status = client.call("status")
        members = members_of(client) if role == "master" else None
    except TransportClosed as error:
        # Both roles have a configuration file on a machine with our package: a socket that was
        # never made is a role that nobody uses
        if not wanted and not os.path.isdir(config.sock_dir):
            return None
        return {"role": role, "code": NOT_READY, "why": [str(error)]}
    except TimeoutError:
        return {"role": role, "code": ERROR, "why": [f"no answer within {PATIENCE:.0f} s"]}
    except RemoteError as error:
        return {"role": role, "code": ERROR, "why": [error.message]}
    finally:
        client.close()
    code, why = judge(status, members)
    name = "cluster" if members is not None else str(status.get("role") or role)
    return {"role": name, "code": code, "why": why, "status": status}


def members_of(client: ControlClient) -> dict[str, Any] | None:
    """The members of the cluster that a node belongs to; C{None} for a master without peers."""
    try:
        found: dict[str, Any] = client.call("members")
    except RemoteError as error:
        if error.name == "UnknownOperation":
            return None
        raise
    return found


def judge(status: Mapping[str, Any], members: Mapping[str, Any] | None) -> tuple[int, list[str]]:
    """What a daemon's own words amount to, and why."""
    if status.get("role") == "minion":
        return judge_minion(status)
    code = SERVING
    keys = status.get("keys") or {}
    why = [
        f"version {status.get('version')}, pid {status.get('pid')}, "
        f"up {float(status.get('uptime') or 0):.0f} s, {keys.get('accepted', 0)} accepted keys"
    ]
    for name, problem in (status.get("problems") or {}).items():
        code = DEGRADED
        why.append(f"{name}: {problem}")
    if members is not None:
        if not members.get("ready"):
            return NOT_READY, [*why, str(members.get("problem") or "not serving yet")]
        for row in members.get("members", []):
            if row.get("state") != "serving":
                code = DEGRADED
                problem = f": {row['problem']}" if row.get("problem") else ""
                why.append(f"{row.get('node')} is {row.get('state')}{problem}")
    return code, why


def judge_minion(status: Mapping[str, Any]) -> tuple[int, list[str]]:
    """A minion serves when it has a master; one of several that is away is a gap."""
    masters = status.get("masters") or []
    up = [row for row in masters if row.get("state") == "up"]
    why = [f"version {status.get('version')}, pid {status.get('pid')}, id {status.get('id')}"]
    for row in masters:
        reason = f": {row['reason']}" if row.get("reason") else ""
        why.append(f"master {row.get('master')}: {row.get('state')}{reason}")
    if not up:
        return NOT_READY, why
    # With failover the others are idle, and nothing is missing
    away = [row for row in masters if row.get("state") not in ("up", "idle")]
    return (DEGRADED if away else SERVING), why
