"""
Jobs and variables in users' crontabs.
"""

from __future__ import annotations

import os
from typing import Any

from saltwisted.modules import _files, cron

__salt__: Any
__opts__: Any

# What a run of states puts in place for each call.
__env__: str = "base"


def __virtual__() -> Any:
    if "cron.list_tab" in __salt__:
        return True
    return False, "cron module could not be loaded"


def _new(name: str) -> dict[str, Any]:
    return {"name": name, "changes": {}, "result": True, "comment": ""}


def _status(user: str, wanted: dict[str, Any], special: str | None) -> str:
    """C{absent}, C{present} or C{update}: what a crontab says of a job."""
    table = __salt__["cron.list_tab"](user)
    for job in table["crons"] if special is None else table["special"]:
        if not cron._matches(job, wanted["cmd"], wanted["identifier"]):
            continue
        fields = dict(wanted) if special is None else {"spec": special, **wanted}
        if any(cron._differs(job.get(key), value) for key, value in fields.items()):
            return "update"
        return "present"
    return "absent"


def _env_status(user: str, name: str, value: Any) -> str:
    for one in __salt__["cron.list_tab"](user)["env"]:
        if one["name"] == name:
            return "present" if one["value"] == (value or "") else "update"
    return "absent"


def _forecast_present(ret: dict[str, Any], status: str, what: str) -> dict[str, Any]:
    words = {
        "absent": "is set to be added",
        "present": "already present",
        "update": "is set to be updated",
    }
    ret["result"] = True if status == "present" else None
    ret["comment"] = f"{what} {words[status]}"
    return ret


def _forecast_absent(ret: dict[str, Any], status: str, what: str) -> dict[str, Any]:
    if status == "absent":
        ret["comment"] = f"{what} is absent"
    else:
        ret["result"] = None
        ret["comment"] = f"{what} is set to be removed"
    return ret


def _done(ret: dict[str, Any], did: str, what: str, user: str, add: bool) -> dict[str, Any]:
    """The return after a change, by the word that the execution function said."""
    name = ret["name"]
    if did == ("present" if add else "absent"):
        ret["comment"] = f"{what} already {did}"
        return ret
    words = {"removed": f"{what} removed from {user}'s crontab"}
    if add:
        words = {"new": f"{what} added to {user}'s crontab", "updated": f"{what} updated"}
    if did in words:
        ret["comment"] = words[did]
        ret["changes"] = {user: name}
        return ret
    gap = "\n" if add else ""
    ret["comment"] = f"{what} for user {user} failed to commit with error {gap}{did}"
    ret["result"] = False
    return ret


def present(
    name: str,
    user: str = "root",
    minute: Any = "*",
    hour: Any = "*",
    daymonth: Any = "*",
    month: Any = "*",
    dayweek: Any = "*",
    comment: Any = None,
    commented: bool = False,
    identifier: Any = False,
    special: str | None = None,
) -> dict[str, Any]:
    """
    A command is in a user's crontab.

    minute, hour, daymonth, month, dayweek, special
        When it runs; C{random} picks a value once. C{special} is C{@daily} and the like.
    identifier
        By what it is known, so that the command can change; by default the command.
    comment, commented
        A line above it, and whether it is switched off.
    """
    name = name.strip()
    if identifier is False:
        identifier = name
    ret = _new(name)
    times = {
        "minute": minute,
        "hour": hour,
        "daymonth": daymonth,
        "month": month,
        "dayweek": dayweek,
    }
    if __opts__["test"]:
        wanted: dict[str, Any] = {
            "identifier": None if identifier is None else str(identifier),
            "cmd": name,
            "comment": comment,
            "commented": None if commented is None else commented is True,
        }
        if special is None:
            wanted.update(
                {key: None if val is None else str(val).lower() for key, val in times.items()}
            )
        return _forecast_present(ret, _status(user, wanted, special), f"Cron {name}")
    more = {"cmd": name, "comment": comment, "commented": commented, "identifier": identifier}
    if special is None:
        did = __salt__["cron.set_job"](user=user, **times, **more)
    else:
        did = __salt__["cron.set_special"](user=user, special=special, **more)
    return _done(ret, did, f"Cron {name}", user, True)


