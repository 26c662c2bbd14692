"""
Users of MySQL and MariaDB servers.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from typing import Any

from saltwisted.modules import _mysql
from saltwisted.modules._mysql_grants import numbers

log = logging.getLogger(__name__)

__salt__: Any
__context__: Any

_NATIVE = "mysql_native_password"
_ON = ("true", "yes", "on", "1")


def _server(given: Mapping[str, Any]) -> _mysql.Server:
    return _mysql.Server(globals(), given)


def _is_true(value: Any) -> bool:
    """As Salt reads it: texts may say it, too."""
    return value.lower() in _ON if isinstance(value, str) else bool(value)


def _native(password: Any) -> str:
    """What a server stores of a password by its native method."""
    # Twice SHA-1 is that method; nothing is protected by it here.
    once = hashlib.sha1(str(password).encode(), usedforsecurity=False).digest()
    return "*" + hashlib.sha1(once, usedforsecurity=False).hexdigest().upper()


def _version(given: dict[str, Any], password: Any) -> str:
    """
    The server's version. Who may not ask, tries it with the password that is to be set: it may be
    set already.
    """
    found = __salt__["mysql.version"](**given)
    if not found and password:
        __context__["mysql.error"] = None
        given["connection_pass"] = password
        found = __salt__["mysql.version"](**given)
        if not found:
            log.error(
                'MySQL Error: Unable to fetch current server version. Last error was: "%s"',
                __context__["mysql.error"],
            )
    return str(found)


def _column(server: _mysql.Server, given: str | None) -> str:
    """Where the server keeps passwords."""
    if given:
        return _mysql.column(given)
    if "mysql.password_column" not in __context__:
        found = server.ask(
            "SELECT column_name FROM information_schema.COLUMNS WHERE table_schema = 'mysql'"
            " AND table_name = 'user' AND column_name = 'Password'"
        )
        if found is None:
            return "Password"
        word = "Password" if found.rows else "authentication_string"
        __context__["mysql.password_column"] = word
    return str(__context__["mysql.password_column"])


def _plugin(server: _mysql.Server, user: str, host: str) -> str:
    """How a user proves who it is."""
    found = server.ask(
        "SELECT plugin FROM mysql.user WHERE User = %(user)s AND Host = %(host)s",
        {"user": user, "host": host},
    )
    return str((found and found.rows and found.rows[0][0]) or _NATIVE)


def user_list(**connection_args: Any) -> list[dict[str, Any]]:
    """
    All users, with their hosts.

    CLI Example::

        salt '*' mysql.user_list
    """
    found = _server(connection_args).ask("SELECT User, Host FROM mysql.user")
    return found.maps() if found else []


def user_info(user: str, host: str = "localhost", **connection_args: Any) -> Any:
    """
    All that the server has of a user.

    CLI Example::

        salt '*' mysql.user_info root localhost
    """
    found = _server(connection_args).ask(
        "SELECT * FROM mysql.user WHERE User = %(user)s AND Host = %(host)s",
        {"user": user, "host": host},
    )
    if found is None:
        return False
    return found.maps()[0] if found.rows else None


def user_exists(
    user: str,
    host: str = "localhost",
    password: Any = None,
    password_hash: str | None = None,
    passwordless: bool = False,
    unix_socket: bool = False,
    password_column: str | None = None,
    **connection_args: Any,
) -> bool:
    """
    Whether there is a user, with this password if one is given.

    user, host
        The user, and from where.
    password, password_hash
        Its password, or what the server stores of it.
    passwordless
        It has none.
    unix_socket
        It proves by a socket who it is.
    password_column
        Where passwords are in C{mysql.user}, if the server's version does not say it.

    CLI Example::

        salt '*' mysql.user_exists 'username' 'hostname' 'password'
    """
    version = _version(connection_args, password)
    server = _server(connection_args)
    if not version or not server.connect():
        return False
    column = _column(server, password_column)
    statement = "SELECT User FROM mysql.user WHERE User = %(user)s AND Host = %(host)s"
    values: dict[str, Any] = {"user": user, "host": host}
    is_maria = "MariaDB" in version
    if _is_true(passwordless):
        if _is_true(unix_socket):
            statement += " AND plugin = %(plugin)s"
            values["plugin"] = "unix_socket" if is_maria else "auth_socket"
        else:
            statement += f" AND {column} = ''"
    elif password:
        if (
            not is_maria
            and numbers(version) >= (8, 0, 11)
            and _plugin(server, user, host) != _NATIVE
        ):
            server.fail("Unable to verify password.")
        else:
            statement += f" AND {column} = %(password)s"
            values["password"] = _native(password)
    elif password_hash:
        statement += f" AND {column} = %(password)s"
        values["password"] = password_hash
    found = server.ask(statement, values, [str(values.get("password", ""))])
    return found is not None and len(found.rows) == 1


def _identified(
    server: _mysql.Server,
    version: str,
    password: Any,
    password_hash: Any,
    auth_plugin: str,
    values: dict[str, Any],
) -> str:
    """What a new user's password is."""
    is_new = "MariaDB" not in version and numbers(version) >= (8, 0, 11)
    values["password"] = str(password) if password is not None else password_hash
    if is_new:
        values["plugin"] = auth_plugin
        word = "BY" if password is not None else "AS"
        return f" IDENTIFIED WITH %(plugin)s {word} %(password)s"
    word = "" if password is not None else "PASSWORD "
    return f" IDENTIFIED BY {word}%(password)s"


