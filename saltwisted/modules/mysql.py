"""
MySQL and MariaDB servers: databases, users, grants, queries.

Where the server is and who asks is in the arguments C{connection_*} of each call, else in the
minion's configuration or pillar::

    mysql.host: localhost
    mysql.port: 3306
    mysql.user: root
    mysql.pass: ''
    mysql.db: mysql
    mysql.unix_socket: /run/mysqld/mysqld.sock
    mysql.default_file: /etc/mysql/debian.cnf
    mysql.charset: utf8mb4

Debian's packages C{python3-pymysql} and C{python3-mysqldb} have a library for it.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from typing import Any

from saltwisted.modules import _mysql, _mysql_grants

log = logging.getLogger(__name__)

__salt__: Any
__context__: Any
__parts__ = ("_mysql_databases", "_mysql_users", "_mysql_rights")

_FINDING = ("SELECT", "SHOW", "DESC")
_FROM_ELSEWHERE = ("salt://", "http://", "https://", "swift://", "s3://")


def __virtual__() -> Any:
    return (True, "") if _mysql.driver else (False, _mysql.LACKING)


def _server(given: dict[str, Any]) -> _mysql.Server:
    return _mysql.Server(globals(), given)


def quote_identifier(identifier: str, for_grants: bool = False) -> str:
    r"""
    A name, quoted for a statement that has values beside it: each C{%} is doubled.

    identifier
        The name.
    for_grants
        C{_} is no pattern.

    CLI Example::

        salt '*' mysql.quote_identifier 'foo`bar'
    """
    return _mysql.quoted(identifier, for_grants)


def query(database: str, query: str, **connection_args: Any) -> Any:
    """
    Run one statement, and tell what it found or how many rows it changed; all values are text.

    @return: C{False} if the server refuses the statement, an empty map if it refuses us.

    database
        The database.
    query
        The statement.

    CLI Example::

        salt '*' mysql.query mydb "SELECT id, name FROM mytable"
    """
    server = _server({**connection_args, "connection_db": database}).as_text()
    if not server.connect():
        return {}
    start = time.monotonic()
    found = server.ask(query)
    if found is None:
        return False
    took = time.monotonic() - start
    shown = f"{round(took * 1000, 1)}ms" if took < 0.2 else f"{round(took, 2)}s"
    ret: dict[str, Any] = {"query time": {"human": shown, "raw": str(round(took, 5))}}
    if not query.strip().upper().startswith(_FINDING):
        return {**ret, "rows affected": found.count}
    return {**ret, "rows returned": found.count, "columns": found.columns, "results": found.rows}


def _statements(text: str) -> Iterator[str]:
    """The statements of a file, without its comments."""
    start = place = 0
    kept: list[str] = []
    while place < len(text):
        mark = text[place]
        if mark in "'\"`":
            end = place + 1
            while end < len(text) and text[end] != mark:
                end += 2 if text[end] == "\\" and mark != "`" else 1
            place = end + 1
        elif mark == "#" or (mark == "-" and text[place : place + 3] in ("-- ", "--\n", "--\t")):
            kept.append(text[start:place])
            end = text.find("\n", place)
            start = place = len(text) if end < 0 else end
        elif mark == "/" and text[place : place + 2] == "/*" and text[place + 2 : place + 3] != "!":
            kept.append(text[start:place])
            end = text.find("*/", place + 2)
            start = place = len(text) if end < 0 else end + 2
        elif mark == ";":
            yield "".join([*kept, text[start:place]]).strip()
            kept = []
            start = place = place + 1
        else:
            place += 1
    yield "".join([*kept, text[start:]]).strip()


def file_query(database: str, file_name: str, **connection_args: Any) -> Any:
    """
    Run the statements of a file, and tell what they found and changed together.

    @return: C{False} if there is no such file, or the server refuses one of them.

    database
        The database.
    file_name
        The file, also at an address such as C{salt://}.

    CLI Example::

        salt '*' mysql.file_query mydb file_name=/tmp/sqlfile.sql
    """
    if file_name.startswith(_FROM_ELSEWHERE):
        file_name = __salt__["cp.cache_file"](file_name)
    if not file_name or not os.path.exists(file_name):
        log.error('File "%s" does not exist', file_name)
        return False
    with open(file_name, encoding="utf-8") as file:
        text = file.read()
    took = 0.0
    ret: dict[str, Any] = {"rows returned": 0, "columns": [], "results": [], "rows affected": 0}
    for statement in filter(None, _statements(text)):
        found = query(database, statement, **connection_args)
        if found is False or not found:
            return False
        took += float(found["query time"]["raw"])
        for word in ("rows returned", "rows affected"):
            ret[word] += found.get(word, 0)
        for word in ("columns", "results"):
            ret[word] += [found[word]] if word in found else []
    ret["query time"] = {"raw": round(took, 5), "human": f"{round(took, 2)}s"}
    return {key: value for key, value in ret.items() if value}


def status(**connection_args: Any) -> dict[str, Any]:
    """
    The server's counters.

    CLI Example::

        salt '*' mysql.status
    """
    found = _server(connection_args).ask("SHOW STATUS")
    return dict(found.rows) if found else {}


def version(**connection_args: Any) -> str:
    """
    The server's version.

    CLI Example::

        salt '*' mysql.version
    """
    if "mysql.version" not in __context__:
        found = _server(connection_args).ask("SELECT VERSION()")
        if found is None:
            return ""
        __context__["mysql.version"] = found.rows[0][0]
    return str(__context__["mysql.version"])


def slave_lag(**connection_args: Any) -> int:
    """
    How many seconds a replica is behind; -1 if it is none, -2 if it stands still, -3 if it does not
    answer.

    CLI Example::

        salt '*' mysql.slave_lag
    """
    found = _server(connection_args).ask("SHOW SLAVE STATUS")
    if found is None:
        return -3
    if not found.rows:
        return -1
    row = found.maps()[0]
    return int(row["Seconds_Behind_Master"]) if row["Slave_IO_Running"] == "Yes" else -2


def free_slave(**connection_args: Any) -> str:
    """
    Make a replica a server of its own.

    @return: C{promoted} or C{failed}; nothing if one of both does not answer.

    CLI Example::

        salt '*' mysql.free_slave
    """
    server = _server(connection_args)
    found = server.ask("SHOW SLAVE STATUS")
    if found is None:
        return ""
    if not found.rows:
        return "failed"
    master = _server({"connection_host": found.maps()[0]["Master_Host"]})
    if master.ask("FLUSH LOGS") is None:
        log.warning("The logs of the master could not be flushed: %s", server.error)
    for statement in ("STOP SLAVE", "RESET MASTER", "RESET SLAVE ALL"):
        server.ask(statement)
    left = server.ask("SHOW SLAVE STATUS")
    return "promoted" if left is not None and not left.rows else "failed"


def processlist(**connection_args: Any) -> list[dict[str, Any]]:
    """
    What the server is doing.

    CLI Example::

        salt '*' mysql.processlist
    """
    found = _server(connection_args).ask("SHOW FULL PROCESSLIST")
    return found.maps() if found else []


def _first(given: dict[str, Any], statement: str) -> Any:
    found = _server(given).ask(statement)
    return found.maps()[0] if found and found.rows else []


def get_master_status(**connection_args: Any) -> Any:
    """
    Where the server is in its binary log.

    CLI Example::

        salt '*' mysql.get_master_status
    """
    return _first(connection_args, "SHOW MASTER STATUS")


def get_slave_status(**connection_args: Any) -> Any:
    """
    Where a replica is.

    CLI Example::

        salt '*' mysql.get_slave_status
    """
    return _first(connection_args, "SHOW SLAVE STATUS")


def showvariables(**connection_args: Any) -> list[dict[str, Any]]:
    """
    The variables of a connection.

    CLI Example::

        salt '*' mysql.showvariables
    """
    found = _server(connection_args).ask("SHOW VARIABLES")
    return found.maps() if found else []


def showglobal(**connection_args: Any) -> list[dict[str, Any]]:
    """
    The server's variables.

    CLI Example::

        salt '*' mysql.showglobal
    """
    found = _server(connection_args).ask("SHOW GLOBAL VARIABLES")
    return found.maps() if found else []


def verify_login(user: str, password: Any = None, **connection_args: Any) -> bool:
    """
    Whether a user may log in with this password.

    CLI Example::

        salt '*' mysql.verify_login root password
    """
    server = _server({**connection_args, "connection_user": user, "connection_pass": password})
    if server.connect():
        return True
    server.forgive()
    return False


def plugins_list(**connection_args: Any) -> list[dict[str, Any]]:
    """
    The server's plugins: C{name} and C{status}.

    CLI Example::

        salt '*' mysql.plugins_list
    """
    found = _server(connection_args).ask("SHOW PLUGINS")
    return [{"name": row[0], "status": row[1]} for row in found.rows] if found else []


def plugin_add(name: str, soname: str | None = None, **connection_args: Any) -> bool:
    """
    Install a plugin.

    name
        The plugin.
    soname
        Its library, C{NAME.so} if not given.

    CLI Example::

        salt '*' mysql.plugin_add auth_socket
    """
    if not name:
        log.error("Plugin name is required.")
        return False
    if plugin_status(name, **connection_args):
        log.error("Plugin %s is already installed.", name)
        return True
    statement = f"INSTALL PLUGIN {_mysql.quoted(name)} SONAME %(soname)s"
    values = {"soname": soname or f"{name}.so"}
    return _server(connection_args).ask(statement, values) is not None


def plugin_remove(name: str, **connection_args: Any) -> bool:
    """
    Remove a plugin.

    name
        The plugin.

    CLI Example::

        salt '*' mysql.plugin_remove auth_socket
    """
    if not name:
        log.error("Plugin name is required.")
        return False
    if not plugin_status(name, **connection_args):
        log.error("Plugin %s is not installed.", name)
        return True
    statement = f"UNINSTALL PLUGIN {_mysql.quoted(name)}"
    return _server(connection_args).ask(statement, {}) is not None


def plugin_status(name: str, **connection_args: Any) -> Any:
    """
    The status of a plugin, or nothing.

    name
        The plugin.

    CLI Example::

        salt '*' mysql.plugin_status auth_socket
    """
    if not name:
        log.error("Plugin name is required.")
        return False
    return _mysql.plugin(_server(connection_args), name)


def tokenize_grant(grant: Any) -> dict[str, Any]:
    """
    The parts of a C{GRANT} statement: C{user}, C{host}, C{grant}, C{database}.

    CLI Example::

        salt '*' mysql.tokenize_grant \\
            "GRANT SELECT, INSERT ON testdb.* TO 'testuser'@'localhost'"
    """
    return _mysql_grants.tokens(grant)
