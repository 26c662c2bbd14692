"""
The keys that apt trusts, and where a PPA has its own.
"""

from __future__ import annotations

import logging
import os
import pathlib
import shutil
from typing import Any

from saltwisted.modules._apt import Apt
from saltwisted.worker import systools
from saltwisted.worker.exceptions import (
    CommandExecutionError,
    SaltInvocationError,
)

log = logging.getLogger(__name__)


_READABLE = 0o644
"""The mode of a file with keys: apt reads it as a user of its own."""


def _number(text: str) -> Any:
    try:
        return int(text)
    except ValueError:
        return text


def _keys_from_colons(output: str) -> dict[str, dict[str, Any]]:
    """Key id to key, from the output of C{gpg --with-colons}."""
    keys: list[dict[str, Any]] = []
    for line in output.splitlines():
        if not line.strip():
            continue
        fields = [_number(part.strip()) if part.strip() else None for part in line.split(":")]
        if len(fields) < 2:
            continue
        kind = fields[0]
        if kind in ("pub", "sub"):
            key = {
                "algorithm": fields[3],
                "bits": fields[2],
                "capability": fields[11],
                "date_creation": fields[5],
                "date_expiration": fields[6],
                "keyid": str(fields[4]),
                "validity": fields[1],
            }
            if kind == "pub":
                keys.append(key)
            elif keys:
                keys[-1]["subkey"] = key
        elif kind == "fpr" and keys:
            (keys[-1].get("subkey") or keys[-1])["fingerprint"] = fields[9]
        elif kind == "uid" and keys:
            keys[-1].update(uid=fields[9], uid_hash=fields[7])
    return {key["keyid"]: key for key in keys}


def _key_folder(keydir: Any) -> pathlib.Path:
    return pathlib.Path(keydir) if keydir else pathlib.Path("/etc/apt/keyrings")


def _make_key_folder(folder: pathlib.Path) -> bool:
    """Older apt brings no folder for keys. Its user reads them, whatever our umask is."""
    if folder.is_dir():
        return True
    try:
        folder.mkdir(parents=True)
        folder.chmod(0o755)
    except OSError as error:
        log.error(
            "The directory %s does not exist and could not be created: %s."
            " Please create this directory writable only by root.",
            folder,
            error,
        )
        return False
    return True


def _check_key_folder(folder: pathlib.Path) -> bool:
    if folder.is_dir():
        return True
    log.error(
        "The directory %s does not exist. Please create this directory only writable by root",
        folder,
    )
    return False


def _keys_of_file(apt: Apt, path: Any) -> str:
    done = apt.salt["cmd.run_all"](
        ["gpg", "--no-default-keyring", "--keyring", str(path), "--list-keys", "--with-colons"]
    )
    return str(done["stdout"])


def _binary_key(apt: Apt, path: str, target: str) -> Any:
    """
    A key file as apt wants it at C{target}: without armour, unless that ends in C{.asc}.

    @return: the path, or false if C{gpg} would be needed and is missing.
    """
    try:
        with open(path, encoding="utf-8") as file:
            armoured = file.read().strip("-").startswith("BEGIN PGP")
    except UnicodeDecodeError:
        return path
    if not armoured or target.endswith(".asc"):
        return path
    if not systools.which("gpg"):
        log.error(
            "Detected an ASCII armored key %s and the gpg binary is not available."
            " Not decrypting the key.",
            path,
        )
        return False
    plain = f"{path}.decrypted"
    done = apt.salt["cmd.run_all"](["gpg", "--yes", "--output", plain, "--dearmor", path])
    if done["retcode"] != 0:
        log.error("Failed to decrypt the key %s", path)
    return plain


def _install_key(apt: Apt, cached: str, folder: pathlib.Path, keyfile: Any) -> bool:
    key = _binary_key(apt, cached, str(keyfile or pathlib.Path(cached).name))
    if not key:
        return False
    name = keyfile or pathlib.Path(key).name.removesuffix(".decrypted")
    shutil.copyfile(key, folder / name)
    os.chmod(folder / name, _READABLE)
    return True


def _file_of_key(apt: Apt, folder: pathlib.Path, keyid: str) -> pathlib.Path | None:
    if len(keyid) not in (8, 16):
        log.error("The keyid needs to be either 8 or 16 characters")
        return None
    for name in os.listdir(folder):
        keys = _keys_from_colons(_keys_of_file(apt, folder / name))
        if any(key["keyid"].endswith(keyid) for key in keys.values()):
            return folder / name
    log.error("Could not find the key file for keyid: %s", keyid)
    return None


