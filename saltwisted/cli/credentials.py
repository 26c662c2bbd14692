"""
What external authentication asks of a user: a token kept from before, or a name and a password.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from typing import Any

from saltwisted.cli import console
from saltwisted.worker.control import ControlClient


def gather(options: Any, opts: Mapping[str, Any], client: ControlClient) -> dict[str, Any]:
    """
    The fields of a request that prove who the user is.

    @return: C{token}, or C{username}, C{password} and C{eauth}.
    @raises SystemExit: 2, when the user gives nothing.
    """
    path = os.path.expanduser(str(opts.get("token_file") or "~/.salt_token"))
    token = _kept_token(path, float(opts.get("token_expire") or 43200))
    if token:
        return {"token": token}
    found = {"eauth": options.eauth}
    try:
        found["username"] = options.username or input("username: ")
        found["password"] = options.password or _hidden("password: ")
    except (EOFError, KeyboardInterrupt):
        console.write_error("ERROR: Authentication failed\n")
        raise SystemExit(2) from None
    if not options.mktoken:
        return found
    answer = client.call("mk_token", **found)
    if not isinstance(answer, dict) or not answer.get("token"):
        console.write_error("ERROR: Authentication failed\n")
        raise SystemExit(2)
    _keep_token(path, answer["token"])
    return {"token": answer["token"]}


def _hidden(prompt: str) -> str:
    import getpass

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
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(token)
