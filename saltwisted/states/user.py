"""
Users: that they are there, with number, groups, home, shell, names and password.
"""

from __future__ import annotations

import grp
import logging
import os
from typing import Any

from saltwisted.worker.exceptions import CommandExecutionError

log = logging.getLogger(__name__)

__salt__: Any
__opts__: Any

_HIDDEN = "XXX-REDACTED-XXX"

_ALGORITHMS = {"1": "md5", "2a": "blowfish", "5": "sha256", "6": "sha512"}

_AGES = {
    "date": ("lstchg", "last change date"),
    "mindays": ("min", "minimum days"),
    "maxdays": ("max", "maximum days"),
    "inactdays": ("inact", "inactive days"),
    "warndays": ("warn", "warn days"),
    "expire": ("expire", "expire days"),
}
"""Options about a password's age: their field of C{shadow.info}, and what to call them."""

_GECOS = ("roomnumber", "workphone", "homephone", "other")
_TEXTS = ("fullname", *_GECOS)
_COMPARED = (
    *("uid", "remove_groups", "home", "createhome", "password", "enforce_password"),
    *("empty_password", "shell", *_TEXTS, *_AGES, "allow_uid_change", "allow_gid_change"),
    *("password_lock", "local"),
)
"""Arguments of C{present} that a user is compared with as they are."""
_ADDED = (
    *("uid", "gid", "home", "shell", "unique", "system", *_TEXTS, "createhome", "nologinit"),
    *("loginclass", "local", "usergroup"),
)
"""Arguments of C{present} that C{user.add} takes as they are."""


def _new(name: str, comment: str = "") -> dict[str, Any]:
    return {"name": name, "changes": {}, "result": True, "comment": comment}


def _info(name: str, local: bool) -> dict[str, Any]:
    """The user, from the files alone if C{local}."""
    found: dict[str, Any] = __salt__["user.info"](name, **({"root": "/"} if local else {}))
    return found


def _hashed(name: str, password: str) -> str:
    """A password's hash, with the salt that the user's present one has."""
    options: dict[str, Any] = {}
    try:
        _, kind, salt, _ = __salt__["shadow.info"](name)["passwd"].split("$", 4)
    except ValueError:
        kind = ""
    else:
        options = {"crypt_salt": salt, "algorithm": _ALGORITHMS.get(kind)}
    if kind == "1":
        log.warning("Using MD5 for hashing passwords is considered insecure!")
    return str(__salt__["shadow.gen_password"](password, **options))


def _groups_differ(have: list[str], wanted: list[str], remove: bool) -> bool:
    """Whether memberships must change; two names of one group number are the same."""
    now, then = set(have), set(wanted)
    if now == then or (not remove and then <= now):
        return False
    numbers = {name: __salt__["group.info"](name)["gid"] for name in now | then}
    changed = then ^ now if remove else then - now
    return any(
        all(numbers[one] != number for other, number in numbers.items() if other != one)
        for one in changed
    )


def _without_primary(
    name: str, have: dict[str, Any], gid: Any, wanted: list[str]
) -> tuple[list[str], list[str]]:
    """Present and wanted groups less the primary ones, which membership does not matter for."""
    numbers = {group: __salt__["file.group_to_gid"](group) for group in have["groups"]}
    now, then = list(have["groups"]), list(wanted)

    def same(group: str) -> list[str]:
        """The group, and others with its number."""
        number = numbers.get(group)
        return [one for one, other in numbers.items() if other == number] or [group]

    primary = __salt__["file.gid_to_group"](have["gid"] if gid is None else gid)
    before = __salt__["file.gid_to_group"](have["gid"])
    if primary in now or primary in then:
        drop = same(primary)
        now = [one for one in now if one not in drop]
        then = [one for one in then if one not in drop]
    if before != primary and before in now:
        now = [one for one in now if one not in same(before)]
    if name in now and name not in then:
        now = [one for one in now if one not in same(name)]
    return now, then


