"""
C{_pillar}: compile the pillar of the minion that asks, and of no other.

The identity is the session's; what the minion says of its own id is put in
order before templates see it. The answer is sealed for its key alone (T-PIL-1).
"""

from __future__ import annotations

from typing import Any

from saltwisted.master.context import Context
from saltwisted.master.table import Private
from saltwisted.wire.commands import Pillar
from saltwisted.wire.msgpack import unpack


async def pillar(ctx: Context, who: str, cmd: Pillar) -> Any:
    """Compile it, and remember the grains that came with the request."""
    grains = {**cmd.grains, "id": who}
    packed = await ctx.pillars.packed(
        who,
        grains,
        cmd.saltenv,
        cmd.pillarenv,
        cmd.pillar_override,
        ext=cmd.ext,
        extra=cmd.extra_minion_data,
        fresh=bool(cmd.clean_cache),
    )
    if ctx.config.minion_data_cache:
        ctx.cache.put("grains", who, grains)
        if ctx.config.minion_data_cache_events:
            ctx.bus.fire(f"minion/refresh/{who}", {"Minion data cache refresh": who})
    if str(cmd.ver) != "2" and ctx.config.pillar_version == 1:
        return unpack(packed)
    return Private(packed)
