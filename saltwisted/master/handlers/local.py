"""
Clear requests of local clients: what the stock C{salt} command and similar programs send to the
request port. They prove their identity by the contents of a user key file, by a token, or by a
password for external authentication (C{eauth}).

Their rights are checked as on the control socket (L{saltwisted.master.permits}).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from saltwisted.domain.brief import brief, quoted
from saltwisted.domain.who import Who, local
from saltwisted.errors import DeniedError, RemoteError, StoreError, WireError
from saltwisted.master.context import Context
from saltwisted.master.loads import arguments_of
from saltwisted.master.logins import NotProven
from saltwisted.master.permits import (
    CREDENTIALS,
    local_may_publish,
    may_call,
    tell_done,
    tell_refusal,
    user_may_publish,
    wants_login,
)
from saltwisted.wire.commands import GetToken, MakeToken, Publish, Runner, Wheel, parse_command
from saltwisted.wire.envelope import ClearRequest
from saltwisted.wire.msgpack import pack


def _refusal(name: str, message: str) -> bytes:
    return pack({"error": {"name": name, "message": message}})


def _failed(ctx: Context) -> bytes:
    ctx.counters["denied:local"] += 1
    return _refusal("AuthenticationError", "Authentication error occurred.")


def _way(peer: str) -> str:
    return f"the request port, from {peer}"


def ping(ctx: Context, request: ClearRequest, peer: str) -> bytes:
    """Salt's echo of the load."""
    return pack(request.load)


async def publish(ctx: Context, request: ClearRequest, peer: str) -> bytes:
    """Publish a job for a local user, or for a login."""
    cmd = parse_command(request.load, clear=True)
    if not isinstance(cmd, Publish):
        raise WireError("cmd")
    load = {k: v for k, v in request.load.items() if k != "key"}
    try:
        if wants_login(cmd.kwargs):
            proven = await ctx.logins.prove(cmd.kwargs, peer)
            who = proven.who
            grant = await user_may_publish(ctx, proven, load)
            load["kwargs"] = {k: v for k, v in cmd.kwargs.items() if k not in CREDENTIALS}
        else:
            found = ctx.users.user_of(cmd.key, cmd.user or "")
            if found is None:
                return _failed(ctx)
            user, owner = found
            who = local(user)
            grant = await local_may_publish(ctx, user, owner, load)
        if grant is None:
            ctx.counters["denied:local"] += 1
            tell_refusal(ctx, who, f"publish {brief(cmd.fun)}", _way(peer))
            return _refusal("AuthorizationError", "Authorization error occurred.")
        tell_done(ctx, who, f"publish fun={quoted(cmd.fun)} tgt={quoted(cmd.tgt)}", _way(peer))
        published = await ctx.dispatcher.publish(load, who, judged=grant.judged)
    except NotProven:
        return _failed(ctx)
    except (DeniedError, RemoteError) as error:
        return _denied(ctx, error)
    return pack({"enc": "clear", "load": published})


async def _caller(
    ctx: Context, load: Mapping[str, Any], kind: str, peer: str, arg: Any, kwarg: Any
) -> tuple[Who, Sequence[Any] | None]:
    """
    Who may call this runner or wheel function, and the rules of a login.

    @raises NotProven: nobody, or he may not.
    @raises RemoteError: not the master's own user, or the function's name is none.
    """
    if wants_login(load):
        proven = await ctx.logins.prove(load, peer)
        try:
            may_call(proven, kind, str(load.get("fun")), arg, kwarg)
        except NotProven:
            what = f"run {kind} {load.get('fun')}"
            tell_refusal(ctx, proven.who, what, _way(peer))
            raise
        return proven.who, proven.rules
    key, user = load.get("key"), load.get("user")
    if isinstance(key, str):
        found = ctx.users.user_of(key, user if isinstance(user, str) else "")
        if found is not None and found[1]:
            return local(found[0]), None
    raise RemoteError("UserAuthenticationError", 'Authentication failure of type "user" occurred')


def _denied(ctx: Context, error: DeniedError | RemoteError) -> bytes:
    ctx.counters["denied:local"] += 1
    name = error.name if isinstance(error, (NotProven, RemoteError)) else "AuthorizationError"
    return _refusal(name, str(error))


async def runner(ctx: Context, request: ClearRequest, peer: str) -> bytes:
    """Start a runner; the answer names its jid and tag, the result comes on the bus."""
    cmd = parse_command(request.load, clear=True)
    if not isinstance(cmd, Runner):
        raise WireError("cmd")
    arg, kwarg = list(cmd.arg), dict(cmd.kwarg)
    if isinstance(kwarg.get("arg"), list) and isinstance(kwarg.get("kwarg"), dict):
        # The form of stock clients: both lie in the one field
        arg, kwarg = [*arg, *kwarg["arg"]], kwarg["kwarg"]
    try:
        who, rules = await _caller(ctx, request.load, "runner", peer, arg, kwarg)
    except (NotProven, RemoteError) as error:
        return _denied(ctx, error)
    tell_done(ctx, who, f"runner fun={quoted(cmd.fun)}", _way(peer))
    started = await ctx.runner(cmd.fun, arg, kwarg, who, background=True, rules=rules)
    return pack({"tag": started["tag"], "jid": started["jid"]})


async def wheel(ctx: Context, request: ClearRequest, peer: str) -> bytes:
    """Run a wheel function; its arguments lie flat in the load."""
    cmd = parse_command(request.load, clear=True)
    if not isinstance(cmd, Wheel):
        raise WireError("cmd")
    hidden = ("cmd", "fun", "key", "user", "arg", "kwarg", *CREDENTIALS)
    kwarg = {k: v for k, v in request.load.items() if k not in hidden and k[:2] != "__"}
    try:
        arg, more = arguments_of(request.load)
        kwarg.update(more)
        who, _ = await _caller(ctx, request.load, "wheel", peer, arg, kwarg)
    except (NotProven, RemoteError) as error:
        return _denied(ctx, error)
    tell_done(ctx, who, f"wheel fun={quoted(cmd.fun)}", _way(peer))
    try:
        result = await ctx.wheel(cmd.fun, arg, kwarg, who, keep=True, loose=True)
    except (DeniedError, RemoteError) as error:
        return _refusal("SaltInvocationError", str(error))
    return pack({"tag": result["tag"], "data": result})


async def mk_token(ctx: Context, request: ClearRequest, peer: str) -> bytes:
    """A token for a name and a password; Salt's empty answer for wrong ones."""
    if not isinstance(parse_command(request.load, clear=True), MakeToken):
        raise WireError("cmd")
    try:
        return pack(await ctx.logins.make_token(request.load, peer))
    except (NotProven, StoreError):
        ctx.counters["denied:local"] += 1
        return pack("")


def get_token(ctx: Context, request: ClearRequest, peer: str) -> bytes:
    """What a token stands for; false for one that is not good."""
    cmd = parse_command(request.load, clear=True)
    if not isinstance(cmd, GetToken):
        raise WireError("cmd")
    found = ctx.logins.token(cmd.token)
    return pack(False if found is None else {**found.shown(), "token": cmd.token})
