"""
Requests by which a minion makes the master act: publish a job, run a runner, revoke itself.

Only the C{peer}, C{peer_run} and C{allow_minion_key_revoke} options allow these requests. The
answer to a refusal is Salt's empty map, the same for every reason. Targets that a minion names are
read without wildcards for pillar values: otherwise it could find out other minions' pillars.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from saltwisted.domain.acl import Grant, command_fault, peer_allows, peer_may_publish
from saltwisted.domain.arguments import AT_ONCE, TEXT, in_one_list, read_input, yaml_weight
from saltwisted.domain.brief import brief
from saltwisted.domain.events import rough_weight
from saltwisted.domain.firing import SEND, tag_sent
from saltwisted.domain.minionevents import refusal
from saltwisted.domain.secrecy import marked
from saltwisted.domain.targeting.bounds import fault
from saltwisted.domain.targeting.selection import exact_form, guesses_pillar
from saltwisted.domain.who import MINION, Who
from saltwisted.doors import PUBLISH
from saltwisted.errors import DeniedError, RemoteError
from saltwisted.master.calls import HIDDEN
from saltwisted.master.context import Context
from saltwisted.master.loads import seconds_of
from saltwisted.master.permits import tell_refusal
from saltwisted.wire.commands import (
    MinionPub,
    MinionPublish,
    MinionRunner,
    PublishKeys,
    PubRet,
    RevokeAuth,
)

_Peer = MinionPub | MinionPublish | MinionRunner


async def _read(ctx: Context, cmd: _Peer) -> tuple[list[Any], dict[str, Any]] | None:
    """
    Positional and keyword arguments of a request; they come as a list, or as one bare value.

    As in stock, it is the master that reads their texts. What takes a while is read beside the
    reactor.

    @return: C{None}: they are too large, or what their YAML means is.
    """
    bare = [] if cmd.arg is None else [cmd.arg]
    given = list(cmd.arg) if isinstance(cmd.arg, (list, tuple)) else bare
    kept = (
        [each for each in cmd.no_parse if isinstance(each, str)]
        if (isinstance(cmd.no_parse, (list, tuple)))
        else []
    )
    weight = yaml_weight(given)
    if rough_weight(given) > PUBLISH.request or weight > TEXT:
        ctx.counters["refused:too-large"] += 1
        return None
    if weight > AT_ONCE:
        arg, kwarg = await ctx.pool(read_input, given, None, frozenset(kept))
    else:
        arg, kwarg = read_input(given, no_parse=frozenset(kept))
    if rough_weight([arg, kwarg]) > PUBLISH.request:
        # Aliases, which repeat each other
        ctx.counters["refused:too-large"] += 1
        return None
    return arg, kwarg


async def _permitted(
    ctx: Context, who: str, cmd: MinionPub | MinionPublish, arg: Sequence[Any]
) -> Grant | None:
    tgt_type = cmd.tgt_type or "glob"
    if command_fault(cmd.fun) or fault(cmd.tgt, tgt_type):
        return None
    if rough_weight(cmd.ret) > PUBLISH.request:
        ctx.counters["refused:too-large"] += 1
        return None
    if guesses_pillar(cmd.tgt, tgt_type, ctx.config.nodegroups or {}):
        ctx.counters["denied:pillar-guess"] += 1
        return None
    return await ctx.dispatcher.targets.judged(
        peer_may_publish(
            ctx.config.peer,
            who,
            cmd.fun,
            arg,
            cmd.tgt,
            exact_form(tgt_type),
            cmd.ret,
        )
    )


async def minion_pub(ctx: Context, who: str, cmd: MinionPub) -> dict[str, Any]:
    """Publish a job for a minion, which then asks for the returns with C{pub_ret}."""
    words = await _read(ctx, cmd)
    arg = in_one_list(*words) if words else []
    grant = None if words is None else await _permitted(ctx, who, cmd, arg)
    if grant is None:
        ctx.counters["denied:minion_pub"] += 1
        tell_refusal(ctx, Who(who, MINION), f"publish {brief(cmd.fun)}", "peer publication")
        return {}
    published = await ctx.dispatcher.publish(
        {
            "tgt": cmd.tgt,
            "tgt_type": cmd.tgt_type or "glob",
            "fun": cmd.fun,
            "arg": arg,
            "ret": cmd.ret,
            "id": who,
            "kwargs": marked(None) if cmd.no_log else {},
        },
        Who(who, MINION),
        exact=True,
        judged=grant.judged,
    )
    if published.get("jid"):
        ctx.dispatcher.remember_issuer(published["jid"], who)
    return {"jid": published.get("jid"), "minions": published.get("minions", [])}


async def minion_publish(ctx: Context, who: str, cmd: MinionPublish) -> dict[str, Any]:
    """Publish a job for a minion and wait for what comes back within its time-out."""
    try:
        timeout = seconds_of(cmd.timeout, ctx.config.timeout)
        words = await _read(ctx, cmd)
        arg = in_one_list(*words) if words else []
        grant = None if words is None else await _permitted(ctx, who, cmd, arg)
    except RemoteError:
        grant = None
    if grant is None:
        ctx.counters["denied:minion_publish"] += 1
        tell_refusal(ctx, Who(who, MINION), f"publish {brief(cmd.fun)}", "peer publication")
        return {}
    found: dict[str, Any] = {}
    async for item in ctx.dispatcher.run(
        {
            "tgt": cmd.tgt,
            "tgt_type": cmd.tgt_type or "glob",
            "fun": cmd.fun,
            "arg": arg,
            "ret": cmd.ret,
            "id": who,
            "kwargs": marked(None) if cmd.no_log else {},
        },
        Who(who, MINION),
        timeout=timeout,
        exact=True,
        judged=grant.judged,
    ):
        if item["kind"] == "return":
            data = item["data"]
            found[item["id"]] = (
                data.get("return")
                if cmd.form != "full"
                else {"ret": data.get("return"), "fun": data.get("fun"), "jid": data.get("jid")}
            )
    return found


async def pub_ret(ctx: Context, who: str, cmd: PubRet) -> dict[str, Any]:
    """Returns so far of a job that this minion had published; of no other job."""
    if ctx.dispatcher.issuer(str(cmd.jid)) != who:
        return {}
    returns = await ctx.jobs.returns(str(cmd.jid))
    return {minion: {"ret": ret.get("return")} for minion, ret in returns.items()}


async def minion_runner(ctx: Context, who: str, cmd: MinionRunner) -> Any:
    """Run a runner function for a minion, where C{peer_run} allows it."""
    if not peer_allows(ctx.config.peer_run or {}, who, cmd.fun):
        ctx.counters["denied:minion_runner"] += 1
        tell_refusal(ctx, Who(who, MINION), f"run {brief(cmd.fun)}", "peer_run")
        return {}
    words = await _read(ctx, cmd)
    if words is None:
        return {}
    arg, kwarg = words
    if cmd.fun == SEND:
        tag = tag_sent(arg, kwarg)
        refused = refusal(ctx.config.minion_events, who, tag)
        if refused is not None:
            ctx.counters[refused.counter] += 1
            told = f"fire {brief(tag)}"
            tell_refusal(ctx, Who(who, MINION), told, refused.source, refused.advice)
            return {}
    HIDDEN.set(bool(cmd.no_log))
    try:
        result = await ctx.runner(cmd.fun, arg, kwarg, Who(who, MINION), exact=True)
    except DeniedError:
        return {}
    return result.get("return")


async def revoke_auth(ctx: Context, who: str, cmd: RevokeAuth) -> bool:
    """A minion takes back its own key."""
    if not ctx.config.allow_minion_key_revoke:
        ctx.counters["denied:revoke_auth"] += 1
        return False
    await ctx.wheel(
        "key.delete",
        [],
        {"match": who, "exact": True, "preserve_minions": bool(cmd.preserve_minion_cache)},
        Who(who, MINION),
    )
    return True


def publish_keys(ctx: Context, who: str, cmd: PublishKeys) -> dict[str, Any]:
    """
    A saltwisted minion's heartbeat: the publish keys, the next one ahead of its use, those that
    were in use until lately, and the masters of a cluster.

    A stock master answers this unknown command with an empty map, which is heartbeat enough.
    """
    keys: dict[str, Any] = {"aes": ctx.publisher.key.text}
    following = ctx.publisher.tell_next()
    if following is not None:
        keys["next"] = following.text
    if former := ctx.publisher.former():
        keys["before"] = [key.text for key in former]
    masters = list(ctx.seams.masters.masters())
    if masters:
        keys["masters"] = masters
        keys["self"] = ctx.seams.masters.serves
    return keys
