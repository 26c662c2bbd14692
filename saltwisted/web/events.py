"""
Events for many listeners: each is converted to JSON once, in pieces if it is large, and sent to
those who may see it.

A listener that does not read is disconnected, so that its queue stays small; data in several queues
is in memory once.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from time import thread_time
from typing import Any, Protocol

from attrs import define, field
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IPushProducer
from twisted.internet.task import LoopingCall, deferLater
from twisted.logger import Logger
from zope.interface import implementer

from saltwisted.domain.api.pieces import NotJson, pieces
from saltwisted.domain.api.problems import Problem
from saltwisted.domain.api.watching import Eyes, JobUsers, minion_of
from saltwisted.domain.events import rough_weight
from saltwisted.doors import EVENTS
from saltwisted.transports.bus import EventBus, Fired
from saltwisted.transports.deferreds import let_go
from saltwisted.turns import turns_of

LISTENERS = 1000
OF_ONE = 200
"""Of these by one user."""
QUEUED = 16 * 1024 * 1024
"""Bytes of events that wait to be made into JSON."""
UNREAD = 4 * 1024 * 1024
"""Bytes that may wait for a listener that does not read."""
UNREAD_EVENTS = 8192
"""Events that may wait for it, however short: a place in a queue is memory, too."""
KEPT = EVENTS.memory_all - QUEUED
"""Bytes of events that are kept for all who do not read together; each event counts once."""
SLICE = 16_384
"""Bytes that a connection is given at once, which copies them."""
PORTION = 0.002
"""Seconds of the reactor thread's CPU in one turn."""
STEPS = 200
"""Steps in one turn, at most: an event, a piece of one, or some listeners that get it."""
AT_ONCE = 25
"""Listeners that get an event in one step."""
CHECK = 5.0
"""Seconds from one look at whether a listener may listen to the next."""
Framing = Callable[[str, bytes], bytes]
"""Makes the bytes that a client gets of an event's tag and of JSON of all of it."""


class Framed(bytes):
    """An event for those who listen, which counts as long as it waits for one of them."""

    hub: Hub

    def __del__(self) -> None:
        self.hub.kept -= len(self)


class Line(Protocol):
    """How a listener gets events."""

    @property
    def unread(self) -> int:
        """Bytes that wait for it."""
        ...

    @property
    def framing(self) -> Framing:
        """How it frames events; lines with the same framing share one object."""
        ...

    def give(self, framed: bytes) -> None:
        """An event."""

    def end(self, stopping: bool = False) -> None:
        """Nothing more comes: the user may no longer listen, or the master stops."""

    def cut(self) -> None:
        """He is too slow."""


@define(eq=False)
class Listener:
    """
    One listener.

    @ivar look: awaited from time to time: what the user may see now, or C{None} if the session has
        ended.
    @ivar heard: gets the events themselves, if the client is sent something else.
    """

    eyes: Eyes
    line: Line
    look: Callable[[], Awaitable[Eyes | None]]
    heard: Callable[[Fired], None] | None = None


@define(eq=False)
class _Waiting:
    """Something that is not JSON yet, and who gets it."""

    tag: str
    value: Mapping[str, Any] = field(repr=False)
    size: int
    who: Collection[Listener] = field(repr=False)


