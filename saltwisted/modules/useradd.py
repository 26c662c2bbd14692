"""
Users (virtual module C{user}), by C{useradd}, C{usermod} and C{userdel}.

C{root} in these functions is another system's root directory, as for C{useradd -R}.
"""

from __future__ import annotations

import logging
import pwd
from collections.abc import Mapping
from typing import Any

from saltwisted.modules import _accounts
from saltwisted.modules._accounts import program
from saltwisted.modules._system import needs
from saltwisted.worker import systools
from saltwisted.worker.exceptions import CommandExecutionError

log = logging.getLogger(__name__)

__salt__: dict[str, Any]
__grains__: dict[str, Any]
__context__: dict[str, Any]

__virtualname__ = "user"

_GECOS = ("fullname", "roomnumber", "workphone", "homephone", "other")


def __virtual__() -> Any:
    if __grains__["kernel"] == "Linux":
        return __virtualname__
    return (
        False,
        "useradd execution module not loaded: either pwd python library not available or system"
        " not one of Linux, OpenBSD, NetBSD or AIX",
    )


def _gecos(text: str) -> dict[str, str]:
    parts = [*text.split(",", 4), "", "", "", ""]
    return dict(zip(_GECOS, parts, strict=False))


def _update_gecos(name: Any, key: str, value: Any, root: str | None) -> bool:
    text = "" if value is None else str(value)
    old = _gecos(_accounts.user(name, root).pw_gecos)
    if old[key] == text:
        return True
    new = ",".join({**old, key: text}.values()).rstrip(",")
    command = [program("usermod")]
    if root is not None:
        command += ["-R", root]
    __salt__["cmd.run"]([*command, "-c", new, name], python_shell=False)
    return _gecos(_accounts.user(name, root).pw_gecos)[key] == text


def _add_command(given: Mapping[str, Any]) -> list[Any]:
    """The command that adds a user, from the arguments of C{user.add}."""
    command: list[Any] = [program("luseradd" if given["local"] else "useradd")]
    if given["shell"]:
        command += ["-s", given["shell"]]
    if given["uid"] not in (None, ""):
        command += ["-u", given["uid"]]
    if given["gid"] not in (None, ""):
        command += ["-g", given["gid"]]
    elif given["usergroup"]:
        if not given["local"]:
            command.append("-U")
    elif (
        given["groups"] is not None and given["name"] in given["groups"] and _user_groups_enabled()
    ):
        # useradd would refuse to make the group that is there already.
        command += ["-g", __salt__["file.group_to_gid"](given["name"])]
    if given["usergroup"] is False:
        command.append("-n" if given["local"] else "-N")
    if not given["createhome"]:
        command.append("-M")
    elif not given["local"]:
        command.append("-m")
    if given["nologinit"]:
        command.append("-l")
    if given["home"] is not None:
        command += ["-d", given["home"]]
    if not given["unique"]:
        command.append("-o")
    if given["system"]:
        command.append("-r")
    command.append(given["name"])
    if given["root"] is not None and not given["local"]:
        command += ["-R", given["root"]]
    return command


def add(
    name: str,
    uid: Any = None,
    gid: Any = None,
    groups: Any = None,
    home: str | None = None,
    shell: str | None = None,
    unique: bool = True,
    system: bool = False,
    fullname: str = "",
    roomnumber: str = "",
    workphone: str = "",
    homephone: str = "",
    other: str = "",
    createhome: bool = True,
    loginclass: str | None = None,
    nologinit: bool = False,
    root: str | None = None,
    usergroup: bool | None = None,
    local: bool = False,
) -> bool:
    """
    Add a user; false if C{useradd} fails.

    @param groups: further groups, a list or text with commas.
    @param unique: refuse a user id that is taken.
    @param nologinit: leave the last-login databases alone.
    @param usergroup: make a group of the same name, or (false) do not.
    @param local: use C{luseradd}, which looks at local files only.

    CLI Example::

        salt '*' user.add name <uid> <gid> <groups> <home> <shell>
    """
    command = _add_command(locals())
    done = __salt__["cmd.run_all"](command, python_shell=False)
    if done["retcode"] != 0:
        return False
    # What follows does not change the answer: the user is there.
    if groups:
        chgroups(name, groups, root=root)
    details = (fullname, roomnumber, workphone, homephone, other)
    for key, value in zip(_GECOS, details, strict=True):
        if value:
            _update_gecos(name, key, value, root)
    return True


