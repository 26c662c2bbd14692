"""
Tablespaces of PostgreSQL servers.
"""

from __future__ import annotations

from typing import Any

from saltwisted.states import _postgres

__salt__: Any
__opts__: Any


def __virtual__() -> Any:
    return _postgres.loadable(__salt__, "tablespace_exists")


def present(
    name: str,
    directory: str,
    options: Any = None,
    owner: str | None = None,
    user: str | None = None,
    maintenance_db: str | None = None,
    db_password: Any = None,
    db_host: str | None = None,
    db_port: Any = None,
    db_user: str | None = None,
) -> dict[str, Any]:
    """
    There is a tablespace, and it is as these say.

    name
        The tablespace.
    directory
        Its directory, which is there, empty, and the server's. It cannot be changed.
    options
        A map, such as C{seq_page_cost: 1.1}. Others stay.
    owner
        Whose it is.
    user
        The system user who runs C{psql}.
    maintenance_db, db_user, db_password, db_host, db_port
        The database and the server, and whom to be there.
    """
    ret = _postgres.new(name, f"Tablespace {name} is already present")
    where = _postgres.server(locals())
    there = __salt__["postgres.tablespace_list"](**where).get(name)
    is_test = __opts__["test"]
    if there is None:
        if is_test:
            return _postgres.planned(ret, f"Tablespace {name} is set to be created")
        if __salt__["postgres.tablespace_create"](name, directory, options, owner, **where):
            return _postgres.done(ret, f"The tablespace {name} has been created", "Present")
        return _postgres.failed(ret, f"Failed to create tablespace {name}")
    if there["Location"] != directory and not is_test:
        comment = f"""Tablespace {name} is not at the right location. This is
            unfixable without dropping and recreating the tablespace."""
        return _postgres.failed(ret, comment)
    held = there["Opts"].strip("{}").split(",")
    lacking = {key: value for key, value in (options or {}).items() if f"{key}={value}" not in held}
    new_owner = owner if owner and there["Owner"] != owner else None
    if is_test and lacking:
        return _postgres.planned(
            ret,
            f"""Tablespace {name} options to be
                        altered""",
        )
    if is_test and new_owner:
        return _postgres.planned(ret, f"Tablespace {name} owner to be altered")
    if not lacking and not new_owner:
        return ret
    if not __salt__["postgres.tablespace_alter"](
        name, new_owner=new_owner, set_option=lacking, **where
    ):
        return _postgres.failed(ret, f"Failed to alter tablespace {name}")
    changes: dict[str, Any] = {"owner": new_owner} if new_owner else {}
    changes |= {"options": lacking} if lacking else {}
    word = "opts" if lacking else "owner"
    return _postgres.done(ret, f"Tablespace {name} {word} changed", changes)


def absent(
    name: str,
    user: str | None = None,
    maintenance_db: str | None = None,
    db_user: str | None = None,
    db_password: Any = None,
    db_host: str | None = None,
    db_port: Any = None,
) -> dict[str, Any]:
    """
    There is no such tablespace. One that is not empty stays, and the state fails.

    name
        The tablespace.
    user
        The system user who runs C{psql}.
    maintenance_db, db_user, db_password, db_host, db_port
        The database and the server, and whom to be there.
    """
    where = _postgres.server(locals())
    return _postgres.removed(
        _postgres.new(name),
        f"Tablespace {name}",
        __salt__["postgres.tablespace_exists"](name, **where),
        __opts__["test"],
        lambda: __salt__["postgres.tablespace_remove"](name, **where),
    )
