"""
Which generations must be kept: those of jobs that have not returned, and of runs that have not
ended, on any node. All nodes know the jobs by their pins. Each node tells the others of runs: those
that go on here, and those that a node could go on with by the records that this node has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from saltwisted.cluster.roots.ran import RootRan
from saltwisted.commits import IEarlierCommits
from saltwisted.domain.roots.pins import Pins
from saltwisted.domain.roots.ranon import Trees
from saltwisted.transports.deferreds import let_go

GIT = "gitfs"
"""The commits of all git remotes, among the trees of a generation."""
SAY_EVERY = 60.0
"""Seconds after which the other nodes are told again that a run lives."""


class RootLiving:
    """
    Reactor thread only.

    @param runs: the trees of runs that have not ended, as this node has written them down.
    @param commits: the commits of git that are or were served.
    """

    log = Logger()

    def __init__(
        self,
        ran: RootRan,
        pins: Pins,
        runs: Callable[[], Mapping[str, Trees]],
        commits: Callable[[], IEarlierCommits],
        clock: Any,
    ) -> None:
        self._ran, self._pins, self._runs = ran, pins, runs
        self._commits, self._clock = commits, clock
        self._saying = LoopingCall(self._say)
        self._saying.clock = clock

    def begin(self) -> None:
        """From now on, nothing that is in use is forgotten."""
        self._commits().on_use(self._used)
        let_go(
            self._saying.start(SAY_EVERY, now=False),
            self.log,
            "the list of current runs is no longer sent",
        )

    def end(self) -> None:
        """Tell nobody any more."""
        if self._saying.running:
            self._saying.stop()

    def _used(self) -> set[bytes]:
        """The commits that jobs and runs of all nodes need."""
        known = self._ran.known()
        trees = [known[name] for name in self._ran.used() if name in known]
        trees += [*self._pins.running(self._clock.seconds()), *self._runs().values()]
        return {each[GIT] for each in trees if GIT in each}

    def _say(self) -> None:
        """Tell all nodes on which generations runs are, also those that nobody goes on with yet."""
        read, runs = self._commits().read(), self._runs()
        for name, trees in runs.items():
            self._ran.learn(name, trees)
        if read or runs:
            known = self._ran.known().items()
            self._ran.use([n for n, trees in known if n in runs or trees.get(GIT) in read])
