"""
C{saltwisted keys}: where and when each minion's key was seen or decided about, on whichever node.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from saltwisted.cli import clusterask, console, options
from saltwisted.cli.options import Parser


def _options(parser: Parser) -> None:
    options._flag(parser, "--pending", help="show only keys that wait for a decision")
    options._flag(
        parser,
        "--conflicts",
        help=("show only keys that are denied because another key is accepted"),
    )
    clusterask.json_option(parser)


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Run C{saltwisted keys} with these words; the result is the exit status."""
    line = clusterask.read(
        argv,
        environ,
        "keys",
        "[GLOB]",
        "Shows the keys of minions as all nodes of the cluster know them: their states, and "
        "when and where each key was seen or decided on. To accept or reject keys, use "
        "salt-key.",
        _options,
    )
    if len(line.args) > 1:
        line.parser.error("give one glob at most")
    chosen = line.options
    rows = clusterask.ask(
        line,
        "keys_shown",
        match=line.args[0] if line.args else "*",
        pending=chosen.pending,
        conflicts=chosen.conflicts,
    )
    if chosen.json:
        clusterask.print_json(rows)
        return 0
    if not rows:
        console.say("There are no such keys.")
        return 0
    table = [["MINION", "STATE", "SINCE", "NODE", "BY", "FINGERPRINT"]]
    table += [_cells(row) for row in rows]
    clusterask.print_table(table)
    return 0


def _cells(row: Mapping[str, Any]) -> list[str]:
    at = row.get("at")
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at)) if at else ""
    state = f"{row['state']} (conflict)" if row["conflict"] else str(row["state"])
    return [row["id"], state, since, row["node"], row["by"], row["fingerprint"]]
