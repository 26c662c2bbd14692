"""
C{saltwisted takeover}: from a stock salt-master to ours, and back.

Without C{--switch} nothing that runs is touched: the configuration and copies of the keys
are written, and everything that would be different is said. C{--undo} gives stock its place
back, with the keys that were accepted meanwhile.
"""

from __future__ import annotations

import json
import optparse
import os
import sys
from collections.abc import Mapping, Sequence

from saltwisted import advice
from saltwisted.cli import console
from saltwisted.config.load import OWN_DIR
from saltwisted.domain.merge import SHOWN
from saltwisted.domain.takeover import Verdict
from saltwisted.errors import SaltwistedError, StoreError
from saltwisted.tools import daemons, merge, takeover, units
from saltwisted.tools.places import Places
from saltwisted.tools.takeover import Plan

EX_USAGE = 64
SALTFILES = ("Saltfile", "/etc/salt/Saltfile", "~/.salt/Saltfile")


def build_parser() -> optparse.OptionParser:
    """The options of C{saltwisted takeover}."""
    parser = optparse.OptionParser(
        prog="saltwisted takeover",
        usage="%prog [--from DIR] [--dry-run] [--switch] [--merge TOKEN] [--undo]",
        description="Takes the place of a stock salt-master. It reads the configuration, the "
        "keys and what the master knows of its minions, says what becomes of "
        "every option, and writes /etc/saltwisted. It does nothing on the "
        "minions, and leaves the stock files as they are.",
    )
    parser.add_option(
        "--from",
        dest="source",
        metavar="DIR",
        help="the stock master's configuration (default: what a Saltfile says, or /etc/salt)",
    )
    parser.add_option(
        "--to", default=OWN_DIR, metavar="DIR", help="where to write (default: %default)"
    )
    parser.add_option("--dry-run", action="store_true", help="report everything, and write nothing")
    parser.add_option(
        "--switch", action="store_true", help="then stop the stock master and start saltwisted"
    )
    parser.add_option(
        "--role",
        default="master",
        choices=list(daemons.ROLES),
        help=(
            "the role that saltwisted takes: master, or cluster, so that others can join "
            "(default: %default)"
        ),
    )
    _add_ways(parser)
    parser.add_option(
        "--service",
        default="salt-master",
        metavar="UNIT",
        help="the stock master's unit (default: %default)",
    )
    parser.add_option("--json", action="store_true", help="print JSON, for scripts")
    return parser