def _user_groups_enabled() -> bool:
    for line in systools.read_text("/etc/login.defs").splitlines():
        if "USERGROUPS_ENAB" in line[:15]:
            return "yes" in line
    return False


def delete(
    name: str,
    remove: bool = False,
    force: bool = False,
    root: str | None = None,
    local: bool = False,
) -> bool:
    """
    Remove a user.

    @param remove: with home directory and mail.
    @param force: also if the user is logged in.

    CLI Example::

        salt '*' user.delete name remove=True force=True
    """
    command = [program("luserdel" if local else "userdel")]
    if remove:
        command.append("-r")
    if force and not local:
        command.append("-f")
    command.append(name)
    if root is not None and not local:
        command += ["-R", root]
    done = __salt__["cmd.run_all"](command, python_shell=False)
    if done["retcode"] == 0:
        return True
    # On Debian userdel complains about a missing mail spool, though all is done.
    return bool(
        done["retcode"] == 12
        and __grains__["os_family"] == "Debian"
        and ("var/mail" in done["stderr"] or "var/spool/mail" in done["stderr"])
    )


def getent(refresh: bool = False, root: str | None = None) -> list[dict[str, Any]]:
    """
    All users.

    @param refresh: do not take the list of an earlier call.

    CLI Example::

        salt '*' user.getent
    """
    if refresh or "user.getent" not in __context__:
        __context__["user.getent"] = [_format(entry) for entry in _accounts.users(root)]
    return list(__context__["user.getent"])


def _change(
    name: str, key: str, value: Any, option: str, root: str | None, persist: bool = False
) -> bool:
    before = info(name, root=root)
    if not before:
        raise CommandExecutionError(f"User '{name}' does not exist")
    if before[key] == value:
        return True
    command = [program("usermod")]
    if root is not None:
        command += ["-R", root]
    if persist:
        command.append("-m")
    __salt__["cmd.run"]([*command, option, value, name], python_shell=False)
    return bool(info(name, root=root).get(key) == value)


def chuid(name: str, uid: Any, root: str | None = None) -> bool:
    """
    Change the user id.

    CLI Example::

        salt '*' user.chuid foo 4376
    """
    return _change(name, "uid", uid, "-u", root)


def chgid(name: str, gid: Any, root: str | None = None) -> bool:
    """
    Change the primary group.

    CLI Example::

        salt '*' user.chgid foo 4376
    """
    return _change(name, "gid", gid, "-g", root)


def chshell(name: str, shell: str, root: str | None = None) -> bool:
    """
    Change the login shell.

    CLI Example::

        salt '*' user.chshell foo /bin/zsh
    """
    return _change(name, "shell", shell, "-s", root)


def chhome(name: str, home: str, persist: bool = False, root: str | None = None) -> bool:
    """
    Change the home directory.

    @param persist: move what is in it.

    CLI Example::

        salt '*' user.chhome foo /home/users/foo True
    """
    return _change(name, "home", home, "-d", root, persist)


