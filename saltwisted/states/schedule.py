"""
Jobs in the minion's own schedule.
"""

from __future__ import annotations

from typing import Any

__salt__: Any
__opts__: Any


def _current(**words: Any) -> dict[str, Any]:
    current: dict[str, Any] = __salt__["schedule.list"](show_all=True, return_yaml=False, **words)
    return current


def _done(
    name: str, result: Any, comment: str, changes: dict[str, Any] | None = None
) -> dict[str, Any]:
    return {"name": name, "result": result, "changes": changes or {}, "comment": comment}


def present(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    A job is scheduled, with these words. They are those of C{schedule.add}: C{function},
    C{job_args}, C{job_kwargs}, C{seconds}, C{minutes}, C{hours}, C{days}, C{when}, C{cron},
    C{once}, C{splay}, C{range}, C{maxrunning}, C{enabled}, C{persist}, C{offline} ...
    """
    current = _current(offline=kwargs.get("offline"))
    test = bool(__opts__.get("test"))
    if name not in current:
        if test:
            kwargs["test"] = True
        did = __salt__["schedule.add"](name, **kwargs)
        if test:
            return _done(name, True, did["comment"], {name: "added"})
        if not did["result"]:
            return _done(name, did["result"], did["comment"])
        return _done(name, True, f"Adding new job {name} to schedule", did["changes"])
    item = __salt__["schedule.build_schedule_item"](name, **kwargs)
    if isinstance(item, dict):
        if "result" in item and not item["result"]:
            return _done(name, item["result"], item["comment"])
        item.setdefault("enabled", True)
    if item == current[name]:
        return _done(name, True, f"Job {name} in correct state")
    if test:
        kwargs["test"] = True
    did = __salt__["schedule.modify"](name, **kwargs)
    if test:
        return _done(name, True, did["comment"], did["changes"])
    if not did["result"]:
        return _done(name, did["result"], did["comment"])
    return _done(name, True, f"Modifying job {name} in schedule", did["changes"])


def _change(
    name: str, function: str, done: str, with_changes: bool, kwargs: dict[str, Any], **words: Any
) -> dict[str, Any]:
    """Call a function on a job that is there."""
    if name not in _current(**words):
        return _done(name, True, f"Job {name} not present in schedule")
    test = bool(__opts__.get("test"))
    if test:
        kwargs["test"] = True
    did = __salt__[function](name, **kwargs)
    if test:
        return _done(name, True, did["comment"])
    if not did["result"]:
        changes = did.get("changes") if function == "schedule.enable_job" else None
        return _done(name, did["result"], did["comment"], changes)
    return _done(name, True, done.format(name), did["changes"] if with_changes else None)


def absent(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    A job is not scheduled.

    persist
        Write that to the minion's configuration.
    offline
        Do this without a running minion.
    """
    words = {"offline": kwargs.get("offline")}
    return _change(name, "schedule.delete", "Removed job {} from schedule", True, kwargs, **words)


def enabled(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    A scheduled job is enabled.
    """
    return _change(name, "schedule.enable_job", "Enabled job {} from schedule", False, kwargs)


def disabled(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    A scheduled job is disabled.
    """
    words = {"offline": kwargs.get("offline")}
    return _change(
        name, "schedule.disable_job", "Disabled job {} from schedule", False, kwargs, **words
    )
