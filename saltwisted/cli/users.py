"""
Becoming the user that the configuration names, as Salt's commands do.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from typing import Any

from saltwisted.cli import console

EX_NOUSER = 67


def become(opts: Mapping[str, Any]) -> None:
    """
    Work as C{user} of the configuration from here on.

    @raises SystemExit: 67, when that is somebody else and we may not become them.
    """
    user = str(opts.get("user") or "root")
    if user == str(os.geteuid()):
        return  # a user that has only a number, as in a container
    try:
        entry = pwd.getpwnam(user)
        if entry.pw_uid == os.geteuid():
            return
        os.initgroups(user, entry.pw_gid)
        os.setgid(entry.pw_gid)
        os.setuid(entry.pw_uid)
    except (KeyError, OSError):
        console.log("critical", f'Salt configured to run as user "{user}" but unable to switch.')
        raise SystemExit(EX_NOUSER) from None
    os.environ.update(HOME=entry.pw_dir, SHELL=entry.pw_shell, USER=user, LOGNAME=user)
