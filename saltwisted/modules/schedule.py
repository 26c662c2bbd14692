"""
The minion's schedule: jobs that it runs by itself.

The daemon owns the schedule; these functions ask it, and word the answers as Salt does.
With C{offline=True} some of them edit the file C{_schedule.conf} instead, for a minion
that does not run.
"""

from __future__ import annotations

import copy as pycopy
import datetime
import logging
import os
from collections.abc import Mapping
from typing import Any

from saltwisted.errors import SaltwistedError
from saltwisted.modules import _files, _schedule_items, _yaml
from saltwisted.modules._schedule_items import SCHEDULE_CONF

log = logging.getLogger(__name__)

__proxyenabled__ = ["*"]
__func_alias__ = {"list_": "list", "reload_": "reload"}

__salt__: Any
__opts__: Any
__pillar__: Any
__daemon__: Any


_TIME = "%Y-%m-%dT%H:%M:%S"


def _ask(func: str, **data: Any) -> dict[str, Any] | None:
    """One question to the daemon's scheduler; nothing if there is none or it refuses."""
    if __daemon__ is None:
        return None
    try:
        answer = __daemon__.call("schedule", func=func, **data)
    except (SaltwistedError, OSError) as error:
        log.error("The scheduler could not do '%s': %s", func, error)
        return None
    return answer if isinstance(answer, dict) and answer.get("complete") else None


def _file() -> str:
    """Where the schedule is kept: in the directory of C{default_include}."""
    base = __opts__.get("conf_dir") or os.path.dirname(__opts__["conf_file"])
    include = os.path.dirname(__opts__.get("default_include") or "minion.d/*.conf")
    folder = os.path.join(base, include)
    os.makedirs(folder, exist_ok=True)
    return os.path.join(folder, "_schedule.conf")


def _saved() -> dict[str, Any]:
    try:
        with open(_file(), "rb") as file:
            found = _yaml.load(file)
    except FileNotFoundError:
        return {}
    jobs = found.get("schedule") if isinstance(found, dict) else None
    return jobs if isinstance(jobs, dict) else {}


def _write(schedule: Mapping[str, Any]) -> None:
    try:
        _files.write_atomically(
            _file(), _yaml.dump({"schedule": dict(schedule)}, default_flow_style=None).encode()
        )
    except OSError:
        log.error("Failed to persist the updated schedule")


def _jobs(where: str | None = None, offline: Any = False) -> dict[str, Any]:
    """All jobs, hidden ones too."""
    found: dict[str, Any] = list_(
        show_all=True, where=where, return_yaml=False, offline=bool(offline)
    )
    return found


def list_(
    show_all: bool = False,
    show_disabled: bool = True,
    where: str | None = None,
    return_yaml: bool = True,
    offline: bool = False,
) -> Any:
    """
    The jobs of the schedule.

    show_all
        Hidden jobs too: those whose names begin with two underscores.
    show_disabled
        Disabled jobs too.
    where
        C{opts} or C{pillar} alone.
    return_yaml
        As text to read; else as a map.
    offline
        What is on disk, without the daemon.

    CLI Example::

        salt '*' schedule.list
        salt '*' schedule.list show_all=True
    """
    if offline:
        schedule = _saved()
        saved = pycopy.deepcopy(schedule)
    else:
        schedule = dict((_ask("list", where=where) or {}).get("schedule") or {})
        saved = _saved()
    for name in list(schedule):
        if name in ("enabled", "skip_function", "skip_during_range"):
            continue
        if name.startswith("__") and not show_all:
            del schedule[name]
            continue
        job = {
            key: {"true": True, "false": False}.get(value, value)
            if isinstance(value, str)
            else value
            for key, value in schedule[name].items()
            if key in SCHEDULE_CONF and key != "_seconds" and value is not None
        }
        job.setdefault("enabled", True)
        if not show_disabled and not job["enabled"]:
            del schedule[name]
        else:
            schedule[name] = job
    if not return_yaml:
        return schedule
    for name, job in schedule.items():
        if isinstance(job, dict):
            job["saved"] = name in saved
    return _yaml.dump({"schedule": schedule})


