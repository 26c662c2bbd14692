"""
Users and groups as the modules need them: of this system, or of one below another root.
"""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Iterator
from typing import Any

from saltwisted.worker import systools
from saltwisted.worker.exceptions import CommandExecutionError


def program(name: str) -> str:
    """
    The path of a program.

    @raises CommandExecutionError: it is not installed.
    """
    path = systools.which(name)
    if not path:
        raise CommandExecutionError(f"Command '{name}' cannot be found")
    return path


def rows(path: str, root: str | None, fields: int) -> Iterator[list[str]]:
    """
    The lines of a file such as C{/etc/passwd} below C{root}, short ones left out.

    @raises OSError: no such file.
    """
    with open(
        os.path.join(root or "/", path.lstrip("/")), encoding="utf-8", errors="surrogateescape"
    ) as file:
        for line in file:
            words = line.strip().split(":")
            if len(words) >= fields:
                yield words


def _user(words: list[str]) -> pwd.struct_passwd:
    name, password, uid, gid, *rest = words[:7]
    return pwd.struct_passwd((name, password, int(uid), int(gid), *rest))


def _group(words: list[str]) -> grp.struct_group:
    name, password, gid, members = words[:4]
    return grp.struct_group((name, password, int(gid), members.split(",") if members else []))


def users(root: str | None = None) -> list[pwd.struct_passwd]:
    """All users; of a file below C{root} if that is given."""
    if root is None:
        return pwd.getpwall()
    return [_user(words) for words in rows("etc/passwd", root, 7)]


def user(name: Any, root: str | None = None) -> pwd.struct_passwd:
    """
    One user.

    @raises KeyError: there is none of this name.
    """
    if root is None:
        return pwd.getpwnam(str(name))
    for words in rows("etc/passwd", root, 7):
        if words[0] == str(name):
            return _user(words)
    raise KeyError(name)


def groups(root: str | None = None) -> list[grp.struct_group]:
    """All groups; of a file below C{root} if that is given."""
    if root is None:
        return grp.getgrall()
    return [_group(words) for words in rows("etc/group", root, 4)]


def group(name: Any, root: str | None = None) -> grp.struct_group:
    """
    One group.

    @raises KeyError: there is none of this name.
    """
    if root is None:
        return grp.getgrnam(str(name))
    for words in rows("etc/group", root, 4):
        if words[0] == str(name):
            return _group(words)
    raise KeyError(f"getgrnam(): name not found: {name}")


def group_list(name: str, include_default: bool = True) -> list[str]:
    """
    The names of the groups that a user is in, sorted.

    @param include_default: with the primary group.
    """
    names = _by_gids(name)
    if names is None:
        names = {item.gr_name for item in grp.getgrall() if name in item.gr_mem}
        try:
            names.add(grp.getgrgid(pwd.getpwnam(name).pw_gid).gr_name)
        except KeyError:
            pass
    if not include_default:
        try:
            names.discard(grp.getgrgid(pwd.getpwnam(name).pw_gid).gr_name)
        except KeyError:
            pass
    return sorted(names)


def _by_gids(name: str) -> set[str] | None:
    """By group ids, as the kernel will have them; C{None} if one of them has no name."""
    try:
        gids = os.getgrouplist(name, pwd.getpwnam(name).pw_gid)
        local = groups("/")
    except (KeyError, OSError, ValueError):
        return None
    # Groups above the local ones come from a directory service. The local range ends before
    # 65000, where nogroup lives.
    highest = max((item.gr_gid for item in local if item.gr_gid < 65000), default=-1)
    names = {item.gr_name for item in local if item.gr_gid in gids and item.gr_gid <= highest}
    try:
        names.update(grp.getgrgid(gid).gr_name for gid in gids if gid > highest)
    except KeyError:
        return None
    return names
