"""
Stores events for which minions were promised a reaction, on this disk and on those of the linked
nodes.

L{saltwisted.domain.reactions.keeping} decides what is stored and who takes it over. This is
C{IKeptEvents} for a lone master, which has no peers, and for a member of a cluster.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from attrs import define
from twisted.internet.defer import Deferred, fail, maybeDeferred
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from saltwisted.claiming import IKeptEvents
from saltwisted.domain.reactions.keeping import Id, Kept, Owed, Shelf, read_ids, read_told
from saltwisted.errors import SaltwistedError, StoreError, WireError
from saltwisted.interfaces import IPeers
from saltwisted.transports.deferreds import as_deferred, let_go
from saltwisted.transports.reasons import why
from saltwisted.transports.turns import in_turns
from saltwisted.wire.msgpack import pack_bin, unpack_bin

KEEP, DONE, LIFE = "event-keep", "event-done", "event-life"
"""Words between nodes: write these down; these are done; in which life a node is, what it owes."""
SECOND_COPY = 1.0
"""Seconds that an event waits for another node's disk before it is acknowledged with one copy."""
TICK = 0.5
TOGETHER, LARGEST = 1024 * 1024, 8 * 1024 * 1024
"""Bytes of events in one message, and of what one request brings at most to go to other nodes."""
MOST_EARLY = 1000
"""
Messages of others that wait until this node has read what is owed, the newest of them. Where a disk
refuses for so long that there are more, the claim of a reaction still tells that it was done.
"""
MOST_DONE = 1000
"""Events that are done and not struck out yet: those of up to a tick, or so many."""


class IKeptStore(Protocol):
    """The store of the rows; L{saltwisted.stores.keptevents.KeptEventStore} is one."""

    def load(self) -> Deferred[list[Kept]]:
        """What is there."""

    def write(self, put: Sequence[Kept], delete: Sequence[Id] = ()) -> Deferred[None]:
        """Fires when it is on disk."""

    def close(self) -> Deferred[None]:
        """No more."""


@define(eq=False)
class _Copy:
    """What one request has brought, on its way to a second disk."""

    rows: list[Kept]
    is_doubled: bool = False
    waiting: Deferred[None] | None = None
    timer: Any = None


class NoPeers:
    """The peers of a lone master."""

    def links(self) -> Sequence[Any]:
        """None."""
        return ()

    def on_link(self, receiver: Callable[[Any, bool], None]) -> None:
        """There are none."""

    def answer(self, word: str, handler: Callable[[str, bytes], Any]) -> None:
        """Nobody asks."""

    def stream(self, purpose: str, factory: Callable[[str, bool], Any]) -> None:
        """There are none."""


