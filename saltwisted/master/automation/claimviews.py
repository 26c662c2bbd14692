"""
What a master reports about its claims: rows of the table of operations, and a part of its status.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltwisted.claiming import IClaims
from saltwisted.domain.operations.arguments import TEXT, WHOLE, Argument
from saltwisted.domain.operations.table import Call, Operation, owner_only

OWNER = owner_only("only root and the master's own user may see receipts")
MOST = 10_000
FIGURES = ("granted", "taken", "refused", "recovered", "lost")
"""What is counted of claims, as C{claims_granted} and so on."""


class ClaimViews:
    """
    Shows what was claimed.

    @param node: this node's id.
    @param counters: the counters of this master.
    """

    def __init__(self, claims: IClaims, node: str, counters: Mapping[str, int]) -> None:
        self._claims, self._node, self._counters = claims, node, counters

    def operations(self) -> list[Operation]:
        """The rows."""
        return [
            Operation(
                name="receipts",
                right=OWNER,
                handler=self.receipts,
                takes=(Argument("event", TEXT), Argument("limit", WHOLE)),
            )
        ]

    async def receipts(self, call: Call) -> Any:
        """List which node claimed what, for which event, when it began and ended, and how."""
        limit = min(max(int(call.args.get("limit") or 1000), 1), MOST)
        found = await self._claims.receipts(str(call.args.get("event") or ""), limit)
        return [receipt.shown() for receipt in found]

    def status(self) -> dict[str, Any]:
        """
        Whether this master would claim anything, who has which duty, and how many short acts since
        its start it was granted, found taken, was refused, finished for dead members, and had to
        report as lost.
        """
        holders = self._claims.holders()
        return {
            "would_claim": self._claims.would_claim(),
            "problem": self._claims.problem(),
            "duties": {name: list(held) for name, held in holders.items()},
            "held": sum(1 for node, _ in holders.values() if node == self._node),
            "figures": {name: self._counters.get(f"claims_{name}", 0) for name in FIGURES},
        }
