"""
The connection of a minion to one master: find, sign in, subscribe, stay, come back.

What happens when is decided in L{saltwisted.minion.rules}; L{MasterLink} drives that
table for one master, whose L{Session} it owns.
L{saltwisted.minion.links.Links} holds the links of a minion. The parts of a link:
L{Attempt<saltwisted.minion.attempt.Attempt>}, the sockets until they are closed;
L{Heart<saltwisted.minion.heart.Heart>}, signs of life;
L{Publications<saltwisted.minion.publications.Publications>}, what the subscription brings;
L{SignInAgain<saltwisted.minion.signin.SignInAgain>}.

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

from collections import deque
from collections.abc import Callable
from typing import Any

from attrs import frozen
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from saltwisted import advice
from saltwisted.config.options import MinionConfig
from saltwisted.domain.targeting.matchers import MinionFacts
from saltwisted.errors import SaltwistedError, TransportClosed
from saltwisted.minion.attempt import Attempt
from saltwisted.minion.channel import Session
from saltwisted.minion.outside import Outside
from saltwisted.minion.rules import (
    TABLE,
    Announce,
    Close,
    Complain,
    Doubt,
    Event,
    Fail,
    Failed,
    Prepare,
    Prepared,
    Resolve,
    Resolved,
    Rested,
    Rules,
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
from saltwisted.minion.subscriber import Subscriber
from saltwisted.minion.upkeep import Live, Upkeep

COMPLAIN_EVERY = 600.0
"""Seconds between two logs of the same complaint."""


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


class LinkReporter:
    """
    Says what becomes of a link: to the daemon by hooks, to the operator by the log.

    @ivar doubtful: whether something says, while the link is up, that the master may be gone.
    """

    log = Logger()

    def __init__(self, link: MasterLink, hooks: Hooks) -> None:
        self._link = link
        self.hooks = hooks
        self.doubtful = False
        self._complained: tuple[str, float] = ("", 0.0)

    def tell(self, hook: Callable[..., None], *args: Any) -> None:
        """Call a hook."""
        try:
            hook(self._link, *args)
        except Exception:
            self.log.failure("{master}: a hook failed", master=self._link.name)

    def came_up(self, address: str) -> None:
        """
        The link is up; C{on_up} is called later, when everything is ready for callers that ask at
        once.
        """
        self.doubtful = False
        self._complained = ("", 0.0)
        self.log.info(
            "connected to master {master} ({address})", master=self._link.name, address=address
        )

    def went_down(self, effect: Withdraw) -> None:
        """It is no longer up."""
        if effect.is_meant:
            self.log.info("disconnected from master {master}", master=self._link.name)
        else:
            self.log.warn(
                "connection to master {master} lost: {reason}",
                master=self._link.name,
                reason=effect.reason,
            )
        self.tell(self.hooks.on_down, effect.reason)

    def doubts(self, is_silent: bool) -> None:
        """A heartbeat was not answered, or only the subscription has ended."""
        self.doubtful = True
        self.tell(self.hooks.on_doubt, is_silent)

    def trusts(self) -> None:
        """A heartbeat was answered."""
        self.doubtful = False
        self.tell(self.hooks.on_trust)

    def complains(self, reason: str, now: float, fingerprint: Callable[[], str]) -> None:
        """
        Log the problem, if it was not logged lately.

        @param fingerprint: of the minion's key, for whoever is to accept it.
        """
        said, when = self._complained
        if said == reason and now - when < COMPLAIN_EVERY:
            return
        self._complained = (reason, now)
        if reason == "pending":
            self.log.info(
                "master {master}: waiting until this minion's key {finger} is accepted there",
                master=self._link.name,
                finger=fingerprint(),
            )
            return
        self.log.error(
            "master {master}: {reason}; trying again",
            master=self._link.name,
            reason=ADVICE.get(reason, reason),
        )


class MasterLink:
    """
    The connection to one master.

    @ivar name: the master as configured, without a port unless two masters share the host; jobs
        and returns are told apart by it.
    @ivar host: what is looked up.
    @ivar first: whether it has never been up.
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
        rules: Rules | None = None,
    ) -> None:
        """
        @param subscriber: C{None} for a link that only asks (C{salt-call}): no publications
            and no start events then.
        @param facts: id, grains and the rest as they are now.
        @param rules: when not as configured.
        """
        self.name = name or host
        self.host = host
        self.port = port
        self.config = config
        self.rules = rules or Rules.of(config)
        self.session = Session()
        self.standing = Standing()
        self.first = True
        self.since = 0.0
        self.reporter = LinkReporter(self, hooks or Hooks())
        self._outside = outside
        self._subscriber = subscriber
        self._facts = facts
        self._attempt = self._new_attempt()
        self.upkeep = Upkeep(
            self.name,
            config,
            self.rules,
            outside,
            self.session,
            subscriber,
            facts,
            Live(self, lambda: self._attempt, lambda: self.standing),
            self.reporter.doubts,
            lambda names, own: self.reporter.tell(self.reporter.hooks.on_masters, names, own),
        )
        self._events: deque[Event] = deque()
        self._busy = False
        self._timer: IDelayedCall | None = None

    def _new_attempt(self) -> Attempt:
        return Attempt(
            self.name,
            self.host,
            self.port,
            self.config,
            self._outside,
            self.session,
            self._facts,
            self._happens,
        )

    # -- for the daemon

    @property
    def up(self) -> bool:
        """Whether the master has answered under our session, and has not gone since."""
        return self.standing.state is State.UP

    @property
    def doubtful(self) -> bool:
        """Whether something says, while it is up, that the master may be gone."""
        return self.reporter.doubtful

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
        Fetch the pillar, pass it to C{on_pillar}, and return it.

        @param fields: of C{_pillar}, instead of the usual ones. With any of them it is a caller's
            own request, whose answer goes only to the caller.
        @raises TransportClosed: not up, or no answer.
        @raises AuthenticationError: the answer is not for us, or not from the master.
        """
        if not self.up:
            raise TransportClosed("not connected")
        attempt = self._attempt
        pillar = await attempt.pillar(fields)
        if not attempt.is_over and not fields:
            self.reporter.tell(self.reporter.hooks.on_pillar, pillar)
        return pillar

    def status(self) -> dict[str, Any]:
        """Plain data about the link, for people."""
        channel, master = self._attempt.channel, self.session.master_key
        return {
            "master": self.name,
            "port": self.port,
            "publish_port": self.upkeep.talk.publish_port,
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

    # -- effects

    def _do_resolve(self, effect: Resolve) -> None:
        self._attempt = self._new_attempt()
        self._attempt.run(self._resolve())

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
        requests = self._attempt.dial(effect.address, self.upkeep.sign_in)
        # One try, then a new look-up: the master may be somewhere else by now.
        self._attempt.run(self.upkeep.talk.exchange(requests, 1))

    def _do_prepare(self, effect: Prepare) -> None:
        self.upkeep.begin()
        self._attempt.run(self._attempt.prepare(), self._prepared)

    def _prepared(self, result: dict[str, Any] | Failed) -> Event | None:
        if isinstance(result, Failed):
            return result
        self.reporter.tell(self.reporter.hooks.on_pillar, result)
        return Prepared()

    def _do_announce(self, effect: Announce) -> None:
        first, self.first = self.first, False
        self.reporter.came_up(self._attempt.address)
        self.upkeep.came_up()
        if first and self._subscriber is not None:
            self._attempt.run(self._attempt.start_events())
        self.reporter.tell(self.reporter.hooks.on_up, first)

    def _do_close(self, effect: Close) -> None:
        attempt, self._attempt = self._attempt, self._new_attempt()
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None
        self.upkeep.end(attempt)

    def _do_wait(self, effect: Wait) -> None:
        self._timer = self._outside.reactor.callLater(effect.seconds, self._rested)

    def _rested(self) -> None:
        self._timer = None
        self._happens(Rested())

    def _do_complain(self, effect: Complain) -> None:
        key, hash_type = self._outside.identity.key, self.config.hash_type
        now = self._outside.reactor.seconds()
        self.reporter.complains(effect.reason, now, lambda: key.public.fingerprint(hash_type))


_EFFECTS: dict[type, Callable[[MasterLink, Any], None]] = {
    Resolve: MasterLink._do_resolve,
    SignIn: MasterLink._do_sign_in,
    Prepare: MasterLink._do_prepare,
    Announce: MasterLink._do_announce,
    Withdraw: lambda link, effect: link.reporter.went_down(effect),
    Fail: lambda link, effect: link.reporter.tell(link.reporter.hooks.on_failed),
    Doubt: lambda link, effect: link.reporter.doubts(True),
    Trust: lambda link, effect: link.reporter.trusts(),
    Close: MasterLink._do_close,
    Wait: MasterLink._do_wait,
    Complain: MasterLink._do_complain,
}

ADVICE = {
    "rejected": f"it has rejected this minion's key; {advice.of('key.accept')}",
    "full": "it has as many minions as its max_minions allows",
    "bad sig algo": "it does not know our signing_algorithm",
    "bad enc algo": "it does not know our encryption_algorithm",
    "refused": "it did not understand the sign-in; is it a Salt master?",
    "cluster_retry": "it is a cluster node that has not joined yet",
}
"""What an operator can do about a word of L{saltwisted.wire.handshake.NotYet}."""
