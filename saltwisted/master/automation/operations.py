"""
The operations on a master's automation: rows of the table of operations.
"""

from __future__ import annotations

from typing import Any

from saltwisted.domain.operations.arguments import MAP, TEXT, Argument
from saltwisted.domain.operations.table import Call, Operation, owner_only
from saltwisted.master.automation.pause import Pause
from saltwisted.master.automation.reactor import Reactor

OWNER = owner_only("only root and the master's own user may do this")


class AutomationOperations:
    """The rows of the reactor, and the switch for all automation."""

    def __init__(self, reactor: Reactor, pause: Pause) -> None:
        self._reactor = reactor
        self._pause = pause

    def operations(self) -> list[Operation]:
        """The rows."""
        return [
            Operation(
                name="reactor.test",
                right=OWNER,
                handler=self.test,
                takes=(Argument("tag", TEXT, needed=True), Argument("data", MAP)),
            ),
            Operation(name="automation.pause", right=OWNER, handler=self.pause),
            Operation(name="automation.resume", right=OWNER, handler=self.resume),
            Operation(name="automation.status", right=OWNER, handler=self.status),
        ]

    async def test(self, call: Call) -> Any:
        """Report what an event with this tag and data would trigger; nothing runs."""
        return await self._reactor.looking.trial(call.args["tag"], call.args.get("data") or {})

    async def pause(self, call: Call) -> Any:
        """Stop all reactions and the schedule, until C{automation.resume}."""
        return await self._done(await self._pause.set(call.user))

    async def resume(self, call: Call) -> Any:
        """Resume reactions and the schedule."""
        return await self._done(await self._pause.clear(call.user))

    async def _done(self, changed: bool) -> dict[str, Any]:
        found = {"changed": changed, "paused": self._pause.shown()}
        unreached = await self._pause.unreached() if changed else []
        return {**found, "unreached": unreached} if unreached else found

    async def status(self, call: Call) -> Any:
        """Report the reactor's entries with their problems, its queue, counters and pause."""
        return self._reactor.status()
