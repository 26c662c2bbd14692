"""
A service whose parts start one after another and stop in reverse.

Twisted's L{MultiService} starts its children without waiting for them and
stops them all at once. A daemon needs the opposite: keys before sockets, and
sockets closed before stores are flushed. Nothing here knows what the parts do.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from inspect import isawaitable
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred, TimeoutError
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import ILogObserver, Logger

from saltwisted.errors import SaltwistedError
from saltwisted.roles.notify import ServiceManager
from saltwisted.transports.deferreds import let_go
from saltwisted.worker.process import stackdump

SETTLE = 10.0
"""Seconds after which it is told how often lines came again."""


async def _settle(value: Any) -> None:
    """Wait for whatever a part's start or stop gave back: a Deferred, a coroutine, or nothing."""
    if isawaitable(value):
        await value


class OrderedService(Service):
    """
    Starts C{parts} in order, each when the previous one is up, and stops them in reverse.

    A part that fails to start stops those already started, and then C{failed} is
    called with the failure (the daemon says why, and ends). Each part gets at most
    C{deadline} seconds to stop, and all together C{within}; one that takes longer is named in
    the log and left. C{stopService} may be called at any time, also twice and during the start.
    """

    log = Logger()

    def __init__(
        self,
        clock: IReactorTime,
        parts: Sequence[Any],
        failed: Callable[[BaseException], None],
        started: Callable[[], None] | None = None,
        deadline: float = 5.0,
        observer: Any = None,
        reload: Callable[[], Any] | None = None,
        within: float = 8.0,
        inner: bool = False,
    ) -> None:
        """
        @param clock: the reactor.
        @param failed: called when a part did not start, after the others have stopped.
        @param started: called when all are up: the daemon can serve now.
        @param deadline: seconds that one part may take to stop.
        @param observer: a log observer that twistd is to use instead of its own.
        @param reload: what SIGHUP means: reads the configuration again; its result is a line
            for the service manager. Without it SIGHUP means nothing.
        @param within: seconds that the whole stop may take.
        @param inner: a part of a daemon, not the daemon: signals and the service manager are
            somebody else's.
        """
        self._reload = reload
        self._within = within
        self._reloading = False
        self._again = False
        self._manager = None if inner else ServiceManager(clock)
        self._observer = observer
        self._clock = clock
        self._parts = list(parts)
        self._failed = failed
        self._started = started
        self._deadline = deadline
        self._settling: Any = None
        self._up: list[Any] = []
        self._starting: Deferred[None] | None = None
        self._stopping: Deferred[None] | None = None

    def setServiceParent(self, parent: Any) -> None:
        """Also hand our log observer to the application, which twistd asks for one."""
        Service.setServiceParent(self, parent)
        if self._observer is not None and hasattr(parent, "setComponent"):
            parent.setComponent(ILogObserver, self._observer)

    def privilegedStartService(self) -> None:
        """Before the reactor runs and privileges drop: parts that bind or fork early."""
        for part in self._parts:
            early = getattr(part, "privilegedStartService", None)
            if early is not None:
                early()

    def startService(self) -> Deferred[None]:
        """Start the parts; the Deferred fires when all are up or the start was given up."""
        Service.startService(self)
        call = getattr(self._clock, "callFromThread", None)
        if call is not None and self._manager is not None:
            # SIGHUP ends a process that does not expect it: we do from here on
            signal.signal(signal.SIGHUP, lambda number, frame: call(self.reload))
            stackdump.install(lambda line: call(self._say, line))
        if hasattr(self._observer, "settle"):
            self._settling = LoopingCall(lambda: self._observer.settle(time.time()))
            self._settling.clock = self._clock
            let_go(self._settling.start(SETTLE, now=False), self.log, "repetitions are not told")
        self._starting = Deferred.fromCoroutine(self._start())
        return self._starting

    def _say(self, line: str) -> None:
        self.log.info("{line}", line=line, always=True)

    async def _start(self) -> None:
        for part in self._parts:
            if not self.running:
                return
            try:
                self._up.append(part)
                await _settle(part.startService())
            except Exception as error:
                if not self.running:
                    # It was stopped under way: that is not a failure of the start
                    self.log.debug("{part} was stopped while it started", part=_name(part))
                    return
                if isinstance(error, SaltwistedError):
                    self.log.error("{part} did not start: {error}", part=_name(part), error=error)
                else:
                    self.log.failure("{part} did not start", part=_name(part))
                await self._stop_parts()
                self._failed(error)
                return
        if self.running:
            if self._started is not None:
                self._started()
            if self._manager is not None:
                self._manager.ready()

    def reload(self) -> None:
        """Read the configuration again, after the reading that is under way if there is one."""
        if self._reload is None or self._manager is None or not self.running:
            return
        if self._reloading:
            self._again = True
            return
        self._reloading = True
        self._manager.reloading()
        let_go(
            self._do_reload(self._reload, self._manager),
            self.log,
            "the configuration could not be read again",
        )

    async def _do_reload(self, read: Callable[[], Any], manager: ServiceManager) -> None:
        text = ""
        try:
            text = str(await read())
        finally:
            self._reloading = False
            if self.running:
                manager.ready()
                manager.status(text)
                if self._again:
                    self._again = False
                    self.reload()

    def stopService(self) -> Deferred[None]:
        """Stop the parts in reverse; fires when all have stopped or run out of time."""
        if self._stopping is None:
            Service.stopService(self)
            if self._manager is not None:
                self._manager.stopping()
            self._stopping = Deferred.fromCoroutine(self._stop_parts())
        d: Deferred[None] = Deferred()

        def stopped(_: Any) -> None:
            d.callback(None)

        let_go(self._stopping.addBoth(stopped), self.log, "the end of the stop was lost")
        return d

    async def _stop_parts(self) -> None:
        try:
            await self._stop_each()
        finally:
            if self._settling is not None:
                settling, self._settling = self._settling, None
                settling.stop()
                self._observer.settle(time.time(), everything=True)

    async def _stop_each(self) -> None:
        end = self._clock.seconds() + self._within
        while self._up:
            part = self._up.pop()
            # The last ones flush stores: they get a moment even when the others took it all
            seconds = min(self._deadline, max(0.5, end - self._clock.seconds()))
            try:
                waiting = Deferred.fromCoroutine(_settle(part.stopService()))
                await waiting.addTimeout(seconds, self._clock)
            except TimeoutError:
                self.log.error(
                    "{part} did not stop within {seconds:.1f} s",
                    part=_name(part),
                    seconds=seconds,
                )
            except Exception:
                self.log.failure("{part} failed to stop", part=_name(part))


def _name(part: Any) -> str:
    return str(getattr(part, "name", None) or type(part).__name__)
