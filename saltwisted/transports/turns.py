"""
Long loops in the reactor thread, in short turns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator
from time import perf_counter, thread_time
from typing import Any, Generic, TypeVar

from twisted.internet.defer import Deferred

from saltwisted.turns import PORTION as WHOLE
from saltwisted.turns import Waiting, turns_of

T = TypeVar("T")

PORTION = WHOLE
"""Seconds of the reactor thread's CPU for a loop in one turn, if it is alone in that turn."""


def pause(clock: Any) -> Deferred[None]:
    """Fires in a later turn of the reactor."""
    done: Deferred[None] = Deferred()
    turns_of(clock).later(lambda: done.callback(None))
    return done


async def in_turns(clock: Any, items: Iterable[T]) -> AsyncIterator[T]:
    """The same items, with a turn of the reactor in between whenever one has lasted long enough."""
    turns = turns_of(clock)
    left = turns.left(PORTION)
    soonest, until = perf_counter() + left, thread_time() + left
    for item in items:
        yield item
        # The kernel is asked for CPU time; a thread cannot have used more of it than has passed
        if perf_counter() > soonest and thread_time() > until:
            await pause(clock)
            left = turns.left(PORTION)
            soonest, until = perf_counter() + left, thread_time() + left


class _Steps(Generic[T]):
    """The steps of a generator, and what it returns at their end."""

    value: T

    def __init__(self, steps: Generator[None, None, T]) -> None:
        self._steps = steps

    def __iter__(self) -> Iterator[None]:
        self.value = yield from self._steps


async def stepped(clock: Any, steps: Generator[None, None, T]) -> T:
    """What a generator returns, each step of which is short, in as many turns as they take."""
    all_of_them = _Steps(steps)
    async for _ in in_turns(clock, all_of_them):
        pass
    return all_of_them.value


class Line(Generic[T]):
    """
    A queue for things that arrive by themselves, several in one turn of the reactor. Each is
    processed at once while that is short; the others wait for the next turns, in order.

    @param work: processes one thing; it must not fail.
    @param standing: called with C{True} when things begin to wait, and with C{False} when none
        waits.
    @ivar portion: seconds of CPU in one turn; C{None} for half of L{PORTION}, because there are
        several queues, and they share the turns.
    """

    def __init__(
        self,
        clock: Any,
        work: Callable[[T], object],
        standing: Callable[[bool], object] = lambda stands: None,
    ) -> None:
        self._turns = turns_of(clock)
        self._work = work
        self._standing = standing
        self._things: deque[T] = deque()
        self._call: Waiting | None = None
        self._busy = self._stands = self._ended = False
        self._used = 0.0
        self.portion: float | None = None

    def __len__(self) -> int:
        return len(self._things)

    @property
    def rests(self) -> bool:
        """Whether there is anything to be done."""
        return bool(self._things)

    def _step(self) -> None:
        """Do the next piece of it."""
        self._work(self._things.popleft())

    def put(self, thing: T) -> None:
        """Work on it now, or behind those that came before."""
        if self._ended:
            return
        self._things.append(thing)
        if not self._busy and self._call is None:
            # What was used in earlier turns counts too: a turn more now and then costs nothing
            self._go(self._used <= self._portion and self._turns.has_room)

    @property
    def _portion(self) -> float:
        return PORTION / 2 if self.portion is None else self.portion

    def drain(self) -> None:
        """Process everything that waits: nothing more arrives."""
        while self.rests and not self._busy:
            self._step()
        self._settle()

    def stop(self) -> None:
        """Work on nothing more, nor on what still comes."""
        self._ended = True
        self._things.clear()
        self._settle()

    def _next(self) -> None:
        self._call, self._used = None, 0.0
        self._go(True)

    def _go(self, goes: bool) -> None:
        began = now = thread_time()
        self._busy, until = True, began + self._turns.left(self._portion - self._used)
        try:
            while goes and self.rests:
                self._step()
                now = thread_time()
                goes = now <= until
        finally:
            self._busy = False
            self._used += now - began
            self._turns.spent(now - began)
            self._settle()

    def _settle(self) -> None:
        """The rest waits for the next turn; whoever brings more is told so."""
        rests = self.rests
        if rests and self._call is None:
            self._call = self._turns.later(self._next)
        elif not rests and self._call is not None:
            self._call.cancel()
            self._call = None
        if self._stands != rests:
            self._stands = not self._stands
            self._standing(self._stands)


class LongLine(Line[T]):
    """
    A line of things of which each takes as many turns as it needs: the next one begins when it is
    done.

    @ivar _work: gives the steps of one thing; a step is short, and must not fail.
    """

    _work: Callable[[T], Iterator[object]]

    def __init__(
        self,
        clock: Any,
        work: Callable[[T], Iterator[object]],
        standing: Callable[[bool], object] = lambda stands: None,
    ) -> None:
        super().__init__(clock, work, standing)
        self._steps: Iterator[object] | None = None

    @property
    def rests(self) -> bool:
        return self._steps is not None or bool(self._things)

    def _step(self) -> None:
        if self._steps is None:
            self._steps = iter(self._work(self._things.popleft()))
        try:
            next(self._steps)
        except StopIteration:
            self._steps = None
        except BaseException:
            self._steps = None
            raise

    def stop(self) -> None:
        """Work on nothing more, nor on what has begun."""
        self._steps = None
        super().stop()
