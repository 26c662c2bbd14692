"""
Calls runner and wheel functions by name, with Salt's events and result format.

A call fires C{salt/run/<jid>/new} and C{/ret} (wheel: C{salt/wheel/...}); its result is in a map
C{{fun, jid, tag, user, return, success}}. If a function raises, the return is Salt's text with the
exception, and C{success} is C{False}.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import lru_cache
from inspect import Parameter, Signature
from inspect import signature as look_at
from typing import Any

from twisted.internet.defer import CancelledError, FirstError, gatherResults
from twisted.logger import Logger

from saltwisted.domain.api.lowstate import DROPPED
from saltwisted.domain.highstate.verdicts import succeeded
from saltwisted.domain.jobids import judged_jid
from saltwisted.domain.secrecy import hide
from saltwisted.domain.who import Who
from saltwisted.errors import SaltwistedError, TargetError
from saltwisted.master import runner_table as runners
from saltwisted.master import wheel_table as wheels
from saltwisted.master.asked import origin
from saltwisted.master.chosen import Chosen
from saltwisted.master.context import Context
from saltwisted.master.function_table import FunctionTable, Place
from saltwisted.master.ground import Ground
from saltwisted.master.runners.auth import hidden_arguments, hidden_value
from saltwisted.transports.deferreds import as_deferred, let_go

ORCHESTRATION = "orchestration_jid"
CLIENT_INTERNAL_KEYWORDS = frozenset(
    (
        "client", "cmd", "eauth", "fun", "kwarg", "match", "token", "__jid__", "__tag__",
        "__user__", "username", "password", "full_return", "print_event",
    )
)  # fmt: skip
"""What Salt's clients put among the keywords of a wheel function, and it never gets."""
NAMED = 10
"""Dropped keywords that the log names."""
HIDDEN: ContextVar[bool] = ContextVar("hidden", default=False)
"""Whether what the present call is given and answers is stars to all but who calls."""
NOT_SHOWN = "(the call is secret: what is logged of it is not shown)"
Stream = Callable[[Any], Awaitable[None]]


async def _silent(_item: Any) -> None:
    """For calls whose progress nobody watches."""


@lru_cache(maxsize=1024)
def signature(function: Callable[..., Any]) -> Signature:
    """Like the standard library's function, which reads the code again at each call."""
    return look_at(function)


def wrong_arguments(
    function: Callable[..., Any], name: str, arg: Sequence[Any], kwarg: Mapping[str, Any]
) -> str:
    """Why a function cannot be called so, or C{""}; its first parameter is ours."""
    try:
        signature(function).bind(None, *arg, **kwarg)
    except TypeError as error:
        parameters = list(signature(function).parameters.values())[1:]
        usage = " ".join(
            p.name if p.default is Parameter.empty else f"{p.name}={p.default!r}"
            for p in parameters
        )
        doc = runners.documentation(function)
        return f"\nPassed invalid arguments: {error}\n\nUsage:\n\n    {name} {usage}\n{doc}"
    return ""


