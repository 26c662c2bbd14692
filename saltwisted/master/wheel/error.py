"""
The C{error} wheel function: fails, for those who try out what becomes of an error.
"""

from __future__ import annotations

from typing import Any

from saltwisted.errors import RemoteError
from saltwisted.master.wheel_table import Call


async def error(call: Call, name: str | None = None, message: str = "") -> dict[str, Any]:
    """Fail with an error of this name and message; without a name, return an empty map."""
    if name is not None:
        raise RemoteError(str(name), f"Exception occurred in wheel error.error: {name}: {message}")
    return {}


FUNCTIONS = {"error": error}
