"""
Extensions in the databases of a PostgreSQL server.
"""

from __future__ import annotations

import logging
from typing import Any

from saltwisted.modules import _postgres_sql as sql
from saltwisted.modules import _psql
from saltwisted.modules._postgres_words import INSTALLED, NOT_INSTALLED, TO_MOVE, TO_UPGRADE
from saltwisted.modules._versions import order

log = logging.getLogger(__name__)

__salt__: Any

_INSTALLED = (
    "SELECT a.*, b.nspname AS schema_name FROM pg_extension a, pg_namespace b"
    " WHERE a.extnamespace = b.oid"
)


def available_extensions(
    user: str | None = None,
    host: str | None = None,
    port: Any = None,
    maintenance_db: str | None = None,
    password: Any = None,
    runas: str | None = None,
) -> dict[str, dict[str, str]]:
    """
    The extensions that a database could have.

    CLI Example::

        salt '*' postgres.available_extensions
    """
    server = _psql.Psql(globals(), user, host, port, maintenance_db, password, runas)
    return {row["name"]: row for row in server.rows("SELECT * FROM pg_available_extensions()")}


def installed_extensions(
    user: str | None = None,
    host: str | None = None,
    port: Any = None,
    maintenance_db: str | None = None,
    password: Any = None,
    runas: str | None = None,
) -> dict[str, dict[str, str]]:
    """
    The extensions that a database has.

    CLI Example::

        salt '*' postgres.installed_extensions
    """
    server = _psql.Psql(globals(), user, host, port, maintenance_db, password, runas)
    return {row["extname"]: row for row in server.rows(_INSTALLED)}


def get_available_extension(
    name: str,
    user: str | None = None,
    host: str | None = None,
    port: Any = None,
    maintenance_db: str | None = None,
    password: Any = None,
    runas: str | None = None,
) -> Any:
    """
    One extension that a database could have, or C{None}.

    name
        The extension.

    CLI Example::

        salt '*' postgres.get_available_extension plpgsql
    """
    return available_extensions(user, host, port, maintenance_db, password, runas).get(name)


def get_installed_extension(
    name: str,
    user: str | None = None,
    host: str | None = None,
    port: Any = None,
    maintenance_db: str | None = None,
    password: Any = None,
    runas: str | None = None,
) -> Any:
    """
    One extension that a database has, or C{None}.

    name
        The extension.

    CLI Example::

        salt '*' postgres.get_installed_extension plpgsql
    """
    return installed_extensions(user, host, port, maintenance_db, password, runas).get(name)


def is_available_extension(
    name: str,
    user: str | None = None,
    host: str | None = None,
    port: Any = None,
    maintenance_db: str | None = None,
    password: Any = None,
    runas: str | None = None,
) -> bool:
    """
    Whether a database could have an extension, in capitals or not.

    name
        The extension.

    CLI Example::

        salt '*' postgres.is_available_extension plpgsql
    """
    return name.lower() in (
        each.lower()
        for each in available_extensions(user, host, port, maintenance_db, password, runas)
    )


def is_installed_extension(
    name: str,
    user: str | None = None,
    host: str | None = None,
    port: Any = None,
    maintenance_db: str | None = None,
    password: Any = None,
    runas: str | None = None,
) -> bool:
    """
    Whether a database has an extension.

    name
        The extension.

    CLI Example::

        salt '*' postgres.is_installed_extension plpgsql
    """
    return bool(get_installed_extension(name, user, host, port, maintenance_db, password, runas))


