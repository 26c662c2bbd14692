"""
All masters of one minion: at the same time, or one of them at a time.

A list of masters is Salt's hot-hot: a link to each, all wanted (one master is a list of one). With
C{master_type: failover} or C{distributed} one link is in use and the others stand by, as
L{saltwisted.minion.failover} decides. The caller sees no difference. The list of masters may change
at run time (L{saltwisted.minion.directory}).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import evolve
from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from saltwisted.config.options import MinionConfig
from saltwisted.domain.targeting.matchers import MinionFacts
from saltwisted.errors import ConfigError, SaltwistedError, TransportClosed
from saltwisted.minion import failover
from saltwisted.minion.connection import Hooks, MasterLink
from saltwisted.minion.directory import Directory, Master, is_service
from saltwisted.minion.outside import Outside
from saltwisted.minion.subscriber import Subscriber
from saltwisted.transports.reasons import why


def _address(config: MinionConfig, name: str) -> Master | None:
    """A master from what another one says; C{None} when it is not a name."""
    host, port = config.address_of(name[:255])
    good = host and host.isprintable() and " " not in host and 0 < port < 65536
    return (host, port) if good and not is_service(host) else None


ONE_AT_A_TIME = ("failover", "distributed")

FOR_ALL = frozenset(("_mine", "_mine_delete", "_mine_flush"))
"""What each master keeps for itself, and so must hear for itself."""

PING: Mapping[str, Any] = {
    "cmd": "_minion_event",
    "pretag": None,
    "tag": "minion_ping",
    "data": "ping",
}

ONCE = frozenset(("minion_pub", "minion_publish", "minion_runner", "_minion_event"))
"""What would happen twice if it were asked again of another master."""

ALONE = "this minion has no master: master_type is disable"


class Links(Service):
    """
    All masters of one minion.

    @ivar is_alone: whether there must be no master at all.
    @ivar links: one per master; links of masters that are no longer listed stay, stopped.
    """

    log = Logger()
    name = "links"

    def __init__(
        self,
        config: MinionConfig,
        outside: Outside,
        subscriber: Subscriber | None,
        facts: Callable[[], MinionFacts],
        hooks: Hooks | None = None,
    ) -> None:
        """
        @param config: with C{master_type: func} already evaluated.
        @raises ConfigError: a C{master_type} that there is not.
        """
        kind = config.master_type
        if kind not in ("str", "disable", *ONE_AT_A_TIME):
            raise ConfigError(f"master_type: {kind!r} is not known")
        self.is_alone = kind == "disable"
        self._hooks = hooks = hooks or Hooks()
        self._config = config
        self._outside = outside
        self._subscriber = subscriber
        self._facts = facts
        self._delayed: IDelayedCall | None = None
        self._pinging: IDelayedCall | None = None
        self._ping_after = 0.0
        self._waiting: list[Deferred[MasterLink]] = []
        configured = list(dict.fromkeys(config.masters())) if kind != "disable" else []
        # One master is in use at a time, also when it names others of its cluster
        single = len(configured) == 1 and not is_service(configured[0][0])
        one = single or kind in ONE_AT_A_TIME
        self._standby = Standby(self, config, outside, hooks) if one else None
        own = self._standby.hooks if self._standby else evolve(hooks, on_up=self.is_up)
        self._own = evolve(own, on_masters=self._masters_told)
        self._directory = Directory(
            outside.reactor,
            configured,
            outside.services,
            outside.dice,
            outside.kept if kind != "disable" else None,
            lambda name: _address(config, name),
            self._follow,
            lambda: self.best is None,
        )
        self.links: list[MasterLink] = []
        self._add(self._directory.masters)
        if self._standby is not None:
            self._standby.rank(range(len(self.links)))

    def _add(self, masters: Sequence[Master]) -> list[int]:
        """Links for masters that have none yet; the numbers of the links of all these."""
        hosts = Counter(host for host, _ in masters)
        numbers = []
        for host, port in masters:
            at = next(
                (n for n, link in enumerate(self.links) if (link.host, link.port) == (host, port)),
                None,
            )
            if at is None:
                taken = hosts[host] > 1 or self.named(host) is not None
                self.links.append(
                    MasterLink(
                        host,
                        port,
                        self._config,
                        self._outside,
                        self._subscriber,
                        self._facts,
                        self._own,
                        name=f"{host}:{port}" if taken else host,
                    )
                )
                at = len(self.links) - 1
            numbers.append(at)
        return numbers

    def told(self, names: Sequence[str]) -> None:
        """An operator, or a token, names masters."""
        self._directory.told(names)

    def _masters_told(self, link: MasterLink, names: list[str], own: str) -> None:
        self._directory.told(names, (link.host, link.port), own)

    def _follow(self, masters: Sequence[Master]) -> None:
        """There are other masters now. A link that is not wanted any more may be again."""
        self.log.info(
            "the masters are now {masters}", masters=", ".join(f"{h}:{p}" for h, p in masters)
        )
        numbers = self._add(masters)
        if self._standby is not None:
            self._standby.rank(numbers)
            return
        started = self.running and self._delayed is None
        for number, link in enumerate(self.links):
            if number not in numbers:
                link.stop()
            elif started:
                link.start()

    def startService(self) -> None:
        """Want masters; returns at once."""
        super().startService()
        if self.is_alone:
            self.log.info("{reason}", reason=ALONE)
        delay = self._config.random_startup_delay
        if delay > 0:
            seconds = self._outside.dice.uniform(0, delay)
            self.log.info("waiting {seconds:.0f} s (random_startup_delay)", seconds=seconds)
            self._delayed = self._outside.reactor.callLater(seconds, self._start)
        else:
            self._start()

    def _start(self) -> None:
        self._delayed = None
        self._directory.start()
        if self._config.ping_interval > 0:
            self._ping_after = max(1.0, float(self._config.ping_interval) * 60.0)
            self._pinging = self._outside.reactor.callLater(self._ping_after, self._ping)
        if self._standby is not None:
            self._standby.happens(failover.Begin())
            return
        for link in self.links:
            link.start()

    def _ping(self) -> None:
        """
        Salt's C{ping_interval}: an event on each master, for those who listen there. That a master
        is alive is known by the heartbeat.
        """
        self._pinging = self._outside.reactor.callLater(self._ping_after, self._ping)
        for link in self.links:
            if link.up:
                self._also(link, PING)

    def stopService(self) -> None:
        """Close them all."""
        super().stopService()
        if self._pinging is not None:
            self._pinging.cancel()
            self._pinging = None
        self._directory.stop()
        if self._delayed is not None:
            self._delayed.cancel()
            self._delayed = None
        if self._standby is not None:
            self._standby.happens(failover.End())
        for link in self.links:
            link.stop()
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            one.errback(TransportClosed("stopped"))

    def is_up(self, link: MasterLink, first: bool) -> None:
        """A link may be used: tell those who wait for one."""
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            one.callback(link)
        self._hooks.on_up(link, first)

    @property
    def best(self) -> MasterLink | None:
        """The first link that is up and not in doubt, as configured; or the one in use."""
        if self._standby is not None:
            return self._standby.serving
        up = [link for link in self.links if link.up]
        return next((link for link in up if not link.doubtful), up[0] if up else None)

    def named(self, name: str) -> MasterLink | None:
        """The link to this master, by its name; with fail-over, whether it is in use or not."""
        return next((link for link in self.links if link.name == name), None)

    def when_up(self) -> Deferred[MasterLink]:
        """Fires with a link that is up, now or later; may be cancelled."""
        ready: Deferred[MasterLink] = Deferred(self._forget)
        best = self.best
        if best is not None:
            ready.callback(best)
        elif self.is_alone:
            ready.errback(TransportClosed(ALONE))
        else:
            self._waiting.append(ready)
        return ready

    def _forget(self, ready: Deferred[MasterLink]) -> None:
        if ready in self._waiting:
            self._waiting.remove(ready)

    async def request(
        self, load: dict[str, Any], link: MasterLink | None = None, **how: Any
    ) -> Any:
        """
        Ask this master if it is up, else any that is.

        Mine data that is for no master in particular goes to all that are up.

        @param how: as in L{Channel.request}.
        @raises TransportClosed: none is up; or the one that was asked went away, and none is
            in its place, or it must not be asked twice.
        """
        chosen = link if link is not None and link.up else self.best
        if chosen is None:
            raise TransportClosed(ALONE if self.is_alone else "no master is connected")
        if link is None and load.get("cmd") in FOR_ALL:
            for other in self.links:
                if other.up and other is not chosen:
                    self._also(other, load)
        try:
            return await chosen.request(load, **how)
        except TransportClosed:
            instead = self.best
            if chosen.up or instead is None or load.get("cmd") in ONCE:
                raise
            return await instead.request(load, **how)

    def _also(self, link: MasterLink, load: Mapping[str, Any]) -> None:
        def failed(failure: Any) -> None:
            failure.trap(SaltwistedError)
            self.log.warn(
                "{cmd} did not reach {master}: {error}",
                cmd=load["cmd"],
                master=link.name,
                error=why(failure),
            )

        _ = Deferred.fromCoroutine(link.request(dict(load))).addErrback(failed)

    async def deliver(self, load: dict[str, Any], via: str) -> Any:
        """
        Bring a return to the master that asked, or, when it is away or goes away meanwhile,
        to another one.

        @param via: the name of that master; C{""} for any.
        @raises TransportClosed: nobody has acknowledged it.
        """
        link = self.named(via)
        if link is None or not link.up:
            return await self.request(load)
        others = [other for other in self.links if other.up and other is not link]
        if not others:
            return await link.request(load)
        try:
            # One try: it may be dead without our knowing yet, and another one lives.
            return await link.request(load, tries=1)
        except TransportClosed:
            return await self.request(load, next((one for one in others if one.up), None))

    def status(self) -> list[dict[str, Any]]:
        """Plain data about each link."""
        return [link.status() for link in self.links]


class Standby:
    """
    Drives L{failover.step}: one link is in use; the others are started and stopped as it says.

    @ivar hooks: for the links; reports to the daemon go through here.
    @ivar serving: the link in use.
    """

    log = Logger()

    def __init__(self, links: Links, config: MinionConfig, outside: Outside, hooks: Hooks) -> None:
        self._links = links
        self._config = config
        self._outside = outside
        self._hooks = hooks
        self._policy = failover.Policy.of(config)
        self._choice = failover.Choice()
        self._events: list[failover.Event] = []
        self._busy = False
        self._timers: dict[type, IDelayedCall] = {}
        self._pillars: dict[MasterLink, dict[str, Any]] = {}
        self._first: dict[MasterLink, bool] = {}
        self._told: set[MasterLink] = set()
        self.serving: MasterLink | None = None
        self.hooks = Hooks(
            on_up=self._on_up,
            on_down=lambda link, reason: self._happened(failover.Down, link),
            on_pillar=self._on_pillar,
            on_failed=lambda link: self._happened(failover.Unreached, link),
            on_doubt=lambda link, silent: self._happened(failover.Doubted, link, silent),
            on_trust=lambda link: self._happened(failover.Trusted, link),
        )

    def rank(self, masters: Sequence[int]) -> None:
        """These are the masters, by the numbers of their links."""
        choice = failover.ranked(self._config, masters, self._outside.dice.shuffle)
        self.happens(failover.Listed(choice.order, choice.home))

    # -- what happens

    def _happened(self, kind: Callable[..., failover.Event], link: MasterLink, *more: Any) -> None:
        self.happens(kind(self._links.links.index(link), *more))

    def _on_up(self, link: MasterLink, first: bool) -> None:
        self._first[link] = first
        self._happened(failover.Up, link)

    def _on_pillar(self, link: MasterLink, pillar: dict[str, Any]) -> None:
        """The pillar of a master that is not in use yet waits until it is."""
        if link is self.serving:
            self._hooks.on_pillar(link, pillar)
        else:
            self._pillars[link] = pillar

    def happens(self, event: failover.Event) -> None:
        """Feed the table; what an effect brings about is fed after it."""
        self._events.append(event)
        if self._busy:
            return
        self._busy = True
        try:
            while self._events:
                event = self._events.pop(0)
                self._choice, effects = failover.step(self._choice, event, self._policy)
                for effect in effects:
                    try:
                        _EFFECTS[effect.__class__](self, effect)
                    except Exception:
                        # What else there is to do, and what has happened meanwhile, is not lost
                        self.log.failure("{effect} failed", effect=effect.__class__.__name__)
        finally:
            self._busy = False

    # -- effects

    def _do_dial(self, effect: failover.Dial) -> None:
        self._links.links[effect.master].start()

    def _do_drop(self, effect: failover.Drop) -> None:
        link = self._links.links[effect.master]
        self._pillars.pop(link, None)
        link.stop()

    def _do_serve(self, effect: failover.Serve) -> None:
        link = self._links.links[effect.master]
        if not link.up:
            # It went down while this was decided: that is the next event.
            return
        before, self.serving = self.serving, link
        self.log.info(
            "master {master} is in use{before}",
            master=link.name,
            before=f", in place of {before.name}" if before is not None else "",
        )
        pillar = self._pillars.pop(link, None)
        if pillar is not None:
            self._hooks.on_pillar(link, pillar)
        self._told.add(link)
        self._links.is_up(link, self._first.pop(link, False))

    def _do_lose(self, effect: failover.Lose) -> None:
        link = self._links.links[effect.master]
        if self.serving is link:
            self.serving = None
        if link in self._told:
            self._told.discard(link)
            self._hooks.on_down(link, link.standing.reason)

    def _do_ask(self, effect: failover.Ask) -> None:
        self._after(failover.Turn, effect.seconds)

    def _do_hush(self, effect: failover.Hush) -> None:
        self._after(failover.Turn, None)

    def _do_look_later(self, effect: failover.LookLater) -> None:
        # Minions that failed together must not look together.
        self._after(failover.Look, effect.seconds * (0.8 + 0.4 * self._outside.dice.random()))

    def _do_look_never(self, effect: failover.LookNever) -> None:
        self._after(failover.Look, None)

    def _after(self, kind: type[failover.Turn | failover.Look], seconds: float | None) -> None:
        timer = self._timers.pop(kind, None)
        if timer is not None:
            timer.cancel()
        if seconds is not None:
            self._timers[kind] = self._outside.reactor.callLater(seconds, self._due, kind)

    def _due(self, kind: type[failover.Turn | failover.Look]) -> None:
        del self._timers[kind]
        self.happens(kind())


_EFFECTS: dict[type, Callable[[Standby, Any], None]] = {
    failover.Dial: Standby._do_dial,
    failover.Drop: Standby._do_drop,
    failover.Serve: Standby._do_serve,
    failover.Lose: Standby._do_lose,
    failover.Ask: Standby._do_ask,
    failover.Hush: Standby._do_hush,
    failover.LookLater: Standby._do_look_later,
    failover.LookNever: Standby._do_look_never,
}
