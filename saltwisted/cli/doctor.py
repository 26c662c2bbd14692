"""
C{saltwisted doctor}: what is wrong with the daemons on this machine, and what mends it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence

from attrs import evolve

from saltwisted.advice import By, Said
from saltwisted.cli import console, options
from saltwisted.cli.options import Parser
from saltwisted.domain.doctor import Finding, Severity, configuration, sorted_findings
from saltwisted.errors import ConfigError
from saltwisted.tools.checking import faults
from saltwisted.tools.doctor import Doctor, MinionDoctor, mend
from saltwisted.tools.units import is_used
from saltwisted.worker.process.configio import load_from_disk

EX_ERROR = 1
EX_DEGRADED = 3
DOWN = "daemon.down"


def build_parser() -> Parser:
    """The options of C{saltwisted doctor}."""
    parser = Parser(
        "doctor",
        "%prog [--role ROLE] [--json] [--fix]",
        "Checks the daemons on this machine: ports, clocks, keys, file modes, disk space, "
        "limits, old minions, options, the cluster and its roots. Exits with 0 when nothing is "
        "wrong, 3 for warnings, 1 for errors.",
    )
    options.config_dir(parser)
    parser.add_option(
        "--role",
        choices=("master", "minion", "cluster"),
        help="check only this daemon (default: all that have run on this machine, or the master)",
    )
    options._flag(parser, "--json", help="print JSON, for scripts")
    options._flag(parser, "--fix", help="fix what is safe to fix without asking (file modes)")
    parser.add_option(
        "--from-minion",
        default="",
        metavar="ID",
        help="also let this minion test whether it reaches the master's ports",
    )
    return parser


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Look, tell, and mend if asked to."""
    parser = build_parser()
    chosen, rest = parser.parse_args(list(argv))
    if rest:
        parser.error(f"this command takes only options, not: {' '.join(rest)}")
    found: list[Finding] = []
    unknown: dict[str, str] = {}
    for role in roles(chosen.role, chosen.config_dir, environ):
        try:
            one = doctor_for(role, chosen.config_dir, environ)
        except ConfigError as error:
            found.append(configuration(str(error)))
            continue
        looked = one.look(chosen.from_minion)
        if isinstance(one, Doctor) and any(finding.id == DOWN for finding in looked):
            looked = would_start(looked, one.role, chosen.config_dir)
        found += looked
        unknown.update(one.unknown)
    found = sorted_findings(found)
    done: dict[str, str] = {}
    if chosen.fix:
        for finding in found:
            if finding.fix:
                try:
                    done[finding.text] = mend(finding)
                except OSError as error:
                    console.write_error(f"{error.filename}: {error.strerror}\n")
        found = [finding for finding in found if finding.text not in done]
    if chosen.json:
        console.say(
            json.dumps(
                {
                    "findings": [finding.as_json() for finding in found],
                    "mended": sorted(done.values()),
                    "unknown": unknown,
                },
                indent=4,
            )
        )
    else:
        show(found, done, unknown)
    if any(finding.severity is Severity.ERROR for finding in found):
        return EX_ERROR
    return EX_DEGRADED if any(one.severity is Severity.WARNING for one in found) else 0


def roles(asked: str | None, directory: str | None, environ: Mapping[str, str]) -> list[str]:
    """
    Which daemons to look at: the one that was asked for, or all that have run here.

    One whose configuration cannot be read counts: somebody has to know.
    """
    if asked:
        return ["minion" if asked == "minion" else "master"]
    used, broken = [], []
    for role in ("master", "minion"):
        try:
            config = load_from_disk(role, directory, environ, guess_id=False).config
        except ConfigError:
            broken.append(role)
            continue
        directory_of = os.path.dirname(str(config.conf_file or ""))
        if is_used(config.pki_dir, config.sock_dir, role, directory_of):
            used.append(role)
    return [*broken, *used] or ["master"]


def doctor_for(
    role: str, directory: str | None, environ: Mapping[str, str]
) -> Doctor | MinionDoctor:
    """
    Who looks at a role.

    @raises ConfigError: the daemon would not start with this configuration.
    """
    loaded = load_from_disk(role, directory, environ, guess_id=False)
    if role == "minion":
        return MinionDoctor(loaded.minion, list(loaded.sources))
    return Doctor(loaded.master, list(loaded.sources))


def would_start(found: list[Finding], role: str, directory: str | None) -> list[Finding]:
    """
    The same, when a daemon does not answer: with what keeps it from starting, if there is
    something; then nobody is told to start it.
    """
    refused = [one for one in faults(role, directory, ports=False) if one.severity == "error"]
    if not refused:
        return found
    rest = [evolve(one, advice=None) if one.id == DOWN else one for one in found]
    return [*(configuration(str(one)) for one in refused), *rest]


def _show_advice(told: Said) -> None:
    """What to do: a command stands alone on its line, so that it can be copied as a whole."""
    before, after = told.around
    where = " (as root)" if told.by is By.ROOT and os.geteuid() else ""
    if before:
        console.say(f"           {before}{where}{':' if told.command else ''}")
    if told.command:
        console.say(f"         > {told.command}")
    if after:
        console.say(f"           {after}")


def show(found: list[Finding], done: Mapping[str, str], unknown: Mapping[str, str]) -> None:
    """For people."""
    for text in sorted(done.values()):
        console.say(f"fixed    {text}")
    for finding in found:
        console.say(f"{finding.severity.value:<8} {finding.id}: {finding.text}")
        for line in finding.evidence[:10]:
            console.say(f"           {line}")
        if len(finding.evidence) > 10:
            console.say(f"           and {len(finding.evidence) - 10} more")
        if finding.advice is not None:
            _show_advice(finding.advice)
    for what, why in unknown.items():
        console.say(f"unknown  {what}: {why}")
    if not found and not unknown:
        console.say("Nothing is wrong.")
