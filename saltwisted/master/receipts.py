"""
The receipts of a lone master, on its disk: the book of L{saltwisted.master.loneclaims}.

Beginnings are written at the end of this turn of the reactor, together with everything that arrived
while the disk was busy; ends are written along with beginnings, and wait a moment for them. The
book is read at the next start. While the disk refuses, rows wait in memory and are tried again; if
there are too many, the oldest are dropped. Receipts are pruned like jobs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Protocol

from attrs import evolve
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from saltwisted.domain.claims.voter import Memory, Put, Vote, Write, node_of
from saltwisted.domain.claims.words import Receipt
from saltwisted.domain.targeting.globs import globbed
from saltwisted.errors import StoreError
from saltwisted.master.loneclaims import IReceiptBook, receipt_of
from saltwisted.transports.deferreds import let_go
from saltwisted.transports.reasons import why
from saltwisted.transports.turns import Line, in_turns

TICK = 0.5
PATIENCE = 0.05
"""Seconds for which what has ended waits for something else to write: each would be a transaction
of its own otherwise. Who is killed meanwhile knows that it had begun, and not that it has ended."""
PRUNE_EVERY = 60.0
MOST_WAITING = 100_000
"""Rows that wait for a disk that refuses."""


class IReceiptStore(Protocol):
    """The store of the rows; L{saltwisted.stores.claims.ClaimStore} is one."""

    def load(self) -> Deferred[Memory]:
        """Open the store, and read its rows."""

    def write(self, writes: Iterable[Write]) -> Deferred[None]:
        """Fires when it is on disk."""

    def receipts(self, event: str, limit: int) -> Deferred[Sequence[Receipt]]:
        """The newest, oldest first."""

    def prune(self, before: float) -> Deferred[int]:
        """Delete the receipts of what had ended by then."""

    def close(self) -> Deferred[None]:
        """No more."""


class ReceiptBook:
    """
    Reactor thread only.

    @param before: receipts of what ended before this time of day are deleted; C{None}: none.
    @ivar problem: why the disk does not accept receipts, or C{""}.
    """

    log = Logger()

    def __init__(
        self, clock: Any, store: IReceiptStore, before: Callable[[], float | None]
    ) -> None:
        self._clock, self._store, self._before = clock, store, before
        self.problem = ""
        self.is_open = False
        self.base = 0
        self._is_opening = self._is_busy = False
        self._rows: dict[int, Vote] = {}
        self._writing: dict[int, Vote] = {}
        self._urgent: list[Deferred[None]] = []
        self._told: Line[Deferred[None]] = Line(clock, lambda each: each.callback(None))
        self._idle: list[Deferred[None]] = []
        self._prune_at = 0.0
        self._loop: LoopingCall | None = None
        self._timer: Any = None
        # Whether more waits than what has ended
        self._is_pressing = False
        self._left: list[Callable[[Iterable[Vote]], None]] = []
        self._ticks: list[Callable[[], None]] = []

    # -- life

    def startService(self) -> Deferred[None]:
        """Fires when what earlier lives have left is read, or cannot be now."""
        opened = self._open()
        self._loop = LoopingCall(self._tick)
        self._loop.clock = self._clock
        let_go(self._loop.start(TICK, now=False), self.log, "receipts are no longer looked after")
        return opened

    async def stopService(self) -> None:
        """When all is written that the disk takes."""
        if self._loop is not None and self._loop.running:
            self._loop.stop()
        self._loop = None
        self._stop_waiting()
        self._write()
        while self._is_busy:
            idle: Deferred[None] = Deferred()
            self._idle.append(idle)
            await idle
        self._told.drain()
        if self.is_open:
            self.is_open = False
            await self._store.close()

    def _open(self) -> Deferred[None]:
        self._is_opening = True

        async def load() -> None:
            memory = await self._store.load()
            self.base = max([memory.number, *(vote.number for vote in memory.votes)])
            left = []
            async for vote in in_turns(self._clock, memory.votes):
                left.append(evolve(vote, number=vote.number - self.base))
            self.is_open, self.problem = True, ""
            for receiver in self._left:
                receiver(left)
            self._write()

        def opened(result: Any) -> None:
            self._is_opening = False
            if isinstance(result, Failure):
                self._refused(result)

        return Deferred.fromCoroutine(load()).addBoth(opened)

    def _refused(self, failure: Failure) -> None:
        failure.trap(StoreError)
        problem = why(failure)
        if problem != self.problem:
            self.problem = problem
            self.log.error(
                "receipts cannot be written, so what begins now is not known after a restart: "
                "{why}",
                why=problem,
            )

    def _tick(self) -> None:
        if not self.is_open:
            if not self._is_opening:
                let_go(self._open(), self.log, "receipts could not be read")
            return
        self._write()
        self._prune()
        for receiver in self._ticks:
            receiver()

    def _prune(self) -> None:
        now = self._clock.seconds()
        if now < self._prune_at:
            return
        self._prune_at = now + PRUNE_EVERY
        before = self._before()
        # What is too much is deleted in any case
        pruned = self._store.prune(before if before is not None else -1.0)
        let_go(pruned.addErrback(self._refused), self.log, "old receipts were not deleted")

    # -- IReceiptBook

    def on_left(self, receiver: Callable[[Iterable[Vote]], None]) -> None:
        """When it is open."""
        self._left.append(receiver)

    def on_tick(self, receiver: Callable[[], None]) -> None:
        """Twice a second."""
        self._ticks.append(receiver)

    def put(self, vote: Vote, is_urgent: bool = False) -> Deferred[None] | None:
        """On its way; while the disk refuses nobody waits for it."""
        self._rows[vote.number] = vote
        while len(self._rows) > MOST_WAITING:
            del self._rows[next(iter(self._rows))]
        on_disk: Deferred[None] | None = None
        if is_urgent and self.is_open and not self.problem:
            on_disk = Deferred()
            self._urgent.append(on_disk)
        self._is_pressing = self._is_pressing or is_urgent or vote.ended is None
        if not self.problem and not self._is_busy and self.is_open:
            self._write_within(0.0 if self._is_pressing else PATIENCE)
        return on_disk

    def _write_within(self, seconds: float) -> None:
        if self._timer is not None:
            if self._timer.getTime() <= self._clock.seconds() + seconds:
                return
            self._timer.cancel()
        self._timer = self._clock.callLater(seconds, self._write)

    def _stop_waiting(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()

    def _write(self) -> None:
        self._stop_waiting()
        if self._is_busy or not self._rows or not self.is_open:
            return
        self._writing, self._rows = self._rows, {}
        urgent, self._urgent = self._urgent, []
        self._is_busy, self._is_pressing = True, False
        rows = [
            Put(evolve(vote, number=self.base + vote.number)) for vote in self._writing.values()
        ]

        def written(_: None) -> None:
            self._writing = {}
            self.problem = ""

        def refused(failure: Failure) -> None:
            # What was put in the place of a row meanwhile is newer
            self._rows = {**self._writing, **self._rows}
            self._writing = {}
            self._refused(failure)

        def done(result: Any) -> Any:
            self._is_busy = False
            if not self.problem and self._rows:
                if self._is_pressing or self._loop is None:
                    self._write()
                else:
                    self._write_within(PATIENCE)
            elif self._urgent:
                urgent.extend(self._urgent)
                self._urgent = []
            idle, self._idle = self._idle, []
            for each in urgent:
                self._told.put(each)
            for each in idle:
                each.callback(None)
            return result

        d = self._store.write(rows).addCallbacks(written, refused).addBoth(done)
        let_go(d, self.log, "receipts were not written")

    def receipts(self, event: str, limit: int) -> Awaitable[Sequence[Receipt]]:
        """Those on disk, and those on their way to it."""
        return Deferred.fromCoroutine(self._receipts(event, limit))

    async def _receipts(self, event: str, limit: int) -> Sequence[Receipt]:
        found: dict[tuple[str, int], Receipt] = {}
        waiting = [*self._writing.values(), *self._rows.values()]
        on_disk = await self._store.receipts(event, limit) if self.is_open else await succeed(())
        for receipt in on_disk:
            found[receipt.key, receipt.term] = receipt
        for vote in waiting:
            known = found.get((vote.key, vote.term))
            # By now it may be on disk as something that has ended
            is_news = known is None or known.ended is None
            if is_news and (not event or globbed(vote.event, event)):
                found[vote.key, vote.term] = receipt_of(vote, node_of(vote.holder))
        return list(found.values())[-limit:]


_ReceiptBook: type[IReceiptBook] = ReceiptBook  # mypy compares them
