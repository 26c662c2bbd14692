"""
C{saltwisted}: the one executable, whose subcommands are Salt's own command names.

Called through a link named C{salt}, C{salt-key}, ... it is that command. Each
subcommand lives in a module of its own, which is imported when it runs: what a
command does not need, it does not wait for.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from saltwisted import advice
from saltwisted.errors import SaltwistedError, WrongPlace

COMMANDS = {
    "salt": ("salt", "run functions on minions"),
    "salt-key": ("key", "accept, reject, delete and show the keys of minions"),
    "salt-call": ("call", "run a function on this machine"),
    "salt-run": ("run", "run a runner on the master"),
    "salt-cp": ("cp", "copy files to minions"),
    "token": ("tokens:token", "create, list and revoke the tokens with which machines join"),
    "join": (
        "tokens:join",
        "join this node, or this machine's minion, to a cluster",
    ),
    "keys": ("keys", "show when and where minions' keys were seen, accepted or rejected"),
    "members": ("cluster:members", "show the members of the cluster and their state"),
    "leave": ("cluster:leave", "take this node out of its cluster"),
    "remove": ("cluster:remove", "remove another node from the cluster, for good"),
    "rotate-identity": ("rotate", "give all masters of the cluster a new identity key"),
    "cluster": ("cluster:cluster", "found a cluster with this node"),
    "schedule": ("schedule", "list, add and change the scheduled jobs of the master"),
    "orch": ("orch", "show, resume or stop orchestrations"),
    "roots": ("roots", "keep file_roots and pillar_roots alike on all masters of a cluster"),
    "reactor": ("automation:reactor", "show what an event would trigger, and run nothing"),
    "receipts": ("automation:receipts", "show which node did what, and because of which event"),
    "automation": ("automation", "pause or resume what masters do by themselves"),
    "demo": ("democommand", "start a temporary master and minions, and show what they do"),
    "status": (
        "status",
        "show whether the daemons on this machine serve; the exit code says it too",
    ),
    "doctor": ("doctor", "find what is wrong with the daemons on this machine, and what fixes it"),
    "check": ("check", "read a daemon's configuration as its start does, and start nothing"),
    "auth": ("auth", "show what a login may, and why"),
    "backup": ("backup", "save all state of this machine's master in one file, while it runs"),
    "restore": ("backup:restore", "put the state from a backup back in its place"),
    "takeover": ("takeover", "replace the stock salt-master on this machine, or go back to it"),
    "complete": ("complete", "print words with which a shell can complete a command"),
}
"""Name to module (and function, if that is not C{main}) and one line of help."""

EX_USAGE = 64
EX_CONFIG = 78
"""As a daemon leaves that a person has to mend something for."""


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run the command that the words, or the name of the executable, ask for.

    @param argv: words with the program's name first; C{sys.argv} if not given.
    @return: the exit status.
    """
    os.umask(os.umask(0o022) | 0o022)  # what we make, nobody else may write to
    words = list(sys.argv if argv is None else argv)
    name = os.path.basename(words[0]) if words else "saltwisted"
    rest = words[1:]
    if name not in COMMANDS:
        if not rest or rest[0] in ("-h", "--help", "help"):
            sys.stdout.write(usage())
            return 0 if rest else EX_USAGE
        if rest[0] == "--version":
            return _version()
        if rest[0] in ("-V", "--versions-report"):
            return _report()
        name, rest = rest[0], rest[1:]
        if name not in COMMANDS:
            sys.stderr.write(_unknown(name))
            return EX_USAGE
    return run(name, rest)


def run(name: str, words: Sequence[str]) -> int:
    """Run a subcommand; C{SystemExit} in it becomes its status."""
    try:
        module, _, function = COMMANDS[name][0].partition(":")
        command = import_module(f"saltwisted.cli.{module}")
        status: int = getattr(command, function or "main")(words)
    except SystemExit as leaving:
        code = leaving.code
        if code is None or isinstance(code, int):
            return code or 0
        sys.stderr.write(f"{code}\n")
        return 1
    except WrongPlace as error:
        sys.stderr.write(f"saltwisted: {error}\n")
        return EX_CONFIG
    except SaltwistedError as error:
        # A broken configuration, a disk that refuses: one line that says so, in every command
        sys.stderr.write(f"saltwisted: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\nExiting gracefully on Ctrl-c\n")
        return 0
    except BrokenPipeError:
        return 0
    return status


def usage() -> str:
    """The list of subcommands."""
    from saltwisted.tools import units

    lines = ["Usage: saltwisted COMMAND [options] [arguments]", ""]
    lines.extend(f"  {name:<16} {text}" for name, (_, text) in COMMANDS.items())
    lines += [
        "",
        "  --version          show the version",
        "  --versions-report  show the versions of everything that is used",
        "",
        "saltwisted COMMAND --help shows the options of a command. Through a link with the name of",
        "a command, saltwisted is that command. A daemon is started with",
        f"{units.start('master', {}).command} (or minion, cluster).",
    ]
    return "\n".join(lines) + "\n"


def _unknown(name: str) -> str:
    from difflib import get_close_matches

    from saltwisted.cli.elsewhere import COMMANDS as ELSEWHERE
    from saltwisted.cli.elsewhere import DAEMONS

    if name in ELSEWHERE:
        return f"saltwisted: error: {name} is not part of saltwisted: {ELSEWHERE[name]}\n"
    if name in DAEMONS:
        from saltwisted.tools import units

        start = units.start(DAEMONS[name], {})
        return f"saltwisted: error: there is no command {name!r}; it is a daemon. {start}\n"
    near = get_close_matches(name, COMMANDS, 1, 0.5)
    hint = f" Did you mean {near[0]}?" if near else ""
    return f"saltwisted: error: there is no command {name!r}.{hint}\n{advice.of('commands.list')}\n"


def _version() -> int:
    from saltwisted import __version__
    from saltwisted.config.compat import COMPAT_VERSION_TEXT

    sys.stdout.write(f"saltwisted {__version__} (Salt {COMPAT_VERSION_TEXT})\n")
    return 0


def _report() -> int:
    from saltwisted.worker.versions import versions_report

    sys.stdout.write("\n".join(versions_report()) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