def _by_socket(server: _mysql.Server, host: str, version: str) -> str | None:
    """The plugin by which a socket proves who somebody is; C{None} if that cannot be."""
    plugin = "unix_socket" if "MariaDB" in version else "auth_socket"
    if not _mysql.plugin(server, plugin):
        server.fail(f"The {plugin} plugin is not enabled.")
    elif host != "localhost":
        server.fail("Auth via unix_socket can be set only for host=localhost")
    else:
        return plugin
    return None


def user_create(
    user: str,
    host: str = "localhost",
    password: Any = None,
    password_hash: str | None = None,
    allow_passwordless: bool = False,
    unix_socket: bool = False,
    password_column: str | None = None,
    auth_plugin: str = "mysql_native_password",
    **connection_args: Any,
) -> bool:
    """
    Make a user. C{False} if it is there, or cannot be made.

    user, host
        The user, and from where.
    password, password_hash
        Its password, or what the server stores of it.
    allow_passwordless
        It may have none.
    unix_socket
        It proves by a socket who it is.
    password_column
        Where passwords are in C{mysql.user}, if the server's version does not say it.
    auth_plugin
        How MySQL from 8 on keeps the password.

    CLI Example::

        salt '*' mysql.user_create 'username' 'hostname' 'password'
        salt '*' mysql.user_create 'username' 'hostname' password_hash='hash'
        salt '*' mysql.user_create 'username' 'hostname' allow_passwordless=True
    """
    version = _version(connection_args, password)
    server = _server(connection_args)
    if not version:
        return False
    if user_exists(user, host, **connection_args):
        log.info("User '%s'@'%s' already exists", user, host)
        return False
    if not server.connect():
        return False
    statement = "CREATE USER %(user)s@%(host)s"
    values: dict[str, Any] = {"user": user, "host": host}
    if unix_socket:
        plugin = _by_socket(server, host, version)
        if plugin is None:
            return False
        word = "VIA" if "MariaDB" in version else "WITH"
        statement += f" IDENTIFIED {word} {plugin}"
    elif not _is_true(allow_passwordless):
        if password is None and password_hash is None:
            log.error("password or password_hash must be specified, unless allow_passwordless=True")
            return False
        statement += _identified(server, version, password, password_hash, auth_plugin, values)
    secrets = [str(values.get("password", ""))]
    if server.ask(statement, values, secrets) is None:
        return False
    is_there = user_exists(
        user, host, password, password_hash, password_column=password_column, **connection_args
    )
    if not is_there:
        log.info("User '%s'@'%s' was not created", user, host)
    return is_there


