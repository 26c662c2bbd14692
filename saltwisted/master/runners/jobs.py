"""
The C{jobs} runner: jobs that ran, jobs that run, and their returns, as Salt prints them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

from saltwisted.domain.jid import is_jid
from saltwisted.domain.jobids import claimed_by, record_of_running
from saltwisted.domain.joblists import CLAIMED, Listed, describe, listed
from saltwisted.domain.targeting.globs import globbed
from saltwisted.domain.who import LOCAL, who_in
from saltwisted.master.asked import ASKED
from saltwisted.master.runner_table import Run, Runner
from saltwisted.transports.turns import in_turns

SHOWN = ("return", "retcode", "success", "out")
"""What of a return Salt's job cache keeps, in its order; ours keeps all."""

CLAIMS = "claims"
"""The progress event that names them."""

PART = 500
"""Jobs that are read at once for a page of those that match."""

GENERATION = "generation"
"""The progress event that names the tree which a job was served."""


async def list_job(
    run: Run, jid: Any, ext_source: str | None = None, display_progress: bool = False
) -> dict[str, Any]:
    """
    One job with all its returns. It is a failure if nothing is known of it.

    CLI Example::

        salt-run jobs.list_job 20261121124653230951
    """
    jid = str(jid)
    if display_progress:
        await run.progress({"message": "Querying returner: local_cache"}, "progress")
    job = await run.ctx.jobs.job(jid)
    returns = await run.ctx.jobs.returns(jid)
    described = describe(jid, job)
    if not job and not returns:
        run.judge(False)
    described.pop(CLAIMED, None)
    if job and (asked := job.get(ASKED)):
        # By which way, from where, and which node was asked
        described.update(Asked=asked["by"], Node=asked["node"])
    if job and (backend := who_in(job).backend) not in ("", LOCAL):
        # Which of the users of this name, if it is not the account of the machine
        described["Eauth"] = backend
    if claimed := claimed_by(job, returns):
        described[CLAIMED] = claimed
    if mixed := run.ctx.seams.pins.notes(jid).get("mixed"):
        # Minions that were served from other trees as well, and which
        described["Mixed"] = mixed
    if alone := list(await run.ctx.seams.acknowledging.one_copy(jid)):
        # Acknowledged with one copy: lost, if this node's disk is before others are back
        described["OneCopy"] = alone
    return {
        "jid": jid,
        **described,
        "Result": {
            minion: {key: value[key] for key in SHOWN if key in value}
            for minion, value in returns.items()
        },
    }


async def lookup_jid(
    run: Run,
    jid: Any,
    ext_source: str | None = None,
    returned: bool = True,
    missing: bool = False,
    display_progress: bool = False,
) -> Any:
    """
    What the minions returned, with the outputter that they asked for.

    CLI Example::

        salt-run jobs.lookup_jid 20261121124653230951
        salt-run jobs.lookup_jid 20261121124653230951 --out=highstate
    """
    data = await list_job(run, jid, ext_source, display_progress)
    if data.get("Generation"):
        # Beside the value, which has Salt's form: minion to return
        tree = {"generation": data["Generation"], "mixed": data.get("Mixed", {})}
        await run.progress(tree, GENERATION)
    if data.get(CLAIMED):
        await run.progress({"minions": data[CLAIMED]}, CLAIMS)
    results: dict[str, Any] = data["Result"]
    shown: dict[str, Any] = {}
    if returned:
        for minion, result in results.items():
            if display_progress:
                await run.progress({"message": minion}, "progress")
            shown[minion] = result.get("return")
    if missing:
        for minion in data.get("Minions", []):
            if minion not in results:
                reached = minion not in run.ctx.seams.hearer.unreached(str(jid))
                shown[minion] = "Minion did not return" if reached else "Minion was not reached"
    first = next(iter(results.values()), None)
    outputter = first.get("out") if first else None
    if outputter:
        run.show_by(str(outputter))
        return {"outputter": outputter, "data": shown}
    return shown


def _words(value: Any) -> list[str]:
    if isinstance(value, str):
        return [word.strip() for word in value.split(",")]
    return [str(word) for word in value]


def _moment(text: Any) -> datetime:
    """
    A time as people type it for C{start_time}: ISO 8601, or the form that jobs print.

    @raises ValueError: naming the forms that are understood.
    """
    words = str(text).strip()
    for form in (
        "%Y, %b %d %H:%M:%S.%f",
        "%Y, %b %d %H:%M:%S",
        "%Y, %b %d %H:%M",
        "%Y, %b %d",
        "%Y-%m-%d %H:%M:%S.%f",
        "%Y-%m-%d %H:%M:%S",
        "%Y-%m-%d %H:%M",
        "%Y-%m-%dT%H:%M:%S",
        "%Y-%m-%d",
        "%Y%m%d%H%M%S%f",
    ):
        try:
            return datetime.strptime(words, form)  # noqa: DTZ007 (all jids are UTC)
        except ValueError:
            continue
    raise ValueError(f"{words!r} is not a time: write 2026-07-01 12:00 or '2026, Jul 01 12:00'")


