"""
The C{schedule} runner: the master's schedule, by the names that minions have for theirs.

Changes apply on all masters of a cluster, at once and after restarts. C{saltwisted schedule} does
the same.
"""

from __future__ import annotations

from typing import Any

from saltwisted.master.runner_table import Run, Runner


async def list_(
    run: Run, show_all: bool = False, show_disabled: bool = True, return_yaml: bool = False
) -> Any:
    """
    List the jobs, with when each runs next and how it last ended.

    CLI Example::

        salt-run schedule.list
        salt-run schedule.list show_disabled=False

    @param show_all: as for a minion; a master has no hidden jobs.
    @param show_disabled: without it, those that are disabled are left out.
    @param return_yaml: as for a minion, whose answer is a text; a master's is data, which the
        command line writes as it is told to.
    """
    jobs = (await run.ctx.schedule.call("list", run.user))["schedule"]
    if not show_disabled:
        jobs = {
            name: job
            for name, job in jobs.items()
            if not isinstance(job, dict) or job.get("enabled", True)
        }
    return jobs


def entry_of(options: dict[str, Any]) -> dict[str, Any]:
    """An entry of options as the command line gives them: C{job_args} is C{args} there."""
    names = {"job_args": "args", "job_kwargs": "kwargs"}
    return {names.get(name, name): value for name, value in options.items()}


async def add(run: Run, name: str, **kwargs: Any) -> Any:
    """
    Add a job. The options are those of an entry; C{job_args} and C{job_kwargs} are its C{args} and
    C{kwargs}.

    CLI Example::

        salt-run schedule.add job1 function=jobs.list_jobs seconds=3600
        salt-run schedule.add job2 function=test.arg job_args='[1, 2]' cron='0 3 * * *'
    """
    schedule = (await run.ctx.schedule.call("list", run.user))["schedule"]
    if name in schedule:
        return {"comment": f"Job {name} already exists in schedule.", "result": False}
    entry = {name: entry_of(kwargs)}
    await run.ctx.schedule.call("add", run.user, name=name, schedule=entry)
    return {
        "comment": f"Added job: {name} to schedule.",
        "result": True,
        "changes": {name: "added"},
    }


async def modify(run: Run, name: str, **kwargs: Any) -> Any:
    """
    Give a job other options; those that are not named stay. An option that is C{None} goes.

    CLI Example::

        salt-run schedule.modify job1 function=jobs.list_jobs seconds=7200
    """
    schedule = (await run.ctx.schedule.call("list", run.user))["schedule"]
    before = schedule.get(name)
    if not isinstance(before, dict):
        return {"comment": f"Job {name} does not exist in schedule.", "result": False}
    kept = {key: value for key, value in before.items() if not key.startswith("_")}
    entry = {key: value for key, value in {**kept, **entry_of(kwargs)}.items() if value is not None}
    await run.ctx.schedule.call("modify", run.user, name=name, schedule=entry)
    return {"comment": f"Modified job: {name} in schedule.", "result": True}


async def delete(run: Run, name: str) -> Any:
    """
    Delete a job. One of the configuration stays deleted until it is reset.

    CLI Example::

        salt-run schedule.delete job1
    """
    await run.ctx.schedule.call("delete", run.user, name=name)
    return {"comment": f"Deleted job: {name} from schedule.", "result": True}


async def purge(run: Run) -> Any:
    """
    Delete all jobs.

    CLI Example::

        salt-run schedule.purge
    """
    done = await run.ctx.schedule.call("purge", run.user)
    return {"comment": [f"Deleted job: {name} from schedule." for name in done["changed"]],
            "result": True}  # fmt: skip


async def enable(run: Run) -> Any:
    """
    Enable the whole schedule.

    CLI Example::

        salt-run schedule.enable
    """
    await run.ctx.schedule.call("enable", run.user)
    return {"comment": "Enabled schedule on master.", "result": True}


async def disable(run: Run) -> Any:
    """
    Disable the whole schedule. What comes due meanwhile is skipped.

    CLI Example::

        salt-run schedule.disable
    """
    await run.ctx.schedule.call("disable", run.user)
    return {"comment": "Disabled schedule on master.", "result": True}


async def enable_job(run: Run, name: str) -> Any:
    """
    Enable a job.

    CLI Example::

        salt-run schedule.enable_job job1
    """
    await run.ctx.schedule.call("enable_job", run.user, name=name)
    return {"comment": f"Enabled Job {name} in schedule.", "result": True}


