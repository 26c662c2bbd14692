"""
Passwords and their ages (virtual module C{shadow}), in C{/etc/shadow} and by C{chage}.

C{root} in these functions is another system's root directory. Ages are in days.
"""

from __future__ import annotations

import datetime
import logging
import os
import pwd
from typing import Any

from saltwisted.modules import _accounts, _files
from saltwisted.worker import libcrypt, systools

log = logging.getLogger(__name__)

__salt__: dict[str, Any]
__grains__: dict[str, Any]

__virtualname__ = "shadow"

_NUMBERS = ("lstchg", "min", "max", "warn", "inact", "expire")


def __virtual__() -> Any:
    return __virtualname__ if __grains__.get("kernel", "") == "Linux" else False


def default_hash() -> str:
    """
    What stands for "no password was ever set".

    CLI Example::

        salt '*' shadow.default_hash
    """
    return "!"


def info(name: str, root: str | None = None) -> dict[str, Any]:
    """
    The entry of a user; all fields empty if there is none. Ages that are not set are -1.

    CLI Example::

        salt '*' shadow.info root
    """
    try:
        for words in _accounts.rows("etc/shadow", root, 2):
            if words[0] == name:
                numbers = [int(word) if word else -1 for word in words[2:8]]
                numbers += [-1] * (6 - len(numbers))
                ages = dict(zip(_NUMBERS, numbers, strict=True))
                return {"name": words[0], "passwd": words[1], **ages}
    except OSError:
        # Only root may read it
        pass
    return dict.fromkeys(("name", "passwd", *_NUMBERS), "")


def _chage(
    name: str, key: str, value: Any, option: str, root: str | None, validate: bool = True
) -> bool:
    before = info(name, root=root)
    if not before["name"]:
        return False
    if before[key] == value:
        return True
    command: list[Any] = ["chage"]
    if root is not None:
        command += ["-R", root]
    code = __salt__["cmd.retcode"]([*command, option, value, name], python_shell=False)
    if not validate:
        return not code
    return bool(info(name, root=root).get(key) == value)


def set_inactdays(name: str, inactdays: int, root: str | None = None) -> bool:
    """
    How long after its expiry a password can still be changed at login.

    CLI Example::

        salt '*' shadow.set_inactdays username 7
    """
    return _chage(name, "inact", inactdays, "-I", root)


def set_maxdays(name: str, maxdays: int, root: str | None = None) -> bool:
    """
    After how many days a password expires.

    CLI Example::

        salt '*' shadow.set_maxdays username 90
    """
    return _chage(name, "max", maxdays, "-M", root)


def set_mindays(name: str, mindays: int, root: str | None = None) -> bool:
    """
    How many days a password must be kept.

    CLI Example::

        salt '*' shadow.set_mindays username 7
    """
    return _chage(name, "min", mindays, "-m", root)


def set_warndays(name: str, warndays: int, root: str | None = None) -> bool:
    """
    How many days before its expiry a user is warned.

    CLI Example::

        salt '*' shadow.set_warndays username 7
    """
    return _chage(name, "warn", warndays, "-W", root)


def set_date(name: str, date: Any, root: str | None = None) -> bool:
    """
    When the password was changed last: a day since 1970, or C{YYYY-MM-DD}.

    CLI Example::

        salt '*' shadow.set_date username 0
    """
    return _chage(name, "lstchg", date, "-d", root, validate=False)


def set_expire(name: str, expire: Any, root: str | None = None) -> bool:
    """
    When the account expires: a day since 1970, or C{YYYY-MM-DD}; -1 is never.

    CLI Example::

        salt '*' shadow.set_expire username -1
    """
    return _chage(name, "expire", expire, "-E", root, validate=False)


def gen_password(
    password: str, crypt_salt: str | None = None, algorithm: str = "sha512"
) -> str | None:
    """
    The hash of a password, for C{set_password}.

    @param crypt_salt: random by default.
    @param algorithm: C{sha512 sha256 blowfish md5 crypt}.

    CLI Example::

        salt '*' shadow.gen_password 'I_am_password' crypt_salt='I_am_salt' algorithm=sha256
    """
    return libcrypt.gen_hash(crypt_salt, password, algorithm)


def _passwd(name: str, option: str, root: str | None, **kwargs: Any) -> None:
    command = ["passwd"]
    if root is not None:
        command += ["-R", root]
    __salt__["cmd.run"]([*command, option, name], python_shell=False, **kwargs)


def del_password(name: str, root: str | None = None) -> bool:
    """
    Remove the password: the user can log in without one.

    CLI Example::

        salt '*' shadow.del_password username
    """
    _passwd(name, "-d", root, output_loglevel="quiet")
    after = info(name, root=root)
    return not after["passwd"] and after["name"] == name


def lock_password(name: str, root: str | None = None) -> bool:
    """
    Lock the password; false if there is no such user.

    CLI Example::

        salt '*' shadow.lock_password username
    """
    before = info(name, root=root)
    if not before["name"]:
        return False
    if before["passwd"].startswith("!"):
        return True
    _passwd(name, "-l", root)
    return bool(info(name, root=root)["passwd"].startswith("!"))


def unlock_password(name: str, root: str | None = None) -> bool:
    """
    Unlock the password; false if there is no such user.

    CLI Example::

        salt '*' shadow.unlock_password username
    """
    before = info(name, root=root)
    if not before["name"]:
        return False
    if not before["passwd"].startswith("!"):
        return True
    _passwd(name, "-u", root)
    return not info(name, root=root)["passwd"].startswith("!")


def set_password(
    name: str, password: str, use_usermod: Any = False, root: str | None = None
) -> Any:
    """
    Set the hash of a password; false if there is no such user.

    @param password: as C{gen_password} makes it.
    @param use_usermod: let C{usermod} do it rather than changing the file.

    CLI Example::

        salt '*' shadow.set_password root '$1$UYCIxa628.9qXjpQCjM4a..'
    """
    try:
        pwd.getpwnam(name)
    except KeyError:
        log.warning("user %s does not exist, cannot set password", name)
        return False
    if systools.is_true(use_usermod):
        command = ["usermod"]
        if root is not None:
            command += ["-R", root]
        __salt__["cmd.run"](
            [*command, "-p", password, name], python_shell=False, output_loglevel="quiet"
        )
        return info(name, root=root)["passwd"] == password
    path = f"/etc/tcb/{name}/shadow" if __grains__["os"] == "ALT" else "/etc/shadow"
    if root:
        path = os.path.join(root, path.lstrip("/"))
    if not os.path.isfile(path):
        return {}
    _write_password(path, name, password)
    return info(name, root=root)["passwd"] == password


def _write_password(path: str, name: str, password: str) -> None:
    today = str((datetime.datetime.now() - datetime.datetime(1970, 1, 1)).days)
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        lines = file.readlines()
    for number, line in enumerate(lines):
        words = line.strip().split(":")[:9]
        if words[0] == name:
            words += [""] * (9 - len(words))
            words[1:3] = [password, today]
            lines[number] = ":".join(words) + "\n"
            break
    else:
        log.warning("shadow entry not present for user %s, adding", name)
        lines.append(f"{name}:{password}:{today}::::::\n")
    _files.write_atomically(path, "".join(lines).encode("utf-8", "surrogateescape"))


def list_users(root: str | None = None) -> list[str]:
    """
    The names of all users that have an entry.

    CLI Example::

        salt '*' shadow.list_users
    """
    return sorted(words[0] for words in _accounts.rows("etc/shadow", root, 2))
