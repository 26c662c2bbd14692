"""
One attempt to reach a master: its sockets, its subscription, and its running work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from saltwisted.config.options import MinionConfig
from saltwisted.domain.targeting.matchers import MinionFacts
from saltwisted.errors import AuthenticationError, SaltwistedError, TransportClosed, WireError
from saltwisted.minion.channel import Channel, Patience, Requests, Session
from saltwisted.minion.outside import Outside, Subscription
from saltwisted.minion.rules import Event, Failed
from saltwisted.minion.signin import forget
from saltwisted.wire.crypticle import seal
from saltwisted.wire.msgpack import pack
from saltwisted.wire.publication import BROADCAST, topic_of


class Attempt:
    """
    Everything that belongs to one attempt to reach a master. It ends as a whole; later results are
    ignored.

    @ivar address: of the master, once there is a connection.
    @ivar requests: the sockets of C{channel}, for everything except signs of life.
    @ivar heart: for these; it has a socket of its own, which does not wait behind slow requests.
    @ivar happens: feeds an event to the rules.
    @ivar work: what runs, and ends with the attempt.
    @ivar is_over: whether it was closed.
    """

    log = Logger()

    def __init__(
        self,
        name: str,
        host: str,
        port: int,
        config: MinionConfig,
        outside: Outside,
        session: Session,
        facts: Callable[[], MinionFacts],
        happens: Callable[[Event], None],
    ) -> None:
        self._name = name
        self.happens = happens
        self._host = host
        self._port = port
        self._config = config
        self._outside = outside
        self._session = session
        self._facts = facts
        self._pulse: Requests | None = None
        self._subscription: Subscription | None = None
        self._subscribe: Callable[[], Subscription] | None = None
        self._subscribed_to: tuple[str, int] = ("", 0)
        self.address = ""
        self.requests: Requests | None = None
        self.channel: Channel | None = None
        self.heart: Channel | None = None
        self.work: set[Deferred[Any]] = set()
        self.is_over = False

    def dial(self, address: str, sign_in: Callable[[], Deferred[None]]) -> Requests:
        """
        Make the sockets.

        @param sign_in: signs in again, if the master no longer knows our session.
        """
        outside, patience = self._outside, Patience.of(self._config)
        self.address = address
        self.requests = outside.dialer.requests(address, self._port, host=self._host)
        self._pulse = outside.dialer.requests(address, self._port, 1, host=self._host)
        self.channel, self.heart = (
            Channel(
                requests,
                outside.identity,
                self._session,
                sign_in,
                outside.now,
                outside.entropy,
                outside.dice,
                outside.run,
                patience,
            )
            for requests in (self.requests, self._pulse)
        )
        return self.requests

    def run(
        self,
        coroutine: Coroutine[Any, Any, Any],
        then: Callable[[Any], Event | None] = lambda event: event,
    ) -> None:
        """
        Run a part of an attempt, and feed the event that C{then} makes of its result.

        It ends with its attempt. What may call back into us (hooks, those who wait for a
        sign-in) is called in C{then}, when the coroutine has ended: nobody can close the
        attempt under a coroutine that runs.
        """
        work: Deferred[Any] = Deferred.fromCoroutine(coroutine)
        self.work.add(work)

        def done(result: Any) -> None:
            self.work.discard(work)
            event: Event | None
            if isinstance(result, Failure):
                if result.check(CancelledError) is not None:
                    return
                self.log.failure("{master}: internal error", failure=result, master=self._name)
                event = Failed("a mistake of ours, see the log")
            elif self.is_over:
                return
            else:
                event = then(result)
            if event is not None and not self.is_over:
                self.happens(event)

        forget(work.addBoth(done))

    # -- the subscription

    def subscribe(
        self, port: int, received: Callable[[Any], None], lost: Callable[[], None]
    ) -> None:
        """
        Subscribe, unless it was done at this port.

        @param received: gets each publication.
        @param lost: the connection ended.
        """
        where = (self.address, port)
        if self._subscribed_to == where:
            return
        if self._subscription is not None:
            self._subscription.close()
        identity = self._outside.identity
        own = topic_of(identity.id)
        # Without filtering we hear everything anyway; our own topic tells the master who is here.
        topics = (BROADCAST, own) if self._config.zmq_filtering else (b"", own)

        def subscribe() -> Subscription:
            return self._outside.dialer.subscribe(
                *where,
                identity.id,
                topics,
                lambda payload, topic: None if self.is_over else received(payload),
                lambda: None if self.is_over else lost(),
                host=self._host,
                hello=self._hello,
            )

        self._subscribe = subscribe
        self._subscription = subscribe()
        self._subscribed_to = where

    def resubscribe(self) -> None:
        """
        The master answers, but the subscription had ended: begin it again now.

        By itself it would come back when its back-off ends, up to C{recon_max} later.
        """
        if self.is_over or self._subscription is None or self._subscribe is None:
            return
        self._subscription.close()
        self._subscription = self._subscribe()

    def _hello(self) -> bytes | None:
        """Salt's first frame of C{transport: tcp}, and that we know our masters' signs of life."""
        key, identity = self._session.publish_key, self._outside.identity
        if key is None:
            return None
        load = {"id": identity.id, "tok": identity.tok, "saltwisted": True}
        blob = seal(key, load, self._outside.entropy(16))
        return pack({"enc": "aes", "load": blob, "version": 3})

    # -- what is asked first

    async def pillar(self, fields: dict[str, Any]) -> dict[str, Any]:
        """
        Ask for the pillar.

        @param fields: of C{_pillar}, instead of the usual ones.
        @raises TransportClosed: no answer.
        @raises AuthenticationError: the answer is not for us, or not from the master.
        @raises WireError: it is not a pillar.
        """
        if self.channel is None:
            raise TransportClosed("closed")
        load: dict[str, Any] = {
            "grains": dict(self._facts().grains),
            "saltenv": self._config.saltenv,
            "pillarenv": self._config.pillarenv,
            "pillar_override": {},
            "extra_minion_data": {},
            **fields,
        }
        pillar = await self.channel.pillar(load)
        if not isinstance(pillar, dict):
            raise WireError("pillar")
        return pillar

    async def prepare(self) -> dict[str, Any] | Failed:
        """The pillar, or why the link cannot come up."""
        try:
            return await self.pillar({})
        except AuthenticationError as error:
            return Failed(f"the master refused the pillar ({error})", answered=True)
        except TransportClosed as error:
            return Failed(f"no pillar ({error})")
        except WireError as error:
            return Failed(f"the pillar is malformed ({error.reason})", answered=True)

    async def start_events(self) -> None:
        """Fire C{minion_start} and C{salt/minion/<id>/start}."""
        identity, config, channel = self._outside.identity, self._config, self.channel
        if channel is None:
            return
        stamp = time.asctime(time.localtime(self._outside.now()))
        tags = [f"salt/minion/{identity.id}/start"]
        if config.enable_legacy_startup_events:
            tags.insert(0, "minion_start")
        for tag in tags:
            load: dict[str, Any] = {
                "cmd": "_minion_event",
                "pretag": None,
                "data": f"Minion {identity.id} started at {stamp}",
                "tag": tag,
            }
            if config.start_event_grains:
                grains = self._facts().grains
                load["grains"] = {k: grains[k] for k in config.start_event_grains if k in grains}
            try:
                await channel.request(load)
            except SaltwistedError as error:
                self.log.warn("{tag} could not be sent: {error}", tag=tag, error=str(error))

    def close(self) -> None:
        """End everything. Idempotent."""
        self.is_over = True
        for part in (self._subscription, self.requests, self._pulse):
            if part is not None:
                part.close()
        for work in list(self.work):
            work.cancel()
