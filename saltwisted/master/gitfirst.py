"""
The wait of a start for remotes that were never fetched.

It comes after the control socket and before the ports. Commands are answered meanwhile, and
C{status} names the remotes. Minions are not answered: they would get the files of other remotes and
directories in the place of those that have not come yet, and a job would run on them.
"""

from __future__ import annotations

from typing import Any, Protocol

from twisted.logger import Logger

from saltwisted.transports.deferreds import all_within
from saltwisted.words import listed

FIRST = 15.0
"""Seconds that a start waits for remotes where nothing is known yet."""
BESIDE = 3.0
"""The same, from the moment when others are served: minions are not kept from these."""


class Fetched(Protocol):
    """One repository; see L{saltwisted.master.gitupdates.Watched}."""

    @property
    def shown(self) -> str:
        """The name that people know."""

    @property
    def is_pillar(self) -> bool:
        """Whether it is one of C{git_pillar}."""

    @property
    def state(self) -> Any:
        """What has come; empty if nothing has."""


class Updates(Protocol):
    """Who fetches; see L{saltwisted.master.gitupdates.GitUpdates}."""

    @property
    def begun(self) -> list[Any]:
        """
        The fetches of the start, until somebody takes them: the repository (L{Fetched}), whether
        something was known before, and the Deferred outcome.
        """


class FirstFetches:
    """A part of a master."""

    log = Logger()

    def __init__(self, clock: Any, updates: Updates) -> None:
        self._clock, self._updates = clock, updates

    async def startService(self) -> None:
        """Wait until there is something of each remote, or for so long."""
        begun = list(self._updates.begun)
        self._updates.begun.clear()
        new: list[tuple[Fetched, Any]] = [(each, done) for each, known, done in begun if not known]
        waiting = [each.shown for each, done in new if not done.called]
        if waiting:
            self.log.info("git: the start waits for {remotes}", remotes=listed(waiting))
        kinds = {each.is_pillar for each, _ in new}
        since = [self._clock.seconds()] if len(new) < len(begun) else []

        def enough() -> bool:
            if not since and kinds == {each.is_pillar for each, _ in new if each.state}:
                since.append(self._clock.seconds())
            return bool(since) and self._clock.seconds() - since[0] >= BESIDE

        await all_within(self._clock, FIRST, [done for _, done in new], enough)

    def stopService(self) -> None:
        """There is nothing to stop."""
