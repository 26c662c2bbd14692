"""
Waits for complete roots before minions are served.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.task import deferLater
from twisted.logger import Logger

from saltwisted.cluster.roots.sync import RootSync

TELL_AGAIN = 30.0
STEP = 0.02


class RootsGate:
    """
    The last part before minions are served: a joining node waits until it has the cluster's roots.

    A node that has served before does not wait: what it has committed is a complete generation.
    """

    log = Logger()

    def __init__(self, sync: RootSync, clock: Any) -> None:
        self._sync = sync
        self._clock = clock
        self._stopped = False

    async def startService(self) -> None:
        """Wait until every share has a generation."""
        told = self._clock.seconds()
        while not self._stopped and not self._sync.report.complete:
            if self._clock.seconds() > told + TELL_AGAIN:
                told = self._clock.seconds()
                waiting = [n for n, share in self._sync.shares.items() if not share.ready]
                self.log.warn(
                    "not serving yet: waiting for the cluster's tree of {shares}",
                    shares=", ".join(waiting),
                )
            await deferLater(self._clock, STEP, lambda: None)

    def stopService(self) -> None:
        """Wait no more."""
        self._stopped = True