def is_enabled(name: str | None = None) -> Any:
    """
    Whether the schedule is enabled; with a name that job, or an empty map.

    CLI Example::

        salt '*' schedule.is_enabled name=job_name
        salt '*' schedule.is_enabled
    """
    schedule = list_(show_all=False, return_yaml=False)
    if not name:
        return schedule.get("enabled", True)
    return schedule.get(name, {})


def purge(**kwargs: Any) -> dict[str, Any]:
    """
    Remove all jobs but the hidden ones.

    CLI Example::

        salt '*' schedule.purge
    """
    comments: list[str] = []
    changes: dict[str, str] = {}
    offline = kwargs.get("offline")
    schedule = _jobs(offline=offline)
    for name in list(schedule):
        if name == "enabled" or name.startswith("__"):
            continue
        if kwargs.get("test"):
            comments.append(f"Job: {name} would be deleted from schedule.")
            continue
        if offline:
            del schedule[name]
            gone = True
        else:
            answer = _ask("delete", name=name, persist=kwargs.get("persist", True))
            if answer is None:
                continue
            gone = name not in answer["schedule"]
        if gone:
            changes[name] = "removed"
            comments.append(f"Deleted job: {name} from schedule.")
        else:
            comments.append(f"Failed to delete job {name} from schedule.")
    if offline:
        _write(schedule)
    return {"comment": comments, "changes": changes, "result": True}


