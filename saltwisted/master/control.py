"""
The control socket of a master: what the command line may ask of it.

Who asks is told by the kernel (peer credentials). The master's own user and root
may do everything; anybody else what C{publisher_acl} says, and nothing about
keys. Who shows a token or a password instead is judged by C{external_auth}
(L{saltwisted.master.permits}). Each operation is a method named C{op_<name>}.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from twisted.logger import Logger

from saltwisted.domain.acl import blacklisted
from saltwisted.errors import DeniedError, RemoteError, StoreError
from saltwisted.master.context import Context
from saltwisted.master.logins import NotProven
from saltwisted.master.permits import (
    CREDENTIALS,
    arguments_of,
    delimiter_of,
    local_may_publish,
    may_call,
    tell_refusal,
    user_may_publish,
    wants_login,
)
from saltwisted.transports.ipc import Peer

Stream = Callable[[Any], Any]

NEEDED = {
    "publish": ("tgt", "fun"),
    "run": ("tgt", "fun"),
    "match": ("tgt",),
    "fire_event": ("tag",),
    "runner": ("fun",),
    "wheel": ("fun",),
}
"""Arguments without which an operation makes no sense; a target may be empty (nobody)."""


def user_name(uid: int) -> str:
    """The name of a local user; its number as text when it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