def absent(
    name: str,
    user: str = "root",
    identifier: Any = False,
    special: str | None = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    A command is not in a user's crontab.
    """
    name = name.strip()
    if identifier is False:
        identifier = name
    ret = _new(name)
    if __opts__["test"]:
        # Stock looks among the timed jobs alone here.
        wanted = {"cmd": name, "identifier": None if identifier is None else str(identifier)}
        return _forecast_absent(ret, _status(user, wanted, None), f"Cron {name}")
    if special is None:
        did = __salt__["cron.rm_job"](user, name, identifier=identifier)
    else:
        did = __salt__["cron.rm_special"](user, name, special=special, identifier=identifier)
    return _done(ret, did, f"Cron {name}", user, False)


def file(
    name: str,
    source_hash: Any = "",
    source_hash_name: str | None = None,
    user: str = "root",
    template: str | None = None,
    context: Any = None,
    replace: bool = True,
    defaults: Any = None,
    backup: Any = "",
    **kwargs: Any,
) -> dict[str, Any]:
    """
    A user's crontab is a file of the file server.

    replace
        Whether a crontab that is there already is replaced.
    source_hash, source_hash_name, template, context, defaults, backup
        As in C{file.managed}.
    """
    ret = _new(name)
    try:
        group = __salt__["user.info"](user)["groups"][0]
    except Exception:
        ret["result"] = False
        ret["comment"] = f"Could not identify group for user {user}"
        return ret
    path = _files.mkstemp()
    try:
        raw = __salt__["cron.raw_cron"](user)
        with open(path, "w", encoding="utf-8") as copy:
            copy.write(raw if raw.endswith("\n") else f"{raw}\n")
        if not replace and os.stat(path).st_size > 0:
            ret["comment"] = f"User {user} already has a crontab. No changes made"
            return ret
        common: dict[str, Any] = {
            "name": path,
            "user": user,
            "group": group,
            "mode": "0600",
            "attrs": [],
            "saltenv": __env__,
        }
        wanted: dict[str, Any] = {
            "source_hash_name": source_hash_name,
            "template": template,
            "context": context,
            "defaults": defaults,
        }
        if __opts__["test"]:
            ret["result"], ret["comment"] = __salt__["file.check_managed"](
                source=name, source_hash=source_hash, **wanted, **common, **kwargs
            )
            return ret
        managed = _managed(ret, source_hash, backup, wanted, common, kwargs)
        return ret if managed is None else _put(user, path, managed)
    finally:
        _files.safe_remove(path)


def _managed(
    ret: dict[str, Any],
    source_hash: Any,
    backup: Any,
    wanted: dict[str, Any],
    common: dict[str, Any],
    kwargs: dict[str, Any],
) -> dict[str, Any] | None:
    """The return of C{file.manage_file}; C{None} if C{ret} says why it did not come to that."""
    source, source_hash = __salt__["file.source_list"](ret["name"], source_hash, __env__)
    try:
        fetched, summed, problem = __salt__["file.get_managed"](
            source=source,
            source_hash=source_hash,
            skip_verify=False,
            **wanted,
            **common,
            **kwargs,
        )
        if problem:
            ret["comment"] = problem
            ret["result"] = False
            return None
        managed: dict[str, Any] = __salt__["file.manage_file"](
            sfn=fetched, ret=ret, source=source, source_sum=summed, backup=backup, **common
        )
    except Exception as error:
        ret.update(result=False, changes={}, comment=f"Unable to manage file: {error}")
        return None
    return managed


def _put(user: str, path: str, managed: dict[str, Any]) -> dict[str, Any]:
    """Give a user the crontab that was put together."""
    if "diff" in managed["changes"]:
        did = __salt__["cron.write_cron_file_verbose"](user, path)
        if did["retcode"] == 0:
            managed["comment"] = f"Crontab for user {user} was updated"
            managed["result"] = True
        else:
            managed["comment"] = (
                f"Unable to update user {user} crontab {path}. Error: {did['stderr']}"
            )
            managed["result"] = False
            managed["changes"] = {}
    elif managed["result"]:
        managed["comment"] = f"Crontab for user {user} is in the correct state"
        managed["changes"] = {}
    return managed


def env_present(name: str, value: Any = None, user: str = "root") -> dict[str, Any]:
    """
    A variable is set in a user's crontab.
    """
    ret = _new(name)
    if __opts__["test"]:
        return _forecast_present(ret, _env_status(user, name, value), f"Cron env {name}")
    did = __salt__["cron.set_env"](user, name, value=value)
    return _done(ret, did, f"Cron env {name}", user, True)


def env_absent(name: str, user: str = "root") -> dict[str, Any]:
    """
    A variable is not in a user's crontab.
    """
    name = name.strip()
    ret = _new(name)
    if __opts__["test"]:
        return _forecast_absent(ret, _env_status(user, name, None), f"Cron env {name}")
    did = __salt__["cron.rm_env"](user, name)
    return _done(ret, did, f"Cron env {name}", user, False)
