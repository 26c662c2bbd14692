"""
What must not be forgotten: the generations of jobs that have not returned and of runs that live, on
whichever node. Of jobs all nodes know by their pins; of its runs each node tells the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from saltwisted.cluster.roots.ran import RootRan
from saltwisted.commits import IEarlierCommits
from saltwisted.domain.roots.pins import Pins
from saltwisted.transports.deferreds import let_go

GIT = "gitfs"
"""The commits of all git remotes, among the trees of a generation."""
SAY_EVERY = 60.0
"""Seconds after which the other nodes are told again that a run lives."""


class RootLiving:
    """
    Reactor thread only.

    @param commits: what is served of git, and was.
    """

    log = Logger()

    def __init__(
        self, ran: RootRan, pins: Pins, commits: Callable[[], IEarlierCommits], clock: Any
    ) -> None:
        self._ran, self._pins, self._commits, self._clock = ran, pins, commits, clock
        self._saying = LoopingCall(self._say)
        self._saying.clock = clock

    def begin(self) -> None:
        """From now on nothing that is used is forgotten."""
        self._commits().on_use(self._used)
        let_go(self._saying.start(SAY_EVERY, now=False), self.log, "living runs are not told")

    def end(self) -> None:
        """Tell nothing any more."""
        if self._saying.running:
            self._saying.stop()

    def _used(self) -> set[bytes]:
        """The commits that jobs and runs of all nodes need."""
        known = self._ran.known()
        trees = [known[name] for name in self._ran.used() if name in known]
        trees += self._pins.running(self._clock.seconds())
        return {each[GIT] for each in trees if GIT in each}

    def _say(self) -> None:
        """Tell all nodes what runs of this one live on."""
        if read := self._commits().read():
            known = self._ran.known().items()
            self._ran.use([name for name, trees in known if trees.get(GIT) in read])
