"""
What users of MySQL and MariaDB servers may do.
"""

from __future__ import annotations

from typing import Any

from saltwisted.states import _mysql

__salt__: Any
__opts__: Any
__context__: Any


def __virtual__() -> Any:
    return _mysql.loadable(__salt__, "grant_exists")


def present(
    name: str,
    grant: Any = None,
    database: Any = None,
    user: Any = None,
    host: str = "localhost",
    grant_option: bool = False,
    escape: bool = True,
    revoke_first: bool = False,
    ssl_option: Any = False,
    **connection_args: Any,
) -> dict[str, Any]:
    """
    A user has privileges.

    name
        What the state is called.
    grant
        The privileges, with commas between them.
    database
        C{DATABASE.TABLE}; either may be C{*}.
    user, host
        The user, and from where.
    grant_option
        With new privileges, the user may grant them, too.
    escape
        Quote the names.
    revoke_first
        The user has no others there.
    ssl_option
        A list of maps, what a connection has to be like: C{SSL}, C{X509}, C{SUBJECT}, C{ISSUER},
        C{CIPHER}.

    The server is in C{connection_host}, C{connection_user}, C{connection_pass} and so on.
    """
    what = f"{grant} on {database} to {user}@{host}"
    ret = _mysql.new(name, f"Grant {what} is already present")
    words = (grant, database, user, host, grant_option, escape)
    if __salt__["mysql.grant_exists"](*words, **connection_args):
        return ret
    if (said := _mysql.error(__context__)) is not None:
        return _mysql.failed(ret, said)
    if __opts__["test"]:
        return _mysql.planned(ret, f"MySQL grant {name} is set to be created")
    if revoke_first:
        _revoke(database, user, host, grant_option, escape, connection_args)
    if __salt__["mysql.grant_add"](*words, ssl_option, **connection_args):
        return _mysql.done(ret, f"Grant {what} has been added", "Present")
    comment = f'Failed to execute: "GRANT {grant} ON {database} TO {user}@{host}"'
    return _mysql.failed(ret, _mysql.with_error(__context__, comment))


def _revoke(
    database: str, user: str, host: str, grant_option: bool, escape: bool, where: dict[str, Any]
) -> None:
    """Take what a user has there."""
    place, _, table = database.rpartition(".")
    quote = __salt__["mysql.quote_identifier"]
    meant = "*" if place == "*" else quote(place, table == "*").replace("%%", "%")
    meant += "." + ("*" if table == "*" else quote(table).replace("%%", "%"))
    for each in __salt__["mysql.user_grants"](user, host, **where) or []:
        found = __salt__["mysql.tokenize_grant"](each)
        plain = [word for word in found["grant"] if "." not in word and word != "USAGE"]
        if found["database"] == meant and plain:
            option = grant_option and "GRANT OPTION" in each
            __salt__["mysql.grant_revoke"](
                ",".join(plain), database, user, host, option, escape, **where
            )


def absent(
    name: str,
    grant: Any = None,
    database: Any = None,
    user: Any = None,
    host: str = "localhost",
    grant_option: bool = False,
    escape: bool = True,
    **connection_args: Any,
) -> dict[str, Any]:
    """
    A user does not have privileges. Arguments are those of C{present}.

    grant_option
        Take the right to grant them, too.
    """
    what = f"{grant} on {database}"
    missing = f"Grant {what} to {user}@{host} is not present, so it cannot be revoked"
    ret = _mysql.new(name, missing)
    words = (grant, database, user, host, grant_option, escape)
    if not __salt__["mysql.grant_exists"](*words, **connection_args):
        said = _mysql.error(__context__)
        comment = f"Unable to determine if grant {what} for {user}@{host} exists ({said})"
        return ret if said is None else _mysql.failed(ret, comment)
    if __opts__["test"]:
        return _mysql.planned(ret, f"MySQL grant {name} is set to be revoked")
    if __salt__["mysql.grant_revoke"](*words, **connection_args):
        return _mysql.done(ret, f"Grant {what} for {user}@{host} has been revoked", "Absent")
    comment = f"Unable to revoke grant {what} for {user}@{host}"
    return _mysql.failed(ret, _mysql.with_error(__context__, comment))
