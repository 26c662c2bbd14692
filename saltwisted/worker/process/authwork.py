"""
Judging passwords, in a process that may block: reading files, asking PAM and its modules.

A call has the shape C{{"eauth", "settings", "username", "password"}}; the answer is
C{{"ok": bool, "groups": [names], "closed": bool, "problem": text}}: C{closed} when an account may
not be used though the password is right, C{problem} for the master's log when nobody could be let
in.
"""

from __future__ import annotations

import grp
import hmac
import os
import pwd
from collections.abc import Mapping
from typing import Any

from saltwisted.domain.passwords import PasswordFileError, right
from saltwisted.worker import libcrypt
from saltwisted.worker.process import pam

LARGEST = 16 * 1024 * 1024


def serve(payload: Mapping[str, Any], daemon: Any, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The entry of a pooled worker process."""
    eauth, settings = payload["eauth"], payload["settings"]
    username, password = payload["username"], payload["password"]
    answer: dict[str, Any] = {"ok": False, "groups": [], "closed": False, "problem": ""}
    if eauth == "auto":
        answer["ok"] = True
    elif eauth == "sharedsecret":
        _by_secret(settings.get("sharedsecret"), password, answer)
    elif eauth == "file":
        _by_file(settings, username, password, answer)
    elif eauth == "pam":
        _by_pam(str(settings.get("service") or "login"), username, password, answer)
    return answer


def serve_near(payload: Mapping[str, Any], daemon: Any, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The same, in processes of their own for users of this machine."""
    return serve(payload, daemon, facts)


def _by_secret(secret: Any, password: str, answer: dict[str, Any]) -> None:
    if not isinstance(secret, (str, int)) or not str(secret):
        answer["problem"] = "external_auth: sharedsecret needs the option 'sharedsecret'"
        return
    answer["ok"] = hmac.compare_digest(str(secret).encode(), password.encode())


def _by_file(
    settings: Mapping[str, Any], username: str, password: str, answer: dict[str, Any]
) -> None:
    path = str(settings.get("filename") or "")
    if not path:
        answer["problem"] = "external_auth: file needs ^filename"
        return
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            text = file.read(LARGEST)
        answer["ok"] = right(text, settings, username, password, libcrypt.crypt)
    except (OSError, PasswordFileError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        answer["problem"] = f"external_auth: file: {path}: {reason}"


def _by_pam(service: str, username: str, password: str, answer: dict[str, Any]) -> None:
    try:
        answer["ok"], answer["closed"] = pam.ask(username, password, service)
    except pam.PamMissing as error:
        answer["problem"] = str(error)
        return
    if answer["ok"]:
        answer["groups"] = groups_of(username)
    elif not answer["closed"]:
        answer["problem"] = pam.why_not()


def groups_of(username: str) -> list[str]:
    """The names of a user's groups on this machine."""
    try:
        numbers = os.getgrouplist(username, pwd.getpwnam(username).pw_gid)
    except (KeyError, OSError):
        return []
    found = set()
    for number in numbers:
        try:
            found.add(grp.getgrgid(number).gr_name)
        except KeyError:
            continue
    return sorted(found)
