"""
Calls to one entry, which a few children take one after another.
"""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Callable
from typing import Any

import msgpack
from attrs import define, field, frozen
from twisted.internet.defer import Deferred
from twisted.logger import Logger, LogLevel
from twisted.python.failure import Failure

from saltwisted.errors import RemoteError
from saltwisted.transports.children import Child, Exit, plain
from saltwisted.transports.ipc import Handler, PeerProcess

LONGEST = 16_384
"""Characters of one log line of a child."""
LEVELS = (
    (50, LogLevel.critical),
    (40, LogLevel.error),
    (30, LogLevel.warn),
    (20, LogLevel.info),
    (0, LogLevel.debug),
)
"""From which number on, by the C{logging} module, a line has which level."""


@frozen(kw_only=True)
class PoolLimits:
    """
    The limits of the pool of one entry.

    @ivar size: children at most.
    @ivar calls: calls after which a child is replaced.
    @ivar age: seconds after which it is replaced.
    @ivar idle: seconds without work after which a child is ended.
    @ivar keep: children that stay even when idle.
    @ivar queue: calls that may wait; further ones are refused.
    @ivar rest: seconds without children after which a parent that rests lets go what it has
        imported for them, if not after the time for all.
    """

    size: int = 2
    calls: int = 1000
    age: float = 3600.0
    idle: float = 30.0
    keep: int = 0
    queue: int = 10000
    rest: float | None = None


@define(eq=False)
class Call:
    """One call of a pool: waiting, or running in a child."""

    payload: bytes = field(repr=False)
    result: Deferred[Any]
    timer: Any = None
    child: Pooled | None = None


@define(eq=False)
class Pooled:
    """A pooled child: it has a call, or waits for one (its request C{work} is unanswered)."""

    child: Child
    born: float
    calls: int = 0
    call: Call | None = None
    asking: Deferred[Any] | None = None
    stale: bool = False
    timer: Any = None
    site: str = ""


