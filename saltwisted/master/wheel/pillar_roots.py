"""
The C{pillar_roots} wheel functions: the files below the directories of that option.
"""

from __future__ import annotations

from typing import Any

from saltwisted.master import rootfiles
from saltwisted.master.wheel_table import Call

_MODE = 0o600


async def find(call: Call, path: str, saltenv: str = "base") -> Any:
    """Where a path is found in an environment, and whether it is text."""
    return await call.ctx.pool(rootfiles.find, _roots(call), path, saltenv, _never(call))


async def list_env(call: Call, saltenv: str = "base") -> Any:
    """All files of an environment, as a tree for each root."""
    return await call.ctx.pool(rootfiles.tree, _roots(call), saltenv)


async def list_roots(call: Call) -> dict[str, Any]:
    """The same for all environments."""
    return {env: [await list_env(call, env)] for env in _roots(call)}


async def read(call: Call, path: str, saltenv: str = "base") -> Any:
    """The contents of the text files that a path means."""
    return await call.ctx.pool(rootfiles.read, _roots(call), path, saltenv, _never(call))


async def write(call: Call, data: str, path: str, saltenv: str = "base", index: int = 0) -> Any:
    """Write a file into a root of an environment, by default the first."""
    return await call.ctx.pool(
        rootfiles.write, _roots(call), data, path, saltenv, int(index), _MODE, _never(call)
    )


def _roots(call: Call) -> rootfiles.Roots:
    return call.ctx.config.pillar_roots


def _never(call: Call) -> str:
    return str(call.ctx.config.pki_dir)


FUNCTIONS = {
    "find": find,
    "list_env": list_env,
    "list_roots": list_roots,
    "read": read,
    "write": write,
}
