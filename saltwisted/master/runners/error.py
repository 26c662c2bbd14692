"""
The C{error} runner: fails, for those who try out what becomes of an error.
"""

from __future__ import annotations

from typing import Any

from saltwisted.errors import RemoteError
from saltwisted.master.runner_table import Run, Runner


async def error(run: Run, name: str | None = None, message: str = "") -> dict[str, Any]:
    """
    Fail with an error of this name and message; without a name, return an empty map.

    CLI Example::

        salt-run error.error name="Exception" message="This is an error."
    """
    if name is not None:
        raise RemoteError(str(name), f"Exception occurred in runner error.error: {name}: {message}")
    return {}


FUNCTIONS: dict[str, Runner] = {"error": error}
