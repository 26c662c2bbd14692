"""
Writes the manual pages, from the very parsers of the commands: manpages.py DIRECTORY.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from saltwisted import __version__
from saltwisted.cli.complete import parser_of
from saltwisted.cli.main import COMMANDS


def escape(text: str) -> str:
    """Text that troff takes for text."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join(
        "\\&" + line if line.startswith((".", "'")) else line for line in text.splitlines()
    )


def head(name: str, what: str) -> list[str]:
    """The first lines of a page."""
    when = time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())))
    date = time.strftime("%Y-%m-%d", when)
    return [
        f'.TH {escape(name.upper())} 1 "{date}" "saltwisted {__version__}" "saltwisted"',
        ".SH NAME",
        f"{escape(name)} \\- {escape(what)}",
    ]


def options(parser: Any) -> Iterable[str]:
    """Every option with its help, by group."""
    for group in (parser, *parser.option_groups):
        listed = [option for option in group.option_list if option.help != "SUPPRESSHELP"]
        if not listed:
            continue
        yield ".SS " + escape("Options" if group is parser else str(group.title))
        for option in listed:
            value = ""
            if option.takes_value():
                value = option.metavar or str(option.dest or "value").upper()
            names = [
                f"\\fB{escape(text)}\\fR" + (f" \\fI{escape(value)}\\fR" if value else "")
                for text in (*option._short_opts, *option._long_opts)
            ]
            yield ".TP"
            yield ", ".join(names)
            text = parser.formatter.expand_default(option) if option.help else ""
            yield escape(text or "\u2014").replace("\u2014", "\\(em")


def page(command: str, what: str) -> str:
    """The page of one subcommand."""
    lines = head(f"saltwisted-{command}", what)
    lines += [".SH SYNOPSIS"]
    parser = parser_of(command)
    parser.formatter.set_parser(parser)
    usage = parser.expand_prog_name(parser.usage or "%prog [options]")
    words = usage.split(" ", 1)
    lines += [f"\\fBsaltwisted {escape(command)}\\fR {escape(words[1] if words[1:] else '')}"]
    if parser.description:
        lines += [".SH DESCRIPTION", escape(parser.expand_prog_name(parser.description))]
    lines += [".SH OPTIONS", *options(parser)]
    lines += [".SH SEE ALSO", "\\fBsaltwisted\\fR(1), /usr/share/doc/saltwisted/docs"]
    return "\n".join(lines) + "\n"


def overview() -> str:
    """The page of the executable and its daemons."""
    lines = head("saltwisted", "Salt, highly available, in one Twisted process")
    lines += [
        ".SH SYNOPSIS",
        "\\fBsaltwisted\\fR \\fICOMMAND\\fR [options] [arguments]",
        ".PP",
        "\\fBtwistd3 \\-\\-nodaemon \\-\\-pidfile= saltwisted \\-\\-role\\fR "
        "\\fIROLE\\fR [\\fB\\-\\-config\\fR \\fIDIR\\fR]",
        ".SH DESCRIPTION",
        escape(
            "saltwisted is a Salt master and a Salt minion. Its subcommands are Salt's own command "
            "names; called through a link with such a name (as in /usr/lib/saltwisted/bin, or by "
            "the package saltwisted-salt in /usr/bin) it is that command."
        ),
        ".SH COMMANDS",
    ]
    for name, (_, what) in COMMANDS.items():
        lines += [".TP", f"\\fB{escape(name)}\\fR", escape(what)]
    lines += [".SH FILES"]
    for path, what in (
        ("/etc/saltwisted/master, master.d/*.conf", "the master's configuration"),
        ("/etc/saltwisted/minion, minion.d/*.conf", "the minion's configuration"),
        ("/etc/saltwisted/pki", "keys"),
        ("/var/cache/saltwisted", "job cache, sessions, what can be made again"),
        ("/var/log/saltwisted", "logs, beside the journal"),
        ("/run/saltwisted", "control sockets"),
    ):
        lines += [".TP", f"\\fI{escape(path)}\\fR", escape(what)]
    lines += [".SH SEE ALSO"]
    lines += [", ".join(f"\\fBsaltwisted\\-{escape(name)}\\fR(1)" for name in COMMANDS)]
    return "\n".join(lines) + "\n"


def main(directory: str) -> None:
    """Write them all."""
    folder = Path(directory)
    (folder / "saltwisted.1").write_text(overview())
    for name, (_, what) in COMMANDS.items():
        (folder / f"saltwisted-{name}.1").write_text(page(name, what))


if __name__ == "__main__":
    main(*sys.argv[1:])
