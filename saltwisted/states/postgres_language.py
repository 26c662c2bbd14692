"""
Languages in databases of PostgreSQL servers.
"""

from __future__ import annotations

from typing import Any

from saltwisted.states import _postgres

__salt__: Any
__opts__: Any


def __virtual__() -> Any:
    return _postgres.loadable(__salt__, "language_create")


def present(
    name: str,
    maintenance_db: str,
    user: str | None = None,
    db_password: Any = None,
    db_host: str | None = None,
    db_port: Any = None,
    db_user: str | None = None,
) -> dict[str, Any]:
    """
    A database has a language.

    name
        The language.
    user
        The system user who runs C{psql}.
    maintenance_db, db_user, db_password, db_host, db_port
        The database and the server, and whom to be there.
    """
    ret = _postgres.new(name, f"Language {name} is already installed")
    where = _postgres.server(locals())
    if name in __salt__["postgres.language_list"](**where):
        return ret
    if __opts__["test"]:
        return _postgres.planned(ret, f"Language {name} is set to be installed")
    if __salt__["postgres.language_create"](name, **where):
        return _postgres.done(ret, f"Language {name} has been installed", "Present")
    return _postgres.failed(ret, f"Failed to install language {name}")


def absent(
    name: str,
    maintenance_db: str,
    user: str | None = None,
    db_password: Any = None,
    db_host: str | None = None,
    db_port: Any = None,
    db_user: str | None = None,
) -> dict[str, Any]:
    """
    A database does not have a language.

    name
        The language.
    user
        The system user who runs C{psql}.
    maintenance_db, db_user, db_password, db_host, db_port
        The database and the server, and whom to be there.
    """
    ret = _postgres.new(name)
    where = _postgres.server(locals())
    if not __salt__["postgres.language_exists"](name, **where):
        return {**ret, "comment": f"Language {name} is not present so it cannot be removed"}
    if __opts__["test"]:
        return _postgres.planned(ret, f"Language {name} is set to be removed")
    if __salt__["postgres.language_remove"](name, **where):
        return _postgres.done(ret, f"Language {name} has been removed", "Absent")
    return _postgres.failed(ret, f"Failed to remove language {name}")
