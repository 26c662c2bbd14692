"""
Fires the events of returns that came from other nodes, once they are on disk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from saltwisted.errors import WireError
from saltwisted.stores.jobs.longpacking import unpacked
from saltwisted.transports.bus import EventBus
from saltwisted.transports.deferreds import OneByOne
from saltwisted.wire.freeing import free
from saltwisted.wire.msgpack import unpack_bin

LARGE = 256 * 1024
"""Bytes above which a return is announced only if somebody listens; then a thread unpacks it."""


class Returned(NamedTuple):
    """A return of another node, as it is on disk here."""

    jid: str
    minion_id: str
    at: float
    load: bytes | memoryview
    node: str

    @property
    def tag(self) -> str:
        """Of its event."""
        return f"salt/job/{self.jid}/ret/{self.minion_id}"


class Announcing:
    """
    Fires them: small ones at once, large ones one after another. Reactor thread only.

    @param in_thread: calls a function in a thread.
    """

    log = Logger()

    def __init__(
        self,
        clock: Any,
        bus: EventBus,
        counters: Counter[str],
        in_thread: Callable[..., Deferred[Any]],
    ) -> None:
        self._clock, self._bus, self._counters = clock, bus, counters
        self._in_thread = in_thread
        self._large = OneByOne(self._fire_large, self.log, "a large return was not announced")
        self._is_stopped = False

    def stop(self) -> None:
        """Fire no more events."""
        self._is_stopped = True
        self._large.clear()

    def put(self, returned: Returned) -> None:
        """Fire its event, now or later."""
        if len(returned.load) <= LARGE:
            self._fire(returned, unpack_bin(bytes(returned.load)))
        elif self._bus.listening(returned.tag):
            self._large.put(returned)

    async def _fire_large(self, returned: Returned) -> None:
        """What a thread has unpacked, it frees when everybody has it."""
        try:
            kept = [await self._in_thread(unpacked, returned.load)]
        except WireError:
            self._counters["refused:return"] += 1
            return
        if not self._is_stopped:
            self._fire(returned, kept[0])
            self._clock.callLater(0, self._in_thread, free, kept)

    def _fire(self, returned: Returned, load: Mapping[str, Any]) -> None:
        stamp = datetime.fromtimestamp(returned.at, UTC).isoformat(timespec="microseconds")
        data = {"cmd": "_return", "id": returned.minion_id, "jid": returned.jid, **load}
        data["_stamp"] = stamp
        self._bus.fire(returned.tag, data, returned.node)
