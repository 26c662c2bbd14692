"""
Executes a reaction: publishes a job, runs a runner or a wheel function here, or calls a function of
the minion on this machine.

Jobs are published like all jobs. Runners and wheel functions run as C{Reactor}, with the master's
own rights, as in stock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from twisted.internet.defer import Deferred, succeed

from saltwisted.domain.reactions.chains import Link
from saltwisted.domain.reactions.reaction import (
    CALLER,
    LOCAL,
    RUNNER,
    USER,
    WHEEL,
    Reaction,
    ReactionError,
)
from saltwisted.domain.who import MASTER, Who, local
from saltwisted.errors import SaltwistedError
from saltwisted.master.context import Context
from saltwisted.master.workers import WorkerPool
from saltwisted.transports.bus import CAUSE

CALLER_ENTRY = "saltwisted.worker.automation.work:serve_caller"
CALLER_TIMEOUT = 300.0
"""Seconds that a function of the minion beside this master may take."""
SHOWN = 500
Parameters = Callable[[str, str], tuple[Sequence[str], bool] | None]


def load_of(reaction: Reaction) -> dict[str, Any]:
    """The publish load of a local reaction."""
    return {
        "tgt": reaction.tgt,
        "tgt_type": reaction.tgt_type,
        "fun": reaction.fun,
        "arg": reaction.arguments(),
        "ret": reaction.ret,
        "kwargs": dict(reaction.more),
    }


def settled_by(parameters: Parameters, reaction: Reaction) -> Reaction:
    """
    A reaction, with its arguments in the form that its function takes.

    @param parameters: of a runner or wheel function: L{Calls.parameters}.
    @raises ReactionError: the function does not exist, or does not take such an argument.
    """
    if reaction.kind not in (RUNNER, WHEEL):
        return reaction
    found = parameters(reaction.kind, reaction.fun)
    if found is None:
        raise ReactionError(f"'{reaction.fun}' is not available")
    return reaction.bound(*found)


class Acts:
    """One reaction at a time; each method raises L{ReactionError} with the reason of a failure."""

    def __init__(self, ctx: Context, workers: WorkerPool) -> None:
        self._ctx = ctx
        self._workers = workers

    def settled(self, reaction: Reaction) -> Reaction:
        """
        The reaction, with its arguments in the form that its function takes.

        @raises ReactionError: the function does not exist, or does not take such an argument.
        """
        return settled_by(self._ctx.calls.parameters, reaction)

    async def publish(
        self, load: Mapping[str, Any], jid: str, follow: bool, again: bool = False
    ) -> Deferred[str]:
        """
        Publish a job; returns what fires with its result.

        @param follow: fire only when all minions have returned, or had the time for it.
        @param again: whether it may have been published before, by an earlier life.
        @raises ReactionError: nobody gets it.
        """
        returns = Returns(self._ctx, jid) if follow else None
        try:
            who = local(str(self._ctx.config.user))
            done = await self._ctx.dispatcher.publish(load, who, jid, again=again)
        except SaltwistedError as error:
            if returns is not None:
                returns.close()
            raise ReactionError(str(error)) from None
        if not done["jid"]:
            if returns is not None:
                returns.close()
            raise ReactionError(str(done.get("error") or "no minions matched the target"))
        if returns is None:
            return succeed(f"published {jid}")
        return returns.of(done["minions"])

    async def call(
        self, kind: str, fun: str, arg: list[Any], kwarg: dict[str, Any], cause: Link
    ) -> None:
        """
        Run a function on this machine to its end.

        @param cause: the place of the events that it causes.
        @raises ReactionError: it failed; the text is that of the function.
        """
        if kind == CALLER:
            await self._call_minion(fun, arg, kwarg)
            return
        # Each call has a context of its own, which ends with it: see Deferred.fromCoroutine
        CAUSE.set(cause)
        run = self._ctx.runner if kind == RUNNER else self._ctx.wheel
        result = await run(fun, arg, kwarg, Who(USER, MASTER))
        if not result["success"]:
            raise ReactionError(str(result["return"]).strip()[:SHOWN])

    async def _call_minion(self, fun: str, arg: list[Any], kwarg: dict[str, Any]) -> None:
        payload = {"fun": fun, "arg": arg, "kwarg": kwarg}
        try:
            result = await self._workers.call(CALLER_ENTRY, payload, CALLER_TIMEOUT)
        except SaltwistedError as error:
            raise ReactionError(str(error)) from None
        if not result.get("success", True):
            raise ReactionError(str(result.get("return"))[:SHOWN])


class Returns:
    """Which minions have returned for one job; listens from before the job is published."""

    def __init__(self, ctx: Context, jid: str) -> None:
        self._ctx = ctx
        self._jid = jid
        self._prefix = f"salt/job/{jid}/ret/"
        self._came: set[str] = set()
        self._left: set[str] = set()
        self._done: Deferred[str] = Deferred()
        self._timer: Any = None
        self.close = ctx.bus.subscribe(self._prefix, self._returned)

    def of(self, minions: list[str]) -> Deferred[str]:
        """Fires when these have returned, or after C{timeout} and C{gather_job_timeout}."""
        config = self._ctx.config
        self._left = set(minions) - self._came
        seconds = float(config.timeout) + float(config.gather_job_timeout)
        self._timer = self._ctx.clock.callLater(seconds, self._end)
        if not self._left:
            self._end()
        return self._done

    def _returned(self, tag: str, data: Mapping[str, Any]) -> None:
        minion = tag[len(self._prefix) :]
        self._came.add(minion)
        if minion in self._left:
            self._left.discard(minion)
            if not self._left:
                self._end()

    def _end(self) -> None:
        if self._done.called:
            return
        self.close()
        if self._timer.active():
            self._timer.cancel()
        missing = f"; {len(self._left)} did not return" if self._left else ""
        self._done.callback(f"published {self._jid}{missing}")


def step_of(reaction: Reaction, once: str, jid: str = "") -> dict[str, Any]:
    """A reaction as plain data: what a claim holds, and what another node needs to finish it."""
    step: dict[str, Any] = {
        "kind": reaction.kind,
        "fun": reaction.fun,
        "id": reaction.id,
        "sls": reaction.sls,
    }
    if reaction.kind == LOCAL:
        return {**step, "jid": jid, "load": load_of(reaction)}
    return {**step, "arg": list(reaction.arg), "kwarg": dict(reaction.kwarg), "once": once}
