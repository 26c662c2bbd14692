"""
The C{config} wheel function: the options with which the master runs.
"""

from __future__ import annotations

from typing import Any

from saltwisted.config.secrets import shown
from saltwisted.master.wheel_table import Call


async def values(call: Call) -> dict[str, Any]:
    """The whole configuration as it is in force, without its secrets."""
    return shown(call.ctx.config.as_opts())


FUNCTIONS = {"values": values}
