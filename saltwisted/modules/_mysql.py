"""
One MySQL or MariaDB server, asked through a client library.

The library is C{MySQLdb}, or C{pymysql} that is like it. Where the server is and who asks is in the
arguments C{connection_*} of a call, else in the options C{mysql.*} of the configuration or pillar.
Values go to the server as values, names are quoted. Passwords are in no log and no message.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

from saltwisted.modules._injected import Injected
from saltwisted.worker.exceptions import SaltInvocationError

try:
    import MySQLdb as client
    import MySQLdb.constants.CLIENT as client_flags
    import MySQLdb.converters as converters
except ImportError:
    try:
        import pymysql as client
        import pymysql.constants.CLIENT as client_flags
        import pymysql.converters as converters
    except ImportError:
        client = None

log = logging.getLogger("saltwisted.modules.mysql")

driver: Any = client
"""The library, or nothing."""

LACKING = "No python mysql client installed."
_SYNTAX = 1064
_GIVEN = {
    "connection_host": "host",
    "connection_user": "user",
    "connection_pass": "passwd",
    "connection_port": "port",
    "connection_db": "db",
    "connection_unix_socket": "unix_socket",
    "connection_default_file": "read_default_file",
    "connection_default_group": "read_default_group",
    "connection_charset": "charset",
}
_LATER = {"passwd": "password", "db": "database"}
"""What newer libraries call it."""

Row = dict[str, Any]


def quoted(name: str, for_grants: bool = False) -> str:
    """A name, quoted, for a statement that has values beside it."""
    text = str(name).replace("`", "``")
    if for_grants:
        text = text.replace("_", "\\_")
    return "`" + text.replace("%", "%%") + "`"


def column(name: str) -> str:
    """
    The name of a column.

    @raises SaltInvocationError: it is none.
    """
    if not re.fullmatch(r"\w+", name):
        raise SaltInvocationError(f"{name!r} is not a valid column name")
    return name


def _decoded(value: Any) -> Any:
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value
    return value


class Server:
    """One server, as one of its users."""

    def __init__(self, space: dict[str, Any], given: Mapping[str, Any]) -> None:
        """
        @param space: the globals of the module that asks.
        @param given: arguments of the call, C{connection_*}.
        """
        self._space = Injected(space)
        self._given = dict(given)
        self._connection: Any = None

    def using(self, **more: Any) -> Server:
        """The same with other arguments."""
        return Server(self._space.space, {**self._given, **more})

    @property
    def error(self) -> str | None:
        """What was wrong last."""
        found = self._space.context.get("mysql.error")
        return None if found is None else str(found)

    def fail(self, text: str) -> None:
        """Say what is wrong."""
        self._space.context["mysql.error"] = text
        log.error(text)

    def forgive(self) -> None:
        """Forget what was wrong."""
        self._space.context.pop("mysql.error", None)

    def _failed(self, error: Exception, secrets: Sequence[str]) -> None:
        code, text = (*error.args, "", "")[:2]
        if secrets and code == _SYNTAX:
            text = "You have an error in your SQL syntax"
        text = str(text)
        for secret in secrets:
            text = text.replace(secret, "********") if secret else text
        self.fail(f"MySQL Error {code}: {text}")

    def _options(self) -> dict[str, Any]:
        """What the library is told."""
        found = {}
        is_file = "connection_default_file" in self._given
        for word, key in _GIVEN.items():
            value = self._given.get(word)
            if word not in self._given and (not is_file or word == "connection_charset"):
                name = word.removeprefix("connection_")
                value = self._space.salt["config.option"](f"mysql.{name}", None)
            if value:
                found[key] = int(value) if key == "port" else value
        if driver.__name__ == "pymysql":
            found = {_LATER.get(key, key): value for key, value in found.items()}
        flags = 0
        for word in self._given.get("client_flags") or ():
            flag = getattr(client_flags, str(word).upper(), None)
            if isinstance(flag, int):
                flags |= flag
            else:
                log.error("MySQL client flag %s not valid, ignoring.", word)
        if self._given.get("connection_conv"):
            found["conv"] = self._given["connection_conv"]
        return {"charset": "utf8mb4", "use_unicode": True, **found, "client_flag": flags}

    def connect(self) -> bool:
        """Whether the server lets us in."""
        if self._connection is not None:
            return True
        options = self._options()
        try:
            self._connection = driver.connect(**options)
            self._connection.autocommit(True)
        except driver.Error as error:
            password = options.get("passwd") or options.get("password")
            self._failed(error, [str(password)] if password else [])
            return False
        return True

    def ask(
        self, statement: str, values: Mapping[str, Any] | None = None, secrets: Sequence[str] = ()
    ) -> Answer | None:
        """
        Run a statement; C{None} if the server refuses.

        @param values: what stands in it as C{%(name)s}; without, a C{%} is one.
        @param secrets: what goes into no message.
        """
        if not self.connect():
            return None
        log.debug("Doing query: %s", "(with a secret)" if secrets else statement)
        cursor = self._connection.cursor()
        try:
            count = cursor.execute(statement, values)
            rows = cursor.fetchall() if cursor.description else ()
        except driver.Error as error:
            self._failed(error, secrets)
            return None
        finally:
            cursor.close()
        columns = tuple(_decoded(each[0]) for each in cursor.description or ())
        return Answer(int(count or 0), columns, [tuple(map(_decoded, row)) for row in rows])

    def as_text(self) -> Server:
        """The same, whose values are all text, as the server gives them."""
        plain = {key: each for key, each in converters.conversions.items() if type(key) is not int}
        return self.using(connection_conv=plain)


class Answer:
    """
    What a statement brought.

    @ivar count: rows that were found or changed.
    """

    def __init__(
        self, count: int, columns: tuple[str, ...], rows: Sequence[tuple[Any, ...]]
    ) -> None:
        self.count, self.columns, self.rows = count, columns, list(rows)

    def maps(self) -> list[Row]:
        """A map for each row."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def firsts(self) -> list[Any]:
        """The first column."""
        return [row[0] for row in self.rows]


def plugin(server: Server, name: str) -> str:
    """The status of a plugin, or nothing."""
    statement = "SELECT PLUGIN_STATUS FROM INFORMATION_SCHEMA.PLUGINS WHERE PLUGIN_NAME = %(name)s"
    found = server.ask(statement, {"name": name})
    return str(found.rows[0][0]) if found and found.rows else ""
