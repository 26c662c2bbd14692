"""
The rules of rights of a master's operations: the same for every interface.

Root and the master's own user may do everything. Other accounts of this machine may publish what
C{publisher_acl} allows. If a caller shows a token or a password, C{external_auth} decides instead,
wherever the call comes from. Callers without an account here can only do that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltwisted.domain.acl import blacklisting
from saltwisted.domain.brief import brief
from saltwisted.domain.operations.table import Caller, Judge, Permitted, Right, owner_only
from saltwisted.domain.who import Who, local
from saltwisted.errors import DeniedError, RemoteError
from saltwisted.master.context import Context
from saltwisted.master.loads import arguments_of
from saltwisted.master.logins import NotProven
from saltwisted.master.permits import (
    local_may_publish,
    may_call,
    tell_refusal,
    user_may_publish,
    wants_login,
)

BESIDE = ("ret_config", "ret_kwargs")
"""What workers of a minion on this machine may say beside C{kwargs}, where it belongs."""
NO_LOGIN = "Authentication error occurred."


class Rights:
    """
    The rules, for one master.

    @ivar publish: its bounds are the minions by which a job was judged, as
        L{Dispatcher.publish<saltwisted.master.dispatch.Dispatcher.publish>} takes them; C{None}
        where the rules allow it on every minion.
    @ivar match: likewise.
    @ivar runner: its bounds are the rules of a login; C{None} for who is not bound by any.
    """

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        job = "local users by `publisher_acl`, logins by `external_auth`"
        self.publish = Right(job, self._publish)
        self.match = Right(f"{job}: who may run `test.ping` there", self._match)
        self.events = owner_only("only root and the master's own user may use the event bus")
        called = "root and the master's own user, logins by `external_auth`"
        self.runner = Right(called, self._caller("runner", "salt-run"))
        self.wheel = Right(called, self._caller("wheel", "salt-key"))

    async def _publish(self, caller: Caller, args: Mapping[str, Any]) -> Permitted:
        """
        Whom to publish as, if he may publish this, and to whom.

        @raises RemoteError: Salt's C{AuthenticationError} for a wrong password or token.
        @raises DeniedError: he may not.
        """
        args = as_job(args)
        proof = _proof(caller, args["kwargs"])
        if proof is not None:
            return await self._login_publishes(caller, proof, args)
        if not caller.name:
            raise self._unproven()
        name = caller.name
        asked = str(args.get("user") or "")
        if caller.owner and asked.startswith("sudo_"):
            name = asked
        grant = await local_may_publish(self._ctx, name, caller.owner, args)
        if grant is None:
            self._refuse(caller, local(name), f"publish {brief(args.get('fun'))}")
            blacklist = self._ctx.config.publisher_acl_blacklist
            judging = blacklisting(blacklist, name, args.get("fun"), args.get("arg") or [])
            if await self._ctx.dispatcher.targets.judged(judging):
                raise DeniedError(f"publisher_acl_blacklist does not let {name} run this")
            raise DeniedError(f'Authentication failure of type "user" occurred for user {name}.')
        return Permitted(local(name), grant.judged)

    async def _login_publishes(
        self, caller: Caller, proof: Mapping[str, Any], args: Mapping[str, Any]
    ) -> Permitted:
        try:
            proven = await self._ctx.logins.prove(proof, caller.source, caller.admits)
        except NotProven:
            raise self._unproven() from None
        grant = await user_may_publish(self._ctx, proven, args)
        if grant is None:
            self._refuse(caller, proven.who, f"publish {args.get('fun')}")
            raise DeniedError("Authorization error occurred.")
        return Permitted(proven.who, grant.judged)

    async def _match(self, caller: Caller, args: Mapping[str, Any]) -> Permitted:
        return await self._publish(caller, as_ping(args))

    def _caller(self, kind: str, command: str) -> Judge:
        async def judge(caller: Caller, args: Mapping[str, Any]) -> Who | Permitted:
            """
            Who calls this runner or wheel function, and the rules of a login.

            @raises DeniedError: he may not.
            @raises RemoteError: nobody that is known.
            """
            proof = _proof(caller, args)
            if proof is None:
                if not caller.name:
                    raise self._unproven()
                if not caller.owner:
                    raise DeniedError(f"only root and the master's own user may use {command}")
                return caller.account
            try:
                proven = await self._ctx.logins.prove(proof, caller.source, caller.admits)
                arguments = arguments_of(args)
                try:
                    may_call(proven, kind, str(args["fun"]), *arguments)
                except NotProven:
                    self._refuse(caller, proven.who, f"run {kind} {args['fun']}")
                    raise
            except NotProven as error:
                self._ctx.counters["denied:control"] += 1
                raise RemoteError(error.name, str(error)) from None
            return Permitted(proven.who, proven.rules)

        return judge

    def _unproven(self) -> RemoteError:
        self._ctx.counters["denied:control"] += 1
        return RemoteError("AuthenticationError", NO_LOGIN)

    def _refuse(self, caller: Caller, who: Who, what: str) -> None:
        tell_refusal(self._ctx, who, what, f"{caller.door}, {caller.source}")


def _proof(caller: Caller, given: Any) -> Mapping[str, Any] | None:
    """By what somebody is to be judged who does not rely on his account; C{None} if he does."""
    if caller.proof:
        return caller.proof
    return given if wants_login(given) else None


def as_job(args: Mapping[str, Any]) -> dict[str, Any]:
    """The load to be judged and published: with everything in C{kwargs} that belongs there."""
    load = dict(args)
    beside = {name: load.pop(name) for name in BESIDE if name in load}
    return {**load, "kwargs": {**beside, **(load.get("kwargs") or {})}}


def as_ping(args: Mapping[str, Any]) -> dict[str, Any]:
    """
    The smallest job for the target of a question: a user who may ping it may ask which minions it
    matches.
    """
    given = args.get("kwargs")
    kwargs = {
        **(given if isinstance(given, Mapping) else {}),
        "delimiter": args.get("delimiter"),
    }
    return {**args, "fun": "test.ping", "kwargs": kwargs}