def user_chpass(
    user: str,
    host: str = "localhost",
    password: Any = None,
    password_hash: str | None = None,
    allow_passwordless: bool = False,
    unix_socket: bool | None = None,
    password_column: str | None = None,
    **connection_args: Any,
) -> bool:
    """
    Change a user's password. C{False} if it is not there, or cannot be changed.

    Arguments are those of C{mysql.user_create}.

    CLI Example::

        salt '*' mysql.user_chpass frank localhost newpassword
        salt '*' mysql.user_chpass frank localhost password_hash='hash'
        salt '*' mysql.user_chpass frank localhost allow_passwordless=True
    """
    version = _version(connection_args, password)
    server = _server(connection_args)
    if not version:
        return False
    if not user_exists(user, host, **connection_args):
        log.info("User '%s'@'%s' does not exists", user, host)
        return False
    if not server.connect():
        return False
    is_open = _is_true(allow_passwordless)
    if password is None and password_hash is None and not is_open:
        log.error("password or password_hash must be specified, unless allow_passwordless=True")
        return False
    is_maria = "MariaDB" in version
    is_new = numbers(version) >= ((10, 4) if is_maria else (8, 0, 11))
    values: dict[str, Any] = {"user": user, "host": host, "plugin": _plugin(server, user, host)}
    values["password"] = password_hash or ""
    if password is not None:
        is_native = is_maria or not is_new or values["plugin"] == _NATIVE
        values["password"] = _native(password) if is_native else str(password)
    if is_open and _is_true(unix_socket) and password is None and password_hash is None:
        plugin = _by_socket(server, host, version)
        if plugin is None:
            return False
        values["plugin"] = plugin
    statement = _changing(server, is_maria, is_new, password is not None, values, password_column)
    if server.ask(statement, values, [str(values["password"]), str(password or "")]) is None:
        return False
    return server.ask("FLUSH PRIVILEGES") is not None


def _changing(
    server: _mysql.Server,
    is_maria: bool,
    is_new: bool,
    is_clear: bool,
    values: dict[str, Any],
    column: str | None,
) -> str:
    """The statement that changes how a user proves who it is."""
    is_socket = values["plugin"] in ("unix_socket", "auth_socket")
    if not is_new:
        plugin = ", plugin = %(plugin)s" if is_socket else ""
        return (
            f"UPDATE mysql.user SET {_column(server, column)} = %(password)s{plugin}"
            " WHERE User = %(user)s AND Host = %(host)s"
        )
    # Who had only a socket, and gets a password, uses the native method from now on
    if is_socket and values["password"]:
        values["plugin"], is_socket = _NATIVE, False
    if is_socket:
        word = "VIA" if is_maria else "WITH"
        return f"ALTER USER %(user)s@%(host)s IDENTIFIED {word} {values['plugin']}"
    plugin = _mysql.column(values["plugin"])
    if is_maria:
        return f"ALTER USER %(user)s@%(host)s IDENTIFIED VIA {plugin} USING %(password)s"
    word = "BY" if is_clear and plugin != _NATIVE else "AS"
    return f"ALTER USER %(user)s@%(host)s IDENTIFIED WITH {plugin} {word} %(password)s"


def user_remove(user: str, host: str = "localhost", **connection_args: Any) -> bool:
    """
    Remove a user. C{False} if it is not there, or cannot be removed.

    CLI Example::

        salt '*' mysql.user_remove frank localhost
    """
    server = _server(connection_args)
    if not user_exists(user, host, **connection_args):
        if server.connect():
            server.fail(f"User '{user}'@'{host}' does not exists")
        return False
    if server.ask("DROP USER %(user)s@%(host)s", {"user": user, "host": host}) is None:
        return False
    return not user_exists(user, host, **connection_args)
