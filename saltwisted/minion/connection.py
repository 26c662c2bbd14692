"""
The connection of a minion to one master: find, sign in, subscribe, stay, come back.

What happens when is decided in L{saltwisted.minion.rules}; L{MasterLink} drives that
table. It owns the sockets, the L{Session} and the timers of one master.
L{saltwisted.minion.links.Links} holds the links of a minion.

For the daemon (C{roles/minion.py}, C{minion/control.py}, C{minion/jobs.py})::

    outside = Outside(reactor=..., dialer=ZeroMQDialer(...), resolve=resolver(...), ...)
    subscriber = Subscriber(facts, on_job, Seen(SeenFile(path), now))
    links = Links(config, outside, subscriber, facts, Hooks(on_up=..., on_down=..., on_pillar=...))
    links.startService()
    link = await links.when_up()          # a MasterLink that has proved itself
    await link.request({"cmd": ...})      # or links.request(load, link): any that is up
    await link.fetch_pillar()             # calls Hooks.on_pillar too
    link.up, link.name, link.status()

What is promised. A link is C{up} only after a round trip under its session key (the
pillar). It never gives up and never ends the process: whatever a master says, the
link waits and tries again, with a jittered back-off that has a cap. The name is
resolved at every attempt. While up, a sealed heartbeat asks the master every
C{Rules.heartbeat} seconds unless it was heard anyway; two misses, or one when the
subscription has lost its connection as well, and the link starts over. A publication or
reply that does not open makes it sign in again, once for all that wait, and nothing is lost
meanwhile; of a master of ours it asks for the publish keys instead, also for those that were
replaced by now. C{minion_start} and C{salt/minion/<id>/start} are fired the first time a link is
up, as in Salt.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from attrs import define, field, frozen
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from saltwisted.config.options import MinionConfig
from saltwisted.domain.targeting.matchers import MinionFacts
from saltwisted.errors import AuthenticationError, SaltwistedError, TransportClosed, WireError
from saltwisted.minion.channel import Channel, Patience, Requests, Session
from saltwisted.minion.outside import Outside, Subscription
from saltwisted.minion.rules import (
    TABLE,
    Announce,
    Close,
    Complain,
    Doubt,
    Event,
    Fail,
    Failed,
    Heard,
    Missed,
    Prepare,
    Prepared,
    Resolve,
    Resolved,
    Rested,
    Rules,
    SignedIn,
    SignIn,
    Standing,
    Start,
    State,
    Stop,
    Trust,
    Unresolved,
    Wait,
    Withdraw,
    step,
)
from saltwisted.minion.signin import SignInTalk
from saltwisted.minion.subscriber import NEXT_KEY, Subscriber
from saltwisted.wire.crypticle import SessionKey, seal
from saltwisted.wire.msgpack import pack
from saltwisted.wire.publication import BROADCAST, Publication, topic_of

OUR_HEARTBEAT: dict[str, Any] = {"cmd": "_saltwisted_keys"}
"""Our master answers with its publish keys."""

STOCK_HEARTBEAT: dict[str, Any] = {"cmd": "_minion_event", "pretag": None, "events": []}
"""No events: a stock master does nothing about it, and says so."""

COMPLAIN_EVERY = 600.0
"""Seconds between two logs of the same complaint."""

MAX_HELD = 1000
"""Publications that wait for their key at most; the oldest is dropped."""

REOPEN_EVERY = 5.0
"""Seconds between two sign-ins that publications of our master may cause."""

ASK_EVERY = 1.0
"""Seconds between two questions for publish keys that publications of a master of ours may
cause. That costs it no RSA, unlike a sign-in."""

ASK_WITHIN = 0.5
"""Seconds within which all minions of such a master ask for its keys, when it is time to."""

DOUBT_EVERY = 60.0
"""Seconds between two sign-ins that publications of somebody else may cause."""


@frozen(kw_only=True)
class Hooks:
    """
    What the daemon wants to hear. All are called in the reactor thread and must return soon.

    @ivar on_up: the link has proved itself; the second argument is true once per link.
    @ivar on_down: it is not up any more, and why; requests on it fail.
    @ivar on_pillar: a pillar has come, before C{on_up} and at each L{MasterLink.fetch_pillar}.
    @ivar on_failed: an attempt to come up has failed; the link waits now.
    @ivar on_doubt: the link is up, but its subscription has ended or, with a true second
        argument, a heartbeat was not answered.
    @ivar on_trust: a heartbeat was answered.
    @ivar on_masters: a master of a cluster has said which masters there are, and which of these
        it is itself.
    """

    on_up: Callable[[MasterLink, bool], None] = lambda link, first: None
    on_down: Callable[[MasterLink, str], None] = lambda link, reason: None
    on_pillar: Callable[[MasterLink, dict[str, Any]], None] = lambda link, pillar: None
    on_failed: Callable[[MasterLink], None] = lambda link: None
    on_doubt: Callable[[MasterLink, bool], None] = lambda link, silent: None
    on_trust: Callable[[MasterLink], None] = lambda link: None
    on_masters: Callable[[MasterLink, list[str], str], None] = lambda link, names, own: None


@define(eq=False)
class _Attempt:
    """
    What belongs to one attempt to reach the master. Whatever an older one still does
    comes to nothing.

    @ivar held: publications that no key opens yet, and when they came.
    @ivar answered: when the newest question for keys was asked that was answered.
    """

    address: str = ""
    requests: Requests | None = None
    pulse: Requests | None = None
    channel: Channel | None = None
    heart: Channel | None = None
    subscription: Subscription | None = None
    subscribed_to: tuple[str, int] = ("", 0)
    held: deque[tuple[Publication, float]] = field(factory=lambda: deque(maxlen=MAX_HELD))
    answered: float = float("-inf")
    work: set[Deferred[Any]] = field(factory=set)


class MasterLink:
    """
    The connection to one master.

    @ivar name: the master as configured, without a port unless two masters share the host; jobs
        and returns are told apart by it.
    @ivar host: what is looked up.
    @ivar first: whether it has never been up.
    @ivar doubtful: whether something says, while it is up, that the master may be gone.
    @ivar standing: where it stands.
    @ivar since: when it came there, seconds since 1970.
    """

    log = Logger()

    def __init__(
        self,
        host: str,
        port: int,
        config: MinionConfig,
        outside: Outside,
        subscriber: Subscriber | None,
        facts: Callable[[], MinionFacts],
        hooks: Hooks | None = None,
        name: str = "",
    ) -> None:
        """
        @param subscriber: C{None} for a link that only asks (C{salt-call}): no publications
            and no start events then.
        @param facts: id, grains and the rest as they are now.
        """
        self.name = name or host
        self.host = host
        self.port = port
        self.config = config
        self.rules = Rules.of(config)
        self.session = Session()
        self.standing = Standing()
        self.first = True
        self.doubtful = False
        self.since = 0.0
        self._outside = outside
        self._subscriber = subscriber
        self._facts = facts
        self._hooks = hooks or Hooks()
        self._patience = Patience.of(config)
        self._talk = SignInTalk(self.name, config, self.rules, outside, self.session, facts)
        self._attempt = _Attempt()
        self._events: deque[Event] = deque()
        self._busy = False
        self._timer: IDelayedCall | None = None
        self._beat: IDelayedCall | None = None
        self._reopen: IDelayedCall | None = None
        self._reopened = float("-inf")
        self._doubted = float("-inf")
        self._suspected = float("-inf")
        self._asked = float("-inf")
        self._asking = False
        self._signing: list[Deferred[None]] | None = None
        self._complained: tuple[str, float] = ("", 0.0)

    # -- for the daemon

    @property
    def up(self) -> bool:
        """Whether the master has answered under our session, and has not gone since."""
        return self.standing.state is State.UP

    def start(self) -> None:
        """Want this master, until L{stop}. Idempotent."""
        if self.standing.state is State.IDLE:
            self._happens(Start())

    def stop(self) -> None:
        """Close everything; pending requests fail. May be started again. Idempotent."""
        self._happens(Stop())

    async def request(
        self,
        load: dict[str, Any],
        timeout: float | None = None,
        tries: int | None = None,
        raw: bool = False,
    ) -> Any:
        """
        Ask this master; see L{Channel.request}.

        @raises TransportClosed: also when the link is not up.
        """
        channel = self._attempt.channel
        if channel is None or not self.up:
            raise TransportClosed("not connected")
        return await channel.request(load, timeout, tries, raw)

    async def fetch_pillar(self, **fields: Any) -> dict[str, Any]:
        """
        Fetch the pillar, hand it to C{on_pillar}, and return it.

        @param fields: of C{_pillar}, in place of the usual ones. With any of them it is
            somebody's own question, whose answer goes to the caller alone.
        @raises TransportClosed: not up, or no answer.
        @raises AuthenticationError: the answer is not for us, or not from the master.
        """
        if not self.up:
            raise TransportClosed("not connected")
        attempt = self._attempt
        pillar = await self._pillar(attempt, fields)
        if attempt is self._attempt and not fields:
            self._tell(self._hooks.on_pillar, pillar)
        return pillar

    def status(self) -> dict[str, Any]:
        """Plain data about the link, for people."""
        channel, master = self._attempt.channel, self.session.master_key
        return {
            "master": self.name,
            "port": self.port,
            "publish_port": self._talk.publish_port,
            "address": self._attempt.address,
            "state": self.standing.state.value,
            "reason": self.standing.reason,
            "since": self.since,
            "heard": channel.heard if channel is not None else 0.0,
            "fingerprint": master.fingerprint(self.config.hash_type) if master else "",
        }

    def __repr__(self) -> str:
        return f"<MasterLink {self.name}:{self.port} {self.standing.state.value}>"

    # -- the machine

    def _happens(self, event: Event) -> None:
        """Feed the table; what an effect or a hook brings about is fed after it."""
        self._events.append(event)
        if self._busy:
            return
        self._busy = True
        try:
            while self._events:
                self._step(self._events.popleft())
        finally:
            self._busy = False

    def _step(self, event: Event) -> None:
        before = self.standing
        if (before.state, event.__class__) not in TABLE:
            # It was decided before something else that has happened meanwhile.
            return
        self.standing, effects = step(before, event, self.rules, self._outside.dice.random())
        if self.standing.state is not before.state:
            self.since = self._outside.now()
            self.log.debug(
                "{master}: {before} -> {after} {reason}",
                master=self.name,
                before=before.state.value,
                after=self.standing.state.value,
                reason=self.standing.reason,
            )
        for effect in effects:
            try:
                _EFFECTS[effect.__class__](self, effect)
            except Exception:
                # No descriptor for a socket, for one: a reason to try again later, as others are
                self.log.failure("{master}: no connection could be made", master=self.name)
                self._events.append(Failed("a mistake of ours, see the log"))

    def _work(
        self,
        attempt: _Attempt,
        coroutine: Coroutine[Any, Any, Any],
        then: Callable[[_Attempt, Any], Event | None] = lambda attempt, event: event,
    ) -> None:
        """
        Run a part of an attempt, and feed the event that C{then} makes of its result.

        It ends with its attempt. What may call back into us (hooks, those who wait for a
        sign-in) is called in C{then}, when the coroutine has ended: nobody can close the
        attempt under a coroutine that runs.
        """
        work: Deferred[Any] = Deferred.fromCoroutine(coroutine)
        attempt.work.add(work)

        def done(result: Any) -> None:
            attempt.work.discard(work)
            event: Event | None
            if isinstance(result, Failure):
                if result.check(CancelledError) is not None:
                    return
                self.log.failure("{master}: a mistake of ours", failure=result, master=self.name)
                event = Failed("a mistake of ours, see the log")
            elif attempt is not self._attempt:
                return
            else:
                event = then(attempt, result)
            if event is not None and attempt is self._attempt:
                self._happens(event)

        _forget(work.addBoth(done))

    def _tell(self, hook: Callable[..., None], *args: Any) -> None:
        try:
            hook(self, *args)
        except Exception:
            self.log.failure("{master}: a hook failed", master=self.name)

    # -- effects

    def _do_resolve(self, effect: Resolve) -> None:
        self._attempt = attempt = _Attempt()
        self._work(attempt, self._resolve())

    async def _resolve(self) -> Event:
        try:
            found = await self._outside.resolve(self.host)
        except (OSError, UnicodeError, SaltwistedError) as error:
            return Unresolved(f"the name {self.host} cannot be resolved ({error})")
        if not found:
            return Unresolved(f"the name {self.host} has no address")
        # A host with several addresses may be dead on the first one.
        return Resolved(found[self.standing.failures % len(found)])

    def _do_sign_in(self, effect: SignIn) -> None:
        attempt, outside = self._attempt, self._outside
        attempt.address = effect.address
        attempt.requests = outside.dialer.requests(effect.address, self.port, host=self.host)
        # The heartbeat has a socket of its own: it must not queue behind slow requests.
        attempt.pulse = outside.dialer.requests(effect.address, self.port, 1, host=self.host)
        attempt.channel, attempt.heart = (
            Channel(
                requests,
                outside.identity,
                self.session,
                self._sign_in_again,
                outside.now,
                outside.entropy,
                outside.dice,
                outside.run,
                self._patience,
            )
            for requests in (attempt.requests, attempt.pulse)
        )
        # One try, then a new look-up: the master may be somewhere else by now.
        self._work(attempt, self._talk.exchange(attempt.requests, 1))

    def _do_prepare(self, effect: Prepare) -> None:
        attempt = self._attempt
        # A pillar may take a minute; whether the master is alive shows sooner.
        self._beat_after(self.rules.heartbeat_timeout, True)
        self._subscribe(attempt)
        self._work(attempt, self._prepare(attempt), self._prepared)

    async def _prepare(self, attempt: _Attempt) -> dict[str, Any] | Failed:
        try:
            return await self._pillar(attempt, {})
        except AuthenticationError as error:
            return Failed(f"the master refused the pillar ({error})", answered=True)
        except TransportClosed as error:
            return Failed(f"no pillar ({error})")
        except WireError as error:
            return Failed(f"the pillar is malformed ({error.reason})", answered=True)

    def _prepared(self, attempt: _Attempt, result: dict[str, Any] | Failed) -> Event | None:
        if isinstance(result, Failed):
            return result
        self._tell(self._hooks.on_pillar, result)
        return Prepared()

    async def _pillar(self, attempt: _Attempt, fields: dict[str, Any]) -> dict[str, Any]:
        if attempt.channel is None:
            raise TransportClosed("closed")
        load: dict[str, Any] = {
            "grains": dict(self._facts().grains),
            "saltenv": self.config.saltenv,
            "pillarenv": self.config.pillarenv,
            "pillar_override": {},
            "extra_minion_data": {},
            **fields,
        }
        pillar = await attempt.channel.pillar(load)
        if not isinstance(pillar, dict):
            raise WireError("pillar")
        return pillar

    def _subscribe(self, attempt: _Attempt) -> None:
        subscriber, identity = self._subscriber, self._outside.identity
        where = (attempt.address, self._talk.publish_port)
        if subscriber is None or attempt.subscribed_to == where:
            return
        if attempt.subscription is not None:
            attempt.subscription.close()
        own = topic_of(identity.id)
        # Without filtering we hear everything anyway; our own topic tells the master who is here.
        topics = (BROADCAST, own) if self.config.zmq_filtering else (b"", own)
        attempt.subscription = self._outside.dialer.subscribe(
            *where,
            identity.id,
            topics,
            lambda payload, topic: self._published(attempt, payload),
            lambda: self._suspect(attempt),
            host=self.host,
            hello=self._hello,
        )
        attempt.subscribed_to = where

    def _resubscribe(self, attempt: _Attempt) -> None:
        """
        The master answers, but the subscription had ended: begin it again now.

        By itself it would come back when its back-off ends, up to C{recon_max} later.
        """
        if attempt is self._attempt and attempt.subscription is not None:
            attempt.subscribed_to = ("", 0)
            self._subscribe(attempt)

    def _hello(self) -> bytes | None:
        """Salt's first frame of C{transport: tcp}, and that we know our masters' signs of life."""
        key, identity = self.session.publish_key, self._outside.identity
        if key is None:
            return None
        load = {"id": identity.id, "tok": identity.tok, "saltwisted": True}
        blob = seal(key, load, self._outside.entropy(16))
        return pack({"enc": "aes", "load": blob, "version": 3})

    def _do_announce(self, effect: Announce) -> None:
        first, self.first = self.first, False
        self.doubtful = False
        self._complained = ("", 0.0)
        self.log.info(
            "connected to master {master} ({address})",
            master=self.name,
            address=self._attempt.address,
        )
        # The first one spreads the others, and brings the publish keys of one of ours.
        self._beat_after(self.rules.heartbeat * self._outside.dice.random(), self.session.ours)
        if self._attempt.held:
            self._want_keys()
        if first and self._subscriber is not None:
            self._work(self._attempt, self._start_events(self._attempt))
        self._tell(self._hooks.on_up, first)

    async def _start_events(self, attempt: _Attempt) -> None:
        identity, config, channel = self._outside.identity, self.config, attempt.channel
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

    def _do_withdraw(self, effect: Withdraw) -> None:
        if effect.is_meant:
            self.log.info("disconnected from master {master}", master=self.name)
        else:
            self.log.warn(
                "connection to master {master} lost: {reason}",
                master=self.name,
                reason=effect.reason,
            )
        self._tell(self._hooks.on_down, effect.reason)

    def _do_doubt(self, effect: Doubt) -> None:
        self.doubtful = True
        self._tell(self._hooks.on_doubt, True)

    def _do_trust(self, effect: Trust) -> None:
        self.doubtful = False
        self._tell(self._hooks.on_trust)

    def _do_close(self, effect: Close) -> None:
        attempt, self._attempt = self._attempt, _Attempt()
        for timer in (self._timer, self._beat, self._reopen):
            if timer is not None and timer.active():
                timer.cancel()
        self._timer = self._beat = self._reopen = None
        waiting, self._signing = self._signing or [], None
        for part in (attempt.subscription, attempt.requests, attempt.pulse):
            if part is not None:
                part.close()
        for work in list(attempt.work):
            work.cancel()
        for one in waiting:
            if not one.called:
                one.errback(TransportClosed("closed"))

    def _do_wait(self, effect: Wait) -> None:
        self._timer = self._outside.reactor.callLater(effect.seconds, self._rested)

    def _do_fail(self, effect: Fail) -> None:
        self._tell(self._hooks.on_failed)

    def _rested(self) -> None:
        self._timer = None
        self._happens(Rested())

    def _do_complain(self, effect: Complain) -> None:
        said, when = self._complained
        now = self._outside.reactor.seconds()
        if said == effect.reason and now - when < COMPLAIN_EVERY:
            return
        self._complained = (effect.reason, now)
        if effect.reason == "pending":
            self.log.info(
                "master {master}: waiting until this minion's key {finger} is accepted there",
                master=self.name,
                finger=self._outside.identity.key.public.fingerprint(self.config.hash_type),
            )
            return
        self.log.error(
            "master {master}: {reason}; trying again",
            master=self.name,
            reason=ADVICE.get(effect.reason, effect.reason),
        )

    # -- signing in again

    def _sign_in_again(self) -> Deferred[None]:
        """
        A new sign-in on a living link; who asks while one runs shares it.

        Fails with L{TransportClosed}, or L{AuthenticationError} when the master says no.
        """
        waiting: Deferred[None] = Deferred()
        attempt = self._attempt
        if attempt.requests is None:
            waiting.errback(TransportClosed("closed"))
        elif self._signing is not None:
            self._signing.append(waiting)
        else:
            self._signing = [waiting]
            self._work(attempt, self._talk.exchange(attempt.requests), self._signed_in_again)
        return waiting

    def _signed_in_again(self, attempt: _Attempt, event: Event) -> Event:
        waiting, self._signing = self._signing or [], None
        if isinstance(event, SignedIn):
            self._subscribe(attempt)
            # One of ours knows more keys than the one that a sign-in brings: it is asked for them
            self._read_held(attempt, float("-inf") if self.session.ours else float("inf"))
        for one in waiting:
            if one.called:
                continue
            if isinstance(event, SignedIn):
                one.callback(None)
            elif isinstance(event, Failed):
                one.errback(TransportClosed(event.reason))
            else:
                one.errback(AuthenticationError(getattr(event, "reason", "sign-in")))
        return event

    # -- the heart

    def _beat_after(self, seconds: float, always: bool = False) -> None:
        if self._beat is not None and self._beat.active():
            self._beat.cancel()
        self._beat = self._outside.reactor.callLater(seconds, self._pulse, always)

    def _ask_keys(self, pause: float = 0.0) -> None:
        """
        Ask for the publish keys soon; what is planned sooner is not put off.

        @param pause: seconds since they were asked for last, at least.
        """
        now = self._outside.reactor.seconds()
        at = max(now + ASK_WITHIN * self._outside.dice.random(), self._asked + pause)
        if not self._asking or self._beat is None or self._beat.getTime() > at:
            self._asking = True
            self._beat_after(at - now, True)

    def _pulse(self, always: bool) -> None:
        self._beat = None
        self._asking = False
        self._work(self._attempt, self._heartbeat(self._attempt, always), self._beaten)

    def _suspect(self, attempt: _Attempt) -> None:
        """The subscription's connection ended: ask at once whether the master is alive."""
        if attempt is not self._attempt:
            return
        if self.up:
            self._suspected = self._outside.now()
            self.doubtful = True
            self._beat_after(0.2 * self._outside.dice.random(), True)
            self._tell(self._hooks.on_doubt, False)
        elif self.standing.state is State.PREPARING:
            # What was asked on the other connections is as good as lost.
            self._happens(Failed("the connection ended"))

    async def _heartbeat(self, attempt: _Attempt, always: bool) -> Event | None:
        rules, outside = self.rules, self._outside
        channel, heart = attempt.channel, attempt.heart
        preparing = self.standing.state is State.PREPARING
        if channel is None or heart is None or not (self.up or preparing):
            return None
        event: Event | None = Heard()
        ours = self.session.ours
        period = rules.heartbeat if ours else rules.slow_heartbeat
        since = outside.now()
        quiet = since - channel.heard
        suspected = self._suspected > channel.heard
        if always or self.standing.misses or not 0 <= quiet < 0.75 * period:
            try:
                ask = OUR_HEARTBEAT if ours else STOCK_HEARTBEAT
                wait = rules.suspect_timeout if suspected else rules.heartbeat_timeout
                asked = self._asked = outside.reactor.seconds()
                if self._take_keys(await heart.request(ask, wait, 1)):
                    attempt.answered = asked
                channel.heard = outside.now()
                if suspected:
                    self._resubscribe(attempt)
            except (TransportClosed, WireError):
                # Silence, or a refusal even after a new sign-in: as good as silence.
                event = Heard() if channel.heard > since else Missed(suspected)
        if isinstance(event, Heard) and self._suspected > since:
            event = None  # it was asked before the connection ended, and says nothing of after
        if attempt is self._attempt and self._beat is None:
            period = rules.heartbeat if self.session.ours else rules.slow_heartbeat
            if preparing:
                period = min(period, rules.heartbeat_timeout)
            spread = 0.8 + 0.4 * outside.dice.random()
            self._beat_after(1.0 if isinstance(event, Missed) else period * spread)
        return event

    def _beaten(self, attempt: _Attempt, event: Event | None) -> Event | None:
        if self.session.ours and attempt.held:
            self._read_held(attempt, attempt.answered)
        return event

    def _take_keys(self, value: Any) -> bool:
        """
        What a master of our kind says in answer: its publish keys, and who else is there.

        @return: whether it is such an answer.
        """
        if not isinstance(value, dict) or not isinstance(value.get("aes"), str):
            return False
        following, before = value.get("next"), value.get("before")
        try:
            publish_key = SessionKey(value["aes"])
            next_key = SessionKey(following) if isinstance(following, str) else None
            former = [SessionKey(text) for text in before] if isinstance(before, list) else []
        except (WireError, TypeError, AttributeError):
            return False
        self.session.told(self._outside.reactor.seconds(), publish_key, next_key, former)
        masters = value.get("masters")
        if isinstance(masters, list) and masters:
            self._tell(self._hooks.on_masters, masters, str(value.get("self") or ""))
        return True

    # -- publications

    def _published(self, attempt: _Attempt, payload: Any) -> None:
        subscriber = self._subscriber
        if subscriber is None or attempt is not self._attempt:
            return
        try:
            publication = subscriber.read(payload, self.session)
        except AuthenticationError as error:
            # Somebody's noise, or a master whose key has changed: a sign-in tells which, and
            # says so to the operator
            subscriber.counters[error.reason] += 1
            now = self._outside.reactor.seconds()
            if now - self._doubted >= DOUBT_EVERY:
                self._doubted = now
                self._sign_in_soon()
            return
        except WireError as error:
            subscriber.counters[error.reason] += 1
            return
        self._open(attempt, publication, subscriber)

    def _open(self, attempt: _Attempt, publication: Publication, subscriber: Subscriber) -> None:
        now = self._outside.reactor.seconds()
        try:
            job, key = subscriber.open(publication, self.session, now)
        except AuthenticationError:
            # The publish key has changed: keep this until the new one is here.
            subscriber.counters["held"] += 1
            attempt.held.append((publication, now))
            self._want_keys()
            return
        except WireError as error:
            subscriber.counters[error.reason] += 1
            return
        if job.fun == NEXT_KEY:
            self._ask_keys()
            return
        subscriber.take(job, key, self, self.name)

    def _want_keys(self) -> None:
        """
        Get the keys of what is held, but do not ask all the time: whoever can make us wish for
        keys must not be able to make us, and all our brothers, a burden to the master.
        """
        if self.session.ours:
            self._ask_keys(ASK_EVERY)
        else:
            self._sign_in_soon()

    def _sign_in_soon(self) -> None:
        """Sign in again, if no sign-in runs, and not more often than a master can bear."""
        if self._signing is not None or self._reopen is not None:
            return
        wait = max(0.0, self._reopened + REOPEN_EVERY - self._outside.reactor.seconds())
        if wait:
            self._reopen = self._outside.reactor.callLater(wait, self._reopen_now)
        else:
            self._reopen_now()

    def _reopen_now(self) -> None:
        self._reopen = None
        self._reopened = self._outside.reactor.seconds()
        _forget(self._sign_in_again())

    def _read_held(self, attempt: _Attempt, asked: float) -> None:
        """
        Another look at what could not be opened.

        @param asked: what came before that and still cannot be opened is given up: the master
            has said since which keys there are.
        """
        subscriber, held = self._subscriber, list(attempt.held)
        attempt.held.clear()
        now = self._outside.reactor.seconds()
        for publication, came in held:
            if subscriber is None or attempt is not self._attempt:
                return
            try:
                job, key = subscriber.open(publication, self.session, now)
            except AuthenticationError as error:
                if came <= asked:
                    subscriber.counters["given up:" + error.reason] += 1
                else:
                    attempt.held.append((publication, came))
                continue
            except WireError as error:
                subscriber.counters["given up:" + error.reason] += 1
                continue
            if job.fun != NEXT_KEY:
                subscriber.take(job, key, self, self.name)
        if attempt.held and attempt is self._attempt:
            self._want_keys()


