"""
The operations on a master's orchestrations for operators: rows of the table of operations.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from saltwisted.domain.operations.arguments import FLAG, JID, TEXT, WHOLE, Argument
from saltwisted.domain.operations.table import Call, Operation, owner_only
from saltwisted.errors import DeniedError, RemoteError, TakenOver
from saltwisted.interfaces import IOrchestrations

OWNER = owner_only("only root and the master's own user may do this")
RUN = Argument("jid", JID, needed=True)


class OrchestrationViews:
    """The rows of C{saltwisted orch}."""

    def __init__(self, orchestrations: IOrchestrations) -> None:
        self._orchestrations = orchestrations

    def operations(self) -> list[Operation]:
        """The rows."""
        return [
            Operation(
                name="orch.list",
                right=OWNER,
                handler=self.list,
                takes=(Argument("limit", WHOLE),),
            ),
            Operation(
                name="orch.show",
                right=OWNER,
                handler=self.show,
                takes=(RUN, Argument("results", FLAG)),
            ),
            Operation(
                name="orch.resume",
                right=OWNER,
                handler=self.resume,
                takes=(RUN, Argument("step", TEXT)),
            ),
            Operation(name="orch.stop", right=OWNER, handler=self.stop, takes=(RUN,)),
        ]

    async def list(self, call: Call) -> Any:
        """List the orchestrations that any node knows of, oldest first: all, or the newest."""
        return list(await self._orchestrations.listed(int(call.args.get("limit") or 0)))

    async def show(self, call: Call) -> Any:
        """Show one orchestration: each step with its state, node, jid and duration."""
        run = await refused(self._orchestrations.show(str(call.args["jid"])))
        return run.shown(results=bool(call.args.get("results")))

    async def resume(self, call: Call) -> Any:
        """Continue an orchestration that failed, was interrupted or was stopped."""
        step = str(call.args.get("step") or "")
        jid = str(call.args["jid"])
        run = await refused(self._orchestrations.go_on(jid, step, call.user))
        return run.shown(results=False)

    async def stop(self, call: Call) -> Any:
        """End an orchestration at once, on whichever node it runs."""
        run = await refused(self._orchestrations.stop(str(call.args["jid"]), call.user))
        return run.shown(results=False)


async def refused(waiting: Awaitable[Any]) -> Any:
    """
    @raises RemoteError: it cannot be done, and why.
    """
    try:
        return await waiting
    except (DeniedError, TakenOver) as error:
        raise RemoteError("SaltInvocationError", str(error)) from error
