"""
Costs of work, measured so that a busy machine does not matter.

What is compared is the CPU of this thread (C{time.thread_time}, the least of several runs) between
two sizes of input in one process. If work is linear, an input sixteen times as large costs sixteen
times as much: the exponent is 1. The memory of work is counted by C{tracemalloc}.
"""

from __future__ import annotations

import gc
import math
import tracemalloc
from collections.abc import Callable, Iterable, Mapping
from time import thread_time
from typing import Any

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

STEEPEST = 1.3
"""The largest exponent of work that counts as linear."""
STEEPEST_BEYOND_CACHES = 1.45
"""The same above L{CACHES} bytes: what becomes of so much no longer fits into the processor's
caches, and each access to it takes several times as long."""
CACHES = 1 << 20
FACTOR = 16
TIMES = 5
NOISE = 0.0004
"""Seconds of CPU that are added to both costs: what costs less cannot be told apart."""


def least(act: Callable[[], object], times: int = TIMES, enough: float = 0.25) -> float:
    """
    The least CPU of this thread that something took, in seconds.

    What takes longer than C{enough} is not repeated: noise is small beside it.
    """
    best = math.inf
    was_on = gc.isenabled()
    gc.disable()
    # Collections between the runs look at what the runs have left, and at nothing older
    gc.freeze()
    try:
        for _ in range(times):
            began = thread_time()
            act()
            best = min(best, thread_time() - began)
            gc.collect()
            if best > enough:
                break
    finally:
        gc.unfreeze()
        if was_on:
            gc.enable()
    return best


REFERENCE = 0.00055
"""Seconds of CPU that L{slack} takes for its piece of work on a processor of 3 GHz at rest."""


def slack() -> float:
    """
    How much longer than a row says something may take here and now: twice as long, and more where
    this machine is slower, or so busy that its caches are others'.
    """
    taken = least(lambda: {str(n): [n] for n in range(5000)}, times=3)
    return 2 * max(1.0, taken / REFERENCE)


def exponent(small: float, large: float, factor: float = FACTOR) -> float:
    """How steeply the cost grows between two sizes: 1 is linear, 2 quadratic."""
    return math.log((large + NOISE) / (small + NOISE)) / math.log(factor)


def steepness(costs: Mapping[int, float], size: int) -> float:
    """
    How steeply the cost has grown up to a size, from what the dearest of the smaller ones lets
    expect: a size that is refused at its beginning costs next to nothing, and says nothing.
    """
    part = size // FACTOR
    expected = max(cost * part / small for small, cost in costs.items() if small <= part)
    return exponent(expected, costs[size])


def peak(act: Callable[[], object], times: int = 1) -> int:
    """
    The most bytes that Python allocated at one moment, above what was there before.

    @param times: runs, of which the least counts: in one of them a table that all share may happen
        to grow, such as that of interned names.
    """
    least_of_all = -1
    for _ in range(times):
        gc.collect()
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            act()
            used = tracemalloc.get_traced_memory()[1] - before
        finally:
            tracemalloc.stop()
        least_of_all = used if least_of_all < 0 else min(least_of_all, used)
    return least_of_all


class Turned(Clock):
    """
    A clock whose calls are made one by one, each measured: what a reactor does in its turns.

    @ivar longest: the most CPU of one call, in seconds.
    @ivar turns: how many calls were made.
    """

    def __init__(self) -> None:
        super().__init__()
        self.longest = 0.0
        self.turns = 0

    def measure(self, act: Callable[[], Any]) -> Any:
        """
        Do something as one callback of the reactor. No collection falls into it: here one looks
        at all that other tests have left, while a daemon freezes what has survived.
        """
        was_on = gc.isenabled()
        gc.disable()
        began = thread_time()
        try:
            return act()
        finally:
            self.longest = max(self.longest, thread_time() - began)
            self.turns += 1
            if was_on:
                gc.enable()

    def settle(self, until: Callable[[], bool] = lambda: False, most: int = 1_000_000) -> None:
        """Make all calls that are due now, and those that they ask for, until there are none."""
        for _ in range(most):
            due = [call for call in self.calls if call.getTime() <= self.seconds()]
            if not due or until():
                return
            call = min(due, key=self.calls.index)
            self.calls.remove(call)
            call.called = 1
            self.measure(lambda call=call: call.func(*call.args, **call.kw))
        raise AssertionError("it does not come to an end")


def assert_linear(
    test: SynchronousTestCase,
    name: str,
    make: Callable[[int], Any],
    act: Callable[[Any], object],
    sizes: Iterable[int],
    per_kib: float = math.inf,
) -> None:
    """
    Work on what C{make} gives costs in proportion to its size.

    @param make: an input of about so many bytes.
    @param act: what the door does with it, whatever the outcome; called anew for each run.
    @param sizes: bytes; all pairs of which one is L{FACTOR} times the other are compared.
    @param per_kib: microseconds of CPU that a KiB may cost at the largest size, on a machine at
        rest.
    """
    costs: dict[int, float] = {}
    for size in sorted(sizes):
        data = make(size)
        costs[size] = least(lambda data=data: act(data))
        steepest = STEEPEST if size <= CACHES else STEEPEST_BEYOND_CACHES
        if size // FACTOR in costs and (found := steepness(costs, size)) > steepest:
            test.fail(
                f"{name}: {costs[size] * 1000:.2f} ms for {size} bytes, "
                f"exponent {found:.2f}: {costs}"
            )
    largest = max(costs)
    found = (costs[largest] - NOISE) * 1e6 / max(1.0, largest / 1024)
    if found > per_kib and found > per_kib * slack():
        test.fail(f"{name}: {found:.0f} microseconds a KiB at {largest} bytes")
