"""
Keys of ssh: who may log in, which hosts are known, which keys there are.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import logging
import os
import re
import subprocess
from collections.abc import Iterable, Iterator
from typing import Any

from saltwisted.modules import _files
from saltwisted.modules._system import needs
from saltwisted.worker import systools
from saltwisted.worker.exceptions import CommandExecutionError

log = logging.getLogger(__name__)

__salt__: dict[str, Any]
__grains__: dict[str, Any]
__context__: dict[str, Any]

DEFAULT_SSH_PORT = 22

_SHORT = {
    "ssh-rsa": ("r", "rsa", "ssh-rsa"),
    "ssh-dss": ("d", "dsa", "dss", "ssh-dss"),
    "ecdsa-sha2-nistp256": ("e", "ecdsa", "ecdsa-sha2-nistp256"),
    "ecdsa-sha2-nistp384": ("ecdsa-sha2-nistp384",),
    "ecdsa-sha2-nistp521": ("ecdsa-sha2-nistp521",),
    "ssh-ed25519": ("ed25519", "ssh-ed25519"),
}
_LONG = frozenset(
    (
        "rsa-sha2-512",
        "rsa-sha2-256",
        "rsa-sha2-512-cert-v01@openssh.com",
        "rsa-sha2-256-cert-v01@openssh.com",
        "ssh-rsa-cert-v01@openssh.com",
        "ecdsa-sha2-nistp256-cert-v01@openssh.com",
        "ecdsa-sha2-nistp384-cert-v01@openssh.com",
        "ecdsa-sha2-nistp521-cert-v01@openssh.com",
        "sk-ecdsa-sha2-nistp256@openssh.com",
        "sk-ecdsa-sha2-nistp256-cert-v01@openssh.com",
        "ssh-ed25519-cert-v01@openssh.com",
        "sk-ssh-ed25519@openssh.com",
        "sk-ssh-ed25519-cert-v01@openssh.com",
    )
)
_KINDS = {short: kind for kind, names in _SHORT.items() for short in names} | {
    kind: kind for kind in _LONG
}

_KEY_LINE = re.compile(r"^(.*?)\s?((?:sk-)?(?:ssh\-|ecds)[\w@.-]+\s.+)$")


def __virtual__() -> Any:
    if not systools.which("ssh"):
        return (False, "The module requires the ssh binary.")
    return True


def _kind(enc: str) -> str:
    """
    The name of a kind of key, from a short one.

    @raises CommandExecutionError: there is no such kind.
    """
    if enc not in _KINDS:
        raise CommandExecutionError(f"Incorrect encryption key type '{enc}'.")
    return _KINDS[enc]


def _line(key: str, enc: str, comment: Any, options: Any) -> str:
    """A line of C{authorized_keys}."""
    head = f"{','.join(options)} " if options else ""
    return f"{head}{enc} {key} {comment}\n"


def _key_file(user: str, config: str) -> str:
    """
    Path of a user's C{authorized_keys}; C{%u}, C{%h} and C{%%} as in C{sshd_config}.

    @raises CommandExecutionError: no such user, or another letter behind a C{%}.
    """
    entry = __salt__["user.info"](user)
    if not entry:
        raise CommandExecutionError(f"User '{user}' does not exist")
    tokens = {"%": "%", "u": user, "h": entry["home"]}

    def token(match: re.Match[str]) -> str:
        letter = match.group(1)
        if not letter:
            raise CommandExecutionError(
                "AuthorizedKeysFile path: Last character can't be escape character"
            )
        if letter not in tokens:
            raise CommandExecutionError(
                f'AuthorizedKeysFile path: unknown token character "%{letter}"'
            )
        return str(tokens[letter])

    return os.path.join(entry["home"], re.sub(r"%(.?)", token, config))


def _fingerprint(key: str, hash_type: str | None) -> str | None:
    """The hash of a key as pairs of digits; C{None} if it is not a key."""
    name = (hash_type or "sha256").lower()
    function = getattr(hashlib, name, None)
    if function is None:
        raise CommandExecutionError(f"The fingerprint_hash_type {name} is not supported.")
    try:
        raw = base64.b64decode(key, validate=True)
    except (binascii.Error, ValueError):
        return None
    return ":".join(f"{byte:02x}" for byte in function(raw).digest())


def _lines_of(path: str) -> list[str]:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return [line.strip() for line in file]


def _write_lines(path: str, lines: Iterable[str]) -> None:
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.writelines(lines)


def _validate_keys(path: str, hash_type: str | None) -> dict[str, dict[str, Any]]:
    """The keys of a file, each with kind, comment, options and fingerprint."""
    try:
        lines = _lines_of(path)
    except OSError as error:
        raise CommandExecutionError(f"Problem reading ssh key file {path}") from error
    found: dict[str, dict[str, Any]] = {}
    for line in lines:
        match = None if line.startswith("#") else _KEY_LINE.match(line)
        if match is None:
            continue
        words = match.group(2).split()
        fingerprint = _fingerprint(words[1], hash_type) if len(words) > 1 else None
        if fingerprint is not None:
            found[words[1]] = {
                "enc": words[0],
                "comment": " ".join(words[2:]),
                "options": match.group(1).split(",") if match.group(1) else [],
                "fingerprint": fingerprint,
            }
    return found


def _keys_of_source(
    source: str, saltenv: str, hash_type: str | None, must_be_there: bool = True
) -> dict[str, dict[str, Any]]:
    """The keys of a file on the master; without any the reason is left for the state."""
    path = __salt__["cp.cache_file"](source, saltenv)
    if must_be_there and not (path and os.path.isfile(path)):
        raise CommandExecutionError("Failed to pull key file from salt file server")
    keys = _validate_keys(path, hash_type) if path else {}
    if path and not keys:
        text = f"No keys detected in {source}. Is file properly formatted?"
        log.error(text)
        __context__["ssh_auth.error"] = text
    return keys


def host_keys(keydir: str | None = None, private: bool = True, certs: bool = True) -> Any:
    """
    The keys of this host.

    @param private: with the private ones.
    @param certs: with certificates.

    CLI Example::

        salt '*' ssh.host_keys keydir=/etc/ssh private=False
    """
    folder = keydir or "/etc/ssh"
    found = {}
    pattern = re.compile(r"ssh_host_(?P<type>.+)_key(?P<pub>(?P<cert>-cert)?\.pub)?")
    for name in os.listdir(folder):
        match = pattern.match(name)
        if match is None:
            continue
        if (not match.group("pub") and private is False) or (
            match.group("cert") and certs is False
        ):
            log.info("Skipping key file %s", name)
            continue
        # The old binary format says so in its first line, and has no more text.
        text = systools.read_text(os.path.join(folder, name))
        first = text.split("\n", 1)[0]
        old = first == "SSH PRIVATE KEY FILE FORMAT 1.1"
        found[match.group("type") + (match.group("pub") or "")] = (first if old else text).strip()
    return found


def auth_keys(
    user: Any = None,
    config: str = ".ssh/authorized_keys",
    fingerprint_hash_type: str | None = None,
) -> dict[str, Any]:
    """
    The keys by which a user can log in; by user for a list of them, or for all.

    CLI Example::

        salt '*' ssh.auth_keys root
        salt '*' ssh.auth_keys user='[user1, user2]'
    """
    users = user or __salt__["user.list_users"]()
    one = not isinstance(users, list)
    found = {}
    for name in [users] if one else users:
        try:
            path = _key_file(name, config)
        except CommandExecutionError:
            continue
        if os.path.isfile(path):
            found[name] = _validate_keys(path, fingerprint_hash_type)
    return found.get(users, {}) if one else found


def check_key_file(
    user: str,
    source: str,
    config: str = ".ssh/authorized_keys",
    saltenv: str = "base",
    fingerprint_hash_type: str | None = None,
) -> dict[str, str]:
    """
    What C{ssh.check_key} says of each key of a file on the master.

    CLI Example::

        salt '*' ssh.check_key_file root salt://ssh/keyfile
    """
    keys = _keys_of_source(source, saltenv, fingerprint_hash_type, must_be_there=False)
    return {
        key: check_key(
            user,
            key,
            data["enc"],
            data["comment"],
            data["options"],
            config=config,
            fingerprint_hash_type=fingerprint_hash_type,
        )
        for key, data in keys.items()
    }


def check_key(
    user: str,
    key: str,
    enc: str,
    comment: str,
    options: Any,
    config: str = ".ssh/authorized_keys",
    cache_keys: Any = None,
    fingerprint_hash_type: str | None = None,
) -> str:
    """
    Whether a key is there: C{exists}, C{update} (with other data) or C{add}.

    CLI Example::

        salt '*' ssh.check_key <user> <key> <enc> <comment> <options>
    """
    wanted = _line(key, _kind(enc), comment, options)
    current = auth_keys(user, config=config, fingerprint_hash_type=fingerprint_hash_type)
    if key not in current:
        return "add"
    data = current[key]
    same = _line(key, data["enc"], data["comment"], data["options"]) == wanted
    return "exists" if same else "update"


def rm_auth_key_from_file(
    user: str,
    source: str,
    config: str = ".ssh/authorized_keys",
    saltenv: str = "base",
    fingerprint_hash_type: str | None = None,
) -> str:
    """
    Remove the keys of a file on the master.

    CLI Example::

        salt '*' ssh.rm_auth_key_from_file <user> salt://ssh_keys/<user>.id_rsa.pub
    """
    keys = _keys_of_source(source, saltenv, fingerprint_hash_type)
    if not keys:
        return "fail"
    answers = {
        rm_auth_key(user, key, config=config, fingerprint_hash_type=fingerprint_hash_type)
        for key in keys
    }
    for answer in ("Key not removed", "Key removed"):
        if answer in answers:
            return answer
    return "Key not present"


def rm_auth_key(
    user: str,
    key: str,
    config: str = ".ssh/authorized_keys",
    fingerprint_hash_type: str | None = None,
) -> str:
    """
    Remove a key by which a user can log in.

    CLI Example::

        salt '*' ssh.rm_auth_key <user> <key>
    """
    current = auth_keys(user, config=config, fingerprint_hash_type=fingerprint_hash_type)
    if key not in current:
        return "Key not present"
    path = _key_file(user, config)
    if not os.path.isfile(path):
        return f"Authorized keys file {path} not present"
    kept = []
    try:
        for line in _lines_of(path):
            match = _KEY_LINE.match(line)
            if line.startswith("#") or (match is not None and match.group(2).split()[1:2] != [key]):
                kept.append(f"{line}\n")
        _write_lines(path, kept)
    except OSError as error:
        log.warning("Could not read/write key file: %s", error)
        return "Key not removed"
    return "Key removed"


def set_auth_key_from_file(
    user: str,
    source: str,
    config: str = ".ssh/authorized_keys",
    saltenv: str = "base",
    fingerprint_hash_type: str | None = None,
    **kwargs: Any,
) -> str:
    """
    Let a user log in by the keys of a file on the master.

    @keyword options: instead of those in the file.

    CLI Example::

        salt '*' ssh.set_auth_key_from_file <user> salt://ssh_keys/<user>.id_rsa.pub
    """
    keys = _keys_of_source(source, saltenv, fingerprint_hash_type)
    if not keys:
        return "fail"
    answers = "".join(
        set_auth_key(
            user,
            key,
            enc=data["enc"],
            comment=data["comment"],
            options=kwargs.get("options") or data["options"],
            config=config,
            cache_keys=list(keys),
            fingerprint_hash_type=fingerprint_hash_type,
        )
        for key, data in keys.items()
    )
    return next((word for word in ("fail", "replace", "new") if word in answers), "no change")


def set_auth_key(
    user: str,
    key: str,
    enc: str = "ssh-rsa",
    comment: str = "",
    options: Any = None,
    config: str = ".ssh/authorized_keys",
    cache_keys: Any = None,
    fingerprint_hash_type: str | None = None,
) -> str:
    """
    Let a user log in by a key: C{new}, C{replace}, C{no change}, or why not.

    @param key: in base 64, without kind and comment.

    CLI Example::

        salt '*' ssh.set_auth_key <user> '<key>' enc='dsa'
    """
    if len(key.split()) > 1:
        return "invalid"
    kind = _kind(enc)
    entry = __salt__["user.info"](user)
    if not entry:
        return "fail"
    if _fingerprint(key, fingerprint_hash_type) is None:
        return "Invalid public key"
    state = check_key(
        user,
        key,
        kind,
        comment,
        options,
        config=config,
        cache_keys=cache_keys,
        fingerprint_hash_type=fingerprint_hash_type,
    )
    if state == "exists":
        return "no change"
    path = _key_file(user, config)
    line = _line(key, kind, comment, options or [])
    if state == "update":
        _replace_line(path, key, line)
        return "replace"
    home = entry.get("home", "")
    if path.startswith(home) and not os.path.isdir(home):
        return "fail"
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        os.makedirs(folder)
        _give(folder, entry, 0o700)
    _append_line(path, line, entry)
    return "new"


def _replace_line(path: str, key: str, line: str) -> None:
    pattern = re.compile(
        r"((.*)\s)?((?:sk-)?(?:ssh|ecdsa)-[a-z0-9@.-]+)\s([a-zA-Z0-9+/]+={0,2})(\s(.*))?"
    )
    lines = []
    try:
        for old in _lines_of(path):
            match = None if old.startswith("#") else pattern.search(old)
            if old:
                lines.append(line if match and match.group(4) == key else f"{old}\n")
        _write_lines(path, lines)
    except OSError as error:
        raise CommandExecutionError(f"Problem reading or writing to key file: {error}") from error


def _append_line(path: str, line: str, entry: dict[str, Any]) -> None:
    there = os.path.isfile(path)
    try:
        with open(path, "ab+") as file:
            if file.seek(0, os.SEEK_END) > 0:
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":
                    file.write(b"\n")
            file.write(line.encode("utf-8", "surrogateescape"))
    except OSError as error:
        raise CommandExecutionError(f"Could not write to key file: {error}") from error
    if not there:
        _give(path, entry, 0o600)


def _give(path: str, entry: dict[str, Any], mode: int) -> None:
    """Make something new a user's own, for SELinux too."""
    if os.geteuid() == 0:
        os.chown(path, entry["uid"], entry["gid"])
    os.chmod(path, mode)
    program = systools.which("restorecon")
    if program:
        subprocess.call([program, path])


