"""
PostgreSQL servers: roles, databases, schemas, extensions, privileges.

Where the server is and who asks is in the arguments of each call, else in the minion's
configuration or pillar::

    postgres.host: localhost
    postgres.port: 5432
    postgres.user: postgres
    postgres.pass: ''
    postgres.maintenance_db: postgres
    postgres.timeout: 60
    postgres.bins_dir: /usr/lib/postgresql/15/bin

Without a host, or with the directory of a socket as one, the program C{psql} is run as the system
user C{postgres}, or C{runas}.
"""

from __future__ import annotations

import logging
import os
from typing import Any

from saltwisted.modules import _psql
from saltwisted.worker.exceptions import CommandExecutionError

log = logging.getLogger(__name__)

__salt__: Any
__parts__ = (
    "_postgres_databases",
    "_postgres_roles",
    "_postgres_schemas",
    "_postgres_extensions",
    "_postgres_privileges",
)


def __virtual__() -> Any:
    if not _psql.program(__salt__, "psql"):
        return False, "psql was not found"
    return True


def version(
    user: str | None = None,
    host: str | None = None,
    port: Any = None,
    maintenance_db: str | None = None,
    password: Any = None,
    runas: str | None = None,
) -> str | None:
    """
    The version of the server, or C{None}.

    CLI Example::

        salt '*' postgres.version
    """
    return _psql.Psql(globals(), user, host, port, maintenance_db, password, runas).version()


def psql_query(
    query: str,
    user: str | None = None,
    host: str | None = None,
    port: Any = None,
    maintenance_db: str | None = None,
    password: Any = None,
    runas: str | None = None,
    write: bool = False,
) -> list[dict[str, str]]:
    """
    What a C{SELECT} finds, a map for each row; all values are text.

    Something that changes rows has to give some, too::

        WITH changed AS (UPDATE t SET a = 1 RETURNING a) SELECT * FROM changed

    query
        The statement.
    user, password
        The role, and its password.
    host, port
        Where the server is.
    maintenance_db
        The database.
    runas
        The system user who runs C{psql}.
    write
        Allow changes where the default is a transaction that only reads.

    CLI Example::

        salt '*' postgres.psql_query 'select * from pg_stat_activity'
    """
    server = _psql.Psql(globals(), user, host, port, maintenance_db, password, runas)
    return server.rows(query, write)


def datadir_init(
    name: str,
    auth: str = "password",
    user: str | None = None,
    password: Any = None,
    encoding: str = "UTF8",
    locale: str | None = None,
    waldir: str | None = None,
    checksums: bool = False,
    runas: str | None = None,
) -> bool:
    """
    Make the data directory of a server.

    name
        The directory.
    auth
        How local connections prove who they are.
    user, password
        The superuser's name and password.
    encoding, locale
        Those of new databases.
    waldir
        Where the write-ahead log goes, if not into the directory.
    checksums
        Pages of data have checksums.
    runas
        The system user who will own it.

    CLI Example::

        salt '*' postgres.datadir_init '/var/lib/pgsql/data'
    """
    if datadir_exists(name):
        log.info("%s already exists", name)
        return False
    runas = "postgres" if runas is None else runas
    found = _psql.program(__salt__, "initdb")
    if not found:
        raise CommandExecutionError("initdb executable not found.")
    cmd = [found, f"--pgdata={name}", f"--username={runas if user is None else user}"]
    cmd += [f"--auth={auth}", f"--encoding={encoding}"]
    cmd += [] if locale is None else [f"--locale={locale}"]
    # The long name has changed with PostgreSQL 10
    cmd += [] if waldir is None else ["-X", waldir]
    cmd += ["--data-checksums"] if checksums else []
    timeout = __salt__["config.option"]("postgres.timeout", default=0)
    kwargs = {"runas": runas, "clean_env": True, "timeout": timeout, "python_shell": False}
    if password is None:
        ret = __salt__["cmd.run_all"](cmd, **kwargs)
    else:
        with _psql.secret_file(__salt__, str(password), runas) as path:
            cmd.append(f"--pwfile={path}")
            ret = __salt__["cmd.run_all"](cmd, **kwargs)
    if ret.get("retcode", 0) != 0:
        log.error("Error initilizing the postgres data directory")
    return bool(ret["retcode"] == 0)


def datadir_exists(name: str) -> bool:
    """
    Whether a directory is the data directory of a server.

    name
        The directory.

    CLI Example::

        salt '*' postgres.datadir_exists '/var/lib/pgsql/data'
    """
    return all(
        os.path.isfile(os.path.join(name, each)) for each in ("PG_VERSION", "postgresql.conf")
    )
