"""
A proof of logins that knows a few users.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from saltwisted.domain.eauth import Proof
from saltwisted.parts import ILoginProof


class FakeProof:
    """
    Lets those in that it was told of.

    @ivar asked: the names that were judged, in order.
    """

    def __init__(
        self,
        users: Mapping[str, str],
        groups: Mapping[str, Sequence[str]] | None = None,
        closed: Collection[str] = (),
        problem: str = "",
    ) -> None:
        """
        @param users: name to password.
        @param groups: name to the groups of that user.
        @param closed: users whose accounts may not be used.
        @param problem: why nobody can be judged now.
        """
        self._users = dict(users)
        self._groups = dict(groups or {})
        self._closed = frozenset(closed)
        self._problem = problem
        self.asked: list[str] = []

    def prove(self, settings: Mapping[str, Any], username: str, password: str) -> Proof:
        """Whether the user has this password."""
        self.asked.append(username)
        if self._problem:
            return Proof(problem=self._problem)
        if username not in self._users or self._users[username] != password:
            return Proof()
        if username in self._closed:
            return Proof(closed=True)
        return self.look(settings, username)

    def look(self, settings: Mapping[str, Any], username: str) -> Proof:
        """Whether it was told of this user, and his groups."""
        if self._problem:
            return Proof(problem=self._problem)
        known = username in self._users and username not in self._closed
        return Proof(ok=known, groups=tuple(self._groups.get(username, ())) if known else ())


_FakeProof: type[ILoginProof] = FakeProof  # mypy compares them
