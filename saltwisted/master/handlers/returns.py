"""
C{_return} and C{_syndic_return}: what minions send when a job is done.

A return is acknowledged once it is on disk, and announced on the bus then; a node with peers waits
for the disk of one of them as well (L{IAcknowledging<saltwisted.interfaces.IAcknowledging>}). A
disk that refuses means no answer: the minion keeps the return and tries again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltwisted.domain.jid import REQUEST, is_jid
from saltwisted.errors import WireError
from saltwisted.master.context import Context
from saltwisted.transports.deferreds import as_deferred
from saltwisted.wire.commands import Return, SyndicReturn

NOCACHE = "nocache"
"""In place of a jid: announce the return, and keep nothing (Salt's word)."""
STATE_FUNS = frozenset(("state.sls", "state.apply", "state.highstate", "state.sls_id", "state.top"))


def minion_return(ctx: Context, who: str, cmd: Return) -> Any:
    """
    Store a return and announce it; the answer (C{None}) is the acknowledgement.

    @raises WireError: for a jid that is none (T-PATH-6).
    @raises StoreError: through the Deferred, when the disk refuses.
    """
    load = cmd.load
    jid = load.get("jid")
    if jid == REQUEST:
        known = ctx.seams.acknowledging.repeated(who, load)
        jid = known or ctx.dispatcher.new_jid()
        load["jid"] = jid
        requested = known is None
    else:
        requested = False
        if jid != NOCACHE and not is_jid(jid):
            raise WireError("jid")
    load.pop("sig", None)
    if jid == NOCACHE or load.get("nocache") or not ctx.config.job_cache:
        announce(ctx, who, load)
        return None
    saved = as_deferred(ctx.jobs.save_return(load, requested=requested))

    def stored(_new: bool) -> Any:
        announce(ctx, who, load)
        ctx.seams.pins.returned(load["jid"], who)
        return ctx.seams.acknowledging.return_stored(load["jid"], who)

    return saved.addCallback(stored)


def announce(ctx: Context, who: str, load: Mapping[str, Any]) -> None:
    """Fire C{salt/job/<jid>/ret/<id>}, and one error event per failed state of a state run."""
    jid = load["jid"]
    ctx.bus.fire(f"salt/job/{jid}/ret/{who}", load)
    if (
        load.get("retcode")
        and load.get("fun") in STATE_FUNS
        and ctx.config.state_events is not None
    ):
        result = load.get("return")
        if isinstance(result, dict):
            for tag, chunk in result.items():
                if isinstance(chunk, dict) and chunk.get("result") is False:
                    ctx.bus.fire(
                        f"salt/job/{jid}/sub/{who}/error/{load['fun']}",
                        {**chunk, "id": who, "fun": load["fun"], "state": tag},
                    )


async def syndic_return(ctx: Context, who: str, cmd: SyndicReturn) -> None:
    """
    Returns that a syndic gathered from its own minions.

    Served only for ids that a key marks as syndic; there is none in this version, so
    the request is refused rather than trusted to speak for other minions (T-ID-1).
    """
    raise WireError("syndic")
