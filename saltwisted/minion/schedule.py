"""
The scheduler of a minion: checks its entries when one is due, and starts jobs.

The entries and their history are a C{domain/schedulebook.py}, as on a master. The role provides
callables that run a job, route its return and save the schedule. The entries are those of the
configuration (with those added at run time) and of the pillar; the configuration wins. Reactor
thread, never blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from attrs import frozen
from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger, LogLevel

from saltwisted.domain.schedule import Dice, DueJob, ScheduleError, stamped, without_hidden
from saltwisted.domain.schedulebook import EDITS, VIEWS, Book
from saltwisted.transports.deferreds import let_go
from saltwisted.transports.turns import in_turns

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
    @param runtime: seconds of a clock that nobody sets and that also counts sleep; by default that
        of the clock.
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
        runtime: Callable[[], float] | None = None,
    ) -> None:
        self._clock = clock
        self._time_of_day = time_of_day
        self._run_job = run_job
        self._make_jid = make_jid
        self._running = running
        self._save = save
        self._fire_event = fire_event
        self._offset = offset
        self._runtime = runtime or clock.seconds
        self._book = Book(schedule, dice, self._say, returner)
        self._timer: IDelayedCall | None = None
        self._busy = self._unread = self._unlooked = False

    # life

    def startService(self) -> None:
        """Read the entries and look at them for the first time."""
        super().startService()
        self._changed()

    def stopService(self) -> None:
        """Start nothing any more; running jobs continue."""
        super().stopService()
        self._sleep(None)

    def set_facts(self, pillar: Mapping[str, Any], grains: Mapping[str, Any]) -> None:
        """
        Take over the schedule and the named times of a new pillar, and those of the grains.

        An entry that did not change keeps its next time.
        """
        self._book.set_facts(pillar, grains)
        self._changed()

    # looking

    def _now(self) -> datetime:
        """Local time without zone, as schedules are written."""
        return datetime.fromtimestamp(self._time_of_day())  # noqa: DTZ006

    def _say(self, level: str, text: str) -> None:
        self.log.emit(LogLevel.levelWithName(level), "{text}", text=text)

    def _changed(self) -> None:
        self._unread = True
        self._look()

    def _look(self) -> None:
        """Start what is due, and sleep until something is."""
        self._unlooked = True
        if self.running and not self._busy:
            self._busy = True
            let_go(Deferred.fromCoroutine(self._work()), self.log, "the schedule is not looked at")

    async def _work(self) -> None:
        """All that there is to read and to look at; of a thousand entries a few in each turn."""
        try:
            while self.running and (self._unread or self._unlooked):
                steps = self._reading() if self._unread else self._looking()
                async for _ in in_turns(self._clock, steps):
                    pass
        finally:
            self._busy = False
            self._sleep(self._book.sleep if self.running else None)

    def _reading(self) -> Iterator[None]:
        self._unread = False
        for _ in self._book.rereading(self._now()):
            if self._unread or not self.running:
                return
            yield

    def _looking(self) -> Iterator[None]:
        self._unlooked = False
        now = self._now()
        for run in self._book.look(now, self._runtime(), self._running):
            if run is not None:
                self._start(run, now)
            if self._unread or not self.running:
                return
            yield

    def _sleep(self, seconds: float | None) -> None:
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()
        if seconds is not None:
            self._timer = self._clock.callLater(seconds, self._look)

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
        event = OPERATIONS.get(func)
        if event is None:
            raise ScheduleError(f"Function {func!r} is unavailable in the scheduler")
        answer: dict[str, Any] = {"complete": True}
        if func in EDITS:
            answer.update(EDITS[func](self._book, data))
            self._changed()
            if data.get("persist"):
                self.save()
            answer["schedule"] = self._book.listed()
        elif func in VIEWS:
            answer.update(VIEWS[func](self._book, data))
        elif func == "run_job":
            answer.update(self._run_now(str(data.get("name") or "")))
        else:
            self.save()
        if event:
            self._fire_event(EVENT + event, answer)
        return answer

    def listed(self, where: str | None = None) -> dict[str, Any]:
        """The schedule with Salt's hidden keys; C{"opts"} or C{"pillar"} for one half."""
        return self._book.listed(where)

    def save(self) -> None:
        """Have the schedule written to disk, without entries from the pillar."""
        self._save(without_hidden(self._book.own))

    def _run_now(self, name: str) -> dict[str, Any]:
        if not name:
            raise ScheduleError("A job's name is needed.")
        run = self._book.due_now(name, self._running)
        if run is not None:
            self._start(run, self._now())
        return {"started": run is not None, "schedule": self._book.listed()}


OPERATIONS: dict[str, str] = {
    "list": "list_complete",
    "add": "add_complete",
    "modify": "add_complete",
    "delete": "delete_complete",
    "purge": "delete_complete",
    "enable": "enabled_complete",
    "disable": "disabled_complete",
    "enable_job": "enabled_job_complete",
    "disable_job": "disabled_job_complete",
    "run_job": "",
    "reload": "",
    "save": "saved",
    "save_schedule": "saved",
    "postpone_job": "postpone_job_complete",
    "skip_job": "skip_job_complete",
    "is_enabled": "",
    "show_next_fire_time": "next_fire_time_complete",
    "get_next_fire_time": "next_fire_time_complete",
    "job_status": "job_status_complete",
}
"""Requests, and the end of the completion event's tag of each (empty for none)."""
