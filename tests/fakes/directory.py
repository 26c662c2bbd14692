"""
A directory in this process, at the place of the library C{ldap3}.

It is as trusting as RFC 4513 lets a server be: a bind without a name or without a password is
"unauthenticated", and succeeds. Whoever takes that for a login lets everybody in.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

Row = tuple[str, Mapping[str, Sequence[str]]]
"""The DN of an entry, and its attributes."""
_EQUAL = re.compile(r"\((\w+)=([^()]*)\)")
SUCCESS = {"result": 0, "description": "success", "message": ""}


class LDAPException(Exception):
    """What the library raises."""


class FakeDirectory:
    """
    One server, however often it is connected to.

    @ivar entries: what a search looks through: an entry is found if it has each value of a filter.
    @ivar passwords: DN to password.
    @ivar result: what a bind with a wrong password says.
    @ivar told: name and password of each bind, in order; C{None} for what was not sent.
    @ivar opened: how many connections there were, and C{closed}: how many of them were ended.
    @ivar search_result: what each search says besides what it has found.
    @ivar tls: how each connection is to be encrypted.
    """

    def __init__(self, entries: Sequence[Row], passwords: Mapping[str, str]) -> None:
        self.entries, self.passwords = list(entries), dict(passwords)
        self.result = {"result": 49, "description": "invalidCredentials", "message": ""}
        self.told: list[tuple[str | None, str | None]] = []
        self.searched: list[str] = []
        self.opened = self.closed = 0
        self.tls: list[Any] = []
        self.takes_starttls = True
        self.search_result: Mapping[str, Any] = SUCCESS

    def library(self) -> Any:
        """What C{import ldap3} gives."""
        return SimpleNamespace(
            Tls=lambda **how: SimpleNamespace(**how),
            Server=lambda host, **how: SimpleNamespace(host=host, **how),
            Connection=lambda server, **how: _Connection(self, server),
            NONE="NONE",
            SYNC="SYNC",
            core=SimpleNamespace(exceptions=SimpleNamespace(LDAPException=LDAPException)),
        )


class _Connection:
    """One connection, as the library has it."""

    def __init__(self, directory: FakeDirectory, server: Any) -> None:
        self._directory, self._server = directory, server
        self.user: str | None = None
        self.password: str | None = None
        self.authentication = "ANONYMOUS"
        self.result: Mapping[str, Any] = SUCCESS
        self.response: list[dict[str, Any]] = []
        self.socket = SimpleNamespace(setsockopt=lambda *given: None)

    def open(self) -> None:
        """Connect."""
        self._directory.opened += 1
        self._directory.tls.append((self._server.use_ssl, self._server.tls.validate))

    def start_tls(self, read_server_info: bool = True) -> bool:
        """Whether the server encrypts."""
        if not self._directory.takes_starttls:
            self.result = {"result": 2, "description": "protocolError", "message": ""}
        return self._directory.takes_starttls

    def bind(self) -> bool:
        """Say who it is."""
        directory = self._directory
        directory.told.append((self.user, self.password))
        known = self.user is not None and directory.passwords.get(self.user) == self.password
        is_nobody = not self.user or not self.password or self.authentication == "ANONYMOUS"
        self.result = SUCCESS if is_nobody or known else directory.result
        return self.result is SUCCESS

    def search(self, base: str, query: str, **how: Any) -> bool:
        """Find entries."""
        self._directory.searched.append(query)
        wanted = [row for row in _EQUAL.findall(query) if row[0] != "objectClass"]
        self.response = [
            {
                "type": "searchResEntry",
                "dn": dn,
                "raw_attributes": {
                    name: [value.encode() for value in values] for name, values in has.items()
                },
            }
            for dn, has in self._directory.entries
            if (how["search_scope"] != "BASE" or dn == base)
            and all(value in has.get(name, ()) for name, value in wanted)
        ]
        self.result = self._directory.search_result
        return self.result is SUCCESS

    def unbind(self) -> None:
        """End it."""
        self._directory.closed += 1
