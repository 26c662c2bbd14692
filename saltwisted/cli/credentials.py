"""
What external authentication asks of a user: a token kept from before, or a name and a password.
"""

from __future__ import annotations

import getpass
import os
import sys
import time
from collections.abc import Mapping
from typing import Any

from saltwisted.cli import console
from saltwisted.config.logins import why_not
from saltwisted.errors import RemoteError
from saltwisted.kinds import LOGINS
from saltwisted.worker.control import ControlClient
from saltwisted.worker.freshfile import fresh


def gather(options: Any, opts: Mapping[str, Any], client: ControlClient) -> dict[str, Any]:
    """
    The fields of a request that prove who the user is.

    @return: C{token}, or C{username}, C{password} and C{eauth}.
    @raises SystemExit: 2, when the user gives nothing, or names a backend that is not there.
    """
    path = token_file(opts)
    given = options.username or options.password or options.mktoken
    token = "" if given else _kept_token(path, float(opts.get("token_expire") or 43200))
    if token:
        return {"token": token}
    if why_not(options.eauth):
        console.say(
            f'The specified external authentication system "{options.eauth}" is not available'
        )
        console.say(f"Available eauth types: {', '.join(LOGINS.here)}")
        _failed()
    found = {"eauth": options.eauth}
    try:
        found["username"] = options.username or input("username: ") or getpass.getuser()
        found["password"] = options.password or _hidden("password: ")
    except (EOFError, KeyboardInterrupt):
        _failed()
    if not options.mktoken:
        return found
    try:
        answer = client.call("mk_token", **found)
    except RemoteError:
        # The request itself is refused as well then, in the words of its kind
        return found
    _keep_token(path, str(answer["token"]))
    return {"token": answer["token"]}


def token_file(opts: Mapping[str, Any]) -> str:
    """Where the token lies: C{token_file}, or Salt's place for it."""
    given = opts.get("token_file")
    if given:
        return os.path.abspath(os.path.expanduser(str(given)))
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    folder = os.path.join(config, "salt")
    return os.path.join(folder if os.path.isdir(folder) else os.path.expanduser("~"), "salt_token")


def _failed() -> None:
    console.write_error("ERROR: Authentication failed\n")
    raise SystemExit(2) from None


def _hidden(prompt: str) -> str:
    if not sys.stdin.isatty():
        # getpass would warn that it cannot hide what nobody types
        return input()
    return getpass.getpass(prompt, sys.stderr)


def _kept_token(path: str, expire: float) -> str:
    try:
        if os.stat(path).st_mtime + expire < time.time():
            return ""
        with open(path, encoding="ascii") as file:
            return file.read(4096).strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _keep_token(path: str, token: str) -> None:
    """Only its owner may read it; what lies there is replaced, a link is not followed."""
    try:
        with fresh(path, sync=False) as file:
            file.write(token.encode("ascii"))
    except OSError as error:
        console.write_error(f"The token was made, but cannot be kept in {path}: {error}\n")
