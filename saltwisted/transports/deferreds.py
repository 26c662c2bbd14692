"""
Deferreds for which nobody waits: a failure is logged, never lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Generic, TypeVar

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from saltwisted.errors import SaltwistedError
from saltwisted.transports.reasons import why

T = TypeVar("T")


def let_go(
    waiting: Deferred[Any] | Coroutine[Any, Any, Any], log: Logger, words: str, **fields: Any
) -> None:
    """
    Want nothing back from C{waiting}; a failure is logged with these words.

    @param words: the log format, with C{fields} in it.
    """
    d = waiting if isinstance(waiting, Deferred) else Deferred.fromCoroutine(waiting)

    def failed(failure: Failure) -> None:
        if failure.check(CancelledError) is None:
            log.failure(words, failure=failure, **fields)

    d.addErrback(failed)  # type: ignore[unused-awaitable]


class OneByOne(Generic[T]):
    """
    Things that are worked on one after the other, in the order in which they come. Reactor thread
    only.

    One that fails is logged, and the next is begun all the same: what waits never depends on
    something more coming.

    @param work: does what one thing asks for.
    @param words: what the log says of one that failed.
    """

    def __init__(self, work: Callable[[T], Awaitable[object]], log: Logger, words: str) -> None:
        self._work = work
        self._log = log
        self._words = words
        self._things: deque[T] = deque()
        self._is_busy = False

    def __len__(self) -> int:
        return len(self._things)

    def put(self, thing: T) -> None:
        """Work on it now, or after those that came before."""
        self._things.append(thing)
        if not self._is_busy:
            self._is_busy = True
            let_go(self._go(), self._log, self._words)

    def clear(self) -> None:
        """Forget those that nothing was done for yet."""
        self._things.clear()

    async def _go(self) -> None:
        try:
            while self._things:
                try:
                    await self._work(self._things.popleft())
                except CancelledError:
                    continue
                except Exception:
                    self._log.failure(self._words)
        finally:
            self._is_busy = False


def to_its_end(
    work: Coroutine[Any, Any, Any], log: Logger, words: str, **fields: Any
) -> Deferred[Any]:
    """
    Fires with the result of C{work}. Cancelling it ends only the waiting, not the work: data that
    others rely on is written completely, or not at all. If the work fails after that, the log says
    so.

    @param words: the log format, with C{fields} in it.
    """
    mine: Deferred[Any] = Deferred()

    def done(result: Any) -> None:
        if not mine.called:
            mine.callback(result)
        elif isinstance(result, Failure) and result.check(SaltwistedError):
            log.warn(words + ": {error}", error=why(result), **fields)
        elif isinstance(result, Failure):
            log.failure(words, failure=result, **fields)

    Deferred.fromCoroutine(work).addBoth(done)  # type: ignore[unused-awaitable]
    return mine


async def wait_for(waiting: Awaitable[Any]) -> Any:
    """A coroutine that waits for anything that can be awaited."""
    return await waiting


def as_deferred(waiting: Any) -> Deferred[Any]:
    """A Deferred for a Deferred, a coroutine or any other awaitable."""
    if isinstance(waiting, Deferred):
        return waiting
    return Deferred.fromCoroutine(wait_for(waiting))


async def all_within(
    clock: Any,
    seconds: float,
    waiting: Iterable[Deferred[Any]],
    given_up: Callable[[], Any] = lambda: None,
    look: float = 0.25,
) -> bool:
    """
    Wait until all of these have fired, or the time is over. Nothing is cancelled.

    @param given_up: called every C{look} seconds; returns whether it makes no sense to wait any
        longer.
    @return: whether all have fired.
    """
    left = [work for work in waiting if not work.called or work.paused]
    count = [len(left)]
    done: Deferred[None] = Deferred()

    def fired(result: Any) -> Any:
        count[0] -= 1
        if not count[0] and not done.called:
            done.callback(None)
        return result

    for work in left:
        work.addBoth(fired)  # type: ignore[unused-awaitable]
    if not count[0]:
        return True
    end = clock.seconds() + seconds
    timers: list[Any] = []

    def again() -> None:
        if clock.seconds() >= end or given_up():
            done.callback(None)
        else:
            timers[:] = [clock.callLater(min(look, max(end - clock.seconds(), 0.001)), again)]

    timers.append(clock.callLater(min(look, seconds), again))
    try:
        await done
    finally:
        if timers[0].active():
            timers[0].cancel()
    return not count[0]


def awaited(got: Any) -> Any:
    """What a coroutine or a Deferred will come to, as a Deferred; anything else is that already."""
    return as_deferred(got) if hasattr(got, "__await__") else got
