"""
Groups (virtual module C{group}), by C{groupadd}, C{groupmod}, C{groupdel} and C{gpasswd}.

C{root} in these functions is another system's root directory, as for C{groupadd -R}.
"""

from __future__ import annotations

import grp
import logging
from typing import Any

from saltwisted.modules import _accounts
from saltwisted.modules._accounts import program

log = logging.getLogger(__name__)

__salt__: dict[str, Any]
__grains__: dict[str, Any]
__context__: dict[str, Any]

__virtualname__ = "group"


def __virtual__() -> Any:
    if __grains__["kernel"] == "Linux":
        return __virtualname__
    return (
        False,
        "The groupadd execution module cannot be loaded:  only available on Linux, OpenBSD and"
        " NetBSD",
    )


def add(
    name: str,
    gid: Any = None,
    system: bool = False,
    root: str | None = None,
    non_unique: bool = False,
    local: bool = False,
) -> bool:
    """
    Add a group.

    @param non_unique: a group id that is taken is no obstacle.
    @param local: use C{lgroupadd}, which looks at local files only.

    CLI Example::

        salt '*' group.add foo 3456
    """
    command = [program("lgroupadd" if local else "groupadd")]
    if gid:
        command.append(f"-g {gid}")
        if non_unique and not local:
            command.append("-o")
    if system:
        command.append("-r")
    if root is not None and not local:
        command += ["-R", root]
    return not __salt__["cmd.run_all"]([*command, name], python_shell=False)["retcode"]


def delete(name: str, root: str | None = None, local: bool = False) -> bool:
    """
    Remove a group.

    CLI Example::

        salt '*' group.delete foo
    """
    command = [program("lgroupdel" if local else "groupdel")]
    if root is not None and not local:
        command += ["-R", root]
    return not __salt__["cmd.run_all"]([*command, name], python_shell=False)["retcode"]


def info(name: str, root: str | None = None) -> dict[str, Any]:
    """
    A group, or nothing if there is none of this name.

    CLI Example::

        salt '*' group.info foo
    """
    try:
        return _format(_accounts.group(name, root))
    except KeyError:
        return {}


def _format(entry: grp.struct_group) -> dict[str, Any]:
    return {
        "name": entry.gr_name,
        "passwd": entry.gr_passwd,
        "gid": entry.gr_gid,
        "members": entry.gr_mem,
    }


def getent(refresh: bool = False, root: str | None = None) -> list[dict[str, Any]]:
    """
    All groups.

    @param refresh: do not take the list of an earlier call.

    CLI Example::

        salt '*' group.getent
    """
    if refresh or "group.getent" not in __context__:
        __context__["group.getent"] = [_format(entry) for entry in _accounts.groups(root)]
    return list(__context__["group.getent"])


def chgid(name: str, gid: Any, root: str | None = None, non_unique: bool = False) -> bool:
    """
    Change the id of a group; false if there is none of this name.

    CLI Example::

        salt '*' group.chgid foo 4376
    """
    before = info(name, root=root)
    if not before:
        return False
    if before["gid"] == gid:
        return True
    command = [program("groupmod")]
    if root is not None:
        command += ["-R", root]
    option = "-og" if non_unique else "-g"
    __salt__["cmd.run"]([*command, option, gid, name], python_shell=False)
    return bool(info(name, root=root).get("gid") == gid)


def _gpasswd(option: str, value: Any, name: str, root: str | None) -> bool:
    command = [program("gpasswd"), option, value, name]
    if root is not None:
        command += ["--root", root]
    return not __salt__["cmd.retcode"](command, python_shell=False)


def adduser(name: str, username: str, root: str | None = None) -> bool:
    """
    Put a user into a group.

    CLI Example::

        salt '*' group.adduser foo bar
    """
    return _gpasswd("--add", username, name, root)


def deluser(name: str, username: str, root: str | None = None) -> bool:
    """
    Take a user out of a group; true as well if it is not in it.

    CLI Example::

        salt '*' group.deluser foo bar
    """
    if username not in __salt__["group.info"](name).get("members", ()):
        return True
    return _gpasswd("--del", username, name, root)


def members(name: str, members_list: str, root: str | None = None) -> bool:
    """
    Make these users, text with commas, the only ones in a group.

    CLI Example::

        salt '*' group.members foo 'user1,user2,user3'
    """
    return _gpasswd("--members", members_list, name, root)