class KeptEvents:
    """
    Reactor thread only.

    @param clock: the reactor's clock, which nobody sets.
    @param life: a text that differs each time the process is started.
    @param now: time of day.
    @param peers: the links; C{None} for a lone master.
    @param copies: on how many disks an event must be (C{return_copies}).
    @param may: whether this node would claim anything now; if not, it takes nothing over.
    @param given: called with the keys that an earlier life of this node assigned, before new ones
        are.
    @ivar problem: why the disk does not accept events, or C{""}.
    """

    log = Logger()

    def __init__(
        self,
        clock: Any,
        node: str,
        life: str,
        store: IKeptStore,
        now: Callable[[], float],
        counters: Counter[str],
        peers: IPeers | None = None,
        copies: int = 2,
        may: Callable[[], bool] = lambda: True,
        given: Callable[[str], None] = lambda key: None,
    ) -> None:
        self._clock, self._node, self._life = clock, node, life
        self._store, self._now, self._counters = store, now, counters
        self._peers: IPeers = peers if peers is not None else NoPeers()
        self._copies, self._may, self._given = copies, may, given
        self.problem = ""
        self.shelf = Shelf(node, life)
        self._is_open = self._is_opening = False
        self._to_tell: list[_Copy] = []
        self._telling: Any = None
        self._copying: dict[Id, _Copy] = {}
        self._early: deque[Callable[[], None]] = deque(maxlen=MOST_EARLY)
        self._done: list[Id] = []
        self._gone: list[Id] = []
        self._loop: LoopingCall | None = None
        self._receivers: list[Callable[[Kept, float], None]] = []
        self._peers.answer(KEEP, self._keep_came)
        self._peers.answer(DONE, self._done_came)
        self._peers.answer(LIFE, self._life_came)
        self._peers.on_link(self._link)

    # -- life

    def startService(self) -> None:
        """Read which events are owed. While the disk refuses that, nothing is acknowledged."""
        self._loop = LoopingCall(self._tick)
        self._loop.clock = self._clock
        let_go(self._loop.start(TICK), self.log, "what is owed is no longer looked at")

    async def stopService(self) -> None:
        """Acknowledge nothing more; owed events stay on disk."""
        if self._loop is not None and self._loop.running:
            self._loop.stop()
        self._loop = None
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
        for copy in self._copying.values():
            if copy.timer is not None and copy.timer.active():
                copy.timer.cancel()
        self._copying.clear()
        if self._is_open:
            self._strike_out()
            self._is_open = False
            await self._store.close()

    def _open(self) -> None:
        self._is_opening = True

        async def load() -> None:
            async for row in in_turns(self._clock, await self._store.load()):
                self.shelf.put((row,), self._clock.seconds())
                if row.node == self._node:
                    self._given(row.key)
            self._is_open = self._loop is not None
            self.problem = ""
            while self._is_open and self._early:
                self._early.popleft()()

        def refused(failure: Failure) -> None:
            failure.trap(StoreError)
            problem = why(failure)
            if problem != self.problem:
                self.problem = problem
                self.log.error(
                    "events that match a reaction are not acknowledged: {why}. Minions send them "
                    "again",
                    why=problem,
                )

        def tried(result: Any) -> Any:
            self._is_opening = False
            return result

        d = Deferred.fromCoroutine(load()).addErrback(refused).addBoth(tried)
        let_go(d, self.log, "what is owed could not be read")

    # -- IKeptEvents

    def keep(
        self, events: Sequence[tuple[str, str, Mapping[str, Any], Mapping[int, str]]]
    ) -> Deferred[list[Owed]]:
        """On this disk, and at the same time on its way to the others."""
        if not self._is_open:
            return fail(StoreError("what is owed is not read yet, or its disk refuses"))
        owed = [self._rows(*event) for event in events]
        rows = [row for each in owed for row in each.parts.values()]
        if not self.shelf.has_room(rows):
            return fail(StoreError(f"reactions to {len(self.shelf)} events are owed already"))
        if rows and not self.shelf.has_room_of(rows[0].minion, rows):
            self._counters["events:not-kept"] += len(events)
            return fail(
                StoreError(f"{rows[0].minion} would take the room of other minions' events")
            )
        self.shelf.put(rows, self._clock.seconds())
        copy = _Copy(rows)
        if self._copies > 1 and self._peers.links():
            self._copying[rows[0].id] = copy
            if sum(row.size for row in rows) <= LARGEST:
                self._to_tell.append(copy)
            if self._telling is None:
                self._telling = self._clock.callLater(0, self._tell)
        else:
            copy.is_doubled = True

        def written(_: None) -> list[Owed]:
            self.problem = ""
            self._counters["events:kept"] += len(owed)
            return owed

        def refused(failure: Failure) -> Failure:
            self.problem = why(failure)
            # Others may have them: the minion sends them again
            for row in rows:
                self.done(row)
            self._copying.pop(rows[0].id, None)
            return failure

        return self._store.write(rows).addCallbacks(written, refused)

    def _rows(
        self, minion: str, tag: str, data: Mapping[str, Any], keys: Mapping[int, str]
    ) -> Owed:
        packed, number, at = pack_bin(dict(data)), self.shelf.next_number(), self._now()
        return Owed(
            parts={
                part: Kept(
                    source=self.shelf.source,
                    number=number,
                    part=part,
                    minion=minion,
                    tag=tag,
                    key=key,
                    at=at,
                    heard=self._clock.seconds(),
                    data=packed,
                )
                for part, key in keys.items()
            }
        )

    def copied(self, owed: Sequence[Owed]) -> Deferred[None] | None:
        """When another node has it on disk, or a second has gone by, or no node is linked."""
        first = next(iter(owed[0].parts.values())).id
        copy = self._copying.get(first)
        if copy is None or copy.is_doubled or not self._peers.links():
            self._copying.pop(first, None)
            return None
        copy.waiting = Deferred()
        copy.timer = self._clock.callLater(SECOND_COPY, self._acknowledge, copy)
        return copy.waiting

    def done(self, kept: Kept) -> None:
        """Struck out soon, here and elsewhere."""
        self._done += self.shelf.done([kept.id])
        if len(self._done) >= MOST_DONE:
            self._strike_out()

    def on_found(self, receiver: Callable[[Kept, float], None]) -> None:
        """What is found before there is one waits."""
        self._receivers.append(receiver)

    # -- a second copy

    def _tell(self) -> None:
        """All that came in one turn, in few messages."""
        self._telling = None
        copies, self._to_tell = self._to_tell, []
        while copies:
            some: list[_Copy] = []
            size = 0
            while copies and (not some or size < TOGETHER):
                some.append(copies.pop(0))
                size += sum(row.size for row in some[-1].rows)
            body = pack_bin([self._life, [row.told() for copy in some for row in copy.rows]])
            for link in self._peers.links():
                asked = as_deferred(link.ask(KEEP, body))
                asked.addCallbacks(  # type: ignore[unused-awaitable]
                    self._doubled, self._not_doubled, callbackArgs=(some,)
                )
                let_go(asked, self.log, "events were not acknowledged")

    def _doubled(self, _: bytes, copies: Sequence[_Copy]) -> None:
        for copy in copies:
            if not copy.is_doubled:
                copy.is_doubled = True
                if copy.waiting is not None:
                    self._acknowledge(copy)

    def _not_doubled(self, failure: Failure) -> None:
        # It is away, of another release, or its disk is full: another may have it
        failure.trap(SaltwistedError)
        self._counters["events:not-copied"] += 1

    def _acknowledge(self, copy: _Copy) -> None:
        waiting, copy.waiting = copy.waiting, None
        self._copying.pop(copy.rows[0].id, None)
        if copy.timer is not None and copy.timer.active():
            copy.timer.cancel()
        if waiting is not None:
            self._counters[f"events:copies-{1 + copy.is_doubled}"] += 1
            waiting.callback(None)

    # -- what others say

    def _keep_came(self, node: str, body: bytes) -> Deferred[bytes]:
        """
        @raises WireError: it makes no sense.
        @raises StoreError: it cannot be kept here.
        """
        life, rows = _two(unpack_bin(body))
        kept = read_told(rows, node, self._now(), self._clock.seconds())
        if not self._is_open or not self.shelf.has_room(kept):
            raise StoreError("no more events are kept here")
        now = self._clock.seconds()
        self.shelf.linked(node, str(life), now)
        self.shelf.put(kept, now)

        def refused(failure: Failure) -> Failure:
            self.shelf.done([row.id for row in kept])
            return failure

        return self._store.write(kept).addCallbacks(lambda _: b"", refused)

    def _done_came(self, node: str, body: bytes) -> None:
        """
        @raises WireError: it makes no sense.
        """
        ids = read_ids(unpack_bin(body))
        self._when_read(lambda: self.shelf.done(ids))

    def _life_came(self, node: str, body: bytes) -> None:
        """
        @raises WireError: it makes no sense.
        """
        said = unpack_bin(body)
        types = [type(each) for each in said] if isinstance(said, list) else []
        if types != [str, int, list]:
            raise WireError("event-life")
        life, upto, rows = said
        self.shelf.linked(node, life, self._clock.seconds())
        self._when_read(lambda: self.shelf.struck_out(node, life, upto, rows))

    def _when_read(self, strike: Callable[[], list[Id]]) -> None:
        """Others say that events are done, perhaps before these could be read from the disk."""

        def act() -> None:
            self._gone += strike()

        if self._is_open:
            act()
        else:
            self._early.append(act)

    def _link(self, link: Any, up: bool) -> None:
        if up:
            link.tell(LIFE, pack_bin(self.shelf.owed_here()))
            return
        self.shelf.unlinked(link.node, self._clock.seconds())
        if not self._peers.links():
            for copy in list(self._copying.values()):
                if copy.waiting is not None:
                    self._acknowledge(copy)

    # -- time

    def _tick(self) -> None:
        if not self._is_open:
            if not self._is_opening:
                self._open()
            return
        self._strike_out()
        if not self._receivers or not self._may():
            return
        place = sum(link.node < self._node for link in self._peers.links())
        for kept in self.shelf.due(self._clock.seconds(), place):
            self._counters["events:found"] += 1
            for receiver in self._receivers:
                taken = maybeDeferred(receiver, kept, self._age(kept))
                let_go(taken, self.log, "an event was not taken up")

    def _age(self, kept: Kept) -> float:
        """By the clock that nobody sets, if it came in this life."""
        if kept.heard is not None:
            return float(self._clock.seconds()) - kept.heard
        return self._now() - kept.at

    def _strike_out(self) -> None:
        """What is done is told to the others, and leaves this disk when that takes it."""
        if not self._is_open:
            return
        if self._telling is not None:
            # Else others would write down for ever what they were told before that it is done
            self._telling.cancel()
            self._tell()
        told, self._done = self._done, []
        if told and self._peers.links():
            body = pack_bin([list(each) for each in told])
            for link in self._peers.links():
                link.tell(DONE, body)
        gone, self._gone = [*self._gone, *told], []
        if not gone:
            return

        def refused(failure: Failure) -> None:
            failure.trap(StoreError)
            self._gone += gone

        struck = self._store.write((), gone).addErrback(refused)
        let_go(struck, self.log, "events that are done stay on disk")


def _two(value: Any) -> tuple[Any, Any]:
    return (value[0], value[1]) if isinstance(value, list) and len(value) == 2 else (None, None)


_KeptEvents: type[IKeptEvents] = KeptEvents  # mypy compares them
