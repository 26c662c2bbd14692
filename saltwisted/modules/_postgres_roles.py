"""
Roles of a PostgreSQL server. Users may log in, groups have members; both are roles.
"""

from __future__ import annotations

import csv
import datetime
import logging
from typing import Any

from saltwisted.modules import _postgres_sql as sql
from saltwisted.modules import _psql
from saltwisted.modules._postgres_role import RoleFlags

log = logging.getLogger(__name__)

__salt__: Any

_WORDS = {"t": True, "f": False}
_FLAGS = {
    "superuser": "r.rolsuper",
    "inherits privileges": "r.rolinherit",
    "can create roles": "r.rolcreaterole",
    "can create databases": "r.rolcreatedb",
    "can login": "r.rolcanlogin",
    "connections": "r.rolconnlimit",
}


def _moment(text: str) -> datetime.datetime | None:
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError:
        return None


def user_list(
    user: str | None = None,
    host: str | None = None,
    port: Any = None,
    maintenance_db: str | None = None,
    password: Any = None,
    runas: str | None = None,
    return_password: bool = False,
) -> Any:
    """
    All roles, with what they may. C{False} if the server does not answer.

    return_password
        Tell what the server has stored of each password, too.

    CLI Example::

        salt '*' postgres.user_list
    """
    server = _psql.Psql(globals(), user, host, port, maintenance_db, password, runas)
    old = server.is_before("9.5")
    if old is None:
        log.error("Could not retrieve Postgres version. Is Postgresql server running?")
        return False
    columns = {
        **_FLAGS,
        "can update system catalogs": "r.rolcatupdate" if old else "NULL",
        "replication": "r.rolreplication",
        "name": "r.rolname",
        "groups": (
            "(SELECT array_agg(g.rolname) FROM pg_catalog.pg_auth_members m JOIN"
            " pg_catalog.pg_roles g ON m.roleid = g.oid WHERE m.member = r.oid)"
        ),
        "expiry time": "r.rolvaliduntil::timestamp(0)",
        "defaults variables": "r.rolconfig",
    }
    source = "pg_catalog.pg_roles r"
    if return_password:
        columns["password"] = "COALESCE(s.passwd, a.rolpassword)"
        source += " LEFT JOIN pg_catalog.pg_authid a ON r.oid = a.oid"
        source += " LEFT JOIN pg_catalog.pg_shadow s ON r.oid = s.usesysid"
    asked = ", ".join(f"{column} AS {sql.name(word)}" for word, column in columns.items())
    found = {}
    for row in server.rows(f"SELECT {asked} FROM {source}", is_secret=return_password):
        role: dict[str, Any] = {
            word: _WORDS.get(row[word])
            for word in (*_FLAGS, "can update system catalogs", "replication")
        }
        role["expiry time"] = _moment(row["expiry time"])
        role["defaults variables"] = row["defaults variables"]
        if return_password:
            role["password"] = row["password"]
        # Names in an array are quoted as in a line of CSV, quotes in them by a backslash.
        groups = csv.reader([row["groups"].strip("{}")], escapechar="\\", doublequote=False)
        role["groups"] = next(groups)
        found[row["name"]] = role
    return found


def role_get(
    name: str,
    user: str | None = None,
    host: str | None = None,
    port: Any = None,
    maintenance_db: str | None = None,
    password: Any = None,
    runas: str | None = None,
    return_password: bool = False,
) -> Any:
    """
    What a role may, or C{None}.

    name
        The role.
    return_password
        Tell what the server has stored of its password, too.

    CLI Example::

        salt '*' postgres.role_get postgres
    """
    roles = user_list(user, host, port, maintenance_db, password, runas, return_password)
    if roles is False:
        log.error("Could not retrieve Postgres role. Is Postgres running?")
        return None
    return roles.get(name)


def user_exists(
    name: str,
    user: str | None = None,
    host: str | None = None,
    port: Any = None,
    maintenance_db: str | None = None,
    password: Any = None,
    runas: str | None = None,
) -> bool:
    """
    Whether there is a role.

    name
        The role.

    CLI Example::

        salt '*' postgres.user_exists 'username'
    """
    return bool(role_get(name, user, host, port, maintenance_db, password, runas))


def user_create(
    username: str,
    user: str | None = None,
    host: str | None = None,
    port: Any = None,
    maintenance_db: str | None = None,
    password: Any = None,
    createdb: Any = None,
    createroles: Any = None,
    inherit: Any = None,
    login: Any = None,
    connlimit: Any = None,
    encrypted: Any = None,
    superuser: Any = None,
    replication: Any = None,
    rolepassword: Any = None,
    valid_until: Any = None,
    groups: Any = None,
    runas: str | None = None,
) -> bool:
    """
    Make a role that may log in. C{False} if it is there, or cannot be made.

    username
        The role.
    createdb, createroles, superuser, replication
        What it may do, if given.
    inherit
        It has the privileges of its groups. Without a word it has.
    login
        It may log in. Without a word it may.
    connlimit
        How many connections it may have.
    encrypted
        How the password is stored: C{md5} (without a word), C{scram-sha-256}, or C{False}.
    rolepassword
        Its password, or what is stored of it.
    valid_until
        When the password ends.
    groups
        The groups that it is in, a list or text with commas.

    CLI Example::

        salt '*' postgres.user_create 'username' rolepassword='word' valid_until='2030-01-01'
    """
    server = _psql.Psql(globals(), user, host, port, maintenance_db, password, runas)
    flags = RoleFlags.of(locals(), is_login=True)
    return _created(
        username,
        server,
        flags,
        "User",
        role_get(username, user, host, port, maintenance_db, password, runas),
    )