def _differences(
    name: str, wanted: dict[str, Any], free_ids: bool = False
) -> dict[str, Any] | None:
    """
    What is not as wanted, or C{None} if there is no such user.

    @param wanted: the arguments of L{present}.
    @param free_ids: numbers may differ without permission.
    @raises CommandExecutionError: a number differs and may not be changed.
    """
    shadow = __salt__["shadow.info"](name) if "shadow.info" in __salt__ else None
    have = _info(name, wanted["local"])
    if not have:
        return None
    found: dict[str, Any] = {}
    uid, gid = wanted["uid"], wanted["gid"]
    groups, optional = wanted["groups"], wanted["optional_groups"]
    member_of = sorted({*(groups or []), *(optional or [])})
    remove = wanted["remove_groups"]
    if not remove or (groups is None and not optional):
        member_of = sorted({*member_of, *have["groups"]})
    if uid and have["uid"] != uid:
        found["uid"] = uid
    if gid is not None and have["gid"] not in (gid, __salt__["file.group_to_gid"](gid)):
        found["gid"] = gid
    now, then = _without_primary(name, have, gid, member_of)
    if _groups_differ(now, then, remove) and (then or remove):
        found["groups"] = then
    home = wanted["home"]
    if home and have["home"] != home:
        found["home"] = home
    if wanted["createhome"]:
        place = home or have["home"]
        if place is not None and not os.path.isdir(place):
            found["homeDoesNotExist"] = place
    if wanted["shell"] and have["shell"] != wanted["shell"]:
        found["shell"] = wanted["shell"]
    if shadow is not None and "shadow.default_hash" in __salt__:
        found.update(_shadow_differences(shadow, wanted))
    if wanted["fullname"] is not None and have["fullname"] != wanted["fullname"]:
        found["fullname"] = wanted["fullname"]
    for key in _GECOS:
        if wanted[key] is None or f"user.ch{key}" not in __salt__:
            continue
        if have[key] != wanted[key]:
            found[key] = wanted[key]
    errors = [
        f"Changing {key} ({have[key]} -> {value}) not permitted, set allow_{key}_change to True "
        "to force this change. Note that this will not change file ownership."
        for key, value in (("uid", uid), ("gid", gid))
        if key in found and not free_ids and not wanted[f"allow_{key}_change"]
    ]
    if errors:
        raise CommandExecutionError("Encountered error checking for needed changes", info=errors)
    return found


