"""
Shares the turns of a reactor among all who have more to do than fits into one.

Lines of messages, results of threads, those who wait for a disk, and long loops each take a short
turn. When all of them are busy at once, their turns add up: each has its two milliseconds, and
whoever knocks at a port waits for the sum. So all that goes on in "the next turn" of a daemon's
reactor waits in one queue, and a turn of the reactor has one portion for it.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from time import thread_time
from typing import Any, Protocol

PORTION = 0.002
"""Seconds of the reactor thread's CPU in one turn, for all together."""

Call = Callable[[], object]


class Waiting(Protocol):
    """A call that has not come yet."""

    def cancel(self) -> None:
        """It does not come."""


class Turns(Protocol):
    """The turns of one clock."""

    @property
    def has_room(self) -> bool:
        """Whether something short may be done now, and need not wait for the next turn."""

    def later(self, call: Call) -> Waiting:
        """Call it in a later turn, behind those that wait already."""

    def left(self, portion: float) -> float:
        """How many seconds of CPU somebody has who begins now, and wants a portion."""

    def spent(self, seconds: float) -> None:
        """So much CPU was used by somebody who found room."""


class OwnTurns:
    """Turns that are not shared: each call has its own timer, and its own portion."""

    has_room = True

    def __init__(self, clock: Any) -> None:
        self._clock = clock

    def later(self, call: Call) -> Waiting:
        """In the clock's next turn."""
        waiting: Waiting = self._clock.callLater(0, call)
        return waiting

    def left(self, portion: float) -> float:
        """All of it."""
        return portion

    def spent(self, seconds: float) -> None:
        """Of no interest to anybody else."""


class _Place:
    """The place of one call in the queue."""

    __slots__ = ("call",)

    def __init__(self, call: Call) -> None:
        self.call: Call | None = call

    def cancel(self) -> None:
        """It stays in the queue, and nothing is called."""
        self.call = None


class SharedTurns:
    """
    One queue for all that waits for a turn of a reactor, first in, first out. Reactor thread only.

    Each turn calls some of those who wait, until they have used one portion together. Who has more
    to do asks for another turn, behind the others: nobody is left out, however much one has to do.
    """

    def __init__(self, clock: Any) -> None:
        self._clock = clock
        self._queue: deque[_Place] = deque()
        self._comes = self._runs = False
        self._end = 0.0
        self._spent = 0.0

    @property
    def has_room(self) -> bool:
        """
        Whether less than half a portion was used since the last turn that the queue had.

        What was used in turns before counts too: to wait for one turn too many costs nothing.
        """
        return self._runs or self._spent <= PORTION / 2

    def later(self, call: Call) -> Waiting:
        """Call it when those before have had their turns."""
        place = _Place(call)
        self._queue.append(place)
        self._schedule()
        return place

    def left(self, portion: float) -> float:
        """All of it, or what this turn of the queue has left."""
        return min(portion, self._end - thread_time()) if self._runs else portion

    def spent(self, seconds: float) -> None:
        """The next turn of the queue is shorter by it, but never by more than half."""
        if not self._runs:
            self._spent += seconds

    def _schedule(self) -> None:
        if self._queue and not self._comes and not self._runs:
            self._comes = True
            self._clock.callLater(0, self._run)

    def _run(self) -> None:
        self._comes, self._runs = False, True
        self._end = thread_time() + PORTION - min(self._spent, PORTION / 2)
        self._spent = 0.0
        try:
            # Who comes meanwhile waits for the next turn
            for _ in range(len(self._queue)):
                call = self._queue.popleft().call
                if call is not None:
                    call()
                    if thread_time() > self._end:
                        break
        finally:
            self._runs = False
            self._schedule()


_SHARED: dict[Any, SharedTurns] = {}
"""A process has one reactor, as long as it lives."""


SWITCH = 0.001
"""
Seconds after which a thread gives the interpreter to the reactor, if that waits. Each call that
lets go of the interpreter has to wait for it again, and to read and answer one message of ZeroMQ
takes six such calls: with Python's own 5 ms, a thread that unpacks 2 MB made others wait for 340.
"""


def share(reactor: Any) -> None:
    """
    All who ask for the turns of this reactor from now on share them, and threads of this process
    do not keep the interpreter from it for long.
    """
    sys.setswitchinterval(SWITCH)
    _SHARED.setdefault(reactor, SharedTurns(reactor))


def turns_of(clock: Any) -> Turns:
    """
    The turns of a reactor, or of a test's clock, where how much waits for each turn must not depend
    on how fast the machine is.
    """
    return _SHARED.get(clock) or OwnTurns(clock)
