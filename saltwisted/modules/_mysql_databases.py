"""
Databases of MySQL and MariaDB servers.
"""

from __future__ import annotations

import logging
from typing import Any

from saltwisted.modules import _mysql

log = logging.getLogger(__name__)

__salt__: Any
__context__: Any

_FIXED = ("mysql", "information_schema")


def _server(given: dict[str, Any]) -> _mysql.Server:
    return _mysql.Server(globals(), given)


def _kept(name: str, given: dict[str, Any], verb: str, table: str | None) -> Any:
    """Check, repair or optimize one table, or all."""

    def one(table: str) -> Any:
        statement = f"{verb} TABLE {_mysql.quoted(name)}.{_mysql.quoted(table)}"
        found = _server(given).ask(statement, {})
        return found.maps() if found else {}

    return (
        one(table) if table is not None else [one(each) for each in db_tables(name, **given) or []]
    )


def db_check(name: str, table: str | None = None, **connection_args: Any) -> Any:
    """
    Look for errors in a table, or in all of a database.

    CLI Example::

        salt '*' mysql.db_check dbname dbtable
    """
    return _kept(name, connection_args, "CHECK", table)


def db_repair(name: str, table: str | None = None, **connection_args: Any) -> Any:
    """
    Repair a table, or all of a database.

    CLI Example::

        salt '*' mysql.db_repair dbname
    """
    return _kept(name, connection_args, "REPAIR", table)


def db_optimize(name: str, table: str | None = None, **connection_args: Any) -> Any:
    """
    Optimize a table, or all of a database.

    CLI Example::

        salt '*' mysql.db_optimize dbname
    """
    return _kept(name, connection_args, "OPTIMIZE", table)


def db_list(**connection_args: Any) -> list[str]:
    """
    All databases.

    CLI Example::

        salt '*' mysql.db_list
    """
    found = _server(connection_args).ask("SHOW DATABASES")
    return found.firsts() if found else []


def db_exists(name: str, **connection_args: Any) -> bool:
    """
    Whether there is a database of exactly this name.

    CLI Example::

        salt '*' mysql.db_exists 'dbname'
    """
    return bool(db_get(name, **connection_args))


def db_get(name: str, **connection_args: Any) -> Any:
    """
    A database's C{character_set} and C{collate}; nothing if it is not there.

    CLI Example::

        salt '*' mysql.db_get test
    """
    found = _server(connection_args).ask(
        "SELECT DEFAULT_CHARACTER_SET_NAME, DEFAULT_COLLATION_NAME"
        " FROM INFORMATION_SCHEMA.SCHEMATA WHERE SCHEMA_NAME = %(dbname)s",
        {"dbname": name},
    )
    if found is None:
        return []
    return dict(zip(("character_set", "collate"), found.rows[0], strict=True)) if found.rows else {}


def db_tables(name: str, **connection_args: Any) -> Any:
    """
    The tables of a database; C{False} if it is not there.

    CLI Example::

        salt '*' mysql.db_tables 'database'
    """
    if not db_exists(name, **connection_args):
        log.info("Database '%s' does not exist", name)
        return False
    found = _server(connection_args).ask(f"SHOW TABLES IN {_mysql.quoted(name)}", {})
    return found.firsts() if found else []


def _like(character_set: Any, collate: Any) -> tuple[str, dict[str, Any]]:
    given = {"CHARACTER SET": character_set, "COLLATE": collate}
    values = {word.replace(" ", "_"): value for word, value in given.items() if value is not None}
    return "".join(f" {key.replace('_', ' ')} %({key})s" for key in values), values


def alter_db(
    name: str, character_set: str | None = None, collate: str | None = None, **connection_args: Any
) -> Any:
    """
    Change the character set or the collation of a database.

    CLI Example::

        salt '*' mysql.alter_db testdb charset='latin1'
    """
    server = _server(connection_args)
    if not server.connect():
        return []
    words, values = _like(character_set, collate)
    found = server.ask(f"ALTER DATABASE {_mysql.quoted(name)}{words}", values) if values else None
    return found is not None


def db_create(
    name: str, character_set: str | None = None, collate: str | None = None, **connection_args: Any
) -> bool:
    """
    Make a database. C{False} if it is there, or cannot be made.

    CLI Example::

        salt '*' mysql.db_create 'dbname' 'utf8' 'utf8_general_ci'
    """
    if db_exists(name, **connection_args):
        log.info("DB '%s' already exists", name)
        return False
    words, values = _like(character_set, collate)
    statement = f"CREATE DATABASE IF NOT EXISTS {_mysql.quoted(name)}{words}"
    return _server(connection_args).ask(statement, values) is not None


def db_remove(name: str, **connection_args: Any) -> bool:
    """
    Remove a database. C{False} if it is not there, or may not be removed.

    CLI Example::

        salt '*' mysql.db_remove 'dbname'
    """
    if not db_exists(name, **connection_args):
        log.info("DB '%s' does not exist", name)
        return False
    if name in _FIXED:
        log.info("DB '%s' may not be removed", name)
        return False
    if _server(connection_args).ask(f"DROP DATABASE {_mysql.quoted(name)}", {}) is None:
        return False
    return not db_exists(name, **connection_args)
