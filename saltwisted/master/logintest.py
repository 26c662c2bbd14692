"""
C{auth.test}: what a login may do and why, for those who maintain the rules.
"""

from __future__ import annotations

from typing import Any

from saltwisted.config.logins import why_not
from saltwisted.domain.operations.arguments import ANYTHING, TEXT, Argument
from saltwisted.domain.operations.table import Call, Operation, owner_only
from saltwisted.errors import RemoteError
from saltwisted.kinds import LOGINS
from saltwisted.master.context import Context


class LoginTest:
    """One master's row of the table of operations."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    def operations(self) -> list[Operation]:
        """The row."""
        return [
            Operation(
                name="auth.test",
                right=owner_only("only root and the master's own user may test logins"),
                handler=self.test,
                takes=(
                    Argument("user", TEXT, needed=True),
                    Argument("eauth", TEXT),
                    Argument("password", ANYTHING),
                ),
            )
        ]

    async def test(self, call: Call) -> Any:
        """Report what a login may do, and why; without a password the user is only looked up."""
        args, logins = call.args, self._ctx.logins
        names = [name for name in self._ctx.config.external_auth if name in LOGINS.here]
        if args.get("eauth"):
            names = [args["eauth"]]
            if problem := why_not(args["eauth"]):
                raise RemoteError("SaltInvocationError", problem)
        password = args.get("password")
        word = None if password is None else str(password)
        return [await logins.explain(str(name), args["user"], word) for name in names]
