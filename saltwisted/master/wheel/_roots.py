"""
What C{file_roots} and C{pillar_roots} have in common: functions for the files below the directories
of an option.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from saltwisted.master import rootfiles
from saltwisted.master.wheel_table import Call


def functions(option: str, mode: int) -> Mapping[str, Callable[..., Any]]:
    """
    The wheel functions of one option, by name.

    @param option: whose value is the directories by environment.
    @param mode: of a file that is written and was not there.
    """

    def roots(call: Call) -> rootfiles.Roots:
        found: rootfiles.Roots = getattr(call.ctx.config, option)
        return found

    def never(call: Call) -> str:
        return str(call.ctx.config.pki_dir)

    async def find(call: Call, path: str, saltenv: str = "base") -> Any:
        """Where a path is found in an environment, and whether it is text."""
        return await call.ctx.pool(rootfiles.find, roots(call), path, saltenv, never(call))

    async def list_env(call: Call, saltenv: str = "base") -> Any:
        """All files of an environment, as a tree for each root."""
        return await call.ctx.pool(rootfiles.tree, roots(call), saltenv)

    async def list_roots(call: Call) -> dict[str, Any]:
        """The same for all environments."""
        return {env: [await list_env(call, env)] for env in roots(call)}

    async def read(call: Call, path: str, saltenv: str = "base") -> Any:
        """The contents of the text files that a path means."""
        return await call.ctx.pool(rootfiles.read, roots(call), path, saltenv, never(call))

    async def write(call: Call, data: str, path: str, saltenv: str = "base", index: int = 0) -> Any:
        """Write a file into a root of an environment, by default the first."""
        return await call.ctx.pool(
            rootfiles.write, roots(call), data, path, saltenv, int(index), mode, never(call)
        )

    named = (find, list_env, list_roots, read, write)
    return {function.__name__: function for function in named}