class CallPool:
    """
    The pooled children of one entry, and the calls that wait for them.

    @param spawn: creates a child whose requests go to a handler.
    @param handler: answers the requests of children, except those for work and their log lines,
        which become lines of the daemon's log.
    """

    log = Logger()

    def __init__(
        self,
        clock: Any,
        entry: str,
        limits: PoolLimits,
        spawn: Callable[[Handler], Child],
        handler: Handler,
    ) -> None:
        self._clock = clock
        self._entry = entry
        self._spawn = spawn
        self._limits = limits
        self._handler = handler
        self._queue: deque[Call] = deque()
        self._workers: set[Pooled] = set()

    @property
    def waiting(self) -> int:
        """Calls that no child has taken yet."""
        return len(self._queue)

    def call(self, payload: Any, timeout: float) -> Deferred[Any]:
        """A call of the entry; see L{saltwisted.transports.workers.WarmPool.call}."""
        if len(self._queue) >= self._limits.queue:
            failure = RemoteError("WorkerBusy", f"{len(self._queue)} calls are already waiting")
            return _failed(failure)
        packed = msgpack.packb(payload, use_bin_type=True, default=plain)
        call = Call(packed, Deferred(lambda _: self._forget(call)))
        call.timer = self._clock.callLater(timeout, self._too_long, call, timeout)
        self._queue.append(call)
        self._feed()
        return call.result

    def recycle(self) -> None:
        """Let every child go when it has no call; new ones are made when needed."""
        for worker in list(self._workers):
            worker.stale = True
            if worker.asking is not None:
                self._dismiss(worker)
        self._feed()

    def stop(self) -> None:
        """Fail the calls that wait; the children end when their sockets do."""
        calls = [*self._queue, *(w.call for w in self._workers if w.call is not None)]
        self._queue.clear()
        for worker in self._workers:
            worker.call = None
            self._quiet(worker)
        self._workers.clear()
        for call in calls:
            self._finish(call, RemoteError("WorkerDied", "the daemon is stopping"))

    def _feed(self) -> None:
        """Give waiting calls to idle children, and make children for the rest."""
        for worker in list(self._workers):
            if not self._queue:
                return
            if worker.asking is not None:
                self._give(worker)
        unborn = sum(1 for w in self._workers if w.call is None and w.asking is None)
        while len(self._workers) < self._limits.size and unborn < len(self._queue):
            self._hire()
            unborn += 1

    def _hire(self) -> None:
        async def child_said(op: str, args: dict[str, Any], peer: PeerProcess, stream: Any) -> Any:
            if op == "work":
                return await self._work(worker, args)
            if op == "begins":
                worker.site = str(args.get("path"))[:300]
                return None
            if op == "log":
                self._logged(args)
                return None
            return await self._handler(op, args, peer, stream)

        child = self._spawn(child_said)
        worker = Pooled(child, self._clock.seconds())
        self._workers.add(worker)
        _ = child.exited.addCallback(self._exited, worker)

    def _logged(self, args: dict[str, Any]) -> None:
        number, source = int(args.get("level", 20)), str(args.get("name", ""))[:200]
        self.log.emit(
            next((level for least, level in LEVELS if number >= least), LogLevel.debug),
            "{source}: {text}",
            source=source,
            text=str(args.get("message", ""))[:LONGEST],
        )

    def _work(self, worker: Pooled, args: dict[str, Any]) -> Deferred[Any]:
        """A child brings a result, if it had a call, and asks for the next."""
        call, worker.call = worker.call, None
        if call is not None:
            error = args.get("error")
            if error is None:
                self._finish(call, args.get("value"))
            else:
                self._finish(call, RemoteError(**error))
        asking: Deferred[Any] = Deferred()
        worker.asking = asking
        age = self._clock.seconds() - worker.born
        if args.get("harm"):
            self.log.warn(
                "a worker process of {entry} ends: {harm}",
                entry=self._entry,
                harm=str(args["harm"])[:1000],
            )
            self._dismiss(worker)
            self._feed()
        elif worker not in self._workers or worker.stale:
            self._dismiss(worker)
        elif worker.calls >= self._limits.calls or age > self._limits.age:
            self._dismiss(worker)
            self._feed()
        elif self._queue:
            self._give(worker)
        else:
            worker.timer = self._clock.callLater(self._limits.idle, self._idle, worker)
        return asking

    def _give(self, worker: Pooled) -> None:
        self._quiet(worker)
        call = self._queue.popleft()
        call.child = worker
        worker.call = call
        worker.calls += 1
        asking, worker.asking = worker.asking, None
        assert asking is not None
        asking.callback(call.payload)

    def _idle(self, worker: Pooled) -> None:
        worker.timer = None
        if len(self._workers) > self._limits.keep:
            self._dismiss(worker)
        else:
            worker.timer = self._clock.callLater(self._limits.idle, self._idle, worker)

    def _dismiss(self, worker: Pooled) -> None:
        """Tell an idle child to end."""
        self._quiet(worker)
        self._workers.discard(worker)
        asking, worker.asking = worker.asking, None
        if asking is not None:
            asking.callback(None)

    def _quiet(self, worker: Pooled) -> None:
        timer, worker.timer = worker.timer, None
        if timer is not None and timer.active():
            timer.cancel()

    def _exited(self, how: Exit, worker: Pooled) -> None:
        self._quiet(worker)
        expected = worker not in self._workers
        self._workers.discard(worker)
        call, worker.call = worker.call, None
        site = f"; the last file of the site's own that it executed is {worker.site}"
        ended = f"{how}{site if worker.site else ''}"
        if call is not None:
            self._finish(call, RemoteError("WorkerDied", f"the worker process {ended}"))
        if not expected:
            self.log.warn("a worker process of {entry} {how}", entry=self._entry, how=ended)
            if call is None and self._queue and worker.calls == 0:
                # It died before its first question; its successor may do the same.
                self._finish(
                    self._queue.popleft(), RemoteError("WorkerDied", f"the worker process {ended}")
                )
        self._feed()

    def _too_long(self, call: Call, seconds: float) -> None:
        call.timer = None
        error = RemoteError("WorkerTimeout", f"no answer within {seconds:g} s")
        worker = call.child
        if worker is None:
            self._forget(call)
        elif worker.call is call:
            worker.call = None
            self._workers.discard(worker)
            worker.child.kill(signal.SIGKILL)
        self._finish(call, error)
        self._feed()

    def _forget(self, call: Call) -> None:
        if call in self._queue:
            self._queue.remove(call)
        if call.timer is not None and call.timer.active():
            call.timer.cancel()

    def _finish(self, call: Call, value: Any) -> None:
        if call.timer is not None and call.timer.active():
            call.timer.cancel()
        call.timer = None
        if call.result.called:
            return
        if isinstance(value, RemoteError):
            call.result.errback(Failure(value))
        else:
            call.result.callback(value)


def _failed(error: Exception) -> Deferred[Any]:
    d: Deferred[Any] = Deferred()
    d.errback(Failure(error))
    return d
