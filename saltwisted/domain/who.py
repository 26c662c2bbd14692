"""
Who somebody is: a name, and what has proven it.

The same name may be several people: a login C{root} by C{sharedsecret} is not the account C{root}
of the machine, and neither is a minion of that name. So identities are compared as a whole, never
by their names. Events and records of jobs have Salt's C{user}, and beside it the backend, in
C{eauth}.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

EAUTH = "eauth"
"""The field beside C{user}, by the name that a token of Salt has for it."""
LOCAL = "local"
"""The backend of accounts of the master's machine, as its kernel tells them."""
MINION = "minion"
"""The backend of minions, by their keys."""
MASTER = "master"
"""The backend of what a master does by itself."""
HOOK = "hook"
"""The backend of hooks that nobody sends who has logged in."""
_BARE = ("", LOCAL, MASTER, HOOK)


@frozen
class Who:
    """
    Somebody.

    @ivar backend: a login backend of C{external_auth}, or one of L{LOCAL}, L{MINION}, L{MASTER},
        L{HOOK}. C{""}: unknown, as in records of releases that did not keep it; nobody who asks is
        that.
    """

    name: str
    backend: str

    def __str__(self) -> str:
        """For people: the bare name only for accounts of the machine and the master's own parts."""
        if self.backend in _BARE:
            return self.name
        return f"minion {self.name}" if self.backend == MINION else f"{self.name} ({self.backend})"

    def facts(self) -> dict[str, str]:
        """As events and records have it."""
        return {"user": self.name, EAUTH: self.backend}


def local(name: str) -> Who:
    """An account of this machine."""
    return Who(name, LOCAL)


def who_in(facts: Mapping[str, Any]) -> Who:
    """
    Who an event or a record names.

    What is no text counts as missing: then it is nobody who could ask for it.
    """
    name, backend = facts.get("user"), facts.get(EAUTH)
    known = isinstance(name, str) and isinstance(backend, str)
    return Who(name if isinstance(name, str) else "", str(backend) if known else "")