def known_keys(apt: Apt, aptkey: bool = True, keydir: Any = None) -> Any:
    """As C{pkg.get_repo_keys}."""
    if aptkey and systools.which("apt-key"):
        command = "apt-key adv --batch --list-public-keys --with-fingerprint --with-fingerprint"
        done = apt.call([*command.split(), "--with-colons", "--fixed-list-mode"], scope=False)
        if done["retcode"] != 0:
            log.error(done["stderr"])
            return {}
        return _keys_from_colons(done["stdout"])
    folder = _key_folder(keydir)
    if not _check_key_folder(folder):
        return False
    outputs = [_keys_of_file(apt, folder / name) for name in os.listdir(folder)]
    return _keys_from_colons(" ".join(outputs))


def add_key(
    apt: Apt,
    path: str | None = None,
    text: str | None = None,
    keyserver: str | None = None,
    keyid: str | None = None,
    saltenv: str = "base",
    aptkey: bool = True,
    keydir: Any = None,
    keyfile: Any = None,
) -> bool:
    """As C{pkg.add_repo_key}."""
    folder = _key_folder(keydir)
    if not aptkey and not _make_key_folder(folder):
        return False
    if not systools.which("apt-key"):
        aptkey = False
    if keyid:
        known = known_keys(apt, aptkey=aptkey, keydir=folder) or {}
        if any(item.endswith(keyid) for item in known):
            log.debug("The keyid '%s' already present", keyid)
            return True
    command: list[Any] = ["apt-key"]
    kwargs: dict[str, Any] = {}
    if path:
        cached = apt.salt["cp.cache_file"](path, saltenv)
        if not cached:
            log.error("Unable to get cached copy of file: %s", path)
            return False
        if not aptkey:
            return _install_key(apt, cached, folder, keyfile)
        command += ["add", cached]
    elif text:
        command += ["add", "-"]
        kwargs["stdin"] = text
    elif keyserver:
        if not keyid:
            raise SaltInvocationError(f"No keyid or keyid too short for keyserver: {keyserver}")
        if aptkey:
            command += ["adv", "--batch", "--keyserver", keyserver, "--recv", keyid]
        elif keyfile:
            command = ["gpg", "--no-default-keyring", "--keyring", str(folder / keyfile)]
            command += ["--keyserver", keyserver, "--recv-keys", keyid]
        else:
            log.error(
                "You must define the name of the key file to save the key. See keyfile argument"
            )
            return False
    elif keyid:
        raise SaltInvocationError(f"No keyserver specified for keyid: {keyid}")
    else:
        raise TypeError("add_repo_key() takes at least 1 argument (0 given)")
    done = apt.call(command, **kwargs)
    if done["retcode"] == 0:
        if not aptkey:
            os.chmod(folder / str(keyfile), _READABLE)
        return True
    log.error("Unable to add repo key: %s", done["stderr"])
    return False


def remove_key(
    apt: Apt, name: str | None = None, aptkey: bool = True, keydir: Any = None, **kwargs: Any
) -> Any:
    """As C{pkg.del_repo_key}."""
    folder = _key_folder(keydir)
    if not aptkey and not _check_key_folder(folder):
        return False
    if not systools.which("apt-key"):
        aptkey = False
    if kwargs.get("keyid_ppa", False):
        if not (isinstance(name, str) and name.startswith("ppa:")):
            raise SaltInvocationError("keyid_ppa requires that a PPA be passed")
        keyid = launchpad(*name[4:].split("/", 1))["signing_key_fingerprint"][-8:]
    elif "keyid" in kwargs:
        keyid = kwargs["keyid"]
    else:
        raise SaltInvocationError("keyid or keyid_ppa and PPA name must be passed")
    if not aptkey:
        path = _file_of_key(apt, folder, keyid)
        if path is None:
            return False
        path.unlink()
        return keyid
    done = apt.call(["apt-key", "del", keyid], scope=False)
    if done["retcode"] != 0:
        reason = f": {done['stderr']}" if done["stderr"] else ""
        raise CommandExecutionError(f"Failed to remove keyid {keyid}{reason}")
    return keyid


def launchpad(owner: str, name: str) -> dict[str, Any]:
    """What Launchpad knows about a PPA."""
    import json
    import urllib.error
    import urllib.request

    address = f"https://launchpad.net/api/1.0/~{owner}/+archive/{name}"
    request = urllib.request.Request(address, headers={"Accept": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            data = json.load(answer)
    except urllib.error.HTTPError as error:
        raise CommandExecutionError(
            f"Launchpad does not know about {owner}/{name}: {error}"
        ) from error
    return dict(data)


def proxy_url(apt: Apt) -> str:
    """The proxy of the configuration; empty if there is none."""
    option = apt.salt["config.option"]
    host, port = option("proxy_host"), option("proxy_port")
    user, password = option("proxy_username"), option("proxy_password")
    if not host or not port:
        return ""
    return (
        f"http://{user}:{password}@{host}:{port}" if user and password else f"http://{host}:{port}"
    )
