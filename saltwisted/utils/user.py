"""Users and groups, with the names of C{salt.utils.user}."""

from __future__ import annotations

import getpass
import grp
import os
import pwd
from typing import Any

from saltwisted.utils._own import own
from saltwisted.worker import renderfilters

get_uid = own(__name__, renderfilters.get_uid)


def get_user() -> str:
    """The name of the user that this process runs as."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def get_specific_user() -> str:
    """The user who is behind this: with sudo, the one who asked for it."""
    user = getpass.getuser()
    if user == "root" and os.environ.get("SUDO_USER"):
        return f"sudo_{os.environ['SUDO_USER']}"
    return user


def get_gid(group: Any = None) -> int | None:
    """A group's number, by its name; C{None} for "no such group"."""
    if group is None or isinstance(group, int):
        return group
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        return None


def get_default_group(user: str) -> str:
    """
    The name of a user's first group.

    @raises KeyError: no such user.
    """
    return grp.getgrgid(pwd.getpwnam(user).pw_gid).gr_name


def get_group_list(user: str, include_default: bool = True) -> list[str]:
    """The names of a user's groups, sorted; of an unknown user none."""
    try:
        default = get_default_group(user)
        numbers = os.getgrouplist(user, pwd.getpwnam(user).pw_gid)
    except KeyError:
        return []
    names = set()
    for number in numbers:
        try:
            names.add(grp.getgrgid(number).gr_name)
        except KeyError:
            continue
    return sorted(names if include_default else names - {default})


def get_group_dict(user: str | None = None, include_default: bool = True) -> dict[str, int]:
    """A user's groups, or with no user all groups: names to numbers."""
    if user is None:
        return {group.gr_name: group.gr_gid for group in grp.getgrall()}
    return {name: grp.getgrnam(name).gr_gid for name in get_group_list(user, include_default)}


def get_gid_list(user: str, include_default: bool = True) -> list[int]:
    """The numbers of a user's groups, sorted."""
    return sorted(set(get_group_dict(user, include_default).values()))
