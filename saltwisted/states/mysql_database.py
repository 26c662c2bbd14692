"""
Databases of MySQL and MariaDB servers.
"""

from __future__ import annotations

from typing import Any

from saltwisted.states import _mysql

__salt__: Any
__opts__: Any
__context__: Any


def __virtual__() -> Any:
    return _mysql.loadable(__salt__, "db_exists")


def present(
    name: str, character_set: str | None = None, collate: str | None = None, **connection_args: Any
) -> dict[str, Any]:
    """
    There is a database, with this character set and collation.

    name
        The database.
    character_set, collate
        What its texts are like.

    The server is in C{connection_host}, C{connection_user}, C{connection_pass} and so on.
    """
    ret = _mysql.new(name, f"Database {name} is already present")
    there = __salt__["mysql.db_get"](name, **connection_args)
    like = {"character_set": character_set, "collate": collate}
    if there:
        return _changed(ret, there, like, connection_args)
    if (said := _mysql.error(__context__)) is not None:
        return _mysql.failed(ret, said)
    if __opts__.get("test", False):
        return _mysql.planned(ret, f"Database {name} is not present and needs to be created")
    if __salt__["mysql.db_create"](name, **like, **connection_args):
        return _mysql.done(ret, f"The database {name} has been created", "Present")
    comment = _mysql.with_error(__context__, f"Failed to create database {name}")
    return _mysql.failed(ret, comment)


def _changed(
    ret: _mysql.Ret, there: dict[str, Any], like: dict[str, Any], where: dict[str, Any]
) -> _mysql.Ret:
    """A database that is there is changed where it differs."""
    name = ret["name"]
    shown = {"character_set": "character set", "collate": "collate"}
    other = {key: value for key, value in like.items() if value and value != there[key]}
    if not other:
        return ret
    lines = [
        f"Database {shown[key]} {value} != {there[key]} needs to be updated"
        for key, value in other.items()
    ]
    # As in Salt: a new character set stands in place of the first line, a collation below it
    comment = "\n".join(lines if "character_set" in other else [ret["comment"], *lines])
    if __opts__.get("test", False):
        if "collate" not in other:
            comment += f"\nDatabase {name} is going to be updated"
        return _mysql.planned(ret, comment)
    if not __salt__["mysql.alter_db"](name, **like, **where):
        failed = _mysql.with_error(__context__, f"Failed to change database {name}")
        return _mysql.failed(ret, failed)
    now = __salt__["mysql.db_get"](name, **where)
    changes = {
        key: {"before": there[key], "now": now.get(key)}
        for key in there
        if there[key] != now.get(key)
    }
    return {**ret, "comment": comment, "changes": changes}


def absent(name: str, **connection_args: Any) -> dict[str, Any]:
    """
    There is no such database.

    name
        The database.

    The server is in C{connection_host}, C{connection_user}, C{connection_pass} and so on.
    """
    ret = _mysql.new(name, f"Database {name} is not present, so it cannot be removed")
    if not __salt__["mysql.db_exists"](name, **connection_args):
        said = _mysql.error(__context__)
        return ret if said is None else _mysql.failed(ret, said)
    if __opts__.get("test", False):
        return _mysql.planned(ret, f"Database {name} is present and needs to be removed")
    if __salt__["mysql.db_remove"](name, **connection_args):
        return _mysql.done(ret, f"Database {name} has been removed", "Absent")
    comment = _mysql.with_error(__context__, f"Unable to remove database {name}")
    return _mysql.failed(ret, comment)
