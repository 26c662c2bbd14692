"""
Notes from where minions make their requests, and which are present, for the next start.

A request writes nothing: all minions are looked at every few seconds, and what has changed is
written. A new address is on disk within L{EVERY} seconds, and who is present within L{RARELY}.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from saltwisted.domain.presence import Whereabouts
from saltwisted.master.presence import Presence
from saltwisted.stores.keys import KeyStore
from saltwisted.stores.whereabouts import WhereaboutsFile
from saltwisted.transports.deferreds import let_go
from saltwisted.transports.turns import in_turns

EVERY = 10.0
"""Seconds between two looks at all minions; more if there are more than two thousand."""
AT_ONCE = 200
"""Minions a second that are looked at, and at once: about a millisecond."""
RARELY = 60.0
"""Seconds between two writes if no address is new."""


class WhereaboutsNotes:
    """Writes the file of a master. Reactor thread only."""

    log = Logger()

    def __init__(
        self,
        clock: Any,
        file: WhereaboutsFile,
        keys: KeyStore,
        run: Callable[..., Any],
        window: Callable[[], float],
        presence: Callable[[], Presence],
    ) -> None:
        """
        @param presence: says who is here; asked when everything is built.
        @param run: runs a function in a thread.
        @param window: seconds after the start for which a minion that was present before, and has
            not come yet, counts as present for the next start.
        """
        self._clock, self._file, self._keys, self._run = clock, file, keys, run
        self._window = window
        self._presence = presence
        self._earlier: Mapping[str, Whereabouts] | None = None
        self._written: Mapping[str, Whereabouts] = {}
        self._wrote = float("-inf")
        self._began = 0.0
        self._timer: IDelayedCall | None = None

    def earlier(self) -> Mapping[str, Whereabouts]:
        """What was written before the start; it is read when it is first asked for."""
        if self._earlier is None:
            self._earlier = self._written = self._file.read()
        return self._earlier

    def startService(self) -> None:
        """Begin to look."""
        self.earlier()
        self._began = self._clock.seconds()
        self._timer = self._clock.callLater(EVERY, self._begin)

    def stopService(self) -> None:
        """Write how it is now, while connections are still open."""
        if self._timer is None:
            return
        self._timer.cancel()
        self._timer = None
        found: dict[str, Whereabouts] = {}
        for some in _slices(list(self._keys.accepted_ids())):
            found.update(self._look_at(some))
        if found != self._written:
            self._file.write(found)

    def _begin(self) -> None:
        self._timer = self._clock.callLater(EVERY, self._begin)
        let_go(self._look(), self.log, "nobody has noted where minions are")

    async def _look(self) -> None:
        ids = list(self._keys.accepted_ids())
        found: dict[str, Whereabouts] = {}
        async for some in in_turns(self._clock, _slices(ids)):
            found.update(self._look_at(some))
        if self._timer is None:
            return
        self._timer.reset(max(EVERY, len(ids) / AT_ONCE))
        if found == self._written:
            return
        now = self._clock.seconds()
        if now < self._wrote + RARELY and _addresses(found) == _addresses(self._written):
            return
        self._written, self._wrote = found, now
        await self._run(self._file.write, found)

    def _look_at(self, some: Sequence[str]) -> dict[str, Whereabouts]:
        presence = self._presence()
        here = presence.here(some)
        found = {}
        for minion_id in some:
            address, is_here = presence.address(minion_id), minion_id in here
            if not is_here and self._clock.seconds() < self._began + self._window():
                before = self.earlier().get(minion_id)
                is_here = before is not None and before.present
            if address or is_here:
                found[minion_id] = Whereabouts(address, is_here)
        return found


def _slices(ids: Sequence[str]) -> Any:
    names = iter(ids)
    return iter(lambda: tuple(islice(names, AT_ONCE)), ())


def _addresses(known: Mapping[str, Whereabouts]) -> dict[str, str]:
    return {minion_id: each.address for minion_id, each in known.items()}
