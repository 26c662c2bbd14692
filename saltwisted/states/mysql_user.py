"""
Users of MySQL and MariaDB servers.
"""

from __future__ import annotations

from typing import Any

from saltwisted.states import _mysql

__salt__: Any
__opts__: Any
__context__: Any


def __virtual__() -> Any:
    return _mysql.loadable(__salt__, "user_create")


def _is_true(value: Any) -> bool:
    return value.lower() in ("true", "yes", "on", "1") if isinstance(value, str) else bool(value)


def _as_wanted(ret: _mysql.Ret, is_open: bool, password: Any, plugin: str) -> _mysql.Ret:
    """A user is there with its password."""
    comment = ret["comment"]
    if is_open:
        return {**ret, "comment": f"{comment} with passwordless login"}
    if plugin != "mysql_native_password":
        return {**ret, "comment": f"{comment}. Unable to verify password."}
    kind = "" if password else " hash"
    return {**ret, "comment": f"{comment} with the desired password{kind}"}


def present(
    name: str,
    host: str = "localhost",
    password: Any = None,
    password_hash: str | None = None,
    allow_passwordless: bool = False,
    unix_socket: bool = False,
    password_column: str | None = None,
    auth_plugin: str = "mysql_native_password",
    **connection_args: Any,
) -> dict[str, Any]:
    """
    There is a user, with this password.

    name, host
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

    The server is in C{connection_host}, C{connection_user}, C{connection_pass} and so on.
    """
    who = f"{name}@{host}"
    ret = _mysql.new(name, f"User {who} is already present")
    is_open, is_bare = _is_true(allow_passwordless), not any((password, password_hash))
    words = {"unix_socket": unix_socket, "password_column": password_column, **connection_args}
    exists = __salt__["mysql.user_exists"]
    if is_bare and not is_open and not unix_socket:
        why = "unless allow_passwordless is True"
        return _mysql.failed(ret, f"Either password or password_hash must be specified, {why}")
    if is_bare:
        is_so = exists(name, host, passwordless=True, **words)
    else:
        is_so = exists(name, host, password, password_hash, **words)
    if is_so and is_bare and not allow_passwordless:
        return ret
    if is_so:
        return _as_wanted(ret, is_bare, password, auth_plugin)
    if (said := _mysql.error(__context__)) is not None:
        return _mysql.failed(ret, said)
    is_there = exists(name, host, unix_socket=unix_socket, **connection_args)
    if not is_there and (said := _mysql.error(__context__)) is not None:
        return _mysql.failed(ret, said)
    extra = " with passwordless login" if allow_passwordless else ""
    extra += " using unix_socket" if unix_socket else ""
    word = "cleared" if is_bare else "changed"
    if __opts__["test"] and is_there:
        return _mysql.planned(ret, f"Password for user {who} is set to be {word}")
    if __opts__["test"]:
        return _mysql.planned(ret, f"User {who} is set to be added{extra}")
    given = (name, host, password, password_hash, allow_passwordless)
    if is_there:
        if __salt__["mysql.user_chpass"](*given, **words):
            return _mysql.done(ret, f"Password for user {who} has been {word}", "Updated")
        comment = f"Failed to {'clear' if is_bare else 'change'} password for user {who}"
        return _mysql.failed(ret, _mysql.with_error(__context__, comment))
    if __salt__["mysql.user_create"](*given, auth_plugin=auth_plugin, **words):
        return _mysql.done(ret, f"The user {who} has been added{extra}", "Present")
    comment = _mysql.with_error(__context__, f"Failed to create user {who}")
    return _mysql.failed(ret, comment)


def absent(name: str, host: str = "localhost", **connection_args: Any) -> dict[str, Any]:
    """
    There is no such user.

    name, host
        The user, and from where.

    The server is in C{connection_host}, C{connection_user}, C{connection_pass} and so on.
    """
    who = f"{name}@{host}"
    ret = _mysql.new(name, f"User {who} is not present, so it cannot be removed")
    if not __salt__["mysql.user_exists"](name, host, **connection_args):
        said = _mysql.error(__context__)
        return ret if said is None else _mysql.failed(ret, said)
    if __opts__["test"]:
        return _mysql.planned(ret, f"User {who} is set to be removed")
    if __salt__["mysql.user_remove"](name, host, **connection_args):
        return _mysql.done(ret, f"User {who} has been removed", "Absent")
    said = _mysql.error(__context__)
    return _mysql.failed(ret, f"User {who} could not be removed" if said is None else said)
