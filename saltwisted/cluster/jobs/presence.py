"""
Which minion is at which node, and how far apart the nodes' clocks are.

Every few seconds, and before a runner answers, every node asks every other which minions are
connected to it (word C{holds}). The answer contains the node's clock. Only an answer that came at
once is used to compute the difference of the clocks, so that a node that was stopped for a minute
is not deceived by messages that waited in its sockets meanwhile. A node whose link is down has no
minions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from attrs import define
from twisted.internet.defer import Deferred, DeferredList, succeed
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from saltwisted.domain.replica.delivery import merged_holders
from saltwisted.errors import SaltwistedError, WireError
from saltwisted.interfaces import IPeerLink, IPeers
from saltwisted.transports.deferreds import as_deferred, let_go
from saltwisted.transports.ticks import next_tick
from saltwisted.wire.msgpack import pack_bin, unpack_bin

HOLDS = "holds"
EVERY = 5.0
PATIENCE = 1.0
"""Seconds that a runner waits for the others' word, and that an answer with a clock may take."""
TOLERANCE = 1.0
"""Seconds by which two clocks may seem to disagree after a measurement."""
SETTLING = 2.0
"""Seconds after a sign-in until a minion can be expected to listen."""
SLICE = 400
"""Minions that are looked at per turn: about 2 ms."""


@define
class _Other:
    """
    What another node has said.

    @ivar mark: digest of the list, so that it is sent only when it has changed.
    @ivar offset: its clock minus ours, in seconds.
    @ivar measured: when that was so.
    """

    mark: bytes = b""
    minions: frozenset[str] = frozenset()
    offset: float = 0.0
    measured: float | None = None


