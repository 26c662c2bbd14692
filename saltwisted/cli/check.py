"""
C{saltwisted check}: what a daemon would complain of with its configuration, before it is started.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence

from saltwisted.cli import console, options
from saltwisted.cli.doctor import roles
from saltwisted.cli.options import Parser
from saltwisted.errors import ConfigError, RemoteError, TransportClosed, WrongPlace
from saltwisted.tools.checking import Fault, faults
from saltwisted.tools.units import master_role
from saltwisted.worker.control import ControlClient
from saltwisted.worker.process.configio import load_from_disk

EX_ERROR = 1
EX_DEGRADED = 3
PATIENCE = 5.0
"""Seconds in which a daemon that runs says so."""


def build_parser() -> Parser:
    """The options of C{saltwisted check}."""
    parser = Parser(
        "check",
        "%prog [--role ROLE] [--online] [--json]",
        "Reads the whole configuration of a daemon as its start does, and starts nothing: options, "
        "reactor, schedule, roots, the pillar's top file, ports, rights of files. Each finding is "
        "told with file and line. Exits with 0 when nothing is wrong, 3 for warnings (the daemon "
        "starts, and something does not work), 1 for errors (it does not start).",
    )
    options.config_dir(parser)
    parser.add_option(
        "--role",
        choices=("master", "minion", "cluster"),
        help="check only this daemon (default: all that have run on this machine, or the master)",
    )
    options._flag(parser, "--online", help="also try whether the git remotes answer")
    options._flag(parser, "--json", help="print JSON, for scripts")
    return parser


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Read, and tell."""
    parser = build_parser()
    chosen, rest = parser.parse_args(list(argv))
    if rest:
        parser.error(f"this command takes only options, not: {' '.join(rest)}")
    found: dict[str, list[Fault]] = {}
    for role in [chosen.role] if chosen.role else roles(None, chosen.config_dir, environ):
        name, pid = of_machine(role, chosen.role, chosen.config_dir, environ)
        found[name] = faults(name, chosen.config_dir, online=bool(chosen.online), own_pid=pid)
    if chosen.json:
        told = {role: [one.as_json() for one in some] for role, some in found.items()}
        console.say(json.dumps({"findings": told}, indent=4))
    else:
        for role, some in found.items():
            show(role, some)
    severities = {one.severity for some in found.values() for one in some}
    return EX_ERROR if "error" in severities else EX_DEGRADED if severities else 0


def of_machine(
    role: str, asked: str | None, directory: str | None, environ: Mapping[str, str]
) -> tuple[str, int]:
    """
    The role that a daemon has on this machine, and the process that runs with this configuration,
    or 0.
    """
    try:
        side = "minion" if role == "minion" else "master"
        config = load_from_disk(side, directory, environ, guess_id=False).config
    except WrongPlace:
        raise
    except ConfigError:
        return role, 0  # that will be told
    name = master_role(config.pki_dir) if role == "master" and not asked else role
    client = ControlClient(path=os.path.join(config.sock_dir, "saltwisted.sock"), timeout=PATIENCE)
    try:
        return name, int(client.call("status").get("pid") or 0)
    except (TransportClosed, TimeoutError, RemoteError):
        return name, 0
    finally:
        client.close()


def show(role: str, found: Sequence[Fault]) -> None:
    """For people."""
    for one in found:
        console.say(f"{one.severity:<8} {role}: {one}")
    if not found:
        console.say(f"{role}: nothing is wrong.")
