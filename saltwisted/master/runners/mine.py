"""
The C{mine} runner: what minions offer to one another, and requests to send it again.
"""

from __future__ import annotations

from typing import Any

from saltwisted.domain.brief import brief
from saltwisted.domain.targeting.matchers import is_kind
from saltwisted.master.handlers.mine import functions_of, gather
from saltwisted.master.runner_table import Run, Runner
from saltwisted.master.runners.salt import execute


async def get(run: Run, tgt: Any, fun: Any, tgt_type: str = "glob") -> Any:
    """
    Mine values of minions, by minion; entries with C{allow_tgt} only if it names this master.

    CLI Example::

        salt-run mine.get '*' network.interfaces
    """
    if not is_kind(tgt_type):
        raise ValueError(f"There is no kind of target {brief(tgt_type)!r}")
    functions = functions_of(fun)
    minions = await run.find(tgt, tgt_type, greedy=False)
    return await gather(run.ctx, run.ctx.node, minions, functions)


async def update(
    run: Run,
    tgt: Any,
    tgt_type: str = "glob",
    clear: bool = False,
    mine_functions: Any = None,
) -> dict[str, Any]:
    """
    Have minions send their mine values now.

    CLI Example::

        salt-run mine.update '*'
    """
    return await execute(
        run, tgt, "mine.update", tgt_type=tgt_type, clear=clear, mine_functions=mine_functions
    )


FUNCTIONS: dict[str, Runner] = {"get": get, "update": update}
