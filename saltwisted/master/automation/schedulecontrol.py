"""
Requests about the master's schedule: list, change, pause, run now.

A change is first tried on a copy, and refused if an entry would be invalid. It is stored in
C{seams.schedule}, so it applies on all nodes and after restarts; the configuration does not change.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

from twisted.logger import Logger

from saltwisted.domain.masterschedule import paused, plain, prepared
from saltwisted.domain.schedule import GLOBALS, ScheduleError
from saltwisted.domain.schedulebook import EDITS, VIEWS, Book
from saltwisted.errors import StoreError
from saltwisted.master.automation.schedule import MasterSchedule
from saltwisted.master.ground import Ground

LONGEST_NAME = 200
LARGEST = 1 << 16
"""Characters of an entry."""


class ScheduleControl:
    """The requests about one schedule."""

    log = Logger()

    def __init__(self, ground: Ground, schedule: MasterSchedule) -> None:
        self._ground = ground
        self._schedule = schedule
        self._facts = ground.seams.schedule

    async def call(self, func: str, user: str, **data: Any) -> dict[str, Any]:
        """
        One request about the schedule, by Salt's names; a change applies on all nodes.

        @param func: those of C{salt '*' schedule.*}: C{list add modify delete enable disable
            enable_job disable_job run_job postpone_job skip_job is_enabled purge
            show_next_fire_time job_status}; and C{pause}, C{resume}, C{reset}.
        @raises ScheduleError: it cannot be done; nothing has changed.
        @raises StoreError: it is not on disk.
        """
        # Who asks while the master starts would not see, or would replace, what is not read yet
        await self._schedule.known()
        if func == "list":
            return {"schedule": self.listed()}
        if func in VIEWS:
            return VIEWS[func](self._schedule.book, data)
        if func in ("pause", "resume", "reset"):
            return await self._switch(func, str(data.get("name") or ""), user)
        if func == "run_job":
            return self._run_now(str(data.get("name") or ""))
        if func not in EDITS or func == "reload":
            raise ScheduleError(f"Function {func!r} is unavailable in the scheduler")
        self._known(func, data)
        return await self._edit(func, user, data)

    def _known(self, func: str, data: Mapping[str, Any]) -> None:
        """
        There is a job of this name, where one is needed.

        @raises ScheduleError: there is none.
        """
        name = str(data.get("name") or "")
        needs = ("modify", "delete", "enable_job", "disable_job", "postpone_job", "skip_job")
        if func in needs and (name not in self._schedule.book.own or name in GLOBALS):
            raise ScheduleError(f"Job {name} does not exist.")

    async def _edit(self, func: str, user: str, data: Mapping[str, Any]) -> dict[str, Any]:
        """Change entries, if what they are then makes sense."""
        before = dict(self._schedule.book.own)
        trial = Book(before, lambda first, last: first, lambda level, text: None, None, self._trial)
        EDITS[func](trial, data)
        after = trial.own
        changed = [
            name
            for name in {**before, **after}
            if (name in before) != (name in after) or before.get(name) != after.get(name)
        ]
        wanted = {name: after[name] for name in (*GLOBALS, *changed) if name in after}
        trial.take(wanted, self._schedule.time_of_day())
        for name in changed:
            # One that meant nothing before may still be disabled
            if name in trial.errors and name not in self._schedule.book.errors:
                raise ScheduleError(trial.errors[name])
            if name in after and (len(name) > LONGEST_NAME or not name.isprintable()):
                raise ScheduleError(f"{name[:LONGEST_NAME]!r} cannot be the name of a job.")
            if len(repr(after.get(name))) > LARGEST:
                raise ScheduleError(f"Job {name} is too large.")
        configured, kept = self._schedule.configured(), []
        for name in changed:
            value = plain(after[name]) if name in after else None
            body: dict[str, Any] | None = {"data": value, "by": user, "at": self._ground.now()}
            if value is None and name not in configured:
                body = None
                kept.append(self._facts.put(f"ran/{name}", None))
                kept.append(self._facts.put(f"pause/{name}", None))
            kept.append(self._facts.put(f"job/{name}", body))
        return await self._changed(kept, {"changed": sorted(changed)})

    def _trial(self, name: str, data: Any) -> Any:
        return prepared(name, data, self._schedule.judge)

    async def _changed(
        self, kept: Sequence[Awaitable[None]], answer: dict[str, Any]
    ) -> dict[str, Any]:
        read = self._schedule.changed()
        try:
            for each in kept:
                await each
        except StoreError:
            # What is not on disk does not hold
            await self._schedule.changed()
            raise
        await read
        unreached = list(await self._facts.settled())
        return {**answer, "schedule": self.listed(), "unreached": unreached}

    async def _switch(self, func: str, name: str, user: str) -> dict[str, Any]:
        """Pause, resume, or forget what was changed of an entry."""
        if (
            name
            and name not in self._schedule.book.own
            and f"job/{name}" not in self._facts.items()
        ):
            raise ScheduleError(f"Job {name} does not exist.")
        if func == "reset":
            if not name:
                raise ScheduleError("A job's name is needed.")
            return await self._changed([self._facts.put(f"job/{name}", None)], {})
        key = f"pause/{name}" if name else "pause"
        was = key in self._facts.items()
        body = {"by": user, "at": self._ground.now()} if func == "pause" else None
        if (func == "pause") == was:
            return {"changed": [], "schedule": self.listed()}
        what = {"pause": "paused", "resume": "resumed"}[func]
        self.log.info(
            "{name} is {what} by {user}", name=name or "the schedule", what=what, user=user
        )
        return await self._changed([self._facts.put(key, body)], {"changed": [name]})

    def _run_now(self, name: str) -> dict[str, Any]:
        if not name:
            raise ScheduleError("A job's name is needed.")
        due = self._schedule.book.due_now(name, self._schedule.runs.running)
        jid = self._schedule.start(due) if due is not None else ""
        return {"started": due is not None, "jid": jid}

    def listed(self) -> dict[str, Any]:
        """The schedule with Salt's hidden keys, and what is known of the runs of all nodes."""
        now, known = self._schedule.time_of_day(), self._facts.items()
        for _ in self._schedule.restore(now):
            pass
        whole = self._schedule.book.listed()
        for name, data in whole.items():
            if not isinstance(data, dict):
                continue
            changed, ran = known.get(f"job/{name}"), self._schedule.records.known(name)
            if changed:
                data["_changed"] = {each: changed.get(each) for each in ("by", "at")}
            if "ran" in ran:
                wanted = ("ran", "node", "jid", "success")
                data["_ran"] = {each: ran[each] for each in wanted if each in ran}
            stopped = paused(known, name)
            if stopped:
                data["_paused"] = dict(stopped)
        return whole

    def status(self) -> dict[str, Any]:
        """For C{status}: each entry with its next run and its last result; what is wrong."""
        entries = {
            name: {
                key: data.get(f"_{key}")
                for key in ("next_fire_time", "last_run", "skip_reason", "ran", "paused", "error")
                if data.get(f"_{key}") is not None
            }
            for name, data in self.listed().items()
            if name not in GLOBALS and isinstance(data, Mapping)
        }
        return {
            "here": self._schedule.holds,
            "problem": "" if self._schedule.holds else self._ground.seams.claims.problem(),
            "enabled": self._schedule.book.own.get("enabled", True),
            "paused": dict(self._facts.items().get("pause", {})),
            "running": len(self._schedule.runs),
            "entries": entries,
        }
