"""
Who may do what on a master: the only place where requests of users are checked, whether they came
through the control socket or through the request port.

The rules are pure (L{saltwisted.domain.acl}); this module applies them to the master's options and
minions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from saltwisted.domain.acl import (
    Grant,
    blacklisting,
    bound_by_acl,
    may_publish,
    rules_for,
    special_allows,
)
from saltwisted.domain.who import Who
from saltwisted.doors import PUBLISH
from saltwisted.errors import RemoteError
from saltwisted.master.asked import asks
from saltwisted.master.context import Context
from saltwisted.master.loads import check_size, delimiter_of
from saltwisted.master.logins import User

CREDENTIALS = ("token", "eauth", "username", "password", "auth_list")
"""What proves a user, and goes no further than that."""


def wants_login(given: Any) -> bool:
    """
    Whether a request asks to be judged by a password or a token. Then it never is by anything
    else, such as the kernel's word about who sends it.
    """
    return isinstance(given, Mapping) and ("token" in given or "eauth" in given)


async def user_may_publish(ctx: Context, who: User, load: Mapping[str, Any]) -> Grant | None:
    """
    Whether a login may publish this, and to whom.

    @raises RemoteError: it is more than anybody judges.
    """
    check_size(load, PUBLISH.request)
    return await _judged(ctx, who.rules, who.name, load)


async def local_may_publish(
    ctx: Context, user: str, owner: bool, load: Mapping[str, Any]
) -> Grant | None:
    """
    Whether a local user may publish this, and to whom.

    @param user: the user's name; C{sudo_NAME} for one who became root.
    @param owner: whether this is root or the master's own user.
    @raises RemoteError: it is too large.
    """
    config = ctx.config
    # Of others it is the name of their account, which says nothing about who they were before
    name = bound_by_acl(bool(config.sudo_acl), config.publisher_acl, user) if owner else ""
    is_judged = not owner or bool(name)
    check_size(load, PUBLISH.request if is_judged else 0)
    if not is_judged:
        judging = blacklisting(
            config.publisher_acl_blacklist, user, load.get("fun"), load.get("arg") or []
        )
        return None if await ctx.dispatcher.targets.judged(judging) else Grant()
    name = name or user
    return await _judged(ctx, rules_for(config.publisher_acl, name), name, load)


async def _judged(
    ctx: Context, rules: Sequence[Any], user: str, load: Mapping[str, Any]
) -> Grant | None:
    return await ctx.dispatcher.targets.judged(
        may_publish(
            rules,
            ctx.config.publisher_acl_blacklist,
            user,
            load.get("fun"),
            load.get("arg") or [],
            load.get("tgt"),
            str(load.get("tgt_type") or "glob"),
            delimiter_of(load),
            {**(load.get("kwargs") or {}), "ret": load.get("ret")},
        )
    )


def tell_refusal(ctx: Context, who: Who, what: str, source: str, advice: str = "") -> None:
    """
    An authenticated user requested something forbidden: logs one line for those who maintain the
    rules.

    @param what: a verb and its object, as in the request.
    @param source: the interface through which the request came.
    @param advice: the line of the configuration that allows it, for a second line.
    """
    ctx.log.warn(
        "{who} may not {what} (by {source})",
        who=str(who)[:200],
        what=what[:400],
        source=source,
        foreign=True,
    )
    if advice:
        ctx.log.warn(
            "if it should, this line of the master's configuration allows it: {advice}",
            advice=advice,
            foreign=True,
        )


def tell_done(ctx: Context, who: Who, what: str, source: str) -> None:
    """
    Somebody does something that is allowed: logs one line, at every log level, for later questions
    about who did it.

    @param what: the operation and its object, without secrets.
    @param source: the interface, and the address.
    """
    asks(who, source)
    ctx.log.info(
        "{who} does {what} (by {source})",
        who=str(who)[:200],
        what=what[:400],
        source=source,
        foreign=True,
        always=True,
    )


def may_call(who: User, kind: str, fun: str, arg: Sequence[Any], kwarg: Mapping[str, Any]) -> None:
    """
    Whether a login may call a runner or wheel function.

    @param kind: C{runner} or C{wheel}.
    @raises NotProven: the user may not: Salt says the same as for a wrong password.
    @raises RemoteError: the name is not of the form C{module.function}.
    """
    if len(fun.split(".")) != 2:
        raise RemoteError(
            "SaltInvocationError", "A command invocation error occurred: Check syntax."
        )
    if not special_allows(who.rules, kind, fun, arg, kwarg):
        raise who.refused()