class Hub:
    """
    All listeners of one master.

    @param counters: the master's.
    @ivar kept: bytes of events that wait for listeners, each counted once.
    """

    log = Logger()
    kept = 0

    def __init__(self, reactor: Any, bus: EventBus, counters: Counter[str]) -> None:
        self._reactor = reactor
        self._turns = turns_of(reactor)
        self._bus = bus
        self._counters = counters
        self._users = JobUsers()
        self._listeners: dict[Listener, None] = {}
        self._queue: deque[_Waiting] = deque()
        self._queued = 0
        self._working: Iterator[None] | None = None
        self._call: Any = None
        self._judged: set[Listener] = set()
        self._pause: Deferred[None] = succeed(None)
        self._looking = LoopingCall(self._look)
        self._looking.clock = reactor
        self._unsubscribe: Callable[[], None] = lambda: None

    def startService(self) -> None:
        """Listen to the bus."""
        self._unsubscribe = self._bus.subscribe_events("", self._fired)
        let_go(self._looking.start(CHECK, now=False), self.log, "listeners are no longer judged")

    def stopService(self) -> None:
        """End all listeners."""
        self._unsubscribe()
        if self._looking.running:
            self._looking.stop()
        self._pause.cancel()
        if self._call is not None:
            self._call.cancel()
            self._call = None
        self._queue.clear()
        for listener in list(self._listeners):
            self.remove(listener)
            listener.line.end(stopping=True)

    def __len__(self) -> int:
        """How many listen."""
        return len(self._listeners)

    def add(self, listener: Listener) -> None:
        """
        Add a listener, which gets events from now on.

        @raises Problem: C{503}, there are too many.
        """
        who = listener.eyes.who
        own = sum(1 for each in self._listeners if each.eyes.who == who)
        if len(self._listeners) >= LISTENERS or own >= OF_ONE:
            self._counters["api:too-many-listeners"] += 1
            raise Problem(
                503, "There are too many listeners: try again later", {"Retry-After": "5"}
            )
        self._listeners[listener] = None

    def remove(self, listener: Listener) -> None:
        """He has gone."""
        self._listeners.pop(listener, None)

    # -- events

    def _fired(self, event: Fired) -> None:
        whose = self._users.heard(event.tag, event.data)
        if not self._listeners:
            return
        minion = minion_of(event.tag, event.sender)
        who = [each for each in self._listeners if each.eyes.see(minion, whose)]
        for each in who:
            if each.heard is not None:
                each.heard(event)
        who = [each for each in who if each.heard is None]
        if who:
            self.show(event.tag, {"tag": event.tag, "data": event.data}, who)

    def show(self, tag: str, value: Mapping[str, Any], who: Collection[Listener]) -> None:
        """Convert a value that no longer changes to JSON, and pass it to them."""
        size = rough_weight(value)
        if self._queued + size > QUEUED and self._queue:
            # They would miss it; who is hung up on knows that
            for listener in who:
                self._cut(listener, "api:listeners-behind")
            return
        self._queued += size
        self._queue.append(_Waiting(tag, value, size, who))
        self._later()

    def _later(self) -> None:
        if self._call is None:
            self._call = self._turns.later(self._go_on)

    def _go_on(self) -> None:
        self._call = None
        until = thread_time() + self._turns.left(PORTION)
        for _ in range(STEPS):
            if self._working is None:
                if not self._queue:
                    return
                self._working = self._give(self._queue.popleft())
            if next(self._working, self) is self:
                self._working = None
            if thread_time() > until:
                break
        if self._working is not None or self._queue:
            self._later()

    def _give(self, waiting: _Waiting) -> Iterator[None]:
        """Step by step, make JSON of an event and give it to all who see it."""
        made: list[str] = []
        try:
            for piece in pieces(waiting.value):
                made.append(piece)
                yield
        except NotJson:
            self._counters["api:events-not-json"] += 1
            return
        finally:
            self._queued -= waiting.size
        document = "".join(made).encode("utf-8", "replace")
        # One for all: two hundred who do not read keep it once
        framed: dict[Framing, bytes] = {}
        for number, listener in enumerate(waiting.who, 1):
            if listener in self._listeners:
                framing = listener.line.framing
                if framing not in framed:
                    framed[framing] = self._kept(framing(waiting.tag, document))
                listener.line.give(framed[framing])
            if number % AT_ONCE == 0:
                yield

    def _kept(self, data: bytes) -> bytes:
        """
        One more event that may have to wait; who does not read makes room for it.
        """
        kept = Framed(data)
        kept.hub = self
        self.kept += len(kept)
        while self.kept > KEPT:
            slowest = max(self._listeners, key=lambda each: each.line.unread, default=None)
            if slowest is None or not slowest.line.unread:
                break
            self.slow(slowest)
        return kept

    def slow(self, listener: Listener) -> None:
        """He does not read."""
        self._cut(listener, "api:slow-listeners")

    def _cut(self, listener: Listener, counter: str) -> None:
        if listener in self._listeners:
            self._counters[counter] += 1
            self.remove(listener)
            listener.line.cut()

    # -- rights

    def _look(self) -> Deferred[None]:
        return Deferred.fromCoroutine(self._look_at_all())

    async def _look_at_all(self) -> None:
        """
        Judge all, some in each turn of the reactor. Nobody waits for another's directory, and no
        directory is asked again before it has answered.
        """
        waiting = [each for each in self._listeners if each not in self._judged]
        while waiting:
            for listener in waiting[:AT_ONCE]:
                let_go(self._judge(listener), self.log, "a listener is no longer judged")
            del waiting[:AT_ONCE]
            if waiting:
                self._pause = deferLater(self._reactor, 0)
                await self._pause

    async def _judge(self, listener: Listener) -> None:
        self._judged.add(listener)
        try:
            eyes = await listener.look()
        except Exception:
            self.log.failure("the rights of a listener could not be checked")
            eyes = None
        finally:
            self._judged.discard(listener)
        if listener not in self._listeners:
            return
        if eyes is None:
            self.remove(listener)
            listener.line.end()
        else:
            listener.eyes = eyes


@implementer(IPushProducer)
class Outlet:
    """
    Bytes for one client, as fast as it reads them.

    @param write: writes to its connection.
    @param full: called when it is too far behind.
    """

    def __init__(self, write: Callable[[bytes], None], full: Callable[[], None]) -> None:
        self._write = write
        self._full = full
        self._paused = False
        self._waiting: deque[bytes] = deque()
        self._begun = 0
        self.unread = 0

    def give(self, data: bytes) -> None:
        """These bytes come next."""
        self._waiting.append(data)
        self.unread += len(data)
        self._flow()
        if self.unread > UNREAD or len(self._waiting) > UNREAD_EVENTS:
            self._full()

    def _flow(self) -> None:
        # In slices: what a connection has been given is copied by it, what waits here is not
        while self._waiting and not self._paused:
            data = self._waiting[0]
            piece = data[self._begun : self._begun + SLICE]
            self._begun += len(piece)
            self.unread -= len(piece)
            if self._begun >= len(data):
                self._waiting.popleft()
                self._begun = 0
            self._write(piece)

    def pauseProducing(self) -> None:
        """The client has enough for now."""
        self._paused = True

    def resumeProducing(self) -> None:
        """It has read."""
        self._paused = False
        self._flow()

    def flush(self) -> None:
        """All that waits goes to the connection, which is about to end."""
        self.resumeProducing()
        while self._waiting:
            self._paused = False
            self._flow()

    def stopProducing(self) -> None:
        """It is gone."""
        self._paused = True
        self._waiting.clear()
        self.unread = 0
