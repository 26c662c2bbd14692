"""
The C{event} runner: fires events by hand.
"""

from __future__ import annotations

from typing import Any

from saltwisted.domain.secrecy import hide
from saltwisted.master.runner_table import Run, Runner


async def send(run: Run, tag: str, data: Any = None) -> bool:
    """
    Fire an event with this tag and data on the master's bus.

    CLI Example::

        salt-run event.send my/custom/event '{"foo": "bar"}'
    """
    told = dict(data) if data is not None else {}
    run.ctx.bus.fire(str(tag), hide(told) if run.secret else told)
    return True


FUNCTIONS: dict[str, Runner] = {"send": send}
