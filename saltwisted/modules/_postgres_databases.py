"""
Databases and tablespaces of a PostgreSQL server.
"""

from __future__ import annotations

import logging
from typing import Any

from saltwisted.modules import _postgres_sql as sql
from saltwisted.modules import _psql
from saltwisted.worker.exceptions import CommandExecutionError

log = logging.getLogger(__name__)

__salt__: Any

_DATABASES = (
    'SELECT datname AS "Name", pga.rolname AS "Owner",'
    ' pg_encoding_to_char(encoding) AS "Encoding", datcollate AS "Collate",'
    ' datctype AS "Ctype", datacl AS "Access privileges", spcname AS "Tablespace"'
    " FROM pg_database pgd, pg_roles pga, pg_tablespace pgts"
    " WHERE pga.oid = pgd.datdba AND pgts.oid = pgd.dattablespace"
)
_TABLESPACES = (
    'SELECT spcname AS "Name", pga.rolname AS "Owner", spcacl AS "ACL", spcoptions AS "Opts",'
    ' pg_tablespace_location(pgts.oid) AS "Location"'
    " FROM pg_tablespace pgts, pg_roles pga WHERE pga.oid = pgts.spcowner"
)
_OURS = "NOT IN ('pg_catalog', 'information_schema', 'pg_toast')"
_THINGS = {
    "SCHEMA": f"SELECT quote_ident(nspname) AS n FROM pg_namespace WHERE nspname {_OURS}"
    " AND nspname NOT LIKE 'pg\\_temp\\_%' AND nspname NOT LIKE 'pg\\_toast\\_temp\\_%'",
    "TABLE": "SELECT c.oid::regclass::text AS n FROM pg_class c JOIN pg_namespace s"
    " ON s.oid = c.relnamespace WHERE c.relkind IN ('r', 'v', 'm', 'p', 'f')"
    f" AND s.nspname {_OURS}",
    "SEQUENCE": "SELECT c.oid::regclass::text AS n FROM pg_class c JOIN pg_namespace s"
    f" ON s.oid = c.relnamespace WHERE c.relkind = 'S' AND s.nspname {_OURS}",
    "FUNCTION": "SELECT p.oid::regprocedure::text AS n FROM pg_proc p JOIN pg_namespace s"
    f" ON s.oid = p.pronamespace WHERE s.nspname {_OURS} AND {{ordinary}}",
    "AGGREGATE": "SELECT p.oid::regprocedure::text AS n FROM pg_proc p JOIN pg_namespace s"
    f" ON s.oid = p.pronamespace WHERE s.nspname {_OURS} AND {{aggregate}}",
    "PROCEDURE": "SELECT p.oid::regprocedure::text AS n FROM pg_proc p JOIN pg_namespace s"
    f" ON s.oid = p.pronamespace WHERE s.nspname {_OURS} AND {{procedure}}",
}
"""What has an owner, as the server quotes it. Sequences come after their tables, which own them."""


def _by_name(rows: list[dict[str, str]]) -> dict[str, dict[str, str]]:
    return {row.pop("Name"): row for row in rows}


def db_list(
    user: str | None = None,
    host: str | None = None,
    port: Any = None,
    maintenance_db: str | None = None,
    password: Any = None,
    runas: str | None = None,
) -> dict[str, dict[str, str]]:
    """
    All databases: owner, encoding, collation, privileges, tablespace.

    CLI Example::

        salt '*' postgres.db_list
    """
    server = _psql.Psql(globals(), user, host, port, maintenance_db, password, runas)
    return _by_name(server.rows(_DATABASES))


def db_exists(
    name: str,
    user: str | None = None,
    host: str | None = None,
    port: Any = None,
    maintenance_db: str | None = None,
    password: Any = None,
    runas: str | None = None,
) -> bool:
    """
    Whether there is a database.

    name
        The database.

    CLI Example::

        salt '*' postgres.db_exists 'dbname'
    """
    return name in db_list(user, host, port, maintenance_db, password, runas)


