"""
What a role of PostgreSQL may, as the words of C{CREATE ROLE} and C{ALTER ROLE}.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from saltwisted.modules import _postgres_sql as sql
from saltwisted.modules._arguments import taken

_SWITCHES = {
    "inherit": "INHERIT",
    "createdb": "CREATEDB",
    "createroles": "CREATEROLE",
    "superuser": "SUPERUSER",
    "replication": "REPLICATION",
    "login": "LOGIN",
}


@frozen(kw_only=True)
class RoleFlags:
    """What is to be so, under Salt's names. C{None} says nothing."""

    createdb: Any = None
    createroles: Any = None
    encrypted: Any = None
    superuser: Any = None
    inherit: Any = None
    login: Any = None
    connlimit: Any = None
    replication: Any = None
    rolepassword: Any = field(default=None, repr=False)
    valid_until: Any = None
    groups: Any = None

    @classmethod
    def of(cls, given: Mapping[str, Any], is_login: bool | None = None) -> RoleFlags:
        """
        From a call's arguments.

        @param is_login: whether it may log in if nobody says; C{None} leaves that as it is.
        """
        words = taken(cls, given)
        if is_login is not None:
            words["inherit"] = True if words["inherit"] is None else words["inherit"]
            words["login"] = is_login if words["login"] is None else words["login"]
        return cls(**words)

    def _password(self, role: str) -> list[str]:
        if isinstance(self.rolepassword, bool):
            return [] if self.rolepassword else ["PASSWORD NULL"]
        if not isinstance(self.rolepassword, str) or not self.rolepassword:
            return []
        method = sql.MD5 if self.encrypted is None else self.encrypted
        stored = sql.stored_password(role, self.rolepassword, method)
        kind = "ENCRYPTED" if method else "UNENCRYPTED"
        return [f"{kind} PASSWORD {sql.value(stored)}"]

    def statements(self, verb: str, role: str, now: Mapping[str, Any] | None = None) -> list[str]:
        """
        @param now: what the role may already; whoever is no superuser may not name that word.
        """
        words = []
        for name, word in _SWITCHES.items():
            wanted = getattr(self, name)
            is_same = name == "superuser" and now and bool(wanted) == bool(now["superuser"])
            if wanted is not None and not is_same:
                words.append(word if wanted else f"NO{word}")
        if self.connlimit is not None:
            words.append(f"CONNECTION LIMIT {int(self.connlimit)}")
        if self.valid_until:
            words.append(f"VALID UNTIL {sql.value(self.valid_until)}")
        text = f"{verb} ROLE {sql.name(role)}"
        found = [f"{text} WITH {' '.join(words)}" if words else text]
        if verb == "ALTER" and not words:
            found = []
        groups = self.groups.split(",") if isinstance(self.groups, str) else self.groups or []
        found += [f"GRANT {sql.name(each)} TO {sql.name(role)}" for each in groups]
        # By itself and at the end: the server logs statements that fail
        return found + [f"ALTER ROLE {sql.name(role)} WITH {each}" for each in self._password(role)]

    @property
    def is_clear(self) -> bool:
        """Whether a password would be stored as it is."""
        return self.encrypted is False and isinstance(self.rolepassword, str)
