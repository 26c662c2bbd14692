"""
The C{state} runner: so far the event bus. Orchestration comes with the state compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet.defer import Deferred

from saltwisted.domain.targeting.globs import globbed
from saltwisted.errors import TransportClosed
from saltwisted.master.runner_table import Run, Runner
from saltwisted.transports.deferreds import let_go


async def event(
    run: Run,
    tagmatch: str = "*",
    count: int = -1,
    quiet: bool = False,
    sock_dir: str | None = None,
    pretty: bool = False,
    node: str = "master",
) -> dict[str, Any]:
    """
    Show events as they come, until C{count} have been seen (for ever by default).

    Each goes to the caller as an item C{{"tag", "data"}}; the last is the value.

    CLI Example::

        salt-run state.event
        salt-run state.event 'salt/job/*' count=5
        salt-run state.event pretty=True
    """
    ended: Deferred[None] = Deferred()
    seen = 0
    last: dict[str, Any] = {}

    def receive(tag: str, data: Mapping[str, Any]) -> None:
        nonlocal seen, last
        if ended.called or tag.startswith(f"salt/run/{run.jid}"):
            return
        if not globbed(tag, tagmatch):
            return
        seen += 1
        last = {"tag": tag, "data": dict(data)}
        if not quiet:
            let_go(_tell(run, last, _end), run.ctx.log, "an event was not shown")
        if 0 < int(count) <= seen:
            _end()

    def _end() -> None:
        if not ended.called:
            ended.callback(None)

    stop = run.ctx.bus.subscribe("", receive)
    try:
        await ended
    finally:
        stop()
    return last if int(count) == 1 else {}


async def _tell(run: Run, item: dict[str, Any], gone: Callable[[], None]) -> None:
    try:
        await run.progress(item, "event")
    except TransportClosed:
        gone()


FUNCTIONS: dict[str, Runner] = {"event": event}