async def list_jobs(
    run: Run,
    ext_source: str | None = None,
    outputter: str | None = None,
    search_metadata: Any = None,
    search_function: Any = None,
    search_target: Any = None,
    start_time: Any = None,
    end_time: Any = None,
    display_progress: bool = False,
    limit: Any = None,
    after: Any = None,
) -> Any:
    """
    All jobs in the cache that match every given filter.

    With C{limit} only so many, those with the largest jids (Salt has no such argument); with
    C{after} only those whose jids are smaller than this one, which is how the next page begins.

    CLI Example::

        salt-run jobs.list_jobs
        salt-run jobs.list_jobs limit=100
        salt-run jobs.list_jobs limit=100 after=20261121124653230951
        salt-run jobs.list_jobs search_function='test.*,pkg.install' search_target='web*'
        salt-run jobs.list_jobs start_time='2026, Nov 21 19:00' end_time='2026, Nov 22'
    """
    if display_progress:
        await run.progress({"message": "Querying returner local_cache for jobs."}, "progress")
    wanted = (search_metadata, search_function, search_target, start_time, end_time)
    if limit is None and not after:
        found = await _found(run, *wanted)
    else:
        found = await _page(run, _positive(limit), str(after or ""), *wanted)
    shown: dict[str, Any] = {}
    async for part in in_turns(run.ctx.clock, _parts(found)):
        shown.update((each.jid, each.shown) for each in part)
    if outputter:
        run.show_by(outputter)
        return {"outputter": outputter, "data": shown}
    return shown


async def _found(
    run: Run,
    metadata: Any,
    function: Any,
    target: Any,
    start_time: Any = None,
    end_time: Any = None,
) -> Sequence[Listed]:
    """The jobs that match, newest last."""
    jobs = await run.ctx.jobs.list_jobs(shown=listed)
    return await _chosen(run, jobs, metadata, function, target, start_time, end_time)


def _positive(limit: Any) -> int | None:
    """
    How many are wanted; C{None} is any number.

    @raises ValueError: it is no such number.
    """
    if limit is None:
        return None
    try:
        number = int(limit)
    except (TypeError, ValueError, OverflowError):
        number = 0
    if number < 1:
        raise ValueError(f"limit must be a number from 1, not {str(limit)[:50]!r}")
    return number


async def _page(run: Run, limit: int | None, after: str, *wanted: Any) -> Sequence[Listed]:
    """
    So many of the jobs that match, as L{_found}, by the order of their jids.

    They are read in parts: a page costs the same, however many jobs there are.
    """
    found: list[Listed] = []
    while limit is None or len(found) < limit:
        # Where some may not match, some more are read at once
        part = PART if limit is None or any(wanted) else limit - len(found)
        jobs = await run.ctx.jobs.list_jobs(below=after, limit=part, shown=listed)
        found = [*await _chosen(run, jobs, *wanted), *found]
        if len(jobs) < part:
            break
        after = jobs[0].jid
    return found if limit is None else found[-limit:]


async def _chosen(
    run: Run,
    jobs: Sequence[Listed],
    metadata: Any,
    function: Any,
    target: Any,
    start_time: Any,
    end_time: Any,
) -> Sequence[Listed]:
    """Those of some jobs that match."""
    after = _moment(start_time) if start_time else None
    before = _moment(end_time) if end_time else None
    if not (metadata or function or target or after or before):
        return jobs
    found = []
    async for job in in_turns(run.ctx.clock, jobs):
        if _wanted(job, metadata, function, target, after, before):
            found.append(job)
    return found


def _parts(jobs: Sequence[Listed]) -> Iterator[Sequence[Listed]]:
    """Jobs of a list, as many at a time as one turn of the reactor has room for."""
    return (jobs[start : start + PART] for start in range(0, len(jobs), PART))


def _wanted(
    job: Listed,
    metadata: Any,
    function: Any,
    target: Any,
    after: datetime | None,
    before: datetime | None,
) -> bool:
    entry = job.shown
    if isinstance(metadata, Mapping) and metadata:
        own = entry.get("Metadata")
        if not isinstance(own, Mapping) or not any(
            k in own and own[k] == v for k, v in metadata.items()
        ):
            return False
    if target:
        targets = entry["Target"]
        targets = [targets] if isinstance(targets, str) else targets
        if not any(globbed(str(t), w) for t in targets for w in _words(target)):
            return False
    if function:
        fun = entry["Function"]
        names = [fun] if isinstance(fun, str) else fun
        if not any(globbed(str(n), w) for n in names for w in _words(function)):
            return False
    if after is None and before is None:
        return True
    started = datetime.fromtimestamp(job.begun, UTC).replace(tzinfo=None)
    return (after is None or started >= after) and (before is None or started <= before)


