"""
The sign-in of one link: it asks, checks the answer, remembers the master and fills the session;
also sign-ins of a link that is up already.

L{saltwisted.wire.handshake} has the bytes and the checks. This module has the repetitions of Salt
(C{auth_timeout} times C{auth_tries}), the key file, and the translation of every possible error
into an event of the rules, in words that tell an operator what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from saltwisted.config.options import MinionConfig
from saltwisted.domain.replica.tokens import prove_minion
from saltwisted.domain.targeting.matchers import MinionFacts
from saltwisted.errors import (
    AuthenticationError,
    RequestTimeout,
    SaltwistedError,
    StoreError,
    TransportClosed,
    WireError,
)
from saltwisted.minion.channel import Requests, Session
from saltwisted.minion.outside import Outside
from saltwisted.minion.rules import Denied, Distrusted, Event, Failed, Rules, SignedIn
from saltwisted.wire.crypticle import SessionKey
from saltwisted.wire.handshake import (
    Accepted,
    HandshakeError,
    MasterFingerprint,
    MasterKeyChanged,
    MinionHandshake,
    NotYet,
)

MOST_PATIENCE = 30.0
"""Seconds for which a master may keep the answer that our key is pending."""


REOPEN_EVERY = 5.0
"""Seconds between two sign-ins that publications of our master may cause."""


class SignInTalk:
    """
    Signs in to one master, as often as requested.

    @ivar publish_port: where to subscribe, after the first success.
    """

    log = Logger()

    def __init__(
        self,
        name: str,
        config: MinionConfig,
        rules: Rules,
        outside: Outside,
        session: Session,
        facts: Callable[[], MinionFacts],
    ) -> None:
        identity = outside.identity
        self._name = name
        self._config = config
        self._rules = rules
        self._outside = outside
        self._session = session
        self._facts = facts
        self._keys = outside.keys_of(name) if outside.keys_of is not None else outside.keys
        self.publish_port = 0
        self._patience = 0.0
        self._asked = False
        self._handshake = MinionHandshake(
            id=identity.id,
            key=identity.key,
            token=SessionKey.generate(outside.entropy).text,
            enc_algo=identity.enc_algo,
            sig_algo=identity.sig_algo,
            verify_master_pubkey_sign=config.verify_master_pubkey_sign,
            always_verify_signature=config.always_verify_signature,
            sign_key=outside.sign_key,
            open_mode=config.open_mode,
            master_finger=config.master_finger,
            hash_type=config.hash_type,
        )

    async def exchange(self, requests: Requests, tries: int | None = None) -> Event:
        """
        Sign in.

        @param tries: how often to ask while nobody answers; else C{auth_tries}.

        @return: L{SignedIn}, and the session is filled; or L{Denied}, L{Distrusted}, L{Failed}.
        """
        for _ in range(tries or self._rules.auth_tries):
            try:
                return await self._once(requests)
            except RequestTimeout:
                # It may be another process that answers next, and keep its answer
                self._asked = False
                continue
            except MasterKeyChanged as error:
                return Distrusted(
                    f"the master shows the key {error.got}, but {self._keys.path} holds "
                    f"{error.expected}. If the master's key was changed on purpose, remove "
                    "that file. If not, somebody may be intercepting the connection"
                )
            except MasterFingerprint as error:
                return Distrusted(
                    f"the master's key is {error.got}, but master_finger, or the token by which "
                    f"this minion joins, says {error.expected}"
                )
            except HandshakeError as error:
                return Distrusted(f"the sign-in cannot be trusted: {error.reason}")
            except StoreError as error:
                return Distrusted(f"no master can be trusted: {error}")
            except WireError as error:
                return Failed(
                    f"this is not the answer of a Salt master ({error.reason})", answered=True
                )
            except TransportClosed as error:
                self._asked = False
                return Failed(f"no connection ({error})")
        return Failed("the master does not answer")

    async def _once(self, requests: Requests) -> Event:
        outside = self._outside
        known = self._keys.known()
        nonce = outside.entropy(16).hex()
        token = outside.join.held() if outside.join is not None else None
        join: Sequence[Any] = ()
        if token is not None:
            pub = outside.identity.key.public.pem
            proof = prove_minion(token.secret, outside.identity.id, pub, nonce)
            join = (token.id, proof.hex())
        patience, self._patience = self._patience, 0.0
        frame = self._handshake.request(nonce, known, self._autosign_grains(), join, patience)
        asked = outside.reactor.seconds()
        reply = await requests.request(frame, self._rules.auth_timeout + patience)
        held = patience > 0 and outside.reactor.seconds() - asked > patience / 2
        pin = token.pin if token is not None else ""
        result = await outside.run(self._handshake.read, reply, nonce, known, pin)
        if isinstance(result, NotYet):
            if result.reason == "pending" and (held or not self._asked):
                # A master of ours keeps its answer until the key is accepted. Another one answers
                # at once, and is not asked to wait again.
                self._patience = min(self._rules.acceptance_wait_time, MOST_PATIENCE)
            self._asked = result.reason == "pending"
            return Denied(result.reason, held)
        self._asked = False
        await self._accepted(result)
        if outside.join is not None and token is not None:
            await outside.run(outside.join.done)
        return SignedIn()

    async def _accepted(self, result: Accepted) -> None:
        if result.remember:
            await self._outside.run(self._keys.remember, result.master_key)
            self.log.info(
                "master {master}: its key {finger} is trusted from now on",
                master=self._name,
                finger=result.master_key.fingerprint(self._config.hash_type),
            )
        session = self._session
        if session.master_key != result.master_key:
            session.publish_key, session.next_key, session.former = None, None, {}
        session.key = result.session
        session.master_key = result.master_key
        session.ours = result.ours
        if session.publish_key != result.publish_key:
            session.told(self._outside.reactor.seconds(), result.publish_key)
        # publish_port of our own configuration wins over the master's word, as in Salt
        own = self._config.publish_port
        self.publish_port = own if own not in (0, 4505, 4506) else result.publish_port

    def _autosign_grains(self) -> dict[str, Any] | None:
        names = self._config.autosign_grains
        if not names:
            return None
        grains = self._facts().grains
        return {name: grains.get(name) for name in names}


def forget(waiting: Deferred[Any]) -> None:
    """Nobody waits for it; its expected failures have been acted upon where they arose."""

    def expected(failure: Failure) -> None:
        failure.trap(SaltwistedError, CancelledError)

    waiting.addErrback(expected)  # type: ignore[unused-awaitable]


class SignInAgain:
    """
    New sign-ins on a living link. Callers share a sign-in that is in progress, and sign-ins that
    strangers can cause are limited to a rate that a master can bear.
    """

    def __init__(self, reactor: IReactorTime, begin: Callable[[], bool]) -> None:
        """
        @param begin: begins a sign-in, after which L{ended} and L{answer} are called; false if
            there is no connection.
        """
        self._reactor = reactor
        self._begin = begin
        self._waiting: list[Deferred[None]] | None = None
        self._timer: IDelayedCall | None = None
        self._begun = float("-inf")

    def ask(self) -> Deferred[None]:
        """
        Sign in.

        Fails with L{TransportClosed}, or L{AuthenticationError} when the master says no.
        """
        waiting: Deferred[None] = Deferred()
        if self._waiting is not None:
            self._waiting.append(waiting)
            return waiting
        self._waiting = [waiting]
        if not self._begin():
            self._waiting = None
            waiting.errback(TransportClosed("closed"))
        return waiting

    def soon(self) -> None:
        """Sign in if no sign-in runs, and when the last such one is long enough ago."""
        if self._waiting is not None or self._timer is not None:
            return
        wait = max(0.0, self._begun + REOPEN_EVERY - self._reactor.seconds())
        if wait:
            self._timer = self._reactor.callLater(wait, self._now)
        else:
            self._now()

    def _now(self) -> None:
        self._timer = None
        self._begun = self._reactor.seconds()
        forget(self.ask())

    def ended(self) -> list[Deferred[None]]:
        """The sign-in has ended; callers from now on get another. Returns those who wait for it."""
        waiting, self._waiting = self._waiting or [], None
        return waiting

    def answer(self, waiting: list[Deferred[None]], event: Event) -> None:
        """Tell waiting callers the result."""
        for one in waiting:
            if one.called:
                continue
            if isinstance(event, SignedIn):
                one.callback(None)
            elif isinstance(event, Failed):
                one.errback(TransportClosed(event.reason))
            else:
                one.errback(AuthenticationError(getattr(event, "reason", "sign-in")))

    def stop(self) -> list[Deferred[None]]:
        """
        The attempt has ended: no timer is left. Returns waiting callers, to be told when everything
        is closed.
        """
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None
        return self.ended()
