"""
C{saltwisted doctor}: what is wrong with the master on this machine, and what mends it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence

from saltwisted.cli import console, options
from saltwisted.cli.options import Parser
from saltwisted.domain.doctor import Finding, Severity
from saltwisted.worker.configio import load_from_disk
from saltwisted.worker.doctor import Doctor, mend

EX_ERROR = 1
EX_DEGRADED = 3


def build_parser() -> Parser:
    """The options of C{saltwisted doctor}."""
    parser = Parser(
        "doctor",
        "%prog [--json] [--fix]",
        "Looks at the master on this machine from all sides: ports, clocks, keys, modes of "
        "files, room on disks, limits, old minions, options, its cluster. Leaves with 0 when "
        "nothing is wrong, 3 for warnings, 1 for errors.",
    )
    options.config_dir(parser)
    options._flag(parser, "--json", help="print JSON, for scripts")
    options._flag(parser, "--fix", help="do what is safe to do without asking (modes of files)")
    parser.add_option(
        "--from-minion",
        default="",
        metavar="ID",
        help="let this minion ring the master's ports, too",
    )
    return parser


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Look, tell, and mend if asked to."""
    parser = build_parser()
    chosen, rest = parser.parse_args(list(argv))
    if rest:
        parser.error(f"there is nothing to say to it but options: {' '.join(rest)}")
    loaded = load_from_disk("master", chosen.config_dir, environ, guess_id=False)
    doctor = Doctor(loaded.master, list(loaded.sources))
    found = doctor.look(chosen.from_minion)
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
                    "unknown": doctor.unknown,
                },
                indent=4,
            )
        )
    else:
        show(found, done, doctor.unknown)
    if any(finding.severity is Severity.ERROR for finding in found):
        return EX_ERROR
    return EX_DEGRADED if any(one.severity is Severity.WARNING for one in found) else 0


def show(found: list[Finding], done: Mapping[str, str], unknown: Mapping[str, str]) -> None:
    """For people."""
    for text in sorted(done.values()):
        console.say(f"mended   {text}")
    for finding in found:
        console.say(f"{finding.severity.value:<8} {finding.id}: {finding.text}")
        for line in finding.evidence[:10]:
            console.say(f"           {line}")
        if len(finding.evidence) > 10:
            console.say(f"           and {len(finding.evidence) - 10} more")
        if finding.command:
            console.say(f"         > {finding.command}")
    for what, why in unknown.items():
        console.say(f"unknown  {what}: {why}")
    if not found and not unknown:
        console.say("Nothing is wrong.")