async def list_jobs_filter(
    run: Run,
    count: int,
    filter_find_job: bool = True,
    ext_source: str | None = None,
    outputter: str | None = None,
    display_progress: bool = False,
) -> Any:
    """
    The last C{count} jobs, without the CLI's own C{find_job} questions unless asked for.

    CLI Example::

        salt-run jobs.list_jobs_filter 50
        salt-run jobs.list_jobs_filter 100 filter_find_job=False
    """
    shown: list[dict[str, Any]] = []
    jobs = await run.ctx.jobs.list_jobs(shown=listed)
    async for job in in_turns(run.ctx.clock, reversed(jobs)):
        if len(shown) >= int(count):
            break
        if filter_find_job and job.shown["Function"] == "saltutil.find_job":
            continue
        shown.append({**job.shown, "JID": job.jid})
    shown.reverse()
    if outputter:
        run.show_by(outputter)
        return {"outputter": outputter, "data": shown}
    return shown


async def print_job(run: Run, jid: Any, ext_source: str | None = None) -> dict[str, Any]:
    """
    One job with its returns, keyed by its jid.

    CLI Example::

        salt-run jobs.print_job 20261121124653230951
    """
    job = await list_job(run, jid, ext_source)
    del job["jid"]
    return {str(jid): job}


async def exit_success(run: Run, jid: Any, ext_source: str | None = None) -> dict[str, bool]:
    """
    Per expected minion, whether it returned something true, and no return code says that it failed.

    CLI Example::

        salt-run jobs.exit_success 20261121124653230951
    """
    data = await list_job(run, jid, ext_source)
    results: Mapping[str, Any] = data["Result"]
    expected: Sequence[str] = data.get("Minions", [])
    shown = dict.fromkeys(expected, False)
    shown.update({minion: True for minion, result in results.items() if _went_well(result)})
    return shown


def _went_well(result: Mapping[str, Any]) -> bool:
    """Of several functions each has a code."""
    code = result.get("retcode")
    codes = list(code.values()) if isinstance(code, Mapping) else code
    failed = any(codes) if isinstance(codes, list) else bool(codes)
    return bool(result.get("return")) and not failed


async def last_run(
    run: Run,
    ext_source: str | None = None,
    outputter: str | None = None,
    metadata: Any = None,
    function: Any = None,
    target: Any = None,
    display_progress: bool = False,
) -> Any:
    """
    The newest job that matches, printed.

    CLI Example::

        salt-run jobs.last_run
        salt-run jobs.last_run target=web1 function=cmd.run
    """
    if metadata and not isinstance(metadata, Mapping):
        return False
    if display_progress:
        await run.progress({"message": "Querying returner local_cache for jobs."}, "progress")
    found = await _found(run, metadata, function, target)
    if not found:
        return False
    last = max(found, key=lambda job: (job.begun, job.jid))
    return await print_job(run, last.jid)


async def active(run: Run, display_progress: bool = False) -> dict[str, Any]:
    """
    Ask all minions what they are running, by job.

    CLI Example::

        salt-run jobs.active
    """
    shown: dict[str, Any] = {}
    question = {"tgt": "*", "fun": "saltutil.running", "arg": []}
    async with aclosing(run.publish(question)) as items:
        async for item in items:
            if item["kind"] != "return":
                continue
            minion, jobs = item["id"], item["data"].get("return")
            if display_progress:
                await run.progress({"message": f"Received reply from minion {minion}"}, "progress")
            for job in jobs if isinstance(jobs, list) else []:
                if not isinstance(job, Mapping) or not is_jid(job.get("jid")):
                    continue
                jid, job = job["jid"], record_of_running(job)
                entry = shown.get(jid)
                if entry is None:
                    entry = shown[jid] = {**describe(jid, job), "Running": [], "Returned": []}
                entry["Running"].append({minion: job.get("pid")})
    for jid, entry in shown.items():
        entry["Returned"] = list(await run.ctx.jobs.returns(jid))
    return shown


async def master(run: Run) -> list[Any]:
    """
    Jobs that run on the master itself: runners that have not ended, by jid.

    CLI Example::

        salt-run jobs.master
    """
    return [dict(job) for job in run.ctx.calls.active.values()]


FUNCTIONS: dict[str, Runner] = {
    "active": active,
    "exit_success": exit_success,
    "last_run": last_run,
    "list_job": list_job,
    "list_jobs": list_jobs,
    "list_jobs_filter": list_jobs_filter,
    "lookup_jid": lookup_jid,
    "master": master,
    "print_job": print_job,
}
