"""
The event bus inside one process. It stores nothing.

Subscribers name a prefix of tags. Nothing is packed or measured here: an event without a listener
costs a microsecond or two, and is gone. L{saltwisted.domain.events} decides which tags a minion may
fire.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, TypeAlias

from attrs import frozen
from twisted.logger import Logger

from saltwisted.domain.who import Who
from saltwisted.interfaces import IEventBus

Receiver = Callable[[str, Mapping[str, Any]], None]
CAUSE: ContextVar[Any] = ContextVar("event_cause", default=None)
"""What events are fired for just now, for whoever has set it: it is in each of them."""
Asked: TypeAlias = tuple[Who | None, str]
ASKED: ContextVar[Asked] = ContextVar("event_asked", default=(None, ""))
"""Who has asked for what is done just now, and by which way, from where: it is in each of them."""


@frozen
class Fired:
    """
    One event.

    @ivar number: counts from 1 without gaps, per bus.
    @ivar data: with C{_stamp}; all receivers share it: never change it.
    @ivar origin: the node where it arose; C{""} is this one.
    @ivar sender: the minion that sent it; C{""} for events that no minion sent.
    @ivar cause: L{CAUSE} as it was when the event was fired, which may be before it is delivered.
    @ivar asked: L{ASKED} likewise.
    @ivar owed: for the reactor: the record of the event (C{IKeptEvents}).
    """

    number: int
    tag: str
    data: Mapping[str, Any]
    origin: str
    sender: str = ""
    cause: Any = None
    owed: Any = None
    asked: Asked = (None, "")


class _Subscription:
    __slots__ = ("alive", "order", "prefix", "receiver", "whole")

    def __init__(self, order: int, prefix: str, receiver: Callable[..., None], whole: bool) -> None:
        self.order = order
        self.prefix = prefix
        self.receiver = receiver
        self.whole = whole
        self.alive = True


def _order(subscription: _Subscription) -> int:
    return subscription.order


class EventBus:
    """
    Delivers events to subscribers by prefix of their tag, in order. Reactor thread only.

    An event that is fired from inside a receiver is delivered after the current one, so every
    subscriber sees the same order.

    @param now: seconds since 1970.
    """

    log = Logger()

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        # Of one prefix, in the order in which they came; who goes is found at once
        self._by_prefix: dict[str, dict[_Subscription, None]] = {}
        self._of_length: Counter[int] = Counter()
        self._lengths: tuple[int, ...] = ()
        self._order = 0
        self._queue: deque[Fired] = deque()
        self._busy = False
        self.last = 0

    def fire(
        self,
        tag: str,
        data: Mapping[str, Any],
        origin: str = "",
        sender: str = "",
        owed: Any = None,
    ) -> None:
        """Stamp the event (ISO, UTC, with offset) unless it has a stamp, and give it out."""
        if "_stamp" not in data:
            stamp = datetime.fromtimestamp(self._now(), UTC)
            data = {**data, "_stamp": stamp.isoformat(timespec="microseconds")}
        self.last += 1
        event = Fired(self.last, tag, data, origin, sender, CAUSE.get(), owed, ASKED.get())
        self._queue.append(event)
        if self._busy:
            return
        self._busy = True
        try:
            while self._queue:
                self._give(self._queue.popleft())
        finally:
            self._busy = False

    def _give(self, event: Fired) -> None:
        tag = event.tag
        found: list[_Subscription] = []
        for length in self._lengths:
            if length <= len(tag):
                matching = self._by_prefix.get(tag[:length])
                if matching:
                    found += matching
        if len(found) > 1:
            found.sort(key=_order)
        for subscription in found:
            if not subscription.alive:
                continue
            try:
                if subscription.whole:
                    subscription.receiver(event)
                else:
                    subscription.receiver(tag, event.data)
            except Exception:
                self.log.failure("a receiver of {tag} failed", tag=tag[:200])

    def subscribe(self, prefix: str, receiver: Receiver) -> Callable[[], None]:
        """Call C{receiver(tag, data)} for tags with this prefix; returns the un-subscribe call."""
        return self._subscribe(prefix, receiver, False)

    def subscribe_events(
        self, prefix: str, receiver: Callable[[Fired], None]
    ) -> Callable[[], None]:
        """As L{subscribe}, with the whole event: its number and origin too."""
        return self._subscribe(prefix, receiver, True)

    def _subscribe(
        self, prefix: str, receiver: Callable[..., None], whole: bool
    ) -> Callable[[], None]:
        self._order += 1
        subscription = _Subscription(self._order, prefix, receiver, whole)
        same = self._by_prefix.get(prefix)
        if same is None:
            same = self._by_prefix[prefix] = {}
            self._count(len(prefix), 1)
        same[subscription] = None

        def stop() -> None:
            if subscription.alive:
                subscription.alive = False
                del same[subscription]
                if not same:
                    del self._by_prefix[prefix]
                    self._count(len(prefix), -1)

        return stop

    def _count(self, length: int, more: int) -> None:
        """So many prefixes more have this length; what an event looks at are the lengths."""
        self._of_length[length] += more
        if self._of_length[length] == 0:
            del self._of_length[length]
        if len(self._lengths) != len(self._of_length):
            self._lengths = tuple(sorted(self._of_length))

    def listening(self, tag: str) -> bool:
        """Whether anybody would get an event of this tag."""
        return any(tag[:length] in self._by_prefix for length in self._lengths)


_EventBus: type[IEventBus] = EventBus  # mypy compares them
