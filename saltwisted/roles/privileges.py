"""
Becoming the configured C{user}, and careful, before any file is made or port is bound.
"""

from __future__ import annotations

import os
import pwd

from saltwisted.errors import ConfigError


def modest() -> None:
    """Whatever umask we were started with: what we make, nobody else may write to."""
    os.umask(os.umask(0o022) | 0o022)


def become(user: str) -> None:
    """
    Become C{user} with exactly its groups; nothing happens when we are that user.

    @raises ConfigError: no such user, or we are not root and somebody else.
    """
    if not user:
        return
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        raise ConfigError(f"user: {user!r} does not exist on this machine") from None
    if entry.pw_uid == os.geteuid():
        return
    if os.geteuid() != 0:
        raise ConfigError(
            f"configured to run as user {user!r}, but started as "
            f"{pwd.getpwuid(os.geteuid()).pw_name!r}, which may not switch: start as root or "
            f"as {user!r}, or change the option user"
        )
    os.initgroups(entry.pw_name, entry.pw_gid)
    os.setgid(entry.pw_gid)
    os.setuid(entry.pw_uid)
    os.environ["HOME"] = entry.pw_dir
    os.environ["USER"] = os.environ["LOGNAME"] = entry.pw_name
    os.environ["SHELL"] = entry.pw_shell
