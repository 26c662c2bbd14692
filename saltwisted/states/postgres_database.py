"""
Databases of PostgreSQL servers.
"""

from __future__ import annotations

from typing import Any

from saltwisted.states import _postgres

__salt__: Any
__opts__: Any


def __virtual__() -> Any:
    return _postgres.loadable(__salt__, "user_exists")


def present(
    name: str,
    tablespace: str | None = None,
    encoding: str | None = None,
    lc_collate: str | None = None,
    lc_ctype: str | None = None,
    owner: str | None = None,
    owner_recurse: bool = False,
    template: str | None = None,
    user: str | None = None,
    maintenance_db: str | None = None,
    db_password: Any = None,
    db_host: str | None = None,
    db_port: Any = None,
    db_user: str | None = None,
) -> dict[str, Any]:
    """
    There is a database, and it is as these say.

    name
        The database.
    tablespace, owner
        Where it is, and whose. These are changed.
    owner_recurse
        With a new owner, all that is in it is the owner's, too.
    encoding, lc_collate, lc_ctype
        What its texts are like. These cannot be changed.
    template
        The database of which a new one is a copy.
    user
        The system user who runs C{psql}.
    maintenance_db, db_user, db_password, db_host, db_port
        The database and the server, and whom to be there.
    """
    ret = _postgres.new(name, f"Database {name} is already present")
    where = _postgres.server(locals())
    there = __salt__["postgres.db_list"](**where).get(name)
    if there is not None:
        fixed = {"Collate": lc_collate, "Ctype": lc_ctype}
        is_other = any(value and there[word] != value for word, value in fixed.items())
        if is_other or (encoding and there["Encoding"].lower() != encoding.lower()):
            comment = "wrong parameters which couldn't be changed on fly."
            return _postgres.failed(ret, f"Database {name} has {comment}")
        changed = {"Tablespace": tablespace, "Owner": owner}
        if not any(value and there[word] != value for word, value in changed.items()):
            return ret
        if __opts__["test"]:
            comment = f"Database {name} exists, but parameters need to be changed"
            return _postgres.planned(ret, comment)
        if __salt__["postgres.db_alter"](
            name, tablespace=tablespace, owner=owner, owner_recurse=owner_recurse, **where
        ):
            comment = f"Parameters for database {name} have been changed"
            return _postgres.done(ret, comment, "Parameters changed")
        return _postgres.failed(ret, f"Failed to change parameters for database {name}")
    if __opts__["test"]:
        return _postgres.planned(ret, f"Database {name} is set to be created")
    if __salt__["postgres.db_create"](
        name,
        tablespace=tablespace,
        encoding=encoding,
        lc_collate=lc_collate,
        lc_ctype=lc_ctype,
        owner=owner,
        template=template,
        **where,
    ):
        return _postgres.done(ret, f"The database {name} has been created", "Present")
    return _postgres.failed(ret, f"Failed to create database {name}")


def absent(
    name: str,
    user: str | None = None,
    maintenance_db: str | None = None,
    db_password: Any = None,
    db_host: str | None = None,
    db_port: Any = None,
    db_user: str | None = None,
) -> dict[str, Any]:
    """
    There is no such database. Who is connected to it is thrown out.

    name
        The database.
    user
        The system user who runs C{psql}.
    maintenance_db, db_user, db_password, db_host, db_port
        The database and the server, and whom to be there.
    """
    where = _postgres.server(locals())
    return _postgres.removed(
        _postgres.new(name),
        f"Database {name}",
        __salt__["postgres.db_exists"](name, **where),
        __opts__["test"],
        lambda: __salt__["postgres.db_remove"](name, **where),
    )
