"""
Which keychain is meant, and what its passphrase is: for the functions of L{saltwisted.modules.gpg}.
"""

from __future__ import annotations

import getpass
import logging
import os
import pwd
from typing import Any

from saltwisted.modules._gpg_run import Gpg
from saltwisted.worker.exceptions import SaltInvocationError

log = logging.getLogger(__name__)


def _account(salt: Any, user: str | None) -> dict[str, Any]:
    own = salt["config.option"]("user") or getpass.getuser()
    found: dict[str, Any] = salt["user.info"](user or own)
    if not found and user == "salt":
        found = salt["user.info"](own)
    if not found:
        raise SaltInvocationError(f"User {user or own} does not exist")
    return found


def _home(salt: Any, user: str | None) -> str:
    """Where the keychain of an account is."""
    if user == "salt":
        return os.path.join(salt["config.get"]("config_dir"), "gpgkeys")
    if user is None:
        named = salt["environ.get"]("GNUPGHOME")
    else:
        asked = {"python_shell": True, "runas": user}
        named = salt["cmd.run_stdout"]('echo -n "$GNUPGHOME"', **asked).strip()
        if named.startswith("~"):
            log.warning("Found GNUPGHOME beginning with tilde, ignoring")
            named = ""
    return str(named or os.path.join(_account(salt, user)["home"], ".gnupg"))


def keychain(
    salt: Any, user: str | None = None, gnupghome: str | None = None, keyring: Any = None
) -> Gpg:
    """The keychain that is meant. Its directory is made if it is not there."""
    if keyring and not isinstance(keyring, str):
        raise SaltInvocationError(
            "Please pass keyring as a string. Multiple keyrings are not allowed"
        )
    home = str(gnupghome or _home(salt, user))
    info = _account(salt, user)
    if not os.path.isdir(home):
        salt["file.mkdir"](home, user=info["uid"], group=info["gid"], mode="0700")
    someone = None if user in (None, "salt") else pwd.getpwnam(info["name"])
    return Gpg(home, keyring or None, someone)


def passphrase_of(salt: Any) -> str:
    """What the pillar says, for whoever has asked for it."""
    found = salt["pillar.get"]("gpg_passphrase", unmask=True)
    if not found:
        raise SaltInvocationError("gpg_passphrase not available in pillar.")
    return str(found)


def content(text: Any, filename: str | None) -> bytes:
    """What is to be worked on."""
    if text:
        return text if isinstance(text, bytes) else str(text).encode()
    if not filename:
        raise SaltInvocationError("filename or text must be passed.")
    with open(filename, "rb") as file:
        return file.read()


def write(path: str, data: bytes) -> None:
    """Put it into a file."""
    with open(path, "wb") as file:
        file.write(data)