class ClusterPresence:
    """
    Asks and answers. Reactor thread only.

    @param ids: the accepted minions.
    @param here: which of some minions are connected to this node now.
    @param arrived: called with a minion that is connected to this node and was not at the last
        check.
    """

    log = Logger()

    def __init__(
        self,
        clock: Any,
        now: Callable[[], float],
        node: str,
        peers: IPeers,
        ids: Callable[[], Iterable[str]],
        here: Callable[[Iterable[str]], set[str]],
        arrived: Callable[[str], None] = lambda minion_id: None,
    ) -> None:
        self._clock = clock
        self._now = now
        self._node = node
        self._peers = peers
        self._ids = ids
        self._here = here
        self.arrived = arrived
        self._others: dict[str, _Other] = {}
        self._own: dict[str, float] = {}
        self._own_mark = b""
        self._elsewhere: Mapping[str, str] = {}
        self._holders: Mapping[str, str] = {}
        self._stale = False
        self._timer: IDelayedCall | None = None
        self._settling: dict[str, IDelayedCall] = {}
        self._waiting: list[Deferred[None]] = []
        self._stopped = True
        peers.answer(HOLDS, self._asked)
        peers.on_link(self._link)

    def startService(self) -> None:
        """Look, ask, and do so again."""
        self._stopped = False
        self._tick()

    def stopService(self) -> None:
        """End it."""
        self._stopped = True
        for call in self._settling.values():
            call.cancel()
        self._settling.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- what others may ask

    def holders(self) -> Mapping[str, str]:
        """Minion to node, of all nodes; the map is replaced, never changed."""
        if self._stale:
            # Made for who asks, not for each of the thousands that sign in after a restart
            self._stale = False
            others = [(node, other.minions) for node, other in sorted(self._others.items())]
            # One that two nodes claim has left one of them a moment ago: who is here, is here
            self._holders = merged_holders([*others, (self._node, self._own)])
        return self._holders

    def own(self) -> Mapping[str, float]:
        """The minions at this node, and since when they are; for now, not to be kept."""
        return self._own

    def elsewhere(self) -> Mapping[str, str]:
        """Minion to node, of the other nodes."""
        return self._elsewhere

    def is_elsewhere(self, minion_id: str) -> bool:
        """
        Whether a linked node has said that this minion is connected to it, whether or not it is
        connected here.
        """
        return any(minion_id in other.minions for other in self._others.values())

    def age(self, node: str, moment: float) -> float | None:
        """
        Seconds since a moment by another node's clock; C{None} while that is unknown: its clock was
        not read lately, or has jumped. For a node that is not linked, its own time is used.
        """
        other = self._others.get(node)
        offset = 0.0
        if other is not None:
            now = self._clock.seconds()
            if other.measured is None or now - other.measured > 2 * EVERY:
                return None
            offset = other.offset
        age = self._now() + offset - moment
        return age if age >= -TOLERANCE else None

    def measure(self, node: str) -> Deferred[None]:
        """Look at another node's clock; fires when that is done or has failed."""
        for link in self._peers.links():
            if link.node == node:
                return self._ask(link)
        return succeed(None)

    async def refresh(self) -> None:
        """Have all others look, and wait for their word a moment at most."""
        asked = [self._ask(link, True) for link in self._peers.links()]
        await DeferredList([self._look(), *asked], consumeErrors=True)

    def came(self, minion_id: str) -> None:
        """
        A minion has just signed in here.

        From now on it counts as reached by what is published here, although it may take a moment
        until it listens: a job that it gets twice is worse than one that it misses. It may have
        been elsewhere without being missed here, or was restarted; so its time here is counted from
        now.
        """
        if minion_id not in self._own:
            self._own_mark = b""
            self._stale = True
        self._own[minion_id] = self._clock.seconds()
        if minion_id not in self._settling and not self._stopped:
            call = self._clock.callLater(SETTLING, self._settled, minion_id)
            self._settling[minion_id] = call

    def _settled(self, minion_id: str) -> None:
        del self._settling[minion_id]
        self.arrived(minion_id)

    # -- the look at our own

    def _tick(self) -> None:
        self._timer = self._clock.callLater(next_tick(self._clock, EVERY), self._tick)
        let_go(self._look(), self.log, "looking for minions failed")
        for link in self._peers.links():
            let_go(self._ask(link), self.log, "asking {node} failed", node=link.node)

    def _look(self) -> Deferred[None]:
        """Find out which minions are here, some per turn."""
        waiting: Deferred[None] = Deferred()
        self._waiting.append(waiting)
        if len(self._waiting) == 1:
            self._look_on(iter(tuple(self._ids())), set())
        return waiting

    def _look_on(self, rest: Iterator[str], found: set[str]) -> None:
        some = list(islice(rest, SLICE))
        if some and not self._stopped:
            found |= self._here(some)
            self._clock.callLater(0, self._look_on, rest, found)
            return
        # The connection of a minion that has just signed in may not be visible yet
        found |= self._settling.keys()
        before, now = self._own, self._clock.seconds()
        self._own = {minion_id: before.get(minion_id, now) for minion_id in found}
        if before.keys() != self._own.keys():
            self._own_mark = b""
            self._stale = True
        for minion_id in sorted(self._own.keys() - before.keys() - self._settling.keys()):
            self.arrived(minion_id)
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.callback(None)

    def _merge(self) -> None:
        """Other nodes have other minions."""
        others = [(node, other.minions) for node, other in sorted(self._others.items())]
        self._elsewhere = merged_holders(others)
        self._stale = True

    # -- the word

    async def _asked(self, node: str, body: bytes) -> bytes:
        mark, look = body[1:], body[:1] == b"\1"
        if look:
            await self._look()
        if not self._own_mark:
            self._own_mark = _mark(self._own)
        minions = None if mark == self._own_mark else sorted(self._own)
        return pack_bin([self._now(), self._own_mark, minions])

    def _ask(self, link: IPeerLink, look: bool = False) -> Deferred[None]:
        other = self._others.setdefault(link.node, _Other())
        began = self._clock.seconds()
        body = (b"\1" if look else b"\0") + other.mark
        asked = as_deferred(link.ask(HOLDS, body, PATIENCE))
        return asked.addCallbacks(
            self._answered, self._failed, callbackArgs=(link.node, other, began)
        )

    def _answered(self, body: bytes, node: str, other: _Other, began: float) -> None:
        if self._others.get(node) is not other:
            return
        try:
            moment, mark, minions = unpack_bin(body)
            if minions is not None:
                other.minions = frozenset(str(minion_id) for minion_id in minions)
                other.mark = bytes(mark)
            took = self._clock.seconds() - began
            if took < PATIENCE:
                other.offset = float(moment) + took / 2 - self._now()
                other.measured = self._clock.seconds()
        except (WireError, TypeError, ValueError) as error:
            self.log.error("{node} sent an invalid answer: {error}", node=node, error=str(error))
            return
        if minions is not None:
            self._merge()

    def _failed(self, failure: Any) -> None:
        failure.trap(SaltwistedError)

    def _link(self, link: IPeerLink, up: bool) -> None:
        if not up:
            if self._others.pop(link.node, None) is not None:
                self._merge()
        elif not self._stopped:
            let_go(self._ask(link), self.log, "asking {node} failed", node=link.node)


def _mark(minions: Iterable[str]) -> bytes:
    return hashlib.blake2b("\n".join(sorted(minions)).encode(), digest_size=16).digest()
