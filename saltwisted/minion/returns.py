"""
Returns on their way to the master, from the disk until they are acknowledged.

C{worker.jobfiles.Outbox} stores them. This module sends them, a few at a time, the oldest first,
and repeats unacknowledged ones with growing pauses, for ever. Any answer that the channel can open
is an acknowledgement, as with stock. Only the names of waiting returns are in memory.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from random import Random
from typing import Any

from attrs import define, field
from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from saltwisted.errors import SaltwistedError
from saltwisted.words import are
from saltwisted.worker.jobfiles import Outbox, OutboxReturn

AT_ONCE = 8
"""Returns that are on the wire together."""

MOST = 50_000
"""Returns that are kept for a master that does not come back; then the oldest is dropped."""

LONGEST_PAUSE = 300.0
"""Seconds between two tries, at most; a connection that comes up ends every pause."""

Send = Callable[[dict[str, Any], str], Deferred[Any]]
"""C{send(load, via)}: fires when the master has acknowledged the return."""

Run = Callable[..., Deferred[Any]]
"""C{run(function, *args)}: in a thread."""


@define(eq=False)
class _Waiting:
    """
    One return.

    @ivar name: its file; for one that the disk refused a name that no file has.
    @ivar kept: itself, when it is at hand.
    @ivar due: not before this time.
    """

    name: str
    kept: OutboxReturn | None = field(default=None, repr=False)
    on_disk: bool = True
    tries: int = 0
    due: float = 0.0
    busy: bool = False


class Returns(Service):
    """
    Sends returns until they are acknowledged.

    @param outbox: the directory of returns.
    @param send: sends one to a master.
    @param run: for the disk.
    @param dice: for the pauses.
    @param pause: seconds before the first repetition, least and most (C{return_retry_timer},
        C{return_retry_timer_max}).
    """

    log = Logger()
    name = "returns"

    def __init__(
        self,
        clock: IReactorTime,
        outbox: Outbox,
        send: Send,
        run: Run,
        dice: Random,
        pause: tuple[float, float] = (5.0, 10.0),
    ) -> None:
        self._clock = clock
        self._outbox = outbox
        self._send = send
        self._run = run
        self._dice = dice
        self._pause = pause
        self._waiting: OrderedDict[str, _Waiting] = OrderedDict()
        self._busy = 0
        self._timer: IDelayedCall | None = None
        self._homeless = 0
        self._connected = False
        self.acknowledged = 0

    # -- life

    def startService(self) -> None:
        """Take up what an earlier daemon has left."""
        super().startService()
        for name in self._outbox.names():
            self.add(name)
        if self._waiting:
            self.log.info(
                "{returns} waiting for a master", returns=are(len(self._waiting), "return")
            )
        self._look()

    def stopService(self) -> None:
        """Send no more; returns on disk stay there."""
        super().stopService()
        self._connected = False
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None

    def connected(self) -> None:
        """A master is there (again): everything is due now."""
        self._connected = True
        for waiting in self._waiting.values():
            waiting.due = 0.0
            waiting.tries = 0
        self._look()

    def disconnected(self) -> None:
        """No master is there: wait for the next L{connected}."""
        self._connected = False

    # -- what waits

    def add(self, name: str, kept: OutboxReturn | None = None) -> None:
        """A return lies in the outbox under this name (C{kept} is it, if it is at hand)."""
        if name not in self._waiting:
            self._put(_Waiting(name, kept))

    def add_homeless(self, kept: OutboxReturn) -> None:
        """A return that the disk has refused: it lives as long as this process."""
        self._homeless += 1
        self._put(_Waiting(f"memory-{self._homeless}", kept, on_disk=False))

    def rescan(self) -> None:
        """Look for returns that jobs have left without telling us."""
        for name in self._outbox.names():
            self.add(name)

    def has(self, jid: str) -> bool:
        """Whether a return of this job waits."""
        return any(name.partition("_")[2] == jid for name in self._waiting)

    def __len__(self) -> int:
        return len(self._waiting)

    def _put(self, waiting: _Waiting) -> None:
        while len(self._waiting) >= MOST:
            gone, oldest = self._waiting.popitem(last=False)
            self.log.error(
                "more than {most} returns are waiting for a master: the oldest, {name}, is dropped",
                most=MOST,
                name=gone,
            )
            if oldest.on_disk:
                self._outbox.remove(gone)
        self._waiting[waiting.name] = waiting
        self._look()

    def _look(self) -> None:
        """Send what is due, and come back when the next is."""
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None
        if not self.running or not self._connected:
            return
        now = self._clock.seconds()
        soonest: float | None = None
        for waiting in list(self._waiting.values()):
            if self._busy >= AT_ONCE:
                return
            if waiting.busy:
                continue
            if waiting.due <= now:
                self._begin(waiting)
            elif soonest is None or waiting.due < soonest:
                soonest = waiting.due
        if soonest is not None and self._timer is None:
            self._timer = self._clock.callLater(max(soonest - now, 0.01), self._look)

    def _begin(self, waiting: _Waiting) -> None:
        waiting.busy = True
        self._busy += 1
        done = Deferred.fromCoroutine(self._try(waiting))
        _ = done.addErrback(
            lambda failure: self.log.failure("return {name}", failure=failure, name=waiting.name)
        )

    async def _try(self, waiting: _Waiting) -> None:
        acknowledged = False
        try:
            kept = waiting.kept
            if kept is None:
                kept = await self._run(self._outbox.read, waiting.name)
            if kept is not None:
                await self._send(kept.load, kept.via)
                self.acknowledged += 1
            acknowledged = True
            if waiting.on_disk:
                await self._run(self._outbox.remove, waiting.name)
        except (SaltwistedError, OSError) as error:
            self.log.info(
                "return {name} is not acknowledged yet: {error}",
                name=waiting.name,
                error=str(error)[:200],
            )
        finally:
            self._busy -= 1
            waiting.busy = False
            if acknowledged:
                self._waiting.pop(waiting.name, None)
            else:
                self._later(waiting)
            self._look()

    def _later(self, waiting: _Waiting) -> None:
        """Try again after a pause; what is on disk need not be in memory meanwhile."""
        if waiting.on_disk:
            waiting.kept = None
        longest = max(self._pause[1], LONGEST_PAUSE)
        pause = min(self._dice.uniform(*self._pause) * 2 ** min(waiting.tries, 10), longest)
        waiting.tries += 1
        waiting.due = self._clock.seconds() + pause
