"""
What users of MySQL and MariaDB servers may do.
"""

from __future__ import annotations

import logging
from typing import Any

from saltwisted.modules import _mysql, _mysql_grants
from saltwisted.worker.exceptions import SaltInvocationError

log = logging.getLogger(__name__)

__salt__: Any
__context__: Any

_ALL = "ALL PRIVILEGES"
_NOT_IN_ALL = ("USAGE", "GRANT OPTION", "PROXY")


def _server(given: dict[str, Any]) -> _mysql.Server:
    return _mysql.Server(globals(), given)


def user_grants(user: str, host: str = "localhost", **connection_args: Any) -> Any:
    """
    The grants of a user, without passwords; C{False} if it is not there.

    CLI Example::

        salt '*' mysql.user_grants 'frank' 'localhost'
    """
    if not __salt__["mysql.user_exists"](user, host, **connection_args):
        log.info("User '%s'@'%s' does not exist", user, host)
        return False
    who = {"user": user, "host": host}
    found = _server(connection_args).ask("SHOW GRANTS FOR %(user)s@%(host)s", who)
    if found is None:
        return False
    grants = []
    for text in found.firsts():
        start = text.split(" IDENTIFIED ")[0]
        end = " WITH GRANT OPTION"
        grants.append(start + end if end in text and end not in start else start)
    return grants


def _wanted(
    server: _mysql.Server, grant: str, database: str, version: str, is_escaped: bool
) -> tuple[list[str], str]:
    """
    The privileges and the place, as the server tells of them.

    @raises SaltInvocationError: there are no such.
    """
    given = _mysql_grants.privileges(grant)
    if any(each.word == _ALL for each in given):
        given = [_mysql_grants.Privilege(_ALL)]
        is_dynamic = "MariaDB" not in version and _mysql_grants.numbers(version) >= (8, 0)
        found = server.ask("SHOW PRIVILEGES") if is_dynamic and database == "*.*" else None
        if found is not None:
            words = (str(each).strip().upper() for each in found.firsts())
            return [each for each in words if each not in _NOT_IN_ALL], database
    target = _mysql_grants.target(database, is_escaped).replace("%%", "%")
    text = f"GRANT {', '.join(each.text for each in given)} ON {target} TO x@y"
    return _mysql_grants.tokens(text.replace("%%", "%"))["grant"], target


def grant_exists(
    grant: str,
    database: str,
    user: str,
    host: str = "localhost",
    grant_option: bool = False,
    escape: bool = True,
    **connection_args: Any,
) -> bool:
    """
    Whether a user has privileges.

    grant
        The privileges, with commas between them.
    database
        C{DATABASE.TABLE}; either may be C{*}.
    user, host
        The user, and from where.
    grant_option
        Is not looked at.
    escape
        Quote the names.

    CLI Example::

        salt '*' mysql.grant_exists 'SELECT,INSERT,UPDATE' 'database.*' 'frank' 'localhost'
    """
    version = __salt__["mysql.version"](**connection_args)
    server = _server(connection_args)
    if not version:
        return False
    try:
        words, target = _wanted(server, grant, database, version, escape)
    except SaltInvocationError as error:
        log.error("Error during grant generation.")
        log.error(error)
        return False
    grants = user_grants(user, host, **connection_args)
    if grants is False:
        log.error(
            "Grant does not exist or may not be ordered properly. In some cases, this could also"
            " indicate a connection error. Check your configuration."
        )
        return False
    held: set[str] = set()
    for each in grants:
        found = _mysql_grants.tokens(each)
        if _mysql_grants.bare(found["database"]) == _mysql_grants.bare(target):
            held.update(map(_mysql_grants.bare, _mysql_grants.known(found["grant"], version)))
    return {_mysql_grants.bare(word) for word in _mysql_grants.known(words, version)} <= held


def grant_add(
    grant: str,
    database: str,
    user: str,
    host: str = "localhost",
    grant_option: bool = False,
    escape: bool = True,
    ssl_option: Any = False,
    **connection_args: Any,
) -> bool:
    """
    Grant privileges.

    grant
        The privileges, with commas between them.
    database
        C{DATABASE.TABLE}; either may be C{*}.
    user, host
        The user, and from where.
    grant_option
        The user may grant them, too.
    escape
        Quote the names.
    ssl_option
        A list of maps, what a connection has to be like: C{SSL}, C{X509}, C{SUBJECT}, C{ISSUER},
        C{CIPHER}.

    CLI Example::

        salt '*' mysql.grant_add 'SELECT,INSERT,UPDATE' 'database.*' 'frank' 'localhost'
    """
    values: dict[str, Any] = {"user": user, "host": host}
    try:
        words = ", ".join(each.text for each in _mysql_grants.privileges(grant))
        required = _mysql_grants.requirement(ssl_option, values) if ssl_option else ""
    except SaltInvocationError:
        log.error("Error during grant generation")
        return False
    target = _mysql_grants.target(database, escape)
    statement = f"GRANT {words} ON {target} TO %(user)s@%(host)s{required}"
    if str(grant_option).lower() in ("true", "yes", "on", "1"):
        statement += " WITH GRANT OPTION"
    if _server(connection_args).ask(statement, values) is None:
        return False
    if grant_exists(grant, database, user, host, grant_option, escape, **connection_args):
        return True
    log.info("Grant '%s' on '%s' for user '%s' has NOT been added", grant, database, user)
    return False


def grant_revoke(
    grant: str,
    database: str,
    user: str,
    host: str = "localhost",
    grant_option: bool = False,
    escape: bool = True,
    **connection_args: Any,
) -> bool:
    """
    Revoke privileges. Arguments are those of C{mysql.grant_add}.

    CLI Example::

        salt '*' mysql.grant_revoke 'SELECT,INSERT,UPDATE' 'database.*' 'frank' 'localhost'
    """
    words = [each.text for each in _mysql_grants.privileges(grant)]
    if str(grant_option).lower() in ("true", "yes", "on", "1"):
        words.append("GRANT OPTION")
    target = _mysql_grants.target(database, escape)
    statement = f"REVOKE {', '.join(words)} ON {target} FROM %(user)s@%(host)s"
    if _server(connection_args).ask(statement, {"user": user, "host": host}) is None:
        return False
    return not grant_exists(grant, database, user, host, grant_option, escape, **connection_args)
