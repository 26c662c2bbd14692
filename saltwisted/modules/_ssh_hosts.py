"""
Hosts that ssh knows, as functions of C{ssh}.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from typing import Any

from saltwisted.modules import _ssh_files
from saltwisted.modules._system import needs
from saltwisted.worker.exceptions import CommandExecutionError

log = logging.getLogger(__name__)

__salt__: dict[str, Any]
__grains__: dict[str, Any]

DEFAULT_SSH_PORT = 22


def _known_hosts(config: str | None, user: str | None) -> Any:
    """Path of the file, or why there is none."""
    path = config or (".ssh/known_hosts" if user else "/etc/ssh/ssh_known_hosts")
    if os.path.isabs(path):
        return path
    if not user:
        return {"status": "error", "error": "Cannot determine absolute path to file."}
    entry = __salt__["user.info"](user)
    if not entry:
        return {"status": "error", "error": f"User {user} does not exist"}
    return os.path.join(entry["home"], path)


def _with_port(hostname: str, port: Any) -> str:
    return hostname if not port or port == DEFAULT_SSH_PORT else f"[{hostname}]:{port}"


def _parse_hosts(lines: Iterable[str], hash_type: str | None) -> Iterator[dict[str, str]]:
    for line in lines:
        words = line.split()
        if line.strip().startswith("#") or len(words) != 3:
            continue
        fingerprint = _ssh_files.fingerprint(words[2], hash_type)
        if fingerprint:
            yield {
                "hostname": words[0],
                "key": words[2],
                "enc": words[1],
                "fingerprint": fingerprint,
            }


@needs("ssh-keygen")
def get_known_host_entries(
    user: str | None,
    hostname: str,
    config: str | None = None,
    port: Any = None,
    fingerprint_hash_type: str | None = None,
) -> Any:
    """
    What is known of a host; C{None} if nothing.

    CLI Example::

        salt '*' ssh.get_known_host_entries <user> <hostname>
    """
    path = _known_hosts(config, user)
    if isinstance(path, dict):
        return path
    command = ["ssh-keygen", "-F", _with_port(hostname, port), "-f", path]
    output = __salt__["cmd.run"](command, ignore_retcode=True, python_shell=False)
    return list(_parse_hosts(output.splitlines(), fingerprint_hash_type)) or None


@needs("ssh-keyscan")
def recv_known_host_entries(
    hostname: str,
    enc: str | None = None,
    port: Any = None,
    hash_known_hosts: bool = True,
    timeout: Any = 5,
    fingerprint_hash_type: str | None = None,
) -> list[dict[str, str]] | None:
    """
    The keys that a host shows; C{None} if it does not answer (five tries).

    @param timeout: seconds, of each try.

    CLI Example::

        salt '*' ssh.recv_known_host_entries <hostname> enc=<enc> port=<port>
    """
    command = ["ssh-keyscan"]
    if port:
        command += ["-p", port]
    if enc:
        command += ["-t", enc]
    elif __grains__.get("osfinger") == "CentOS-5":
        command += ["-t", "rsa"]
    if hash_known_hosts:
        command.append("-H")
    command += ["-T", str(timeout), hostname]
    lines: list[str] = []
    for _attempt in range(5):
        lines = __salt__["cmd.run"](command, python_shell=False).splitlines()
        if lines:
            break
    return list(_parse_hosts(lines, fingerprint_hash_type)) or None


def check_known_host(
    user: str | None = None,
    hostname: str | None = None,
    key: str | None = None,
    fingerprint: str | None = None,
    config: str | None = None,
    port: Any = None,
    fingerprint_hash_type: str | None = None,
) -> Any:
    """
    Whether a host is known, with a key or fingerprint: C{exists}, C{update} or C{add}.

    CLI Example::

        salt '*' ssh.check_known_host <user> <hostname> key='AAAA...FAaQ=='
    """
    if not hostname:
        return {"status": "error", "error": "hostname argument required"}
    config = config or (".ssh/known_hosts" if user else "/etc/ssh/ssh_known_hosts")
    entries = get_known_host_entries(
        user, hostname, config=config, port=port, fingerprint_hash_type=fingerprint_hash_type
    )
    if isinstance(entries, dict):
        return entries
    if not entries:
        return "add"
    for field, wanted in (("key", key), ("fingerprint", fingerprint)):
        if wanted:
            return "exists" if wanted in [entry[field] for entry in entries] else "update"
    return "exists"


def _give_back(path: str, user: str | None) -> None:
    """ssh-keygen writes a new file; it is to be the user's."""
    if user and os.geteuid() == 0:
        entry = __salt__["user.info"](user)
        os.chown(path, entry["uid"], entry["gid"])


def rm_known_host(
    user: str | None = None,
    hostname: str | None = None,
    config: str | None = None,
    port: Any = None,
) -> dict[str, Any]:
    """
    Forget a host.

    CLI Example::

        salt '*' ssh.rm_known_host <user> <hostname>
    """
    if not hostname:
        return {"status": "error", "error": "hostname argument required"}
    path = _known_hosts(config, user)
    if isinstance(path, dict):
        return path
    if not os.path.isfile(path):
        return {"status": "error", "error": f"Known hosts file {path} does not exist"}
    command = ["ssh-keygen", "-R", _with_port(hostname, port), "-f", path]
    output = __salt__["cmd.run"](command, python_shell=False)
    _give_back(path, user)
    return {"status": "removed", "comment": output}


