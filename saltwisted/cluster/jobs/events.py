"""
Events of one node on the buses of all.

An event of a node (a sign-in, a started minion, a new job, a runner) is sent to every linked node,
together with the others of the same turn (word C{events}), and fired there with its origin. A node
sends only its own events, so nothing goes in circles. If a node cannot reach the origin, a node
that both reach passes the events on. Events are not stored: a node that is away misses them. Stored
returns arrive as rows of the job cache (C{forward}), and each node reports presence by itself.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from saltwisted.errors import WireError
from saltwisted.interfaces import IPeerLink, IPeers
from saltwisted.stores.jobs.longpacking import is_long, pack_in_turns, unpacked
from saltwisted.transports.bus import EventBus, Fired
from saltwisted.transports.deferreds import let_go
from saltwisted.wire.freeing import free
from saltwisted.wire.longpack import LARGE
from saltwisted.wire.msgpack import pack_bin, unpack_bin

EVENTS = "events"
MOST_QUEUED = 8 * 1024 * 1024
"""Bytes that may wait for a node before it misses events."""
OWN_BUSINESS = ("salt/presence/", "saltwisted/", "cluster/")
"""Tags that every node fires by itself, or that are no one else's business."""
SHARED = ("saltwisted/reaction/", "saltwisted/orchestrate/")
"""
But these all nodes want to know: what a reaction causes may arise at any of them, and a deploy is
watched from any.
"""
REMEMBERED = 50_000


class Events:
    """
    Sends and receives events. Reactor thread only.

    @param kept: whether the return of this event is stored in the job cache, and so arrives as a
        row.
    """

    log = Logger()

    def __init__(
        self,
        clock: Any,
        node: str,
        incarnation: str,
        bus: EventBus,
        peers: IPeers,
        kept: Callable[[Mapping[str, Any]], bool],
        counters: Counter[str],
        own_business: Sequence[str] = OWN_BUSINESS,
        in_thread: Callable[..., Deferred[Any]] = maybeDeferred,
    ) -> None:
        """
        @param incarnation: new at each start, since events are numbered from 1 then.
        @param in_thread: calls a function in a thread.
        """
        self._in_thread = in_thread
        self._clock = clock
        self._node = node
        self._incarnation = incarnation
        self._bus = bus
        self._peers = peers
        self._kept = kept
        self._counters = counters
        self._own_business = tuple(own_business)
        self._number = 0
        self._queue: list[tuple[int, str, Mapping[str, Any], str]] = []
        self._flush_call: IDelayedCall | None = None
        self._seen: set[tuple[str, str, int]] = set()
        self._order: deque[tuple[str, str, int]] = deque()
        self._stop = bus.subscribe_events("", self._fired)
        peers.answer(EVENTS, self._came)

    def startService(self) -> None:
        """Nothing to start."""

    def stopService(self) -> None:
        """Send no more events."""
        self._stop()
        if self._flush_call is not None:
            self._flush_call.cancel()
            self._flush_call = None

    def _fired(self, event: Fired) -> None:
        tag = event.tag
        if event.origin:
            return
        if tag.startswith(self._own_business) and not tag.startswith(SHARED):
            return
        if tag.startswith("salt/job/") and "/ret/" in tag and self._kept(event.data):
            return
        if not self._peers.links():
            return
        self._number += 1
        self._queue.append((self._number, tag, event.data, event.sender))
        if self._flush_call is None:
            self._flush_call = self._clock.callLater(0, self._flush)

    def _flush(self) -> None:
        self._flush_call = None
        queue, self._queue = self._queue, []
        events = [[number, tag, dict(data), sender] for number, tag, data, sender in queue]
        self._send(self._node, self._incarnation, events, ())

    def _send(
        self, origin: str, incarnation: str, events: list[Any], reached: Sequence[str]
    ) -> None:
        """Send to all linked nodes that are not said to be reached already."""
        links = [link for link in self._peers.links() if link.node not in (origin, *reached)]
        if not links:
            return
        all_reached = sorted({origin, self._node, *reached, *(link.node for link in links)})
        short: list[Any] = []
        for event in events:
            if is_long(event):
                # By itself, and packed a little in each turn: the others do not wait for it
                whole = [origin, incarnation, [event], all_reached]
                let_go(self._tell_long(links, whole), self.log, "a large event was not sent")
            else:
                short.append(event)
        if short:
            try:
                body = pack_bin([origin, incarnation, short, all_reached])
            except TypeError:
                short = self._packable(short)
                body = pack_bin([origin, incarnation, short, all_reached])
            self._tell(links, body, len(short))

    def _packable(self, events: Sequence[Any]) -> list[Any]:
        """Those that can be sent: one that cannot harms no other."""
        found = []
        for event in events:
            try:
                pack_bin(event)
            except TypeError as error:
                self._unpackable(1, error)
            else:
                found.append(event)
        return found

    async def _tell_long(self, links: Sequence[IPeerLink], whole: list[Any]) -> None:
        try:
            pieces = await pack_in_turns(self._clock, whole)
        except TypeError as error:
            self._unpackable(1, error)
            return
        self._tell(links, await self._in_thread(b"".join, pieces), 1)

    def _tell(self, links: Sequence[IPeerLink], body: bytes, count: int) -> None:
        for link in links:
            if link.queued > MOST_QUEUED:
                self._counters["events:missed"] += count
            else:
                link.tell(EVENTS, body)

    def _unpackable(self, count: int, error: TypeError) -> None:
        self._counters["events:unpackable"] += count
        self.log.error("events cannot be sent: {error}", error=str(error))

    def _came(self, node: str, body: bytes) -> None:
        if len(body) > LARGE:
            let_go(self._long_came(body), self.log, "large events of {node} were lost", node=node)
            return
        try:
            value = unpack_bin(body)
        except WireError:
            self._counters["refused:events"] += 1
            return
        self._take(value)

    async def _long_came(self, body: bytes) -> None:
        """What a thread has unpacked, it frees when everybody has it."""
        try:
            kept = [await self._in_thread(unpacked, body)]
        except WireError:
            self._counters["refused:events"] += 1
            return
        self._take(kept[0])
        self._clock.callLater(0, self._in_thread, free, kept)

    def _take(self, value: Any) -> None:
        try:
            origin, incarnation, events, reached = value
            nodes = [str(each) for each in reached]
            each_event = list(events)
        except (TypeError, ValueError):
            self._counters["refused:events"] += 1
            return
        if origin == self._node:
            return
        fresh: list[tuple[int, str, dict[Any, Any], str]] = []
        for event in each_event:
            try:
                number, tag, data, sender = event
                read = int(number), str(tag), dict(data), str(sender)
            except (TypeError, ValueError, OverflowError):
                # The others are none the worse for it
                self._counters["refused:events"] += 1
                continue
            if self._is_new((str(origin), str(incarnation), read[0])):
                fresh.append(read)
        for _, tag, data, sender in fresh:
            self._bus.fire(tag, data, origin, sender)
        if fresh:
            self._send(origin, incarnation, [list(event) for event in fresh], nodes)

    def _is_new(self, key: tuple[str, str, int]) -> bool:
        if key in self._seen:
            return False
        self._seen.add(key)
        self._order.append(key)
        if len(self._order) > REMEMBERED:
            self._seen.discard(self._order.popleft())
        return True


def is_row(job_cache: bool, data: Mapping[str, Any]) -> bool:
    """Whether a return comes to the others as a row of the job cache, and not as an event."""
    return job_cache and data.get("jid") != "nocache" and not data.get("nocache")
