"""
Privileges on objects of PostgreSQL servers.
"""

from __future__ import annotations

from typing import Any

from saltwisted.states import _postgres

__salt__: Any
__opts__: Any


def __virtual__() -> Any:
    return _postgres.loadable(__salt__, "privileges_grant")


def _joined(privileges: Any) -> str | None:
    if isinstance(privileges, str):
        return privileges or None
    return ",".join(privileges) if privileges else None


def present(
    name: str,
    object_name: str,
    object_type: str,
    privileges: Any = None,
    grant_option: bool | None = None,
    prepend: str = "public",
    maintenance_db: str | None = None,
    user: str | None = None,
    db_password: Any = None,
    db_host: str | None = None,
    db_port: Any = None,
    db_user: str | None = None,
) -> dict[str, Any]:
    """
    A role has privileges.

    name
        The role.
    object_name
        The object; C{ALL} for all tables or sequences of a schema; a function with the types of its
        arguments; with C{group}, the group that the role is in.
    object_type
        C{table}, C{sequence}, C{schema}, C{tablespace}, C{language}, C{database}, C{function} or
        C{group}.
    privileges
        A list of words, or C{ALL}.
    grant_option
        The role may grant them, too.
    prepend
        The schema of a table, sequence or function.
    user
        The system user who runs C{psql}.
    maintenance_db, db_user, db_password, db_host, db_port
        The database and the server, and whom to be there.
    """
    ret = _postgres.new(name, "The requested privilege(s) are already set")
    given = _joined(privileges)
    words = {**_postgres.server(locals()), "privileges": given, "prepend": prepend}
    words["grant_option"] = grant_option
    if __salt__["postgres.has_privileges"](name, object_name, object_type, **words):
        return ret
    shown = object_name if object_type == "group" else given
    if __opts__["test"]:
        return _postgres.planned(ret, f"The privilege(s): {shown} are set to be granted to {name}")
    if __salt__["postgres.privileges_grant"](name, object_name, object_type, **words):
        comment = f"The privilege(s): {shown} have been granted to {name}"
        return _postgres.done(ret, comment, "Present")
    return _postgres.failed(ret, f"Failed to grant privilege(s): {shown} to {name}")


def absent(
    name: str,
    object_name: str,
    object_type: str,
    privileges: Any = None,
    prepend: str = "public",
    maintenance_db: str | None = None,
    user: str | None = None,
    db_password: Any = None,
    db_host: str | None = None,
    db_port: Any = None,
    db_user: str | None = None,
) -> dict[str, Any]:
    """
    A role does not have privileges.

    name
        The role.
    object_name, object_type, prepend
        The object, as for C{present}.
    privileges
        A list of words, or C{ALL}.
    user
        The system user who runs C{psql}.
    maintenance_db, db_user, db_password, db_host, db_port
        The database and the server, and whom to be there.
    """
    ret = _postgres.new(name, "The requested privilege(s) are not set so cannot be revoked")
    given = _joined(privileges)
    words = {**_postgres.server(locals()), "privileges": given, "prepend": prepend}
    if not __salt__["postgres.has_privileges"](name, object_name, object_type, **words):
        return ret
    shown = object_name if object_type == "group" else given
    if __opts__["test"]:
        comment = f"The privilege(s): {shown} are set to be revoked from {name}"
        return _postgres.planned(ret, comment)
    if __salt__["postgres.privileges_revoke"](name, object_name, object_type, **words):
        comment = f"The privilege(s): {shown} have been revoked from {name}"
        return _postgres.done(ret, comment, "Absent")
    return _postgres.failed(ret, f"Failed to revoke privilege(s): {shown} from {name}")
