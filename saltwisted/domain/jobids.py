"""
Job ids that callers choose: which may be used again, and by whom.

A batch publishes its parts under one jid. A part is a publication of the same user, function
and arguments as the first; anything else under a jid that exists would put itself in the place
of another's job, whose record and returns it would share. Where jobs are looked up is not
known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import define, field

from saltwisted.domain.jid import is_jid
from saltwisted.errors import RemoteError

BEGUN = "begun"
"""In the record of a job in parts: when its first part was published."""


def judged_jid(value: object) -> str:
    """
    A job id as a request names it; C{""} where it leaves the choice to the master.

    Some clients send its digits as a number.

    @raises RemoteError: it is none (T-PATH-6).
    """
    if value is None or value == "":
        return ""
    text = str(value) if type(value) is int else value
    if not is_jid(text):
        raise RemoteError("SaltInvocationError", f"{str(value)[:100]!r} is no job id")
    return str(text)


def _function(fun: Any) -> Any:
    return fun.split(",") if isinstance(fun, str) and "," in fun else fun


@define
class JobInParts:
    """
    A job under a jid that a caller chose.

    @ivar begun: when its first part was published, in seconds since 1970.
    @ivar minions: of all parts so far.
    """

    user: str
    fun: Any
    arg: Any
    begun: float
    minions: dict[str, None] = field(factory=dict)

    @classmethod
    def first(cls, user: str, load: Mapping[str, Any], now: float) -> JobInParts:
        """A job of which this is the first part."""
        return cls(user, _function(load.get("fun")), list(load.get("arg") or []), now)

    @classmethod
    def recorded(cls, job: Mapping[str, Any]) -> JobInParts:
        """What the job cache has."""
        begun = job.get(BEGUN) or job.get("started") or 0.0
        found = cls.first(str(job.get("user") or ""), job, float(begun))
        found.minions.update(dict.fromkeys(job.get("minions") or ()))
        return found

    def has_part(self, other: JobInParts) -> bool:
        """Whether the other is a further part of this job."""
        return (self.user, self.fun, self.arg) == (other.user, other.fun, other.arg)

    def join(self, minions: Iterable[str]) -> list[str]:
        """The minions of all parts, with those of one more."""
        self.minions.update(dict.fromkeys(minions))
        return list(self.minions)


def precedence(job: Mapping[str, Any], started: float) -> tuple[float, str]:
    """
    Which of two records of one jid holds, where two nodes published under it unknown to each
    other: that of the job which began first. Records of one job are equal in this.
    """
    return float(job.get(BEGUN) or started), str(job.get("user") or "")
