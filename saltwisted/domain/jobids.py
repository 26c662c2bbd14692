"""
To whom a job belongs: jids that callers choose, and returns that nobody requested.

A batch publishes its parts under one jid. A part is a publication of the same user, function and
arguments as the first. Anything else under an existing jid would take the place of another job,
whose record and returns it would share.

A return is never refused: C{salt-call}, a minion's schedule, and a return that is quicker than the
record of its job all look the same. A return that no record expects is kept as the minion's claim.
This module does not know where jobs are looked up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import define, field

from saltwisted.domain.api.pieces import room_after
from saltwisted.domain.jid import jid_seconds
from saltwisted.domain.secrecy import told
from saltwisted.domain.who import Who, who_in
from saltwisted.errors import RemoteError

BEGUN = "begun"
"""In the record of a job in parts: when its first part was published."""
MOST_VALUES, MOST_NAMES = 10_000, 1024
"""Values of an argument list, and names of functions, in a record that minions' words make."""


def judged_jid(value: object) -> str:
    """
    A job id from a request; C{""} if it leaves the choice to the master.

    Some clients send its digits as a number.

    @raises RemoteError: it is invalid, or names no existing moment (T-PATH-6).
    """
    if value is None or value == "":
        return ""
    text = str(value) if type(value) is int else value
    if not isinstance(text, str) or jid_seconds(text) is None:
        raise RemoteError("SaltInvocationError", f"{str(value)[:100]!r} is not a job id")
    return text


def _function(fun: Any) -> Any:
    return fun.split(",") if isinstance(fun, str) and "," in fun else fun


@define
class JobInParts:
    """
    A job under a jid that a caller chose.

    @ivar begun: when its first part was published, in seconds since 1970.
    @ivar minions: the minions of all parts so far.
    """

    who: Who
    fun: Any
    arg: Any
    begun: float
    minions: dict[str, None] = field(factory=dict)

    @classmethod
    def first(cls, who: Who, load: Mapping[str, Any], now: float) -> JobInParts:
        """A job of which this is the first part."""
        kwargs = load.get("kwargs")
        metadata = kwargs.get("metadata") if isinstance(kwargs, Mapping) else None
        # As it is recorded: of a secret one only its shape is compared
        job = told({"arg": list(load.get("arg") or []), "metadata": metadata})
        return cls(who, _function(load.get("fun")), job["arg"], now)

    @classmethod
    def recorded(cls, job: Mapping[str, Any]) -> JobInParts:
        """What the job cache has."""
        begun = job.get(BEGUN) or job.get("started") or 0.0
        found = cls.first(who_in(job), job, float(begun))
        found.minions.update(dict.fromkeys(job.get("minions") or ()))
        return found

    def has_part(self, other: JobInParts) -> bool:
        """Whether the other is a further part of this job."""
        return (self.who, self.fun, self.arg) == (other.who, other.fun, other.arg)

    def join(self, minions: Iterable[str]) -> list[str]:
        """The minions of all parts, with those of one more."""
        self.minions.update(dict.fromkeys(minions))
        return list(self.minions)


def expected_of(job: Mapping[str, Any], minions: Iterable[str]) -> frozenset[str]:
    """
    Whose returns a published job is to have; those of others are claims.

    A run on a master itself has no minions, and is its own target.
    """
    found = frozenset(minions)
    if not found and job.get("tgt_type") == "list" and isinstance(job.get("tgt"), str):
        return frozenset(job["tgt"].split(","))
    return found


def claimed_by(job: Mapping[str, Any] | None, returned: Iterable[str]) -> list[str]:
    """
    Those who returned to a job which nobody had published, or not for them: it is their word alone.

    @param job: as the job cache has it, with C{minions}, and C{claimed} where its record is made
        of such returns.
    """
    if job is None or job.get("claimed"):
        return sorted(returned)
    expected = expected_of(job, job.get("minions") or ())
    return sorted(minion_id for minion_id in returned if minion_id not in expected)


def _shaped(fun: Any, arg: Any, tgt: Any, tgt_type: Any, user: Any) -> dict[str, Any]:
    """A record in the forms that those of published jobs have."""
    return {
        "fun": _texts(fun),
        "arg": _short(list(arg) if isinstance(arg, (list, tuple)) else [arg], []),
        "tgt": _texts(tgt),
        "tgt_type": _text(tgt_type or "glob"),
        "user": _text(user or "root"),
    }


def _texts(value: Any) -> str | list[str]:
    if isinstance(value, (list, tuple)):
        return [_text(each) for each in value[:MOST_NAMES]]
    return _text(value or "")


def _text(value: Any) -> str:
    """A name; what is none, and as long as no name is, gets none."""
    return str(_short(value, ""))


def _short(value: Any, instead: Any) -> Any:
    """A value that takes no time to look at; of a claim, the minion's return has all of it."""
    return value if room_after(value, MOST_VALUES) >= 0 else instead


def record_of_claim(minion_id: str, load: Mapping[str, Any]) -> dict[str, Any]:
    """
    The record of a job that is known only from a return: the minion's data in it may be anything.
    """
    arg = load.get("fun_args") or []
    job = _shaped(load.get("fun"), arg, minion_id, "glob", load.get("user"))
    metadata = _short(load.get("metadata"), None)
    if metadata is not None:
        job["metadata"] = metadata
    return job


def record_of_running(job: Mapping[str, Any]) -> dict[str, Any]:
    """A job as a minion says that it runs it, likewise, and no key that a master would set."""
    tgt, tgt_type = job.get("tgt"), job.get("tgt_type")
    shown = _shaped(job.get("fun"), job.get("arg") or [], tgt, tgt_type, job.get("user"))
    shown.update((key, _short(job[key], None)) for key in ("pid", "metadata") if key in job)
    return shown


def precedence(job: Mapping[str, Any], started: float) -> tuple[float, str, str]:
    """
    Which of two records of one jid holds, where two nodes published under it unknown to each
    other: that of the job which began first. Records of one job are equal in this.
    """
    who = who_in(job)
    return float(job.get(BEGUN) or started), who.name, who.backend
