"""
C{saltwisted rotate-identity}: another key for all masters of the cluster.

Stock minions never take another master key by themselves. So those that are here are sent a job
that puts the new key into their C{minion_master.pub} a moment before the masters change; who is not
here, and is no minion of ours, is cut off until somebody does that by hand. Nothing changes
before the second question; a command that was interrupted goes on where it was.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from saltwisted.cli import clusterask, console, link, options
from saltwisted.cli.options import CommandLine, Parser
from saltwisted.errors import RemoteError, TransportClosed

KEY_FILE = "minion_master.pub"
JOB_TIME = 15


def _options(parser: Parser) -> None:
    parser.add_option("-y", "--yes", action="store_true", default=False, help="ask nothing")
    options._flag(parser, "--dry-run", help="say who would be cut off, and change nothing")
    options._flag(
        parser, "--abort", help="give back the present key to minions that hold the next one"
    )


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """C{saltwisted rotate-identity}."""
    line = clusterask.read(
        argv,
        environ,
        "rotate-identity",
        "",
        "Gives all masters of this cluster another identity key. Minions that are here get it "
        "before; stock minions that are not here are cut off, and asked about first.",
        _options,
    )
    if line.args:
        line.parser.error("there is nothing to say to it")
    state = clusterask.ask(line, "identity_prepare")
    if line.options.abort:
        return _abort(line, state)
    _say_counts(state)
    if line.options.dry_run:
        if not state["installed"]:
            clusterask.ask(line, "identity_forget")
        console.say("Nothing was changed.")
        return 0
    if not _agreed(line, f"Send the new key to the {len(state['here'])} minion(s) that are here?"):
        return _abort(line, state)
    asked = [each for each in state["here"] if each not in state["installed"]]
    installed = sorted({*state["installed"], *_install(line, asked, str(state["public"]))})
    clusterask.ask(line, "identity_installed", minions=installed)
    late = sorted(set(state["minions"]) - set(installed))
    console.say(f"{len(installed)} minion(s) have confirmed that they hold it.")
    if late:
        console.say(f"{len(late)} have not: {', '.join(late[:20])}{' ...' * (len(late) > 20)}")
        console.say(
            "Saltwisted minions among them follow by themselves. Stock minions refuse the masters "
            f"until {KEY_FILE} in their pki_dir is removed."
        )
    if not _agreed(line, "Change the key of all masters now?"):
        state["installed"] = installed
        return _abort(line, state)
    done = clusterask.ask(line, "identity_change")
    console.say(f"The key of the masters is {done['fingerprint']} now. All tokens are void.")
    console.say(
        "Where it is written down (master_finger of minions, cluster_pub_fingerprint of masters), "
        "write the new one."
    )
    clusterask.not_told(done)
    return 0


def _say_counts(state: Mapping[str, Any]) -> None:
    away = len(state["minions"]) - len(state["here"])
    console.say(f"Present key: {state['present_fingerprint']}")
    console.say(f"Next key:    {state['fingerprint']}")
    console.say(
        f"{len(state['minions'])} minion(s) are accepted, {len(state['here'])} of them are here "
        f"and will be sent the key. {away} are away: stock minions among them will be cut "
        "off."
    )
    if state["installed"]:
        console.say(
            f"An earlier run was interrupted: {len(state['installed'])} minion(s) hold the next "
            "key already, and refuse the present one at their next sign-in. Go on, or --abort."
        )


def _agreed(line: CommandLine, question: str) -> bool:
    if line.options.yes:
        return True
    sys.stdout.write(f"{question} [n/Y] ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _abort(line: CommandLine, state: Mapping[str, Any]) -> int:
    """The present key for those that hold the next one; then the next one is forgotten."""
    holders = list(state["installed"])
    given = _install(line, holders, str(state["present"]))
    left = sorted(set(holders) - set(given))
    if left:
        clusterask.ask(line, "identity_installed", minions=left)
        console.write_error(
            f"{', '.join(left)}: did not take the present key back. Say --abort again when they "
            f"are here, or remove {KEY_FILE} there by hand.\n"
        )
        return 1
    clusterask.ask(line, "identity_forget")
    console.say("The key of the masters stays as it is.")
    return 0


def _install(line: CommandLine, minions: Sequence[str], public: str) -> list[str]:
    """Write the key where these minions look for it; who has confirmed."""
    confirmed = []
    folders: dict[str, list[str]] = {}
    for minion, value in _job(line, minions, "config.get", ["pki_dir"]).items():
        if isinstance(value, str) and value:
            folders.setdefault(value, []).append(minion)
    for folder, some in sorted(folders.items()):
        # In one piece: a line of it could look like an option to a minion
        arguments = [f"{folder.rstrip('/')}/{KEY_FILE}", public.strip()]
        for minion, value in _job(line, some, "file.write", arguments).items():
            if isinstance(value, str) and value.startswith("Wrote"):
                confirmed.append(minion)
    return sorted(confirmed)


def _job(line: CommandLine, minions: Sequence[str], fun: str, arg: list[str]) -> dict[str, Any]:
    """Minion to what it returned."""
    found: dict[str, Any] = {}
    if not minions:
        return found
    client = link.connect(line.opts)
    try:
        for item in client.stream(
            "run", tgt=list(minions), tgt_type="list", fun=fun, arg=arg, timeout=JOB_TIME
        ):
            if isinstance(item, dict) and item.get("kind") == "return":
                data = item.get("data") or {}
                found[str(item["id"])] = data.get("return")
    except (TransportClosed, RemoteError) as error:
        raise SystemExit(f"The job could not be sent: {error}") from None
    finally:
        client.close()
    return found
