"""
Jobs in lists: what Salt's C{jobs.list_jobs} shows of the record of each.

This module does not know where records are stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from saltwisted.domain.api.pieces import weighed
from saltwisted.domain.jid import jid_seconds, jid_to_time

NO_JOB = {"Error": "Cannot contact returner or no job with this jid"}
"""Salt's words for a jid that the job cache does not have."""

CLAIMED = "ClaimedBy"
"""
Minions that returned to a job which no master published, or not for them. Salt does not say so.
"""

APART = 60.0
"""Seconds by which a jid may be ahead of the clock of the node that keeps its record."""


@frozen
class Listed:
    """
    One job of a list.

    @ivar started: when its record was made, in seconds since 1970.
    @ivar shown: the data of the list, without its minions. Many lists share it: never change it.
    """

    jid: str
    started: float
    shown: Mapping[str, Any]

    @property
    def begun(self) -> float:
        """
        When the job began: what its jid says, unless that is later than we knew of it. A minion
        may return by any jid, and one of the future would stand before all jobs for ever.
        """
        named = jid_seconds(self.jid)
        return self.started if named is None or named > self.started + APART > APART else named


def listed(job: Mapping[str, Any]) -> Listed:
    """A record of the job cache as a list has it."""
    shown = describe(job["jid"], job)
    shown.pop("Minions", None)
    return Listed(job["jid"], float(job.get("started") or 0.0), weighed(shown))


def describe(jid: str, job: Mapping[str, Any] | None) -> dict[str, Any]:
    """One job as C{jobs.list_job} shows it, without its returns."""
    if not job:
        return {**NO_JOB, "StartTime": jid_to_time(jid)}
    get = job.get
    shown: dict[str, Any] = {
        "Function": get("fun", "unknown-function"),
        "Arguments": list(get("arg") or ()),
        "Target": get("tgt", "unknown-target"),
        "Target-type": get("tgt_type", "list"),
        "User": get("user", "root"),
    }
    metadata = _metadata(job)
    if metadata is not None:
        shown["Metadata"] = metadata
    if get("minions"):
        shown["Minions"] = list(job["minions"])
    if get("generation"):
        shown["Generation"] = job["generation"]
    if get("commits"):
        shown["Commits"] = job["commits"]
    if get("claimed"):
        shown[CLAIMED] = list(job.get("minions") or [job.get("tgt")])
    shown["StartTime"] = jid_to_time(jid)
    return shown


def _metadata(job: Mapping[str, Any]) -> Any:
    found = job.get("metadata")
    if found is not None:
        return found
    kwargs = job.get("kwargs")
    if kwargs and isinstance(kwargs, Mapping) and "metadata" in kwargs:
        return kwargs["metadata"]
    for arg in job.get("arg") or ():
        # Of jobs that are kept all maps are plain ones
        if type(arg) is dict and arg.get("__kwarg__") is True and "metadata" in arg:
            return arg["metadata"]
    return None