class Functions:
    """
    Which runner and wheel functions there are, and what they take.

    @ivar runners: by full name.
    @ivar wheels: likewise.
    """

    def __init__(
        self, runner_places: Sequence[Place] = (), wheel_places: Sequence[Place] = ()
    ) -> None:
        """
        @param runner_places: where runner modules come from beside ours; the last one counts.
        @param wheel_places: likewise for the wheel.
        """
        self.runners = FunctionTable(runners.ours(), *runner_places)
        self.wheels = FunctionTable(wheels.ours(), *wheel_places)

    def parameters(self, kind: str, fun: str) -> tuple[Sequence[str], bool] | None:
        """
        The names that a function takes, and whether it takes any other.

        @param kind: C{runner} or C{wheel}.
        @return: C{None} if the function does not exist.
        """
        function = (self.runners if kind == "runner" else self.wheels).get(fun)
        if function is None:
            return None
        found = list(signature(function).parameters.values())[1:]
        named = [p.name for p in found if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        return named, any(p.kind is p.VAR_KEYWORD for p in found)

    async def learn(self) -> None:
        """Look whether the site's modules have changed."""
        for table in (self.runners, self.wheels):
            await table.learn()

    def refusal(self, kind: str, fun: str, arg: Sequence[Any], kwarg: Mapping[str, Any]) -> str:
        """
        Why a function cannot be called so, in a line; C{""} if it can.

        @param kind: C{runner} or C{wheel}.
        """
        function = (self.wheels if kind == "wheel" else self.runners).get(fun)
        if function is None:
            return f"there is no {kind} function {fun}"
        wrong = wrong_arguments(function, fun, arg, _clean(kwarg)).strip()
        return f"{fun}: {wrong.splitlines()[0]}" if wrong else ""

    def _kept(
        self, kind: str, fun: str, kwarg: Mapping[str, Any]
    ) -> tuple[Mapping[str, Any], list[str]]:
        """
        The keywords that a loose call has, and those that are dropped: of a runner all that it does
        not take, as Salt's API does; of a wheel function only L{CLIENT_INTERNAL_KEYWORDS}.
        """
        takes = self.parameters(kind, fun)
        if takes is None:
            return kwarg, []
        named, any_other = takes
        if kind == "wheel":
            dropped = [*CLIENT_INTERNAL_KEYWORDS.difference(named).intersection(kwarg)]
        else:
            dropped = [] if any_other else [*kwarg.keys() - named]
        gone = {*dropped}
        return {name: kwarg[name] for name in kwarg if name not in gone}, dropped


class Calls(Functions):
    """Runs runner and wheel functions of one master."""

    log = Logger()

    def __init__(
        self,
        ground: Ground,
        new_jid: Callable[[], str],
        chosen: Chosen,
        runner_places: Sequence[Place] = (),
        wheel_places: Sequence[Place] = (),
    ) -> None:
        """As for L{Functions}."""
        super().__init__(runner_places, wheel_places)
        self._ground = ground
        self._new_jid = new_jid
        self._chosen = chosen
        self.active: dict[str, dict[str, Any]] = {}

    async def runner(
        self,
        ctx: Context,
        fun: str,
        arg: Sequence[Any],
        kwarg: Mapping[str, Any],
        who: Who,
        stream: Stream | None = None,
        background: bool = False,
        keep: bool = True,
        jid: Any = "",
        exact: bool = False,
        beside: Mapping[str, Any] | None = None,
        own: str = "",
        rules: Sequence[Any] | None = None,
        loose: bool = False,
    ) -> dict[str, Any]:
        """
        Call a runner.

        @param stream: gets progress items C{{"tag", "data"}} as they come, and lines to print.
        @param background: answer with C{jid} and C{tag} at once; the result comes on the bus.
        @param keep: put the run into the job cache, as C{runner_returns} says.
        @param jid: the job id, if the caller has chosen one.
        @param exact: whether a minion calls: its targets are read without wildcards for pillar
            values.
        @param beside: additional data for the events of the run.
        @param own: a new job id of this master, if it has made one for this call.
        @param rules: those of the login that calls, by which its targets are judged; C{None}: who
            calls is not bound by any.
        @param loose: drop keywords that the function does not take; the log names them, and so does
            the result.
        @raises RemoteError: the jid is invalid.
        @raises DeniedError: the jid is in use.
        """
        await self.runners.learn()
        dropped: list[str] = []
        if loose:
            kwarg, dropped = self._kept("runner", fun, _clean(kwarg))
        if dropped:
            self.log.warn(
                "{who} called runner {fun} with what it does not take, which was dropped: {names}",
                who=str(who)[:200],
                fun=fun[:200],
                names=", ".join(name[:50] for name in sorted(dropped)[:NAMED]),
                foreign=True,
            )
        jid = judged_jid(jid)
        if jid:
            await self._chosen.single(jid, f"runner.{fun}", list(arg), who)
        else:
            jid = own or self._new_jid()
        takes = self.parameters("runner", fun)
        if takes is not None and ORCHESTRATION in takes[0]:
            # As stock's salt-run does, so that events and records of a run say it
            kwarg = {ORCHESTRATION: jid, **kwarg}
        tag = f"salt/run/{jid}"
        stream = stream or _silent
        how: dict[str, Any] = {"exact": exact, "rules": rules, "secret": HIDDEN.get()}
        run = runners.Run(ctx, jid, who, self._progress(tag, stream), stream, **how)
        function = self.runners.get(fun)
        call = self._call(
            "runner",
            fun,
            function,
            run,
            list(arg),
            _clean(kwarg),
            jid,
            tag,
            who,
            keep and bool(self._ground.config.runner_returns),
            beside,
        )
        if not background:
            result = await call
            if run.outputter and "outputter" not in result:
                result["outputter"] = run.outputter
            if dropped:
                result[DROPPED] = dropped
            return result
        let_go(call, self.log, "runner {fun} failed", fun=fun)
        return {"jid": jid, "tag": tag}

    def _progress(self, tag: str, stream: Stream) -> Callable[[Any, str], Awaitable[None]]:
        secret = HIDDEN.get()

        async def progress(data: Any, end: str) -> None:
            if end == "event":
                await stream(data)
                return
            found = data if isinstance(data, dict) else {"data": data}
            event = {**(hide(found) if secret else found), "_stamp": self._stamp()}
            self._ground.bus.fire(f"{tag}/{end}", event)
            await stream({"tag": f"{tag}/{end}", "data": event})

        return progress

    def _stamp(self) -> str:
        return datetime.fromtimestamp(self._ground.now(), UTC).isoformat(timespec="microseconds")

    async def wheel(
        self,
        ctx: Context,
        fun: str,
        arg: Sequence[Any],
        kwarg: Mapping[str, Any],
        who: Who,
        keep: bool = False,
        beside: Mapping[str, Any] | None = None,
        own: str = "",
        background: bool = False,
        loose: bool = False,
    ) -> dict[str, Any]:
        """
        Call a wheel function.

        @param keep: put it into the job cache, as stock does for remote callers.
        @param background: answer with C{jid} and C{tag} at once; the result comes on the bus.
        @param loose: drop what Salt's clients put among the keywords.
        """
        await self.wheels.learn()
        if loose:
            kwarg, _ = self._kept("wheel", fun, kwarg)
        jid = own or self._new_jid()
        tag = f"salt/wheel/{jid}"
        call = self._call(
            "wheel",
            fun,
            self.wheels.get(fun),
            wheels.Call(ctx, str(who), jid),
            list(arg),
            _clean(kwarg),
            jid,
            tag,
            who,
            keep,
            beside,
        )
        if not background:
            return await call
        let_go(call, self.log, "wheel function {fun} failed", fun=fun)
        return {"jid": jid, "tag": tag}

    async def _call(
        self,
        kind: str,
        fun: str,
        function: Callable[..., Awaitable[Any]] | None,
        first: Any,
        arg: list[Any],
        kwarg: dict[str, Any],
        jid: str,
        tag: str,
        who: Who,
        keep: bool,
        beside: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        bus = self._ground.bus
        base = {**(beside or {}), "fun": f"{kind}.{fun}", "jid": jid, "user": who.name}
        fun_args, shown = _shown(kind, fun, arg, kwarg)
        if function is None:
            missing = {"return": f"'{fun}' is not available.", "success": False}
            told = {
                **(beside or {}),
                **missing,
                "retcode": 254,
                "fun": fun,
                "fun_args": fun_args,
                "jid": jid,
            }
            bus.fire(f"{tag}/ret", told)
            return {**base, **missing, "tag": tag, "retcode": 1}
        stamp = self._stamp()
        bus.fire(f"{tag}/new", {**base, **who.facts(), "fun_args": fun_args, "_stamp": stamp})
        self.active[jid] = {**base, "fun_args": fun_args, "_stamp": stamp, "pid": os.getpid()}
        try:
            value, success = await self._run(kind, fun, function, first, arg, kwarg)
            success = success and _is_success(first, value)
        finally:
            self.active.pop(jid, None)
        result = {**base, "tag": tag, "return": value, "success": success}
        result["retcode"] = 0 if success else 1
        told = {**base, **who.facts(), "fun_args": fun_args}
        told.update({"return": shown(value), "success": success})
        if keep and self._ground.config.job_cache:
            await self._keep(told, who, stamp)
        bus.fire(f"{tag}/ret", told)
        return result

    async def _keep(self, told: dict[str, Any], who: Who, stamp: str) -> None:
        """Into the job cache, as stock has it: the whole event is the return of this master."""
        name, jid = self._ground.node, told["jid"]
        job = {"fun": told["fun"], "arg": [], "tgt": name, "tgt_type": "list"}
        job.update({**who.facts(), **origin(who, name)})
        jobs = self._ground.jobs
        load = {"id": name, "jid": jid, "return": {**told, "_stamp": stamp}}
        try:
            # In one transaction: the job is before its return in the queue of what is written
            both = [as_deferred(jobs.save_job(jid, job, [])), as_deferred(jobs.save_return(load))]
            await gatherResults(both, consumeErrors=True)
        except FirstError as error:
            reason: BaseException = error.subFailure.value  # type: ignore[assignment]
            if not isinstance(reason, SaltwistedError):
                raise reason from None
            self.log.error(
                "Could not store job cache info of {jid}: {error}", jid=jid, error=reason
            )

    async def _run(
        self,
        kind: str,
        fun: str,
        function: Callable[..., Awaitable[Any]],
        first: Any,
        arg: list[Any],
        kwarg: dict[str, Any],
    ) -> tuple[Any, bool]:
        wrong = wrong_arguments(function, fun, arg, kwarg)
        if wrong:
            return wrong, False
        try:
            return await function(first, *arg, **kwarg), True
        except CancelledError:
            raise
        except TargetError as error:
            return f"Invalid target: {error.reason}", False
        except (SaltwistedError, ValueError) as error:
            return str(error), False
        except Exception as error:
            if HIDDEN.get():
                # The words of an error often are what the function was given
                self.log.error("{kind} {fun} failed: {how}", kind=kind, fun=fun, how=NOT_SHOWN)
            else:
                self.log.failure("{kind} {fun} failed", kind=kind, fun=fun)
            text = traceback.format_exception_only(type(error), error)[-1].strip()
            return f"Exception occurred in {kind} {fun}: {text}", False


def _shown(
    kind: str, fun: str, arg: list[Any], kwarg: dict[str, Any]
) -> tuple[list[Any], Callable[[Any], Any]]:
    """The arguments of a call as others may see them, and what makes its value so."""
    named: Mapping[str, Any] = kwarg
    shown, value = arg, _as_it_is
    if kind == "runner" and fun.startswith("auth."):
        shown, named = hidden_arguments(arg, kwarg)
        value = hidden_value
    if HIDDEN.get():
        shown, named, value = hide(shown), hide(named), hide
    return [*shown, named] if named else shown, value


def _as_it_is(value: Any) -> Any:
    return value


def _is_success(first: Any, value: Any) -> bool:
    """As stock judges it: a map with C{data} holds results of states."""
    if first.failed:
        return False
    return succeeded(value["data"]) if isinstance(value, dict) and "data" in value else True


def _clean(kwarg: Mapping[str, Any]) -> dict[str, Any]:
    """Without what clients of Salt put beside the arguments of a function."""
    return {k: v for k, v in kwarg.items() if k != "__kwarg__" and not k.startswith("__pub_")}
