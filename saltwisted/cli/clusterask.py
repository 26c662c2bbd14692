"""
What the commands of a cluster share: how they are read, ask the node here, and print.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from saltwisted import advice
from saltwisted.cli import console, link, options
from saltwisted.cli.options import CommandLine, Parser
from saltwisted.errors import RemoteError, TransportClosed
from saltwisted.tools import units


def read(
    argv: Sequence[str],
    environ: Mapping[str, str],
    name: str,
    usage: str,
    description: str,
    *more: Callable[[Parser], None],
) -> CommandLine:
    """
    Read a command line, and the master's configuration behind it.

    @raises SystemExit: it is wrong.
    """
    parser = Parser(name, f"%prog [options] {usage}".rstrip(), description)
    for add in (options.saltfile, options.config_dir, *more, options.logs()):
        add(parser)
    return options.read(parser, argv, "master", environ, needs_id=False)


def json_option(parser: Parser) -> None:
    """C{--json}."""
    options._flag(parser, "--json", help="print JSON, for scripts")


def dry_run_option(parser: Parser) -> None:
    """C{--dry-run}: the command asks for the plan of what it would do, and tells that."""
    options._flag(parser, "--dry-run", help="show what would follow, and change nothing")


def nothing_changed(line: CommandLine) -> None:
    """The last line of a dry run; what is above it is what the command says when it is done."""
    if line.options.dry_run and not getattr(line.options, "json", False):
        console.say("Dry run: nothing was changed.")


def ask(line: CommandLine, op: str, **args: Any) -> Any:
    """One question to the node on this machine; its refusals end the command with a sentence."""
    client = link.connect(line.opts)
    try:
        return client.call(op, **args)
    except TransportClosed:
        raise SystemExit(f"No node runs with this configuration. {to_start(line)}") from None
    except RemoteError as error:
        raise SystemExit(told(error)) from None
    finally:
        client.close()


def to_start(line: CommandLine) -> str:
    """How to start the node; on a lone master, that there is none."""
    if units.is_lone(str(line.opts["pki_dir"])):
        return str(advice.of("lone.master"))
    return link.start(line.opts, "cluster")


def told(error: RemoteError) -> str:
    """A refusal as a sentence."""
    if error.name == "UnknownOperation":
        return "This master has no peers: it runs with --role master, not with --role cluster."
    return f"{error.message[:1].upper()}{error.message[1:]}"


def print_json(value: Any) -> None:
    """For scripts."""
    console.say(json.dumps(value, indent=4))


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Columns as wide as they must be."""
    widths = [max(len(str(row[n])) for row in rows) for n in range(len(rows[0]))]
    for row in rows:
        cells = (str(cell).ljust(width) for cell, width in zip(row, widths, strict=True))
        console.say("  ".join(cells).rstrip())


def not_told(done: Mapping[str, Any]) -> None:
    """Say which members have not confirmed, or in a dry run, which are not linked now."""
    if done.get("unreached"):
        names = ", ".join(done["unreached"])
        console.write_error(
            f"Not confirmed by {names}. They will learn of it when they are back.\n"
        )