class Control:
    """Operations of the control socket; see the module's words for who may what."""

    log = Logger()

    def __init__(self, ctx: Context, status: Callable[[], dict[str, Any]]) -> None:
        self._ctx = ctx
        self._status = status

    async def handle(self, op: str, args: dict[str, Any], peer: Peer, stream: Stream) -> Any:
        """
        Serve one operation.

        @raises RemoteError: unknown operation, refused, or failed, with Salt's error names.
        """
        method = getattr(self, f"op_{op}", None) if op.isidentifier() else None
        if method is None:
            raise RemoteError("UnknownOperation", f"this master does not know {op!r}")
        for name in NEEDED.get(op, ()):
            if name not in args or (name != "tgt" and not args[name]):
                raise RemoteError("SaltInvocationError", f"{op} needs {name!r}")
        try:
            return await method(dict(args), peer, stream)
        except DeniedError as error:
            self._ctx.counters["denied:control"] += 1
            raise RemoteError("AuthorizationError", str(error)) from None

    def _is_owner(self, peer: Peer) -> bool:
        return peer.uid in (0, os.geteuid())

    async def _authorise(self, peer: Peer, load: Mapping[str, Any]) -> str:
        """
        The name to publish as, if this user may publish this.

        @raises RemoteError: Salt's C{AuthenticationError} for a wrong password or token.
        @raises DeniedError: he may not.
        """
        kwargs = load.get("kwargs")
        if wants_login(kwargs):
            try:
                who = await self._ctx.logins.prove(kwargs, f"uid {peer.uid}")  # type: ignore[arg-type]
            except NotProven:
                self._ctx.counters["denied:control"] += 1
                raise RemoteError("AuthenticationError", "Authentication error occurred.") from None
            if not await user_may_publish(self._ctx, who, load):
                self._refuse(who.name, f"publish {load.get('fun')}", peer)
                raise DeniedError("Authorization error occurred.")
            return who.name
        name = user_name(peer.uid)
        owner = self._is_owner(peer)
        asked = str(load.get("user") or "")
        if owner and asked.startswith("sudo_"):
            name = asked
        if not await local_may_publish(self._ctx, name, owner, load):
            self._refuse(name, f"publish {load.get('fun')}", peer)
            if blacklisted(
                self._ctx.config.publisher_acl_blacklist,
                name,
                load.get("fun"),
                load.get("arg") or [],
            ):
                raise DeniedError(f"publisher_acl_blacklist does not let {name} run this")
            raise DeniedError(f'Authentication failure of type "user" occurred for user {name}.')
        return name

    async def _caller(self, peer: Peer, kind: str, args: Mapping[str, Any]) -> str:
        """
        The name of who may call this runner or wheel function.

        @raises DeniedError: he may not.
        @raises RemoteError: nobody that is known.
        """
        if not wants_login(args):
            return self._need_owner(peer, "salt-run" if kind == "runner" else "salt-key")
        try:
            who = await self._ctx.logins.prove(args, f"uid {peer.uid}")
            arguments = arguments_of(args)
            try:
                may_call(who, kind, str(args["fun"]), *arguments)
            except NotProven:
                self._refuse(who.name, f"run {kind} {args['fun']}", peer)
                raise
        except NotProven as error:
            self._ctx.counters["denied:control"] += 1
            raise RemoteError(error.name, str(error)) from None
        return who.name

    def _refuse(self, who: str, what: str, peer: Peer) -> None:
        tell_refusal(self._ctx, who, what, f"the control socket, uid {peer.uid}")

    def _need_owner(self, peer: Peer, what: str) -> str:
        if not self._is_owner(peer):
            raise DeniedError(f"only root and the master's own user may use {what}")
        return user_name(peer.uid)

    async def op_publish(self, args: dict[str, Any], peer: Peer, stream: Stream) -> Any:
        """Publish a job and say who is expected."""
        user = await self._authorise(peer, args)
        return await self._ctx.dispatcher.publish(_without_credentials(args), user)

    async def op_run(self, args: dict[str, Any], peer: Peer, stream: Stream) -> Any:
        """Publish a job, stream its returns as they come, and end with who did not answer."""
        user = await self._authorise(peer, args)
        timeout = args.pop("timeout", None)
        gather = args.pop("gather_job_timeout", None)
        jid = None
        items: AsyncIterator[dict[str, Any]] = self._ctx.dispatcher.run(
            _without_credentials(args), user, timeout=timeout, gather_job_timeout=gather
        )
        async for item in items:
            if item["kind"] == "published":
                jid = item["jid"]
            await stream(item)
        return {"jid": jid}

    async def op_match(self, args: dict[str, Any], peer: Peer, stream: Stream) -> Any:
        """Which accepted minions a target means; nothing is published."""
        delimiter = args.get("delimiter")
        given = args.get("kwargs")
        kwargs = {**(given if isinstance(given, Mapping) else {}), "delimiter": delimiter}
        load = {**args, "fun": "test.ping", "kwargs": kwargs}
        await self._authorise(peer, load)
        selection = await self._ctx.find(
            args["tgt"], str(args.get("tgt_type") or "glob"), delimiter_of(load)
        )
        return sorted(selection.minions)

    async def op_events(self, args: dict[str, Any], peer: Peer, stream: Stream) -> Any:
        """Stream events of the bus; for the owner alone, since events carry returns."""
        self._need_owner(peer, "the event bus")
        await self._ctx.dispatcher.stream_events(args, stream)

    async def op_fire_event(self, args: dict[str, Any], peer: Peer, stream: Stream) -> Any:
        """Fire an event on the master's bus."""
        self._need_owner(peer, "the event bus")
        data = args.get("data")
        self._ctx.bus.fire(str(args["tag"]), data if isinstance(data, dict) else {"data": data})
        return True

    async def op_runner(self, args: dict[str, Any], peer: Peer, stream: Stream) -> Any:
        """
        Run a runner function; progress comes as items.

        C{keep} false keeps it out of the job cache: C{salt-run} asks for documentation so.
        """
        arg, kwarg = arguments_of(args)
        user = await self._caller(peer, "runner", args)
        return await self._ctx.dispatcher.runner(
            str(args["fun"]),
            arg,
            kwarg,
            user,
            stream,
            bool(args.get("async")),
            keep=bool(args.get("keep", True)),
            jid=args.get("jid"),
        )

    async def op_wheel(self, args: dict[str, Any], peer: Peer, stream: Stream) -> Any:
        """Run a wheel function (keys)."""
        arg, kwarg = arguments_of(args)
        user = await self._caller(peer, "wheel", args)
        return await self._ctx.dispatcher.wheel(str(args["fun"]), arg, kwarg, user)

    async def op_mk_token(self, args: dict[str, Any], peer: Peer, stream: Stream) -> Any:
        """A token for a name and a password of external authentication."""
        try:
            return await self._ctx.logins.make_token(args, f"uid {peer.uid}")
        except (NotProven, StoreError) as error:
            self._ctx.counters["denied:control"] += 1
            name = error.name if isinstance(error, NotProven) else "StoreError"
            raise RemoteError(name, str(error)) from None

    async def op_status(self, args: dict[str, Any], peer: Peer, stream: Stream) -> Any:
        """How the master is: version, ports, counters, reactor latency."""
        return self._status()


def _without_credentials(load: dict[str, Any]) -> dict[str, Any]:
    """What goes on to the job: never what proved who sends it."""
    kwargs = load.get("kwargs")
    if not isinstance(kwargs, Mapping):
        return load
    return {**load, "kwargs": {k: v for k, v in kwargs.items() if k not in CREDENTIALS}}