def db_create(
    name: str,
    user: str | None = None,
    host: str | None = None,
    port: Any = None,
    maintenance_db: str | None = None,
    password: Any = None,
    tablespace: str | None = None,
    encoding: str | None = None,
    lc_collate: str | None = None,
    lc_ctype: str | None = None,
    owner: str | None = None,
    template: str | None = None,
    runas: str | None = None,
) -> bool:
    """
    Make a database. C{False} if that fails.

    name
        The database.
    tablespace, owner
        Where it goes, and whose it is.
    encoding, lc_collate, lc_ctype
        What its texts are like.
    template
        The database of which it is a copy.

    CLI Example::

        salt '*' postgres.db_create 'dbname' template=template_postgis
    """
    given = {
        "TABLESPACE": (sql.name, sql.without('"', tablespace)),
        "OWNER": (sql.name, sql.without('"', owner)),
        "TEMPLATE": (sql.name, template),
        "ENCODING": (sql.value, sql.without("'", encoding)),
        "LC_COLLATE": (sql.value, sql.without("'", lc_collate)),
        "LC_CTYPE": (sql.value, sql.without("'", lc_ctype)),
    }
    words = [f"{word} = {quote(each)}" for word, (quote, each) in given.items() if each is not None]
    text = f"CREATE DATABASE {sql.name(name)}"
    server = _psql.Psql(globals(), user, host, port, maintenance_db, password, runas)
    return server.did(" ".join([text, "WITH", *words]) if words else text)


def db_alter(
    name: str,
    user: str | None = None,
    host: str | None = None,
    port: Any = None,
    maintenance_db: str | None = None,
    password: Any = None,
    tablespace: str | None = None,
    owner: str | None = None,
    owner_recurse: bool = False,
    runas: str | None = None,
) -> bool:
    """
    Change a database's owner or tablespace. C{False} if that fails.

    name
        The database.
    tablespace
        Where it goes.
    owner
        Whose it is.
    owner_recurse
        All that is in it is the owner's, too.

    CLI Example::

        salt '*' postgres.db_alter dbname owner=otheruser
    """
    if owner and owner_recurse:
        ret = owner_to(name, owner, user, host, port, password, runas)
        if ret["retcode"] != 0:
            return False
        owner = None
    server = _psql.Psql(globals(), user, host, port, maintenance_db, password, runas)
    text = f"ALTER DATABASE {sql.name(name)}"
    if owner and not server.did(f"{text} OWNER TO {sql.name(owner)}"):
        return False
    return not tablespace or server.did(f"{text} SET TABLESPACE {sql.name(tablespace)}")


def db_remove(
    name: str,
    user: str | None = None,
    host: str | None = None,
    port: Any = None,
    maintenance_db: str | None = None,
    password: Any = None,
    runas: str | None = None,
) -> bool:
    """
    Remove a database, with those who are connected to it.

    name
        The database.

    CLI Example::

        salt '*' postgres.db_remove 'dbname'
    """
    server = _psql.Psql(globals(), user, host, port, maintenance_db, password, runas)
    quoted = sql.name(name)
    others = f"FROM pg_stat_activity WHERE datname = {sql.value(name)} AND pid <> pg_backend_pid()"
    ret = server.run(f"DROP DATABASE {quoted}")
    if ret["retcode"] == 0:
        return True
    # Nobody is thrown out of a database that stays for another reason
    if server.rows(f"SELECT pid {others}"):
        for statement in (
            f"REVOKE CONNECT ON DATABASE {quoted} FROM public",
            f"SELECT pid, pg_terminate_backend(pid) {others}",
            f"DROP DATABASE {quoted}",
        ):
            ret = server.run(statement)
            if ret["retcode"] != 0:
                break
        else:
            return True
    raise CommandExecutionError(f"Failed: ret={ret}")


def owner_to(
    dbname: str,
    ownername: str,
    user: str | None = None,
    host: str | None = None,
    port: Any = None,
    password: Any = None,
    runas: str | None = None,
) -> dict[str, Any]:
    """
    Make a role the owner of a database and of all that is in it: all, or nothing.

    @return: what C{psql} answered.

    CLI Example::

        salt '*' postgres.owner_to 'dbname' 'username'
    """
    server = _psql.Psql(globals(), user, host, port, dbname, password, runas)
    is_old, owner = server.is_before("11"), sql.name(ownername)
    kinds = {
        "ordinary": "NOT p.proisagg" if is_old else "p.prokind IN ('f', 'w')",
        "aggregate": "p.proisagg" if is_old else "p.prokind = 'a'",
        "procedure": "false" if is_old else "p.prokind = 'p'",
    }
    statements = [f"ALTER DATABASE {sql.name(dbname)} OWNER TO {owner}"]
    for kind, query in _THINGS.items():
        for row in server.rows(query.format(**kinds)):
            statements.append(f"ALTER {kind} {row['n']} OWNER TO {owner}")
    return server.run_script(*statements)


