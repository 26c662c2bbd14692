"""
Clear requests of local clients: what the stock C{salt} command and its kin send to
the request port. They prove themselves by the content of a user key file.

External authentication (C{eauth}) is not available in this version; such requests are
refused with Salt's words for a failed authentication.
"""

from __future__ import annotations

from typing import Any

from saltwisted.domain.acl import publisher_allows
from saltwisted.errors import DeniedError, RemoteError, WireError
from saltwisted.master.context import Context
from saltwisted.wire.commands import Publish, Runner, Wheel, parse_command
from saltwisted.wire.envelope import ClearRequest
from saltwisted.wire.msgpack import pack


def _refusal(name: str, message: str) -> bytes:
    return pack({"error": {"name": name, "message": message}})


def _failed(ctx: Context) -> bytes:
    ctx.counters["denied:local"] += 1
    return _refusal("AuthenticationError", "Authentication failure occurred.")


def ping(ctx: Context, request: ClearRequest, peer: str) -> bytes:
    """Salt's echo of the load."""
    return pack(request.load)


async def publish(ctx: Context, request: ClearRequest, peer: str) -> bytes:
    """Publish a job for a local user."""
    cmd = parse_command(request.load, clear=True)
    if not isinstance(cmd, Publish):
        raise WireError("cmd")
    user = ctx.users.user_of(cmd.key, cmd.user or "")
    if user is None:
        return _failed(ctx)
    if not ctx.users.is_owner(user) and not await ctx.dispatcher.targets.judged(
        lambda resolve: publisher_allows(
            ctx.config.publisher_acl,
            ctx.config.publisher_acl_blacklist,
            user,
            cmd.fun,
            cmd.arg,
            cmd.tgt,
            cmd.tgt_type,
            resolve,
        )
    ):
        ctx.counters["denied:local"] += 1
        return _refusal("AuthorizationError", f"User {user} may not run {cmd.fun}")
    load = {k: v for k, v in request.load.items() if k != "key"}
    return pack({"enc": "clear", "load": await ctx.dispatcher.publish(load, user)})


def _owner(ctx: Context, load: dict[str, Any]) -> str | None:
    key, user = load.get("key"), load.get("user")
    if not isinstance(key, str):
        return None
    found = ctx.users.user_of(key, user if isinstance(user, str) else "")
    return found if found is not None and ctx.users.is_owner(found) else None


async def runner(ctx: Context, request: ClearRequest, peer: str) -> bytes:
    """Start a runner; the answer names its jid and tag, the result comes on the bus."""
    cmd = parse_command(request.load, clear=True)
    if not isinstance(cmd, Runner):
        raise WireError("cmd")
    user = _owner(ctx, request.load)
    if user is None:
        return _failed(ctx)
    started = await ctx.dispatcher.runner(
        cmd.fun, list(cmd.arg), dict(cmd.kwarg), user, background=True
    )
    return pack({"tag": started["tag"], "jid": started["jid"]})


async def wheel(ctx: Context, request: ClearRequest, peer: str) -> bytes:
    """Run a wheel function; its arguments lie flat in the load."""
    cmd = parse_command(request.load, clear=True)
    if not isinstance(cmd, Wheel):
        raise WireError("cmd")
    user = _owner(ctx, request.load)
    if user is None:
        return _failed(ctx)
    hidden = ("cmd", "fun", "key", "user", "arg", "kwarg", "token", "eauth")
    kwarg = {k: v for k, v in request.load.items() if k not in hidden and k[:2] != "__"}
    kwarg.update(request.load.get("kwarg") or {})
    try:
        result = await ctx.dispatcher.wheel(
            cmd.fun, list(request.load.get("arg") or []), kwarg, user, keep=True
        )
    except (DeniedError, RemoteError) as error:
        return _refusal("SaltInvocationError", str(error))
    return pack({"tag": result["tag"], "data": result})


def mk_token(ctx: Context, request: ClearRequest, peer: str) -> bytes:
    """No external authentication is configured: Salt's empty answer."""
    ctx.counters["denied:local"] += 1
    return pack("")


def get_token(ctx: Context, request: ClearRequest, peer: str) -> bytes:
    """There are no tokens."""
    return pack(False)
