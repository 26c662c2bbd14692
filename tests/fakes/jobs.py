"""
A job store in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from twisted.internet.defer import Deferred, fail, succeed

from saltwisted.errors import StoreError


class FakeJobs:
    """
    Keeps what it is given; a full disk can be switched on.

    @ivar held: when a list, returns are acknowledged only when the test fires what is in it.
    """

    def __init__(self) -> None:
        self.loads: dict[str, dict[str, Any]] = {}
        self.kept: dict[str, dict[str, dict[str, Any]]] = {}
        self.full = False
        self.held: list[Deferred[bool]] | None = None
        self.queued = 0

    def save_job(
        self, jid: str, load: Mapping[str, Any], minions: Sequence[str], chosen: bool = False
    ) -> Deferred[None]:
        """Remember a job."""
        if self.full:
            return fail(StoreError("no space left on device"))
        self.loads[jid] = {**load, "jid": jid, "minions": list(minions)}
        return succeed(None)

    def save_return(self, load: Mapping[str, Any], requested: bool = False) -> Deferred[bool]:
        """Remember a return, once."""
        if self.full:
            return fail(StoreError("no space left on device"))
        returns = self.kept.setdefault(load["jid"], {})
        new = load["id"] not in returns
        returns.setdefault(load["id"], dict(load))
        if self.held is not None:
            waiting: Deferred[bool] = Deferred()
            self.held.append(waiting)
            return waiting
        return succeed(new)

    def job(self, jid: str) -> Deferred[Mapping[str, Any] | None]:
        """One job."""
        return succeed(self.loads.get(jid))

    def returns(self, jid: str) -> Deferred[Mapping[str, Mapping[str, Any]]]:
        """Its returns."""
        return succeed(dict(self.kept.get(jid, {})))

    def list_jobs(self, **criteria: Any) -> Deferred[Sequence[Mapping[str, Any]]]:
        """All jobs, oldest first."""
        return succeed([self.loads[jid] for jid in sorted(self.loads)])

    def prune(self) -> Deferred[int]:
        """Nothing is ever too old here."""
        return succeed(0)