def user_update(
    username: str,
    user: str | None = None,
    host: str | None = None,
    port: Any = None,
    maintenance_db: str | None = None,
    password: Any = None,
    createdb: Any = None,
    createroles: Any = None,
    encrypted: Any = None,
    superuser: Any = None,
    inherit: Any = None,
    login: Any = None,
    connlimit: Any = None,
    replication: Any = None,
    rolepassword: Any = None,
    valid_until: Any = None,
    groups: Any = None,
    runas: str | None = None,
) -> bool:
    """
    Change a role. C{False} if it is not there, or cannot be changed.

    Arguments are those of C{postgres.user_create}.

    CLI Example::

        salt '*' postgres.user_update 'username' rolepassword='word' valid_until='2030-01-01'
    """
    server = _psql.Psql(globals(), user, host, port, maintenance_db, password, runas)
    flags = RoleFlags.of(locals())
    return _changed(
        username,
        server,
        flags,
        "User",
        role_get(username, user, host, port, maintenance_db, password, runas),
    )


def user_remove(
    username: str,
    user: str | None = None,
    host: str | None = None,
    port: Any = None,
    maintenance_db: str | None = None,
    password: Any = None,
    runas: str | None = None,
) -> bool:
    """
    Remove a role. C{False} if it is not there, or something is still its.

    username
        The role.

    CLI Example::

        salt '*' postgres.user_remove 'username'
    """
    server = _psql.Psql(globals(), user, host, port, maintenance_db, password, runas)
    if not user_exists(username, user, host, port, maintenance_db, password, runas):
        log.info("User '%s' does not exist", username)
        return False
    server.run(f"DROP ROLE {sql.name(username)}")
    if user_exists(username, user, host, port, maintenance_db, password, runas):
        log.info("Failed to delete user '%s'.", username)
        return False
    return True


def group_create(
    groupname: str,
    user: str | None = None,
    host: str | None = None,
    port: Any = None,
    maintenance_db: str | None = None,
    password: Any = None,
    createdb: Any = None,
    createroles: Any = None,
    encrypted: Any = None,
    login: Any = None,
    inherit: Any = None,
    superuser: Any = None,
    replication: Any = None,
    rolepassword: Any = None,
    groups: Any = None,
    runas: str | None = None,
) -> bool:
    """
    Make a role that may not log in. C{False} if it is there, or cannot be made.

    Arguments are those of C{postgres.user_create}.

    CLI Example::

        salt '*' postgres.group_create 'groupname'
    """
    server = _psql.Psql(globals(), user, host, port, maintenance_db, password, runas)
    flags = RoleFlags.of(locals(), is_login=False)
    return _created(
        groupname,
        server,
        flags,
        "Group",
        role_get(groupname, user, host, port, maintenance_db, password, runas),
    )


def group_update(
    groupname: str,
    user: str | None = None,
    host: str | None = None,
    port: Any = None,
    maintenance_db: str | None = None,
    password: Any = None,
    createdb: Any = None,
    createroles: Any = None,
    encrypted: Any = None,
    inherit: Any = None,
    login: Any = None,
    superuser: Any = None,
    replication: Any = None,
    rolepassword: Any = None,
    groups: Any = None,
    runas: str | None = None,
) -> bool:
    """
    Change a role. C{False} if it is not there, or cannot be changed.

    Arguments are those of C{postgres.user_create}.

    CLI Example::

        salt '*' postgres.group_update 'groupname' createdb=True
    """
    server = _psql.Psql(globals(), user, host, port, maintenance_db, password, runas)
    flags = RoleFlags.of(locals())
    return _changed(
        groupname,
        server,
        flags,
        "Group",
        role_get(groupname, user, host, port, maintenance_db, password, runas),
    )


def group_remove(
    groupname: str,
    user: str | None = None,
    host: str | None = None,
    port: Any = None,
    maintenance_db: str | None = None,
    password: Any = None,
    runas: str | None = None,
) -> bool:
    """
    Remove a role. C{False} if it is not there, or something is still its.

    groupname
        The role.

    CLI Example::

        salt '*' postgres.group_remove 'groupname'
    """
    return user_remove(groupname, user, host, port, maintenance_db, password, runas)


def _created(name: str, server: _psql.Psql, flags: RoleFlags, kind: str, role: Any) -> bool:
    if role:
        log.info("%s '%s' already exists", kind, name)
        return False
    return _told(server, flags, flags.statements("CREATE", name))


def _changed(name: str, server: _psql.Psql, flags: RoleFlags, kind: str, role: Any) -> bool:
    if not role:
        log.info("%s '%s' could not be found", kind, name)
        return False
    return _told(server, flags, flags.statements("ALTER", name, role))


def _told(server: _psql.Psql, flags: RoleFlags, statements: list[str]) -> bool:
    if flags.is_clear and server.is_before("10") is False:
        # It would refuse, and log the statement with the password
        log.error("This server stores no password as it is; 'encrypted' cannot be False")
        return False
    return bool(server.run_secret(*statements)["retcode"] == 0)
