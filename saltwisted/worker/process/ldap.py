"""
C{ldap}: logins through a directory, with stock's options C{auth.ldap.*}.

A login is one bind as the user, which is also used to search the user's groups: each bind may ask
the user's telephone for a second factor. L{saltwisted.domain.directory} has the queries and the
meaning of the answers. Blocks, for seconds if a server is away. C{ldap3} is imported when somebody
logs in.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from saltwisted.config.logins import ldap_faults
from saltwisted.domain.directory import (
    Directory,
    DirectoryError,
    Entry,
    Place,
    Search,
    closed_by,
    plain_name,
)
from saltwisted.domain.eauth import Proof

CONNECT, ANSWER = 5, 10
"""Seconds for a connection to one server, and for each of its answers."""
INVALID = 49
"""The result of a bind with a wrong password, or for a user who is not there."""
PLAINLY_NO = (32, 34, 53, INVALID)
"""Results that say: not this name with this password; others say that something is wrong."""
MISSING = "external_auth: ldap needs the package python3-ldap3: install it, and restart the master"


class _Away(Exception):
    """A server that cannot be reached, or breaks off."""


class Ldap:
    """The backend; each call contains everything that it needs."""

    def prove(self, settings: Mapping[str, Any], username: str, password: str) -> Proof:
        """Whether the directory takes this password for this user; and his groups."""
        return _judged(settings, username, lambda asking: asking.login(password), password)

    def look(self, settings: Mapping[str, Any], username: str) -> Proof:
        """Whether the directory has this user, and in which groups, as it says now."""
        return _judged(settings, username, lambda asking: asking.look(), None)


def _judged(
    settings: Mapping[str, Any],
    username: str,
    ask: Callable[[_Asking], Proof],
    password: str | None,
) -> Proof:
    try:
        for fault in ldap_faults(settings):
            raise DirectoryError(fault)
        directory = Directory(settings)
    except DirectoryError as error:
        return Proof(problem=f"external_auth: ldap: {error}")
    if password == "":
        # To a server a bind without a password is no login at all, and so it succeeds
        return Proof(steps=("an empty password is refused, and the directory is not asked",))
    if not plain_name(username):
        return Proof(steps=("the name has spaces or signs that a directory ignores",))
    try:
        import ldap3  # noqa: F401
    except ImportError:
        return Proof(problem=MISSING)
    asking = _Asking(directory, username)
    try:
        found = ask(asking)
    except DirectoryError as error:
        return Proof(problem=f"external_auth: ldap: {error}", steps=tuple(asking.steps))
    return found


class _Asking:
    """
    One login, from its connections to its groups.

    @ivar steps: what was asked and what came of it, without secrets.
    """

    def __init__(self, directory: Directory, username: str) -> None:
        self._directory = directory
        self._username = username
        self.steps: list[str] = []

    # -- the two questions

    def login(self, password: str) -> Proof:
        """One bind as the user, and his groups."""
        if self._directory.template:
            return self._login_by_name(password)
        with self._searching() as searching:
            found = self._find(searching)
            if found is None:
                return self._no()
            dn, name = found
            with self._connected() as connection:
                refusal = self._bind_user(connection, dn, password)
            if refusal is not None:
                return refusal
            return self._yes(searching, name, dn)

    def _login_by_name(self, password: str) -> Proof:
        directory = self._directory
        with self._connected() as connection:
            dn = directory.bind_dn(self._username)
            refusal = self._bind_user(connection, dn, password)
            if refusal is not None:
                return refusal
            name = self._username
            own = directory.self_search(name)
            entries = self._search(connection, own, quiet=True) if own is not None else []
            if len(entries) == 1:
                name = directory.name_of(entries[0], name)
                dn = entries[0][0] or dn
            if not name:
                self.steps.append("the entry has another name")
                return self._no()
            return self._yes(connection, name, dn)

    def look(self) -> Proof:
        """The groups, without the user."""
        if not self._directory.can_look:
            raise DirectoryError(
                "without auth.ldap.bindpw the directory can look up only users who give their "
                "password"
            )
        if self._directory.template:
            with self._connected() as connection:
                self._bind(connection, "", "", "anonymously")
                own = self._directory.self_search(self._username)
                entries = [] if own is None else self._search(connection, own)
                if len(entries) != 1:
                    return self._no()
                name = self._directory.name_of(entries[0], self._username)
                return self._yes(connection, name, entries[0][0]) if name else self._no()
        with self._searching() as searching:
            found = self._find(searching)
            return self._no() if found is None else self._yes(searching, found[1], found[0])

    # -- answers

    def _no(self, closed: bool = False) -> Proof:
        return Proof(closed=closed, steps=tuple(self.steps))

    def _yes(self, connection: Any, name: str, dn: str) -> Proof:
        problem = ""
        groups: tuple[str, ...] = ()
        try:
            search = self._directory.group_search(name, dn)
            groups = self._directory.groups(name, dn, self._search(connection, search))
        except DirectoryError as error:
            # Whoever he is does not depend on it; what he may by his groups does
            problem = f"external_auth: ldap: the groups of {name} are unknown: {error}"
        self.steps.append(f"groups: {', '.join(groups) or 'none'}")
        return Proof(ok=True, name=name, groups=groups, problem=problem, steps=tuple(self.steps))

    # -- what is asked

    def _find(self, connection: Any) -> tuple[str, str] | None:
        entries = self._search(connection, self._directory.user_search(self._username))
        if len(entries) > 1:
            raise DirectoryError(f"auth.ldap.filter finds several users called {self._username}")
        if not entries or not entries[0][0]:
            return None
        name = self._directory.name_of(entries[0], self._username)
        if not name:
            self.steps.append(f"{entries[0][0]} has another name")
        return (entries[0][0], name) if name else None

    def _search(self, connection: Any, search: Search, quiet: bool = False) -> list[Entry]:
        """
        @param quiet: one that may not be asked finds nothing, and is no error.
        @raises DirectoryError: it was not answered whole.
        """
        scope = ("BASE", "LEVEL", "SUBTREE")[search.scope]
        attributes = [each for each in dict.fromkeys(search.attributes) if each]
        where = f"search for {search.filter} below {search.base!r}"
        with _errors(where):
            connection.search(
                search.base,
                search.filter,
                search_scope=scope,
                attributes=attributes or ["1.1"],
                time_limit=ANSWER,
            )
            result = dict(connection.result)
            response = list(connection.response or ())
        entries = [_entry(each) for each in response if each.get("type") == "searchResEntry"]
        said = result.get("description", "")
        self.steps.append(f"{where}: {len(entries)} found ({said})")
        if result.get("result") != 0 and not quiet:
            raise DirectoryError(f"{where}: {said}")
        return entries

    def _bind_user(self, connection: Any, dn: str, password: str) -> Proof | None:
        """The one bind as the user; C{None} if it succeeds."""
        result = self._bind(connection, dn, password, f"as {dn}", PLAINLY_NO)
        if result["result"] == 0:
            return None
        return self._no(closed_by(str(result.get("message") or "")))

    def _bind(
        self, connection: Any, dn: str, password: str, how: str, fine: tuple[int, ...] = ()
    ) -> Mapping[str, Any]:
        if dn and not password:
            raise DirectoryError(f"bind {how}: there is no password")
        with _errors(f"bind {how}"):
            connection.user, connection.password = dn or None, password or None
            connection.authentication = "SIMPLE" if dn else "ANONYMOUS"
            connection.bind()
            result: dict[str, Any] = dict(connection.result)
        self.steps.append(f"bind {how}: {result.get('description', '')}")
        if result["result"] != 0 and result["result"] not in fine:
            raise DirectoryError(f"bind {how}: {result.get('description', '')}")
        return result

    # -- connections

    @contextmanager
    def _searching(self) -> Iterator[Any]:
        """A connection of the master's own account, or of nobody where that may search."""
        directory = self._directory
        with self._connected() as connection:
            if directory.serves:
                dn = directory.bind_dn(self._username)
                self._bind(connection, dn, directory.bindpw, f"as {dn}")
            else:
                self._bind(connection, "", "", "anonymously")
            yield connection

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        """
        A connection to the first server that can be reached, encrypted as the options want it.

        @raises DirectoryError: there is none.
        """
        reasons = []
        for place in self._directory.places:
            try:
                connection = _open(place, self._directory)
            except _Away as error:
                reasons.append(f"{place.url}: {error}")
                self.steps.append(f"connect to {place.url}: {error}")
                continue
            self.steps.append(f"connect to {place.url}: success")
            try:
                yield connection
            finally:
                _close(connection)
            return
        raise DirectoryError("; ".join(reasons))


