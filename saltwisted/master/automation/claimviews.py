"""
What a master offers about its claims: rows of the table of operations, and a part of its status.
"""

from __future__ import annotations

from typing import Any

from saltwisted.domain.operations.arguments import TEXT, WHOLE, Argument
from saltwisted.domain.operations.table import Call, Operation, owner_only
from saltwisted.interfaces import IClaims

OWNER = owner_only("only root and the master's own user may see receipts")
MOST = 10_000


class ClaimViews:
    """Looks at what was claimed."""

    def __init__(self, claims: IClaims) -> None:
        self._claims = claims

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
        """Say which node claimed what, for which event, when it began and ended, and how."""
        limit = min(max(int(call.args.get("limit") or 1000), 1), MOST)
        found = await self._claims.receipts(str(call.args.get("event") or ""), limit)
        return [receipt.shown() for receipt in found]

    def status(self) -> dict[str, Any]:
        """Whether this master would claim, and who has which duty."""
        return {
            "would_claim": self._claims.would_claim(),
            "problem": self._claims.problem(),
            "duties": {name: list(held) for name, held in self._claims.holders().items()},
        }
