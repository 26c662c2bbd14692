"""
Operations on git remotes: their rows of the table of operations.
"""

from __future__ import annotations

from typing import Any

from saltwisted.commits import IGitSharing
from saltwisted.domain.operations.arguments import LIST, Argument
from saltwisted.domain.operations.table import Call, Operation, owner_only
from saltwisted.master.gitupdates import GitUpdates

OWNER = owner_only("only root and the master's own user may do this")


class GitOperations:
    """Reactor thread only."""

    def __init__(self, updates: GitUpdates, sharing: IGitSharing, node: str) -> None:
        self._updates, self._sharing, self._node = updates, sharing, node

    def operations(self) -> list[Operation]:
        """The rows."""
        return [
            Operation(
                name="git.update",
                right=OWNER,
                handler=self.update,
                takes=(Argument("remotes", LIST),),
                record=("remotes",),
            ),
            Operation(name="git.status", right=OWNER, handler=self.status),
        ]

    async def update(self, call: Call) -> Any:
        """Fetch from git at once, for all nodes; give the commits of each ref before and after."""
        names = call.args.get("remotes")
        return await self._updates.update([str(name) for name in names] if names else None)

    async def status(self, call: Call) -> Any:
        """Report which commits of each git remote each node serves."""
        others = await self._sharing.everywhere()
        return {"node": self._node, "nodes": {self._node: self._updates.copies.told(), **others}}
