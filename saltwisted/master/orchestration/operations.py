"""
What the processes of orchestrations may request through the control socket.

Each request names its run. It is executed in the name and with the rights of the user who started
that run: a user who may call the runner may do what the SLS says, as in stock.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

from saltwisted.domain.operations.arguments import FLAG, JID, LIST, MAP, TEXT, WHOLE, Argument
from saltwisted.domain.operations.table import Call, Operation, owner_only
from saltwisted.domain.secrecy import marked
from saltwisted.master.calls import HIDDEN
from saltwisted.master.control import FUNCTION, JOB, load_of
from saltwisted.master.loads import arguments_of
from saltwisted.master.orchestration.running import Active, Orchestrating
from saltwisted.master.runner_table import NOBODY

RUN = Argument("orchestration", TEXT, needed=True)
SECRET = Argument("no_log", FLAG)
"""Whether nobody may see what the step was given."""


class OrchestrationOperations:
    """Their rows of the table of operations."""

    def __init__(self, orchestrating: Orchestrating) -> None:
        self._orchestrating = orchestrating

    def operations(self) -> list[Operation]:
        """The rows."""
        own = owner_only("only the processes of orchestrations may ask this")
        return [
            Operation(
                name="orchestration.run",
                right=own,
                handler=self.run,
                takes=(RUN, SECRET, Argument("step", WHOLE), Argument("part", WHOLE), *JOB),
                streams=True,
            ),
            Operation(
                name="orchestration.parts",
                right=own,
                handler=self.parts,
                takes=(
                    RUN,
                    Argument("step", WHOLE, needed=True, may_be_empty=True),
                    Argument("turns", LIST, needed=True, may_be_empty=True),
                    Argument("lost", MAP),
                ),
            ),
            Operation(
                name="orchestration.runner",
                right=own,
                handler=self.runner,
                takes=(RUN, SECRET, *FUNCTION, Argument("jid", JID), Argument("saltenv", TEXT)),
            ),
            Operation(
                name="orchestration.wheel",
                right=own,
                handler=self.wheel,
                takes=(RUN, SECRET, *FUNCTION),
            ),
        ]

    async def run(self, call: Call) -> Any:
        """Publish a job for a step of an orchestration, and stream its returns."""

        async def publish(active: Active) -> Any:
            args = dict(call.args)
            times = (args.get("timeout"), args.get("gather_job_timeout"))
            del args["orchestration"]
            jid, number, part = None, args.pop("step", None), args.pop("part", None)
            goes_out = True
            if number is not None and part is not None:
                goes_out = await self._orchestrating.part(active.jid, number, part)
            # A step that is gone on with may have published its job already
            secret = args.pop("no_log", False)
            load, told = load_of(args), set[str]()
            if secret:
                load["kwargs"] = marked(load["kwargs"])
            again: Sequence[str] = ()
            late = self._orchestrating.is_just_taken_over(active)
            async with aclosing(active.run.publish_rest(load, *times, goes_out, late)) as items:
                async for item in items:
                    if item["kind"] == "published":
                        jid, told = item["jid"], set(item["told"])
                        if not jid:
                            await active.run.say(NOBODY)
                    elif item["kind"] == "missing" and told & set(item["ids"]):
                        lost = told & set(item["ids"])
                        again = self._orchestrating.unheard(active, str(jid), lost, item["idle"])
                    await call.stream(item)
            if again:
                # Under a jid of its own: a minion does not run a job twice
                load.update(jid="", tgt=list(again), tgt_type="list")
                async with aclosing(active.run.publish(load, *times)) as items:
                    async for item in items:
                        await call.stream(item)
            return {"jid": jid}

        return await self._orchestrating.act(call.args["orchestration"], publish)

    async def parts(self, call: Call) -> None:
        """Record which minions get a step's job, and in which order, before the first gets it."""
        args = call.args
        await self._orchestrating.parts(
            args["orchestration"], args["step"], args["turns"], args.get("lost") or {}
        )

    async def runner(self, call: Call) -> Any:
        """Run a runner function for a step of an orchestration."""

        async def run(active: Active) -> Any:
            arg, kwarg = arguments_of(call.args)
            fun, ctx = call.args["fun"], active.run.ctx
            HIDDEN.set(bool(call.args.get("no_log")) or active.run.secret)
            takes = ctx.calls.parameters("runner", fun)
            if takes is not None and "saltenv" in takes[0] and "saltenv" in call.args:
                # As in stock, the environment of the SLS counts
                kwarg["saltenv"] = call.args["saltenv"]
            above = active.run
            how: dict[str, Any] = {"exact": above.exact, "rules": above.rules}
            how["jid"] = call.args.get("jid")
            try:
                return await ctx.runner(fun, arg, kwarg, above.who, **how)
            finally:
                self._orchestrating.did(active, fun)

        return await self._orchestrating.act(call.args["orchestration"], run)

    async def wheel(self, call: Call) -> Any:
        """Run a wheel function for a step of an orchestration."""

        async def run(active: Active) -> Any:
            arg, kwarg = arguments_of(call.args)
            HIDDEN.set(bool(call.args.get("no_log")) or active.run.secret)
            return await active.run.ctx.wheel(call.args["fun"], arg, kwarg, active.run.who)

        return await self._orchestrating.act(call.args["orchestration"], run)
