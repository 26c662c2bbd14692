"""
C{_minion_event}: events of minions, onto the master's bus.

A minion may fire any tag of its own making, but never one by which a master, a
job or another minion speaks (T-EVT-1): those are dropped and counted, the rest
of the request is served.
"""

from __future__ import annotations

from typing import Any

from saltwisted.domain.events import minion_may_fire
from saltwisted.master.context import Context
from saltwisted.wire.commands import MinionEvent, RegisterResources


def minion_event(ctx: Context, who: str, cmd: MinionEvent) -> None:
    """Fire the event, or each of a list; the single form carries the whole load, as in Salt."""
    load = cmd.load
    if cmd.events is not None:
        for event in cmd.events:
            if not isinstance(event, dict):
                continue
            tag = event.get("tag")
            if not isinstance(tag, str) or not tag:
                continue
            # An entry without data is its own data, as in Salt
            data = event.get("data", event)
            if cmd.pretag:
                tag = f"{cmd.pretag}/{tag}"
            if not isinstance(data, dict):
                data = {"data": data}
            _fire(ctx, who, tag, data)
    elif cmd.tag:
        _fire(ctx, who, cmd.tag, load)


def _fire(ctx: Context, who: str, tag: str, data: dict[str, Any]) -> None:
    if not minion_may_fire(who, tag):
        ctx.counters["dropped:event"] += 1
        return
    ctx.bus.fire(tag, data, sender=who)


def register_resources(ctx: Context, who: str, cmd: RegisterResources) -> bool:
    """A 3008 minion names its resources at start; they are taken note of, and not managed."""
    return True