def set_known_host(
    user: str | None = None,
    hostname: str | None = None,
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
    Know a host by its key: C{exists}, C{updated} with C{old} and C{new}, or C{error}.

    @param fingerprint: accept only a key with it.
    @param key: know this key without asking the host.

    CLI Example::

        salt '*' ssh.set_known_host <user> fingerprint='xx:xx:..:xx' enc='ssh-rsa'
    """
    if not hostname:
        return {"status": "error", "error": "hostname argument required"}
    if port is not None and port != DEFAULT_SSH_PORT and hash_known_hosts:
        text = "argument port can not be used in conjunction with argument hash_known_hosts"
        return {"status": "error", "error": text}
    hashing = {"fingerprint_hash_type": fingerprint_hash_type}
    stored = get_known_host_entries(user, hostname, config=config, port=port, **hashing)
    if isinstance(stored, dict):
        return stored
    stored_keys = [item["key"] for item in stored or () if enc is None or item["enc"] == enc]
    stored_prints = [item["fingerprint"] for item in stored or ()]
    update = (
        not stored
        or bool(fingerprint and fingerprint not in stored_prints)
        or bool(key and key not in stored_keys)
    )
    ask = not update and key is None and fingerprint is None
    if not update and not ask:
        return {"status": "exists", "keys": stored_keys}
    new: list[dict[str, Any]] = [{"hostname": hostname, "enc": enc, "key": key}]
    if not key:
        seen = recv_known_host_entries(
            hostname,
            enc=enc,
            port=port,
            hash_known_hosts=hash_known_hosts,
            timeout=timeout,
            **hashing,
        )
        if not seen:
            return {"status": "error", "error": "Unable to receive remote host keys"}
        if fingerprint and fingerprint not in [item["fingerprint"] for item in seen]:
            text = (
                "Remote host public keys found but none of their fingerprints match the one you"
                " have provided"
            )
            return {"status": "error", "error": text}
        if ask and {item["key"] for item in seen} == set(stored_keys):
            return {"status": "exists", "keys": stored_keys}
        new = [dict(item) for item in seen]
    path = _known_hosts(config, user)
    if isinstance(path, dict):
        return path
    _write_hosts(path, user, hostname, enc, port, new, hash_known_hosts)
    if key and hash_known_hosts:
        __salt__["ssh.hash_known_hosts"](user=user, config=path)
    return {"status": "updated", "old": stored, "new": new}


def _write_hosts(
    path: str,
    user: str | None,
    hostname: str,
    enc: str | None,
    port: Any,
    entries: list[dict[str, Any]],
    hashed: bool,
) -> None:
    mode = 0o600
    if os.path.isfile(path):
        mode = os.stat(path).st_mode & 0o7777
        _drop_host(path, _with_port(hostname, port), enc)
    lines = []
    for entry in entries:
        name = entry["hostname"]
        if not hashed and port not in (DEFAULT_SSH_PORT, None) and ":" not in name:
            entry["port"] = port
            name = f"[{name}]:{port}"
        lines.append(f"{name} {entry['enc']} {entry['key']}\n")
    owner = __salt__["user.info"](user) if user else None
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        try:
            os.makedirs(folder)
        except OSError as error:
            log.error("Unable to create directory %s: %s", folder, error.strerror)
        else:
            if owner:
                os.chown(folder, owner["uid"], owner["gid"])
                os.chmod(folder, 0o700)
    try:
        with open(path, "a", encoding="utf-8", errors="surrogateescape") as file:
            file.writelines(lines)
    except OSError as error:
        raise CommandExecutionError(f"Couldn't append to known hosts file: '{error}'") from error
    if owner and os.geteuid() == 0:
        os.chown(path, owner["uid"], owner["gid"])
    os.chmod(path, mode)


def _drop_host(path: str, hostname: str, enc: str | None) -> None:
    """Remove the lines of a host, of one kind of key if that is given."""
    command = ["ssh-keygen", "-F", hostname, "-f", path]
    output = __salt__["cmd.run"](command, ignore_retcode=True, python_shell=False).splitlines()
    # Each entry is a comment that ends in its line number, and the entry itself.
    numbers = [
        int(comment.split()[-1])
        for comment, entry in zip(output[::2], output[1::2], strict=False)
        if enc is None or entry.split()[-2] == enc
    ]
    if not numbers:
        return
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.readlines()
        _ssh_files.write_lines(
            path, (line for at, line in enumerate(lines, 1) if at not in numbers)
        )
    except OSError as error:
        raise CommandExecutionError(
            f"Couldn't remove old entry(ies) from known hosts file: '{error}'"
        ) from error


@needs("ssh-keygen")
def hash_known_hosts(user: str | None = None, config: str | None = None) -> dict[str, Any]:
    """
    Hash the names of all known hosts.

    CLI Example::

        salt '*' ssh.hash_known_hosts
    """
    path = _known_hosts(config, user)
    if isinstance(path, dict):
        return path
    if not os.path.isfile(path):
        return {"status": "error", "error": f"Known hosts file {path} does not exist"}
    mode = os.stat(path).st_mode & 0o7777
    output = __salt__["cmd.run"](["ssh-keygen", "-H", "-f", path], python_shell=False)
    os.chmod(path, mode)
    _give_back(path, user)
    return {"status": "updated", "comment": output}
