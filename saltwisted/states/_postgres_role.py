"""
A role of PostgreSQL is there, and is as it is wanted.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from typing import Any

from saltwisted.modules import _postgres_sql as sql
from saltwisted.states._postgres import Ret, done, failed, new, planned

_SHOWN = {
    "createdb": "can create databases",
    "inherit": "inherits privileges",
    "login": "can login",
    "createroles": "can create roles",
    "replication": "replication",
    "superuser": "superuser",
}

Salt = Mapping[str, Callable[..., Any]]


def _end(salt: Salt, text: Any, where: Mapping[str, Any]) -> datetime.datetime | None:
    """
    A time as the server reads it; C{None} for one that never comes.

    @raises ValueError: it cannot.
    """
    rows = salt["postgres.psql_query"](f"SELECT {sql.value(text)}::timestamp(0) as dt", **where)
    if not rows:
        raise ValueError(text)
    try:
        return datetime.datetime.fromisoformat(rows[0]["dt"])
    except ValueError:
        return None


def _differences(
    salt: Salt, wanted: Mapping[str, Any], role: Mapping[str, Any], where: Mapping[str, Any]
) -> dict[str, Any]:
    """What is to be changed of a role that is there, in Salt's words."""
    found = {
        word: wanted[word]
        for word, shown in _SHOWN.items()
        if wanted[word] is not None and wanted[word] != role[shown]
    }
    if wanted["rolepassword"] is not None:
        found["password"] = True
    end = wanted.get("valid_until")
    if end is not None and _end(salt, end, where) != role["expiry time"]:
        found["valid_until"] = end
    groups = wanted["groups"]
    groups = groups.split(",") if isinstance(groups, str) else groups
    if isinstance(groups, list):
        missing = [each for each in groups if each not in role.get("groups", [])]
        if missing:
            found["groups"] = missing
    return found


def present(
    salt: Salt,
    is_test: bool,
    kind: str,
    name: str,
    wanted: dict[str, Any],
    password: Any,
    default_password: Any,
    refresh: Any,
    where: dict[str, Any],
) -> Ret:
    """
    @param kind: C{user} or C{group}.
    @param wanted: arguments of C{postgres.user_create}, without the password.
    @param refresh: do not look at the stored password; not everybody may.
    """
    title = kind.capitalize()
    ret = new(name, f"{title} {name} is already present")
    method = sql.MD5 if wanted["encrypted"] is None else wanted["encrypted"]
    role = salt["postgres.role_get"](name, return_password=not refresh, **where)
    if role is None and password is None:
        password = default_password
    if password is not None:
        is_so = role is not None and not refresh
        if is_so and sql.is_stored(name, password, role["password"], method):
            password = None
        else:
            password = sql.stored_password(name, password, method)
    wanted = {**wanted, "encrypted": method, "rolepassword": password}
    mode = "create" if role is None else "update"
    try:
        update = {} if role is None else _differences(salt, wanted, role, where)
    except ValueError:
        return failed(ret, f"Failed to {mode} {kind} {name}")
    if role is not None and not update:
        return ret
    if is_test:
        ret["changes"] = {name: update} if update else {}
        return planned(ret, f"{title} {name} is set to be {mode}d")
    if salt[f"postgres.{kind}_{mode}"](name, **wanted, **where):
        return done(ret, f"The {kind} {name} has been {mode}d", update or "Present")
    return failed(ret, f"Failed to {mode} {kind} {name}")
