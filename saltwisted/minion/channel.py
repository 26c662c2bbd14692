"""
Requests from a minion to one master: seal, send, repeat, open.

A L{Channel} is given a L{Session} (which a sign-in fills) and a transport that
carries one frame there and one back (L{Requests}). It repeats what Salt
repeats: a request that was not answered in time is sealed again with a new
nonce and sent again; one that was refused (C{bad load}, or a reply under another
key) first makes the connection sign in again, once per try.

What comes back is the master's value. C{""} is what a stock master says when its
handler failed, C{{}} when it does not know the command.

For the daemon::

    value = await link.channel.request({"cmd": "_mine_get", "tgt": "*", "fun": "x"})
    pillar = await link.channel.pillar({"grains": ..., "saltenv": None, ...})

The daemon adds nothing but the command's own fields; C{id}, C{tok}, C{nonce}, C{ts} and
with C{minion_sign_messages} C{sig} are added here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from random import Random
from typing import Any, Protocol

from attrs import define, field, frozen
from twisted.internet.defer import Deferred

from saltwisted.config.options import MinionConfig
from saltwisted.errors import AuthenticationError, RequestTimeout, TransportClosed
from saltwisted.interfaces import Entropy
from saltwisted.wire.crypticle import SessionKey, open_raw, open_sealed, seal
from saltwisted.wire.envelope import (
    ClearReply,
    PrivateReply,
    Refusal,
    Reply,
    SealedReply,
    decode_reply,
    encode_sealed_request,
    open_private_reply,
    signed_form,
)
from saltwisted.wire.rsa import PrivateKey, PublicKey

Run = Callable[..., Awaitable[Any]]
"""C{run(function, *args)}: in a thread; fires in the reactor thread with what came of it."""


class Requests(Protocol):
    """What carries requests: L{saltwisted.transports.zeromq.dealer.DealerClient} and its likes."""

    def request(self, frame: bytes, timeout: float) -> Deferred[bytes]:
        """Send a frame, fire with its reply, or fail with L{TransportClosed} within the time."""

    def close(self) -> None:
        """Fail pending requests, and close all sockets. Idempotent."""


@frozen(kw_only=True)
class Identity:
    """
    Who this minion is, for all of its masters.

    @ivar tok: C{key.sign_x931(b"salt")}, made once.
    @ivar sign_messages: C{minion_sign_messages}.
    """

    id: str
    key: PrivateKey = field(repr=False)
    tok: bytes = field(repr=False)
    enc_algo: str = "OAEP-SHA1"
    sig_algo: str = "PKCS1v15-SHA1"
    sign_messages: bool = False


FORMER = 60.0
"""Seconds for which a publish key still opens what is signed, after another has taken its place."""
MAX_FORMER = 16
"""Former publish keys that are kept at most."""


@define
class Session:
    """
    The result of a sign-in; empty before the first, replaced in place by the next.

    While the publish key changes, publications arrive under the old key and the new one in any
    order: the nodes of a cluster do not switch at the same moment, and an answer can overtake an
    earlier publication. So a key that was replaced opens publications for a while.

    @ivar key: seals requests and opens replies.
    @ivar publish_key: opens publications.
    @ivar next_key: the publish key after this one, if the master has announced it.
    @ivar former: the earlier publish keys, and until when each is accepted.
    @ivar ours: whether the master is a saltwisted one.
    """

    key: SessionKey | None = field(default=None, repr=False)
    publish_key: SessionKey | None = field(default=None, repr=False)
    next_key: SessionKey | None = field(default=None, repr=False)
    former: dict[SessionKey, float] = field(factory=dict, repr=False)
    master_key: PublicKey | None = None
    ours: bool = False

    def told(
        self,
        now: float,
        current: SessionKey,
        following: SessionKey | None = None,
        before: Iterable[SessionKey] = (),
    ) -> None:
        """
        These are the publish keys of the master.

        @param before: those that it used shortly before.
        """
        former = {key: end for key, end in self.former.items() if end > now}
        for key in before:
            former.setdefault(key, now + FORMER)
        for old in (self.publish_key, self.next_key):
            if old is not None:
                former[old] = now + FORMER
        self.publish_key, self.next_key = current, following
        former.pop(current, None)
        if following is not None:
            former.pop(following, None)
        newest = sorted(former, key=former.__getitem__, reverse=True)[:MAX_FORMER]
        self.former = {key: former[key] for key in newest}

    def readable(self, now: float, signed: bool) -> list[SessionKey]:
        """
        The keys that may open a publication, the likeliest first.

        @param signed: whether it has the master's signature. Without one, only the key says whose
            it is, and somebody who was revoked since may have a former one.
        """
        found = [key for key in (self.publish_key, self.next_key) if key is not None]
        return found + [key for key, end in self.former.items() if signed and end > now]


@frozen(kw_only=True)
class Patience:
    """
    How long to wait for a reply, and how often to try. Seconds.

    Returns, events and mine use C{return_retry_timer}, everything else C{request_channel_*},
    as in Salt.
    """

    timeout: float = 60
    tries: int = 3
    return_timeout: float = 5
    return_timeout_max: float = 10
    return_tries: int = 3

    @classmethod
    def of(cls, config: MinionConfig) -> Patience:
        """As configured."""
        return cls(
            timeout=config.request_channel_timeout,
            tries=max(1, config.request_channel_tries),
            return_timeout=config.return_retry_timer,
            return_timeout_max=max(config.return_retry_timer, config.return_retry_timer_max),
            return_tries=max(1, config.return_retry_tries),
        )


RETURNING = frozenset(
    ("_return", "_syndic_return", "_minion_event", "_mine", "_mine_delete", "_mine_flush")
)


class RequestRefused(AuthenticationError):
    """
    The master would not read a request, even after a new sign-in.

    @ivar text: its words.
    """

    def __init__(self, text: str) -> None:
        super().__init__("refused")
        self.text = text


class MasterBusy(TransportClosed):
    """The master answered that it is not ready to serve (a cluster node that is joining)."""


class Channel:
    """
    The requests of one connection to one master.

    Any number may be in flight. Cancelling the Deferred of a request abandons it.

    @ivar heard: when the last reply was opened, by the clock of C{now}; 0 before the first.
    """

    def __init__(
        self,
        requests: Requests,
        identity: Identity,
        session: Session,
        sign_in: Callable[[], Deferred[None]],
        now: Callable[[], float],
        entropy: Entropy,
        dice: Random,
        run: Run,
        patience: Patience,
    ) -> None:
        """
        @param sign_in: signs in again and fills C{session}; calls made meanwhile share one sign-in.
        @param now: seconds since 1970, for C{ts}.
        @param run: for the RSA of pillars and signed messages.
        """
        self._requests = requests
        self._identity = identity
        self._session = session
        self._sign_in = sign_in
        self._now = now
        self._entropy = entropy
        self._dice = dice
        self._run = run
        self._patience = patience
        self.heard = 0.0

    def _time_for(self, cmd: str) -> tuple[float, int]:
        patience = self._patience
        if cmd in RETURNING:
            wait = self._dice.uniform(patience.return_timeout, patience.return_timeout_max)
            return wait, patience.return_tries
        return patience.timeout, patience.tries

    async def request(
        self,
        load: dict[str, Any],
        timeout: float | None = None,
        tries: int | None = None,
        raw: bool = False,
    ) -> Any:
        """
        Ask, and return the value of the answer.

        @param load: C{cmd} and its fields.
        @param timeout: seconds per try; default as configured for this command.
        @param raw: leave text as bytes (C{_serve_file}, whose data must not be guessed).
        @raises TransportClosed: no answer in all tries, or the connection is gone.
        @raises AuthenticationError: refused, or the answers cannot be trusted.
        @raises WireError: the answer is malformed.
        """

        async def read(reply: Reply, key: SessionKey, nonce: str) -> Any:
            if not isinstance(reply, SealedReply):
                raise AuthenticationError("not sealed")
            return (open_raw if raw else open_sealed)(key, reply.blob, nonce)

        return await self._exchange(load, timeout, tries, read)

    async def pillar(self, load: dict[str, Any], timeout: float | None = None) -> Any:
        """
        Ask for a pillar: the one command whose answer is signed and under a key of its own.

        @param load: the fields of C{_pillar}.
        @raises TransportClosed: as L{request}.
        @raises AuthenticationError: as L{request}; also a signature of another master.
        """
        identity, session = self._identity, self._session

        async def read(reply: Reply, key: SessionKey, nonce: str) -> Any:
            master = session.master_key
            if not isinstance(reply, PrivateReply) or master is None:
                raise AuthenticationError("not private")
            return await self._run(
                open_private_reply,
                reply,
                identity.key,
                master,
                nonce,
                identity.enc_algo,
                identity.sig_algo,
            )

        return await self._exchange({"ver": "2", **load, "cmd": "_pillar"}, timeout, None, read)

    async def _exchange(
        self,
        load: dict[str, Any],
        timeout: float | None,
        tries: int | None,
        read: Callable[[Reply, SessionKey, str], Awaitable[Any]],
    ) -> Any:
        usual_timeout, usual_tries = self._time_for(load["cmd"])
        wait = usual_timeout if timeout is None else timeout
        missed: TransportClosed = TransportClosed("not signed in")
        for _ in range(usual_tries if tries is None else tries):
            try:
                try:
                    return await self._once(load, wait, read)
                except AuthenticationError:
                    await self._sign_in()
                    return await self._once(load, wait, read)
            except RequestTimeout as error:
                missed = error
        raise missed

    async def _once(
        self,
        load: dict[str, Any],
        timeout: float,
        read: Callable[[Reply, SessionKey, str], Awaitable[Any]],
    ) -> Any:
        key = self._session.key
        if key is None:
            raise AuthenticationError("not signed in")
        identity = self._identity
        nonce = self._entropy(16).hex()
        sealed = {
            **load,
            "id": identity.id,
            "nonce": nonce,
            "ts": int(self._now()),
            "tok": identity.tok,
        }
        if identity.sign_messages:
            sealed["sig"] = await self._run(
                identity.key.sign, signed_form(sealed), identity.sig_algo
            )
        blob = seal(key, sealed, self._entropy(16))
        frame = encode_sealed_request(identity.id, blob, identity.enc_algo, identity.sig_algo)
        reply = decode_reply(await self._requests.request(frame, timeout))
        if isinstance(reply, Refusal):
            raise RequestRefused(reply.text)
        if isinstance(reply, ClearReply):
            # Anybody can write this: it is never taken for an answer, only for "not now".
            if isinstance(reply.value, dict) and reply.value.get("cluster_retry"):
                raise MasterBusy("cluster_retry")
            raise AuthenticationError("clear reply")
        value = await read(reply, key, nonce)
        self.heard = self._now()
        return value
