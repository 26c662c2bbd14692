"""
Jobs of which nobody may see what was given and what came of it, but those who do them.

A step of an orchestration with C{no_log: True} gives minions a secret. Its job says so in its
C{metadata}, which each minion, stock's too, sends back with its return: so each node knows of it
whatever it has heard of the job before. Texts are replaced by stars before anything of it
is stored or told; numbers, truth and shapes stay, by which a result is judged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MARK = "no_log"
STARS = "**********"
ASKED = ("saltutil.find_job", "saltutil.find_cached_job", "saltutil.running", "saltutil.is_running")
"""Functions whose answers have jobs in them."""
TOLD = ("arg", "fun_args", "return")
"""What there is to hide in a job, and in a return."""


def redact(value: Any) -> Any:
    """A copy with every text that is not empty replaced; numbers and shapes stay, as in Salt."""
    if isinstance(value, str):
        return STARS if value else value
    if isinstance(value, dict):
        return {key: redact(item) for key, item in value.items()}
    if isinstance(value, list):
        return [redact(item) for item in value]
    return value


def hide(value: Any) -> Any:
    """As L{redact}, and bytes, which Salt shows where it masks pillars."""
    if isinstance(value, (bytes, bytearray)):
        return STARS.encode() if value else value
    if isinstance(value, Mapping):
        return {key: hide(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [hide(item) for item in value]
    return redact(value)


def marked(kwargs: Mapping[str, Any] | None) -> dict[str, Any]:
    """The C{kwargs} of a publish load, of a job that is secret."""
    kwargs = kwargs or {}
    metadata = kwargs.get("metadata")
    known = metadata if isinstance(metadata, Mapping) else {}
    return {**kwargs, "metadata": {**known, MARK: True}}


def is_secret(job: Mapping[str, Any]) -> bool:
    """Whether a job, or a return, is of those."""
    metadata = job.get("metadata")
    return isinstance(metadata, Mapping) and metadata.get(MARK) is True


def told(job: Mapping[str, Any]) -> Mapping[str, Any]:
    """A job or a return as it may be stored and told."""
    if is_secret(job):
        return {**job, **{word: _hidden(job[word]) for word in TOLD if word in job}}
    if job.get("fun") in ASKED:
        return {**job, "return": _within(job.get("return"))}
    return job


def _within(value: Any) -> Any:
    """An answer that has jobs in it, or returns."""
    if isinstance(value, Mapping):
        return told(value)
    if isinstance(value, list):
        return [_within(each) for each in value]
    return value


def _hidden(value: Any) -> Any:
    """As L{hide}; results of states lose the names of these, which are often commands."""
    if not isinstance(value, Mapping):
        return hide(value)
    found: dict[Any, Any] = {}
    for key, item in value.items():
        name = key
        words = key.split("_|-") if isinstance(key, str) else ()
        if len(words) >= 4:
            name, number = "_|-".join((words[0], words[1], words[1], words[-1])), 1
            while name in found:
                number += 1
                name = "_|-".join((words[0], words[1], f"{words[1]} {number}", words[-1]))
        found[name] = hide(item)
    return found
