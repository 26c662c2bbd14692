"""
Jobs and returns, in memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from twisted.internet.defer import Deferred, fail, succeed

from saltwisted.domain.jid import is_jid, jid_at
from saltwisted.domain.jobids import precedence, record_of_claim
from saltwisted.errors import DeniedError, StoreError
from saltwisted.parts import IJobStore
from saltwisted.stores.jobs.store import stored_form
from saltwisted.wire.msgpack import unpack_bin

_CRITERIA = {"limit", "fun", "not_fun", "since", "until", "minions", "below", "shown"}


class MemoryJobs:
    """
    A job store without a disk; a full one can be switched on.

    @ivar loads: jid to the record of a job, as L{job} gives it.
    @ivar kept: jid to minion id to its return, as it came.
    @ivar full: whether the disk that there is not is full.
    @ivar held: when a list, returns are acknowledged only when the test fires what is in it.
    """

    def __init__(
        self,
        now: Callable[[], float] = time.time,
        keep_seconds: float = 86400.0,
        before: MemoryJobs | None = None,
    ) -> None:
        """
        @param now: seconds since 1970.
        @param before: one whose next start this is.
        """
        self.loads: dict[str, dict[str, Any]] = before.loads if before else {}
        self.kept: dict[str, dict[str, dict[str, Any]]] = before.kept if before else {}
        self._came: dict[tuple[str, str], float] = before._came if before else {}
        self.full = False
        self.held: list[Deferred[bool]] | None = None
        self.queued = 0
        self.on_open: list[Callable[[], None]] = []
        self._now = now
        self._keep = keep_seconds
        self._closed = self._running = False

    @property
    def problem(self) -> str:
        """Why jobs and returns are not taken, or C{""}."""
        return "no space left on device" if self.full else ""

    def startService(self) -> None:
        """Say that it is open."""
        for receiver in self.on_open:
            receiver()
        self._running = True

    def stopService(self) -> Deferred[None]:
        """Take nothing more."""
        self._closed = True
        return succeed(None)

    def newest_jid(self, slot: int | None = None) -> str:
        """The newest jid of a published job, before it runs."""
        latest = "" if self._running else jid_at(self._now() + 86400)
        known = [jid for jid, job in self.loads.items() if is_jid(jid) and not job.get("claimed")]
        wanted = [jid for jid in known if slot is None or jid[18:20] == f"{slot:02d}"]
        return max((jid for jid in wanted if jid < latest), default="")

    def _refused(self) -> str:
        return "closed" if self._closed else self.problem

    def save_job(
        self, jid: str, load: Mapping[str, Any], minions: Sequence[str], chosen: bool = False
    ) -> Deferred[None]:
        """Remember a published job."""
        if why := self._refused():
            return fail(StoreError(why))
        record = {**load, "jid": jid, "minions": list(minions), "started": self._now()}
        old = self.loads.get(jid)
        if chosen and old is not None and not old.get("claimed"):
            held, new = (precedence(each, each.get("started", 0.0)) for each in (old, record))
            if new > held:
                return fail(DeniedError(f"{jid} is another job"))
        self.loads[jid] = record
        return succeed(None)

    def save_return(self, load: Mapping[str, Any], requested: bool = False) -> Deferred[bool]:
        """Remember a return, once."""
        if why := self._refused():
            return fail(StoreError(why))
        try:
            stored_form(load)
        except TypeError as error:
            return fail(StoreError(str(error)))
        jid, minion_id = load["jid"], load["id"]
        if jid not in self.loads:
            claim = record_of_claim(minion_id, load)
            more = {"jid": jid, "minions": [minion_id], "started": self._now(), "claimed": True}
            self.loads[jid] = {**claim, **more}
        new = self._keep_return(dict(load), self._now())
        if self.held is not None:
            waiting: Deferred[bool] = Deferred()
            self.held.append(waiting)
            return waiting
        return succeed(new)

    def _keep_return(self, load: dict[str, Any], came: float) -> bool:
        returns = self.kept.setdefault(load["jid"], {})
        if load["id"] in returns:
            return False
        returns[load["id"]] = load
        self._came[load["jid"], load["id"]] = came
        return True

    def _read(self, value: Any) -> Deferred[Any]:
        return fail(StoreError("closed")) if self._closed else succeed(value)

    def job(self, jid: str) -> Deferred[Mapping[str, Any] | None]:
        """One job."""
        job = self.loads.get(jid)
        return self._read(None if job is None else dict(job))

    def returns(self, jid: str) -> Deferred[Mapping[str, Mapping[str, Any]]]:
        """Its returns."""
        kept = sorted(self.kept.get(jid, {}).items())
        return self._read({minion: unpack_bin(stored_form(load)) for minion, load in kept})

    def list_jobs(self, **criteria: Any) -> Deferred[Sequence[Any]]:
        """Jobs, newest last."""
        if unknown := criteria.keys() - _CRITERIA:
            raise TypeError(f"list_jobs does not know {', '.join(sorted(unknown))}")

        def fits(job: Mapping[str, Any]) -> bool:
            fun = job.get("fun") or ""
            text = fun if isinstance(fun, str) else ",".join(map(str, fun))
            started = job.get("started", 0.0)
            tests = {
                "fun": lambda wanted: text == wanted,
                "not_fun": lambda wanted: text != wanted,
                "since": lambda time: started >= time,
                "until": lambda time: started <= time,
            }
            given = {n: criteria[n] for n in tests if criteria.get(n) is not None}
            return all(tests[name](value) for name, value in given.items())

        found = [job for job in self.loads.values() if fits(job)]
        below = criteria.get("below")
        if below is None:
            found.sort(key=lambda job: (job.get("started", 0.0), job["jid"]))
        else:
            found = [job for job in found if not below or job["jid"] < below]
            found.sort(key=lambda job: job["jid"])
        if criteria.get("limit") is not None:
            found = found[max(0, len(found) - int(criteria["limit"])) :]
        left_out = () if criteria.get("minions") else ("minions",)
        jobs = [{k: v for k, v in job.items() if k not in left_out} for job in found]
        shown = criteria.get("shown")
        return self._read(jobs if shown is None else [shown(job) for job in jobs])

    def bring_in(
        self, jobs: Sequence[tuple[Any, ...]], returns: Sequence[tuple[Any, ...]]
    ) -> Deferred[tuple[int, int]]:
        """Add records of another master."""
        if why := self._refused():
            return fail(StoreError(why))
        new_jobs = new_returns = 0
        for jid, started, _, load, minions in jobs:
            if self.loads.get(jid, {"claimed": True}).get("claimed"):
                more = {"jid": jid, "minions": unpack_bin(minions), "started": started}
                self.loads[jid] = {**unpack_bin(load), **more}
                new_jobs += 1
        for jid, minion_id, came, packed in returns:
            load = {**unpack_bin(packed), "jid": jid, "id": minion_id}
            new_returns += self._keep_return(load, came)
        return succeed((new_jobs, new_returns))

    def prune(self, by: Callable[[], float | None] | None = None) -> Deferred[int]:
        """Forget what is old."""
        at = (by or self._now)()
        if at is None or self._keep <= 0:
            return succeed(0)
        before, gone = at - self._keep, 0
        for jid in [jid for jid, job in self.loads.items() if job.get("started", 0.0) < before]:
            del self.loads[jid]
            gone += 1
        for jid, minion_id in [key for key, came in self._came.items() if came < before]:
            del self._came[jid, minion_id]
            del self.kept[jid][minion_id]
            gone += 1
        return succeed(gone)


_MemoryJobs: type[IJobStore] = MemoryJobs  # mypy compares them