def _open(place: Place, directory: Directory) -> Any:
    import ldap3

    wanted = ssl.CERT_NONE if directory.no_verify else ssl.CERT_REQUIRED
    try:
        tls = ldap3.Tls(validate=wanted, ca_certs_file=directory.ca_file or None)
        server = ldap3.Server(
            place.host,
            port=place.port,
            use_ssl=place.encrypted,
            tls=tls,
            get_info=ldap3.NONE,
            connect_timeout=CONNECT,
        )
        connection = ldap3.Connection(
            server,
            client_strategy=ldap3.SYNC,
            auto_referrals=False,
            check_names=False,
            read_only=True,
            receive_timeout=ANSWER,
        )
        connection.open()
        # Questions are small and come one by one: each would wait 40 ms for the one before
        connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A server that refuses it must not see a password
        if directory.starttls and not connection.start_tls(read_server_info=False):
            raise _Away(f"STARTTLS: {connection.result.get('description', 'refused')}")
    except (ldap3.core.exceptions.LDAPException, OSError, ssl.SSLError) as error:
        raise _Away(_said(error)) from None
    return connection


def _close(connection: Any) -> None:
    import ldap3

    try:
        connection.unbind()
    except (ldap3.core.exceptions.LDAPException, OSError):
        return


@contextmanager
def _errors(what: str) -> Iterator[None]:
    """What the library raises, as L{DirectoryError}."""
    import ldap3

    try:
        yield
    except (ldap3.core.exceptions.LDAPException, OSError) as error:
        raise DirectoryError(f"{what}: {_said(error)}") from None


def _said(error: BaseException) -> str:
    """An error's words on one line."""
    return " ".join(str(error).split())[:300] or type(error).__name__


def _entry(found: Mapping[str, Any]) -> Entry:
    values = {
        str(name).lower(): tuple(each.decode(errors="replace") for each in given)
        for name, given in (found.get("raw_attributes") or {}).items()
    }
    return str(found.get("dn") or ""), values