def _add_ways(parser: optparse.OptionParser) -> None:
    """Options for a switch that is more than that, and for the way back."""
    parser.add_option(
        "--merge",
        metavar="TOKEN",
        help="switch, and join the cluster of a saltwisted that has taken over another master "
        "with the same key. The accepted keys of both are united. The command shows what "
        "differs in keys, files and rights before it stops anything. Create the token "
        "there; - reads it from standard input",
    )
    parser.add_option(
        "-y",
        "--yes",
        action="store_true",
        help="with --switch: go on although some options that are set are not supported; with "
        "--merge: go on although keys, files or options differ in a way that somebody "
        "has to decide",
    )
    parser.add_option(
        "--undo",
        action="store_true",
        help=(
            "stop saltwisted, give the stock master the keys that were accepted meanwhile, "
            "and start it"
        ),
    )


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Run it; 0 when all went well, 1 when something stands in the way, 64 for wrong usage."""
    parser = build_parser()
    options, rest = parser.parse_args(list(argv))
    problem = ""
    if rest:
        problem = f"this command takes only options, not: {' '.join(rest)}"
    elif options.undo and (options.switch or options.source or options.merge):
        problem = "--undo takes no other options: its record says where to go back to"
    if problem:
        console.write_error(f"saltwisted takeover: {problem}\n")
        return EX_USAGE
    if options.merge:
        options.switch, options.role = True, "cluster"
        if options.merge == "-":
            options.merge = sys.stdin.readline().strip()
    try:
        if options.undo:
            return undo(options)
        return take(options)
    except SaltwistedError as error:
        if options.json:
            console.say(json.dumps({"ok": False, "error": str(error)}, indent=4))
        else:
            console.write_error(f"saltwisted takeover: {error}\n")
        return 1


def take(options: optparse.Values) -> int:
    """Look, say, write, and switch if that was asked for."""
    source = options.source or takeover.saltfile_directory(SALTFILES) or "/etc/salt"
    made = takeover.foreseen(takeover.plan(os.path.abspath(source), options.to), options.role)
    report = made.as_json()
    fatal = [one for one in made.problems if one.fatal]
    if not options.json:
        describe(made)
    if options.merge:
        meeting = merge.meet(made.source, made.options, options.merge)
        report["merge"] = meeting.as_json()
        if not options.json:
            describe_meeting(meeting)
        if meeting.identity != made.fingerprint:
            raise StoreError(
                f"has another master key ({meeting.identity}): the accepted minions of this "
                "master would be cut off. Nothing was changed",
                f"the cluster {meeting.cluster}",
            )
        if not fatal and not options.dry_run and meeting.undecided and not agreed(options):
            return _nothing_changed(
                options,
                report,
                "somebody has to decide what is marked with ?; --yes accepts all of it",
            )
    if not fatal and not options.dry_run:
        lost = [one for one in made.problems if one.id == "unsupported"]
        if lost and options.switch and not options.merge and not agreed(options):
            return _nothing_changed(options, report, f"{lost[0].text}; --yes goes on without them")
        say = console.say if not options.json else _nothing
        say("Copying keys, history and what is known of minions ...")
        record = takeover.take(made)
        report["written"] = record["written"]
        if not options.json:
            explain_written(made, options)
        if options.switch:
            joined = takeover.switch(
                made, record, options.service, options.role, options.merge or "", say
            )
            report["switched"], report["joined"] = True, joined
            if not options.json:
                console.say("The stock master is stopped. saltwisted now serves its minions.")
                if joined:
                    console.say(
                        f"Cluster {joined['cluster']} with {', '.join(joined['members'])} had "
                        f"{joined['minions']} accepted keys; now it has those of both.\n"
                        f"Files that differ: {advice.command('roots.conflicts-all')}. "
                        f"Options that differ: {advice.command('drift.look')}"
                    )
    report["ok"] = not fatal
    if options.json:
        console.say(json.dumps(report, indent=4))
    elif fatal:
        console.write_error("Nothing was written: first fix what is marked with !.\n")
    elif options.dry_run:
        console.say("Dry run: nothing was written.")
    return 1 if fatal else 0


def _nothing_changed(options: optparse.Values, report: dict[str, object], why: str) -> int:
    """Say why nothing was done; the exit code."""
    report["ok"] = False
    if options.json:
        console.say(json.dumps(report, indent=4))
    console.write_error(f"saltwisted takeover: nothing was changed: {why}\n")
    return 1


def _nothing(text: str) -> None:
    """With C{--json} nobody reads along."""


def agreed(options: optparse.Values) -> bool:
    """Whether somebody says that the differences are meant."""
    if options.yes:
        return True
    if options.json or not sys.stdin.isatty():
        return False
    console.write_error("Go on? [y/N] ")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def describe_meeting(meeting: merge.Meeting) -> None:
    """What the cluster is, and what would become of everything in which it differs."""
    console.say(f"Cluster {meeting.cluster} with {', '.join(meeting.members)}")
    console.say(f"  key:  {meeting.identity}")
    for one in meeting.differences:
        console.say(f"  {'?' if one.decide else '-'} {len(one.names)} {one.text}:")
        for name in one.names[:SHOWN]:
            console.say(f"        {name}")
        if len(one.names) > SHOWN:
            console.say(f"        and {len(one.names) - SHOWN} more (--json has all)")
    if not meeting.differences:
        console.say("  keys, files and options are the same")
    if meeting.cut:
        console.say("the cluster has more than it can list here; these lists are not complete")


def describe(made: Plan) -> None:
    """Everything that a person wants to know before the switch."""
    console.say(f"Stock master in {made.source.config_dir}, key {made.fingerprint}")
    console.say(f"  read: {', '.join(made.sources)}")
    counts: dict[str, int] = {}
    for folder, _ in made.keys:
        counts[folder] = counts.get(folder, 0) + 1
    console.say("  keys: " + (", ".join(f"{n} in {f}" for f, n in counts.items()) or "none"))
    console.say(f"  jobs: {made.jobs} with what minions returned")
    console.say(f"  ours: {made.places.config}, as user {made.service_user}")
    if made.findings:
        console.say("Options:")
    width = max((len(found.option) for found in made.findings), default=0)
    for verdict in Verdict:
        for found in made.findings:
            if found.verdict is verdict:
                line = f"  {verdict.value:<11}  {found.option:<{width}}  {found.reason}"
                console.say(line.rstrip())
    for warning in made.warnings:
        console.say(f"  note  {warning}")
    if made.problems:
        console.say("To know before the switch:")
    for problem in made.problems:
        console.say(f"  {'!' if problem.fatal else '-'} {problem.text}")


def explain_written(made: Plan, options: optparse.Values) -> None:
    """What was written, and what comes next."""
    console.say(f"Written: {made.places.config}/master.d/{takeover.WRITTEN}, {made.places.pki}")
    if not options.switch:
        default = build_parser().defaults
        given = {
            name: value
            for name, value in (("--to", options.to), ("--service", options.service))
            if value != default[name.strip("-")]
        }
        source = {"--from": options.source} if options.source else {}
        console.say("Nothing was stopped or started.")
        for said in (
            advice.of("takeover.switch", options={**source, **given}),
            advice.of("takeover.undo", options=given),
        ):
            console.say(str(units.here(said, "")))


def undo(options: optparse.Values) -> int:
    """Give the stock master its place back."""
    places = Places.of(os.path.abspath(options.to))
    record = takeover.read_record(places.config)
    if options.dry_run:
        back, started = takeover.returned(record, places), False
    else:
        back, started = takeover.undo(record, places, options.service)
    changes = [f"{one.act.value} {one.folder}/{one.minion_id}" for one in back.changes]
    kept = [f"{folder}/{name}" for folder, name in back.kept]
    if options.json:
        console.say(
            json.dumps({"ok": True, "changes": changes, "kept": kept, "started": started}, indent=4)
        )
        return 0
    for change in changes:
        console.say(f"  {change}")
    for name in kept:
        console.say(f"kept as the stock master has it, although ours differs: {name}")
    if options.dry_run:
        console.say("Dry run: nothing was changed.")
    elif started:
        console.say(f"{options.service} runs again, with {record['from']}.")
    else:
        console.say(f"Now start the stock master again, with {record['from']}.")
    return 0
