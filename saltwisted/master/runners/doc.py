"""
The C{doc} runner: what each function says of itself.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from typing import Any

from saltwisted.master.runner_table import Run, Runner, functions

_MARKUP = re.compile(r"[CLBI]\{((?:[^{}]|\{[^{}]*\})*)\}")


def documentation(function: Any) -> str:
    """A function's own words, laid out as Salt prints them, without our markup."""
    text = inspect.getdoc(function) or ""
    text = _MARKUP.sub(r"\1", text).replace("::\n", ":\n")
    text = re.sub(r"^@(param|ivar|return|raises)( ?)", r"\2", text, flags=re.MULTILINE)
    return f"\n{textwrap.indent(text, '    ')}\n    "


async def runner(run: Run) -> dict[str, str]:
    """
    Documentation of the runner functions.

    CLI Example::

        salt-run doc.runner
    """
    return {name: documentation(f) for name, f in sorted(functions().items())}


async def wheel(run: Run) -> dict[str, str]:
    """
    Documentation of the wheel functions.

    CLI Example::

        salt-run doc.wheel
    """
    from saltwisted.master.wheel_table import functions as wheel_functions

    return {name: documentation(f) for name, f in sorted(wheel_functions().items())}


async def execution(run: Run) -> dict[str, Any]:
    """
    Documentation of execution modules, asked of all minions.

    CLI Example::

        salt-run doc.execution
    """
    shown: dict[str, Any] = {}
    async for item in run.ctx.dispatcher.run({"tgt": "*", "fun": "sys.doc", "arg": []}, run.user):
        if item["kind"] == "return" and isinstance(item["data"].get("return"), dict):
            shown.update(item["data"]["return"])
    return shown


FUNCTIONS: dict[str, Runner] = {"execution": execution, "runner": runner, "wheel": wheel}
