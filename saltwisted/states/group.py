"""
Groups: that they are there, with number and members.
"""

from __future__ import annotations

from typing import Any

from saltwisted.worker.exceptions import CommandExecutionError

__salt__: Any
__opts__: Any


def _new(name: str, comment: str = "") -> dict[str, Any]:
    return {"name": name, "changes": {}, "result": True, "comment": comment}


def _info(name: str, local: bool) -> dict[str, Any]:
    """The group, from the files alone if C{local}."""
    found: dict[str, Any] = __salt__["group.info"](name, **({"root": "/"} if local else {}))
    return found


def _differences(
    name: str, gid: Any, addusers: Any, delusers: Any, members: Any, local: bool
) -> dict[str, Any] | None:
    """What is not as wanted, or C{None} if there is no such group."""
    have = _info(name, local)
    if not have:
        return None
    found: dict[str, Any] = {}
    if gid:
        try:
            gid = int(gid)
        except (TypeError, ValueError):
            return {"result": False, "comment": "Invalid gid"}
        if have["gid"] != gid:
            found["gid"] = gid
    if members is not None and set(have["members"]) != set(members):
        if members:
            found["members"] = members
        else:
            found["delusers"] = set(have["members"])
    if more := [user for user in addusers or () if user not in have["members"]]:
        found["addusers"] = more
    if less := [user for user in delusers or () if user in have["members"]]:
        found["delusers"] = less
    return found


def _forget_list() -> None:
    """The list of groups that functions keep is of before."""
    try:
        function = __salt__["group.getent"]
    except (KeyError, CommandExecutionError):
        return
    space = getattr(function, "__globals__", {}).get("__context__")
    if isinstance(space, dict):
        space.pop("group.getent", None)


def present(
    name: str,
    gid: Any = None,
    system: bool = False,
    addusers: Any = None,
    delusers: Any = None,
    members: Any = None,
    non_unique: bool = False,
    local: bool = False,
) -> dict[str, Any]:
    """
    A group is there.

    gid, system, non_unique
        Its number; of the system's range; also if another group has it.
    members
        Exactly these users. Or add C{addusers} and take away C{delusers}.
    local
        Use the local files, whatever other sources of names there are.
    """
    ret = _new(name, f"Group {name} is present and up to date")
    if members is not None and (addusers is not None or delusers is not None):
        ret["result"] = None
        ret["comment"] = (
            'Error: Conflicting options "members" with "addusers" and/or "delusers" can not be '
            "used together. "
        )
        return ret
    if addusers and delusers and set(addusers) & set(delusers):
        ret["result"] = None
        ret["comment"] = "Error. Same user(s) can not be added and deleted simultaneously"
        return ret
    wrong = _differences(name, gid, addusers, delusers, members, local)
    if wrong is None:
        return _add(ret, gid, system, addusers, delusers, members, non_unique, local)
    if not wrong:
        return ret
    ret["comment"] = "The following group attributes are set to be changed:\n" + "".join(
        f"{key}: {value}\n" for key, value in wrong.items()
    )
    if __opts__["test"]:
        ret["result"] = None
        return ret
    for key, value in wrong.items():
        if key == "gid":
            __salt__["group.chgid"](name, gid, non_unique=non_unique)
        elif key == "members":
            __salt__["group.members"](name, ",".join(members))
        elif key in ("addusers", "delusers"):
            for user in value:
                __salt__[f"group.{key[:3]}user"](name, user)
    _forget_list()
    wrong = _differences(name, gid, addusers, delusers, members, local)
    if wrong:
        ret["result"] = False
        ret["comment"] += "Some changes could not be applied"
        ret["changes"] = {"Failed": wrong}
    else:
        ret["changes"] = {"Final": "All changes applied successfully"}
    return ret


def _add(
    ret: dict[str, Any],
    gid: Any,
    system: bool,
    addusers: Any,
    delusers: Any,
    members: Any,
    non_unique: bool,
    local: bool,
) -> dict[str, Any]:
    name = ret["name"]
    if __opts__["test"]:
        ret["result"] = None
        ret["comment"] = f"Group {name} set to be added"
        return ret
    if gid is not None and not non_unique:
        for other in __salt__["group.getent"]():
            if other["gid"] == gid:
                ret["result"] = False
                ret["comment"] = (
                    f"Group {name} is not present but gid {gid} is already taken by group "
                    f"{other['name']}"
                )
                return ret
    if not __salt__["group.add"](name, gid=gid, system=system, non_unique=non_unique, local=local):
        ret["result"] = False
        ret["comment"] = f"Failed to create new group {name}"
        return ret
    if wanted := addusers or members:
        __salt__["group.members"](name, ",".join(wanted))
    _forget_list()
    ret["comment"] = f"New group {name} created"
    ret["changes"] = _info(name, local)
    wrong = _differences(name, gid, addusers, delusers, members, local)
    if wrong:
        ret["result"] = False
        ret["comment"] = f"Group {name} has been created but, some changes could not be applied"
        ret["changes"] = {"Failed": wrong}
    return ret


def absent(name: str, local: bool = False) -> dict[str, Any]:
    """
    A group is not there.
    """
    ret = _new(name)
    if not _info(name, local):
        ret["comment"] = "Group not present"
    elif __opts__["test"]:
        ret["result"] = None
        ret["comment"] = f"Group {name} is set for removal"
    else:
        ret["result"] = __salt__["group.delete"](name, local=local)
        if ret["result"]:
            ret["changes"] = {name: ""}
            ret["comment"] = f"Removed group {name}"
        else:
            ret["comment"] = f"Failed to remove group {name}"
    return ret
