"""
Orchestrations that run in this master: a process for each, its data, and its messages.

The process compiles and decides (L{saltwisted.worker.orchestration.work}). Work on minions and in
the master is done here, in the name of the user who started the run. The file of steps is behind
C{Seams.orchestrations}.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred, DeferredLock, DeferredSemaphore
from twisted.logger import Logger, LogLevel

from saltwisted.domain.orchestration import takeover
from saltwisted.domain.orchestration.words import AS_JOB
from saltwisted.domain.who import who_in
from saltwisted.errors import DeniedError, RemoteError, SaltwistedError, TakenOver
from saltwisted.interfaces import IOrchestrating
from saltwisted.master.calls import HIDDEN
from saltwisted.master.context import Context
from saltwisted.master.dispatch import OF_RUN
from saltwisted.master.ground import Ground
from saltwisted.master.orchestration.progress import Progress
from saltwisted.master.processfiles import Lent, ProcessFiles
from saltwisted.master.runner_table import Run
from saltwisted.master.workers import Spawner
from saltwisted.transports.bus import CAUSE
from saltwisted.transports.deferreds import let_go, to_its_end, wait_for
from saltwisted.worker.states import pauses

ENTRY = "saltwisted.worker.orchestration.work:run"
SOCKET = "saltwisted.sock"
FETCHES = ("fileserver.update",)
"""Runners that have git remotes of files fetched."""
AT_ONCE = 64
"""Runs, beside those that are steps of others; more wait until one of them has ended."""
MOST = 256
"""Runs of all kinds."""
DEEPEST = 10
"""So many runs may be inside of one another: one that begins itself ends there."""
LEVELS = ((40, LogLevel.error), (30, LogLevel.warn), (20, LogLevel.info), (0, LogLevel.debug))

DEPTH: ContextVar[tuple[str, ...]] = ContextVar("orchestrations", default=())
"""The runs of which the present call is a step, the outermost first."""


@define(eq=False)
class Active:
    """
    A run with a process.

    @ivar above: the runs of which it is a step.
    @ivar begun: what was reported about it when it was compiled; nothing before.
    @ivar answer: what the process has answered, if it has.
    @ivar why: why it was ended from outside.
    @ivar left: whether others may continue it.
    @ivar progress: gets reports about its steps; C{None} before it was compiled.
    @ivar lows: the calls of steps that act, by the jid of each.
    @ivar taken_over: when this master began to continue it; C{None} if it began here.
    @ivar lent: the files that it reads, of one moment; C{None} if it reads directories.
    @ivar facts: which generation these are.
    @ivar follows: whether the jobs of its steps run on that generation, too; not after the run has
        had git remotes fetched.
    """

    run: Run
    what: Mapping[str, Any]
    above: tuple[str, ...]
    cause: Any = None
    begun: bool = False
    answer: Mapping[str, Any] | None = None
    why: str = ""
    left: bool = False
    progress: Progress | None = None
    child: Any = field(default=None, repr=False)
    lows: dict[str, Mapping[str, Any]] = field(factory=dict, repr=False)
    taken_over: float | None = None
    lent: Lent | None = None
    facts: Mapping[str, Any] = field(factory=dict)
    follows: bool = True

    @property
    def jid(self) -> str:
        """Its jid."""
        return self.run.jid

    @property
    def names(self) -> tuple[str, str]:
        """Its jid, and the one in its events."""
        return self.run.jid, str(self.what["kwarg"].get("__pub_jid") or "")


class Orchestrating:
    """Reactor thread only."""

    log = Logger()

    def __init__(
        self,
        ground: Ground,
        workers: Spawner,
        new_jid: Callable[[], str],
        context: Callable[[], Context],
    ) -> None:
        """
        @param workers: where processes come from.
        @param context: for runs that go on without a caller.
        """
        self._ground = ground
        self._workers = workers
        self._new_jid = new_jid
        self._context = context
        self._room = DeferredSemaphore(AT_ONCE)
        self._wishing = DeferredLock()
        self._active: dict[str, Active] = {}
        self._resumed: dict[str, dict[str, Any]] = {}
        self._read = ProcessFiles(ground, "orchestrations")

    def startService(self) -> Awaitable[Any]:
        """Nothing runs yet, and nobody reads what runs of an earlier life have copied."""
        return self._read.sweep()

    def stopService(self) -> None:
        """
        End all. What is written down of them has no end: another master may go on with it, or this
        one when it is back.
        """
        for jid in list(self._active):
            self._active[jid].left = True
            self.stop(jid, "this master is being stopped")

    @property
    def active(self) -> Mapping[str, Active]:
        """Those that run here now, by jid."""
        return self._active

    def found(self, jid: str) -> Active:
        """
        One of them.

        @raises RemoteError: there is none.
        """
        if jid not in self._active:
            raise RemoteError("SaltInvocationError", f"no orchestration {jid} runs here")
        return self._active[jid]

    def stop(self, jid: str, why: str) -> bool:
        """End a run at once; whether it ran here."""
        active = self._active.get(jid)
        if active is None:
            return False
        active.why = active.why or why
        if active.child is not None:
            active.child.kill()
        return True

    async def run(self, run: Run, what: Mapping[str, Any]) -> Any:
        """
        Run to the end in a process; returns the answer of the function of C{state}.

        @param what: C{do}, C{arg}, C{kwarg} (see L{saltwisted.worker.orchestration.work}), and
            C{runner}: the C{fun}, C{arg} and C{kwarg} by which it was called.
        @raises RemoteError: it could not be run, or was ended.
        """
        what = {**what, **self._resumed.pop(run.jid, {})}
        above = DEPTH.get()
        if len(above) >= DEEPEST:
            raise RemoteError(
                "SaltInvocationError",
                f"{len(above)} orchestrations are nested, beginning with "
                f"{above[0]}: does one begin itself?",
            )
        if above:
            return await self._run(run, what, above)
        await self._room.acquire()
        try:
            return await self._run(run, what, above)
        finally:
            self._room.release()

    async def _run(self, run: Run, what: Mapping[str, Any], above: tuple[str, ...]) -> Any:
        if len(self._active) >= MOST:
            raise RemoteError(
                "SaltInvocationError", f"more than {MOST} orchestrations would run at once"
            )
        active = Active(run, what, above, CAUSE.get())
        if what.get("do") == "resume":
            active.taken_over = self._ground.clock.seconds()
            # It is written down already: so has its end to be
            active.begun = True
        self._active[run.jid] = active
        outcome: dict[str, Any] = {"success": False}
        try:
            await self._lend(active)
            # If this master dies, whoever waits knows what to ask another one for
            await run.tell({"orchestration": run.jid})
            ended = await _uncancelled(self._spawn(active).exited)
            if active.answer is None:
                raise RemoteError(
                    "SaltRunnerError",
                    active.why or f"the process of orchestration {run.jid} {ended}",
                )
            if "error" in active.answer:
                raise RemoteError("SaltInvocationError", str(active.answer["error"]))
            if active.answer.get("killed"):
                run.judge(False)
                active.why = active.why or "it was ended early (state.soft_kill)"
            outcome = {"success": not run.failed}
            return active.answer["value"]
        except CancelledError:
            active.why = active.why or "whoever waited for it has gone"
            if active.child is not None:
                active.child.kill()
            raise
        finally:
            self._active.pop(run.jid, None)
            self._read.take_back(active.lent)
            if active.begun and not active.left:
                if active.why:
                    outcome["why"] = active.why
                await self._ground.seams.orchestrations.run_end(run.jid, outcome)

    def _spawn(self, active: Active) -> Any:
        """
        Its process.

        @raises RemoteError: it was ended before it had one.
        """
        if active.why:
            raise RemoteError("SaltRunnerError", active.why)
        payload = {
            **active.what,
            "folder": active.lent.folder if active.lent is not None else "",
            "jid": active.jid,
            "user": active.run.who.name,
            "secret": active.run.secret,
            "path": os.path.join(self._ground.config.sock_dir, SOCKET),
        }

        async def asked(op: str, args: dict[str, Any], peer: Any, stream: Any) -> Any:
            return await self._asked(active, op, args)

        active.child = self._workers.spawn(ENTRY, payload, asked)
        return active.child

    async def _lend(self, active: Active) -> None:
        """
        Choose what it reads: all runs that are inside of one another read the same, and what is
        gone on with reads what it read before.
        """
        outer = self._active.get(active.above[-1]) if active.above else None
        generation = active.what.get("generation")
        if outer is not None:
            active.facts, active.follows = outer.facts, outer.follows
            active.lent = self._read.lend(active.jid, outer.lent)
            return
        if not generation:
            active.facts = self._ground.seams.pins.facts(active.jid, AS_JOB)
            active.lent = self._read.lend(active.jid)
            return
        active.facts = {"generation": generation}
        active.follows = not _has_fetched(active.what)
        try:
            active.lent = await self._read.lend_again(active.jid, generation)
        except DeniedError as error:
            active.why = active.why or str(error)

    async def _asked(self, active: Active, op: str, args: dict[str, Any]) -> Any:
        """What a process says by the socket that it was born with."""
        if op == "files":
            return await self._read.answer(args.get("load"), active.lent)
        if op == "log":
            level = next(level for least, level in LEVELS if int(args["level"]) >= least)
            self.log.emit(
                level, "orchestration {jid}: {text}", jid=active.jid, text=args["message"]
            )
            return None
        if op == "answer":
            active.answer = args
            return None
        try:
            if op == "run_begin":
                # Its process may be killed before that counts, and then nobody shall go on with it
                begun = self._begin(active, args)
                await to_its_end(begun, self.log, "orchestration {jid}", jid=active.jid)
                return None
            if op in ("step_begin", "step_end"):
                return await self._step(active, op, int(args["number"]), args)
        except SaltwistedError as error:
            self.stop(active.jid, str(error))
            raise
        raise RemoteError("SaltInvocationError", f"an orchestration has no operation {op}")

    async def _begin(self, active: Active, args: Mapping[str, Any]) -> None:
        kept = self._ground.seams.orchestrations
        if active.why:
            raise TakenOver(active.why)
        await kept.run_begin(active.jid, self._told(active, args))
        active.begun = True
        active.progress = self._progress(active, args["chunks"])
        if self._active.get(active.jid) is not active and not active.left:
            # It was ended while this was written down: nobody shall go on with it
            why = active.why or "its process ended"
            await kept.run_end(active.jid, {"success": False, "why": why})

    async def _step(self, active: Active, op: str, number: int, args: Mapping[str, Any]) -> Any:
        kept, progress = self._ground.seams.orchestrations, active.progress
        if active.why:
            # Its process may not have heard yet that it is ended, and judges what it was refused
            raise TakenOver(active.why)
        if op == "step_end":
            await kept.step_end(active.jid, number, args["result"])
            if progress is not None:
                progress.ended(number, args["result"])
            return None
        granted = await kept.step_begin(active.jid, number, args["low"], self._new_jid())
        if granted["result"] is None:
            active.lows[str(granted["jid"])] = args["low"]
        if progress is not None and granted["result"] is None:
            progress.begins(number, args["low"], str(granted["jid"]))
        elif progress is not None:
            progress.knows(number)
        return dict(granted)

    def _progress(self, active: Active, chunks: Sequence[Mapping[str, Any]]) -> Progress:
        def tell(item: dict[str, Any]) -> None:
            # A terminal that stands still (Ctrl-S) halts no deploy
            let_go(wait_for(active.run.tell(item)), self.log, "a step was not told of")

        ground = self._ground
        return Progress(active.jid, ground.node, chunks, ground.now, ground.bus.fire, tell)

    def _told(self, active: Active, args: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "chunks": args["chunks"],
            "pillar": args["pillar"],
            "generation": str(active.facts.get("generation") or ""),
            "trees": dict(active.facts.get("trees") or {}),
            **active.run.who.facts(),
            "fun": active.what["runner"]["fun"],
            "options": {
                **{key: active.what[key] for key in ("arg", "kwarg", "runner")},
                "exact": active.run.exact,
                "rules": active.run.rules if active.run.rules is None else [*active.run.rules],
            },
            "parent": active.above[-1] if active.above else "",
            "secret": active.run.secret,
        }

    async def parts(
        self, jid: str, number: int, turns: Sequence[Sequence[str]], lost: Mapping[str, Any]
    ) -> None:
        """The job of a step goes out in parts: see L{IOrchestrations.step_parts}."""
        await self._kept(jid, self._ground.seams.orchestrations.step_parts, number, turns, lost)

    async def part(self, jid: str, number: int, part: int) -> bool:
        """One of them is about to go out: see L{IOrchestrations.step_part}."""
        kept = self._ground.seams.orchestrations
        return bool(await self._kept(jid, kept.step_part, number, part))

    async def _kept(self, jid: str, tell: Callable[..., Any], *args: Any) -> Any:
        if not self.found(jid).begun:
            return True
        try:
            return await tell(jid, *args)
        except SaltwistedError as error:
            self.stop(jid, str(error))
            raise

    def is_just_taken_over(self, active: Active) -> bool:
        """Whether it, or the run whose step it is, has minions still on their way to here."""
        earliest = self._ground.clock.seconds() - float(self._ground.config.publish_window)
        runs = (self._active.get(jid) for jid in (active.jid, *active.above))
        times = (each.taken_over for each in runs if each is not None)
        return any(since is not None and since > earliest for since in times)

    def unheard(
        self, active: Active, jid: str, minions: Collection[str], idle: Collection[str]
    ) -> Sequence[str]:
        """
        Minions that had a job when the node of their step died do not answer. Returns which of them
        get the job again, because the step may be done twice.

        @param idle: those of them that do not run it.
        @raises TakenOver: nobody can know what they did: the run is interrupted.
        """
        low = active.lows.get(jid, {})
        left = takeover.unheard(low, minions)
        if not left or low.get(takeover.RETRY) is True:
            return left
        why = takeover.unheard_why(jid, left, idle)
        self.stop(active.jid, why)
        raise TakenOver(why)

    async def act(self, jid: str, call: Callable[[Active], Any]) -> Any:
        """Do something for a run; the context contains its place among runs and events."""
        active = self.found(jid)
        if active.begun and not self._ground.seams.orchestrations.holds(jid):
            raise TakenOver(f"orchestration {jid} no longer runs on this node")
        DEPTH.set((*active.above, active.jid))
        CAUSE.set(active.cause)
        OF_RUN.set(str(active.facts.get("generation") or "") if active.follows else "")
        return await call(active)

    def did(self, active: Active, fun: str) -> None:
        """
        A step has called a runner. A run that fetches in its middle wants the new commits: as in
        stock, the jobs of the following steps use them.
        """
        if fun in FETCHES:
            active.follows = False

    async def wish(self, jid: str, wish: Mapping[str, Any], user: str) -> None:
        """
        Make a run halt, continue or end at one of its steps, here or on the node where it runs.

        @raises RemoteError: the run does not exist.
        """
        kept = self._ground.seams.orchestrations
        here = [active for active in self._active.values() if jid in active.names]
        if not here:
            try:
                await kept.wish_elsewhere(jid, wish, user)
            except (DeniedError, TakenOver) as error:
                raise RemoteError("SaltInvocationError", str(error)) from error
            return
        # The disk and the line shall say the same, also if whoever asks goes away between them
        await to_its_end(self._wished(jid, here, wish, user), self.log, "a wish of {jid}", jid=jid)

    async def _wished(
        self, jid: str, here: Sequence[Active], wish: Mapping[str, Any], user: str
    ) -> None:
        kept = self._ground.seams.orchestrations
        cachedir, pool = self._ground.config.cachedir, self._ground.pool
        await self._wishing.acquire()
        try:
            wishes, _ = await pool(pauses.read, cachedir, jid)
            pauses.apply(wishes, wish)
            for active in here:
                # Steps of the run have lines of their own, but nobody goes on with them
                if active.begun and not active.above:
                    await kept.wished(active.jid, wishes, user)
            await pool(pauses.put, cachedir, jid, wishes)
        finally:
            self._wishing.release()

    async def resume(
        self,
        jid: str,
        run: Mapping[str, Any],
        done: Mapping[str, Mapping[str, Any]],
        wishes: Mapping[str, Any],
    ) -> Mapping[str, Any]:
        """
        Go on with a run that was compiled before: its runner is called again, under the same jid.

        @raises RemoteError: it runs here.
        """
        if jid in self._active or jid in self._resumed:
            raise RemoteError("SaltInvocationError", f"orchestration {jid} runs already")
        called = run["options"]["runner"]
        HIDDEN.set(bool(run.get("secret")))
        name = str(run["options"]["kwarg"].get("__pub_jid") or jid)
        # Also where there are none now: an earlier life may have left some
        await self._ground.pool(pauses.put, self._ground.config.cachedir, name, wishes)
        if jid in self._active or jid in self._resumed:
            raise RemoteError("SaltInvocationError", f"orchestration {jid} runs already")
        self._resumed[jid] = {
            "do": "resume",
            "chunks": run["chunks"],
            "done": dict(done),
            "generation": str(run.get("generation") or ""),
        }
        try:
            return await self._context().runner(
                str(run["fun"]),
                list(called["arg"]),
                dict(called["kwarg"]),
                who_in(run),
                own=jid,
                exact=bool(run["options"].get("exact")),
                rules=run["options"].get("rules"),
            )
        finally:
            self._resumed.pop(jid, None)


def _has_fetched(what: Mapping[str, Any]) -> bool:
    """Whether a step that is done of what is gone on with had git remotes fetched."""
    return any(
        low.get("fun") == "runner" and low.get("name") in FETCHES and str(number) in what["done"]
        for number, low in enumerate(what["chunks"])
    )


def _uncancelled(d: Deferred[Any]) -> Deferred[Any]:
    """Fires with another Deferred, which does not end when this one is cancelled."""
    mine: Deferred[Any] = Deferred()

    def fired(value: Any) -> Any:
        if not mine.called:
            mine.callback(value)
        return value

    _ = d.addCallback(fired)
    return mine


_Orchestrating: type[IOrchestrating] = Orchestrating  # mypy compares them
