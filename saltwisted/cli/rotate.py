"""
C{saltwisted rotate-identity}: another key for all masters of the cluster.

Stock minions never take another master key by themselves. So those that are here are sent a job
that puts the new key into their C{minion_master.pub} a moment before the masters change; a
stock minion that is not here is cut off until somebody does that by hand. Nothing changes
before the second question; a command that was interrupted continues where it was.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from saltwisted.cli import clusterask, console, link, options
from saltwisted.cli.options import CommandLine, Parser
from saltwisted.errors import RemoteError, TransportClosed
from saltwisted.words import HAVE, are, counted

KEY_FILE = "minion_master.pub"
JOB_TIME = 15
EX_REFUSED = 1
"""Somebody was asked, and said no."""


def _options(parser: Parser) -> None:
    parser.add_option("-y", "--yes", action="store_true", default=False, help="do not ask")
    clusterask.dry_run_option(parser)
    options._flag(
        parser,
        "--abort",
        help=("give up: give the present key back to minions that hold the next one"),
    )


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """C{saltwisted rotate-identity}."""
    line = clusterask.read(
        argv,
        environ,
        "rotate-identity",
        "",
        "Gives all masters of this cluster a new identity key. Minions that are connected get "
        "it first. Stock minions that are not connected are cut off; you are asked before.",
        _options,
    )
    if line.args:
        line.parser.error("this command takes no arguments")
    dry = {"dry_run": True} if line.options.dry_run else {}
    state = clusterask.ask(line, "identity_prepare", **dry)
    if line.options.abort and not dry:
        return _abort(line, state)
    _say_counts(state)
    if dry:
        if line.options.abort:
            console.say("The key of the masters stays as it is.")
        clusterask.nothing_changed(line)
        return 0
    if not _agreed(line, f"Send the new key to {counted(len(state['here']), 'connected minion')}?"):
        return _abort(line, state) or EX_REFUSED
    asked = [each for each in state["here"] if each not in state["installed"]]
    installed = sorted({*state["installed"], *_install(line, asked, str(state["public"]))})
    clusterask.ask(line, "identity_installed", minions=installed)
    late = sorted(set(state["minions"]) - set(installed))
    console.say(f"{are(len(installed), 'minion', verbs=HAVE)} confirmed the new key.")
    if late:
        console.say(
            f"{are(len(late), 'minion', verbs=HAVE)} not: "
            f"{', '.join(late[:20])}{' ...' * (len(late) > 20)}"
        )
        console.say(
            "Saltwisted minions among them will follow by themselves. Stock minions refuse "
            f"the masters until you remove {KEY_FILE} from their pki_dir."
        )
    if not _agreed(line, "Change the key of all masters now?"):
        state["installed"] = installed
        return _abort(line, state) or EX_REFUSED
    done = clusterask.ask(line, "identity_change")
    console.say(f"The masters' key is {done['fingerprint']} now. All tokens are void.")
    console.say(
        "If you have written it down (master_finger of minions, cluster_pub_fingerprint of "
        "masters), write the new one there."
    )
    clusterask.not_told(done)
    return 0


def _say_counts(state: Mapping[str, Any]) -> None:
    away = len(state["minions"]) - len(state["here"])
    console.say(f"Present key: {state['present_fingerprint']}")
    console.say(f"Next key:    {state['fingerprint'] or '(not made yet)'}")
    console.say(
        f"Accepted: {counted(len(state['minions']), 'minion')}. Connected, and about to get "
        f"the key: {len(state['here'])}. Not connected: {away}; stock minions among these will "
        "be cut off."
    )
    if state["installed"]:
        console.say(
            "An earlier run was interrupted: "
            f"{are(len(state['installed']), 'minion', verbs=HAVE)} the next key already, and "
            "will refuse the present one at the next sign-in. Go on, or use --abort."
        )


def _agreed(line: CommandLine, question: str) -> bool:
    if line.options.yes:
        return True
    sys.stdout.write(f"{question} [y/N] ")
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
            f"{', '.join(left)}: did not take the present key back. Use --abort again when "
            f"they are connected, or remove {KEY_FILE} there by hand.\n"
        )
        return 1
    clusterask.ask(line, "identity_forget")
    console.say("The key of the masters stays as it is.")
    return 0


def _install(line: CommandLine, minions: Sequence[str], public: str) -> list[str]:
    """Write the key where these minions look for it; the ids that have confirmed."""
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
