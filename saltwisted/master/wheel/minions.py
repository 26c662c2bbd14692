"""
The C{minions} wheel function: which minions are connected.
"""

from __future__ import annotations

from saltwisted.master.wheel_table import Call


async def connected(call: Call) -> list[str]:
    """Accepted minions that are connected now."""
    return sorted(call.ctx.presence.present(call.ctx.keys.accepted_ids()))


FUNCTIONS = {"connected": connected}
