"""
What must not be forgotten: the generations of jobs that have not returned and of runs that go on,
on any node. All nodes know those of jobs by the pins; each node tells the others about its runs.
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

    @param commits: the commits of git that are or were served.
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
        let_go(
            self._saying.start(SAY_EVERY, now=False),
            self.log,
            "the list of current runs is no longer sent",
        )

    def end(self) -> None:
        """Stop reporting."""
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
