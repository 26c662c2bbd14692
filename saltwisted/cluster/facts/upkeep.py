"""
The upkeep of the fact log, besides shipping it: snapshots, forgetting old deletions, and the
consequences if a node was away for longer than deletions are remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from saltwisted import advice
from saltwisted.stores.facts.log import ReplicaLog
from saltwisted.transports.deferreds import let_go
from saltwisted.transports.ticks import start_on_ticks

LOOK = 60
DAY = 86400.0
CHECK = 3600.0
"""Seconds between two looks for damage in the file."""


class Upkeep:
    """A part of the service, started after the log."""

    log = Logger()

    def __init__(self, clock: Any, replica: ReplicaLog) -> None:
        self._replica = replica
        self._clock = clock
        self._marked = self._checked = 0.0
        self._loop = LoopingCall(self.look)
        self._loop.clock = clock

    def startService(self) -> None:
        """The first day begins now."""
        self._marked = self._checked = self._clock.seconds()
        let_go(start_on_ticks(self._loop, LOOK), self.log, "the log is no longer compacted")

    def stopService(self) -> None:
        """No more."""
        if self._loop.running:
            self._loop.stop()

    def look(self) -> None:
        """Do what is due."""
        if self._replica.wants_compaction:
            work = Deferred.fromCoroutine(self._replica.compact())
            let_go(work, self.log, "the log was not compacted")
        if self._clock.seconds() - self._checked >= CHECK:
            self._checked = self._clock.seconds()
            let_go(Deferred.fromCoroutine(self._replica.check()), self.log, "the log is damaged")
        if self._clock.seconds() - self._marked >= DAY:
            self._marked = self._clock.seconds()
            let_go(self._replica.mark(), self.log, "the log's mark of the day was not set")


MUTUAL = 2.0
"""Seconds in which two nodes may each find the other too old."""


class AwayTooLong:
    """
    Decides what a refusal means (C{Shipping.on_refused}).

    A member that is refused and refuses nobody ends its own membership: it may accept keys that
    were revoked, and has to join as a new node. If two members refuse each other, both were alone
    for too long: neither is ended, and a person decides.

    @ivar refused: the members that this node refuses.
    """

    log = Logger()

    def __init__(
        self,
        clock: Any,
        end: Callable[[], None],
        alarm: Callable[[str, Mapping[str, Any]], None],
    ) -> None:
        """
        @param end: ends this node's membership.
        @param alarm: C{alarm(tag, data)}: fires an event.
        """
        self._clock = clock
        self._end = end
        self._alarm = alarm
        self._by: set[str] = set()
        self.refused: set[str] = set()

    def __call__(self, peer: str, by_peer: bool) -> None:
        if by_peer:
            self._by.add(peer)
            self._clock.callLater(MUTUAL, self._judge, peer)
        elif peer not in self.refused:
            self.refused.add(peer)
            self._alarm("saltwisted/alarm/away-too-long", {"node": peer})
            self.log.critical(
                "{peer} was away for longer than deletions are remembered: nothing is "
                "exchanged with it. {advice}",
                peer=peer,
                advice=advice.of("cluster.too-late"),
            )

    def _judge(self, peer: str) -> None:
        if peer not in self._by:
            return
        self._by.discard(peer)
        if peer in self.refused:
            self.log.critical(
                "{peer} and this node were apart for longer than deletions are remembered. "
                "Remove one of the two, and let it join as a new node.",
                peer=peer,
            )
            return
        self.log.critical(
            "{peer} says that this node was away for longer than deletions are remembered: it "
            "has to join as a new node",
            peer=peer,
        )
        self._end()
