"""
The scheduler of a minion: looks at its entries when one is due, and starts jobs.

When an entry runs is decided in C{domain/schedule.py}. How a job runs, where
its return goes and how the schedule is saved are callables given by the role.
The entries are those of the configuration (with what was added at run time)
and of the pillar; the configuration wins. Reactor thread, never blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from attrs import frozen
from twisted.application.service import Service
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from saltwisted.domain.schedule import (
    GLOBALS,
    TIME_FORMAT,
    Dice,
    DueJob,
    Progress,
    ScheduleEntry,
    ScheduleError,
    parse_entry,
    shown,
    stamped,
    step,
    wake,
    without_hidden,
)
from saltwisted.domain.when import WhenError

LONGEST_SLEEP = 30.0
"""Seconds between two looks at the clock, so that a clock that was set is noticed."""

EVENT = "/salt/minion/minion_schedule_"


@frozen(kw_only=True)
class ScheduledJob:
    """
    A job to start now.

    @ivar publication: the job as if a master had published it: C{fun arg jid ret}, and
        C{schedule} (the entry's name), C{metadata}, C{ret_config}, C{ret_kwargs} where set.
    @ivar listed: whether it shows in C{saltutil.running} (C{jid_include}).
    @ivar return_jid: the C{jid} of the return to the master: C{"req"} (the master makes one),
        C{"nocache"}, the job's own when there are returners, C{""} for no return at all.
    """

    publication: Mapping[str, Any]
    listed: bool
    return_jid: str


def publication(run: DueJob, jid: str, now: datetime, utc: datetime, offset: str) -> ScheduledJob:
    """A due job in the shape of a published one."""
    entry = run.entry
    arg = list(entry.args)
    if entry.kwargs:
        arg.append({"__kwarg__": True, **entry.kwargs})
    load: dict[str, Any] = {
        "fun": run.function,
        "arg": arg,
        "jid": jid,
        "ret": ",".join(entry.returners),
        "schedule": entry.name,
    }
    if entry.metadata is not None:
        load["metadata"] = stamped(entry.metadata, now, utc, offset)
    if entry.return_config is not None:
        load["ret_config"] = entry.return_config
    if entry.return_kwargs is not None:
        load["ret_kwargs"] = entry.return_kwargs
    if not entry.return_job:
        return_jid = ""
    elif entry.returners:
        return_jid = jid
    else:
        return_jid = "nocache" if entry.return_job == "nocache" else "req"
    return ScheduledJob(publication=load, listed=entry.jid_include, return_jid=return_jid)


class Scheduler(Service):
    """
    Runs a schedule.

    @param run_job: starts a job and returns at once; what it raises is logged.
    @param make_jid: a new job id.
    @param dice: a random whole number between two, for C{splay}.
    @param running: how many jobs of an entry, by its name, are running.
    @param save: takes the schedule to keep on disk (C{_schedule.conf}); returns at once.
    @param fire_event: C{fire_event(tag, data)} on the minion's bus.
    @param returner: C{schedule_returner} of the configuration.
    @param offset: the offset of the local time zone (C{+0100}), for metadata.
    """

    log = Logger()
    name = "scheduler"

    def __init__(
        self,
        clock: IReactorTime,
        time_of_day: Callable[[], float],
        run_job: Callable[[ScheduledJob], object],
        make_jid: Callable[[], str],
        dice: Dice,
        schedule: Mapping[str, Any],
        running: Callable[[str], int] = lambda name: 0,
        save: Callable[[Mapping[str, Any]], object] = lambda schedule: None,
        fire_event: Callable[[str, Mapping[str, Any]], object] = lambda tag, data: None,
        returner: Any = None,
        offset: str = "+0000",
    ) -> None:
        self._clock = clock
        self._time_of_day = time_of_day
        self._run_job = run_job
        self._make_jid = make_jid
        self._dice = dice
        self._running = running
        self._save = save
        self._fire_event = fire_event
        self._returner = returner
        self._offset = offset
        self._own: dict[str, Any] = without_hidden(schedule)
        self._pillar: dict[str, Any] = {}
        self._whens: dict[str, Any] = {}
        self._entries: dict[str, ScheduleEntry] = {}
        self._progress: dict[str, Progress] = {}
        self._errors: dict[str, str] = {}
        self._read: dict[str, Any] = {}
        self._timer: IDelayedCall | None = None

    # life

    def startService(self) -> None:
        """Read the entries and look at them for the first time."""
        super().startService()
        self._reread()
        self._look()

    def stopService(self) -> None:
        """Start nothing any more; jobs that run go on."""
        super().stopService()
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None

    def set_facts(self, pillar: Mapping[str, Any], grains: Mapping[str, Any]) -> None:
        """
        Take over the schedule and the named times of a new pillar, and those of the grains.

        An entry that did not change keeps its next time.
        """
        schedule = pillar.get("schedule", {})
        if not isinstance(schedule, Mapping):
            self.log.error("the pillar's schedule is not a mapping, and is ignored")
            schedule = {}
        whens: dict[str, Any] = {}
        for where, facts in (("grain", grains), ("pillar item", pillar)):
            named = facts.get("whens") or {}
            if isinstance(named, Mapping):
                whens.update(named)
            else:
                self.log.error('{where} "whens" must be a dict', where=where)
        self._pillar = without_hidden(schedule)
        self._whens = whens
        self._changed()

    # looking

    def _now(self) -> datetime:
        """Local time without zone, as schedules are written."""
        return datetime.fromtimestamp(self._time_of_day())  # noqa: DTZ006

    def _merged(self) -> dict[str, Any]:
        return {**self._pillar, **self._own}

    def _changed(self) -> None:
        if self.running:
            self._reread()
            self._look()

    def _reread(self) -> None:
        """Parse what is new or changed; forget what is gone."""
        merged = self._merged()
        settings = {name: merged[name] for name in GLOBALS if name in merged}
        now = self._now()
        entries: dict[str, ScheduleEntry] = {}
        read: dict[str, Any] = {}
        errors: dict[str, str] = {}
        for name, data in merged.items():
            if name in GLOBALS:
                continue
            source = (data, settings, self._whens)
            read[name] = source
            if self._read.get(name) == source:
                if name in self._entries:
                    entries[name] = self._entries[name]
                else:
                    errors[name] = self._errors[name]
                continue
            before = self._read.get(name)
            if before is None or _timing(before) != _timing(source):
                self._progress.pop(name, None)
            try:
                entries[name] = parse_entry(name, data, settings, now, self._whens, self._returner)
            except ScheduleError as error:
                errors[name] = str(error)
                self.log.error("{error}", error=str(error))
        self._entries, self._read, self._errors = entries, read, errors
        for name in list(self._progress):
            if name not in entries:
                del self._progress[name]

    def _look(self) -> None:
        """Start what is due, and sleep until something is."""
        now = self._now()
        next_look = LONGEST_SLEEP
        for name, entry in list(self._entries.items()):
            if self._entries.get(name) is not entry:
                continue  # a job that was just started has changed the schedule
            progress = self._progress.get(name, Progress())
            try:
                progress, run = step(entry, progress, now, self._dice, self._running(entry.name))
                due = wake(entry, progress, now)
            except WhenError as error:  # a day that this month has not
                self.log.error("job {name}: {error}", name=name, error=str(error))
                self._errors[name] = str(error)
                del self._entries[name]
                continue
            self._progress[name] = progress
            if due is not None:
                next_look = min(next_look, max((due - now).total_seconds(), 0.05))
            if run is not None:
                self._start(run, now)
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = self._clock.callLater(next_look, self._look) if self.running else None

    def _start(self, run: DueJob, now: datetime) -> None:
        utc = datetime.fromtimestamp(self._time_of_day(), UTC)
        job = publication(run, self._make_jid(), now, utc, self._offset)
        self.log.info(
            "starting scheduled job {name} ({function}) as {jid}",
            name=run.entry.name,
            function=run.function,
            jid=job.publication["jid"],
        )
        try:
            self._run_job(job)
        except Exception:  # the scheduler outlives any job
            self.log.failure("scheduled job {name} could not start", name=run.entry.name)

    # what the control socket and the modules ask for

    def call(self, func: str, **data: Any) -> dict[str, Any]:
        """
        One request about the schedule.

        @param func: C{list add modify delete enable disable enable_job disable_job run_job
            reload save postpone_job skip_job is_enabled purge show_next_fire_time job_status},
            or Salt's own spellings (C{save_schedule}, C{get_next_fire_time}).
        @param data: C{name}, C{schedule}, C{where}, C{persist} and so on, as in Salt's
            C{manage_schedule} event.
        @return: what Salt's completion event carries: C{complete}, mostly with C{schedule}.
        @raises ScheduleError: for an unknown C{func}, or a value that cannot be used.
        """
        operation = OPERATIONS.get(func)
        if operation is None:
            raise ScheduleError(f"Function {func!r} is unavailable in the scheduler")
        event, method = operation
        answer: dict[str, Any] = {"complete": True, **method(self, data)}
        if event:
            self._fire_event(EVENT + event, answer)
        return answer

    def listed(self, where: str | None = None) -> dict[str, Any]:
        """
        The schedule with Salt's hidden keys.

        @param where: C{"opts"} or C{"pillar"} for one half.
        """
        chosen = {"opts": self._own, "pillar": self._pillar}.get(where or "", self._merged())
        whole: dict[str, Any] = {}
        for name, data in chosen.items():
            if name in GLOBALS or not isinstance(data, Mapping):
                whole[name] = data
                continue
            whole[name] = {**data, "name": data.get("name", name)}
            entry = self._entries.get(name)
            if entry is not None:
                whole[name].update(shown(self._progress.get(name, Progress()), entry))
            elif name in self._errors:
                whole[name]["_error"] = self._errors[name]
        return whole

    def _edited(self, data: Mapping[str, Any]) -> dict[str, Any]:
        self._changed()
        if data.get("persist"):
            self.save()
        return {"schedule": self.listed()}

    def save(self) -> None:
        """Have the schedule kept on disk, without what comes from the pillar."""
        self._save(without_hidden(self._own))

    def _mine(self, name: str) -> bool:
        """Whether a job can be changed; those in the pillar cannot."""
        if name in self._own and name not in GLOBALS:
            return True
        if name in self._pillar:
            self.log.warn("cannot change job {name}, it is in the pillar", name=name)
        return False

    def _forget(self, name: str) -> None:
        """A job that is given again starts again, even if nothing in it changed."""
        self._progress.pop(name, None)

    def _list(self, data: Mapping[str, Any]) -> dict[str, Any]:
        return {"schedule": self.listed(data.get("where"))}

    def _add(self, data: Mapping[str, Any]) -> dict[str, Any]:
        jobs = data.get("schedule")
        if not isinstance(jobs, Mapping):
            raise ScheduleError("Scheduled jobs have to be of type dict.")
        if len(jobs) != 1:
            raise ScheduleError("You can only schedule one new job at a time.")
        for name, job in jobs.items():
            if not isinstance(job, Mapping):
                raise ScheduleError(f'Scheduled job "{name}" should have a dict value')
            if name in self._pillar:
                self.log.warn("cannot change job {name}, it is in the pillar", name=name)
            else:
                self._own.update(without_hidden({name: {"enabled": True, **job}}))
                self._forget(name)
        return self._edited(data)

    def _modify(self, data: Mapping[str, Any]) -> dict[str, Any]:
        name, job = _name(data), data.get("schedule")
        if not isinstance(job, Mapping):
            raise ScheduleError("Scheduled jobs have to be of type dict.")
        if name in self._own or name not in self._pillar:
            self._own[name] = without_hidden({name: job})[name]
            self._forget(name)
        else:
            self.log.warn("cannot change job {name}, it is in the pillar", name=name)
        return self._edited(data)

    def _delete(self, data: Mapping[str, Any]) -> dict[str, Any]:
        name = _name(data)
        if self._mine(name):
            del self._own[name]
        return self._edited(data)

    def _purge(self, data: Mapping[str, Any]) -> dict[str, Any]:
        for name in list(self._own):
            if name not in GLOBALS and not name.startswith("__"):
                del self._own[name]
        return self._edited(data)

    def _enable(self, data: Mapping[str, Any]) -> dict[str, Any]:
        self._own["enabled"] = True
        return self._edited(data)

    def _disable(self, data: Mapping[str, Any]) -> dict[str, Any]:
        self._own["enabled"] = False
        return self._edited(data)

    def _set_enabled(self, data: Mapping[str, Any], enabled: bool) -> dict[str, Any]:
        name = _name(data)
        if self._mine(name):
            self._own[name] = {**self._own[name], "enabled": enabled}
        return self._edited(data)

    def _enable_job(self, data: Mapping[str, Any]) -> dict[str, Any]:
        return self._set_enabled(data, True)

    def _disable_job(self, data: Mapping[str, Any]) -> dict[str, Any]:
        return self._set_enabled(data, False)

    def _run_now(self, data: Mapping[str, Any]) -> dict[str, Any]:
        name = _name(data)
        entry = self._entries.get(name)
        if entry is None:
            why = self._errors.get(name, f"Job {name} does not exist.")
            raise ScheduleError(why)
        busy = self._running(entry.name) if entry.jid_include else 0
        started = busy < entry.maxrunning and not entry.dry_run
        if started:
            self._start(DueJob(entry=entry, function=entry.function), self._now())
        return {"started": started, "schedule": self.listed()}

    def _reload(self, data: Mapping[str, Any]) -> dict[str, Any]:
        schedule = data.get("schedule") or {}
        if not isinstance(schedule, Mapping):
            raise ScheduleError("Schedule must be of type dict.")
        inner = schedule.get("schedule", schedule)
        if not isinstance(inner, Mapping):
            raise ScheduleError("Schedule must be of type dict.")
        self._progress.clear()
        self._own.update(without_hidden(inner))
        return self._edited(data)

    def _save_now(self, data: Mapping[str, Any]) -> dict[str, Any]:
        self.save()
        return {}

    def _explicit(self, data: Mapping[str, Any], key: str, time: Any) -> None:
        name, fmt = _name(data), data.get("time_fmt") or TIME_FORMAT
        try:
            datetime.strptime(str(time), fmt)  # noqa: DTZ007
        except ValueError as error:
            raise ScheduleError(f"Date string could not be parsed: {time}, {error}") from None
        if self._mine(name):
            times = [*self._own[name].get(key, ()), {"time": time, "time_fmt": fmt}]
            self._own[name] = {**self._own[name], key: times}

    def _postpone(self, data: Mapping[str, Any]) -> dict[str, Any]:
        self._explicit(data, "skip_explicit", data.get("time"))
        self._explicit(data, "run_explicit", data.get("new_time"))
        return self._edited(data)

    def _skip(self, data: Mapping[str, Any]) -> dict[str, Any]:
        self._explicit(data, "skip_explicit", data.get("time"))
        return self._edited(data)

    def _is_enabled(self, data: Mapping[str, Any]) -> dict[str, Any]:
        if data.get("name"):
            return {"enabled": self.listed().get(_name(data), {})}
        return {"enabled": self._merged().get("enabled", True)}

    def _next_fire_time(self, data: Mapping[str, Any]) -> dict[str, Any]:
        progress = self._progress.get(_name(data), Progress())
        fmt = data.get("fmt") or TIME_FORMAT
        when = progress.next_fire
        return {"next_fire_time": None if when is None else when.strftime(fmt)}

    def _job_status(self, data: Mapping[str, Any]) -> dict[str, Any]:
        return {"data": self.listed().get(_name(data), {})}


def _name(data: Mapping[str, Any]) -> str:
    name = data.get("name")
    if not name:
        raise ScheduleError("A job's name is needed.")
    return str(name)


def _timing(source: tuple[Any, Any, Any]) -> Any:
    """
    What decides when a job runs.

    Salt keeps the time of a job which is disabled, postponed or given other arguments.
    """
    data, settings, whens = source
    if not isinstance(data, Mapping):
        return data
    keys = ("seconds", "minutes", "hours", "days", "when", "cron", "once", "once_fmt", "splay")
    return [data.get(key) for key in keys], settings.get("splay"), whens


Operation = Callable[[Scheduler, Mapping[str, Any]], dict[str, Any]]

OPERATIONS: dict[str, tuple[str, Operation]] = {
    "list": ("list_complete", Scheduler._list),
    "add": ("add_complete", Scheduler._add),
    "modify": ("add_complete", Scheduler._modify),
    "delete": ("delete_complete", Scheduler._delete),
    "purge": ("delete_complete", Scheduler._purge),
    "enable": ("enabled_complete", Scheduler._enable),
    "disable": ("disabled_complete", Scheduler._disable),
    "enable_job": ("enabled_job_complete", Scheduler._enable_job),
    "disable_job": ("disabled_job_complete", Scheduler._disable_job),
    "run_job": ("", Scheduler._run_now),
    "reload": ("", Scheduler._reload),
    "save": ("saved", Scheduler._save_now),
    "save_schedule": ("saved", Scheduler._save_now),
    "postpone_job": ("postpone_job_complete", Scheduler._postpone),
    "skip_job": ("skip_job_complete", Scheduler._skip),
    "is_enabled": ("", Scheduler._is_enabled),
    "show_next_fire_time": ("next_fire_time_complete", Scheduler._next_fire_time),
    "get_next_fire_time": ("next_fire_time_complete", Scheduler._next_fire_time),
    "job_status": ("job_status_complete", Scheduler._job_status),
}
"""Request to: end of the completion event's tag (empty for none), and what answers it."""
