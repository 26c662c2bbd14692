"""
Who may do what with the objects of a PostgreSQL server.

Objects are of the types C{table}, C{sequence}, C{schema}, C{tablespace}, C{language},
C{database}, C{function} and C{group}; what is granted of a group is that a role is in it.
"""

from __future__ import annotations

import logging
import re
from typing import Any

from saltwisted.modules import _postgres_sql as sql
from saltwisted.modules import _psql
from saltwisted.modules._postgres_words import PRIVILEGES
from saltwisted.worker.exceptions import SaltInvocationError

log = logging.getLogger(__name__)

__salt__: Any

_CLASS = "pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
_PROC = "pg_catalog.pg_proc c JOIN pg_catalog.pg_namespace n ON n.oid = c.pronamespace"
_WHERE = {
    "table": (
        _CLASS,
        "c.relacl",
        "c.relowner",
        "n.nspname = {schema} AND c.relname = {name} AND c.relkind IN ('r', 'v', 'm', 'p', 'f')",
    ),
    "sequence": (
        _CLASS,
        "c.relacl",
        "c.relowner",
        "n.nspname = {schema} AND c.relname = {name} AND c.relkind = 'S'",
    ),
    "function": (
        _PROC,
        "c.proacl",
        "c.proowner",
        "n.nspname = {schema} AND c.oid::regprocedure::text = {name}",
    ),
    "schema": ("pg_catalog.pg_namespace c", "c.nspacl", "c.nspowner", "c.nspname = {name}"),
    "tablespace": ("pg_catalog.pg_tablespace c", "c.spcacl", "c.spcowner", "c.spcname = {name}"),
    "language": ("pg_catalog.pg_language c", "c.lanacl", "c.lanowner", "c.lanname = {name}"),
    "database": ("pg_catalog.pg_database c", "c.datacl", "c.datdba", "c.datname = {name}"),
}
"""For each type: where its objects are, what is granted, whose it is, and which is meant."""


def _checked(object_type: str, privileges: Any) -> tuple[str, list[str]]:
    """
    The type, and the privileges as words.

    @raises SaltInvocationError: there are no such.
    """
    kind, given = object_type.lower(), privileges or ""
    words = re.split(r"\s?,\s?", given.upper())
    if kind == "group":
        if given:
            raise SaltInvocationError(
                "The privileges option should not be set for object_type group"
            )
    elif kind not in PRIVILEGES:
        raise SaltInvocationError(f"Invalid object_type: {kind} provided")
    elif not set(words) <= {*PRIVILEGES[kind], "ALL"}:
        raise SaltInvocationError(
            f"Invalid privilege(s): {privileges or ''} provided for object {kind}"
        )
    return kind, words


def _names(name: str, prepend: str) -> dict[str, str]:
    return {"name": sql.value(name), "schema": sql.value(prepend)}


def privileges_list(
    name: str,
    object_type: str,
    prepend: str = "public",
    maintenance_db: str | None = None,
    user: str | None = None,
    host: str | None = None,
    port: Any = None,
    password: Any = None,
    runas: str | None = None,
) -> dict[str, Any]:
    """
    Who may do what with an object: for each role its privileges, and whether it may grant them.

    Nothing is told of privileges that the owner has by itself, before any are granted. Of a group:
    each member, and whether it is its administrator.

    name
        The object; a function with the types of its arguments.
    object_type
        Its type.
    prepend
        The schema of a table, sequence or function.
    maintenance_db
        The database.

    CLI Example::

        salt '*' postgres.privileges_list table_name table maintenance_db=db_name
    """
    kind = object_type.lower()
    server = _psql.Psql(globals(), user, host, port, maintenance_db, password, runas)
    if kind == "group":
        rows = server.rows(
            "SELECT r.rolname, m.admin_option FROM pg_catalog.pg_auth_members m"
            " JOIN pg_catalog.pg_roles r ON m.member = r.oid WHERE m.roleid IN"
            f" (SELECT oid FROM pg_catalog.pg_roles WHERE rolname = {sql.value(name)})"
            " ORDER BY r.rolname"
        )
        return {row["rolname"]: row["admin_option"] == "t" for row in rows}
    if kind not in _WHERE:
        raise SaltInvocationError(f"Invalid object_type: {kind} provided")
    source, granted, _owner, which = _WHERE[kind]
    rows = server.rows(
        "SELECT CASE a.grantee WHEN 0 THEN 'public' ELSE pg_get_userbyid(a.grantee) END AS role,"
        " a.privilege_type AS word, a.is_grantable AS may"
        f" FROM {source}, LATERAL aclexplode({granted}) a"
        f" WHERE {which.format(**_names(name, prepend))}"
    )
    found: dict[str, dict[str, bool]] = {}
    for row in rows:
        of_role = found.setdefault(row["role"], {})
        of_role[row["word"]] = row["may"] == "t" or of_role.get(row["word"], False)
    return found


def _owner(server: _psql.Psql, name: str, kind: str, prepend: str) -> str | None:
    source, _granted, owner, which = _WHERE[kind]
    rows = server.rows(
        f"SELECT r.rolname AS name FROM {source} JOIN pg_catalog.pg_roles r ON r.oid = {owner}"
        f" WHERE {which.format(**_names(name, prepend))}"
    )
    return rows[0]["name"] if rows else None