def tablespace_list(
    user: str | None = None,
    host: str | None = None,
    port: Any = None,
    maintenance_db: str | None = None,
    password: Any = None,
    runas: str | None = None,
) -> dict[str, dict[str, str]]:
    """
    All tablespaces: owner, privileges, options, location.

    CLI Example::

        salt '*' postgres.tablespace_list
    """
    server = _psql.Psql(globals(), user, host, port, maintenance_db, password, runas)
    return _by_name(server.rows(_TABLESPACES))


def tablespace_exists(
    name: str,
    user: str | None = None,
    host: str | None = None,
    port: Any = None,
    maintenance_db: str | None = None,
    password: Any = None,
    runas: str | None = None,
) -> bool:
    """
    Whether there is a tablespace.

    name
        The tablespace.

    CLI Example::

        salt '*' postgres.tablespace_exists 'dbname'
    """
    return name in tablespace_list(user, host, port, maintenance_db, password, runas)


def _option(name: str, value: Any) -> str:
    return f"{sql.name(name)} = {sql.value(value)}"


def tablespace_create(
    name: str,
    location: str,
    options: Any = None,
    owner: str | None = None,
    user: str | None = None,
    host: str | None = None,
    port: Any = None,
    maintenance_db: str | None = None,
    password: Any = None,
    runas: str | None = None,
) -> bool:
    """
    Make a tablespace. C{False} if that fails.

    name
        The tablespace.
    location
        Its directory, which is there, empty, and the server's.
    options
        A map, such as C{seq_page_cost: 1.1}.
    owner
        Whose it is.

    CLI Example::

        salt '*' postgres.tablespace_create tablespacename '/path/datadir'
    """
    words = [f"CREATE TABLESPACE {sql.name(name)}"]
    words += [f"OWNER {sql.name(owner)}"] if owner else []
    words.append(f"LOCATION {sql.value(location)}")
    if options:
        words.append(f"WITH ({', '.join(_option(*item) for item in options.items())})")
    server = _psql.Psql(globals(), user, host, port, maintenance_db, password, runas)
    return server.did(" ".join(words))


def tablespace_alter(
    name: str,
    user: str | None = None,
    host: str | None = None,
    port: Any = None,
    maintenance_db: str | None = None,
    password: Any = None,
    new_name: str | None = None,
    new_owner: str | None = None,
    set_option: Any = None,
    reset_option: str | None = None,
    runas: str | None = None,
) -> bool:
    """
    Change a tablespace. C{False} if that fails; then nothing has changed.

    name
        The tablespace.
    new_name, new_owner
        How it is called, and whose it is.
    set_option
        A map of options.
    reset_option
        An option that has its default again; several have commas between them.

    CLI Example::

        salt '*' postgres.tablespace_alter tsname new_owner=otheruser
        salt '*' postgres.tablespace_alter test set_option="{'seq_page_cost': '1.1'}"
        salt '*' postgres.tablespace_alter tsname reset_option=seq_page_cost
    """
    text = f"ALTER TABLESPACE {sql.name(name)}"
    statements = []
    if new_owner:
        statements.append(f"{text} OWNER TO {sql.name(new_owner)}")
    if set_option:
        statements.append(
            f"{text} SET ({', '.join(_option(*item) for item in set_option.items())})"
        )
    if reset_option:
        words = (sql.name(each.strip()) for each in reset_option.split(","))
        statements.append(f"{text} RESET ({', '.join(words)})")
    if new_name:
        statements.append(f"{text} RENAME TO {sql.name(new_name)}")
    server = _psql.Psql(globals(), user, host, port, maintenance_db, password, runas)
    return not statements or server.did(*statements)


def tablespace_remove(
    name: str,
    user: str | None = None,
    host: str | None = None,
    port: Any = None,
    maintenance_db: str | None = None,
    password: Any = None,
    runas: str | None = None,
) -> bool:
    """
    Remove a tablespace. C{False} if it is not there, or something is in it.

    name
        The tablespace.

    CLI Example::

        salt '*' postgres.tablespace_remove tsname
    """
    server = _psql.Psql(globals(), user, host, port, maintenance_db, password, runas)
    return server.did(f"DROP TABLESPACE {sql.name(name)}")
