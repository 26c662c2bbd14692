"""
C{_pillar}: compiles the pillar of the minion that asks, and of no other.

The identity is that of the session; the id that the minion claims is corrected before templates see
it. The answer is sealed only for the minion's key (T-PIL-1). So it is if another master of the
cluster makes it, because this one may have no pillars.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from saltwisted.domain.api.pieces import room_after
from saltwisted.domain.keys import valid_minion_id
from saltwisted.errors import DeniedError, WireError
from saltwisted.master.context import Context
from saltwisted.master.replies import Elsewhere, Private
from saltwisted.stores.jobs.longpacking import is_long, pack_in_turns
from saltwisted.transports.deferreds import as_deferred
from saltwisted.wire.commands import Pillar, parse_command
from saltwisted.wire.envelope import encode_private_reply
from saltwisted.wire.msgpack import pack, pack_bin, unpack, unpack_bin
from saltwisted.wire.rsa import PublicKey

VALUES = 20_000
"""Values that the kept grains of one minion may have; long texts count as several."""
UNREACHED = {"_errors": ["This master has no pillars, and it reaches no master that has."]}


async def pillar(ctx: Context, who: str, cmd: Pillar) -> Any:
    """Compile it, and remember the grains that came with the request."""
    grains = {**cmd.grains, "id": who}
    elsewhere = ctx.seams.pillars.elsewhere
    packed = b"" if elsewhere else await _compiled(ctx, who, cmd)
    if ctx.config.minion_data_cache:
        _remember(ctx, who, grains)
        if ctx.config.minion_data_cache_events:
            ctx.bus.fire(f"minion/refresh/{who}", {"Minion data cache refresh": who})
    if elsewhere:
        return Elsewhere(partial(_ask, ctx, who, cmd), pack(UNREACHED))
    if str(cmd.ver) != "2" and ctx.config.pillar_version == 1:
        return unpack(packed)
    return Private(packed)


def _remember(ctx: Context, who: str, grains: dict[str, Any]) -> None:
    """
    Keep the grains for targets, unless they are more than one minion may have kept.

    A target by grains looks at those of all minions while everybody waits.
    """
    if room_after(grains, VALUES) >= 0:
        ctx.cache.put("grains", who, grains)
        return
    ctx.counters["refused:grains"] += 1
    refused = ctx.counters["refused:grains"]
    if not refused & (refused - 1):
        ctx.log.warn(
            "the grains of {minion} are not kept, which have more than {most} values: targets by "
            "grains do not see it as it is now ({refused} such grains so far)",
            minion=who,
            most=VALUES,
            refused=refused,
        )


async def _ask(
    ctx: Context, who: str, cmd: Pillar, nonce: str, enc_algo: str, sig_algo: str
) -> bytes:
    """Have another master make the reply."""
    load = b"".join(await pack_in_turns(ctx.clock, cmd.load)) if is_long(cmd.load) else b""
    asked = question(who, cmd, nonce, enc_algo, sig_algo, load)
    reply: bytes = await as_deferred(ctx.seams.pillars.ask(asked))
    return reply


async def _compiled(ctx: Context, who: str, cmd: Pillar) -> bytes:
    return await ctx.pillars.packed(
        who,
        {**cmd.grains, "id": who},
        cmd.saltenv,
        cmd.pillarenv,
        cmd.pillar_override,
        ext=cmd.ext,
        extra=cmd.extra_minion_data,
        fresh=bool(cmd.clean_cache),
    )


# -- for a master of the same cluster that has no pillars ---------------------------


def question(
    who: str, cmd: Pillar, nonce: str, enc_algo: str, sig_algo: str, load: bytes = b""
) -> bytes:
    """
    What a master without pillars asks one that has them.

    @param load: the packed request, if somebody has packed it already.
    """
    return pack_bin([who, load or pack_bin(cmd.load), nonce, enc_algo, sig_algo])


async def answer(ctx: Context, body: bytes) -> bytes:
    """
    The private reply for a minion of another master: sealed for the key that is accepted here, so
    that nobody between can read it, nor ask for a pillar by a key of its own.

    @raises DeniedError: no such minion is accepted here.
    @raises WireError: no question.
    """
    try:
        who, load, nonce, enc_algo, sig_algo = unpack_bin(body)
        fields = unpack_bin(load)
    except (TypeError, ValueError) as error:
        raise WireError("pillar-question") from error
    if not valid_minion_id(who) or not isinstance(fields, dict) or not nonce:
        raise WireError("pillar-question")
    pub = ctx.keys.accepted(who)
    if pub is None:
        raise DeniedError(f"{who} is not accepted here")
    cmd = parse_command({**fields, "cmd": "_pillar"})
    if not isinstance(cmd, Pillar):
        raise WireError("pillar-question")
    packed = await _compiled(ctx, who, cmd)
    ctx.counters["pillar:for_others"] += 1
    seal_it = partial(
        encode_private_reply,
        packed,
        minion_key=PublicKey.from_pem(pub),
        master_key=ctx.identity,
        nonce=str(nonce),
        entropy=ctx.entropy,
        enc_algo=str(enc_algo),
        sig_algo=str(sig_algo),
    )
    sealed: bytes = await ctx.pool(seal_it)
    return sealed