async def disable_job(run: Run, name: str) -> Any:
    """
    Disable a job. What comes due meanwhile is skipped.

    CLI Example::

        salt-run schedule.disable_job job1
    """
    await run.ctx.schedule.call("disable_job", run.user, name=name)
    return {"comment": f"Disabled Job {name} in schedule.", "result": True}


async def run_job(run: Run, name: str) -> Any:
    """
    Run a job now, on this master; its result comes on the bus.

    CLI Example::

        salt-run schedule.run_job job1
    """
    done = await run.ctx.schedule.call("run_job", run.user, name=name)
    if not done["started"]:
        return {"comment": f"Job {name} was not started: maxrunning is reached.", "result": False}
    return {"comment": f"Scheduling Job {name} on master.", "result": True, "jid": done["jid"]}


async def pause(run: Run, name: str = "") -> Any:
    """
    Hold one job, or all without a name. An interval that comes due meanwhile runs when it goes on.

    CLI Example::

        salt-run schedule.pause
        salt-run schedule.pause job1
    """
    await run.ctx.schedule.call("pause", run.user, name=name)
    return {"comment": f"Paused {name or 'the schedule'}.", "result": True}


async def resume(run: Run, name: str = "") -> Any:
    """
    Let one job, or all without a name, go on.

    CLI Example::

        salt-run schedule.resume
    """
    await run.ctx.schedule.call("resume", run.user, name=name)
    return {"comment": f"Resumed {name or 'the schedule'}.", "result": True}


async def reset(run: Run, name: str) -> Any:
    """
    Forget what was changed of a job at runtime: the configuration holds again.

    CLI Example::

        salt-run schedule.reset job1
    """
    await run.ctx.schedule.call("reset", run.user, name=name)
    return {"comment": f"Job {name} is as it is configured.", "result": True}


async def postpone_job(
    run: Run, name: str, current_time: str, new_time: str, time_fmt: str | None = None
) -> Any:
    """
    Run a job at another time than the one at which it is due.

    CLI Example::

        salt-run schedule.postpone_job job1 2026-11-23T03:00:00 2026-11-23T05:00:00
    """
    times = {"time": current_time, "new_time": new_time, "time_fmt": time_fmt}
    await run.ctx.schedule.call("postpone_job", run.user, name=name, **times)
    return {"comment": f"Postponed Job {name} in schedule.", "result": True}


async def skip_job(run: Run, name: str, current_time: str, time_fmt: str | None = None) -> Any:
    """
    Skip a job at the time at which it is due.

    CLI Example::

        salt-run schedule.skip_job job1 current_time=2026-11-23T03:00:00
    """
    times = {"time": current_time, "time_fmt": time_fmt}
    await run.ctx.schedule.call("skip_job", run.user, name=name, **times)
    return {"comment": f"Added Skip Job {name} in schedule.", "result": True}


async def show_next_fire_time(run: Run, name: str, fmt: str | None = None) -> Any:
    """
    When a job runs next.

    CLI Example::

        salt-run schedule.show_next_fire_time job1
    """
    done = await run.ctx.schedule.call("show_next_fire_time", run.user, name=name, fmt=fmt)
    return {"result": True, "next_fire_time": done["next_fire_time"]}


async def job_status(run: Run, name: str) -> Any:
    """
    What is known of a job.

    CLI Example::

        salt-run schedule.job_status job1
    """
    return (await run.ctx.schedule.call("list", run.user))["schedule"].get(name, {})


async def is_enabled(run: Run, name: str | None = None) -> Any:
    """
    Whether the schedule is enabled; of one job, the job.

    CLI Example::

        salt-run schedule.is_enabled
        salt-run schedule.is_enabled job1
    """
    return (await run.ctx.schedule.call("is_enabled", run.user, name=name))["enabled"]


FUNCTIONS: dict[str, Runner] = {
    "list": list_,
    "add": add,
    "modify": modify,
    "delete": delete,
    "purge": purge,
    "enable": enable,
    "disable": disable,
    "enable_job": enable_job,
    "disable_job": disable_job,
    "run_job": run_job,
    "pause": pause,
    "resume": resume,
    "reset": reset,
    "postpone_job": postpone_job,
    "skip_job": skip_job,
    "show_next_fire_time": show_next_fire_time,
    "job_status": job_status,
    "is_enabled": is_enabled,
}
