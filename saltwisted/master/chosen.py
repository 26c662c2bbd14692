"""
Jids that callers choose (batches, C{salt.execute}, C{salt-run --jid}), checked before a job or a
run begins under them. L{saltwisted.domain.jobids} has the rule.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from saltwisted.domain.jobids import JobInParts
from saltwisted.domain.who import Who
from saltwisted.errors import DeniedError
from saltwisted.master.ground import Ground

LATEST = 256
"""Chosen jids that are remembered here; of older ones the job cache knows."""


class Chosen:
    """What has begun under jids that callers chose, on this master."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._begun: OrderedDict[str, JobInParts] = OrderedDict()

    async def part(self, jid: str, load: Mapping[str, Any], who: Who) -> JobInParts:
        """
        The job that is published under this jid now: a new one, or one more part of it.

        @raises DeniedError: the jid is another job's.
        """
        part = JobInParts.first(who, load, self._ground.now())
        job = await self._enter(jid, part)
        if job is not part and not job.has_part(part):
            raise self._refused(jid, who)
        return job

    async def single(self, jid: str, fun: str, arg: Any, who: Who) -> None:
        """
        A run begins under this jid; it has no parts.

        @raises DeniedError: the jid is in use.
        """
        part = JobInParts.first(who, {"fun": fun, "arg": arg}, self._ground.now())
        if await self._enter(jid, part) is not part:
            raise self._refused(jid, who)

    async def _enter(self, jid: str, part: JobInParts) -> JobInParts:
        job = self._begun.get(jid)
        if job is None:
            record = await self._ground.jobs.job(jid)
            # Another may have come while the disk was asked. A minion's claim reserves nothing
            job = self._begun.get(jid)
            if job is None:
                there = record is not None and not record.get("claimed")
                job = JobInParts.recorded(record) if record and there else part
        self._begun[jid] = job
        self._begun.move_to_end(jid)
        while len(self._begun) > LATEST:
            self._begun.popitem(last=False)
        return job

    def _refused(self, jid: str, who: Who) -> DeniedError:
        self._ground.counters["denied:jid"] += 1
        return DeniedError(f"job {jid} is not the job that {who} wants to publish")
