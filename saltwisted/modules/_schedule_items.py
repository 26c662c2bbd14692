"""
A job as the schedule keeps it, from the arguments of who adds it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltwisted.domain.when import WhenError, parse_moment

SCHEDULE_CONF = [
    "name",
    "maxrunning",
    "function",
    "splay",
    "range",
    "when",
    "once",
    "once_fmt",
    "returner",
    "jid_include",
    "args",
    "kwargs",
    "_seconds",
    "seconds",
    "minutes",
    "hours",
    "days",
    "enabled",
    "return_job",
    "metadata",
    "cron",
    "until",
    "after",
    "return_config",
    "return_kwargs",
    "run_on_start",
    "skip_during_range",
    "run_after_skip_range",
]
"""What is shown of a job."""

UNITS = ("seconds", "minutes", "hours", "days")
BOTH = 'Unable to use "when" and "cron" options together.  Ignoring.'
_TAKEN = (
    "range",
    "when",
    "once",
    "once_fmt",
    "cron",
    "returner",
    "after",
    "return_config",
    "return_kwargs",
    "until",
    "run_on_start",
    "skip_during_range",
)
"""Arguments that are kept as they are."""


def time_conflict(kwargs: Mapping[str, Any]) -> bool:
    """Whether it is told both how often and when."""
    return any(unit in kwargs for unit in UNITS) and ("when" in kwargs or "cron" in kwargs)


def invalid(item: Mapping[str, Any]) -> bool:
    """Whether that is no job, but why it is none."""
    return "result" in item and not item["result"]


def _refused(comment: str) -> dict[str, Any]:
    return {"comment": comment, "result": False}


def _about_moments(when: Any) -> str:
    """What is wrong with the moments of C{when}; empty if nothing is."""
    for one in when if isinstance(when, list) else [when]:
        try:
            parse_moment(one)
        except WhenError:
            return f'Schedule item {one} for "when" in invalid.'
    return ""


def build(name: str, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """As C{schedule.build_schedule_item}."""
    if not name:
        return _refused("Job name is required.")
    item: dict[str, Any] = {"function": kwargs["function"]}
    if time_conflict(kwargs):
        return _refused(
            'Unable to use "seconds", "minutes", "hours", or "days" with "when" or "cron" options.'
        )
    if "when" in kwargs and "cron" in kwargs:
        return _refused(BOTH)
    for key in (*UNITS, "return_job", "metadata"):
        if key in kwargs:
            item[key] = kwargs[key]
    if "job_args" in kwargs:
        if not isinstance(kwargs["job_args"], list):
            return _refused("job_args is not a list. please correct and try again.")
        item["args"] = kwargs["job_args"]
    if "job_kwargs" in kwargs:
        if not isinstance(kwargs["job_kwargs"], dict):
            return _refused("job_kwargs is not a dict. please correct and try again.")
        item["kwargs"] = kwargs["job_kwargs"]
    item["maxrunning"] = kwargs.get("maxrunning", 1)
    item["name"] = kwargs.get("name", name)
    item["enabled"] = kwargs.get("enabled", True)
    item["jid_include"] = kwargs.get("jid_include", True)
    if "splay" in kwargs:
        splay = kwargs["splay"]
        item["splay"] = (
            {"start": splay["start"], "end": splay["end"]} if isinstance(splay, dict) else splay
        )
    problem = _about_moments(kwargs.get("when", []))
    if problem:
        return _refused(problem)
    for key in _TAKEN:
        if key in kwargs:
            item[key] = kwargs[key]
    return item