def chgroups(name: str, groups: Any, append: bool = False, root: str | None = None) -> bool:
    """
    Change the groups that a user is in besides the primary one.

    @param groups: a list, or text with commas.
    @param append: keep those that are not named.

    CLI Example::

        salt '*' user.chgroups foo wheel,root append=True
    """
    wanted = groups.split(",") if isinstance(groups, str) else groups
    if set(list_groups(name)) == set(wanted):
        return True
    command = [program("usermod")]
    if append:
        command.append("-a")
    command += ["-G", ",".join(wanted), name]
    if root is not None:
        command += ["-R", root]
    done = __salt__["cmd.run_all"](command, python_shell=False)
    if done["retcode"] != 0 and "not found in" in done["stderr"]:
        # A user of a directory service is in no local file, but may be in local groups.
        codes = [
            __salt__["cmd.retcode"](["gpasswd", "-a", name, group], python_shell=False)
            for group in wanted
        ]
        return not any(codes)
    return bool(done["retcode"] == 0)


def chfullname(name: str, fullname: Any, root: str | None = None) -> bool:
    """
    Change the full name.

    CLI Example::

        salt '*' user.chfullname foo "Foo Bar"
    """
    return _update_gecos(name, "fullname", fullname, root)


def chroomnumber(name: str, roomnumber: Any, root: str | None = None) -> bool:
    """
    Change the room number.

    CLI Example::

        salt '*' user.chroomnumber foo 123
    """
    return _update_gecos(name, "roomnumber", roomnumber, root)


def chworkphone(name: str, workphone: Any, root: str | None = None) -> bool:
    """
    Change the phone number at work.

    CLI Example::

        salt '*' user.chworkphone foo 7735550123
    """
    return _update_gecos(name, "workphone", workphone, root)


def chhomephone(name: str, homephone: Any, root: str | None = None) -> bool:
    """
    Change the phone number at home.

    CLI Example::

        salt '*' user.chhomephone foo 7735551234
    """
    return _update_gecos(name, "homephone", homephone, root)


def chother(name: str, other: Any, root: str | None = None) -> bool:
    """
    Change the last field of the personal data.

    CLI Example::

        salt '*' user.chother foobar
    """
    return _update_gecos(name, "other", other, root)


def chloginclass(name: str, loginclass: str, root: str | None = None) -> bool:
    """
    Always false: Linux has no login classes.

    CLI Example::

        salt '*' user.chloginclass foo staff
    """
    return False


def get_loginclass(name: str) -> bool:
    """
    Always false: Linux has no login classes.

    CLI Example::

        salt '*' user.get_loginclass foo
    """
    return False


def info(name: str, root: str | None = None) -> dict[str, Any]:
    """
    A user, or nothing if there is none of this name.

    CLI Example::

        salt '*' user.info root
    """
    try:
        return _format(_accounts.user(name, root))
    except KeyError:
        return {}


def _format(entry: pwd.struct_passwd) -> dict[str, Any]:
    return {
        "gid": entry.pw_gid,
        "groups": list_groups(entry.pw_name),
        "home": entry.pw_dir,
        "name": entry.pw_name,
        "passwd": entry.pw_passwd,
        "shell": entry.pw_shell,
        "uid": entry.pw_uid,
        **_gecos(entry.pw_gecos),
    }


@needs("id")
def primary_group(name: str) -> str:
    """
    The name of the primary group.

    CLI Example::

        salt '*' user.primary_group saltadmin
    """
    return str(__salt__["cmd.run"](["id", "-g", "-n", name]))


def list_groups(name: str) -> list[str]:
    """
    The groups that a user is in.

    CLI Example::

        salt '*' user.list_groups foo
    """
    return _accounts.group_list(name)


def list_users(root: str | None = None) -> list[str]:
    """
    The names of all users.

    CLI Example::

        salt '*' user.list_users
    """
    return sorted(entry.pw_name for entry in _accounts.users(root))


def rename(name: str, new_name: str, root: str | None = None) -> bool:
    """
    Change the name of a user.

    CLI Example::

        salt '*' user.rename name new_name
    """
    if info(new_name, root=root):
        raise CommandExecutionError(f"User '{new_name}' already exists")
    return _change(name, "name", new_name, "-l", root)
