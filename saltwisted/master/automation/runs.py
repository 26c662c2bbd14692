"""
Runs the due entries of the master's schedule.

A run is an ordinary call of a runner or wheel function, or a job for minions. It has the events of
those, and at its end stock's C{__schedule_return}.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from attrs import define
from twisted.internet.defer import Deferred, DeferredList
from twisted.logger import Logger

from saltwisted.domain.claims.words import Claim, Taken
from saltwisted.domain.masterschedule import CLAIMED, Act
from saltwisted.domain.schedule import DueJob, ScheduleEntry, stamped
from saltwisted.domain.who import LOCAL, Who
from saltwisted.errors import SaltwistedError, StoreError
from saltwisted.master.calls import Calls
from saltwisted.master.context import Context
from saltwisted.master.ground import Ground
from saltwisted.transports.deferreds import let_go, wait_for

DUTY = "schedule"
UNHANDLED = 254
"""Stock's return code for a scheduled function that is not there or raises."""

Note = Callable[[str, Mapping[str, Any]], Awaitable[None]]


@define
class _Run:
    """A run that has not ended."""

    name: str
    each: bool
    waiting: Deferred[Any] | None = None


class ScheduledRuns:
    """
    The runs of one master.

    @param ctx: the master's record of parts, once it exists.
    @param note: C{note(key, what)}: stores what is known of an entry; fires when it is on disk.
    """

    log = Logger()

    def __init__(
        self,
        ground: Ground,
        calls: Calls,
        new_jid: Callable[[], str],
        ctx: Callable[[], Context],
        note: Note,
        offset: str,
    ) -> None:
        self._ground = ground
        self._calls = calls
        self._new_jid = new_jid
        self._ctx = ctx
        self._note = note
        self._offset = offset
        self._runs: dict[str, _Run] = {}

    def __len__(self) -> int:
        return len(self._runs)

    def running(self, name: str) -> int:
        """How many runs of this name have not ended."""
        return sum(1 for run in self._runs.values() if run.name == name)

    def cancel(self, each: bool) -> Deferred[Any]:
        """
        End current runs; fires when they have ended.

        @param each: also end what this node runs for itself.
        """
        ending = [run.waiting for run in self._runs.values() if each or not run.each]
        for waiting in ending:
            if waiting is not None:
                waiting.cancel()
        return DeferredList([one for one in ending if one is not None], consumeErrors=True)

    def start(self, key: str, due: DueJob, act: Act) -> str:
        """Begin a run of an entry; its jid."""
        name, jid, at = due.entry.name, self._new_jid(), self._ground.now()
        run = self._runs[jid] = _Run(name, act.each)
        run.waiting = waiting = Deferred.fromCoroutine(self._run(key, due, act, jid, at))

        def over(result: Any) -> Any:
            self._runs.pop(jid, None)
            return result

        waiting.addBoth(over)  # type: ignore[unused-awaitable]
        let_go(waiting, self.log, "scheduled run of {name} failed", name=name)
        return jid

    async def _run(self, key: str, due: DueJob, act: Act, jid: str, at: float) -> None:
        """Claim a run, note it, do it, and say how it ended."""
        claim: Any = None
        if due.due is not None and not act.each and claimed(due.entry):
            slot = f"{DUTY}/{key}/{int(at - due.due)}"
            claim = await self._ground.seams.claims.begin(
                slot, {"name": key}, f"{due.function} ({key})"
            )
            if isinstance(claim, Taken):
                self.log.info("{slot} has already run on {node}", slot=slot, node=claim.holder)
                return
            if not isinstance(claim, Claim):
                self.log.error("scheduled job {name} does not run: {why}", name=key, why=claim.why)
                return
        result = "lost"
        try:
            if not act.each:
                # Before it begins: after a crash it is not begun twice
                await self._note(key, {"ran": at, "node": self._ground.node, "jid": jid})
            if claim is not None and not self._ground.seams.claims.holds(claim):
                return
            self.log.info(
                "running scheduled job {name} ({function}) with jid {jid}",
                name=key,
                function=due.function,
                jid=jid,
            )
            answer = await self._call(due, act, jid)
            result = "done" if answer["success"] else "failed"
            self._returned(due.entry, answer)
            if not act.each:
                ended = {"ended": self._ground.now(), "success": answer["success"]}
                let_go(wait_for(self._note(key, ended)), self.log, "not noted")
        except StoreError:
            result = "failed: the disk"
        finally:
            if claim is not None:
                let_go(
                    wait_for(self._ground.seams.claims.end(claim, result)), self.log, "not ended"
                )

    async def _call(self, due: DueJob, act: Act, jid: str) -> dict[str, Any]:
        """Do it; the return as stock's schedule has it, without what does not depend on it."""
        entry, ctx = due.entry, self._ctx()
        args, kwargs = list(entry.args), dict(entry.kwargs)
        who = Who(self._ground.config.user, LOCAL)
        try:
            if act.client == "local":
                return await self._local(due, act, who)
            call = self._calls.wheel if act.client == "wheel" else self._calls.runner
            how: dict[str, Any] = {"own": jid, "beside": {"schedule": entry.name}}
            how["keep"] = bool(entry.return_job) and entry.return_job != "nocache"
            done = await call(ctx, due.function, args, kwargs, who, **how)
        except SaltwistedError as error:
            done = {"return": str(error), "success": False}
        fine = bool(done["success"])
        return {
            "fun": due.function,
            "jid": jid,
            "return": done["return"],
            "retcode": 0 if fine else UNHANDLED,
            "success": fine,
        }

    async def _local(self, due: DueJob, act: Act, who: Who) -> dict[str, Any]:
        """A job for minions; over when all have answered, or are named as missing."""
        entry = due.entry
        arg = list(entry.args)
        if entry.kwargs:
            arg.append({"__kwarg__": True, **entry.kwargs})
        load = {"fun": due.function, "arg": arg, "tgt": act.tgt, "tgt_type": act.tgt_type}
        load.update(ret="", kwargs={})
        returns: dict[str, Any] = {}
        jid, fine = "", True
        expected: list[str] = []
        async for item in self._ctx().dispatcher.run(load, who):
            kind = item.get("kind")
            if kind == "published":
                jid, expected = str(item.get("jid") or ""), list(item.get("minions") or ())
            elif kind == "return":
                returns[item["id"]] = item["data"].get("return")
                fine = fine and bool(item["data"].get("success", True))
        missing = sorted(set(expected) - returns.keys())
        # Nobody who is meant is a failure, as of `salt`
        fine = fine and bool(expected)
        return {
            "fun": due.function,
            "jid": jid,
            "return": returns,
            "retcode": 0 if fine and not missing else 1,
            "success": fine and not missing,
            **({"missing": missing} if missing else {}),
        }

    def _returned(self, entry: ScheduleEntry, answer: Mapping[str, Any]) -> None:
        """Stock's event at the end of a run, unless the entry wants none."""
        if not entry.return_job:
            return
        jid = "nocache" if entry.return_job == "nocache" else "req"
        args: list[Any] = list(entry.args)
        if entry.kwargs:
            args.append(dict(entry.kwargs))
        load: dict[str, Any] = {
            "cmd": "_return",
            "id": self._ground.node,
            **answer,
            "fun_args": args,
            "schedule": entry.name,
            "jid": answer["jid"] if entry.returners else jid,
            "pid": os.getpid(),
        }
        if entry.metadata is not None:
            at = self._ground.now()
            utc = datetime.fromtimestamp(at, UTC)
            load["metadata"] = stamped(entry.metadata, local(at), utc, self._offset)
        self._ground.bus.fire("__schedule_return", load)


def claimed(entry: ScheduleEntry) -> bool:
    """
    Whether each run has a claim of its own. A run of a short interval is known by no time: the next
    one that is due after a takeover is as good.
    """
    return entry.every is None or entry.every >= CLAIMED


def local(seconds: float) -> datetime:
    """Local time without zone, as schedules are written."""
    return datetime.fromtimestamp(seconds)  # noqa: DTZ006
