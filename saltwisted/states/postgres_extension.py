"""
Extensions in databases of PostgreSQL servers.
"""

from __future__ import annotations

from typing import Any

from saltwisted.modules._postgres_words import INSTALLED, NOT_INSTALLED
from saltwisted.states import _postgres

__salt__: Any
__opts__: Any


def __virtual__() -> Any:
    return _postgres.loadable(__salt__, "create_extension")


def present(
    name: str,
    if_not_exists: bool | None = None,
    schema: str | None = None,
    ext_version: Any = None,
    from_version: Any = None,
    user: str | None = None,
    maintenance_db: str | None = None,
    db_user: str | None = None,
    db_password: Any = None,
    db_host: str | None = None,
    db_port: Any = None,
) -> dict[str, Any]:
    """
    A database has an extension; its files are on the server already.

    name
        The extension.
    if_not_exists
        Say so in the statement, as without a word.
    schema
        The schema in which it is.
    ext_version
        The version that it has at least.
    from_version
        What was there before there were extensions; servers before 13 know that.
    user
        The system user who runs C{psql}.
    maintenance_db, db_user, db_password, db_host, db_port
        The database and the server, and whom to be there.
    """
    ret = _postgres.new(name, f"Extension {name} is already present")
    where = _postgres.server(locals())
    state = __salt__["postgres.create_metadata"](
        name, schema=schema, ext_version=ext_version, **where
    )
    if state == [INSTALLED]:
        return ret
    mode, did = ("install", "installed") if NOT_INSTALLED in state else ("upgrade", "upgraded")
    if __opts__["test"]:
        return _postgres.planned(ret, f"Extension {name} is set to be {did}")
    if __salt__["postgres.create_extension"](
        name=name,
        if_not_exists=if_not_exists,
        schema=schema,
        ext_version=ext_version,
        from_version=from_version,
        **where,
    ):
        return _postgres.done(ret, f"The extension {name} has been {did}", did.capitalize())
    return _postgres.failed(ret, f"Failed to {mode} extension {name}")


def absent(
    name: str,
    if_exists: bool | None = None,
    restrict: bool | None = None,
    cascade: bool | None = None,
    user: str | None = None,
    maintenance_db: str | None = None,
    db_user: str | None = None,
    db_password: Any = None,
    db_host: str | None = None,
    db_port: Any = None,
) -> dict[str, Any]:
    """
    A database does not have an extension.

    name
        The extension.
    if_exists
        Say so in the statement.
    restrict
        Keep it if something needs it.
    cascade
        Remove what needs it, too. So it is without a word, unless C{restrict} is given.
    user
        The system user who runs C{psql}.
    maintenance_db, db_user, db_password, db_host, db_port
        The database and the server, and whom to be there.
    """
    where = _postgres.server(locals())
    return _postgres.removed(
        _postgres.new(name),
        f"Extension {name}",
        __salt__["postgres.is_installed_extension"](name, **where),
        __opts__["test"],
        lambda: __salt__["postgres.drop_extension"](
            name, if_exists=if_exists, restrict=restrict, cascade=cascade, **where
        ),
    )
