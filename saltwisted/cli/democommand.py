"""
The command line of C{saltwisted demo}.
"""

from __future__ import annotations

import optparse
import os
from collections.abc import Mapping, Sequence

from saltwisted.cli import console, demoend
from saltwisted.cli.demo import Demo
from saltwisted.words import counted

EX_USAGE = 64
MOST_MINIONS = 50
MOST_MASTERS = 9


def build_parser() -> optparse.OptionParser:
    """The options of C{saltwisted demo}."""
    parser = optparse.OptionParser(
        prog="saltwisted demo",
        usage="%prog [--keep] [--json] [--minions M] | --end DIRECTORY",
        description="Starts a master and minions in a temporary directory, without root rights, "
        "shows what they do step by step, and removes everything again.",
    )
    parser.add_option("--keep", action="store_true", help="leave it running at the end")
    parser.add_option(
        "--end",
        metavar="DIRECTORY",
        help="end the demo that was left running there, and remove the directory",
    )
    parser.add_option(
        "--json", action="store_true", help="print one report for machines, and nothing else"
    )
    parser.add_option(
        "--masters",
        type=int,
        default=1,
        metavar="N",
        help="how many masters; two or more form a cluster, and the demo kills one of them "
        "(default: %default)",
    )
    parser.add_option(
        "--minions", type=int, default=2, metavar="M", help="how many minions (default: %default)"
    )
    return parser


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Run the demonstration; the exit status is 0 when every step did what it should."""
    options, rest = build_parser().parse_args(list(argv))
    problem = ""
    if rest:
        problem = f"this command takes only options, not: {' '.join(rest)}"
    elif not 1 <= options.masters <= MOST_MASTERS:
        problem = f"--masters {options.masters}: between 1 and {MOST_MASTERS}, please"
    elif not 1 <= options.minions <= MOST_MINIONS:
        problem = f"--minions {options.minions}: between 1 and {MOST_MINIONS}, please"
    if problem:
        console.write_error(f"saltwisted demo: {problem}\n")
        return EX_USAGE
    if options.end:
        try:
            count = demoend.end(options.end)
        except (demoend.NoDemo, OSError) as error:
            console.write_error(f"saltwisted demo: {error}\n")
            return 1
        console.say(f"{counted(count, 'daemon')} ended; the directory is gone.")
        return 0
    kind: type[Demo] = Demo
    if options.masters > 1:
        # A lone master's demonstration need not wait for the import of the other
        from saltwisted.cli.democluster import ClusterDemo

        kind = ClusterDemo
    return kind(options.minions, bool(options.keep), bool(options.json), options.masters).run()
