"""
The C{doc} runner: the documentation of each function.
"""

from __future__ import annotations

from typing import Any

from saltwisted.master.runner_table import Run, Runner, documentation


async def runner(run: Run) -> dict[str, str]:
    """
    Documentation of the runner functions.

    CLI Example::

        salt-run doc.runner
    """
    return {name: documentation(f) for name, f in run.ctx.calls.runners.all().items()}


async def wheel(run: Run) -> dict[str, str]:
    """
    Documentation of the wheel functions.

    CLI Example::

        salt-run doc.wheel
    """
    await run.ctx.calls.wheels.learn()
    return {name: documentation(f) for name, f in run.ctx.calls.wheels.all().items()}


async def execution(run: Run) -> dict[str, Any]:
    """
    Documentation of execution modules, asked of all minions.

    CLI Example::

        salt-run doc.execution
    """
    shown: dict[str, Any] = {}
    async for item in run.publish({"tgt": "*", "fun": "sys.doc", "arg": []}):
        if item["kind"] == "return" and isinstance(item["data"].get("return"), dict):
            shown.update(item["data"]["return"])
    return shown


FUNCTIONS: dict[str, Runner] = {"execution": execution, "runner": runner, "wheel": wheel}
