"""
Grains, pillar and mine of all minions on every node: the connection between the cache and the fact
log.

The cache (L{saltwisted.stores.cache}) has the values, and L{saltwisted.domain.replica.minions}
decides which is the newest.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.logger import Logger

from saltwisted.domain.replica.minions import BANKS, KIND, MAX_DATA, Minions, key_for
from saltwisted.errors import StoreError
from saltwisted.parts import IMinionCache
from saltwisted.transports.deferreds import as_deferred, let_go

AT_ONCE = 20
"""Values that are read between two turns of the reactor."""


class MinionData:
    """
    A part of the service: started after the log, and before the node catches up.

    @ivar too_large: values that stayed on this node, because they are larger than the cluster
        carries.
    """

    log = Logger()

    def __init__(
        self,
        clock: Any,
        cache: IMinionCache,
        minions: Minions,
        append: Callable[[str, Mapping[str, Any]], Awaitable[Any]],
        pillar: bool = True,
        pillars_travel: Callable[[], bool] = lambda: True,
    ) -> None:
        """
        @param append: C{append(kind, body)} of the fact log.
        @param pillar: whether this node may hold pillars (C{cluster_pillar}, and its rights).
        @param pillars_travel: whether all members may: the log goes to each of them.
        """
        self._clock = clock
        self._cache = cache
        self._minions = minions
        self._append = append
        self._pillar = pillar
        self._pillars_travel = pillars_travel
        self._running = False
        self.too_large = 0
        minions.load = cache.packed
        cache.on_change(self._changed)

    def startService(self) -> None:
        """Receive data; after a while, offer cached data that was never in the log."""
        self._running = True
        if not self._pillar:
            for minion_id in tuple(self._cache.ids("pillar")):
                self._cache.adopt("pillar", minion_id, None)
        self._minions.taker = self._take
        for key in list(self._minions.registers):
            bank, _, minion_id = key.partition("/")
            held = self._cache.has(bank, minion_id) or (bank == "pillar" and not self._pillar)
            if self._minions.registers[key].digest and not held:
                # The cache was lost: the others have it
                self._minions.forget(key)
        let_go(Deferred.fromCoroutine(self._offer()), self.log, "the cache is not in the log")

    def stopService(self) -> None:
        """Offer nothing more."""
        self._running = False

    async def _offer(self) -> None:
        for bank in BANKS:
            for number, minion_id in enumerate(tuple(self._cache.ids(bank))):
                if number % AT_ONCE == 0:
                    await deferLater(self._clock, 0)
                if not self._running:
                    return
                if key_for(bank, minion_id) not in self._minions.registers:
                    self._changed(bank, minion_id, self._cache.packed(bank, minion_id))

    def _take(self, bank: str, minion_id: str, data: bytes | None) -> None:
        if bank == "pillar" and not self._pillar:
            return
        try:
            self._cache.adopt(bank, minion_id, data)
        except StoreError as error:
            self.log.error("{bank} of {minion}: {error}", bank=bank, minion=minion_id, error=error)

    def _changed(self, bank: str, minion_id: str, data: bytes | None) -> None:
        if not self._running or (bank == "pillar" and not self._pillars_travel()):
            return
        if data is not None and len(data) > MAX_DATA:
            self.too_large += 1
            self.log.warn(
                "{bank} of {minion} has {size} bytes: too large to replicate, it stays on this "
                "node",
                bank=bank,
                minion=minion_id,
                size=len(data),
            )
            return
        body = self._minions.body(bank, minion_id, data)
        if body is not None:
            let_go(as_deferred(self._append(KIND, body)), self.log, "minion data is not in the log")