# --- hosts


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
        fingerprint = _fingerprint(words[2], hash_type)
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
        _write_lines(path, (line for at, line in enumerate(lines, 1) if at not in numbers))
    except OSError as error:
        raise CommandExecutionError(
            f"Couldn't remove old entry(ies) from known hosts file: '{error}'"
        ) from error


_NAMES = ("id_rsa", "id_dsa", "id_ecdsa", "id_ed25519")


def user_keys(user: Any = None, pubfile: Any = None, prvfile: Any = None) -> dict[str, Any]:
    """
    The keys that users have.

    @param pubfile: a file other than the usual ones, or false for none.
    @param prvfile: likewise for private keys.

    CLI Example::

        salt '*' ssh.user_keys user=user1 pubfile=/home/user1/.ssh/id_rsa.pub prvfile=False
    """
    users = user or __salt__["user.list_users"]()
    names: list[str] = []
    if pubfile:
        names.append(pubfile)
    elif pubfile is not False:
        names += [f"{name}.pub" for name in _NAMES]
    if prvfile:
        names.append(prvfile)
    elif prvfile is not False:
        names += _NAMES
    found: dict[str, Any] = {}
    for one in users if isinstance(users, list) else [users]:
        entry = __salt__["user.info"](one)
        if "home" not in entry:
            continue
        keys = {}
        for name in names:
            path = os.path.join(entry["home"], ".ssh", name)
            if os.path.exists(path) and os.access(path, os.R_OK):
                keys[os.path.basename(name)] = systools.read_text(path).strip()
        if keys:
            found[one] = keys
    return found


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


def key_is_encrypted(key: str) -> bool:
    """
    Whether a private key needs a passphrase.

    @raises CommandExecutionError: it is not a private key.

    CLI Example::

        salt '*' ssh.key_is_encrypted /root/id_rsa
    """
    try:
        with open(key, encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError as error:
        _files.read_error(error, key)
        raise
    if not re.search(r"BEGIN (?:\w+\s)*PRIVATE KEY", text):
        raise CommandExecutionError(f"{key} is not a private key")
    return "ENCRYPTED" in text