def _shadow_differences(shadow: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    have = shadow["passwd"]
    password = wanted["password"]
    if password and not wanted["empty_password"] and have != password:
        unset = have == __salt__["shadow.default_hash"]()
        if unset or wanted["enforce_password"]:
            found["passwd"] = password
    if wanted["empty_password"] and have != "":
        found["empty_password"] = True
    for key, (field, _) in _AGES.items():
        value = wanted[key]
        given = bool(value) if key == "expire" else value is not None
        if given and shadow[field] != value:
            found[key] = value
    lock, locked = wanted["password_lock"], have.startswith("!")
    if (lock and not locked) or (lock is False and locked):
        found["password_lock"] = lock
    return found


def present(
    name: str,
    uid: Any = None,
    gid: Any = None,
    usergroup: Any = None,
    groups: Any = None,
    optional_groups: Any = None,
    remove_groups: bool = True,
    home: str | None = None,
    createhome: bool = True,
    persist_home: bool = False,
    password: str | None = None,
    hash_password: bool = False,
    enforce_password: bool = True,
    empty_password: bool = False,
    shell: str | None = None,
    unique: bool = True,
    system: bool = False,
    fullname: Any = None,
    roomnumber: Any = None,
    workphone: Any = None,
    homephone: Any = None,
    other: Any = None,
    loginclass: Any = None,
    date: Any = None,
    mindays: Any = None,
    maxdays: Any = None,
    inactdays: Any = None,
    warndays: Any = None,
    expire: Any = None,
    win_homedrive: Any = None,
    win_profile: Any = None,
    win_logonscript: Any = None,
    win_description: Any = None,
    nologinit: bool = False,
    allow_uid_change: bool = False,
    allow_gid_change: bool = False,
    password_lock: bool | None = None,
    local: bool = False,
) -> dict[str, Any]:
    """
    A user is there.

    uid, gid, unique, system, usergroup
        Numbers; whether the user's number must be its own; an account of the system; a group
        of the user's name. C{allow_uid_change} and C{allow_gid_change} permit new numbers.
    groups, optional_groups, remove_groups
        Further groups that must be there, or count if they are; others are left.
    home, createhome, persist_home, shell
        The home directory, made if it is missing, its content moved along; and the shell.
    password, hash_password, enforce_password, empty_password, password_lock
        The password's hash (or the password, to be hashed), whether it replaces another; no
        password; a locked one.
    fullname, roomnumber, workphone, homephone, other
        The comment's parts.
    date, mindays, maxdays, inactdays, warndays, expire
        Ages of the password, in days.
    local
        Use the local files, whatever other sources of names there are.
    """
    given = dict(locals())
    if password and hash_password:
        given["password"] = _hashed(name, password)
    given.update({key: None if given[key] is None else str(given[key]) for key in _TEXTS})
    ret = _new(name, f"User {name} is present and up to date")
    lacking, problem = _lacking(given)
    if problem:
        return {**ret, "result": False, "comment": problem}
    wanted = _wanted(given, lacking)
    try:
        wrong = _differences(name, wanted)
    except CommandExecutionError as error:
        return {**ret, "result": False, "comment": error.strerror}
    if wrong is None:
        return _make(ret, given, wanted, lacking)
    if wrong:
        _change(ret, wanted, wrong, lacking, gid, persist_home)
    return ret


def _lacking(given: dict[str, Any]) -> tuple[list[str], str]:
    """The groups that there are not; and why a user cannot be as the arguments say, if so."""
    for key in ("fullname", "roomnumber", "workphone"):
        value = given[key]
        if value is not None and "," in value:
            return [], f"Unsupported char ',' in {value}"
    lacking = [one for one in given["groups"] or () if not __salt__["group.info"](one)]
    if lacking and not __opts__.get("test"):
        return lacking, f"The following group(s) are not present: {','.join(lacking)}"
    return lacking, ""


def _wanted(given: dict[str, Any], lacking: list[str]) -> dict[str, Any]:
    """What is compared with the user as it is: the arguments, with the groups that there are."""
    name, groups, optional = given["name"], given["groups"], None
    if lacking:
        groups = [one for one in groups if one not in lacking]
    if given["optional_groups"]:
        optional = [one for one in given["optional_groups"] if __salt__["group.info"](one)]
    for one in sorted({*(groups or ())} & {*(given["optional_groups"] or ())}):
        log.warning(
            'Group "%s" specified in both groups and optional_groups for user %s', one, name
        )
    own = given["usergroup"] and __salt__["file.group_to_gid"](name) != ""
    return {
        **{key: given[key] for key in _COMPARED},
        "gid": name if own else given["gid"],
        "groups": groups,
        "optional_groups": optional,
    }


def _make(
    ret: dict[str, Any], given: dict[str, Any], wanted: dict[str, Any], lacking: list[str]
) -> dict[str, Any]:
    """Make a user that there is not."""
    name = ret["name"]
    if __opts__["test"]:
        ret["result"] = None
        ret["comment"] = f"User {name} set to be added"
        if lacking:
            ret["comment"] += f" (pending groups: {','.join(lacking)})"
        return ret
    groups = wanted["groups"]
    if wanted["optional_groups"]:
        groups = [*(groups or ()), *wanted["optional_groups"]]
    made = __salt__["user.add"](name=name, groups=groups, **{key: given[key] for key in _ADDED})
    if made is not True:
        ret["comment"] = made if isinstance(made, str) else f"Failed to create new user {name}"
        ret["result"] = False
        return ret
    ret["comment"] = f"New user {name} created"
    ret["changes"] = _info(name, given["local"])
    if not given["createhome"]:
        ret["changes"]["home"] = ""
    if "shadow.info" in __salt__:
        _set_shadow(ret, wanted)
    return ret


def _set_shadow(ret: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Password and ages of a new user."""
    name, password = ret["name"], wanted["password"]

    def failed(text: str) -> None:
        ret["comment"] = f"User {name} created but failed to {text}"
        ret["result"] = False

    if password and not wanted["empty_password"]:
        __salt__["shadow.set_password"](name, password)
        if __salt__["shadow.info"](name)["passwd"] != password:
            failed(f"set password to {_HIDDEN}")
        ret["changes"]["password"] = _HIDDEN
    if wanted["empty_password"] and not password:
        __salt__["shadow.del_password"](name)
        if __salt__["shadow.info"](name)["passwd"] != "":
            failed("empty password")
        ret["changes"]["password"] = ""
    for key, (field, words) in _AGES.items():
        value = wanted[key]
        if not (value is not None if key == "date" else value):
            continue
        __salt__[f"shadow.set_{key}"](name, value)
        if __salt__["shadow.info"](name)[field] != value:
            failed(f"set {words} to {value}")
        ret["changes"][key] = value


def _change(
    ret: dict[str, Any],
    wanted: dict[str, Any],
    wrong: dict[str, Any],
    lacking: list[str],
    gid: Any,
    persist_home: bool,
) -> None:
    """Make an existing user as wanted, or tell what would be done."""
    name, local = ret["name"], wanted["local"]
    if __opts__["test"]:
        lines = ["The following user attributes are set to be changed:\n"]
        for key, value in wrong.items():
            lines.append(f"{key}: {_HIDDEN if key == 'passwd' else value}\n")
        if lacking:
            lines.append(f"groups (pending creation): {','.join(lacking)}\n")
        ret["result"] = None
        ret["comment"] = "".join(lines)
        return
    has_shadow = "shadow.info" in __salt__
    shadow = __salt__["shadow.info"](name) if has_shadow else {}
    before = _info(name, local)
    if "passwd" in wrong:
        del wrong["passwd"]
        __salt__["shadow.set_password"](name, wanted["password"])
    if wrong.pop("empty_password", False):
        __salt__["shadow.del_password"](name)
    if "password_lock" in wrong:
        lock = "lock" if wrong.pop("password_lock") else "unlock"
        __salt__[f"shadow.{lock}_password"](name)
    if "date" in wrong:
        __salt__["shadow.set_date"](name, wrong.pop("date"))
    home, made = wrong.pop("home", None), wrong.pop("homeDoesNotExist", None)
    if home is not None or made is not None:
        __salt__["user.chhome"](name, home if made is None else made, persist=persist_home)
    if made is not None and not os.path.isdir(made):
        __salt__["file.mkdir"](made, before["uid"], before["gid"], 0o755)
    for key in _AGES:
        if key in wrong:
            __salt__[f"shadow.set_{key}"](name, wrong.pop(key))
    for key in [one for one in wrong if one != "groups" and f"user.ch{one}" in __salt__]:
        __salt__[f"user.ch{key}"](name, wrong.pop(key))
    if "groups" in wrong:
        __salt__["user.chgroups"](name, wrong.pop("groups"), not wanted["remove_groups"])

    after = _info(name, local)
    ret["changes"].update({key: after[key] for key in after if after[key] != before[key]})
    if has_shadow and shadow["passwd"] != wanted["password"]:
        for key, value in __salt__["shadow.info"](name).items():
            if shadow[key] != value:
                ret["changes"][key] = _HIDDEN if key == "passwd" else value
    if ret["changes"]:
        ret["comment"] = f"Updated user {name}"
    left = _differences(name, {**wanted, "gid": gid}, free_ids=True)
    if left:
        ret["comment"] = f"These values could not be changed: {_hide(left)}"
        ret["result"] = False


def _hide(left: dict[str, Any]) -> dict[str, Any]:
    """What stock prints with the hash in it is printed without."""
    return {key: _HIDDEN if key == "passwd" else value for key, value in left.items()}


def absent(
    name: str, purge: bool = False, force: bool = False, local: bool = False
) -> dict[str, Any]:
    """
    A user is not there; with C{purge} its files are gone too.

    force
        Also if it is logged in.
    """
    ret = _new(name)
    if not _info(name, local):
        ret["comment"] = f"User {name} is not present"
        return ret
    if __opts__["test"]:
        ret["result"] = None
        ret["comment"] = f"User {name} set for removal"
        return ret
    groups = {one.gr_name for one in grp.getgrall() if name in one.gr_mem}
    primary = __salt__["file.gid_to_group"](_info(name, local)["gid"])
    if primary:
        groups.add(primary)
    if not __salt__["user.delete"](name, purge, force, local=local):
        ret["result"] = False
        ret["comment"] = f"Failed to remove user {name}"
        return ret
    for group in sorted(groups):
        if not __salt__["group.info"](group):
            ret["changes"][f"{group} group"] = "removed"
    ret["changes"][name] = "removed"
    ret["comment"] = f"Removed user {name}"
    return ret
