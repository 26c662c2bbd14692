"""
Operations on the commits that a lone master serves: C{roots log} and C{rollback}.
"""

from __future__ import annotations

from typing import Any

from saltwisted.domain.operations.arguments import FLAG, TEXT, WHOLE, Argument
from saltwisted.domain.operations.table import Call, Operation, owner_only
from saltwisted.master.earliercommits import EarlierCommits

FAMILY = "roots"
BY_WORD = {FAMILY: ("do", "log")}
MAY = owner_only("only root and the master's own user may ask about roots")
MOST = 20


class CommitControl:
    """The operations, as rows of the table."""

    def __init__(self, earlier: EarlierCommits) -> None:
        self._earlier = earlier

    def operations(self) -> list[Operation]:
        """The rows."""
        share = Argument("share", TEXT)
        return [
            Operation(
                name="roots.log",
                right=MAY,
                handler=self.log,
                takes=(share, Argument("most", WHOLE)),
                streams=True,
            ),
            Operation(
                name="roots.rollback",
                right=MAY,
                handler=self.rollback,
                takes=(
                    share,
                    Argument("generation", TEXT, needed=True),
                    Argument("dry_run", FLAG),
                ),
                streams=True,
                record=("generation",),
            ),
        ]

    async def log(self, call: Call) -> Any:
        """The generations of git that are kept, the newest first."""
        return self._earlier.log_rows(int(call.args.get("most") or MOST))

    async def rollback(self, call: Call) -> Any:
        """Serve an earlier generation of git until something new is pushed; or say what would."""
        return self._earlier.roll_back(str(call.args["generation"]), bool(call.args.get("dry_run")))
