"""
C{returns}: the returns of a job, for the user who published it.

Runners that read the job cache are for root and for logins with a rule. A local user whom
C{publisher_acl} lets publish a job without waiting for it can fetch its returns here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltwisted.domain.operations.arguments import JID, Argument
from saltwisted.domain.operations.table import Call, Caller, Operation, Right
from saltwisted.domain.who import Who, who_in
from saltwisted.errors import DeniedError
from saltwisted.master.context import Context
from saltwisted.master.permits import local_may_publish, tell_refusal
from saltwisted.master.runners.jobs import SHOWN


class OwnJobs:
    """One master's row of the table of operations."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    def operations(self) -> list[Operation]:
        """The row."""
        words = "root and the daemon's own user, local users of the jobs that they have published"
        return [
            Operation(
                name="returns",
                right=Right(words, self._judge),
                handler=self.returns,
                takes=(Argument("jid", JID, needed=True),),
            )
        ]

    async def _judge(self, caller: Caller, args: Mapping[str, Any]) -> Who:
        """
        Who asks.

        A login may have the same name as an account, and is somebody else (T-WHO-1). The account
        must also be one that may publish this job now.

        @raises DeniedError: he has no account, or it is no job of his. Whether there is such a
            job is not said.
        """
        if not caller.name or caller.proof:
            raise DeniedError("only local users of this machine may do this")
        if caller.owner:
            return caller.account
        job = await self._ctx.jobs.job(args["jid"])
        if (
            job is None
            or job.get("claimed")  # by a minion alone, whose word it is
            or who_in(job) != caller.account
            or not await local_may_publish(self._ctx, caller.name, False, job)
        ):
            source = f"{caller.door}, {caller.source}"
            tell_refusal(self._ctx, caller.account, f"read the returns of {args['jid']}", source)
            raise DeniedError(f"{caller.name} has published no job {args['jid']}")
        return caller.account

    async def returns(self, call: Call) -> Any:
        """Give the returns of a job so far, by minion, as the runner `jobs.list_job` does."""
        found = await self._ctx.jobs.returns(call.args["jid"])
        return {
            minion: {key: value[key] for key in SHOWN if key in value}
            for minion, value in found.items()
        }
