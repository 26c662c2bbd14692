"""
C{saltwisted auth test}: what a login may, and why.
"""

from __future__ import annotations

import getpass
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from saltwisted.cli import clusterask, console, link, options
from saltwisted.cli.options import Parser
from saltwisted.errors import RemoteError, TransportClosed

EX_REFUSED = 1


def _options(parser: Parser) -> None:
    parser.add_option(
        "-a",
        "--auth",
        "--eauth",
        dest="eauth",
        default="",
        metavar="EAUTH",
        help="use only this backend of external_auth (default: all)",
    )
    options._flag(
        parser,
        "--login",
        help="ask for the password, and check it like a login (without this option, the backend "
        "looks the user up if it can)",
    )
    clusterask.json_option(parser)


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """C{saltwisted auth test USER}."""
    line = clusterask.read(
        argv,
        environ,
        "auth",
        "test USER [-a EAUTH] [--login]",
        "Shows what a user of external_auth may do on this master, and why: the requests to the "
        "backend and its answers, the user's groups, and the rules that apply. It logs nobody "
        "in. Exits with 1 if no backend lets the user in.",
        _options,
    )
    if len(line.args) != 2 or line.args[0] != "test":
        line.parser.error("give 'test' and the name of a user")
    asked: dict[str, Any] = {"user": line.args[1]}
    if line.options.eauth:
        asked["eauth"] = line.options.eauth
    if line.options.login:
        asked["password"] = _password()
    client = link.connect(line.opts)
    try:
        found = client.call("auth.test", **asked)
    except TransportClosed:
        how = link.start(line.opts)
        raise SystemExit(f"No master runs with this configuration. {how}") from None
    except RemoteError as error:
        raise SystemExit(clusterask.told(error)) from None
    finally:
        client.close()
    if line.options.json:
        clusterask.print_json(found)
    elif not found:
        console.say("external_auth has no backend, so nobody can log in.")
    else:
        for each in found:
            _print(each)
    return 0 if any(each["ok"] for each in found) else EX_REFUSED


def _password() -> str:
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\n")
    return getpass.getpass("password: ", sys.stderr)


def _print(found: Mapping[str, Any]) -> None:
    console.say(f"{found['name']} by {found['eauth']}: {_verdict(found)}")
    for step in found["steps"]:
        console.say(f"  {step}")
    if not found["configured"]:
        console.say("  external_auth does not have this backend: its logins are refused")
        return
    if found["groups"] and not found["steps"]:
        console.say(f"  groups: {', '.join(found['groups'])}")
    if not found["ok"]:
        return
    if not any(each["rules"] for each in found["rules"]):
        console.say("  may nothing: external_auth names neither the user nor a group of the user")
    for each in found["rules"]:
        console.say(f"  may, because of {each['because']}:")
        for rule in each["rules"]:
            console.say(f"    {rule if isinstance(rule, str) else json.dumps(rule)}")


def _verdict(found: Mapping[str, Any]) -> str:
    if found["problem"]:
        return found["problem"] if not found["ok"] else f"let in, but {found['problem']}"
    if found["ok"]:
        return "the password is right" if found["proven"] else "known; no password was tried"
    if found["closed"]:
        return "the account is closed"
    return "refused" if found["proven"] else "unknown"
