"""
Schemas in databases of PostgreSQL servers.
"""

from __future__ import annotations

from typing import Any

from saltwisted.modules._arguments import picked
from saltwisted.states import _postgres

__salt__: Any
__opts__: Any

_SERVER = ("user", "db_user", "db_password", "db_host", "db_port")


def __virtual__() -> Any:
    return _postgres.loadable(__salt__, "schema_exists")


def present(
    dbname: str,
    name: str,
    owner: str | None = None,
    user: str | None = None,
    db_user: str | None = None,
    db_password: Any = None,
    db_host: str | None = None,
    db_port: Any = None,
) -> dict[str, Any]:
    """
    A database has a schema.

    dbname
        The database.
    name
        The schema.
    owner
        Whose a new one is.
    user
        The system user who runs C{psql}.
    db_user, db_password, db_host, db_port
        The server, and whom to be there.
    """
    comment = f"Schema {name} already exists in database {dbname}"
    ret = _postgres.new(name, comment, dbname=dbname)
    where = picked(locals(), _SERVER)
    if __salt__["postgres.schema_get"](dbname, name, **where) is not None:
        return ret
    if __opts__["test"]:
        return _postgres.planned(ret, f"Schema {name} is set to be created in database {dbname}.")
    if __salt__["postgres.schema_create"](dbname, name, owner=owner, **where):
        comment = f"Schema {name} has been created in database {dbname}"
        return _postgres.done(ret, comment, "Present")
    return _postgres.failed(ret, f"Failed to create schema {name} in database {dbname}")


def absent(
    dbname: str,
    name: str,
    user: str | None = None,
    db_user: str | None = None,
    db_password: Any = None,
    db_host: str | None = None,
    db_port: Any = None,
) -> dict[str, Any]:
    """
    A database does not have a schema. One that is not empty stays, and the state fails.

    dbname
        The database.
    name
        The schema.
    user
        The system user who runs C{psql}.
    db_user, db_password, db_host, db_port
        The server, and whom to be there.
    """
    ret = _postgres.new(name, dbname=dbname)
    where = picked(locals(), _SERVER)
    if not __salt__["postgres.schema_exists"](dbname, name, **where):
        comment = f"is not present in database {dbname}, so it cannot be removed"
        return {**ret, "comment": f"Schema {name} {comment}"}
    if __opts__["test"]:
        return _postgres.planned(ret, f"Schema {name} is set to be removed from database {dbname}")
    if __salt__["postgres.schema_remove"](dbname, name, **where):
        comment = f"Schema {name} has been removed from database {dbname}"
        return _postgres.done(ret, comment, "Absent")
    return _postgres.failed(ret, f"Schema {name} failed to be removed")
