"""
Keys of ssh: who may log in, which hosts are known, which keys there are.
"""

from __future__ import annotations

import logging
import os
import re
import subprocess
from typing import Any

from saltwisted.modules import _files, _ssh_files
from saltwisted.worker import systools
from saltwisted.worker.exceptions import CommandExecutionError

log = logging.getLogger(__name__)
__parts__ = ("_ssh_hosts",)

__salt__: dict[str, Any]
__context__: dict[str, Any]


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


def _validate_keys(path: str, hash_type: str | None) -> dict[str, dict[str, Any]]:
    """The keys of a file, each with kind, comment, options and fingerprint."""
    try:
        lines = _ssh_files.lines_of(path)
    except OSError as error:
        raise CommandExecutionError(f"Problem reading ssh key file {path}") from error
    found: dict[str, dict[str, Any]] = {}
    for line in lines:
        match = None if line.startswith("#") else _KEY_LINE.match(line)
        if match is None:
            continue
        words = match.group(2).split()
        fingerprint = _ssh_files.fingerprint(words[1], hash_type) if len(words) > 1 else None
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
        for line in _ssh_files.lines_of(path):
            match = _KEY_LINE.match(line)
            if line.startswith("#") or (match is not None and match.group(2).split()[1:2] != [key]):
                kept.append(f"{line}\n")
        _ssh_files.write_lines(path, kept)
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
    if _ssh_files.fingerprint(key, fingerprint_hash_type) is None:
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
        for old in _ssh_files.lines_of(path):
            match = None if old.startswith("#") else pattern.search(old)
            if old:
                lines.append(line if match and match.group(4) == key else f"{old}\n")
        _ssh_files.write_lines(path, lines)
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