def delete(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    Remove a job.

    CLI Example::

        salt '*' schedule.delete job1
    """
    ret: dict[str, Any] = {
        "comment": f"Failed to delete job {name} from schedule.",
        "result": False,
        "changes": {},
    }
    if not name:
        ret["comment"] = "Job name is required."
    if kwargs.get("test"):
        ret.update(comment=f"Job: {name} would be deleted from schedule.", result=True)
        return ret
    if kwargs.get("offline"):
        schedule = _jobs("opts", True)
        del schedule[name]
        _write(schedule)
    else:
        where = _where(name)
        if where is None:
            ret["comment"] = f"Job {name} does not exist."
            return ret
        answer = _ask("delete", name=name, **_persist(where, kwargs))
        if answer is None or name in answer["schedule"]:
            return ret
    ret.update(comment=f"Deleted Job {name} from schedule.", result=True)
    ret["changes"][name] = "removed"
    return ret


def _where(name: str) -> str | None:
    """Which half of the schedule has a job: the minion's own, or the pillar's."""
    for where in ("opts", "pillar"):
        if name in _jobs(where):
            return where
    return None


def _persist(where: str, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """How a change is to be kept: the pillar's jobs are not ours to keep."""
    if where == "pillar":
        return {"where": "pillar", "persist": False}
    return {"persist": kwargs.get("persist", True)}


def build_schedule_item(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    A job as the schedule keeps it, from the arguments of C{schedule.add}; or why it is none.

    CLI Example::

        salt '*' schedule.build_schedule_item job1 function='test.ping' seconds=3600
    """
    return _schedule_items.build(name, kwargs)


def add(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    Add a job: C{function}, when (C{seconds minutes hours days when cron once}), and how.

    job_args, job_kwargs
        Arguments of the function.
    splay, range, until, after, maxrunning, run_on_start, returner, metadata, enabled
        As in the configuration.
    persist
        False: not over a restart.
    offline
        Into the file, for a minion that does not run.

    CLI Example::

        salt '*' schedule.add job1 function='test.ping' seconds=3600
        salt '*' schedule.add job2 function='cmd.run' job_args="['date']" seconds=60
    """
    ret: dict[str, Any] = {
        "comment": f"Failed to add job {name} to schedule.",
        "result": False,
        "changes": {},
    }
    offline = kwargs.get("offline")
    schedule = _jobs(offline=offline)
    if name in schedule:
        ret["comment"] = f"Job {name} already exists in schedule."
        return ret
    if not name:
        ret["comment"] = "Job name is required."
    if _schedule_items.time_conflict(kwargs):
        ret["comment"] = (
            'Error: Unable to use "seconds", "minutes", "hours", or "days" with "when" or '
            '"cron" options.'
        )
        return ret
    if "when" in kwargs and "cron" in kwargs:
        ret["comment"] = _schedule_items.BOTH
        return ret
    item = build_schedule_item(name, **kwargs)
    if _schedule_items.invalid(item):
        return item
    if kwargs.get("test"):
        ret.update(comment=f"Job: {name} would be added to schedule.", result=True)
        return ret
    if offline:
        _write({**schedule, name: item})
    else:
        persist = kwargs.get("persist", True)
        answer = _ask("add", name=name, schedule={name: item}, persist=persist)
        if answer is None or name not in answer["schedule"]:
            return ret
    ret.update(comment=f"Added job: {name} to schedule.", result=True)
    ret["changes"][name] = "added"
    return ret


def modify(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    Give a job other arguments; see C{schedule.add}.

    CLI Example::

        salt '*' schedule.modify job1 function='test.ping' seconds=3600
    """
    ret: dict[str, Any] = {"comment": "", "changes": {}, "result": True}

    def refused(comment: str) -> dict[str, Any]:
        ret.update(comment=comment, result=False)
        return ret

    if _schedule_items.time_conflict(kwargs):
        return refused(
            'Error: Unable to use "seconds", "minutes", "hours", or "days" with "when" option.'
        )
    if "when" in kwargs and "cron" in kwargs:
        return refused(_schedule_items.BOTH)
    offline = kwargs.get("offline")
    schedule = _jobs(offline=offline)
    if name not in schedule:
        return refused(f"Job {name} does not exist in schedule.")
    old = schedule[name]
    kwargs.setdefault("function", old.get("function"))
    new = build_schedule_item(name, **kwargs)
    if _schedule_items.invalid(new):
        return new
    if new == old:
        ret["comment"] = f"Job {name} in correct state"
        return ret
    ret["changes"][name] = {"old": dict(old), "new": dict(new)}
    if kwargs.get("test"):
        ret["comment"] = f"Job: {name} would be modified in schedule."
        return ret
    if offline:
        schedule[name].update(new)
        _write(schedule)
    else:
        where = _where(name) or "opts"
        if _ask("modify", name=name, schedule=new, **_persist(where, kwargs)) is None:
            return refused(f"Failed to modify job {name} in schedule.")
    ret["comment"] = f"Modified job: {name} in schedule."
    return ret


def run_job(name: str, force: bool = False) -> dict[str, Any]:
    """
    Run a job now; a disabled one with C{force}.

    CLI Example::

        salt '*' schedule.run_job job1
        salt '*' schedule.run_job job1 force=True
    """
    if not name:
        return {"comment": "Job name is required.", "result": False}
    schedule = _jobs()
    if name not in schedule:
        return {"comment": f"Job {name} does not exist.", "result": False}
    if not schedule[name].get("enabled", True) and not force:
        return {"comment": f"Job {name} is disabled.", "result": True}
    if _ask("run_job", name=name) is None:
        return {"comment": f"Failed to run job {name} on minion.", "result": False}
    return {"comment": f"Scheduling Job {name} on minion.", "result": True}


def _switch_job(name: str, kwargs: Mapping[str, Any], test: Any, on: bool) -> dict[str, Any]:
    word = "enable" if on else "disable"
    ret: dict[str, Any] = {"comment": [], "result": True, "changes": {}}
    if not name:
        ret.update(comment="Job name is required.", result=False)
    if test:
        ret["comment"] = f"Job: {name} would be {word}d in schedule."
        return ret
    where = _where(name)
    if where is None:
        ret.update(comment=f"Job {name} does not exist.", result=False)
        return ret
    answer = _ask(f"{word}_job", name=name, **_persist(where, kwargs))
    if answer is None:
        return ret
    job = answer["schedule"].get(name)
    if job is not None and bool(job.get("enabled", True)) is on:
        ret["comment"] = f"{word.title()}d Job {name} in schedule."
        ret["changes"][name] = f"{word}d"
    else:
        ret.update(comment=f"Failed to {word} job {name} in schedule.", result=False)
    return ret


def enable_job(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    Enable a job.

    CLI Example::

        salt '*' schedule.enable_job job1
    """
    return _switch_job(name, kwargs, __opts__.get("test"), True)


def disable_job(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    Disable a job.

    CLI Example::

        salt '*' schedule.disable_job job1
    """
    return _switch_job(name, kwargs, kwargs.get("test"), False)


def save(**kwargs: Any) -> dict[str, Any]:
    """
    Write the schedule to disk, but for what comes from the pillar.

    CLI Example::

        salt '*' schedule.save
    """
    if kwargs.get("test"):
        return {"comment": "Schedule would be saved.", "result": True}
    if __daemon__ is None:
        return {"comment": [], "result": True}
    if _ask("save") is None:
        return {"comment": "Failed to save schedule.", "result": False}
    return {"comment": "Schedule (non-pillar items) saved.", "result": True}


def _switch(kwargs: Mapping[str, Any], on: bool) -> dict[str, Any]:
    word = "enable" if on else "disable"
    ret: dict[str, Any] = {"comment": [], "changes": {}, "result": True}
    if kwargs.get("test"):
        ret["comment"] = f"Schedule would be {word}d."
        return ret
    answer = _ask(word, persist=kwargs.get("persist", True))
    if answer is None:
        return ret
    if bool(answer["schedule"].get("enabled", not on)) is on:
        ret["comment"] = f"{word.title()}d schedule on minion."
        ret["changes"]["schedule"] = f"{word}d"
    else:
        ret.update(comment=f"Failed to {word} schedule on minion.", result=False)
    return ret


def enable(**kwargs: Any) -> dict[str, Any]:
    """
    Enable the schedule.

    CLI Example::

        salt '*' schedule.enable
    """
    return _switch(kwargs, True)


def disable(**kwargs: Any) -> dict[str, Any]:
    """
    Disable the schedule: no job of it runs.

    CLI Example::

        salt '*' schedule.disable
    """
    return _switch(kwargs, False)


def reload_() -> dict[str, Any]:
    """
    Take the schedule from the pillar and from C{schedule.conf} again.

    CLI Example::

        salt '*' schedule.reload
    """
    ret: dict[str, Any] = {"comment": [], "result": True}
    if "schedule" in __pillar__:
        if __salt__["saltutil.refresh_pillar"]():
            ret["comment"].append("Reloaded schedule from pillar on minion.")
        else:
            ret["comment"].append("Failed to reload schedule from pillar on minion.")
            ret["result"] = False
    path = os.path.join(os.path.dirname(_file()), "schedule.conf")
    if not os.path.isfile(path):
        return ret
    schedule = None
    with open(path, "rb") as file:
        try:
            schedule = _yaml.load(file)
        except _yaml.Error as error:
            ret["comment"].append(f"Unable to read existing schedule file: {error}")
    if not isinstance(schedule, dict) or not schedule.get("schedule"):
        ret["comment"].append(
            "Failed to reload schedule on minion.  Saved file is empty or invalid."
        )
        ret["result"] = False
    elif _ask("reload", schedule=schedule) is None:
        ret["comment"].append("Failed to reload schedule on minion from schedule.conf.")
        ret["result"] = False
    else:
        ret["comment"].append("Reloaded schedule on minion from schedule.conf.")
    return ret


def _give(name: str, target: str, test: Any, word: str) -> dict[str, Any]:
    """Add a job of ours on other minions, through the master's peer interface."""
    ret: dict[str, Any] = {"comment": [], "result": True}
    if not name:
        ret.update(comment="Job name is required.", result=False)
    if test:
        ret["comment"] = f"Job: {name} would be {word} from schedule."
        return ret
    where = _where(name)
    if where is None:
        ret.update(comment=f"Job {name} does not exist.", result=False)
        return ret
    fields = {"name": name, **_jobs(where)[name]}
    words = [f"{key}={value}" for key, value in fields.items()]
    answers = __salt__["publish.publish"](target, "schedule.add", words)
    if not answers:
        ret["comment"] = "no servers answered the published schedule.add command"
        return ret
    failed = [minion for minion, answer in answers.items() if not answer]
    if failed:
        ret.update(comment="the following minions return False", minions=failed)
        return ret
    ret["minions"] = list(answers)
    return ret


def move(name: str, target: str, **kwargs: Any) -> dict[str, Any]:
    """
    Give a job to other minions, and remove it here.

    CLI Example::

        salt '*' schedule.move jobname target
    """
    ret = _give(name, target, kwargs.get("test"), "moved")
    if ret.get("minions") and not ret["comment"]:
        delete(name)
        ret["comment"] = f"Moved Job {name} from schedule."
    return ret


def copy(name: str, target: str, **kwargs: Any) -> dict[str, Any]:
    """
    Give a job to other minions.

    CLI Example::

        salt '*' schedule.copy jobname target
    """
    ret = _give(name, target, kwargs.get("test"), "copied")
    if ret.get("minions") and not ret["comment"]:
        ret["comment"] = f"Copied Job {name} from schedule to minion(s)."
    return ret


def _bad_time(value: Any, fmt: str) -> bool:
    try:
        datetime.datetime.strptime(value, fmt)
    except (TypeError, ValueError):
        log.error("Date string could not be parsed: %s, %s", value, fmt)
        return True
    return False


def _once(
    name: str, times: Mapping[str, Any], fmt: str, func: str, words: tuple[str, str, str]
) -> dict[str, Any]:
    """Ask for something about one coming run of a job."""
    ret: dict[str, Any] = {"comment": [], "result": True}
    if __opts__.get("test"):
        ret["comment"] = f"Job: {name} would be {words[0]} in schedule."
        return ret
    where = _where(name)
    if where is None:
        ret.update(comment=f"Job {name} does not exist.", result=False)
        return ret
    place = {"where": "pillar"} if where == "pillar" else {}
    answer = _ask(func, name=name, time_fmt=fmt, **times, **place)
    if answer is None:
        return ret
    if answer["schedule"].get(name, {}).get("enabled", name in answer["schedule"]):
        ret["comment"] = f"{words[1]} Job {name} in schedule."
    else:
        ret.update(comment=f"Failed to {words[2]} job {name} in schedule.", result=False)
    return ret


def postpone_job(name: str, current_time: Any, new_time: Any, **kwargs: Any) -> dict[str, Any]:
    """
    Have the run of a job at one time happen at another; times as C{2026-01-31T04:05:06}.

    CLI Example::

        salt '*' schedule.postpone_job job current_time new_time
        salt '*' schedule.postpone_job job current_time new_time time_fmt='%Y-%m-%dT%H:%M:%S'
    """
    fmt = kwargs.get("time_fmt") or _TIME
    for value, problem in (
        (name, "Job name is required."),
        (current_time, "Job current time is required."),
        (new_time, "Job new_time is required."),
    ):
        if not value:
            return {"comment": problem, "result": False}
        if value is not name and _bad_time(value, fmt):
            return {"comment": "Date string could not be parsed.", "result": False}
    times = {"time": current_time, "new_time": new_time}
    return _once(name, times, fmt, "postpone_job", ("postponed", "Postponed", "postpone"))


def skip_job(name: str, current_time: Any, **kwargs: Any) -> dict[str, Any]:
    """
    Leave out the run of a job at one time.

    CLI Example::

        salt '*' schedule.skip_job job time
    """
    fmt = kwargs.get("time_fmt") or _TIME
    if not name:
        return {"comment": "Job name is required.", "result": False}
    if not current_time:
        return {"comment": "Job time is required.", "result": False}
    if _bad_time(current_time, fmt):
        return {"comment": "Date string could not be parsed.", "result": False}
    return _once(name, {"time": current_time}, fmt, "skip_job", ("skipped", "Added Skip", "skip"))


def show_next_fire_time(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    When a job runs next.

    CLI Example::

        salt '*' schedule.show_next_fire_time job_name
    """
    if not name:
        return {"comment": "Job name is required.", "result": False}
    answer = _ask("show_next_fire_time", name=name)
    if answer is None or "next_fire_time" not in answer:
        return {"result": True, "comment": "next fire time not available."}
    return {"result": True, "next_fire_time": answer["next_fire_time"]}


def job_status(name: str, time_fmt: str = _TIME) -> dict[str, Any]:
    """
    All that the scheduler knows of a job.

    CLI Example::

        salt '*' schedule.job_status job_name
    """
    answer = _ask("job_status", name=name)
    data = (answer or {}).get("data") or {}
    return {
        key: value.strftime(time_fmt) if isinstance(value, datetime.datetime) else value
        for key, value in data.items()
    }
