"""
The C{orch} runner: orchestrations that were begun on any node. C{saltwisted orch} uses it to show
and control them.
"""

from __future__ import annotations

from typing import Any

from saltwisted.master.orchestration.views import refused
from saltwisted.master.runner_table import Run, Runner


async def list_(run: Run, limit: Any = 0) -> list[Any]:
    """
    List the orchestrations that any node knows of, oldest first: all, or the newest C{limit}.

    CLI Example::

        salt-run orch.list
        salt-run orch.list limit=20
    """
    return list(await run.ctx.seams.orchestrations.listed(int(limit or 0)))


async def show(run: Run, jid: Any, results: bool = False) -> dict[str, Any]:
    """
    Show an orchestration: each step with its state, node, jid and duration, and what it returned.

    CLI Example::

        salt-run orch.show 20261123105959171302
        salt-run orch.show 20261123105959171302 results=True
    """
    found = await refused(run.ctx.seams.orchestrations.show(str(jid)))
    shown: dict[str, Any] = found.shown(results=bool(results))
    return shown


async def resume(run: Run, jid: Any, step: Any = "") -> dict[str, Any]:
    """
    Have an orchestration go on that failed, was interrupted or stopped: from the first step that is
    not done, or from C{step} (its number or id); those before it count as done then.

    CLI Example::

        salt-run orch.resume 20261123105959171302
        salt-run orch.resume 20261123105959171302 step=4
    """
    kept = run.ctx.seams.orchestrations
    found = await refused(kept.go_on(str(jid), str(step or ""), run.user))
    shown: dict[str, Any] = found.shown(results=False)
    return shown


async def stop(run: Run, jid: Any) -> dict[str, Any]:
    """
    End an orchestration at once, on whichever node it runs. What minions do goes on there.

    CLI Example::

        salt-run orch.stop 20261123105959171302
    """
    found = await refused(run.ctx.seams.orchestrations.stop(str(jid), run.user))
    shown: dict[str, Any] = found.shown(results=False)
    return shown


FUNCTIONS: dict[str, Runner] = {"list": list_, "show": show, "resume": resume, "stop": stop}
