"""
Groups of PostgreSQL servers.
"""

from __future__ import annotations

from typing import Any

from saltwisted.modules._arguments import picked
from saltwisted.states import _postgres, _postgres_role

__salt__: Any
__opts__: Any

_WANTED = (
    *("createdb", "createroles", "encrypted", "superuser", "replication"),
    *("inherit", "login", "groups"),
)


def __virtual__() -> Any:
    return _postgres.loadable(__salt__, "group_create")


def present(
    name: str,
    createdb: Any = None,
    createroles: Any = None,
    encrypted: Any = None,
    superuser: Any = None,
    inherit: Any = None,
    login: Any = None,
    replication: Any = None,
    password: Any = None,
    refresh_password: Any = None,
    groups: Any = None,
    user: str | None = None,
    maintenance_db: str | None = None,
    db_password: Any = None,
    db_host: str | None = None,
    db_port: Any = None,
    db_user: str | None = None,
) -> dict[str, Any]:
    """
    There is a role, and it is as these say; what is not given stays as it is.

    name
        The role.
    createdb, createroles, superuser, replication
        What it may do.
    inherit
        It has the privileges of its groups. A new one has.
    login
        It may log in. A new group may not.
    encrypted
        How the password is stored: C{md5} (without a word), C{scram-sha-256}, or C{False}.
    password
        Its password, or what is stored of it (C{md5...}, C{SCRAM-SHA-256$...}).
    refresh_password
        Set the password each time, without a look at the stored one, which a superuser only may
        see.
    groups
        Groups that it is in, a list or text with commas. It stays in others.
    user
        The system user who runs C{psql}.
    maintenance_db, db_user, db_password, db_host, db_port
        The database and the server, and whom to be there.
    """
    return _postgres_role.present(
        __salt__,
        __opts__["test"],
        "group",
        name,
        picked(locals(), _WANTED),
        password,
        None,
        refresh_password,
        _postgres.server(locals()),
    )


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
    There is no such role.

    name
        The role.
    user
        The system user who runs C{psql}.
    maintenance_db, db_user, db_password, db_host, db_port
        The database and the server, and whom to be there.
    """
    where = _postgres.server(locals())
    return _postgres.removed(
        _postgres.new(name),
        f"Group {name}",
        __salt__["postgres.user_exists"](name, **where),
        __opts__["test"],
        lambda: __salt__["postgres.group_remove"](name, **where),
    )
