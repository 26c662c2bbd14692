"""
Schemas and languages in the databases of a PostgreSQL server.
"""

from __future__ import annotations

import logging
from typing import Any

from saltwisted.modules import _postgres_sql as sql
from saltwisted.modules import _psql

log = logging.getLogger(__name__)

__salt__: Any

_SCHEMAS = (
    'SELECT n.nspname AS "name", n.nspacl AS "acl", r.rolname AS "owner"'
    " FROM pg_catalog.pg_namespace n LEFT JOIN pg_catalog.pg_roles r ON r.oid = n.nspowner"
)


def schema_list(
    dbname: str,
    user: str | None = None,
    db_user: str | None = None,
    db_password: Any = None,
    db_host: str | None = None,
    db_port: Any = None,
) -> dict[str, dict[str, str]]:
    """
    The schemas of a database: owner and privileges.

    dbname
        The database.
    user
        The system user who runs C{psql}.
    db_user, db_password, db_host, db_port
        The role and the server.

    CLI Example::

        salt '*' postgres.schema_list dbname
    """
    server = _psql.Psql(globals(), db_user, db_host, db_port, dbname, db_password, user)
    return {
        row.pop("name"): {key: row[key] for key in ("owner", "acl")}
        for row in server.rows(_SCHEMAS)
    }


def schema_get(
    dbname: str,
    name: str,
    user: str | None = None,
    db_user: str | None = None,
    db_password: Any = None,
    db_host: str | None = None,
    db_port: Any = None,
) -> Any:
    """
    One schema of a database, or C{None}. Arguments as for C{postgres.schema_list}.

    name
        The schema.

    CLI Example::

        salt '*' postgres.schema_get dbname name
    """
    return schema_list(dbname, user, db_user, db_password, db_host, db_port).get(name)


def schema_exists(
    dbname: str,
    name: str,
    user: str | None = None,
    db_user: str | None = None,
    db_password: Any = None,
    db_host: str | None = None,
    db_port: Any = None,
) -> bool:
    """
    Whether a database has a schema. Arguments as for C{postgres.schema_list}.

    name
        The schema.

    CLI Example::

        salt '*' postgres.schema_exists dbname schemaname
    """
    return bool(schema_get(dbname, name, user, db_user, db_password, db_host, db_port))


def schema_create(
    dbname: str,
    name: str,
    owner: str | None = None,
    user: str | None = None,
    db_user: str | None = None,
    db_password: Any = None,
    db_host: str | None = None,
    db_port: Any = None,
) -> bool:
    """
    Make a schema. C{False} if it is there, or cannot be made.

    Arguments as for C{postgres.schema_list}.

    name
        The schema.
    owner
        Whose it is.

    CLI Example::

        salt '*' postgres.schema_create dbname name owner='owner'
    """
    if schema_exists(dbname, name, user, db_user, db_password, db_host, db_port):
        log.info("'%s' already exists in '%s'", name, dbname)
        return False
    server = _psql.Psql(globals(), db_user, db_host, db_port, dbname, db_password, user)
    text = f"CREATE SCHEMA {sql.name(name)}"
    return server.did(text if owner is None else f"{text} AUTHORIZATION {sql.name(owner)}")


def schema_remove(
    dbname: str,
    name: str,
    user: str | None = None,
    db_user: str | None = None,
    db_password: Any = None,
    db_host: str | None = None,
    db_port: Any = None,
) -> bool:
    """
    Remove a schema. C{False} if it is not there, or something is in it.

    Arguments as for C{postgres.schema_list}.

    name
        The schema.

    CLI Example::

        salt '*' postgres.schema_remove dbname schemaname
    """
    if not schema_exists(dbname, name, user, db_user, db_password, db_host, db_port):
        log.info("Schema '%s' does not exist in '%s'", name, dbname)
        return False
    server = _psql.Psql(globals(), db_user, db_host, db_port, dbname, db_password, user)
    server.run(f"DROP SCHEMA {sql.name(name)}")
    if schema_exists(dbname, name, user, db_user, db_password, db_host, db_port):
        log.info("Failed to delete schema '%s'.", name)
        return False
    return True


def language_list(
    maintenance_db: str,
    user: str | None = None,
    host: str | None = None,
    port: Any = None,
    password: Any = None,
    runas: str | None = None,
) -> dict[str, str]:
    """
    The languages of a database: each name, and the name again.

    maintenance_db
        The database.

    CLI Example::

        salt '*' postgres.language_list dbname
    """
    server = _psql.Psql(globals(), user, host, port, maintenance_db, password, runas)
    rows = server.rows('SELECT lanname AS "Name" FROM pg_language')
    return {row["Name"]: row["Name"] for row in rows}


def language_exists(
    name: str,
    maintenance_db: str,
    user: str | None = None,
    host: str | None = None,
    port: Any = None,
    password: Any = None,
    runas: str | None = None,
) -> bool:
    """
    Whether a database has a language.

    name
        The language.
    maintenance_db
        The database.

    CLI Example::

        salt '*' postgres.language_exists plpgsql dbname
    """
    return name in language_list(maintenance_db, user, host, port, password, runas)


def language_create(
    name: str,
    maintenance_db: str,
    user: str | None = None,
    host: str | None = None,
    port: Any = None,
    password: Any = None,
    runas: str | None = None,
) -> bool:
    """
    Install a language. C{False} if it is there, or cannot be installed.

    name
        The language.
    maintenance_db
        The database.

    CLI Example::

        salt '*' postgres.language_create plpgsql dbname
    """
    if language_exists(name, maintenance_db, user, host, port, password, runas):
        log.info("Language %s already exists in %s", name, maintenance_db)
        return False
    server = _psql.Psql(globals(), user, host, port, maintenance_db, password, runas)
    return server.did(f"CREATE LANGUAGE {sql.name(name)}")


def language_remove(
    name: str,
    maintenance_db: str,
    user: str | None = None,
    host: str | None = None,
    port: Any = None,
    password: Any = None,
    runas: str | None = None,
) -> bool:
    """
    Remove a language. C{False} if it is not there, or something needs it.

    name
        The language.
    maintenance_db
        The database.

    CLI Example::

        salt '*' postgres.language_remove plpgsql dbname
    """
    if not language_exists(name, maintenance_db, user, host, port, password, runas):
        log.info("Language %s does not exist in %s", name, maintenance_db)
        return False
    server = _psql.Psql(globals(), user, host, port, maintenance_db, password, runas)
    return server.did(f"DROP LANGUAGE {sql.name(name)}")
