"""
A schedule with its history: its entries, when each is due, and how requests change them.

A minion and a master have one each (C{minion/schedule.py}, C{master/automation/schedule.py}).
C{domain/schedule.py} decides when an entry runs. The book knows no clock and starts nothing: its
driver says what time it is, and is told what is due. Requests about a schedule have Salt's names
and answers; those that change something change L{Book.own}.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from attrs import evolve

from saltwisted.domain.schedule import (
    GLOBALS,
    TIME_FORMAT,
    Dice,
    DueJob,
    Progress,
    ScheduleEntry,
    ScheduleError,
    awaited,
    parse_entry,
    shifted,
    shown,
    step,
    wake,
    without_hidden,
)
from saltwisted.domain.when import WhenError

LONGEST_SLEEP = 30.0
"""Seconds between two looks at the clock, so that a clock that was set is noticed."""
EVEN = 1.5
"""Seconds by which two clocks may differ between two looks before one of them was set."""

Say = Callable[[str, str], object]
"""C{say(level, text)}: a line for the log; the level is C{error}, C{warn} or C{info}."""


class Book:
    """
    A schedule.

    @ivar own: the schedule that may be changed; its names are those of jobs and L{GLOBALS}.
    @ivar pillar: entries from elsewhere, which cannot be changed here; C{own} wins.
    @ivar entries: the jobs that can run, by name.
    @ivar errors: why the others cannot run.
    @ivar sleep: seconds until the next check.
    @param prepare: gets a job before it is read, and returns what is to be read; may raise
        L{ScheduleError}.
    @param latest: by how many seconds a run at a time of day may be late, unless the job says
        C{run_missed}; C{None} for any number.
    """

    def __init__(
        self,
        schedule: Mapping[str, Any],
        dice: Dice,
        say: Say,
        returner: Any = None,
        prepare: Callable[[str, Any], Any] = lambda name, data: data,
        latest: float | None = None,
    ) -> None:
        self.own: dict[str, Any] = without_hidden(schedule)
        self.pillar: dict[str, Any] = {}
        self.entries: dict[str, ScheduleEntry] = {}
        self.errors: dict[str, str] = {}
        self.progress: dict[str, Progress] = {}
        self.sleep = LONGEST_SLEEP
        self.say = say
        self._dice = dice
        self._returner = returner
        self._prepare = prepare
        self._latest = latest
        self._whens: dict[str, Any] = {}
        self._read: dict[str, Any] = {}
        self._said: dict[str, str] = {}
        self._seen: tuple[datetime, float] | None = None

    def set_facts(self, pillar: Mapping[str, Any], grains: Mapping[str, Any]) -> None:
        """Take over the schedule and the named times of a pillar, and those of the grains."""
        schedule = pillar.get("schedule", {})
        if not isinstance(schedule, Mapping):
            self.say("error", "the pillar's schedule is not a mapping, and is ignored")
            schedule = {}
        whens: dict[str, Any] = {}
        for where, facts in (("grain", grains), ("pillar item", pillar)):
            named = facts.get("whens") or {}
            if isinstance(named, Mapping):
                whens.update(named)
            else:
                self.say("error", f'{where} "whens" must be a dict')
        self.pillar = without_hidden(schedule)
        self._whens = whens

    def merged(self) -> dict[str, Any]:
        """The whole schedule."""
        return {**self.pillar, **self.own}

    def take(self, schedule: Mapping[str, Any], now: datetime) -> None:
        """Have another schedule; entries that did not change keep their next time."""
        for _ in self.taking(schedule, now):
            pass

    def rereading(self, now: datetime) -> Iterator[None]:
        """
        The same, in steps, after L{own} or the facts were changed. Who changes them meanwhile has
        to begin again.
        """
        yield from self._reading(self.own, now)

    def taking(self, schedule: Mapping[str, Any], now: datetime) -> Iterator[None]:
        """
        The same in steps, for callers without time for a thousand entries: until the last step
        everything is as before, and a caller that stops in between has changed nothing.
        """
        yield from self._reading(without_hidden(schedule), now)

    def _reading(self, own: dict[str, Any], now: datetime) -> Iterator[None]:
        """Parse what is new or changed; forget what is gone."""
        merged = {**self.pillar, **own}
        settings = {name: merged[name] for name in GLOBALS if name in merged}
        entries: dict[str, ScheduleEntry] = {}
        read: dict[str, Any] = {}
        errors: dict[str, str] = {}
        anew: list[str] = []
        changed: list[str] = []
        for name, data in merged.items():
            if name in GLOBALS:
                continue
            source = (data, settings, self._whens)
            read[name] = source
            before = self._read.get(name)
            if before == source:
                if name in self.entries:
                    entries[name] = self.entries[name]
                else:
                    errors[name] = self.errors[name]
                yield
                continue
            changed.append(name)
            if before is None or timing(*before) != timing(*source):
                anew.append(name)
            try:
                entries[name] = self._parse(name, data, settings, now)
            except ScheduleError as error:
                errors[name] = str(error)
                self.say("error", str(error))
            yield
        self.own, self.entries, self._read, self.errors = own, entries, read, errors
        for name in changed:
            self._said.pop(name, None)
        for name in (*anew, *(self.progress.keys() - entries.keys())):
            self.progress.pop(name, None)

    def _parse(
        self, name: str, data: Any, settings: Mapping[str, Any], now: datetime
    ) -> ScheduleEntry:
        ready = self._prepare(name, data)
        entry = parse_entry(name, ready, settings, now, self._whens, self._returner)
        made_up = isinstance(data, Mapping) and data.get("run_missed")
        return entry if made_up else evolve(entry, latest=self._latest)

    def retrying(self, now: datetime) -> Iterator[None]:
        """Look again, in steps, at what means nothing: its function may be there by now."""
        for name, (data, settings, _) in [(name, self._read[name]) for name in self.errors]:
            try:
                self.entries[name] = self._parse(name, data, settings, now)
                self.say("info", f"no longer: {self.errors.pop(name)}")
            except ScheduleError as error:
                self.errors[name] = str(error)
            yield

    def look(
        self,
        now: datetime,
        runtime: float,
        running: Callable[[str], int],
        ours: Callable[[str], bool] = lambda name: True,
    ) -> Iterator[DueJob | None]:
        """
        What is due now, to be started as it is returned. Then L{sleep} says when to check again.

        It works in steps: C{None} stands for an entry that does not run now.

        @param runtime: seconds of a clock that nobody sets, to detect that the time of day was set.
        @param running: how many jobs of an entry, by its name, are running.
        @param ours: whether a job is checked here; the others belong to another node.
        """
        self._follow(now, runtime)
        self.sleep = LONGEST_SLEEP
        for name, entry in list(self.entries.items()):
            if self.entries.get(name) is not entry:
                continue  # a job that was just started has changed the schedule
            if not ours(name):
                if name not in self.progress:
                    self.progress[name] = awaited(entry, now, self._dice)
                yield None
                continue
            progress = self.progress.get(name, Progress())
            try:
                progress, run = step(entry, progress, now, self._dice, running(entry.name))
                due = wake(entry, progress, now)
            except (WhenError, OverflowError) as error:  # a day that this month has not
                if self._said.get(name) != str(error):
                    self.say("error", f"job {name}: {error}")
                self._said[name] = self.errors[name] = str(error)
                del self.entries[name]
                yield None
                continue
            self.progress[name] = progress
            if due is not None:
                self.sleep = min(self.sleep, max((due - now).total_seconds(), 0.05))
            yield run

    def _follow(self, now: datetime, runtime: float) -> None:
        """Notice that the time of day was set, or summer time began or ended."""
        before, self._seen = self._seen, (now, runtime)
        if before is None:
            return
        jump = (now - before[0]).total_seconds() - (runtime - before[1])
        if abs(jump) < EVEN:
            return
        for name, progress in self.progress.items():
            entry = self.entries.get(name)
            if entry is not None:
                self.progress[name] = shifted(entry, progress, timedelta(seconds=jump), now)

    def listed(self, where: str | None = None) -> dict[str, Any]:
        """
        The schedule with Salt's hidden keys.

        @param where: C{"opts"} or C{"pillar"} for one half.
        """
        chosen = {"opts": self.own, "pillar": self.pillar}.get(where or "", self.merged())
        whole: dict[str, Any] = {}
        for name, data in chosen.items():
            if name in GLOBALS or not isinstance(data, Mapping):
                whole[name] = data
                continue
            whole[name] = {**data, "name": data.get("name", name)}
            entry = self.entries.get(name)
            if entry is not None:
                whole[name].update(shown(self.progress.get(name, Progress()), entry))
            elif name in self.errors:
                whole[name]["_error"] = self.errors[name]
        return whole

    def may_change(self, name: str) -> bool:
        """Whether a job can be changed; those in the pillar cannot, and unknown ones neither."""
        if name in self.own and name not in GLOBALS:
            return True
        if name in self.pillar:
            self.say("warn", f"cannot change job {name}, it is in the pillar")
        return False

    def forget(self, name: str) -> None:
        """A job that is given again starts again, even if it has not changed."""
        self.progress.pop(name, None)

    def due_now(self, name: str, running: Callable[[str], int]) -> DueJob | None:
        """
        A job that somebody wants to run now; C{None} if as many run as may, or it is a dry one.

        @raises ScheduleError: there is none that could run.
        """
        entry = self.entries.get(name)
        if entry is None:
            raise ScheduleError(self.errors.get(name, f"Job {name} does not exist."))
        busy = running(entry.name) if entry.jid_include else 0
        if busy >= entry.maxrunning or entry.dry_run:
            return None
        return DueJob(entry=entry, function=entry.function)


def timing(data: Any, settings: Mapping[str, Any], whens: Any) -> Any:
    """
    The settings that decide when a job runs.

    Salt keeps the time of a job that is disabled, postponed or given other arguments.
    """
    if not isinstance(data, Mapping):
        return data
    keys = ("seconds", "minutes", "hours", "days", "when", "cron", "once", "once_fmt", "splay")
    return [data.get(key) for key in keys], settings.get("splay"), whens


# -- requests that change a schedule, or show a part of it; each gives what its answer says


def _name(data: Mapping[str, Any]) -> str:
    name = data.get("name")
    if not name:
        raise ScheduleError("A job's name is needed.")
    return str(name)


def _list(book: Book, data: Mapping[str, Any]) -> dict[str, Any]:
    return {"schedule": book.listed(data.get("where"))}


def _add(book: Book, data: Mapping[str, Any]) -> dict[str, Any]:
    jobs = data.get("schedule")
    if not isinstance(jobs, Mapping):
        raise ScheduleError("Scheduled jobs have to be of type dict.")
    if len(jobs) != 1:
        raise ScheduleError("You can only schedule one new job at a time.")
    for name, job in jobs.items():
        if not isinstance(job, Mapping):
            raise ScheduleError(f'Scheduled job "{name}" should have a dict value')
        if name in book.pillar:
            book.say("warn", f"cannot change job {name}, it is in the pillar")
        else:
            book.own.update(without_hidden({name: {"enabled": True, **job}}))
            book.forget(name)
    return {}


def _modify(book: Book, data: Mapping[str, Any]) -> dict[str, Any]:
    name, job = _name(data), data.get("schedule")
    if not isinstance(job, Mapping):
        raise ScheduleError("Scheduled jobs have to be of type dict.")
    if name in book.own or name not in book.pillar:
        book.own[name] = without_hidden({name: job})[name]
        book.forget(name)
    else:
        book.say("warn", f"cannot change job {name}, it is in the pillar")
    return {}


def _delete(book: Book, data: Mapping[str, Any]) -> dict[str, Any]:
    name = _name(data)
    if book.may_change(name):
        del book.own[name]
    return {}


def _purge(book: Book, data: Mapping[str, Any]) -> dict[str, Any]:
    for name in list(book.own):
        if name not in GLOBALS and not name.startswith("__"):
            del book.own[name]
    return {}


def _enable(book: Book, data: Mapping[str, Any]) -> dict[str, Any]:
    book.own["enabled"] = True
    return {}


def _disable(book: Book, data: Mapping[str, Any]) -> dict[str, Any]:
    book.own["enabled"] = False
    return {}


def _set_enabled(book: Book, data: Mapping[str, Any], enabled: bool) -> dict[str, Any]:
    name = _name(data)
    if book.may_change(name):
        book.own[name] = {**book.own[name], "enabled": enabled}
    return {}


def _enable_job(book: Book, data: Mapping[str, Any]) -> dict[str, Any]:
    return _set_enabled(book, data, True)


def _disable_job(book: Book, data: Mapping[str, Any]) -> dict[str, Any]:
    return _set_enabled(book, data, False)


def _reload(book: Book, data: Mapping[str, Any]) -> dict[str, Any]:
    schedule = data.get("schedule") or {}
    if not isinstance(schedule, Mapping):
        raise ScheduleError("Schedule must be of type dict.")
    inner = schedule.get("schedule", schedule)
    if not isinstance(inner, Mapping):
        raise ScheduleError("Schedule must be of type dict.")
    book.progress.clear()
    book.own.update(without_hidden(inner))
    return {}


def _explicit(book: Book, data: Mapping[str, Any], key: str, time: Any) -> None:
    name, fmt = _name(data), data.get("time_fmt") or TIME_FORMAT
    try:
        datetime.strptime(str(time), fmt)  # noqa: DTZ007
    except ValueError as error:
        raise ScheduleError(f"Date string could not be parsed: {time}, {error}") from None
    if book.may_change(name):
        times = [*book.own[name].get(key, ()), {"time": time, "time_fmt": fmt}]
        book.own[name] = {**book.own[name], key: times}


def _postpone(book: Book, data: Mapping[str, Any]) -> dict[str, Any]:
    _explicit(book, data, "skip_explicit", data.get("time"))
    _explicit(book, data, "run_explicit", data.get("new_time"))
    return {}


def _skip(book: Book, data: Mapping[str, Any]) -> dict[str, Any]:
    _explicit(book, data, "skip_explicit", data.get("time"))
    return {}


def _is_enabled(book: Book, data: Mapping[str, Any]) -> dict[str, Any]:
    if data.get("name"):
        return {"enabled": book.listed().get(_name(data), {})}
    return {"enabled": book.merged().get("enabled", True)}


def _next_fire_time(book: Book, data: Mapping[str, Any]) -> dict[str, Any]:
    progress = book.progress.get(_name(data), Progress())
    fmt = data.get("fmt") or TIME_FORMAT
    when = progress.next_fire
    return {"next_fire_time": None if when is None else when.strftime(fmt)}


def _job_status(book: Book, data: Mapping[str, Any]) -> dict[str, Any]:
    return {"data": book.listed().get(_name(data), {})}


Request = Callable[[Book, Mapping[str, Any]], dict[str, Any]]

EDITS: dict[str, Request] = {
    "add": _add,
    "modify": _modify,
    "delete": _delete,
    "purge": _purge,
    "enable": _enable,
    "disable": _disable,
    "enable_job": _enable_job,
    "disable_job": _disable_job,
    "reload": _reload,
    "postpone_job": _postpone,
    "skip_job": _skip,
}
"""Requests that change L{Book.own}; the book is to be read again afterwards."""

VIEWS: dict[str, Request] = {
    "list": _list,
    "is_enabled": _is_enabled,
    "show_next_fire_time": _next_fire_time,
    "get_next_fire_time": _next_fire_time,
    "job_status": _job_status,
}
"""Requests that change nothing."""
