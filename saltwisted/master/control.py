"""
The operations of a master for people and programs: its rows of the table of operations.

The rule of rights of each row (L{saltwisted.master.rights}) decides who may do what. This module
does not know whether a call came through the control socket or through another interface.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any

from attrs import evolve

from saltwisted.domain.operations.arguments import (
    ANYTHING,
    FLAG,
    JID,
    LIST,
    MAP,
    SECONDS,
    TEXT,
    TEXTS,
    WORDS,
    Argument,
    one_of,
)
from saltwisted.domain.operations.table import (
    ACCOUNT,
    ANYBODY,
    Call,
    Caller,
    Operation,
    Operations,
    owner_only,
)
from saltwisted.domain.schedule import ScheduleError
from saltwisted.domain.who import Who
from saltwisted.errors import RemoteError, StoreError
from saltwisted.master.context import Context
from saltwisted.master.loads import arguments_of, delimiter_of
from saltwisted.master.logins import NotProven
from saltwisted.master.logintest import LoginTest
from saltwisted.master.ownjobs import OwnJobs
from saltwisted.master.permits import CREDENTIALS, tell_done
from saltwisted.master.rights import BESIDE, Rights, as_job, as_ping

TARGET = (
    # It may be empty: that is nobody
    Argument("tgt", ANYTHING, needed=True, may_be_empty=True),
    Argument("tgt_type", TEXT),
    Argument("kwargs", MAP),
)
JOB = (
    *TARGET,
    Argument("fun", WORDS, needed=True),
    Argument("arg", LIST),
    Argument("ret", WORDS),
    Argument("jid", JID),
    Argument("user", TEXT),
    Argument("timeout", SECONDS),
    Argument("gather_job_timeout", SECONDS),
    # Commands say it, and returns are whole in any case
    Argument("full", FLAG),
    *(Argument(name, ANYTHING) for name in BESIDE),
)
WHAT = ("fun", "tgt", "tgt_type")
RECORD: Mapping[str, tuple[str, ...]] = {
    "publish": WHAT,
    "run": WHAT,
    "runner": ("fun",),
    "wheel": ("fun",),
    "fire_event": ("tag",),
    "schedule": ("func", "name"),
}
"""What is on record of what is done; arguments of functions are not, which may be secrets."""
LOGIN = tuple(Argument(name, ANYTHING) for name in CREDENTIALS)
FUNCTION = (
    Argument("fun", TEXT, needed=True),
    Argument("arg", LIST),
    Argument("kwarg", MAP),
)
IN_BACKGROUND = Argument("async", FLAG)
KEPT = Argument("keep", FLAG)
STEPS = Argument("steps", FLAG)
LOOSE = Argument("loose", FLAG)


class Control:
    """A master's own operations."""

    def __init__(self, ctx: Context, status: Callable[[], dict[str, Any]]) -> None:
        self._ctx = ctx
        self._status = status

    def operations(self) -> list[Operation]:
        """The rows."""
        rows = [evolve(row, record=RECORD.get(row.name)) for row in self._rows()]
        return [*rows, *LoginTest(self._ctx).operations(), *OwnJobs(self._ctx).operations()]

    def _rows(self) -> list[Operation]:
        may = Rights(self._ctx)
        return [
            Operation(name="publish", right=may.publish, handler=self.publish, takes=JOB),
            Operation(name="run", right=may.publish, handler=self.run, takes=JOB, streams=True),
            Operation(
                name="match",
                right=may.match,
                handler=self.match,
                takes=(*TARGET, Argument("delimiter", TEXT)),
            ),
            Operation(
                name="events",
                right=may.events,
                handler=self.events,
                takes=(Argument("tags", TEXTS), Argument("match", one_of("startswith"))),
                streams=True,
            ),
            Operation(
                name="fire_event",
                right=may.events,
                handler=self.fire_event,
                takes=(Argument("tag", TEXT, needed=True), Argument("data", ANYTHING)),
            ),
            Operation(
                name="runner",
                right=may.runner,
                handler=self.runner,
                takes=(*FUNCTION, Argument("jid", JID), IN_BACKGROUND, KEPT, STEPS, LOOSE, *LOGIN),
                streams=True,
            ),
            Operation(
                name="wheel",
                right=may.wheel,
                handler=self.wheel,
                takes=(*FUNCTION, IN_BACKGROUND, LOOSE, *LOGIN),
            ),
            Operation(
                name="mk_token",
                right=ANYBODY,
                handler=self.mk_token,
                takes=LOGIN[1:4],
                more="there is `token_expire`; any other is dropped, and no login backend gets it",
            ),
            Operation(
                name="schedule",
                right=owner_only("only root and the master's own user may use the schedule"),
                handler=self.schedule,
                takes=(
                    Argument("func", TEXT),
                    Argument("name", TEXT),
                    Argument("schedule", MAP),
                    Argument("time", TEXT),
                    Argument("new_time", TEXT),
                    Argument("time_fmt", TEXT),
                ),
            ),
            Operation(name="status", right=ACCOUNT, handler=self.status),
        ]

    def recorded(self, who: Who, what: str, caller: Caller) -> None:
        """Record who does what, and from where."""
        tell_done(self._ctx, who, what, f"{caller.door}, {caller.source}")

    async def publish(self, call: Call) -> Any:
        """Publish a job, and say who is expected to answer."""
        load = load_of(call.args)
        return await self._ctx.dispatcher.publish(load, call.who, judged=call.bounds)

    async def run(self, call: Call) -> Any:
        """Publish a job, stream its returns as they come, and end with who did not answer."""
        jid = None
        items: AsyncGenerator[dict[str, Any], None] = self._ctx.dispatcher.run(
            load_of(call.args),
            call.who,
            timeout=call.args.get("timeout"),
            gather_job_timeout=call.args.get("gather_job_timeout"),
            judged=call.bounds,
        )
        # Whoever goes away while he is told of a return leaves nobody who listens for the next
        async with aclosing(items):
            async for item in items:
                if item["kind"] == "published":
                    jid = item["jid"]
                await call.stream(item)
        return {"jid": jid}

    async def match(self, call: Call) -> Any:
        """List the accepted minions that a target matches; nothing is published."""
        selection = call.bounds
        if selection is None:
            selection = await self._ctx.find(
                call.args["tgt"],
                str(call.args.get("tgt_type") or "glob"),
                delimiter_of(as_ping(call.args)),
            )
        return sorted(selection.minions)

    async def events(self, call: Call) -> Any:
        """Stream the events of the bus whose tags begin with one of C{tags}."""
        await self._ctx.dispatcher.stream_events(call.args, call.stream)

    async def fire_event(self, call: Call) -> Any:
        """Fire an event on the master's bus."""
        data = call.args.get("data")
        self._ctx.bus.fire(call.args["tag"], data if isinstance(data, dict) else {"data": data})
        return True

    async def runner(self, call: Call) -> Any:
        """
        Run a runner function; its progress comes as items.

        C{keep} false keeps it out of the job cache: C{salt-run} asks for documentation so.
        C{steps} true has each step of an orchestration told, as it begins and as it ends.
        C{loose} true drops keywords that the function does not take, as Salt's API does.
        """
        args = call.args
        arg, kwarg = arguments_of(args)
        return await self._ctx.runner(
            args["fun"],
            arg,
            kwarg,
            call.who,
            call.stream if args.get("steps") else without_steps(call.stream),
            background=bool(args.get("async")),
            keep=bool(args.get("keep", True)),
            jid=args.get("jid"),
            rules=call.bounds,
            loose=bool(args.get("loose")),
        )

    async def wheel(self, call: Call) -> Any:
        """
        Run a wheel function, such as those of keys.

        C{loose} true drops keywords of Salt's clients that the function does not take.
        """
        args = call.args
        arg, kwarg = arguments_of(args)
        return await self._ctx.wheel(
            args["fun"],
            arg,
            kwarg,
            call.who,
            background=bool(args.get("async")),
            loose=bool(args.get("loose")),
        )

    async def mk_token(self, call: Call) -> Any:
        """Make a token for a name and a password of external authentication."""
        try:
            caller = call.caller
            return await self._ctx.logins.make_token(call.args, caller.source, caller.admits)
        except (NotProven, StoreError) as error:
            self._ctx.counters["denied:control"] += 1
            if isinstance(error, NotProven):
                details = {"unasked": True} if error.unasked else None
                raise RemoteError(error.name, str(error), details) from None
            raise RemoteError("StoreError", str(error)) from None

    async def schedule(self, call: Call) -> Any:
        """
        List or change the master's schedule, by the names of Salt's schedule functions: C{list},
        which is the default, C{add}, C{modify}, C{delete}, C{run_job} and so on.
        """
        data = dict(call.args)
        try:
            return await self._ctx.schedule.call(data.pop("func", "list"), call.user, **data)
        except ScheduleError as error:
            raise RemoteError("SaltInvocationError", str(error)) from None
        except StoreError as error:
            raise RemoteError("StoreError", str(error)) from None

    async def status(self, call: Call) -> Any:
        """Report the state of the master: version, ports, counters, latency of its reactor."""
        return self._status()


def table_of(control: Control, counters: Counter[str]) -> Operations:
    """The table of a master; other parts may join theirs in."""

    def denied() -> None:
        counters["denied:control"] += 1

    return Operations("this master", control.operations(), denied=denied, recorded=control.recorded)


def load_of(args: Mapping[str, Any]) -> dict[str, Any]:
    """The job of a call, without the proof of its sender and without the time limit."""
    load = as_job(args)
    for name in ("timeout", "gather_job_timeout", "full"):
        load.pop(name, None)
    load["kwargs"] = {k: v for k, v in load["kwargs"].items() if k not in CREDENTIALS}
    return load


def without_steps(stream: Callable[[Any], Awaitable[None]]) -> Callable[[Any], Awaitable[None]]:
    """For a caller that waits for an orchestration, but does not watch it."""

    async def told(item: Any) -> None:
        if "step" not in item:
            await stream(item)

    return told
