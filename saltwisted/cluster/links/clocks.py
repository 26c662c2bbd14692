"""
Compares the members' clocks, for everything that is pruned by time
(L{saltwisted.domain.replica.pruning}).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from saltwisted.domain.replica.pruning import PruneClock
from saltwisted.errors import SaltwistedError, WireError
from saltwisted.interfaces import IPeers
from saltwisted.transports.deferreds import as_deferred, let_go
from saltwisted.transports.ticks import start_on_ticks
from saltwisted.wire.msgpack import pack_bin, unpack_bin

WORD = "clock"
EVERY = 30.0
"""Seconds between two comparisons."""
ASK_TIME = 3.0
"""Seconds for an answer; half of what it took is how wrong the answer may be."""


class Clocks:
    """
    A part of the service, started with the links.

    @ivar rules: decides from all clocks together.
    @ivar on_compared: called with the seconds by which the clocks of those that are linked are
        ahead of this node's.
    """

    log = Logger()

    def __init__(
        self,
        clock: Any,
        node: str,
        peers: IPeers,
        others: Callable[[], Sequence[str]],
        now: Callable[[], float],
        runtime: Callable[[], float],
    ) -> None:
        """
        @param others: the other members, reached or not.
        @param now: this node's own clock.
        @param runtime: seconds that nobody sets.
        """
        self.rules = PruneClock()
        self._clock = clock
        self._node = node
        self._peers = peers
        self._others = others
        self._now = now
        self._runtime = runtime
        self._said = ""
        self.on_compared: list[Callable[[Mapping[str, float]], None]] = []
        self._loop = LoopingCall(self.look)
        self._loop.clock = clock
        peers.answer(WORD, lambda peer, body: pack_bin(now()))

    def startService(self) -> None:
        """Compare from now on."""
        let_go(start_on_ticks(self._loop, EVERY), self.log, "clocks are no longer compared")

    def stopService(self) -> None:
        """No more."""
        if self._loop.running:
            self._loop.stop()

    @property
    def problem(self) -> str:
        """Why nothing is pruned, or C{""}; for the status."""
        self.time()
        return self.rules.problem

    def time(self) -> float | None:
        """What time it is for who prunes; C{None}: nothing may be pruned now."""
        return self.rules.time(self._now(), self._runtime())

    def look(self) -> None:
        """Compare once."""
        let_go(Deferred.fromCoroutine(self.compare()), self.log, "clocks were not compared")

    async def compare(self) -> None:
        """Ask all that can be reached what time it is."""
        asked = [(link.node, as_deferred(self._ask(link))) for link in self._peers.links()]
        offsets = {node: await answer for node, answer in asked}
        wall = self._now()
        found = {node: off for node, off in offsets.items() if off is not None}
        for receiver in self.on_compared:
            receiver(found)
        clocks = {node: wall + off for node, off in offsets.items() if off is not None}
        self.rules.compare(wall, self._runtime(), self._others(), clocks, self._node)
        problem = self.rules.problem
        if problem != self._said and (problem or self._said):
            if problem:
                self.log.warn("the job history is not pruned: {problem}", problem=problem)
            else:
                self.log.info("the clocks agree: the job history is pruned again")
        self._said = problem

    async def _ask(self, link: Any) -> float | None:
        """By how many seconds another clock is ahead of ours."""
        began, wall = self._runtime(), self._now()
        try:
            value = unpack_bin(await as_deferred(link.ask(WORD, b"", ASK_TIME)))
        except (SaltwistedError, WireError):
            return None
        if not isinstance(value, float):
            return None
        return value - (wall + (self._runtime() - began) / 2)
