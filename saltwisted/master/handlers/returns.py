"""
C{_return} and C{_syndic_return}: what minions send when a job is done.

A return is acknowledged when it is on disk, and then announced on the bus. A node with peers also
waits for the disk of one of them (L{IAcknowledging<saltwisted.interfaces.IAcknowledging>}). If the
disk refuses, there is no answer: the minion keeps the return and tries again.
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from inspect import isawaitable
from typing import Any

from saltwisted.domain.jid import REQUEST, is_jid
from saltwisted.domain.nested import FUNCTIONS
from saltwisted.domain.secrecy import is_open, telling, told
from saltwisted.errors import WireError
from saltwisted.master.context import Context
from saltwisted.master.returned import announce, keep
from saltwisted.stores.jobs.longpacking import is_long
from saltwisted.transports.turns import stepped
from saltwisted.wire.commands import Return, SyndicReturn

NOCACHE = "nocache"
"""In place of a jid: announce the return, and keep nothing (Salt's word)."""


def minion_return(ctx: Context, who: str, cmd: Return) -> Any:
    """
    Store a return and announce it; the answer (C{None}) is the acknowledgement.

    @raises WireError: for a jid that is none (T-PATH-6).
    @raises StoreError: through the Deferred, when the disk refuses.
    """
    load = dict(cmd.load)
    fun = load.get("fun")
    if isinstance(fun, list) and len(fun) > FUNCTIONS:
        # No command has as many
        load["fun"] = fun[:FUNCTIONS]
    if is_open(load):
        return _told(ctx, who, load)
    if is_long(load):
        return ctx.long_work.do(who, partial(_told_later, ctx, who, load))
    return _told(ctx, who, dict(told(load)))


async def _told_later(ctx: Context, who: str, load: dict[str, Any]) -> None:
    """Stars take the place of what is secret, in turns of the reactor."""
    taken = _told(ctx, who, dict(await stepped(ctx.clock, telling(load))))
    if isawaitable(taken):
        await taken


def _told(ctx: Context, who: str, load: dict[str, Any]) -> Any:
    jid = load.get("jid")
    if jid == REQUEST:
        known = ctx.seams.acknowledging.repeated(who, load)
        return (
            _named_later(ctx, who, load, known)
            if isawaitable(known)
            else _named(ctx, who, load, known)
        )
    if jid != NOCACHE and not is_jid(jid):
        raise WireError("jid")
    return _taken(ctx, who, load, False)


async def _named_later(
    ctx: Context, who: str, load: dict[str, Any], known: Awaitable[str | None]
) -> None:
    taken = _named(ctx, who, load, await known)
    if isawaitable(taken):
        await taken


def _named(ctx: Context, who: str, load: dict[str, Any], known: str | None) -> Any:
    """A return without a jid gets one: a new one, unless another node has given it one before."""
    load["jid"] = known or ctx.dispatcher.new_jid()
    return _taken(ctx, who, load, known is None)


def _taken(ctx: Context, who: str, load: dict[str, Any], requested: bool) -> Any:
    load.pop("sig", None)
    if load["jid"] == NOCACHE or load.get("nocache") or not ctx.config.job_cache:
        return announce(ctx, who, load)
    return keep(ctx, who, load, requested)


async def syndic_return(ctx: Context, who: str, cmd: SyndicReturn) -> None:
    """
    Returns that a syndic gathered from its own minions.

    Served only for ids that a key marks as syndic; there is none in this version, so
    the request is refused rather than trusted to speak for other minions (T-ID-1).
    """
    raise WireError("syndic")
