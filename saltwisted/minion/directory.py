"""
Which masters there are: from the configuration, from DNS, and from the masters themselves.

A name of the form C{_salt._tcp.example.com} stands for the masters of its SRV records, which are
queried again when they expire, and more often while no master is connected. A master of a cluster
names the others (in the answer to our heartbeat, sealed by its session). They are stored in a file,
and come after those of the configuration, which stay.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any, Protocol

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.names import client, dns

from saltwisted.errors import StoreError
from saltwisted.transports.deferreds import let_go

Master = tuple[str, int]
"""Host and request port."""

MOST = 64
"""Masters that are taken from one answer."""
SOON, LATER = 5.0, 3600.0
"""Seconds between two questions at least and at most."""


@frozen
class Service:
    """
    One SRV record.

    @ivar ttl: seconds for which it holds.
    """

    host: str
    port: int
    priority: int = 0
    weight: int = 0
    ttl: float = 60.0


Ask = Callable[[str], Awaitable[Sequence[Service]]]
"""The SRV records of a name; fails when there is no answer."""


class KnownMasters(Protocol):
    """Where the masters are stored that other masters have named."""

    def load(self) -> list[str]:
        """What was saved last; nothing when that cannot be read."""

    def save(self, names: Sequence[str]) -> None:
        """Remember these."""


def is_service(host: str) -> bool:
    """Whether a name stands for SRV records."""
    return host.startswith("_") and "._tcp." in host


def in_order(found: Sequence[Service], dice: Random) -> list[Service]:
    """By priority, and those of one priority by chance as their weights say (RFC 2782)."""
    ordered: list[Service] = []
    for priority in sorted({one.priority for one in found}):
        left = [one for one in found if one.priority == priority]
        while left:
            # Weight 0 is a small chance, not none
            chosen = dice.choices(left, [one.weight or 0.1 for one in left])[0]
            left.remove(chosen)
            ordered.append(chosen)
    return ordered


def srv_lookup(reactor: Any, resolver: Any = None) -> Ask:
    """
    Ask the name servers of C{/etc/resolv.conf}.

    @param resolver: a resolver of C{twisted.names}, for tests.
    """
    made: list[Any] = [resolver] if resolver is not None else []

    async def ask(name: str) -> Sequence[Service]:
        if not made:
            made.append(client.Resolver(resolv="/etc/resolv.conf", reactor=reactor))
        answers, _, _ = await made[0].lookupService(name, timeout=(1, 2, 4))
        return [
            Service(
                str(answer.payload.target.name, "ascii", "replace").rstrip("."),
                answer.payload.port,
                answer.payload.priority,
                answer.payload.weight,
                float(answer.ttl),
            )
            for answer in answers[:MOST]
            if answer.type == dns.SRV and str(answer.payload.target.name, "ascii", "replace")
        ]

    return ask


class Directory:
    """
    Keeps the list of masters, and reports its changes.

    @ivar masters: the present list.
    """

    log = Logger()

    def __init__(
        self,
        reactor: IReactorTime,
        configured: Sequence[Master],
        ask: Ask,
        dice: Random,
        kept: KnownMasters | None,
        read: Callable[[str], Master | None],
        changed: Callable[[Sequence[Master]], None],
        needy: Callable[[], bool] = lambda: False,
    ) -> None:
        """
        @param read: a master from its text, C{None} when that is none.
        @param changed: called with the whole list when it is another one.
        @param needy: whether no master is there at this moment.
        """
        self._reactor = reactor
        self._configured = list(dict.fromkeys(configured))
        self._ask = ask
        self._dice = dice
        self._kept = kept
        self._read = read
        self._changed = changed
        self._needy = needy
        self._found: dict[Master, list[Master]] = {}
        self._told: list[Master] = []
        self._same: dict[Master, Master] = {}
        self._timers: dict[Master, IDelayedCall] = {}
        self._running = False
        if kept is not None:
            self._told = self._readable(kept.load())
        self.masters = self._listed()

    def _readable(self, names: Sequence[str]) -> list[Master]:
        found = [self._read(name) for name in list(names)[:MOST] if isinstance(name, str)]
        return [one for one in found if one is not None]

    def _listed(self) -> list[Master]:
        masters: list[Master] = []
        for one in self._configured:
            masters += self._found.get(one, []) if is_service(one[0]) else [one]
        # A master is one, also when we know it by a name and the others by its address
        here = {other for one, other in self._same.items() if one in masters}
        return list(dict.fromkeys([*masters, *(one for one in self._told if one not in here)]))

    def start(self) -> None:
        """Ask for the records."""
        self._running = True
        for one in self._configured:
            if is_service(one[0]):
                self._look(one)

    def stop(self) -> None:
        """Ask no more."""
        self._running = False
        timers, self._timers = self._timers, {}
        for timer in timers.values():
            timer.cancel()

    def told(self, names: Sequence[str], by: Master | None = None, own: str = "") -> None:
        """
        A master has named the masters.

        @param by: our name for that master.
        @param own: which of them it is.
        """
        masters = self._readable(names)
        itself = self._readable([own]) if own else []
        if by is not None and itself and self._same.get(by) != itself[0]:
            self._same[by] = itself[0]
            self._tell()
        if masters and masters != self._told:
            self._told = masters
            self._tell()
            if self._kept is not None:
                try:
                    self._kept.save([name for name in names if self._read(name) is not None])
                except StoreError as error:
                    self.log.warn("the list of masters could not be saved: {error}", error=error)

    def _look(self, one: Master) -> None:
        self._timers.pop(one, None)
        asking: Deferred[Any] = Deferred.fromCoroutine(self._answer(one))
        let_go(asking, self.log, "the masters of {name} cannot be found", name=one[0])

    async def _answer(self, one: Master) -> None:
        wait = SOON
        try:
            found = await self._ask(one[0])
        except Exception as error:
            # Whatever a name server says: what was known before holds
            self.log.warn(
                "the SRV records of {name} could not be looked up: {error}",
                name=one[0],
                error=str(error)[:200] or error.__class__.__name__,
            )
            found = []
        if not self._running:
            return
        if found:
            self._found[one] = self._stable(one, found)
            self._tell()
            wait = min(LATER, max(SOON, min(service.ttl for service in found)))
        if self._needy():
            wait = min(wait, 2 * SOON)
        wait *= 0.8 + 0.4 * self._dice.random()
        self._timers[one] = self._reactor.callLater(wait, self._look, one)

    def _stable(self, one: Master, found: Sequence[Service]) -> list[Master]:
        """The same records again are no news, whatever the dice say about their order."""
        before = self._found.get(one, [])
        masters = [
            (service.host, service.port or one[1]) for service in in_order(found, self._dice)
        ]
        return before if set(before) == set(masters) else masters

    def _tell(self) -> None:
        masters = self._listed()
        if masters != self.masters:
            self.masters = masters
            self._changed(masters)
