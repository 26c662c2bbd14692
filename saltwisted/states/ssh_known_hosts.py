"""
Hosts whose keys ssh knows.
"""

from __future__ import annotations

import os
from typing import Any

from saltwisted.modules._arguments import picked
from saltwisted.worker.exceptions import CommandNotFoundError

__salt__: Any
__opts__: Any
__virtualname__ = "ssh_known_hosts"

_CHECKED = ("key", "fingerprint", "port", "fingerprint_hash_type")
"""Arguments of C{present} that C{ssh.check_known_host} takes."""


def __virtual__() -> str:
    return __virtualname__


def _file(user: str | None, config: str | None) -> tuple[str, str]:
    """The file of a user or of all; and what is wrong with it."""
    path = config or (".ssh/known_hosts" if user else "/etc/ssh/ssh_known_hosts")
    if not user and not os.path.isabs(path):
        return path, 'If not specifying a "user", specify an absolute "config".'
    return path, ""


def _done(
    name: str, result: bool | None, comment: str, changes: dict[str, Any] | None = None
) -> dict[str, Any]:
    return {"name": name, "changes": changes or {}, "result": result, "comment": comment}


def _forecast(name: str, path: str, given: dict[str, Any]) -> dict[str, Any]:
    """What C{present} would do."""
    key, fingerprint, enc = given["key"], given["fingerprint"], given["enc"]
    if key and fingerprint:
        return _done(name, False, 'Specify either "key" or "fingerprint", not both.')
    if key and not enc:
        return _done(name, False, 'Required argument "enc" if using "key" argument.')
    try:
        found = __salt__["ssh.check_known_host"](
            given["user"], name, config=path, **picked(given, _CHECKED)
        )
    except CommandNotFoundError as error:
        return _done(name, False, f"ssh.check_known_host error: {error}")
    if isinstance(found, dict) and "error" in found:
        return _done(name, False, found["error"])
    if found == "exists":
        return _done(name, True, f"Host {name} is already in {path}")
    verb = "added to" if found == "add" else "updated in"
    return _done(name, None, f"Key for {name} is set to be {verb} {path}")


def present(
    name: str,
    user: str | None = None,
    fingerprint: str | None = None,
    key: str | None = None,
    port: Any = None,
    enc: str | None = None,
    config: str | None = None,
    hash_known_hosts: bool = True,
    timeout: Any = 5,
    fingerprint_hash_type: str | None = None,
) -> dict[str, Any]:
    """
    A host's key is known.

    user
        For whom; for everybody by default.
    fingerprint
        Ask the host for its keys and take the one with this fingerprint.
    key, enc
        The key itself, of this kind, without asking the host.
    hash_known_hosts
        Do not write the host's name in clear.
    """
    path, wrong = _file(user, config)
    if wrong:
        return _done(name, False, wrong)
    if __opts__["test"]:
        return _forecast(name, path, locals())
    did = __salt__["ssh.set_known_host"](
        user=user,
        hostname=name,
        fingerprint=fingerprint,
        key=key,
        port=port,
        enc=enc,
        config=path,
        hash_known_hosts=hash_known_hosts,
        timeout=timeout,
        fingerprint_hash_type=fingerprint_hash_type,
    )
    if did["status"] == "exists":
        return _done(name, True, f"{name} already exists in {path}")
    if did["status"] == "error":
        return _done(name, False, did["error"])
    changes = {"old": did["old"], "new": did["new"]}
    new = did["new"][0]
    if key:
        text = f"{name}'s key saved to {path} (key: {new['key']})"
    elif fingerprint:
        text = f"{name}'s key saved to {path} (fingerprint: {new['fingerprint']})"
    elif enc:
        text = f"{name}'s {enc} key saved to {path} (key: {new['key']})"
    else:
        text = f"{name}'s key(s) saved to {path}"
    return _done(name, True, text, changes)


def absent(name: str, user: str | None = None, config: str | None = None) -> dict[str, Any]:
    """
    No key of a host is known.
    """
    path, wrong = _file(user, config)
    if wrong:
        return _done(name, False, wrong)
    words = {"user": user, "hostname": name, "config": path}
    known = __salt__["ssh.get_known_host_entries"](**words)
    if not known:
        return _done(name, True, "Host is already absent")
    if __opts__["test"]:
        return _done(name, None, f"Key for {name} is set to be removed from {path}")
    did = __salt__["ssh.rm_known_host"](**words)
    if did["status"] == "error":
        return _done(name, False, did["error"])
    return _done(name, True, did["comment"], {"old": known, "new": None})
