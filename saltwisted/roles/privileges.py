"""
Switch to the configured C{user} and restrict the process, before any file or port is opened.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import stat

from saltwisted import advice
from saltwisted.config.options import MasterConfig, MinionConfig
from saltwisted.errors import ConfigError

PKI_NAMES = (
    "cluster",
    "join.token",
    "master.pem",
    "master.pub",
    "minion.pem",
    "minion.pub",
    "minions",
    "minions_denied",
    "minions_pre",
    "minions_rejected",
)


def restrict_umask() -> None:
    """Whatever umask we were started with: what we make, nobody else may write to."""
    os.umask(os.umask(0o022) | 0o022)


_PR_SET_DUMPABLE = 4


def keep_memory() -> None:
    """
    No core of this process is written, by any handler and whatever the limits, and nobody but
    root reads its memory or traces it, not even who has its user: it holds private keys.

    After the user was changed, which sets this too, and for this process alone: a program that it
    starts (the workers, a job's commands) is as it would be anywhere.
    """
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def check_owner(config: MasterConfig | MinionConfig) -> None:
    """
    Refuse to start where our own files are somebody else's: each of them would fail on its own
    later, and some of them half-way.

    @raises ConfigError: with the first that we cannot use, and the command that mends it.
    """
    for top, names in (
        (config.pki_dir, _own_keys),
        (os.path.join(config.pki_dir, "cluster"), os.listdir),
        (config.cachedir, _nothing),
        (os.path.join(config.cachedir, "saltwisted"), os.listdir),
        (config.sock_dir, _nothing),
    ):
        if not os.path.isdir(top):
            continue
        paths = [top]
        if os.access(top, os.R_OK | os.W_OK | os.X_OK):
            paths = [os.path.join(top, name) for name in names(top)]
        for path in paths:
            if not _usable(path):
                raise _not_ours(path, top)


def _own_keys(path: str) -> list[str]:
    """Other things that lie in a C{pki_dir}, copies by hand say, keep nobody from working."""
    return [name for name in PKI_NAMES if os.path.lexists(os.path.join(path, name))]


def _nothing(path: str) -> list[str]:
    """What a daemon does not need to look at."""
    return []


def _usable(path: str) -> bool:
    """Whether we can do with a path what a daemon has to; a link is looked through."""
    try:
        info = os.stat(path)
    except OSError as error:
        return not isinstance(error, PermissionError)
    if stat.S_ISDIR(info.st_mode):
        return os.access(path, os.R_OK | os.W_OK | os.X_OK)
    # Other files are replaced whole; a database is written in place
    written = ".sqlite" in os.path.basename(path)
    return os.access(path, os.R_OK | os.W_OK if written else os.R_OK)


def _not_ours(path: str, top: str) -> ConfigError:
    me = _name(os.geteuid())
    try:
        owner = _name(os.stat(path).st_uid)
    except OSError:
        owner = "somebody else"
    if owner == me:
        return ConfigError(f"this daemon runs as {me}, who may not read and write it", path)
    return ConfigError(
        f"belongs to {owner}, and this daemon runs as {me}. "
        f"{advice.of('own.tree', user=me, top=top)}",
        path,
    )


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def become(user: str) -> None:
    """
    Become C{user} with exactly its groups; nothing happens when we are that user.

    A user that has only a number, as in a container, is one too, if we have it already.

    @raises ConfigError: no such user, or we are not root and somebody else.
    """
    if not user:
        return
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        if user == _name(os.geteuid()):
            return
        raise ConfigError(f"user: {user!r} does not exist on this machine") from None
    if entry.pw_uid == os.geteuid():
        return
    if os.geteuid() != 0:
        raise ConfigError(
            f"configured to run as user {user!r}, but started as "
            f"{_name(os.geteuid())!r}, which may not switch: start as root or "
            f"as {user!r}, or change the option user"
        )
    os.initgroups(entry.pw_name, entry.pw_gid)
    os.setgid(entry.pw_gid)
    os.setuid(entry.pw_uid)
    os.environ["HOME"] = entry.pw_dir
    os.environ["USER"] = os.environ["LOGNAME"] = entry.pw_name
    os.environ["SHELL"] = entry.pw_shell