def has_privileges(
    name: str,
    object_name: str,
    object_type: str,
    privileges: Any = None,
    grant_option: Any = None,
    prepend: str = "public",
    maintenance_db: str | None = None,
    user: str | None = None,
    host: str | None = None,
    port: Any = None,
    password: Any = None,
    runas: str | None = None,
) -> bool:
    """
    Whether a role has privileges. The owner of an object has all.

    name
        The role.
    object_name, object_type
        The object.
    privileges
        With commas between them, or C{ALL}.
    grant_option
        It may grant them, too; of a group: it is its administrator.
    prepend
        The schema of a table, sequence or function.
    maintenance_db
        The database.

    CLI Example::

        salt '*' postgres.has_privileges user_name table_name table SELECT,INSERT \\
            maintenance_db=db_name
    """
    kind, words = _checked(object_type, privileges)
    server = _psql.Psql(globals(), user, host, port, maintenance_db, password, runas)
    if kind != "group" and _owner(server, object_name, kind, prepend) == name:
        return True
    found = privileges_list(
        object_name, kind, prepend, maintenance_db, user, host, port, password, runas
    )
    if name not in found:
        return False
    if kind == "group":
        return bool(found[name]) if grant_option else True
    held = {word for word, may in found[name].items() if may or not grant_option}
    if "ALL" not in words:
        return set(words) <= held
    lacking = set(PRIVILEGES[kind]) - held
    if lacking == {"MAINTAIN"}:
        # Servers before 17 do not know it
        return bool(server.is_before("17"))
    return not lacking


def _meant(server: _psql.Psql, name: str, kind: str, prepend: str) -> str | None:
    """An object as statements name it; C{None} if there is no such function."""
    if kind in ("table", "sequence"):
        if name.upper() == "ALL":
            return f"ALL {kind.upper()}S IN SCHEMA {sql.name(prepend)}"
        return f"{kind.upper()} {sql.name(prepend)}.{sql.name(name)}"
    if kind == "function":
        rows = server.rows(f"SELECT {sql.value(name)}::regprocedure::text AS name")
        return f"FUNCTION {rows[0]['name']}" if rows else None
    return f"{kind.upper()} {sql.name(name)}"


def privileges_grant(
    name: str,
    object_name: str,
    object_type: str,
    privileges: Any = None,
    grant_option: Any = None,
    prepend: str = "public",
    maintenance_db: str | None = None,
    user: str | None = None,
    host: str | None = None,
    port: Any = None,
    password: Any = None,
    runas: str | None = None,
) -> bool:
    """
    Grant privileges. C{False} if the role has them, or that fails.

    Arguments as for C{postgres.has_privileges}.

    CLI Example::

        salt '*' postgres.privileges_grant user_name table_name table SELECT,UPDATE \\
            maintenance_db=db_name
    """
    kind, words = _checked(object_type, privileges)
    if has_privileges(
        name,
        object_name,
        kind,
        privileges,
        grant_option,
        prepend,
        maintenance_db,
        user,
        host,
        port,
        password,
        runas,
    ):
        log.info(
            "The object: %s of type: %s already has privileges: %s set",
            object_name,
            kind,
            privileges or "",
        )
        return False
    server = _psql.Psql(globals(), user, host, port, maintenance_db, password, runas)
    if kind == "group":
        option = " WITH ADMIN OPTION" if grant_option else ""
        return server.did(f"GRANT {sql.name(object_name)} TO {sql.name(name)}{option}")
    meant = _meant(server, object_name, kind, prepend)
    option = " WITH GRANT OPTION" if grant_option else ""
    statement = f"GRANT {','.join(words)} ON {meant} TO {sql.name(name)}{option}"
    return meant is not None and server.did(statement)


def privileges_revoke(
    name: str,
    object_name: str,
    object_type: str,
    privileges: Any = None,
    prepend: str = "public",
    maintenance_db: str | None = None,
    user: str | None = None,
    host: str | None = None,
    port: Any = None,
    password: Any = None,
    runas: str | None = None,
) -> bool:
    """
    Revoke privileges. C{False} if the role does not have them, or that fails.

    Arguments as for C{postgres.has_privileges}.

    CLI Example::

        salt '*' postgres.privileges_revoke user_name table_name table SELECT,UPDATE \\
            maintenance_db=db_name
    """
    kind, words = _checked(object_type, privileges)
    if not has_privileges(
        name,
        object_name,
        kind,
        privileges,
        None,
        prepend,
        maintenance_db,
        user,
        host,
        port,
        password,
        runas,
    ):
        log.info(
            "The object: %s of type: %s does not have privileges: %s set",
            object_name,
            kind,
            privileges or "",
        )
        return False
    server = _psql.Psql(globals(), user, host, port, maintenance_db, password, runas)
    if kind == "group":
        return server.did(f"REVOKE {sql.name(object_name)} FROM {sql.name(name)}")
    meant = _meant(server, object_name, kind, prepend)
    statement = f"REVOKE {','.join(words)} ON {meant} FROM {sql.name(name)}"
    return meant is not None and server.did(statement)
