"""
One publish key for all masters of a C{cluster_pki_dir}, unless a cluster does better.

The process that makes a new key writes it there; the others check once a second. A minion that
receives a publication in between signs in and reads the same publication with the new key.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from saltwisted.master.publisher import Publisher
from saltwisted.stores.shared import SharedPublishKey
from saltwisted.transports.deferreds import let_go

LOOK = 1.0
"""Seconds between two looks at the file."""


class PublishKeyFile:
    """Keeps the publish key and its file the same."""

    log = Logger()

    def __init__(
        self,
        clock: Any,
        shared: SharedPublishKey,
        publisher: Publisher,
        run: Callable[..., Any],
        adopted: Callable[[], None],
    ) -> None:
        """
        @param run: C{run(function, *args)} in a thread.
        @param adopted: called after another master's key was taken over.
        """
        self._shared = shared
        self._publisher = publisher
        self._run = run
        self._adopted = adopted
        self._loop = LoopingCall(self.look)
        self._loop.clock = clock

    def startService(self) -> None:
        """Look from now on."""
        let_go(self._loop.start(LOOK, now=False), self.log, "the shared keys are no longer checked")

    def stopService(self) -> None:
        """No more."""
        if self._loop.running:
            self._loop.stop()

    def look(self) -> None:
        """Take over what another master has made."""
        key = self._shared.changed()
        if key is not None and key != self._publisher.key:
            self.log.info("another master has made a new publish key")
            self._publisher.adopt(key)
            self._adopted()

    def rotated(self) -> None:
        """We have made one: it is for all."""
        saved = self._run(self._shared.save, self._publisher.key)
        let_go(saved, self.log, "the new publish key is not in the shared directory")