def create_metadata(
    name: str,
    ext_version: Any = None,
    schema: str | None = None,
    user: str | None = None,
    host: str | None = None,
    port: Any = None,
    maintenance_db: str | None = None,
    password: Any = None,
    runas: str | None = None,
) -> list[str]:
    """
    What is to be done with an extension.

    name
        The extension.
    ext_version
        The version that it should have at least.
    schema
        The schema in which it should be.

    CLI Example::

        salt '*' postgres.create_metadata adminpack
    """
    found = get_installed_extension(name, user, host, port, maintenance_db, password, runas)
    if not found:
        return [NOT_INSTALLED]
    words = [INSTALLED]
    wanted = "" if ext_version is None else sql.bare(ext_version)
    if order(found["extversion"]) < order(wanted):
        words.append(TO_UPGRADE)
    is_elsewhere = schema is not None and found["schema_name"] != schema
    if is_elsewhere and found["extrelocatable"] == "t":
        words.append(TO_MOVE)
    return words


def drop_extension(
    name: str,
    if_exists: bool | None = None,
    restrict: bool | None = None,
    cascade: bool | None = None,
    user: str | None = None,
    host: str | None = None,
    port: Any = None,
    maintenance_db: str | None = None,
    password: Any = None,
    runas: str | None = None,
) -> bool:
    """
    Remove an extension from a database. C{False} if it is still there.

    name
        The extension.
    if_exists
        Say so in the statement.
    restrict
        Keep it if something needs it.
    cascade
        Remove what needs it, too. So it is without a word, unless C{restrict} is given.

    CLI Example::

        salt '*' postgres.drop_extension 'adminpack'
    """
    words = ["DROP EXTENSION", *(["IF EXISTS"] if if_exists else []), sql.name(name)]
    if cascade or (cascade is None and not restrict):
        words.append("CASCADE")
    if restrict:
        words.append("RESTRICT")
    server = _psql.Psql(globals(), user, host, port, maintenance_db, password, runas)
    if is_installed_extension(name, user, host, port, maintenance_db, password, runas):
        server.run(" ".join(words))
        if is_installed_extension(name, user, host, port, maintenance_db, password, runas):
            log.info("Failed to drop ext: %s", name)
            return False
    return True


def create_extension(
    name: str,
    if_not_exists: bool | None = None,
    schema: str | None = None,
    ext_version: Any = None,
    from_version: Any = None,
    user: str | None = None,
    host: str | None = None,
    port: Any = None,
    maintenance_db: str | None = None,
    password: Any = None,
    runas: str | None = None,
) -> bool:
    """
    Have an extension in a database, in this version at least and in this schema.

    name
        The extension.
    if_not_exists
        Say so in the statement, as without a word.
    schema
        The schema in which it is.
    ext_version
        The version.
    from_version
        What was there before there were extensions; servers before 13 know that.

    CLI Example::

        salt '*' postgres.create_extension 'adminpack'
    """
    state = create_metadata(
        name, ext_version, schema, user, host, port, maintenance_db, password, runas
    )
    server = _psql.Psql(globals(), user, host, port, maintenance_db, password, runas)
    quoted = sql.name(name)
    statements = []
    if not is_available_extension(name, user, host, port, maintenance_db, password, runas):
        pass
    elif NOT_INSTALLED in state:
        words = ["CREATE EXTENSION"]
        words += ["IF NOT EXISTS"] if if_not_exists is None or if_not_exists else []
        words += [quoted]
        words += [f"SCHEMA {sql.name(schema)}"] if schema else []
        words += [f"VERSION {sql.value(sql.bare(ext_version))}"] if ext_version else []
        words += [f"FROM {sql.value(sql.bare(from_version))}"] if from_version else []
        statements = [" ".join(words)]
    else:
        if schema and TO_MOVE in state:
            statements.append(f"ALTER EXTENSION {quoted} SET SCHEMA {sql.name(schema)}")
        if ext_version and TO_UPGRADE in state:
            version = sql.value(sql.bare(ext_version))
            statements.append(f"ALTER EXTENSION {quoted} UPDATE TO {version}")
    if statements:
        server.run(*statements)
    is_so = create_metadata(
        name, ext_version, schema, user, host, port, maintenance_db, password, runas
    ) == [INSTALLED]
    if not is_so:
        log.info("Failed to create ext: %s", name)
    return is_so
