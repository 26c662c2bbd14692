"""
The mine: values that minions offer to one another, kept by the master.

The C{mine_get} option (who may ask for which functions at all) and each entry's own C{allow_tgt}
decide who may read what.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from saltwisted.domain.acl import command_fault, peer_allows
from saltwisted.domain.api.pieces import room_after
from saltwisted.domain.events import weight
from saltwisted.master.context import Context
from saltwisted.transports.turns import in_turns, pause
from saltwisted.wire.commands import MineDelete, MineFlush, MineGet, MineStore

MARK = "__saltmine_acl__"
"""Salt's mark of a mine entry that carries an access rule beside its value."""
VALUE = "__data__"
AT_ONCE = 10_000
"""Values of a mine that are looked at in the turn in which they come."""
VALUES = 60_000
"""Values that one minion may store, however short: they are read while others wait."""


def mine(ctx: Context, who: str, cmd: MineStore) -> Any:
    """
    Merge (or with C{clear} replace) what a minion offers. Stock masters fail on C{clear}.

    @return: false if it would be more than one minion may store here.
    """
    if ctx.config.enforce_mine_cache is False and ctx.config.minion_data_cache is False:
        return True
    old = {} if cmd.clear else ctx.cache.get("mine", who) or {}
    data = {**old, **cmd.data}
    if room_after(data, AT_ONCE) < 0:
        return ctx.long_work.do(who, partial(_long_mine, ctx, who, cmd))
    return _put(ctx, who, data, weight(data))


async def _long_mine(ctx: Context, who: str, cmd: MineStore) -> bool:
    """The same in some turns of the reactor, each of which takes a few milliseconds."""
    while True:
        old = None if cmd.clear else ctx.cache.get("mine", who)
        data = {**(old or {}), **cmd.data}
        await pause(ctx.clock)
        size = weight(data) if room_after(data, VALUES) >= 0 else float("inf")
        await pause(ctx.clock)
        # Another request may have changed it meanwhile
        if cmd.clear or ctx.cache.get("mine", who) is old:
            return _put(ctx, who, data, size)


def _put(ctx: Context, who: str, data: dict[str, Any], size: float) -> bool:
    if size > ctx.config.mine_size_max:
        ctx.counters["refused:mine"] += 1
        refused = ctx.counters["refused:mine"]
        if not refused & (refused - 1):
            # At 1, 2, 4, 8, ...: a minion that goes on trying does not fill the log
            ctx.log.warn(
                "refused mine data of {minion}, which would exceed mine_size_max: the old data "
                "stays ({refused} such refusals so far)",
                minion=who,
                refused=refused,
            )
        return False
    ctx.cache.put("mine", who, data)
    return True


def mine_delete(ctx: Context, who: str, cmd: MineDelete) -> bool:
    """Forget one function's value."""
    data = dict(ctx.cache.get("mine", who) or {})
    if data.pop(cmd.fun, None) is not None:
        ctx.cache.put("mine", who, data)
    return True


def mine_flush(ctx: Context, who: str, cmd: MineFlush) -> bool:
    """Forget all values of this minion."""
    ctx.cache.delete("mine", who)
    return True


async def mine_get(ctx: Context, who: str, cmd: MineGet) -> dict[str, Any]:
    """
    Values of other minions' mines.

    @return: minion to value for one function; function to that for several.
    """
    functions = functions_of(cmd.fun) if command_fault(cmd.fun) == "" else []
    if not functions:
        ctx.counters["refused:mine"] += 1
        return {}
    if ctx.config.mine_get:
        async for fun in in_turns(ctx.clock, functions):
            if not peer_allows(ctx.config.mine_get, who, fun):
                return {}
    tgt_type = cmd.tgt_type or cmd.expr_form or "glob"
    targets = ctx.dispatcher.targets
    # The answer must not tell it other minions' pillar
    selection = await targets.find(cmd.tgt, tgt_type, greedy=False, exact=True)
    return await gather(ctx, who, selection.minions, functions)


def functions_of(fun: Any) -> list[str]:
    """Names of functions: a list, or text with commas."""
    if isinstance(fun, str):
        return [f.strip() for f in fun.split(",") if f.strip()]
    return [str(f) for f in fun]


async def gather(
    ctx: Context, who: str | None, minions: Sequence[str], functions: list[str]
) -> dict[str, Any]:
    """
    The mine of these minions as C{who} may see it; C{None} is the master itself, which may see all.
    """
    found: dict[str, dict[str, Any]] = {}
    judged: dict[str, bool] = {}
    async for minion in in_turns(ctx.clock, minions):
        data = ctx.cache.get("mine", minion)
        if not data:
            continue
        for fun in functions:
            if fun not in data:
                continue
            visible, value = await _unwrap(ctx, who, data[fun], judged)
            if visible:
                found.setdefault(fun, {})[minion] = value
    if len(functions) == 1:
        return found.get(functions[0], {})
    return dict(found)


async def _unwrap(
    ctx: Context, who: str | None, entry: Any, judged: dict[str, bool]
) -> tuple[bool, Any]:
    """Whether C{who} may see an entry, and its value; C{judged} keeps what rules said."""
    if not (isinstance(entry, Mapping) and MARK in entry):
        return True, entry
    value = entry.get(VALUE)
    allowed = entry.get("allow_tgt")
    if who is None or not allowed:
        return True, value
    tgt_type = str(entry.get("allow_tgt_type") or "glob")
    key = repr((allowed, tgt_type))
    if key not in judged:
        targets = ctx.dispatcher.targets
        judged[key] = who in (await targets.find(allowed, tgt_type, only=who)).minions
    return judged[key], value