def _forget(waiting: Deferred[Any]) -> None:
    """Nobody waits for it; its expected failures have been acted upon where they arose."""

    def expected(failure: Failure) -> None:
        failure.trap(SaltwistedError, CancelledError)

    waiting.addErrback(expected)  # type: ignore[unused-awaitable]


_EFFECTS: dict[type, Callable[[MasterLink, Any], None]] = {
    Resolve: MasterLink._do_resolve,
    SignIn: MasterLink._do_sign_in,
    Prepare: MasterLink._do_prepare,
    Announce: MasterLink._do_announce,
    Withdraw: MasterLink._do_withdraw,
    Fail: MasterLink._do_fail,
    Doubt: MasterLink._do_doubt,
    Trust: MasterLink._do_trust,
    Close: MasterLink._do_close,
    Wait: MasterLink._do_wait,
    Complain: MasterLink._do_complain,
}

ADVICE = {
    "rejected": "it has rejected this minion's key; accept it there (salt-key -a) or delete it",
    "full": "it has as many minions as its max_minions allows",
    "bad sig algo": "it does not know our signing_algorithm",
    "bad enc algo": "it does not know our encryption_algorithm",
    "refused": "it did not understand the sign-in; is it a Salt master?",
    "cluster_retry": "it is a cluster node that has not joined yet",
}
"""What an operator can do about a word of L{saltwisted.wire.handshake.NotYet}."""
